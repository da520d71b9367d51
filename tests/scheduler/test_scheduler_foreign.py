"""Policies on anybody's network: budgets, objectives, estimates, choice of weights, plans and tuning."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable, has_numba
from fluidnpu.scheduler import (
    Answer,
    Policy,
    Request,
    SchedulerError,
    Serving,
    TrafficError,
    World,
    draw_exits,
    make_policy,
    poisson,
    simulate,
)
from fluidnpu.scheduler.comparison import Local, Source, Truth, serve_stream
from fluidnpu.scheduler.comparison.serving import world_of
from fluidnpu.scheduler.comparison.sources import mixed_objectives
from fluidnpu.scheduler.compiled.trace import serve_compiled
from fluidnpu.scheduler.policies import Choice, Setting, Weights, estimates_of, true_setting
from fluidnpu.scheduler.policies.bucket import Bucket
from fluidnpu.scheduler.policies.guarded import GuardedPolicy, with_weights
from fluidnpu.scheduler.policies.selection import Trial, choose, run_trials
from fluidnpu.scheduler.policies.weights import candidates
from fluidnpu.scheduler.simulation.traffic import coverage, generate
from fluidnpu.scheduler.tuning import Tuning, TuningPlan, deployed, weight_file
from fluidnpu.scheduler.tuning.evolution import Evolution

MS = 10**6
TWO = LatencyTable(ns=((3 * MS, 5 * MS, 7 * MS), (3 * MS, 9 * MS // 2, 6 * MS)))
SERVING = Serving(latency=TWO, exit_rates=(0.4, 0.6))
SLO = 25 * MS
NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="needs Numba")


def setting(load: float = 0.55, **more: Any) -> Setting:
    return dataclasses.replace(SERVING.setting(load / SERVING.least_load(1.0), SLO), **more)


def weights() -> Weights:
    return candidates(setting())["mean of balanced"]


def stream(count: int, load: float, seed: int = 0) -> tuple[list[Request], list[int]]:
    rng = np.random.default_rng([12, seed])
    requests = poisson(load / SERVING.least_load(1.0), count, slo_ns=SLO, rng=rng)
    return requests, draw_exits(SERVING.exit_rates, count, rng).tolist()


# -- budgets


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=60))
@settings(deadline=None)
def test_a_bucket_spends_no_more_than_share_and_window_allow_in_any_stretch(steps: list[tuple[bool, int]]) -> None:
    bucket, history = Bucket(0.05, window=100), [(0, 0)]  # requests seen, spent
    for spends, seen in steps:
        before = history[-1]
        if spends:
            history.append((before[0], before[1] + bucket.spend()))
        else:
            bucket.fill(seen)
            history.append((before[0] + seen, before[1]))
    for i, (seen, spent) in enumerate(history):
        for later, more in history[i:]:
            assert more - spent <= 0.05 * (later - seen) + 0.05 * 100 + 1e-9


def test_a_calm_day_does_not_pay_for_a_peak() -> None:
    """After 6000 calm requests a peak holds no more anytime answers than its own share and a window's."""
    calm, left = stream(6000, 0.2)
    peak, leaves = stream(1500, 1.3, seed=1)
    last = calm[-1].arrival_ns
    all_ = calm + [Request(6000 + r.id, last + r.arrival_ns, last + r.deadline_ns) for r in peak]
    world = World(latency=TWO, exits=left + leaves, exit_rates=SERVING.exit_rates)
    done = simulate(all_, make_policy("fluid:anytime=3%"), world)
    early = sum(len(a.requests) for at, a in done.log if isinstance(a, Answer) and at > last)
    assert 0.03 * 1000 < early <= 0.03 * (1500 + 1000) + 1
    guarded = GuardedPolicy(setting(), with_weights(setting(), weights()).credit)
    simulate(all_, guarded, world)
    assert len(guarded._spared) <= 0.01 * (1500 + 3000) + 1


# -- mixed objectives


def test_the_most_urgent_goes_first_and_one_objective_changes_nothing() -> None:
    requests = [Request(0, 0, 500 * MS), Request(1, 0, 500 * MS), Request(2, 0, 500 * MS), Request(3, 0, 12 * MS)]
    serial = Setting(latency=LatencyTable(ns=((3 * MS,),)), exit_rates=(1.0,), rate_per_s=100, slo_ns=SLO)
    policy = with_weights(serial, candidates(serial)["mean of on-time"])
    world = World(latency=serial.latency, exits=[0] * 4, exit_rates=(1.0,))
    order = [run.ids[0] for run in simulate(requests, policy, world).runs]
    assert order.index(3) < 3, "the tight deadline is met although three came before"
    alike = [dataclasses.replace(r, deadline_ns=r.arrival_ns + SLO) for r in requests]
    assert [run.ids[0] for run in simulate(alike, policy, world).runs] == [0, 1, 2, 3]


@NEEDS_NUMBA
@pytest.mark.parametrize("name", ["guarded", "credit", "guarded:anytime=3%"])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_mixed_objectives_and_wrong_beliefs_make_the_same_schedule_compiled(name: str, factor: float) -> None:
    requests, exits = stream(1500, 0.6)
    mixed = mixed_objectives(requests, ((0.3, SLO // 2), (0.2, 4 * SLO)), np.random.default_rng(3))
    chosen = {n: Choice(weights=weights(), origin="test") for n in _names()}
    policy = make_policy(name, setting(chosen=chosen))
    truth = Truth(latency_factor=factor)
    plain = serve_stream(SERVING, policy, mixed, exits, truth)
    plain.check()
    fast = serve_compiled(mixed, policy, world_of(SERVING, policy, exits, truth))
    assert fast is not None
    assert [(t, type(a), getattr(a, "requests", None)) for t, a in fast.schedule().log] == [
        (t, type(a), getattr(a, "requests", None)) for t, a in plain.log
    ]


def _names() -> list[str]:
    return [f"{kind}:dial=1{early}" for kind in ("guarded", "credit") for early in ("", ":anytime")]


def test_sources_mix_objectives_without_moving_arrivals() -> None:
    plain = Source(rate_per_s=100, slo_ns=SLO, count=4000).draw(SERVING, 1)
    truth = Truth(objectives=((0.25, 10 * MS),))
    drawn = Source(rate_per_s=100, slo_ns=SLO, count=4000, truth=truth).draw(SERVING, 1)
    assert [r.arrival_ns for r in drawn.requests] == [r.arrival_ns for r in plain.requests]
    assert drawn.exits == plain.exits
    tight = sum(r.deadline_ns - r.arrival_ns == 10 * MS for r in drawn.requests)
    assert 0.22 < tight / 4000 < 0.28
    with pytest.raises(SchedulerError, match="sum to at most 1"):
        Truth(objectives=((0.7, MS), (0.7, MS)))


# -- estimates


def test_estimates_find_the_rate_the_exits_and_the_pace_as_they_are() -> None:
    rng = np.random.default_rng(4)
    requests = poisson(0.5 / SERVING.least_load(1.0), 6000, slo_ns=SLO, rng=rng)
    told = setting(0.35)
    policy = with_weights(told, weights())
    truth = Truth(latency_factor=1.2)
    serve_stream(SERVING, policy, requests, draw_exits((0.2, 0.8), 6000, rng).tolist(), truth)
    found = estimates_of(policy)
    assert found is not None
    assert found.rate_per_s == pytest.approx(0.5 / SERVING.least_load(1.0), rel=0.1)
    assert found.exit_rates[0] == pytest.approx(0.2, abs=0.05)
    assert found.latency_factor == pytest.approx(1.2, rel=0.02)
    assert found.raised
    truly = true_setting(found)
    assert truly.latency.ns[0][0] == pytest.approx(3.6 * MS, rel=0.02)
    assert truly.count_table().average_ms > told.count_table().average_ms
    policy.reset()
    assert (found.latency_factor, found.raised, found.load) == (1.0, False, found.load_told)


def test_where_the_load_is_as_told_it_is_not_raised_and_told_wrong_it_falls_back_to_fluid() -> None:
    requests, exits = stream(4000, 0.55)
    policy = with_weights(setting(), weights())
    serve_stream(SERVING, policy, requests, exits)
    assert not policy.estimates.raised
    more, exits = stream(4000, 0.9)
    done = serve_stream(SERVING, policy, more, exits)
    assert policy.estimates.raised
    reasons = [getattr(action, "reason", "") for _, action in done.log[-200:]]
    assert not any("score" in reason for reason in reasons)


def test_estimates_of_looks_through_wrappers_and_finds_none_in_fluid() -> None:
    inner = with_weights(setting(), weights())

    class Wrapper:
        name = "w"

        def __init__(self, policy: Policy) -> None:
            self.inner = policy

    assert estimates_of(Wrapper(inner)) is inner.estimates
    assert estimates_of(make_policy("fluid")) is None


# -- the choice of weights


@NEEDS_NUMBA
def test_the_choice_is_repeatable_monotone_in_the_dial_and_never_above_fluid_on_its_streams() -> None:
    here = setting(0.6)
    picks = [choose(here, with_weights, "guarded", dial=dial) for dial in (0.0, 0.5, 1.0, 1.5, 2.0)]
    violations, p99 = ([pick.ratios[k] for pick in picks] for k in (0, 2))
    assert violations == sorted(violations)
    assert p99 == sorted(p99, reverse=True)
    assert max(p99[2:]) <= 1.0
    assert violations[2] < 0.95, "on this table something beats fluid"
    assert make_policy("guarded", here).traits.weights_from.startswith("chosen from 25 sets in simulation")  # type: ignore[attr-defined]


@NEEDS_NUMBA
def test_where_nothing_beats_fluid_it_is_the_choice() -> None:
    def spoiled(where: Setting, w: Weights) -> Policy:
        return make_policy("adaptive:timeout=90%", where)

    choice = choose(setting(0.5), spoiled, "spoiled")
    assert choice.weights is None
    assert "decides as fluid" in choice.origin
    here = setting(0.5, chosen={"guarded:dial=1": choice})
    requests, exits = stream(600, 0.5)
    ours, theirs = (serve_stream(SERVING, make_policy(name, here), requests, exits) for name in ("guarded", "fluid"))
    assert ours.end_ns == theirs.end_ns


def test_a_trial_is_no_worse_only_beyond_doubt() -> None:
    fluid = np.array([[10.0, 50.0, 100.0], [11.0, 52.0, 104.0], [9.0, 48.0, 96.0]])
    assert Trial("better", weights(), fluid * 0.9, fluid).no_worse
    noisy = fluid * np.array([[0.5], [1.4], [0.6]])
    assert not Trial("in doubt", weights(), noisy, fluid).no_worse
    assert not Trial("worse", weights(), fluid * [0.1, 0.9, 1.05], fluid).no_worse
    assert Trial("fluid", None, fluid, fluid).no_worse


def test_weights_of_a_file_serve_any_table(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(weight_file(setting(), 1.0, weights()))
    policy = make_policy(f"guarded:weights={path}", setting())
    assert policy.traits.weights_from == "given"  # type: ignore[attr-defined]
    for text in ("{}", "no", '{"knots": [1]}'):
        path.write_text(text)
        with pytest.raises(SchedulerError, match=r"w\.json"):
            make_policy(f"credit:weights={path}", setting())


# -- plans


@NEEDS_NUMBA
def test_a_plan_travels_and_a_board_never_solves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = setting(0.57)
    TuningPlan.make(here, anytime=(False,)).write(tmp_path)
    requests, exits = stream(400, 0.57)
    first = serve_stream(SERVING, make_policy("guarded", here), requests, exits)
    from fluidnpu.scheduler.policies import selection
    from fluidnpu.scheduler.policies import setting as settings_

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a board must not solve or choose")

    monkeypatch.setattr(settings_, "_solved", never)
    monkeypatch.setattr(selection, "try_all", never)
    ready, said = deployed(tmp_path, "guarded", here, may_solve=False)
    assert "solved for" in said
    assert serve_stream(SERVING, make_policy("guarded", ready), requests, exits).log == first.log
    other = dataclasses.replace(here, rate_per_s=2 * here.rate_per_s)
    ready, said = deployed(tmp_path, "guarded:dial=2", other, may_solve=False)
    assert "estimates the load" in said
    make_policy("guarded:dial=2", ready)
    assert deployed(tmp_path, "guarded", other, may_solve=True)[0] is other
    assert deployed(tmp_path, "fluid", other, may_solve=False) == (other, "")


def test_plans_that_are_missing_foreign_or_broken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="a board does not solve: run fluidnpu tune"):
        deployed(tmp_path, "optimal", setting(), may_solve=False)
    plan = TuningPlan(
        setting=setting(),
        counts=setting().count_table(),
        choices={"guarded:dial=1": Choice(weights=None, origin="x", plain="fluid")},
    )
    plan.write(tmp_path)
    assert TuningPlan.read(tmp_path) is not None
    wider = dataclasses.replace(setting(), latency=LatencyTable(ns=((3 * MS,), (3 * MS,))))
    with pytest.raises(SchedulerError, match="design's latency table"):
        deployed(tmp_path, "guarded", wider, may_solve=False)
    good = json.loads((tmp_path / "policy.json").read_text())
    wrongs: list[dict[str, object]] = [
        {"plan": "?"},
        {"choices": {"a": {}}},
        {"rate_per_s": 3.0},
        {"latency_ns": "x"},
        {"slo_ns": None},
    ]
    for wrong in wrongs:
        (tmp_path / "policy.json").write_text(json.dumps(good | wrong))
        with pytest.raises(SchedulerError):
            TuningPlan.read(tmp_path)


# -- tuning


@NEEDS_NUMBA
def test_a_search_that_was_stopped_ends_with_the_same_numbers_by_any_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fluidnpu.scheduler.tuning import tune

    monkeypatch.setattr(tune, "STREAMS", 1)
    monkeypatch.setattr(tune, "REQUESTS", 300)
    monkeypatch.setattr(tune, "JUDGED", (3, 600))
    here = setting(0.6)
    whole = Tuning(here)
    whole.run(2)
    Tuning(here, state=tmp_path / "s.npz", engine=Local(processes=2)).run(1)
    again = Tuning(here, state=tmp_path / "s.npz")
    assert again.search.generation == 1
    again.run(2)
    assert again.search.mean.tolist() == whole.search.mean.tolist()
    choice, trials = again.judged()
    assert set(trials) == {"fluid", "start", "tuned"}
    assert trials["tuned"].results.shape == (3, 3)
    assert choice.origin
    with pytest.raises(SchedulerError, match="for others"):
        Tuning(here, seed=1, state=tmp_path / "s.npz")
    (tmp_path / "s.npz").write_bytes(b"?")
    with pytest.raises(SchedulerError, match="that fluidnpu tune left"):
        Evolution.load(tmp_path / "s.npz")


# -- traffic


def test_periods_scale_to_the_run_or_it_says_that_it_covers_too_little() -> None:
    rng = np.random.default_rng(0)
    fast = np.array([r.arrival_ns for r in generate("diurnal:swing=0.9", 3000, 12_000, slo_ns=SLO, rng=rng)])
    quarters = np.histogram(fast, 8, (0, 4 * 10**9))[0]  # 4 s hold 4 periods: a crest and a trough each
    assert quarters[0::2].min() > 1.5 * quarters[1::2].max()
    assert coverage("diurnal", 3000, 12_000) == coverage("poisson", 1, 1) == coverage("bursty", 3000, 100) == ""
    assert "covers 0.4 periods" in coverage("diurnal:period=10s", 3000, 12_000)
    assert "sees about 0.8 bursts" in coverage("mmpp:dwell=1s", 3000, 12_000)
    with pytest.raises(TrafficError):
        coverage("diurnal:period=no", 1, 1)


# -- tables that nothing was tuned on


def _benchmark(name: str) -> Any:
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return __import__(name)
    finally:
        sys.path.remove(folder)


def test_the_evaluation_tables_are_those_that_were_drawn() -> None:
    foreign = _benchmark("foreign_tables")
    frozen = list(foreign.evaluation_tables())
    assert len(frozen) == foreign.COUNT >= 20
    for index in (2, 3, 7):  # of networks that the generator draws itself
        assert foreign.to_dict(foreign.draw_table(foreign.EVALUATION, index)) == foreign.to_dict(frozen[index])
    assert all(0.4 <= table.load <= 0.9 for table in frozen)
    assert {table.serving.latency.stages for table in frozen} == {2, 3, 4, 5}
    marks = {table.serving.latency.ns for table in frozen}
    assert not any(foreign.draw_table(foreign.TRAINING, k).serving.latency.ns in marks for k in range(4))


@NEEDS_NUMBA
@pytest.mark.long
def test_guarded_as_deployed_is_no_worse_than_fluid_on_tables_that_nothing_was_tuned_on() -> None:
    foreign, tables = _benchmark("foreign"), _benchmark("foreign_tables")
    from argparse import Namespace

    size = Namespace(seeds=4, requests=6000, few_seeds=3, few_requests=6000)
    rows = [foreign.as_told(table, size) for k, table in enumerate(tables.evaluation_tables()) if k in (3, 11, 23)]
    counted = foreign.verdicts(rows, "guarded")
    assert counted["any"] == {"worse": 0, "of": 3}
    assert sum(counted[metric]["better"] for metric in foreign.METRICS) >= 5


def test_what_is_tried_is_measured_as_simulated() -> None:
    here = setting(0.6)
    [fluid, trial] = run_trials(here, with_weights, {"w": weights()}, False, 1, 300, seed=3)
    again = run_trials(here, with_weights, {"w": weights()}, False, 1, 300, seed=3)[1]
    assert trial.results.tolist() == again.results.tolist()
    assert fluid.weights is None
    assert trial.fluid.tolist() == fluid.results.tolist()
