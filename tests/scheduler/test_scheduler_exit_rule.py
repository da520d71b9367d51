"""The exit rule has one comparison, for samples and arrays, and the simulator asks it at the exit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import uniform, worlds

from fluidnpu.dse import LatencyTable
from fluidnpu.dse.testing import tiny_design
from fluidnpu.models.exits import decide_exits
from fluidnpu.scheduler import Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.compiled.trace import serve_compiled
from fluidnpu.scheduler.exits import RuledExits, Seen, StageCosts
from fluidnpu.scheduler.exits.rule import Threshold
from fluidnpu.scheduler.policies.baselines import Serial

TABLE = LatencyTable(ns=((10, 15), (10, 15), (10, 15)))
shares = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def asked(exit: int, confidence: float | None) -> Seen:
    return Seen(exit=exit, elapsed_ns=0, slack_ns=0, confidence=confidence)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(shares, min_size=n, max_size=n), min_size=1, max_size=8),
            st.lists(shares, min_size=n, max_size=n),
        )
    )
)
def test_one_sample_and_arrays_and_the_golden_model_leave_at_the_same_exits(
    drawn: tuple[list[list[float]], list[float]],
) -> None:
    """Also where a confidence equals its threshold, which is not above it."""
    table, limits = drawn
    rule, last = Threshold(limits), len(limits) - 1
    one_by_one = [next(e for e in range(last + 1) if e == last or rule.leaves(asked(e, row[e]))) for row in table]
    assert rule.exits(table).tolist() == one_by_one
    assert decide_exits(list(np.array(table).T), limits).tolist() == one_by_one


def test_thresholds_refuse_nonsense() -> None:
    assert Threshold([0.8, 0.8, 0.8]).exits([[0.9, 0.2, 0.3], [0.8, 0.81, 0.1], [0.1, 0.1, 0.1]]).tolist() == [0, 1, 2]
    with pytest.raises(SchedulerError, match=r"lie in 0\.\.1"):
        Threshold([0.5, 0.5]).exits([[1.5, 0.1]])
    with pytest.raises(SchedulerError, match=r"one threshold for every exit but the last, not \(1, 3\) and \(1,\)"):
        Threshold([0.5]).exits([[0.5, 0.1, 0.1]])
    assert Threshold([0.5]).exits([[0.6, 0.1], [0.5, 0.1]]).tolist() == [0, 1]
    with pytest.raises(SchedulerError, match="thresholds must be numbers"):
        Threshold([0.5, float("nan")])
    with pytest.raises(SchedulerError, match="needs the confidence at exit 1, and none is known"):
        Threshold([0.5, 0.5]).leaves(asked(1, None))


def test_costs_add_up_to_an_exit_and_may_be_unknown() -> None:
    costs = StageCosts(macs=(3, 4, 5), energy_nj=(1.0, 0.5, 0.25))
    assert [costs.up_to(exit) for exit in range(3)] == [(3, 1.0), (7, 1.5), (12, 1.75)]
    assert StageCosts().up_to(1) == (None, None)
    design = tiny_design()
    assert sum(StageCosts.of(design).macs) == sum(layer.macs for layer in design.layers)


class Late:
    """Leaves once more time than this has passed since arrival."""

    def __init__(self, limit_ns: int) -> None:
        self.limit_ns = limit_ns

    def leaves(self, seen: Seen) -> bool:
        return seen.elapsed_ns > self.limit_ns


def test_a_rule_over_response_time_is_asked_at_the_end_of_each_run() -> None:
    requests = [Request(0, 0, 100), Request(1, 0, 100), Request(2, 0, 100)]
    world = World(latency=TABLE, exits=RuledExits(rule=Late(20)), exit_rates=uniform(TABLE))
    done = simulate(requests, Serial(), world)
    assert [(r.end_ns, r.exit) for r in done.records] == [(30, 2), (40, 0), (50, 0)]
    done.check()


@given(worlds(), st.sampled_from(["serial", "greedy", "fluid"]), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_exits_decided_at_the_exit_make_the_schedule_of_the_same_exits_drawn_before(
    world: tuple[LatencyTable, list[Request], list[int]], spec: str, overhead: int
) -> None:
    table, requests, exits = world
    sure = {r.id: [float(e == leave) for e in range(table.stages)] for r, leave in zip(requests, exits, strict=True)}
    usual: dict[str, Any] = {"latency": table, "exit_rates": uniform(table), "overhead_ns": overhead}
    live = RuledExits(rule=Threshold([0.5] * table.stages), confidences=sure)
    ruled = simulate(requests, make_policy(spec), World(exits=live, **usual))
    assert ruled == simulate(requests, make_policy(spec), World(exits=exits, **usual))
    ruled.check()


def test_the_compiled_loop_leaves_rules_to_the_engine() -> None:
    world = World(latency=TABLE, exits=RuledExits(rule=Late(20)), exit_rates=uniform(TABLE))
    assert serve_compiled([Request(0, 0, 100)], Serial(), world) is None
