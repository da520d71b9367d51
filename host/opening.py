"""One way to a device, by name: what the console command and the demo use.

`simulated` goes through PYNQ where PYNQ is installed (overlay, MMIO, allocate, as on a board), else straight to the simulated NPU. `rtl` is the
SystemVerilog itself in Verilator, behind the board's memory: exact, slow, on a clock of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boards import BoardError, load_board

from .bundle import Bundle, bitstream
from .device import Clock, Device, VirtualClock
from .errors import DriverUsageError, PynqMissingError
from .pynq_device import open_overlay, simulated_pynq_device
from .rtl_device import rtl_device
from .simulated import SimulatedNpu
from .simulated_bitstream import write_simulated_bitstream

KINDS = ("simulated", "rtl", "pynq")


@contextmanager
def open_device(
    kind: str, bundle: Bundle, folder: Path | str | None = None, *, clock: Clock | None = None
) -> Iterator[Device]:
    """The NPU for a bundle: `simulated` on `clock` (default: a virtual one), `rtl` on its own clock, or `pynq` with the bitstream in `folder`.

    Raises DriverUsageError, BundleError, PynqMissingError, and rtl_tb's SimulationError when the RTL cannot be built.
    """
    if kind == "pynq":
        if folder is None:
            raise DriverUsageError("a board needs the folder that holds its bitstream, and none came")
        _check_reachable(bundle)
        yield open_overlay(bitstream(folder))
    elif kind == "rtl":
        if clock is not None:
            raise DriverUsageError("the RTL counts time in its own cycles, so no clock can be given to it")
        yield rtl_device(bundle.design)
    elif kind == "simulated":
        clock = VirtualClock() if clock is None else clock
        with tempfile.TemporaryDirectory() as scratch:
            try:
                device = simulated_pynq_device(clock=clock)
            except PynqMissingError:
                yield SimulatedNpu(bundle.design, clock=clock)
                return
            bit = write_simulated_bitstream(scratch, bundle.design, family=_family(bundle.design.board))
            yield open_overlay(bit, device)
    else:
        raise DriverUsageError(f"a device must be one of {', '.join(KINDS)}, not '{kind}'")


def _check_reachable(bundle: Bundle) -> None:
    """PYNQ allocates in the processing system's memory, which an NPU before another memory does not see."""
    try:
        memory = load_board(bundle.design.board).memory(bundle.design.memory)
    except BoardError:
        return
    if memory.side == "pl":
        raise DriverUsageError(
            f"PYNQ must allocate where the NPU reads, and this one reads the programmable logic's memory '{memory.name}': "
            "open it with DevMemNpu, as the project's README says"
        )


def _family(board: str) -> str:
    """The processing system that the simulated board pretends to have: that of the named board, or any for a board of one's own."""
    try:
        return load_board(board).family
    except BoardError:
        return "zynq7000"
