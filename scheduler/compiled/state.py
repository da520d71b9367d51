"""Compiled steps that the twins of several policies share.

Importing it loads Numba, where it is installed.

The folder `scheduler/compiled` says once more, without objects and reasons, what
`scheduler/simulation/engine.py` and the policies say. `tests/scheduler/test_scheduler_compiled.py` holds
both to the same decision log, event for event. Without Numba the functions are plain Python: right, but
slower than the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidnpu.dse import Jit, has_numba

from .twin import RUN, WAIT, Ints, Npu, State, Stream

NO_DEADLINE = -(2**62)  # before all deadlines

jit = Jit("fluidnpu.scheduler.compiled", error_model="numpy")


def decide(twin: Any, state: State, npu: Npu, stream: Stream) -> None:
    """Let the twin decide; compiled, the twin's type selects its method."""
    twin.decide(state, npu, stream)


if has_numba():
    from numba.extending import overload

    @overload(decide)  # type: ignore[untyped-decorator]
    def _decide(twin: Any, state: Any, npu: Any, stream: Any) -> Callable[..., None]:
        method = twin.instance_class.decide

        def call(twin: Any, state: Any, npu: Any, stream: Any) -> None:
            method(twin, state, npu, stream)

        return call


@jit
def at(state: State, stage: int, k: int) -> int:
    """Return the k-th request that waits at the entry of `stage`."""
    return state.queue[state.counts[0].head + k] if stage == 0 else state.line[stage, k]  # type: ignore[no-any-return]


@jit
def deepest(state: State) -> int:
    """Return the last stage at which samples wait, as `baselines.deepest`."""
    for stage in range(len(state.many) - 1, 0, -1):
        if state.many[stage]:
            return stage
    return 0


@jit
def run(state: State, stage: int, size: int) -> None:
    """Decide to run the oldest `size` at `stage`."""
    action = state.action[0]
    action.kind, action.stage, action.samples = RUN, stage, size
    for k in range(size):
        state.batch[k] = k


@jit
def wait(state: State, until: int) -> None:
    """Decide to wait until a time in ns, or NEVER."""
    action = state.action[0]
    action.kind, action.until, action.samples = WAIT, until, 0


@jit
def oldest_first(state: State, npu: Npu, stream: Stream, patience: int, slots: int) -> bool:
    """Decide as `baselines.oldest_first`; False, with nothing decided, within the patience."""
    stage = -1
    for s in range(len(state.many)):
        if state.many[s] and (stage < 0 or at(state, s, 0) < at(state, stage, 0)):
            stage = s
    oldest = at(state, stage, 0)
    if state.counts[0].now - stream.arrival[oldest] <= patience * (stream.deadline[oldest] - stream.arrival[oldest]):
        return False
    make_room(state, npu, stage, slots)
    return True


@jit
def make_room(state: State, npu: Npu, stage: int, slots: int) -> None:
    """Run the oldest at `stage`, or the samples furthest on when that is the queue and no slot is free."""
    room = npu.b_max
    if stage == 0:
        free = slots - state.counts[0].held
        if free > 0:
            room = min(room, free)
        else:
            stage = deepest(state)
    run(state, stage, min(room, state.many[stage]))


@jit
def urgent(state: State, stream: Stream, most: int) -> Ints:
    """Return the places of each line whose deadlines come first, `most` of them, as `baselines.urgent_lines`.

    They are (stages, most); a row is filled as far as its line goes.
    """
    places = np.empty((len(state.many), most), np.int64)
    for s in range(len(state.many)):
        ordered, last = True, NO_DEADLINE
        for k in range(state.many[s]):
            deadline = stream.deadline[at(state, s, k)]
            if deadline < last:
                ordered = False
                break
            last = deadline
        if ordered:
            for k in range(min(state.many[s], most)):
                places[s, k] = k
            continue
        for k in range(state.many[s]):
            deadline, j = stream.deadline[at(state, s, k)], min(k, most)
            while j > 0 and stream.deadline[at(state, s, places[s, j - 1])] > deadline:
                if j < most:
                    places[s, j] = places[s, j - 1]
                j -= 1
            if j < most:
                places[s, j] = k
    return places


@jit
def take_urgent(state: State, places: Ints) -> None:
    """Make the run take the samples whose deadlines come first; `places` is (stages, look).

    A run of more than were looked at keeps the oldest.
    """
    action = state.action[0]
    if action.kind == RUN and action.samples <= places.shape[1]:
        for k in range(action.samples):
            state.batch[k] = places[action.stage, k]
