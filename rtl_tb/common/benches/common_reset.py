"""The registers of reset: in reset from power-up, then every copy follows two cycles late."""

from __future__ import annotations

from collections import deque

from cocotb.triggers import RisingEdge, Timer

from .clock import Dut, begin, bench, setting

COPIES = setting("COPIES", 3)
LATE = 2  # cycles


@bench(1_000)
async def every_copy_follows(dut: Dut) -> None:
    """Resets of any length, one cycle among them, at any moment."""
    await Timer(1, "ns")
    assert int(dut.rst_no.value) == 0, "a device begins in reset, before its first clock"
    rng = await begin(dut)
    asked = deque([1] * (LATE + 1))
    for _ in range(2_000):
        await RisingEdge(dut.clk_i)
        assert int(dut.rst_no.value) == (2**COPIES - 1) * asked.popleft()
        dut.rst_ni.value = value = int(rng.random() < 0.7)
        asked.append(value)
