"""Compiled twin of the policy in `policies/guarded.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .credit import CreditTwin, starved, weigh
from .estimates import EstimatesTwin, arrive, remember, see
from .fluid import FluidTwin
from .optimal import OptimalTwin
from .state import at, decide, jit, take_urgent, urgent
from .twin import DrainTwin, Ints, Npu, Records, State, Stream
from .wrappers import drain_queue

FLUID, OPTIMAL = 1, 2  # policies that decide instead, as `PLAIN` counts them
MEMORY = np.dtype([("last", "i8"), ("latest", "i8"), ("late", "f8"), ("budget", "f8")])


class GuardedTwin(NamedTuple):
    """The twin of `Guarded`: three policies, and the numbers that choose among them.

    `plain`, `fallback`: 0, FLUID or OPTIMAL. `work[stage]`: remaining work of a sample in ns. Memory:
    `spared[i]`: 1 when request i was given up; `memory[0]`: the newest request seen and the one seen late
    last, the share of late requests, and how many may be given up.
    """

    credit: CreditTwin
    optimal: OptimalTwin
    fluid: FluidTwin
    estimates: EstimatesTwin
    drain: DrainTwin
    plain: int
    fallback: int
    give_up: float
    most: float
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
        count_arrivals(self, state, stream)
        see(self.estimates, state, stream)
        instead = self.fallback if self.estimates.memory[0].raised else self.plain
        if drain_queue(state, npu, self.drain):
            pass
        elif instead == OPTIMAL:
            decide(self.optimal, state, npu, stream)
        elif instead == FLUID:
            decide(self.fluid, state, npu, stream)
        else:
            guard(self, state, npu, stream, urgent(state, stream, self.credit.look))
        remember(self.estimates, state, npu)


@jit
def guard(twin: GuardedTwin, state: State, npu: Npu, stream: Stream, places: Ints) -> None:
    """Decide as `Guarded._guard`, given the places of the most urgent (stages, look)."""
    counts = twin.credit.counts
    count_late(twin, state, stream, places)
    if not tail_grows(twin, state, stream, places):
        weigh(twin.credit, state, npu, stream, places)
        return
    limit = state.counts[0].now + twin.credit.slo_ns - twin.credit.patience_ns
    if starved(state, npu, stream, places, limit, min(counts.slots, npu.slots)):
        return
    if state.many[0] <= twin.credit.look:
        decide(twin.optimal, state, npu, stream)
    else:
        decide(twin.fluid, state, npu, stream)
    take_urgent(state, places)


@jit
def count_arrivals(twin: GuardedTwin, state: State, stream: Stream) -> None:
    """Note every request that came: the share of late ones fades."""
    memory = twin.memory[0]
    first = state.many[0]
    while first and at(state, 0, first - 1) > memory.last:
        first -= 1
    for k in range(first, state.many[0]):
        memory.late *= 1 - 1 / twin.horizon
        memory.budget = min(memory.budget + twin.give_up, twin.most)
        memory.last = at(state, 0, k)
        arrive(twin.estimates, stream.arrival[memory.last])


@jit
def count_late(twin: GuardedTwin, state: State, stream: Stream, places: Ints) -> None:
    """Count the requests that are late for the first time; `places` is (stages, look)."""
    memory = twin.memory[0]
    late, latest = 0, memory.latest
    for s in range(len(state.many)):
        for k in range(min(state.many[s], twin.credit.look)):
            request = at(state, s, places[s, k])
            if stream.deadline[request] >= state.counts[0].now:
                break
            if later(stream, request, memory.latest):
                late += 1
                if later(stream, request, latest):
                    latest = request
    memory.latest = latest
    memory.late += late / twin.horizon


@jit
def later(stream: Stream, request: int, other: int) -> bool:
    """Return whether the deadline of a request comes after that of the other; -1 comes before all."""
    if other < 0:
        return True
    a, b = stream.deadline[request], stream.deadline[other]
    return bool(a > b or (a == b and request > other))


@jit
def tail_grows(twin: GuardedTwin, state: State, stream: Stream, places: Ints) -> bool:
    """Tell if a late sample would pass the patience, as `Guarded._tail_grows`; give up those allowed.

    `places` is (stages, look).
    """
    memory, now = twin.memory[0], state.counts[0].now
    calm = min(1.0, max(0.0, (twin.high - memory.late) / (twin.high - twin.low)))
    slo = twin.credit.slo_ns
    limit = now + slo - int((twin.hasty + (twin.patience - twin.hasty) * calm) * slo)
    debt = 0
    for s in range(len(state.many) - 1, -1, -1):
        for k in range(min(state.many[s], twin.credit.look)):
            request = at(state, s, places[s, k])
            if twin.spared[request]:
                continue
            if stream.deadline[request] >= now:
                break
            if stream.deadline[request] < limit + debt + twin.work[s]:
                if memory.budget < 1:
                    return True
                memory.budget -= 1
                twin.spared[request] = 1
            else:
                debt += twin.work[s]
    return False
