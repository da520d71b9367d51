"""The compiled loop makes the engine's schedules: the same decisions, times and metrics."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import ROWS, RandomWorld, uniform, worlds

from fluidnpu.dse import LatencyTable, has_numba
from fluidnpu.scheduler import (
    Action,
    Policy,
    Request,
    SchedulerError,
    Serving,
    World,
    compare,
    make_policy,
    measure,
    simulate,
)
from fluidnpu.scheduler.comparison import Local, Source, Truth
from fluidnpu.scheduler.compiled.trace import serve_compiled
from fluidnpu.scheduler.policies import REGISTRY, Fluid, Setting

pytestmark = pytest.mark.usefixtures("few_trials")
needs_numba = pytest.mark.skipif(not has_numba(), reason="needs Numba")
ALL = (
    "fluid",
    "fluid-repaired",
    "fluid:anytime=20%",
    "fluid:drain=1",
    "lazy:exit_aware=1:anytime=50%",
    "optimal",
    "optimal:anytime=30%",
    "optimal:drain=0",
    "credit",
    "credit:anytime=30%",
    "credit:robust=1:patience=2",
    "guarded",
    "guarded:drain=0",
    "guarded:patience=0.5:give_up=0%",
    "guarded:dial=0:patience=1.5:give_up=10%:anytime=30%",
)
SOLVED = tuple(spec for spec in ALL if REGISTRY[spec.split(":")[0]].solved or "drain=1" in spec)


def bare(log: Sequence[tuple[int, Action]]) -> list[tuple[int, Action]]:
    """Return the log without reasons."""
    return [(at, dataclasses.replace(action, reason="")) for at, action in log]


def assert_same(requests: Sequence[Request], policy: Policy, **circumstances: Any) -> None:
    world = World(**circumstances)
    trace = serve_compiled(requests, policy, world)
    assert trace is not None
    here, there = trace.schedule(), simulate(requests, policy, world)
    assert bare(there.log) == list(here.log)
    assert dataclasses.replace(there, log=()) == dataclasses.replace(here, log=())
    if len(requests) > 1:
        assert measure(trace.tally(), warmup=0) == measure(there, warmup=0)


@lru_cache(maxsize=256)
def made(spec: str, table: LatencyTable, slo_ns: int, b_max: int | None, slots: int | None) -> Policy:
    """Return a policy, its tables solved coarsely where it needs some: exact tables do not matter here."""
    setting = Setting(
        latency=table,
        exit_rates=tuple(uniform(table)),
        rate_per_s=0.4e9 / sum(map(max, table.ns)),
        slo_ns=slo_ns,
        b_max=b_max,
        slots=slots,
    )
    return make_policy(spec, setting)


@needs_numba
@pytest.mark.parametrize("spec", [s for s in ALL if s not in SOLVED])
@given(worlds(), st.integers(0, 3), st.integers(0, 2), st.data())
@settings(max_examples=40, deadline=None)
def test_the_same_decisions_on_random_tables_and_traffic(
    spec: str, world: RandomWorld, overhead: int, more: int, data: st.DataObject
) -> None:
    table, requests, exits = world
    b_max = data.draw(st.integers(1, table.b_max))
    actual = LatencyTable(ns=tuple(tuple(ns + data.draw(st.integers(0, 5)) for ns in row) for row in table.ns))
    assert_same(
        requests,
        make_policy(spec),
        latency=table,
        exits=exits,
        exit_rates=uniform(table),
        overhead_ns=overhead,
        b_max=b_max,
        slots=b_max + more,
        actual=actual,
    )


SMALL = LatencyTable(ns=((400, 700, 1000), (300, 400, 500), (600, 700, 800)))
OTHER = LatencyTable(ns=((300, 350), (900, 1000)))


@needs_numba
@pytest.mark.parametrize("spec", SOLVED)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_solved_policies_decide_the_same_also_with_other_slots_and_batches_than_solved_for(
    spec: str, data: st.DataObject
) -> None:
    table = data.draw(st.sampled_from((SMALL, OTHER)))
    gaps = data.draw(st.lists(st.one_of(st.just(0), st.integers(0, 3000)), min_size=1, max_size=40))
    slos = data.draw(st.lists(st.sampled_from([900, 4000, 9000]), min_size=len(gaps), max_size=len(gaps)))
    requests = [Request(i, int(a), int(a) + s) for i, (a, s) in enumerate(zip(np.cumsum(gaps), slos, strict=True))]
    exits = [data.draw(st.integers(0, table.stages - 1)) for _ in requests]
    b_max = data.draw(st.integers(1, table.b_max))
    policy = made(spec, table, 4000, None, data.draw(st.sampled_from([None, table.b_max + 2])))
    assert_same(
        requests,
        policy,
        latency=table,
        exits=exits,
        exit_rates=uniform(table),
        b_max=b_max,
        slots=data.draw(st.integers(b_max, table.b_max + 2)),
    )


@needs_numba
@pytest.mark.parametrize("spec", ALL)
def test_the_same_schedules_of_a_drifting_row_of_table_2(spec: str) -> None:
    row, truth = ROWS[1], Truth(traffic="bursty", latency_factor=1.15)
    serving = Serving.loads(json.dumps(row))
    policy = make_policy(spec, serving.setting(row["rate_per_s"], row["slo_ms"] * 10**6))
    source = Source(rate_per_s=row["rate_per_s"], slo_ns=row["slo_ms"] * 10**6, count=600, truth=truth)
    drawn = source.draw(serving, 4)
    factor = truth.latency_factor
    actual = LatencyTable(ns=tuple(tuple(round(ns * factor) for ns in line) for line in serving.latency.ns))
    circumstances = {"latency": serving.latency, "exits": drawn.exits, "exit_rates": serving.exit_rates}
    assert_same(drawn.requests, policy, **circumstances, actual=actual)


@needs_numba
def test_a_comparison_is_the_same_through_the_loop_as_through_the_engine() -> None:
    serving = Serving.loads(json.dumps(ROWS[3]))
    seen: list[tuple[int, int]] = []
    usual: dict[str, Any] = {"rate_per_s": 40, "slo_ns": 200_000_000, "requests": 800, "seeds": 3}
    policies = ["fluid", "lazy:layers=8:cost=100us", "serial", "credit:anytime=3%"]
    fast = compare(serving, policies, **usual, compiled=True, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    slow = compare(serving, policies, **usual, compiled=False, engine=Local(processes=2))
    assert fast.metrics == slow.metrics


def test_other_policies_are_left_to_the_engine() -> None:
    class Mine(Fluid):
        pass

    requests = [Request(0, 0, 100)]
    world: dict[str, Any] = {"latency": SMALL, "exits": [0], "exit_rates": uniform(SMALL)}
    for other in (Mine(), *map(make_policy, ("serial", "staged", "turns", "fluid:shed=1"))):
        assert serve_compiled(requests, other, World(**world)) is None
    with pytest.raises(SchedulerError, match="one exit for each"):
        serve_compiled(requests, Fluid(), World(**world | {"exits": []}))


@needs_numba
def test_what_the_engine_refuses_is_left_to_it() -> None:
    """A policy solved for two stages is asked to serve three: not served, rather than read out of bounds."""
    policy = made("optimal", OTHER, 4000, None, None)
    assert (
        serve_compiled([Request(0, 0, 9)], policy, World(latency=SMALL, exits=[0], exit_rates=uniform(SMALL))) is None
    )


WITHOUT = """
import sys
sys.modules["numba"] = None
sys.path[:0] = {path!r}
import test_scheduler_compiled as here
from fluidnpu.scheduler.compiled import trace as compiled
from fluidnpu.scheduler.policies import selection
selection.FIRST = selection.SECOND = (3, 100)  # any weights will do
assert not compiled.has_numba()
here.check_comparison_without_numba()
compiled.has_numba = lambda: True  # the loop's own functions, not compiled
here.check_all_policies_on_a_short_stream()
"""


def check_comparison_without_numba() -> None:
    serving = Serving.loads(json.dumps(ROWS[3]))
    usual: dict[str, Any] = {"rate_per_s": 40, "slo_ns": 200_000_000, "requests": 100, "seeds": 1}
    assert compare(serving, ["fluid"], **usual, compiled=True).metrics == compare(serving, ["fluid"], **usual).metrics


def check_all_policies_on_a_short_stream() -> None:
    rng = np.random.default_rng(5)
    arrivals = np.cumsum(rng.exponential(900, 150)).astype(int)
    requests = [Request(i, int(a), int(a) + 4000) for i, a in enumerate(arrivals)]
    exits = rng.integers(0, 3, 150).tolist()
    for spec in ALL:
        policy = made(spec, SMALL, 4000, None, None) if spec in SOLVED else make_policy(spec)
        assert_same(requests, policy, latency=SMALL, exits=exits, exit_rates=uniform(SMALL))


def test_without_numba_the_engine_serves_and_the_loop_is_still_right() -> None:
    code = WITHOUT.format(path=[str(Path(__file__).parent), *sys.path])
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
