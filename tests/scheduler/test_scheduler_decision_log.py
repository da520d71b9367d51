"""Decision logs stand alone: they replay, or say which line or request differs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import ROWS, RandomWorld, worlds

from fluidnpu.scheduler import (
    PolicyError,
    Schedule,
    SchedulerError,
    Serving,
)
from fluidnpu.scheduler.comparison import Source, Truth, record, replay

SERVING = Serving.loads(json.dumps({**ROWS[0], "name": "row"}))
RATE, SLO_NS = 15.0, 200 * 10**6


# -- decision logs ---


def logged(policy: str, count: int = 120, truth: Truth | None = None) -> tuple[str, Schedule]:
    drawn = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=count).draw(SERVING, 1)
    return record(SERVING, policy, drawn.requests, drawn.exits, rate_per_s=RATE, slo_ns=SLO_NS, truth=truth)


@pytest.mark.parametrize(
    "policy",
    ["serial", "adaptive-m", "fluid", "fluid:anytime=3%", "greedy:shed=1", "lazy:layers=16:cost=100us", "staged"],
)
def test_logs_replay_to_the_same_schedule(policy: str) -> None:
    text, done = logged(policy, truth=Truth(latency_factor=1.1))
    found = replay(text.splitlines())
    assert found.policy == policy
    assert found.requests == 120
    assert found.decisions == done.decisions


@settings(max_examples=40, deadline=None)
@given(worlds(), st.sampled_from(["serial", "greedy", "fluid", "fluid-repaired", "staged:tau_b=2"]))
def test_any_world_replays(world: RandomWorld, policy: str) -> None:
    latency, stream, exits = world
    serving = Serving(latency=latency, exit_rates=(*[0.0] * (latency.stages - 1), 1.0))
    text, _ = record(serving, policy, stream, exits, rate_per_s=1.0, slo_ns=100)
    assert replay(text.splitlines()).requests == len(stream)


def test_a_log_on_another_table_says_which_request_differs() -> None:
    text, _ = logged("fluid")
    with pytest.raises(PolicyError):
        replay(text.splitlines(), Serving.loads(json.dumps(ROWS[1])).latency)


def edited(text: str, line: int, **changes: Any) -> list[str]:
    lines = text.splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | changes)
    return lines


def test_a_changed_log_does_not_replay() -> None:
    text, _ = logged("fluid")
    with pytest.raises(PolicyError, match="request 3 left at exit"):
        replay(edited(text, 4, end_ns=1))
    with pytest.raises(PolicyError, match="asked again"):
        replay(edited(text, -1, why="because"))
    with pytest.raises(PolicyError, match="asked again"):
        replay(edited(text, 0, policy="serial"))
    with pytest.raises(PolicyError, match="log ends before"):
        replay(text.splitlines()[:-1])
    with pytest.raises(PolicyError, match="served after"):
        replay([*text.splitlines(), text.splitlines()[-1]])


@pytest.mark.parametrize(
    ("line", "changes", "says"),
    [
        (0, {"schema": 2}, "line 1 .* header"),
        (0, {"latency_ns": [[1]]}, "line 1 .* header"),
        (0, {"requests": 10**6}, "line 122 .* must be a request"),
        (5, {"arrival_ns": 0.5}, "line 6 .* whole numbers"),
        (121, {"do": "fly"}, "line 122 .* one action"),
        (121, {"ids": [10**6]}, "line 122 .* one action"),
    ],
)
def test_malformed_logs_name_the_line(line: int, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SchedulerError, match=says):
        replay(edited(logged("fluid")[0], line, **changes))
    with pytest.raises(SchedulerError, match="line 1"):
        replay([])


def test_a_log_is_text_of_one_line_a_fact() -> None:
    text, done = logged("fluid")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 1 + 120 + done.decisions
    assert all(line["why"] for line in lines[121:])
