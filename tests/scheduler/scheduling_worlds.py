"""Worlds for the scheduler's tests: Table II's latency tables and hypothesis strategies for small streams of requests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Schedule, World, draw_exits, make_policy, poisson, simulate
from fluidnpu.scheduler.policies import Setting

TABLE2 = Path(__file__).parents[2] / "studies" / "fluid_batching" / "data" / "table2_latency.json"
ROWS = json.loads(TABLE2.read_text())["rows"]


def row_table(row):
    return LatencyTable(ns=tuple(map(tuple, row["latency_ns"])))


def setting_of(row):
    rates = tuple(row["exit_rates"])
    return Setting(latency=row_table(row), exit_rates=rates, rate_per_s=row["rate_per_s"], slo_ns=row["slo_ms"] * 10**6)


def serve_row(row, spec, count=2000, seed=0, **options) -> Schedule:
    rng = np.random.default_rng([11, seed])
    requests = poisson(row["rate_per_s"], count, slo_ns=row["slo_ms"] * 10**6, rng=rng)
    exits = draw_exits(row["exit_rates"], count, rng)
    policy = make_policy(spec, setting_of(row)) if isinstance(spec, str) else spec
    return simulate(
        requests, policy, World(latency=row_table(row), exits=exits, exit_rates=row["exit_rates"], **options)
    )


@st.composite
def tables(draw, max_stages=4, max_batch=4):
    stages, batch = draw(st.integers(1, max_stages)), draw(st.integers(1, max_batch))
    rows = []
    for _ in range(stages):
        steps = draw(st.lists(st.integers(0, 20), min_size=batch, max_size=batch))
        rows.append(tuple(int(x) for x in np.cumsum(steps) + draw(st.integers(1, 30))))
    return LatencyTable(ns=tuple(rows))


@st.composite
def worlds(draw, max_requests=25):
    """A table, a stream with ties and bursts, each with its own deadline, and the exits to come."""
    table = draw(tables())
    gaps = draw(st.lists(st.one_of(st.just(0), st.integers(0, 60)), min_size=1, max_size=max_requests))
    requests = [Request(i, int(at), int(at) + draw(st.integers(1, 200))) for i, at in enumerate(np.cumsum(gaps))]
    exits = [draw(st.integers(0, table.stages - 1)) for _ in requests]
    return table, requests, exits


def uniform(table):
    return [1 / table.stages] * table.stages
