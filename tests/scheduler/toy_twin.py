"""The compiled twin of the policy in `toy_policy.py`."""

from __future__ import annotations

from typing import NamedTuple

from fluidnpu.scheduler.compiled.state import deepest, jit, run
from fluidnpu.scheduler.compiled.twin import Npu, State, Stream


class DeepestTwin(NamedTuple):
    """The twin of `Deepest`."""

    most: int

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Run the line that is furthest on."""
        stage = deepest(state)
        run(state, stage, min(state.many[stage], self.most))
