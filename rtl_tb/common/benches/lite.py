"""An AXI4-Lite master with random pauses; a slave that hangs fails the bench."""

from __future__ import annotations

import random

from cocotb.triggers import RisingEdge

from .clock import Dut


class LiteMaster:
    """An AXI4-Lite master on `s_axil_*` that pauses at random and gives up after `deadline` cycles."""

    def __init__(self, dut: Dut, rng: random.Random, deadline: int = 100) -> None:
        self.dut, self.rng, self.deadline = dut, rng, deadline

    async def _until(self, *names: str) -> None:
        """Wait until every handshake named has happened once; each valid falls when it was taken."""
        open_names = set(names)
        for _ in range(self.deadline):
            await RisingEdge(self.dut.clk_i)
            for name in list(open_names):
                if getattr(self.dut, f"s_axil_{name}ready").value:
                    getattr(self.dut, f"s_axil_{name}valid").value = 0
                    open_names.remove(name)
            if not open_names:
                return
        raise AssertionError(f"AXI4-Lite hangs: {', '.join(open_names)} was not taken within {self.deadline} cycles")

    async def _answer(self, name: str) -> None:
        ready = getattr(self.dut, f"s_axil_{name}ready")
        for _ in range(self.deadline):
            if self.rng.random() < 0.5:
                ready.value = 1
                await RisingEdge(self.dut.clk_i)
                if getattr(self.dut, f"s_axil_{name}valid").value:
                    ready.value = 0
                    return
                ready.value = 0
            else:
                await RisingEdge(self.dut.clk_i)
        raise AssertionError(f"AXI4-Lite hangs: no {name} within {self.deadline} tries")

    async def write(self, offset: int, value: int, strobe: int = 15) -> int:
        """Write a register and return the response code; address and data come together or one before the
        other.
        """
        dut = self.dut
        dut.s_axil_awaddr.value, dut.s_axil_wdata.value, dut.s_axil_wstrb.value = offset, value, strobe
        first = self.rng.choice(("aw", "w", "both"))
        dut.s_axil_awvalid.value = int(first != "w")
        dut.s_axil_wvalid.value = int(first != "aw")
        if first != "both":
            for _ in range(self.rng.randrange(4)):
                await RisingEdge(dut.clk_i)
                # This slave takes both halves at once, so neither can have gone.
        dut.s_axil_awvalid.value = 1
        dut.s_axil_wvalid.value = 1
        await self._until("aw", "w")
        await self._answer("b")
        return int(dut.s_axil_bresp.value)

    async def read(self, offset: int) -> tuple[int, int]:
        """Read a register: (data, response code)."""
        dut = self.dut
        dut.s_axil_araddr.value = offset
        dut.s_axil_arvalid.value = 1
        await self._until("ar")
        await self._answer("r")
        return int(dut.s_axil_rdata.value), int(dut.s_axil_rresp.value)
