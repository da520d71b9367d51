"""Schedules as a Chrome trace, for Perfetto: a process per policy with the NPU's runs, every sample's life,
the queue.

Format: JSON object with `traceEvents`; times in microseconds (Chrome's unit), fractions keep the nanoseconds.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from typing import Any

from fluidnpu.scheduler import Outcome, Schedule

Event = dict[str, Any]
NPU_TRACK = 1
FIRST_SAMPLE_TRACK = 10


def trace(schedules: Sequence[Schedule], exits: Sequence[str]) -> str:
    """Write schedules over the same arrivals as one trace; `exits` names the exit that ends each stage."""
    events: list[Event] = []
    for process, schedule in enumerate(schedules, 1):
        events.extend(_events(process, schedule, exits))
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"), allow_nan=False)


def _events(process: int, schedule: Schedule, exits: Sequence[str]) -> Iterator[Event]:
    yield _name("process_name", process, 0, f"{schedule.policy} (simulated NPU)")
    yield _name("thread_name", process, NPU_TRACK, "NPU")
    lanes = _lanes(schedule)
    for lane in range(max(lanes, default=-1) + 1):
        yield _name("thread_name", process, FIRST_SAMPLE_TRACK + lane, f"sample lane {lane}")
    lane_of = {request.id: lane for request, lane in zip(schedule.requests, lanes, strict=True)}
    for run in schedule.runs:
        label = f"{exits[run.stage]} x{len(run.ids)}"
        args = {"batch": len(run.ids), "samples": list(run.ids), "why": run.reason}
        span = (run.start_ns, run.end_ns)
        yield _slice(process, NPU_TRACK, label, span, args)
        for key in run.ids:
            track = FIRST_SAMPLE_TRACK + lane_of[key]
            yield _slice(process, track, f"to {exits[run.stage]}", span, {"batch": len(run.ids)})
    for record in schedule.records:
        request, span = record.request, (record.request.arrival_ns, record.end_ns)
        left = "shed" if record.outcome is Outcome.SHED else exits[record.exit]
        args = {"left at": left, "late": record.late, "latency_us": record.latency_ns / 1e3}
        track = FIRST_SAMPLE_TRACK + lane_of[request.id]
        yield _slice(process, track, f"sample {request.id}", span, args)
    yield from _queue(process, schedule)


def _lanes(schedule: Schedule) -> list[int]:
    """Give each request a track, in order of arrival, so that lives on one track never overlap."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = []
    used = 0
    for request, end in zip(schedule.requests, schedule.end_ns, strict=True):
        while busy and busy[0][0] <= request.arrival_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        heapq.heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes


def _queue(process: int, schedule: Schedule) -> Iterator[Event]:
    steps = [(request.arrival_ns, 1) for request in schedule.requests]
    steps += [(start, -1) for start in schedule.start_ns]
    waiting = 0
    for at, step in sorted(steps, key=lambda s: (s[0], -s[1])):
        waiting += step
        yield {"ph": "C", "pid": process, "name": "queue", "ts": at / 1e3, "args": {"samples": waiting}}


def _name(kind: str, process: int, thread: int, text: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": text}}


def _slice(process: int, thread: int, name: str, span_ns: tuple[int, int], args: dict[str, Any]) -> Event:
    start_ns, end_ns = span_ns
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": start_ns / 1e3,
        "dur": (end_ns - start_ns) / 1e3,
        "args": args,
    }
