"""Streams from traces and confidences and decision logs that stand alone are the same to every policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import ROWS, RandomWorld, worlds

from fluidnpu.scheduler import (
    PolicyError,
    Request,
    Schedule,
    SchedulerError,
    Serving,
    TrafficError,
    compare,
)
from fluidnpu.scheduler.comparison import Source, Truth, compare_streams, record, replay
from fluidnpu.scheduler.exits import Recorded, read_confidence_file
from fluidnpu.scheduler.exits.confidences import read_confidences

SERVING = Serving.loads(json.dumps({**ROWS[0], "name": "row"}))
RATE, SLO_NS = 15.0, 200 * 10**6


def trace(count: int = 300, exits: bool = False) -> tuple[str, list[Request], list[int]]:
    drawn = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=count).draw(SERVING, 5)
    stream, leave = drawn.requests, drawn.exits
    head = "arrival_ms,slo_ms" + (",exit" if exits else "")
    rows = [f"{r.arrival_ns / 1e6:.6f},200" + (f",{e}" if exits else "") for r, e in zip(stream, leave, strict=True)]
    return "\n".join([head, *rows]) + "\n", stream, leave


def test_synthetic_streams_are_those_of_compare() -> None:
    source = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=400, truth=Truth(traffic="mmpp:burst=2"))
    told: list[tuple[int, int]] = []
    found = compare_streams(SERVING, ["greedy"], source, seeds=2, progress=lambda done, of: told.append((done, of)))
    same = compare(SERVING, ["greedy"], rate_per_s=RATE, slo_ns=SLO_NS, requests=400, seeds=2, truth=source.truth)
    assert found.comparison.to_dict() == same.to_dict()
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)


def test_a_trace_with_exits_is_one_stream_and_gives_the_schedule_it_was_made_of() -> None:
    text, stream, leave = trace(exits=True)
    source = Source.of_trace(text, slo_ns=None, rate_per_s=None, source="t.csv")
    drawn = source.draw(SERVING, 3)
    assert drawn.requests == stream
    assert drawn.exits == leave
    assert source.slo_ns == SLO_NS
    assert source.rate_per_s == pytest.approx(RATE, rel=0.2)
    found = compare_streams(SERVING, ["greedy", "fluid"], source, seeds=30)
    assert len(found.comparison.metrics["fluid"]) == 1
    assert found.to_dict()["traffic"] == "t.csv"


def test_a_trace_without_exits_draws_them_anew_for_each_seed() -> None:
    source = Source.of_trace(trace()[0], slo_ns=None, rate_per_s=20.0)
    first, second = source.draw(SERVING, 0), source.draw(SERVING, 1)
    assert first.requests == second.requests
    assert first.exits != second.exits
    assert source.rate_per_s == 20.0


def test_a_short_overloaded_trace_keeps_its_numbers_but_endless_traffic_does_not() -> None:
    text = "arrival_ms\n" + "".join(f"{10 * k}\n" for k in range(50))  # 100/s where 23/s can be served
    ended = compare_streams(SERVING, ["greedy"], Source.of_trace(text, slo_ns=SLO_NS, rate_per_s=None), seeds=2)
    assert not ended.comparison.unstable("greedy")
    endless = compare_streams(SERVING, ["greedy"], Source(rate_per_s=100, slo_ns=SLO_NS, count=50), seeds=2)
    assert endless.comparison.unstable("greedy")
    assert endless.to_dict()["policies"]["greedy"]["p99_ms"] == {"mean": None, "low": None, "high": None}


def test_traces_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TrafficError, match=r"exits in the trace must be 0\.\.3, not 4"):
        compare_streams(
            SERVING, ["greedy"], Source.of_trace("arrival_ms,exit\n1,0\n2,4\n", slo_ns=1, rate_per_s=None), seeds=1
        )
    with pytest.raises(TrafficError, match=r"line 3 must hold an exit from 0 to 3, as the latency table has"):
        Source.of_trace("arrival_ms,exit\n1,0\n2,4\n", slo_ns=1, rate_per_s=None, stages=4)
    with pytest.raises(TrafficError, match="more than one time"):
        Source.of_trace("arrival_ms\n1\n1\n", slo_ns=1, rate_per_s=None)
    with pytest.raises(SchedulerError, match="at least one seed"):
        compare_streams(SERVING, ["greedy"], Source(rate_per_s=1, slo_ns=1, count=1), seeds=0)


def table(count: int = 200) -> Recorded:
    rng = np.random.default_rng(3)
    sure = np.sort(rng.random((count, 4)), axis=1)
    return Recorded(confidences=sure, correct=rng.random((count, 4)) < sure)


def test_recorded_confidences_decide_exits_and_accuracy_is_lost_by_anytime_answers_only() -> None:
    recorded, limits = table(), (0.8, 0.8, 0.8, 0.0)
    serving = Serving(latency=SERVING.latency, exit_rates=recorded.exit_rates(limits))
    source = Source(rate_per_s=22.0, slo_ns=SLO_NS, count=1500, recorded=recorded, thresholds=limits)
    found = compare_streams(serving, ["fluid", "fluid:anytime=3%", "lazy:layers=8"], source, seeds=2)
    assert found.accuracy_lost_points["fluid"].mean == 0
    assert found.accuracy_lost_points["lazy:layers=8"].mean == 0
    assert found.comparison.metrics["fluid:anytime=3%"][0].anytime_pct > 0
    assert found.accuracy_lost_points["fluid:anytime=3%"].mean != 0
    assert found.to_dict()["policies"]["fluid"]["accuracy_pct"]["mean"] == found.accuracy_pct["fluid"].mean
    drawn = source.draw(serving, 0)
    assert drawn.exits == recorded.exits(limits)[drawn.samples].tolist()


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_change_no_number(processes: int) -> None:
    recorded, limits = table(), (0.8, 0.8, 0.8, 0.0)
    source = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=300, recorded=recorded, thresholds=limits)
    found = compare_streams(SERVING, ["greedy"], source, seeds=3, processes=processes)
    assert [m.exit_pct for m in found.comparison.metrics["greedy"]] == [
        m.exit_pct for m in compare_streams(SERVING, ["greedy"], source, seeds=3).comparison.metrics["greedy"]
    ]


def test_lazy_answers_at_the_exits_of_its_stages_and_what_it_sheds_is_wrong() -> None:
    names = ["greedy", "lazy:layers=12", "lazy:layers=12:shed=1"]
    source = Source(rate_per_s=15, slo_ns=SLO_NS, count=300, recorded=table(), thresholds=(0.8, 0.8, 0.8, 0))
    accuracy = compare_streams(SERVING, names, source, seeds=2).accuracy_pct
    assert accuracy["greedy"] == accuracy["lazy:layers=12"]
    assert accuracy["lazy:layers=12:shed=1"].mean < accuracy["greedy"].mean


def test_confidence_files_read_back(tmp_path: Path) -> None:
    recorded = table(20)
    sure, right = np.asarray(recorded.confidences), np.asarray(recorded.correct)
    head = ",".join(f"{kind}_{k}" for k in range(1, 5) for kind in ("correct", "confidence"))
    lines = [
        ",".join(f"{int(r)},{c!r}" for c, r in zip(map(float, cs), rs, strict=True))
        for cs, rs in zip(sure, right, strict=True)
    ]
    (tmp_path / "c.csv").write_text("\n".join([head, *lines]))
    np.savez(tmp_path / "c.npz", confidences=sure, correct=right)
    for name in ("c.csv", "c.npz"):
        found = read_confidence_file(tmp_path / name)
        assert np.array_equal(np.asarray(found.confidences), sure)
        assert np.array_equal(np.asarray(found.correct), right)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1 must name confidence_k"),
        ("confidence_1,correct_2\n", "line 1 must name confidence_k"),
        ("confidence_1,correct_1\n", "at least one sample"),
        ("confidence_1,correct_1\n0.5,1\n1.5,1\n", "line 3 must hold"),
        ("confidence_1,correct_1\n0.5,yes\n", "line 2 must hold"),
        ("confidence_1,correct_1\nnan,1\n", "line 2 must hold"),
        ("confidence_1,correct_1\n0.5\n", "line 2 must hold"),
    ],
)
def test_confidence_text_is_refused_by_line(text: str, says: str) -> None:
    with pytest.raises(SchedulerError, match=says):
        read_confidences(text)


def test_confidence_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.npz").write_bytes(b"not a zip")
    np.savez(tmp_path / "d.npz", confidences=np.zeros((2, 2)))
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("c.npz", "d.npz", "e.csv"):
        with pytest.raises(SchedulerError, match=name):
            read_confidence_file(tmp_path / name)


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
