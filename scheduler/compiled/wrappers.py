"""Compiled twins of the wrappers in `policies/wrappers/`."""

from __future__ import annotations

from .state import at, jit, run
from .twin import ANSWER, RUN, DrainTwin, Npu, State, Stream, Wrappers


@jit
def answer_early(state: State, npu: Npu, stream: Stream, wrappers: Wrappers) -> None:
    """Answer as `Anytime` the samples that cannot be in time, in place of the action decided."""
    counts, action = state.counts[0], state.action[0]
    stage, end, chosen = -1, counts.now, 0
    if action.kind == RUN:
        stage = action.stage
        end += npu.believed[stage, action.samples - 1]
    allowed = counts.early
    if allowed >= 1:
        for s in range(1, len(state.many)):
            for k in range(state.many[s]):
                deadline = stream.deadline[at(state, s, k)]
                if end + npu.believed[s, 0] <= deadline or (wrappers.rescue_only and counts.now > deadline):
                    continue
                if s == stage and end <= deadline and in_batch(state, k):
                    continue
                if chosen + 1 <= allowed:
                    state.gone[chosen] = at(state, s, k)
                    chosen += 1
    if chosen:
        counts.early -= chosen
        action.kind, action.samples = ANSWER, chosen
    elif stage == 0:
        counts.early = min(counts.early + wrappers.anytime * action.samples, wrappers.most)


@jit
def in_batch(state: State, k: int) -> bool:
    """Return whether the batch decided holds place k of its line."""
    for j in range(state.action[0].samples):  # noqa: SIM110 - Numba compiles no generators
        if state.batch[j] == k:
            return True
    return False


@jit
def drain_queue(state: State, npu: Npu, drain: DrainTwin) -> bool:
    """Decide as `Drain`; False, with nothing decided, where the queue is short."""
    drain.on[0] = state.many[0] > (drain.slots if drain.on[0] else drain.enter)
    if not drain.on[0]:
        return False
    key, room = 0, npu.slots
    for s in range(1, len(state.many)):
        if state.many[s] > drain.slots:
            return False
        key = key * (drain.slots + 1) + state.many[s]
        room -= state.many[s]
    if drain.choice[key] < 0:
        return False
    stage, size = drain.choice[key] // drain.b_max, min(drain.choice[key] % drain.b_max + 1, npu.b_max)
    if stage == 0:
        size = min(size, room)
    if size < 1:
        return False
    run(state, stage, size)
    return True
