"""The simulator's loop, compiled by Numba: the schedules of `simulation/engine.py` a hundred times faster.

The loop is compiled once for each kind of twin. Its cache is keyed by the sources in `scheduler/compiled`.
"""

from __future__ import annotations

import numpy as np

from .state import at, decide, jit
from .twin import NEVER, RUN, WAIT, Book, Compiled, Ints, Npu, State, Stream
from .wrappers import answer_early, drain_queue

DONE, REFUSED, FULL = range(3)


def serve(stream: Stream, npu: Npu, policy: Compiled) -> Book | None:
    """Serve the stream and return what happened; None for a decision that the engine would refuse."""
    n = len(stream.arrival)
    state = State.empty(n, len(npu.believed), npu.slots)
    counts = state.counts[0]
    book = Book(np.full((n, 4), -1, np.int64), np.empty((2 * n + 16, 6), np.int64), np.empty(8 * n + 16, np.int64))
    while (status := _loop(stream, npu, state, book, policy)) == FULL:
        longer = (np.concatenate([column, np.empty_like(column)]) for column in (book.log, book.ids))
        book = Book(book.fates, *longer)
    return Book(book.fates, book.log[: counts.lines], book.ids[: counts.named]) if status == DONE else None


@jit.entry
def _loop(stream: Stream, npu: Npu, state: State, book: Book, policy: Compiled) -> int:
    """Ask the twin until all are served (DONE), or it is REFUSED.

    Returns FULL when the book is full: call it again with a longer one.
    """
    counts, wrappers = state.counts[0], policy.wrappers
    while proceed(state, stream):
        if counts.lines == len(book.log) or counts.named + len(state.gone) > len(book.ids):
            return FULL
        if not drain_queue(state, npu, policy.drain):
            decide(policy.twin, state, npu, stream)
        if wrappers.anytime > 0:
            answer_early(state, npu, stream, wrappers)
        if not act(state, npu, stream, book.fates):
            return REFUSED
        note(state, book)
    return DONE


@jit
def proceed(state: State, stream: Stream) -> bool:
    """Let the arrivals up to now into the queue; where nothing waits, time moves on.

    False when all are served.
    """
    counts, n = state.counts[0], len(stream.arrival)
    while True:
        i = counts.arrived
        while i < n and stream.arrival[i] <= counts.now:
            state.queue[counts.head + state.many[0]] = i
            state.many[0] += 1
            i += 1
        counts.arrived, counts.closed = i, int(i == n)
        if state.many[0] or counts.held:
            return True
        if i == n:
            return False
        counts.now = stream.arrival[i]


@jit
def act(state: State, npu: Npu, stream: Stream, fates: Ints) -> bool:
    """Do as decided, and write the time of the next question; False when the engine would refuse it.

    `fates` is (requests, 4).
    """
    counts, action, gone = state.counts[0], state.action[0], state.gone
    now = counts.now
    action.end = now
    if action.kind == RUN:
        return run_batch(state, npu, stream, fates)
    action.stage = 0
    if action.kind == WAIT:
        until = action.until
        if counts.closed or (until != NEVER and until <= now):
            return False
        arrival = stream.arrival[counts.arrived]
        action.end = arrival if until == NEVER else min(until, arrival)
        return True
    for k in range(action.samples):
        fate = gone[k]
        fates[fate, 1], fates[fate, 2], fates[fate, 3] = now, answer(state, fate) - 1, 1
    return True


@jit
def run_batch(state: State, npu: Npu, stream: Stream, fates: Ints) -> bool:
    """Run the batch decided; False when the engine would refuse it. `fates` is (requests, 4)."""
    counts, action = state.counts[0], state.action[0]
    stage, size = action.stage, action.samples
    if not 1 <= size <= min(npu.b_max, state.many[stage]):
        return False
    take(state, stage, size)
    if stage == 0:
        counts.held += size
        if counts.held > npu.slots:
            return False
    action.end = counts.now + npu.took[stage, size - 1]
    for k in range(size):
        request = state.gone[k]
        if stage == 0:
            fates[request, 0] = counts.now
        if stream.leaves[request] == stage:
            fates[request, 1], fates[request, 2], fates[request, 3] = action.end, stage, 0
            counts.held -= 1
        elif stage + 1 == len(npu.believed):
            return False
        else:
            enter(state, stage + 1, request)
    return True


@jit
def note(state: State, book: Book) -> None:
    """Write the action into the log, and move on to its end."""
    counts, action, log = state.counts[0], state.action[0], book.log
    i = counts.lines
    log[i, 0], log[i, 1], log[i, 2], log[i, 3] = counts.now, action.kind, action.stage, action.samples
    log[i, 4], log[i, 5] = action.until if action.kind == WAIT else NEVER, action.end
    for k in range(action.samples):
        book.ids[counts.named + k] = state.gone[k]
    counts.lines += 1
    counts.named += action.samples
    counts.now = action.end


@jit
def take(state: State, stage: int, size: int) -> None:
    """Move the batch out of its line into `gone`, in the order decided; the rest keeps its order.

    Sorts `batch`.
    """
    counts, batch, oldest = state.counts[0], state.batch, True
    for k in range(size):
        state.gone[k] = at(state, stage, batch[k])
        oldest = oldest and batch[k] == k
    if stage == 0 and oldest:  # the usual case
        counts.head += size
        state.many[0] -= size
        return
    for k in range(1, size):
        place, j = batch[k], k
        while j > 0 and batch[j - 1] > place:
            batch[j] = batch[j - 1]
            j -= 1
        batch[j] = place
    if stage == 0:  # the rest in front moves towards the tail
        head, k, to = counts.head, size - 1, counts.head + batch[size - 1]
        for j in range(batch[size - 1], -1, -1):
            if k >= 0 and batch[k] == j:
                k -= 1
            else:
                state.queue[to] = state.queue[head + j]
                to -= 1
        counts.head += size
    else:
        k, to = 0, 0
        for j in range(state.many[stage]):
            if k < size and batch[k] == j:
                k += 1
            else:
                state.line[stage, to] = state.line[stage, j]
                to += 1
    state.many[stage] -= size


@jit
def enter(state: State, stage: int, request: int) -> None:
    """Put a request into a line past the queue, in order."""
    k = state.many[stage]
    while k > 0 and state.line[stage, k - 1] > request:
        state.line[stage, k] = state.line[stage, k - 1]
        k -= 1
    state.line[stage, k] = request
    state.many[stage] += 1


@jit
def answer(state: State, request: int) -> int:
    """Take a request that waits past the queue out of its line; return its stage."""
    for s in range(1, len(state.many)):
        for k in range(state.many[s]):
            if state.line[s, k] == request:
                for j in range(k, state.many[s] - 1):
                    state.line[s, j] = state.line[s, j + 1]
                state.many[s] -= 1
                state.counts[0].held -= 1
                return s
    return -1
