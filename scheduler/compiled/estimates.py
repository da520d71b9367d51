"""Compiled twin of the running estimates in `policies/estimates.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .state import at, jit
from .twin import RUN, Floats, Npu, Records, State, Stream

ESTIMATES = np.dtype(
    [
        ("gap", "f8"),
        ("pace", "f8"),
        ("arrival", "i8"),
        ("raised", "i8"),
        ("began", "i8"),
        ("stage", "i8"),
        ("batch", "i8"),
        ("believed", "i8"),
        ("then", "i8"),
    ]
)


class EstimatesTwin(NamedTuple):
    """The twin of `Estimates`. `memory[0].stage` is -1 while no run is awaited; `told`: the load told."""

    memory: Records
    goes_on: Floats
    work: Floats
    told: float
    kept: Floats
    span: float
    up: float
    down: float


@jit
def arrive(twin: EstimatesTwin, arrival: int) -> None:
    """Note the arrival of the next request."""
    memory = twin.memory[0]
    if memory.arrival >= 0:
        memory.gap += (arrival - memory.arrival - memory.gap) / twin.span
    memory.arrival = arrival


@jit
def see(twin: EstimatesTwin, state: State, stream: Stream) -> None:
    """Learn from the run that has ended, and judge the load."""
    memory, now = twin.memory[0], state.counts[0].now
    stages = len(state.many)
    if memory.stage >= 0 and now > memory.began:
        stage, size = memory.stage, memory.batch
        if stage + 1 < stages:
            stayed = min(max(state.many[stage + 1] - memory.then, 0), size)
            kept = twin.kept[size]
            twin.goes_on[stage] = kept * twin.goes_on[stage] + (1 - kept) * (stayed / size)
        for s in range(stages):
            if state.many[s] and stream.arrival[at(state, s, 0)] <= memory.began:
                memory.pace += ((now - memory.began) / memory.believed - memory.pace) / twin.span
                break
        work, reaching = 0.0, 1.0
        for s in range(stages):
            work += reaching * twin.work[s]
            reaching *= twin.goes_on[s]
        load = work * memory.pace / memory.gap
        memory.raised = int(load > twin.told * (twin.down if memory.raised else twin.up))
    memory.stage = -1


@jit
def remember(twin: EstimatesTwin, state: State, npu: Npu) -> None:
    """Remember the run decided."""
    memory, action = twin.memory[0], state.action[0]
    if action.kind == RUN:
        stage, size = action.stage, action.samples
        memory.began, memory.stage, memory.batch = state.counts[0].now, stage, size
        memory.believed = npu.believed[stage, size - 1]
        memory.then = state.many[stage + 1] if stage + 1 < len(state.many) else 0
