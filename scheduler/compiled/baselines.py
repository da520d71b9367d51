"""Compiled twins of the policies in `policies/baselines.py`."""

from __future__ import annotations

from typing import NamedTuple

from .state import at, deepest, jit, run, wait
from .twin import Ints, Npu, State, Stream


class SerialTwin(NamedTuple):
    """The twin of `Serial`; it decides without numbers."""

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Go on with the sample in flight, else start the oldest."""
        run(state, deepest(state), 1)


class GreedyTwin(NamedTuple):
    """The twin of `Greedy`. `limit`: largest batch to start."""

    limit: int

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Go on with the batch in flight, else start all that waits."""
        stage = deepest(state)
        run(state, stage, state.many[stage] if stage else min(state.many[0], self.limit))


class AdaptiveTwin(NamedTuple):
    """The twin of `Adaptive`.

    `limit`: largest batch to start; `due[i]`: time in ns when the timeout of request i ends.
    """

    limit: int
    due: Ints

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Go on with the batch in flight, else start when the batch is full or its time is up."""
        stage = deepest(state)
        if stage:
            run(state, stage, state.many[stage])
            return
        due = self.due[at(state, 0, 0)]
        if state.many[0] >= self.limit or state.counts[0].now >= due or state.counts[0].closed:
            run(state, 0, min(state.many[0], self.limit))
        else:
            wait(state, due)
