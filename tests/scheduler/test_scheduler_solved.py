"""The solved tables are right, tuning runs the simulator's schedules, and shipped weights beat `fluid`."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scheduling_worlds import ROWS, Row, serve_row, setting_of

from fluidnpu.dse import LatencyTable, has_numba
from fluidnpu.scheduler import SchedulerError, World, make_policy, measure, simulate
from fluidnpu.scheduler.errors import OverloadError
from fluidnpu.scheduler.policies import Anytime, Credit, Setting, Weights, solve_counts
from fluidnpu.scheduler.policies.decision_process import CountTable
from fluidnpu.scheduler.policies.optimal import Optimal
from fluidnpu.scheduler.policies.setting import least_work_ns
from fluidnpu.scheduler.policies.weights import KNOTS, fingerprint, load_weights, mean, read_weights
from fluidnpu.studies.fluid_batching.paper import table2_rows

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FLAT = Weights(v=((0.0,) * len(KNOTS),) * 4, done=(0.0,) * len(KNOTS), on_time=0.0)


def test_one_server_with_fixed_service_is_m_d_1() -> None:
    for load in (0.3, 0.7):
        solved = solve_counts(LatencyTable(ns=((10**6,),)), [1.0], rate_per_s=1000 * load, queue_max=120)
        assert solved.average_ms == pytest.approx(1 + load / (2 * (1 - load)), rel=1e-3)


def test_two_stages_without_batching_gain_nothing_from_choice() -> None:
    """With one stage that never exits the network is one server again: M/D/1 with the sum as service time."""
    solved = solve_counts(LatencyTable(ns=((10**6,), (10**6,))), [0.0, 1.0], rate_per_s=300, queue_max=80)
    assert solved.average_ms == pytest.approx(2 + 2 * 0.6 / (2 * 0.4), rel=1e-3)


def test_the_solved_average_is_what_simulation_finds_and_no_policy_beats_it() -> None:
    setting = setting_of(ROWS[1])
    runs = [measure(serve_row(ROWS[1], Optimal(setting), count=8000, seed=s)).average_ms for s in range(3)]
    solved = setting.count_table().average_ms
    assert np.mean(runs) == pytest.approx(solved, rel=0.06)
    others = [
        np.mean([measure(serve_row(ROWS[1], p, count=8000, seed=s)).average_ms for s in range(3)])
        for p in ("greedy", "fluid")
    ]
    assert min(others) > np.mean(runs)


def test_a_solved_table_ships_as_a_file_and_only_for_its_setting(tmp_path: Path) -> None:
    setting = setting_of(ROWS[1])
    setting.count_table().save(tmp_path / "counts.npz")
    shipped = dataclasses.replace(setting, solved=CountTable.load(tmp_path / "counts.npz"))
    ran, again = (serve_row(ROWS[1], Optimal(s), count=300) for s in (setting, shipped))
    assert ran.log == again.log
    with pytest.raises(SchedulerError, match="solve it again"):
        dataclasses.replace(shipped, rate_per_s=39).count_table()
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04")
    for name in ("bad.npz", "missing.npz"):
        with pytest.raises(SchedulerError, match=f"{name} must be a table"):
            CountTable.load(tmp_path / name)


def test_an_overload_cannot_be_solved() -> None:
    with pytest.raises(SchedulerError, match="load is too high"):
        solve_counts(LatencyTable(ns=((10**6,),)), [1.0], rate_per_s=1000, queue_max=400, sweeps=300)


def test_where_the_load_has_no_solution_a_policy_is_solved_for_less() -> None:
    flat = LatencyTable(
        ns=((10**7, 10**7, 10**7, 10**7),) * 2
    )  # a full batch costs nothing, and slots keep most batches from being full
    setting = Setting(latency=flat, exit_rates=(0.5, 0.5), rate_per_s=260, slo_ns=10**9)
    with pytest.raises(OverloadError, match="load is too high"):
        solve_counts(flat, (0.5, 0.5), rate_per_s=240)
    assert 100 < setting.count_table().rate_per_s < 240 < 1e9 / least_work_ns(flat, (0.5, 0.5)) < 270
    again = dataclasses.replace(setting, solved=setting.count_table())
    assert again.count_table() is setting.count_table()
    below = dataclasses.replace(setting, rate_per_s=120)
    assert below.count_table().rate_per_s == 120


@pytest.mark.parametrize("ns", [1, 10**3, 10**6, 10**11])
def test_a_solution_knows_no_unit_of_time(ns: int) -> None:
    solved = solve_counts(LatencyTable(ns=((ns,),)), [1.0], rate_per_s=0.5e9 / ns, queue_max=60)
    assert solved.average_ms * 1e6 / ns == pytest.approx(1.5, rel=0.01)


def test_credit_without_credit_is_the_optimum() -> None:
    setting = setting_of(ROWS[2])
    plain, flat = (serve_row(ROWS[2], p, count=800) for p in (Optimal(setting), Credit(setting, FLAT)))
    assert plain.end_ns == flat.end_ns


@pytest.mark.skipif(not has_numba(), reason="needs Numba")
@pytest.mark.parametrize(
    ("anytime", "rescue", "factor"), [(0.0, False, 1.0), (0.03, False, 1.0), (0.03, True, 1.0), (0.03, False, 1.1)]
)
def test_what_tuning_runs_is_the_simulator_to_the_nanosecond(anytime: float, rescue: bool, factor: float) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import table2_tune as tune
    finally:
        sys.path.remove(str(BENCHMARKS))
    setting = tune.setting_of(table2_rows()[3])
    weights, _ = load_weights(setting, 1.0, False)
    [(requests, arrival, leaves)] = tune.streams(setting, [9], 3000)
    latency, early = tune.Trainer(setting).run(
        weights, arrival, leaves, tune.Rescue(share=anytime, rescue_only=rescue), factor
    )
    policy = Credit(setting, weights)
    done = simulate(
        requests,
        Anytime(policy, anytime, rescue) if anytime else policy,
        World(
            latency=setting.latency,
            exits=leaves.tolist(),
            actual=LatencyTable(ns=tuple(tuple(round(ns * factor) for ns in line) for line in setting.latency.ns)),
            exit_rates=setting.exit_rates,
        ),
    )
    assert (np.array(done.end_ns) - arrival).tolist() == latency.tolist()
    assert list(done.outcome) == early.tolist()


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['network']}-{r['board']}")
def test_shipped_weights_are_for_these_rows_and_violate_less_than_fluid(row: Row) -> None:
    policy = make_policy("credit", setting_of(row))
    assert isinstance(policy, Credit)
    assert policy.weights_from == f"{row['network']}-{row['board'].lower()}-balanced"
    late = {
        p: np.mean([measure(serve_row(row, p, count=5000, seed=s)).violations_pct for s in range(2)])
        for p in ("fluid", "credit")
    }
    assert late["credit"] < 0.85 * late["fluid"]


def test_other_settings_get_the_mean_of_the_goal_also_with_other_stage_counts() -> None:
    setting = dataclasses.replace(setting_of(ROWS[0]), slo_ns=150_000_000)
    weights, source = load_weights(setting, 1.0, False)
    assert source == "mean of 4 balanced weights"
    table = LatencyTable(ns=tuple(map(tuple, ROWS[0]["latency_ns"][:2])))
    two = Setting(latency=table, exit_rates=(0.4, 0.6), rate_per_s=10, slo_ns=10**8)
    stretched, source = load_weights(two, 1.0, False)
    assert (len(stretched.v), source.endswith("stretched")) == (2, True)
    assert stretched.v == (weights.v[0], weights.v[3])
    assert fingerprint(two) != fingerprint(setting)


def test_the_dial_mixes_neighbours() -> None:
    a = Weights(v=((0.0,) * len(KNOTS),), done=(0.0,) * len(KNOTS), on_time=0.0)
    b = Weights(v=((1.0,) * len(KNOTS),), done=(2.0,) * len(KNOTS), on_time=4.0)
    assert (a.mixed(b, 0.25).v[0][0], a.mixed(b, 0.25).done[0], mean([a, b]).on_time) == (0.25, 0.5, 2.0)


@pytest.mark.parametrize("spec", ["optimal", "credit"])
def test_a_table_driven_decision_is_cheap(spec: str) -> None:
    """The benchmark prints the cost (goal: 20 us); here only a change of order fails."""
    serve_row(ROWS[0], spec, count=10)  # solves
    begin = time.process_time()
    done = serve_row(ROWS[0], spec, count=3000)
    assert (time.process_time() - begin) / done.decisions < 200e-6


def test_bad_settings_and_weights_are_one_sentence() -> None:
    setting = setting_of(ROWS[0])
    with pytest.raises(SchedulerError, match="rate must be above zero"):
        dataclasses.replace(setting, rate_per_s=0)
    with pytest.raises(SchedulerError, match="objective must be above zero"):
        dataclasses.replace(setting, slo_ns=-1)
    with pytest.raises(SchedulerError, match="knots"):
        Weights(v=((0.0,),), done=(0.0,), on_time=0.0)
    with pytest.raises(SchedulerError, match="tune them again"):
        read_weights({"knots": [0]}, "x.json")
    with pytest.raises(SchedulerError, match="for 4 stages, not 1"):
        Credit(setting, dataclasses.replace(FLAT, v=FLAT.v[:1]))
    with pytest.raises(SchedulerError, match="needs both"):
        make_policy("credit")
    with pytest.raises(SchedulerError, match="patience must lie above 0"):
        make_policy("credit:patience=0", setting)
    with pytest.raises(SchedulerError, match="dial=1 only"):
        make_policy("credit:robust=1:dial=2", setting)
    with pytest.raises(SchedulerError, match="dial must lie between 0"):
        make_policy("credit:dial=3", setting)
    with pytest.raises(SchedulerError, match="share of anytime answers"):
        make_policy("fluid:anytime=200%")
    with pytest.raises(SchedulerError, match="shed must be 0 or 1"):
        make_policy("fluid:shed=yes")
