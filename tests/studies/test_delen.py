"""The study of Delen: every figure has its part, verdicts follow the numbers, the data is what it says."""

import numpy as np
import pytest
from small_studies import small_body

from fluidnpu.models.zoo import skeleton
from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import Size, run_study
from fluidnpu.studies.delen.energy import compare_constrained
from fluidnpu.studies.delen.heads import architecture, head_macs, head_times
from fluidnpu.studies.delen.modes import MODES, criterion_of
from fluidnpu.studies.delen.recording import digits, split
from fluidnpu.studies.delen.settings import FULL_MS, NETWORKS, RATE, RATES, THRESHOLD, profile, samples, table
from fluidnpu.studies.delen.study import STUDY
from fluidnpu.studies.statements import AGREES

TINY = Size(seeds=2, requests=600)


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


@pytest.mark.cpu(10, "a small study runs once for all tests of it")
def test_every_figure_has_its_part_and_repeats() -> None:
    parts = small_body("delen")["parts"]
    figures = {"Table 1", "Table 3", "Fig. 3", "Fig. 8", "Fig. 9", "Fig. 10", "Fig. 13", "Figs. 14, 15", "Fig. 16"}
    assert set(parts) == figures | {"modes", "isolation", "guarantee"}
    assert set(parts["modes"]) == {f"{mode}, {rate}" for mode in MODES for rate in RATES}
    (task,) = [task for task in STUDY.tasks(TINY) if (task.part, task.key) == ("modes", f"either, {RATE}")]
    assert task() == parts["modes"][f"either, {RATE}"]


def test_all_modes_meet_the_same_samples_and_the_oracle_bounds_them() -> None:
    modes = small_body("delen")["parts"]["modes"]
    for rate in RATES:
        for mode in MODES:
            assert modes[f"{mode}, {rate}"]["accuracy_pct"][0] <= modes[f"oracle, {rate}"]["accuracy_pct"][0]


@pytest.mark.long
def test_the_published_verdicts_hold_at_the_documented_size() -> None:
    """The numbers that the documentation quotes: the ranking, isolation, and constraints with the bound."""
    found = STUDY.verdicts(run_study(STUDY, Size(), HERE, lambda at, of: None))
    for statement in (
        "Pareto is the most accurate of those that serve everybody",
        "halves Pareto's p99",
        "keeps a constraint on unseen samples in 95 %",
        "a victim at 10/s waits",
        "the limiter holds every policy",
        "Pareto needs less than the whole network",
    ):
        assert [one.verdict for one in found if statement in one.statement] == [AGREES], statement
