"""Compiled twin of the policy in `policies/fluid.py`."""

from __future__ import annotations

from typing import NamedTuple

from .state import at, deepest, jit, oldest_first, run
from .twin import Npu, State, Stream

NO_SLACK = -(2**62)  # no sample whose slack is to be kept


class FluidTwin(NamedTuple):
    """The twin of `Fluid`. `repaired`: 0 or 1; `patience`: objectives after which the oldest goes first."""

    repaired: int
    patience: int

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Bring a back-fill up to its batch, back-fill, or continue."""
        stage = deepest(state)
        if not stage:
            run(state, 0, min(state.many[0], npu.b_max))
            return
        for behind in range(1, stage):
            if state.many[behind]:
                run(state, behind, min(state.many[behind], npu.b_max))
                return
        size = min(state.many[stage], npu.b_max)
        room = min(state.many[0], npu.b_max - size)
        if room > 0 and not (self.repaired and oldest_first(state, npu, stream, self.patience, npu.slots)):
            overhead = 0
            for s in range(len(state.many)):
                overhead += npu.believed[s, (room if s < stage else size + room) - 1]
            slack = slack_ns(state, npu, stream, stage, self.repaired)
            if slack == NO_SLACK or overhead < slack:
                run(state, 0, room)
                return
        run(state, stage, size)


@jit
def slack_ns(state: State, npu: Npu, stream: Stream, stage: int, repaired: int) -> int:
    """Return the slack of Eq. 3 as `Fluid._slack_ns`; NO_SLACK for None."""
    now = state.counts[0].now
    if not repaired:
        return stream.deadline[at(state, stage, 0)] - now  # type: ignore[no-any-return]
    alone, least, size = 0, NO_SLACK, min(state.many[stage], npu.b_max)
    for s in range(stage, len(state.many)):
        alone += npu.believed[s, size - 1]
    for k in range(size):
        deadline = stream.deadline[at(state, stage, k)]
        if now + alone <= deadline and (least == NO_SLACK or deadline - now < least):
            least = deadline - now
    return least
