"""The study of Delen: every figure has its part, verdicts follow the numbers, the data is what it says."""

import copy
import functools
from typing import Any

import numpy as np
import pytest

from fluidnpu.models.zoo import skeleton
from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import Size, run_study, study_files
from fluidnpu.studies.delen import shares
from fluidnpu.studies.delen.energy import compare_constrained
from fluidnpu.studies.delen.heads import architecture, head_macs, head_times
from fluidnpu.studies.delen.modes import MODES, criterion_of
from fluidnpu.studies.delen.recording import digits, split
from fluidnpu.studies.delen.settings import FULL_MS, NETWORKS, RATE, RATES, THRESHOLD, profile, samples, table
from fluidnpu.studies.delen.study import STUDY
from fluidnpu.studies.delen.verdicts import verdicts
from fluidnpu.studies.statements import AGREES, DIFFERS, PARTLY, UNTESTED, Verdict

TINY = Size(seeds=2, requests=600)
Body = dict[str, Any]


@pytest.fixture(scope="module")
def done() -> Body:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "FLOOD_S", 8)
        patch.setattr(shares, "PHASE_S", 6)
        patch.setattr("fluidnpu.studies.delen.energy.SPLITS", 4)
        return run_study(STUDY, TINY, HERE, lambda at, of: None)


def test_every_figure_has_its_part(done: Body) -> None:
    parts = done["parts"]
    figures = {"Table 1", "Table 3", "Fig. 3", "Fig. 8", "Fig. 9", "Fig. 10", "Fig. 13", "Figs. 14, 15", "Fig. 16"}
    assert set(parts) == figures | {"modes", "isolation", "guarantee"}
    assert set(parts["modes"]) == {f"{mode}, {rate}" for mode in MODES for rate in RATES}


def test_all_files_render_and_stand_alone(done: Body) -> None:
    files = dict(study_files(STUDY, done, "fluidnpu simulate --study delen"))
    assert set(files) >= {"study.json", "summary.json", "report.html", "statements.md", "tables.md"}
    for text in (" src=", "<script", "<link", "url(http"):
        assert text not in files["report.html"]
    assert files["report.html"].count('class="verdict') >= len(verdicts(done))
    assert "modelled" in files["tables.md"]


def test_two_runs_are_the_same(done: Body) -> None:
    again = STUDY.tasks(TINY)
    task = next(one for one in again if (one.part, one.key) == ("modes", f"either, {RATE}"))
    assert task() == done["parts"]["modes"][f"either, {RATE}"]


def test_all_modes_meet_the_same_samples_and_the_oracle_bounds_them(done: Body) -> None:
    for rate in RATES:
        oracle = done["parts"]["modes"][f"oracle, {rate}"]["accuracy_pct"][0]
        for mode in MODES:
            assert done["parts"]["modes"][f"{mode}, {rate}"]["accuracy_pct"][0] <= oracle


def changed(body: Body, edit: Any) -> list[Verdict]:
    """The verdicts after an edit of the numbers."""
    other = copy.deepcopy(body)
    edit(other["parts"])
    return verdicts(other)


def verdict_of(found: list[Verdict], statement: str) -> str:
    return next(one.verdict for one in found if statement in one.statement)


def test_verdicts_follow_the_numbers(done: Body) -> None:
    def accuracy(mode: str, value: float, parts: Body) -> None:
        parts["modes"][f"{mode}, {RATE}"]["accuracy_pct"] = [value, value, value]

    lowest = changed(done, functools.partial(accuracy, "per-workload", 1.0))
    assert verdict_of(lowest, "one exit for all (per-workload) has the lowest") == AGREES
    highest = changed(done, functools.partial(accuracy, "per-workload", 99.0))
    assert verdict_of(highest, "one exit for all (per-workload) has the lowest") == DIFFERS

    def missed(policy: str, count: int, parts: Body) -> None:
        parts["guarantee"]["img1"][policy]["missed"] = count
        parts["guarantee"]["img1"]["splits"] = 40

    def missed_by_both(parts: Body) -> None:
        for policy in ("per-workload", "Pareto"):
            missed(policy, 30, parts)

    both = changed(done, missed_by_both)
    assert verdict_of(both, "all policies meet the constraint") == DIFFERS

    def slow_once(parts: Body) -> None:
        for rate in RATES:
            for mode in ("either", "Pareto"):
                parts["modes"][f"{mode}, {rate}"]["average_ms"] = [50.0, 50.0, 50.0]
        parts["modes"][f"C > {THRESHOLD}, 50"]["average_ms"] = [500.0, 500.0, 500.0]
        parts["modes"]["Pareto, 20"]["average_ms"] = [1e6, 1e6, 1e6]

    assert (
        verdict_of(changed(done, slow_once), "modes that follow the rate keep") == PARTLY
    )  # at any rate, not at the highest

    def nothing_saved(parts: Body) -> None:
        for network, energy in (("img1", 1.0), ("img2", 1.0), ("digits", 0.7)):
            parts["guarantee"][network]["per-workload"]["energy"] = [energy, energy, energy]

    assert verdict_of(changed(done, nothing_saved), "one exit for all needs less energy") == PARTLY

    def hurt(parts: Body) -> None:
        parts["isolation"]["80"]["tenants"] = [9e9, 9e9, 9e9]

    assert verdict_of(changed(done, hurt), "a victim at 10/s") == DIFFERS

    def over(parts: Body) -> None:
        parts["Fig. 13"]["full, 25"] = [0.8, 0.8, 0.8]

    assert verdict_of(changed(done, over), "the limiter holds every policy") == DIFFERS

    def slow(parts: Body) -> None:
        parts["Table 3"]["bounds"]["ask"] = False

    assert verdict_of(verdicts(done), "evaluating a criterion") == PARTLY  # this host keeps the paper's time
    assert verdict_of(changed(done, slow), "evaluating a criterion") == DIFFERS

    def costly(parts: Body) -> None:
        parts["Fig. 16"]["times"]["share_pct"] = 7.0

    assert verdict_of(changed(done, costly), "all exits cost time") == AGREES
    assert {one.verdict for one in verdicts(done)} <= {AGREES, PARTLY, DIFFERS, UNTESTED}


def test_the_recorded_samples_are_what_the_page_says() -> None:
    sizes = {(n, part): samples(n, part).samples for n in NETWORKS for part in ("select", "test")}
    assert sizes == {
        ("img1", "select"): 5000, ("img1", "test"): 10_000, ("img2", "select"): 5000, ("img2", "test"): 10_000,
        ("digits", "select"): 297, ("digits", "test"): 900,
    }  # fmt: skip
    for network in NETWORKS:
        assert sum(profile(network).latency.ns[stage][0] for stage in range(4)) == pytest.approx(
            FULL_MS * 1e6, rel=1e-9
        )
        assert samples(network, "test").accuracy[-1] > samples(network, "test").accuracy[0]
    assert table().b_max == 1


def test_criteria_of_modes() -> None:
    assert criterion_of("full", RATE).text == "false"
    assert criterion_of(f"C > {THRESHOLD}", RATE).text == "confidence > 0.7"
    assert criterion_of("per-workload", 100).text == "exit_number == 1"
    assert criterion_of("Pareto or limit", RATE).text.endswith("or next_response_time > 100ms")
    assert compare_constrained("digits", 1.5)["Pareto"]["said"] == "infeasible"


def test_heads_are_counted_and_digits_split() -> None:
    network = skeleton(architecture())
    assert len(network.exits) == 4
    assert head_macs()["early_heads"] == sum(10 * width for width in (8, 16, 32))
    times = head_times()
    assert 0 < times["single_us"] < times["us"] < 1.2 * times["single_us"]
    pytest.importorskip("sklearn")
    first, second, third = split(digits(), 600, 297)
    assert (len(first), len(second), len(third)) == (600, 297, 900)
    assert np.unique(first.labels).tolist() == list(range(10))


@pytest.mark.long
def test_the_published_verdicts_hold_at_the_documented_size() -> None:
    """The numbers that the documentation quotes: the ranking, isolation, and constraints with the bound."""
    found = verdicts(run_study(STUDY, Size(), HERE, lambda at, of: None))
    for statement in (
        "Pareto is the most accurate of those that serve everybody",
        "halves Pareto's p99",
        "keeps a constraint on unseen samples in 95 %",
        "a victim at 10/s waits",
        "the limiter holds every policy",
        "Pareto needs less than the whole network",
    ):
        assert verdict_of(found, statement) == AGREES, statement
