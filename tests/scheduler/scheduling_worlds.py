"""Rows of Table II and Hypothesis strategies for the scheduler's tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import (
    Policy,
    Request,
    Run,
    Schedule,
    View,
    World,
    draw_exits,
    make_policy,
    poisson,
    simulate,
)
from fluidnpu.scheduler.policies import Setting

TABLE2 = Path(__file__).parents[2] / "studies" / "fluid_batching" / "data" / "table2_latency.json"


class Row(TypedDict):
    """The fields of a row of Table II that the tests use: rate in 1/s, objective in ms, latency in ns."""

    network: str
    board: str
    rate_per_s: float
    slo_ms: int
    exit_rates: list[float]
    latency_ns: list[list[int]]


ROWS: list[Row] = json.loads(TABLE2.read_text())["rows"]

RandomWorld = tuple[LatencyTable, list[Request], list[int]]
"""A latency table, a stream of requests, and the exit at which each request leaves."""


def row_table(row: Row) -> LatencyTable:
    return LatencyTable(ns=tuple(map(tuple, row["latency_ns"])))


def setting_of(row: Row) -> Setting:
    rates = tuple(row["exit_rates"])
    return Setting(latency=row_table(row), exit_rates=rates, rate_per_s=row["rate_per_s"], slo_ns=row["slo_ms"] * 10**6)


def serve_row(row: Row, spec: str | Policy, count: int = 2000, seed: int = 0, **options: Any) -> Schedule:
    rng = np.random.default_rng([11, seed])
    requests = poisson(row["rate_per_s"], count, slo_ns=row["slo_ms"] * 10**6, rng=rng)
    exits = draw_exits(row["exit_rates"], count, rng).tolist()
    policy = make_policy(spec, setting_of(row)) if isinstance(spec, str) else spec
    return simulate(
        requests, policy, World(latency=row_table(row), exits=exits, exit_rates=row["exit_rates"], **options)
    )


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that a call runs: what it costs on a machine of any load."""
    count, before = 0, sys.gettrace()

    def trace(frame: object, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@st.composite
def tables(draw: st.DrawFn, max_stages: int = 4, max_batch: int = 4) -> LatencyTable:
    stages, batch = draw(st.integers(1, max_stages)), draw(st.integers(1, max_batch))
    rows = []
    for _ in range(stages):
        steps = draw(st.lists(st.integers(0, 20), min_size=batch, max_size=batch))
        rows.append(tuple(int(x) for x in np.cumsum(steps) + draw(st.integers(1, 30))))
    return LatencyTable(ns=tuple(rows))


@st.composite
def worlds(draw: st.DrawFn, max_requests: int = 25) -> RandomWorld:
    """Draw a table, a stream with ties and bursts, a deadline for each request, and the exits to come."""
    table = draw(tables())
    gaps = draw(st.lists(st.one_of(st.just(0), st.integers(0, 60)), min_size=1, max_size=max_requests))
    requests = [Request(i, int(at), int(at) + draw(st.integers(1, 200))) for i, at in enumerate(np.cumsum(gaps))]
    exits = [draw(st.integers(0, table.stages - 1)) for _ in requests]
    return table, requests, exits


def uniform(table: LatencyTable) -> list[float]:
    return [1 / table.stages] * table.stages


SMALL = LatencyTable(ns=((10, 15, 20, 25), (10, 16, 22, 28), (10, 16, 22, 28)))


def view(waiting: Sequence[Sequence[Request]], now: int = 0, closed: bool = False) -> View:
    """Return a view of an NPU with three stages and batches of four."""
    return View(now, waiting, SMALL, (0.2, 0.3, 0.5), 4, closed)


def queue(*arrivals: int, slo: int = 100) -> list[Request]:
    return [Request(i, at, at + slo) for i, at in enumerate(arrivals)]


def next_run(policy: Policy, seen: View) -> Run:
    """Return the policy's action, which must be a run."""
    action = policy.decide(seen)
    assert isinstance(action, Run)
    return action
