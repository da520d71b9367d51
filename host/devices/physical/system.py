"""Clock, reset and ports of a processing system, read from its own registers before the NPU is touched.

Sources: UG585, appendix B (SLCR of Zynq-7000); UG1087 (CRL_APB, AFIFM, FPD_SLCR of Zynq UltraScale+); Linux'
drivers/clk/zynq/clkc.c for the bit that gates an FCLK; PYNQ's pl_server/embedded_device.py for the widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fluidnpu.hls.project import PS_CLOCK_MHZ

REFERENCE_MHZ = 100 / 3  # of the oscillator behind the PLLs of both boards
TOLERANCE = 0.02
WINDOW_BYTES = 0x1000

Read = Callable[[int], int]  # the word at a physical address


@dataclass(frozen=True, kw_only=True)
class Pll:
    """The control register of a PLL with the place of its feedback divider; `half`: the bit that halves."""

    address: int
    low: int
    half: int | None = None

    def mhz(self, read: Read) -> float:
        """The PLL's frequency."""
        word = read(self.address)
        divided = self.half is not None and word >> self.half & 1
        return REFERENCE_MHZ * (word >> self.low & 0x7F) / (2 if divided else 1)


@dataclass(frozen=True, kw_only=True)
class PlClock:
    """The clock that the processing system gives to the logic: its switch, dividers and sources."""

    name: str
    control: int
    gate: tuple[int, int, int]  # address and bit, and the bit's value while the clock runs
    divisors: tuple[int, int]  # the low bits of two fields of six bits
    source: tuple[int, int]  # low bit and mask
    plls: Mapping[int, Pll]  # those whose frequency can be told
    remedy: str

    def fault(self, read: Read) -> str:
        """Say in one sentence what is wrong with the clock; empty when nothing is."""
        address, bit, running = self.gate
        if read(address) >> bit & 1 != running:
            return (
                f"{self.name} must run, and it is off (bit {bit} of {address:#010x}): the NPU has no clock, so an access "
                f"would halt the processor; {self.remedy}"
            )
        mhz = self.mhz(read)
        if mhz is not None and abs(mhz - PS_CLOCK_MHZ) > TOLERANCE * PS_CLOCK_MHZ:
            return f"{self.name} must have {PS_CLOCK_MHZ} MHz, and it has {mhz:.1f}: set its rate; {self.remedy}"
        return ""

    def mhz(self, read: Read) -> float | None:
        """The clock's frequency; None where its PLL is not one of ours."""
        word, (low, mask) = read(self.control), self.source
        pll = self.plls.get(word >> low & mask)
        if pll is None:
            return None
        first, second = (max(1, word >> low & 0x3F) for low in self.divisors)
        return pll.mhz(read) / first / second


@dataclass(frozen=True, kw_only=True)
class FieldSetting:
    """A field of a register with the value that it must have."""

    address: int
    low: int
    mask: int
    wanted: int
    sentence: str

    def fault(self, read: Read) -> str:
        """Say in one sentence that the value is another; empty when it is right."""
        value = read(self.address) >> self.low & self.mask
        if value == self.wanted:
            return ""
        where = f"bits {self.low + self.mask.bit_length() - 1}:{self.low} of {self.address:#010x}"
        return f"{self.sentence} ({where} are {value:#x}, not {self.wanted:#x})"


@dataclass(frozen=True, kw_only=True)
class System:
    """The registers that must be right before the first access to the logic.

    `ports[n]`: width settings of memory port n by its bits.
    """

    clock: PlClock
    gates: tuple[FieldSetting, ...]
    ports: tuple[Mapping[int, tuple[FieldSetting, ...]], ...]

    def windows(self, ports: int) -> tuple[int, ...]:
        """The page of every register that `faults` reads."""
        fields = [*self.gates, *(field for port in self.ports[:ports] for group in port.values() for field in group)]
        addresses = {self.clock.control, self.clock.gate[0], *(pll.address for pll in self.clock.plls.values())}
        return tuple(sorted({a // WINDOW_BYTES * WINDOW_BYTES for a in (*addresses, *(f.address for f in fields))}))

    def faults(self, read: Read, ports: int, bits: int) -> Iterator[tuple[str, str]]:
        """Give (step, sentence) of each check in order, for a design on `ports` ports of `bits` bits.

        The sentence is empty where the step passes.
        """
        yield "clock", self.clock.fault(read)
        yield "reset", next((fault for field in self.gates if (fault := field.fault(read))), "")
        fields = [field for port in self.ports[:ports] for field in port.get(bits, ())]
        yield "ports", next((fault for field in fields if (fault := field.fault(read))), "")


def _hp_port(number: int, base: int, values: Mapping[int, int], mask: int) -> Mapping[int, tuple[FieldSetting, ...]]:
    """The width settings of one memory port, of its read and its write channels."""
    return {
        bits: tuple(
            FieldSetting(
                address=base + offset,
                low=0,
                mask=mask,
                wanted=value,
                sentence=f"memory port {number} must be {bits} bits wide, and the boot loader set another width",
            )
            for offset in (0, 0x14)
        )
        for bits, value in values.items()
    }


SYSTEMS: Mapping[str, System] = {
    "zynq7000": System(
        clock=PlClock(
            name="FCLK0",
            control=0xF800_0170,
            gate=(0xF800_0178, 0, 0),
            divisors=(8, 20),
            source=(4, 3),
            plls={
                0: Pll(address=0xF800_0108, low=12),
                1: Pll(address=0xF800_0108, low=12),
                2: Pll(address=0xF800_0100, low=12),
                3: Pll(address=0xF800_0104, low=12),
            },
            remedy="the device tree needs fclk-enable = <0x1> in &clkc (software/fluidnpu.dtsi has it)",
        ),
        gates=(
            FieldSetting(
                address=0xF800_0900,
                low=0,
                mask=0xF,
                wanted=0xF,
                sentence="the level shifters between processors and logic must be on: load the bitstream first",
            ),
            FieldSetting(
                address=0xF800_0240,
                low=0,
                mask=1,
                wanted=0,
                sentence="FCLK_RESET0_N must be released, and the processing system holds the logic in reset",
            ),
        ),
        ports=tuple(_hp_port(n, 0xF800_8000 + 0x1000 * n, {64: 0, 32: 1}, 1) for n in range(4)),
    ),
    "zynquplus": System(
        clock=PlClock(
            name="pl_clk0",
            control=0xFF5E_00C0,
            gate=(0xFF5E_00C0, 24, 1),
            divisors=(8, 16),
            source=(0, 7),
            plls={0: Pll(address=0xFF5E_0020, low=8, half=16), 2: Pll(address=0xFF5E_0030, low=8, half=16)},
            remedy="load the bitstream through PYNQ, or with the fclk node of software/fluidnpu.dtsi",
        ),
        gates=(
            FieldSetting(
                address=0xFD61_5000,
                low=8,
                mask=3,
                wanted=2,
                sentence="M_AXI_HPM0_FPD must be 128 bits wide, and the boot loader set another width",
            ),
        ),
        ports=tuple(_hp_port(n, 0xFD38_0000 + 0x1_0000 * n, {128: 0, 64: 1, 32: 2}, 3) for n in range(4)),
    ),
}
