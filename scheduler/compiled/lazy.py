"""Compiled twin of `Lazy` in `policies/peers.py`: it is asked at every layer, a hundred times a request."""

from __future__ import annotations

from typing import NamedTuple

from .state import at, jit, run
from .twin import Ints, Npu, State, Stream


class LazyTwin(NamedTuple):
    """The twin of `Lazy`.

    `exit_aware`: 0 or 1; `admitted[0]`: memory, samples admitted since the NPU was empty.
    """

    exit_aware: int
    admitted: Ints

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Admit a new batch if the coarse prediction allows it, else run the batch furthest behind."""
        stages, behind = len(state.many), 0
        for s in range(1, stages):
            if state.many[s]:
                behind = s
                break
        if not behind:
            self.admitted[0] = 0
        if state.many[0]:
            held = state.counts[0].held
            fresh = min(state.many[0], npu.b_max - (held if self.exit_aware else max(held, self.admitted[0])))
            if behind and fresh > 0:
                slack, remaining, after = 2**62, 0, 0
                for s in range(stages - 1, 0, -1):
                    after += npu.believed[s, 0]
                    if state.many[s]:
                        slack = min(slack, stream.deadline[at(state, s, 0)] - state.counts[0].now)
                        remaining += state.many[s] * after
                fresh = min(fresh, (slack - remaining - 1) // (after + npu.believed[0, 0]))
            if fresh > 0:
                self.admitted[0] += fresh
                run(state, 0, fresh)
                return
        run(state, behind, min(state.many[behind], npu.b_max))
