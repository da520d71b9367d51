"""The solved tables agree with theory and simulation, ship as files, and know their limits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scheduling_worlds import ROWS, serve_row, setting_of

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import SchedulerError, measure
from fluidnpu.scheduler.errors import OverloadError
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.policies.optimal import Optimal
from fluidnpu.scheduler.policies.setting import least_work_ns
from fluidnpu.scheduler.policies.solving.decision_process import CountTable, solve_counts


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
    with pytest.raises(OverloadError, match=r"settle within 300 sweeps, and at 1000 requests/s .* lies in"):
        solve_counts(LatencyTable(ns=((10**6,),)), [1.0], rate_per_s=1000, queue_max=400, sweeps=300)
    with pytest.raises(OverloadError, match="sees 48 requests in the queue, and at 3000 requests/s"):
        solve_counts(LatencyTable(ns=((10**6,),)), [1.0], rate_per_s=3000)


def test_a_load_that_made_the_average_oscillate_is_solved() -> None:
    """The case that an independent check found: it was called too high a load at 75 % of what can be
    served.
    """
    table = LatencyTable(ns=tuple(tuple(round(3e6 * (0.7 + 0.3 * b)) for b in range(1, 9)) for _ in range(2)))
    solved = solve_counts(table, (0.5, 0.5), rate_per_s=430)
    finer = solve_counts(table, (0.5, 0.5), rate_per_s=430, tolerance=1e-6)
    assert solved.average_ms == pytest.approx(finer.average_ms, rel=2e-3)
    assert finer.average_ms == pytest.approx(15.107, rel=1e-4)


def test_where_the_load_has_no_solution_a_policy_is_solved_for_less() -> None:
    flat = LatencyTable(
        ns=((10**7, 10**7, 10**7, 10**7),) * 2
    )  # a full batch costs nothing, and slots keep most batches from being full
    setting = Setting(latency=flat, exit_rates=(0.5, 0.5), rate_per_s=260, slo_ns=10**9)
    with pytest.raises(OverloadError, match=r"sees 48 requests|settle within"):
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
