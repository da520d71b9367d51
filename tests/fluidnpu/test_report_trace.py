"""A trace tells every run and every sample once, and its tracks can be drawn."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidnpu.dse import LatencyTable
from fluidnpu.reports.trace import FIRST_SAMPLE_TRACK, NPU_TRACK, trace
from fluidnpu.scheduler import Schedule, World, draw_exits, poisson, simulate
from fluidnpu.scheduler.policies import Fluid

EXITS = ("early", "final")
RATES = (0.4, 0.6)


def schedule() -> Schedule:
    rng = np.random.default_rng(3)
    requests = poisson(40_000, 200, slo_ns=400_000, rng=rng)
    latency = LatencyTable(ns=((20_000, 30_000, 40_000, 50_000),) * 2)
    return simulate(
        requests, Fluid(), World(latency=latency, exits=draw_exits(RATES, 200, rng).tolist(), exit_rates=RATES)
    )


def slices(events: list[dict[str, Any]], first: int, last: int) -> Iterator[dict[str, Any]]:
    return (e for e in events if e["ph"] == "X" and first <= e["tid"] <= last)


def test_a_trace_tells_every_run_and_every_sample_once() -> None:
    done = schedule()
    events = json.loads(trace([done, done], EXITS))["traceEvents"]
    for process in (1, 2):
        own = [e for e in events if e["pid"] == process]
        assert len(list(slices(own, NPU_TRACK, NPU_TRACK))) == len(done.runs)
        lives = [e for e in slices(own, FIRST_SAMPLE_TRACK, 10**6) if e["name"].startswith("sample")]
        assert sorted(e["name"] for e in lives) == sorted(f"sample {r.id}" for r in done.requests)


def test_slices_on_a_track_nest_or_follow_each_other() -> None:
    events = json.loads(trace([schedule()], EXITS))["traceEvents"]
    tracks = defaultdict(list)
    for e in slices(events, 0, 10**6):
        tracks[e["tid"]].append((round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3)))
    for spans in tracks.values():
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def test_the_queue_counter_never_falls_below_zero_and_ends_empty() -> None:
    events = json.loads(trace([schedule()], EXITS))["traceEvents"]
    queue = [e["args"]["samples"] for e in events if e["ph"] == "C"]
    assert min(queue) >= 0
    assert queue[-1] == 0
