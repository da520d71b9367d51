"""Descriptor fetch against the memory that it reads: every layer's 32 words, whole."""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge

from ...common.benches.clock import Dut, begin, bench
from ...common.benches.streams import Reader, until
from ..environment.cases import PORT_BYTES


@bench(20_000)
async def descriptors_come_whole(dut: Dut) -> None:
    """Every layer's 32 words come, one layer after another."""
    rng = await begin(dut)
    data = bytearray(rng.randbytes(128 * 20))
    base = 0x4_0000
    reader = Reader(dut, rng, data, base, PORT_BYTES)
    dut.program_i.value = base
    cocotb.start_soon(reader.run())
    for _ in range(30):
        layer = rng.randrange(20)
        dut.layer_i.value = layer
        await RisingEdge(dut.clk_i)
        dut.fetch_i.value = 1
        await until(dut, lambda: dut.fetched_o.value, 200, "the descriptor")
        assert int(dut.descriptor_o.value) == int.from_bytes(data[128 * layer : 128 * layer + 128], "little")
        assert reader.asked[-1] == (base + 128 * layer, 128 // PORT_BYTES)
        dut.fetch_i.value = 0
        for _ in range(2 + rng.randrange(3)):
            await RisingEdge(dut.clk_i)
