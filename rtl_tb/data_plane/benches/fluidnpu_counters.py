"""Counters of layers against plain sums: any events, layers of any length, jobs that begin at any time."""

from __future__ import annotations

import random

from cocotb.triggers import RisingEdge

from fluidnpu.hls import COUNTERS

from ...common.benches.clock import Dut, begin, bench, setting

LAYERS = setting("LAYERS", 3)
TURN = len(COUNTERS)
SHOWN = 3  # cycles from a place to its number
WAIT = 4 * TURN + 4  # cycles behind which the counts of a layer are there


class Counted:
    """Drives events, ends and starts a cycle at a time, and adds up what must be counted."""

    def __init__(self, dut: Dut, rng: random.Random) -> None:
        self.dut, self.rng = dut, rng
        self.sums, self.busy = [0] * TURN, [0.5] * TURN
        self.layers: dict[int, list[int]] = {}

    async def cycle(self, *, ends: int | None = None, start: bool = False) -> None:
        """Let a cycle pass, the last one of layer `ends`, or that of a START."""
        events = [
            sum(self.rng.random() < busy for _ in range(counter.step))
            for counter, busy in zip(COUNTERS, self.busy, strict=True)
        ]
        self.dut.events_i.value = sum(count << 2 * place for place, count in enumerate(events))
        self.dut.layer_ends_i.value, self.dut.start_i.value = int(ends is not None), int(start)
        self.dut.layer_i.value = self.rng.getrandbits(16) if ends is None else ends
        await RisingEdge(self.dut.clk_i)
        self.sums = [0] * TURN if start else [a + b for a, b in zip(self.sums, events, strict=True)]
        if ends is not None:
            if ends < LAYERS:
                self.layers[ends] = self.sums
            self.sums = [0] * TURN

    async def layer(self, index: int, cycles: int) -> None:
        """Run a layer of some cycles."""
        self.busy = [self.rng.choice((0.0, 0.2, 1.0)) for _ in range(TURN)]
        for left in range(cycles, 0, -1):
            await self.cycle(ends=index if left == 1 else None)

    async def rest(self, cycles: int) -> None:
        """Let cycles pass."""
        for _ in range(cycles):
            await self.cycle()

    async def settle(self) -> None:
        """Wait until the counts of the layers that have ended are there."""
        for waited in range(WAIT):
            await self.cycle()
            if waited and self.dut.settled_o.value:
                return
        raise AssertionError(f"the counts of a layer must be there {WAIT} cycles behind its end")

    async def shown(self, index: int) -> list[int]:
        """Read the counters of a layer, while events come."""
        numbers = []
        for place in range(TURN):
            self.dut.shown_layer_i.value, self.dut.shown_counter_i.value = index, place
            await self.rest(SHOWN + 1)
            assert self.dut.settled_o.value
            numbers.append(int(self.dut.shown_o.value))
        return numbers


@bench(100_000)
async def a_layer_counts_its_own_cycles(dut: Dut) -> None:
    """Every event is counted in the layer in whose cycles it comes, also where layers end close together."""
    rng = await begin(dut)
    counted = Counted(dut, rng)
    for _ in range(20):
        await counted.cycle(start=True)
        index = rng.randrange(LAYERS)
        for length in rng.sample((3, 7, 12), 1) + [rng.randrange(60, 400) for _ in range(3)]:
            await counted.rest(rng.randrange(40, 90))
            await counted.layer(index, length)  # with the cycles of the rest
            index = (index + 1) % LAYERS
            if rng.random() < 0.6:  # a merged pool: its plan was made while the layer before it ran
                await counted.layer(index, rng.randrange(1, 9))
                index = (index + 1) % LAYERS
            await counted.rest(rng.randrange(2 * TURN, 3 * TURN))
        if rng.random() < 0.5:
            await counted.layer(rng.choice((LAYERS, 0xFFFF)), 20)  # beyond the program: of no layer
        if rng.random() < 0.5:  # a job that follows at once must not disturb the counts of this one
            await counted.cycle(start=True)
        await counted.settle()
        for layer, want in counted.layers.items():
            assert await counted.shown(layer) == want, f"layer {layer}"
        for beyond in (LAYERS, 0xFFFF):
            assert await counted.shown(beyond) == [0] * TURN
    assert len(counted.layers) == LAYERS


@bench(100_000)
async def counts_are_whole_at_32_bits(dut: Dut) -> None:
    """A count goes on modulo 2**32."""
    rng = await begin(dut)
    counted = Counted(dut, rng)
    await counted.cycle(start=True)
    counted.busy = [0.0] * TURN  # no sum may be on its way when it is changed
    await counted.rest(WAIT)
    offset = (1 << 32) - 100
    for place in range(TURN):
        dut.sums_q[place].value = (int(dut.sums_q[place].value) + offset) & 0xFFFF_FFFF
    counted.sums = [sum_ + offset for sum_ in counted.sums]
    await counted.layer(1, 300)
    await counted.rest(WAIT)
    assert await counted.shown(1) == [want & 0xFFFF_FFFF for want in counted.layers[1]]
    assert any(want >> 32 for want in counted.layers[1])
