"""The queue against a deque: order, level, a head that stays until it is taken, and a clear at any moment."""

from __future__ import annotations

from collections import deque

from cocotb.triggers import RisingEdge

from .clock import Dut, begin, bench, setting

WIDTH, DEPTH = setting("WIDTH", 8), setting("DEPTH", 5)


@bench(1_000)
async def it_is_a_queue(dut: Dut) -> None:
    """Random pushes, pops and clears in phases that fill it, empty it and keep it moving."""
    rng = await begin(dut)
    model: deque[int] = deque()
    push = pop = clear = data = 0
    levels = set()
    for cycle in range(6_000):
        await RisingEdge(dut.clk_i)
        assert int(dut.valid_o.value) == bool(model)
        assert int(dut.ready_o.value) == (len(model) < DEPTH)
        assert int(dut.level_o.value) == len(model)
        if model:
            assert int(dut.data_o.value) == model[0]
        taken, room = pop and bool(model), len(model) < DEPTH
        if push and room:
            model.append(data)
        if taken:
            model.popleft()
        if clear:
            model.clear()
        levels.add(len(model))
        bias = (0.9, 0.1, 0.5)[cycle // 50 % 3]
        push, pop, clear = int(rng.random() < bias), int(rng.random() < 1 - bias), int(rng.random() < 0.01)
        data = rng.getrandbits(WIDTH)
        dut.valid_i.value, dut.ready_i.value, dut.clear_i.value, dut.data_i.value = push, pop, clear, data
    assert levels == set(range(DEPTH + 1))
