"""Tuning runs the simulator's schedules, shipped weights beat `fluid`, and others are mixed from them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scheduling_worlds import ROWS, Row, serve_row, setting_of

from fluidnpu.dse import LatencyTable, has_numba
from fluidnpu.scheduler import World, make_policy, measure, simulate, traits_of
from fluidnpu.scheduler.policies import Anytime, Credit, Setting, Weights
from fluidnpu.scheduler.policies.weights import KNOTS, candidates, fingerprint, load_weights, mean
from fluidnpu.studies.fluid_batching.paper import table2_rows

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


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
    shipped = load_weights(setting, 1.0, False)
    assert shipped is not None
    weights, _ = shipped
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
    assert traits_of(policy).weights_from == f"{row['network']}-{row['board'].lower()}-balanced"
    late = {
        p: np.mean([measure(serve_row(row, p, count=5000, seed=s)).violations_pct for s in range(2)])
        for p in ("fluid", "credit")
    }
    assert late["credit"] < 0.85 * late["fluid"]


def test_candidates_are_spread_over_other_stage_counts() -> None:
    setting = setting_of(ROWS[0])
    shipped = load_weights(setting, 1.0, False)
    assert shipped is not None
    assert candidates(setting)[shipped[1]] == shipped[0]
    table = LatencyTable(ns=tuple(map(tuple, ROWS[0]["latency_ns"][:2])))
    two = Setting(latency=table, exit_rates=(0.4, 0.6), rate_per_s=10, slo_ns=10**8)
    assert load_weights(two, 1.0, False) is None
    stretched = candidates(two)[shipped[1]]
    assert stretched.v == (shipped[0].v[0], shipped[0].v[3])
    assert len(candidates(two)) == 20 + 5
    assert fingerprint(two) != fingerprint(setting)


def test_the_dial_mixes_neighbours() -> None:
    a = Weights(v=((0.0,) * len(KNOTS),), done=(0.0,) * len(KNOTS), on_time=0.0)
    b = Weights(v=((1.0,) * len(KNOTS),), done=(2.0,) * len(KNOTS), on_time=4.0)
    assert (a.mixed(b, 0.25).v[0][0], a.mixed(b, 0.25).done[0], mean([a, b]).on_time) == (0.25, 0.5, 2.0)
