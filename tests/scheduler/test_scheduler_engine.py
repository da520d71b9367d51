"""The simulator keeps its rules, refuses policies that break them, and replays to the same schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import ROWS, RandomWorld, lines_run, serve_row, uniform, worlds

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import (
    Action,
    Answer,
    Outcome,
    PolicyError,
    Request,
    Run,
    Schedule,
    SchedulerError,
    Shed,
    TrafficError,
    View,
    Wait,
    World,
    make_policy,
    simulate,
)
from fluidnpu.scheduler.policies.baselines import Greedy, Serial
from fluidnpu.scheduler.simulation.schedule import Replay, read_log

TABLE = LatencyTable(ns=((10, 15, 20), (10, 16, 22)))
RATES = [0.5, 0.5]
Decide = Callable[[View], Action]


class Script:
    """A policy that returns the actions of a function."""

    name = "script"

    def __init__(self, decide: Decide) -> None:
        self.decide = decide

    def reset(self) -> None:
        pass


def serve(
    decide: Decide, arrivals: Sequence[int] = (0, 0, 0), exits: Sequence[int] | None = None, **options: Any
) -> Schedule:
    requests = [Request(i, at, at + 100) for i, at in enumerate(arrivals)]
    circumstances: dict[str, Any] = {"latency": TABLE, "exit_rates": RATES} | options
    return simulate(requests, Script(decide), World(exits=exits or [1] * len(requests), **circumstances))


def first(view: View, stage: int = 0, count: int = 1) -> tuple[Request, ...]:
    return tuple(view.waiting[stage][:count])


def test_a_run_takes_the_time_of_its_stage_and_batch() -> None:
    done = serve(lambda v: Greedy().decide(v), arrivals=(0, 10, 30), exits=[0, 1, 0])
    assert [(r.start_ns, r.end_ns, r.exit) for r in done.records] == [(0, 10, 0), (10, 30, 1), (30, 40, 0)]
    assert [(r.start_ns, r.end_ns, r.stage, r.ids) for r in done.runs] == [
        (0, 10, 0, (0,)),
        (10, 20, 0, (1,)),
        (20, 30, 1, (1,)),
        (30, 40, 0, (2,)),
    ]


def test_an_arrival_at_the_end_of_a_run_is_seen_by_the_next_decision() -> None:
    seen: list[tuple[int, list[int], bool]] = []

    def decide(view: View) -> Action:
        seen.append((view.now_ns, [r.id for r in view.waiting[0]], view.closed))
        return Greedy().decide(view)

    serve(decide, arrivals=(0, 10), exits=[0, 0])
    assert seen == [(0, [0], False), (10, [1], True)]


def test_equal_arrivals_are_seen_together_in_order_of_id() -> None:
    seen: list[list[int]] = []

    def decide(view: View) -> Action:
        seen.append([r.id for r in view.waiting[0]])
        return Serial().decide(view)

    serve(decide, arrivals=(5, 5, 5), exits=[0, 0, 0])
    assert seen == [[0, 1, 2], [1, 2], [2]]


def test_a_wait_ends_at_the_next_arrival_or_its_timeout_whichever_is_first() -> None:
    asked: list[int] = []

    def decide(view: View) -> Action:
        asked.append(view.now_ns)
        return Run(0, tuple(view.waiting[0])) if view.closed or len(asked) == 4 else Wait(view.now_ns + 7)

    serve(decide, arrivals=(0, 3, 50), exits=[0, 0, 0])
    assert asked == [0, 3, 10, 17, 50]


def test_merging_keeps_samples_in_order_of_arrival() -> None:
    def decide(view: View) -> Action:
        if view.now_ns == 0:
            return Run(0, (view.waiting[0][1],))
        if view.waiting[0]:
            return Run(0, (view.waiting[0][0],))
        return Run(1, tuple(view.waiting[1]))

    assert serve(decide, arrivals=(0, 0)).runs[-1].ids == (0, 1)


BROKEN: dict[str, tuple[Decide, str]] = {
    "unknown stage": (lambda v: Run(2, first(v)), "runs stage 2"),
    "empty batch": (lambda v: Run(0, ()), "batch of 0"),
    "batch above b_max": (lambda v: Run(0, first(v, count=3)), "1..2"),
    "same request twice": (lambda v: Run(0, first(v) * 2), "names a request twice"),
    "request elsewhere": (lambda v: Run(1, first(v)), "does not wait at the entry of stage 1"),
    "too many slots": (lambda v: Run(0, first(v, count=2 if v.now_ns == 0 else 1)), "holds 3 samples in 2 slots"),
    "endless wait": (lambda v: Wait(), "no further arrival can come"),
    "wait for the past": (lambda v: Wait(v.now_ns), "not later than now"),
    "answer from the queue": (lambda v: Answer(first(v)), "waits past no exit"),
    "answer nobody": (lambda v: Answer(()), "answers nobody"),
    "shed nobody": (lambda v: Shed(()), "sheds nobody"),
    "no action": (lambda v: cast(Action, None), "no action"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_action_is_refused_naming_policy_and_violation(case: str) -> None:
    decide, message = BROKEN[case]
    late = (0, 0, 0, 99) if case == "wait for the past" else (0, 0, 0)
    with pytest.raises(PolicyError, match="policy 'script'.*" + message.replace("(", r"\(")):
        serve(decide, arrivals=late, b_max=2)


def test_slots_may_be_more_than_a_batch() -> None:
    done = serve(lambda v: Run(0, first(v, count=2)) if v.waiting[0] else Run(1, first(v, 1, 2)), b_max=2, slots=3)
    assert [len(r.ids) for r in done.runs] == [2, 1, 2, 1]
    done.check()


def test_anytime_answers_and_shed_requests_leave_at_once() -> None:
    def decide(view: View) -> Action:
        if view.waiting[1]:
            return Answer(tuple(view.waiting[1]))
        if view.waiting[0][0].id == 2:
            return Shed(first(view))
        return Run(0, first(view))

    done = serve(decide)
    assert [(r.end_ns, r.exit, r.outcome) for r in done.records] == [
        (10, 0, Outcome.ANYTIME),
        (20, 0, Outcome.ANYTIME),
        (20, -1, Outcome.SHED),
    ]
    assert [r.late for r in done.records] == [False, False, True]
    done.check()


def test_overhead_is_added_to_every_run_and_truth_may_differ_from_belief() -> None:
    slow = LatencyTable(ns=tuple(tuple(2 * x for x in row) for row in TABLE.ns))
    done = serve(lambda v: Serial().decide(v), arrivals=(0,), overhead_ns=3, actual=slow)
    assert done.end_ns == (20 + 3 + 20 + 3,)


@pytest.mark.parametrize("spec", ["serial", "greedy", "adaptive-m", "fluid", "fluid-repaired"])
def test_the_log_replays_to_the_same_schedule_through_text(spec: str) -> None:
    row = ROWS[1]
    done = serve_row(row, spec, count=400)
    log = read_log(done.log_lines(), done.requests)
    assert log == done.log
    again = serve_row(row, Replay(log, name=spec), count=400)
    assert again == done
    assert serve_row(row, spec, count=400) == done  # and from the seed alone


def test_a_replay_in_another_world_is_refused() -> None:
    done = serve_row(ROWS[1], "greedy", count=50)
    with pytest.raises(PolicyError, match=r"decision .* was taken at"):
        serve_row(ROWS[0], Replay(done.log), count=50)
    with pytest.raises(PolicyError, match="ends before"):
        serve_row(ROWS[1], Replay(done.log[:-1]), count=50)


def test_a_damaged_log_names_its_line() -> None:
    done = serve_row(ROWS[1], "greedy", count=20)
    lines = list(done.log_lines())
    with pytest.raises(SchedulerError, match="line 2 of the decision log"):
        read_log([lines[0], "{"], done.requests)
    with pytest.raises(SchedulerError, match="line 1 of the decision log"):
        read_log([lines[0].replace("run", "walk")], done.requests)


@given(
    worlds(),
    st.sampled_from(["serial", "greedy", "adaptive:timeout=30ns", "fluid", "fluid-repaired"]),
    st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_every_schedule_obeys_the_rules(world: RandomWorld, spec: str, overhead: int) -> None:
    table, requests, exits = world
    done = simulate(
        requests, make_policy(spec), World(latency=table, exits=exits, exit_rates=uniform(table), overhead_ns=overhead)
    )
    done.check()
    assert list(done.exit) == exits  # nobody is answered early by these policies


def test_check_notices_a_broken_schedule() -> None:
    done = serve(lambda v: Greedy().decide(v))
    wrong = dataclasses.replace(done, end_ns=(done.end_ns[0] - 1, *done.end_ns[1:]))
    with pytest.raises(PolicyError, match="not answered when its run ended"):
        wrong.check()
    with pytest.raises(PolicyError, match="left at an exit"):
        dataclasses.replace(done, exit=(0, *done.exit[1:])).check()
    with pytest.raises(PolicyError, match="slots"):
        dataclasses.replace(done, slots=1).check()
    with pytest.raises(PolicyError, match=r"missing|left at an exit"):
        dataclasses.replace(done, log=done.log[:-1], run_end_ns=done.run_end_ns[:-1]).check()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"exits": [0]}, SchedulerError, "one exit for each of 3 requests, not 1"),
        ({"exits": [0, 2, 0]}, SchedulerError, "request 1 must leave at an exit in 0..1, not 2"),
        ({"exit_rates": [1.0]}, SchedulerError, "2 shares"),
        ({"exit_rates": [0.5, 0.6]}, SchedulerError, "sum to 1"),
        ({"b_max": 0}, SchedulerError, r"1..3.*not 0"),
        ({"b_max": 4}, SchedulerError, r"1..3.*not 4"),
        ({"slots": 1}, SchedulerError, "slots must be at least b_max = 3, not 1"),
        ({"overhead_ns": -1}, SchedulerError, "must not be negative"),
        ({"actual": LatencyTable(ns=((1,),))}, SchedulerError, "both latency tables"),
        ({"requests": [Request(0, 5, 4)]}, TrafficError, "later deadline"),
        ({"requests": [Request(0, -1, 4)]}, TrafficError, "arrive at or after 0"),
        ({"requests": [Request(0, 0, 4), Request(0, 1, 4)]}, TrafficError, "unique"),
        ({"requests": [Request(0, 5, 9), Request(1, 4, 9)]}, TrafficError, "sorted"),
    ],
)
def test_inconsistent_input_is_refused_in_one_sentence(
    change: dict[str, Any], error: type[SchedulerError], message: str
) -> None:
    usual: dict[str, Any] = {
        "requests": [Request(i, i, i + 9) for i in range(3)],
        "exits": [0, 0, 0],
        "exit_rates": RATES,
    }
    arguments = usual | change
    if "requests" in change:
        arguments["exits"] = [0] * len(change["requests"])
    with pytest.raises(error, match=message):
        simulate(arguments.pop("requests"), Greedy(), World(latency=TABLE, **arguments))


def test_the_engine_is_quick_enough_for_long_sweeps() -> None:
    row = ROWS[1]
    done = serve_row(row, "greedy", count=5000)
    lines = lines_run(lambda: serve_row(row, "greedy", count=5000)) / done.decisions
    assert lines < 200, "three times what it takes, so only a change of order fails"
    assert np.all(np.array(done.end_ns) > 0)
