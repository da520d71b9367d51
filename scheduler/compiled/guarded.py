"""Compiled twin of the policy in `policies/guarded.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .credit import CreditTwin
from .fluid import FluidTwin
from .optimal import OptimalTwin
from .state import at, decide, jit
from .twin import Ints, Npu, Records, State, Stream

MEMORY = np.dtype([("seen", "i8"), ("given", "i8"), ("last", "i8"), ("latest", "i8"), ("late", "f8")])


class GuardedTwin(NamedTuple):
    """The twin of `Guarded`: three policies, and the numbers that choose among them.

    `work[stage]`: remaining work of a sample in ns. Memory: `spared[i]`: 1 when request i was given up;
    `memory[0]`: requests seen and given up, the newest seen and the newest seen late, and the share of late
    requests.
    """

    credit: CreditTwin
    optimal: OptimalTwin
    fluid: FluidTwin
    give_up: float
    head_start: int
    patience: float
    hasty: float
    low: float
    high: float
    horizon: float
    work: Ints
    spared: Ints
    memory: Records

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Decide as `credit`, or work off the tail."""
        count_arrivals(self, state)
        count_late(self, state, stream)
        if not tail_grows(self, state, stream):
            decide(self.credit, state, npu, stream)
        elif state.many[0] <= self.credit.look:
            decide(self.optimal, state, npu, stream)
        else:
            decide(self.fluid, state, npu, stream)


@jit
def count_arrivals(twin: GuardedTwin, state: State) -> None:
    """Let the share of late requests fade with every request that came."""
    memory = twin.memory[0]
    last = memory.last
    for k in range(state.many[0] - 1, -1, -1):
        request = at(state, 0, k)
        if request <= last:
            break
        memory.seen += 1
        memory.late *= 1 - 1 / twin.horizon
        memory.last = max(memory.last, request)


@jit
def count_late(twin: GuardedTwin, state: State, stream: Stream) -> None:
    """Count the requests that are late for the first time."""
    memory = twin.memory[0]
    late, latest = 0, memory.latest
    for s in range(len(state.many)):
        for k in range(min(state.many[s], twin.credit.look)):
            request = at(state, s, k)
            if stream.deadline[request] >= state.counts[0].now:
                break
            if request > memory.latest:
                late, latest = late + 1, max(latest, request)
    memory.latest = latest
    memory.late += late / twin.horizon


@jit
def tail_grows(twin: GuardedTwin, state: State, stream: Stream) -> bool:
    """Tell if a late sample would pass the patience, as `Guarded._tail_grows`; give up those allowed."""
    memory, now = twin.memory[0], state.counts[0].now
    calm = min(1.0, max(0.0, (twin.high - memory.late) / (twin.high - twin.low)))
    slo = twin.credit.slo_ns
    limit = now + slo - int((twin.hasty + (twin.patience - twin.hasty) * calm) * slo)
    debt = 0
    for s in range(len(state.many) - 1, -1, -1):
        for k in range(min(state.many[s], twin.credit.look)):
            request = at(state, s, k)
            if twin.spared[request]:
                continue
            if stream.deadline[request] >= now:
                break
            if stream.deadline[request] < limit + debt + twin.work[s]:
                if memory.given + 1 > twin.give_up * (memory.seen + twin.head_start):
                    return True
                memory.given += 1
                twin.spared[request] = 1
            else:
                debt += twin.work[s]
    return False
