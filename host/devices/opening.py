"""Opening a device by name, for the console command, the demo and scripts.

`simulated` goes through PYNQ where PYNQ is installed (overlay, MMIO, allocate, as on a board), else straight
to the simulated NPU. `rtl` is the SystemVerilog in Verilator behind the board's memory: exact, slow, on its
own clock; `cosim` is the same with the HLS core's C++ as its core. `cpu` is this processor, for a bundle that
was measured on one. `pynq` and `devmem` are the NPU of a board, with PYNQ or without. Any other name is that
of a package (entry points `fluidnpu.devices`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from fluidnpu.hls import register
from fluidnpu.hls.project import PLATFORMS
from fluidnpu.models.files import ExtensionGroup

from ..bundle import Bundle, bitstream
from ..errors import DriverUsageError, HostError, PynqMissingError
from .claims import locked
from .device import Clock, Device, VirtualClock
from .physical.board import open_npu
from .physical.checkup import CheckupTarget
from .physical.places import BOARD, Places
from .processor import ProcessorNpu
from .pynq.bitstream import write_simulated_bitstream
from .pynq.overlay import open_overlay, simulated_pynq_device
from .rtl import rtl_device
from .simulated import SimulatedNpu

_LOOKS = 1000  # at STATUS; a bus that owes an answer for longer never gives one
KINDS = ("simulated", "cpu", "rtl", "cosim", "pynq", "devmem")
Opener = Callable[[Bundle, Path | None, Clock | None], AbstractContextManager[Device]]
DEVICE_EXTENSIONS: ExtensionGroup[Opener] = ExtensionGroup(
    "fluidnpu.devices",
    "device",
    "a function that opens the device for a bundle",
    lambda name, thing: callable(thing),
    DriverUsageError,
    KINDS,
)
_VERBS = ("read", "write", "allocate", "free", "wait_interrupt", "clock")  # of a `Device`


@contextmanager
def open_device(
    kind: str,
    bundle: Bundle,
    folder: Path | str | None = None,
    *,
    clock: Clock | None = None,
    registers: int | None = None,
    reserved: tuple[int, int] | None = None,
    places: Places = BOARD,
) -> Iterator[Device]:
    """Open the NPU for a bundle by the name of its kind, and close it at the end of the `with` block.

    `simulated` runs on `clock` (default: a virtual one), `rtl` and `cosim` on their own clock, `pynq` with
    the bitstream in `folder`, and `devmem` with a bitstream that is loaded already. A package's device gets
    bundle, folder and clock. For `devmem` alone: `registers` is the physical address of the NPU's registers
    (default: that of the generated block design), and `reserved` the physical address and size in bytes of
    the memory for programs and samples, which Linux must leave alone (default: the largest u-dma-buf in the
    memory that the NPU reads). `places` names look-alikes of a board's files. Raises DriverUsageError,
    BundleError, PynqMissingError, DeviceAccessError, DeviceInUseError, and rtl_tb's SimulationError or hls'
    CsimError when RTL or C++ cannot be built.
    """
    if kind != "devmem" and (registers is not None or reserved is not None):
        raise DriverUsageError(f"physical addresses are for the device 'devmem' alone, not for '{kind}'")
    if kind == "devmem":
        with locked("devmem"), open_npu(board_target(bundle, registers), reserved, places) as npu, left_idle(npu):
            yield npu
    elif kind == "pynq":
        if folder is None:
            raise DriverUsageError("a board needs the folder that holds its bitstream, and none came")
        _check_reachable(bundle)
        with locked("pynq"), left_idle(open_overlay(bitstream(folder))) as npu:
            yield npu
    elif kind in ("rtl", "cosim"):
        if clock is not None:
            raise DriverUsageError("the RTL counts time in its own cycles, so no clock can be given to it")
        yield rtl_device(bundle.design, core="hls" if kind == "cosim" else "rtl")
    elif kind == "cpu":
        if not bundle.design.is_measured:
            raise DriverUsageError(
                f"a processor must be given a bundle that was measured on one (`fluidnpu measure BUNDLE --worker FOLDER`), and "
                f"this one is for {bundle.design.board}"
            )
        if clock is not None:
            raise DriverUsageError("a processor works in real time, so no clock can be given to it")
        yield ProcessorNpu(bundle.design)
    elif kind == "simulated":
        clock = VirtualClock() if clock is None else clock
        with tempfile.TemporaryDirectory() as scratch:
            try:
                device = simulated_pynq_device(clock=clock)
            except PynqMissingError:
                yield SimulatedNpu(bundle.design, clock=clock)
                return
            bit = write_simulated_bitstream(scratch, bundle.design, family=_family(bundle))
            with left_idle(open_overlay(bit, device)) as npu:
                yield npu
    else:
        with ExitStack() as stack:
            yield _of_package(kind, bundle, None if folder is None else Path(folder), clock, stack)


def _of_package(kind: str, bundle: Bundle, folder: Path | None, clock: Clock | None, stack: ExitStack) -> Device:
    """Open the device of a package, which the stack closes. Raises DriverUsageError."""
    opener = DEVICE_EXTENSIONS.find(kind)
    if opener is None:
        kinds = ", ".join([*KINDS, *DEVICE_EXTENSIONS.names])
        raise DriverUsageError(f"a device must be one of {kinds}, not '{kind}'")
    try:
        device = stack.enter_context(opener(bundle, folder, clock))
    except HostError:
        raise
    except Exception as error:  # a package may raise anything
        raise DEVICE_EXTENSIONS.failure(kind, "must open as a context manager", error) from error
    if lacks := [verb for verb in _VERBS if not hasattr(device, verb)]:
        raise DriverUsageError(
            f"{DEVICE_EXTENSIONS.title(kind)} must have {', '.join(_VERBS)}, and lacks {', '.join(lacks)}"
        )
    return device


@contextmanager
def left_idle(npu: Device) -> Iterator[Device]:
    """Drop the NPU's job at the end of the `with` block, and wait until memory owes it nothing.

    A bitstream that is loaded over a burst, or a reset of the fabric in it, leaves the processing system's
    port with words that the next NPU takes for its own. A device that does not answer is left as it is.
    """
    try:
        yield npu
    finally:
        with suppress(OSError):
            npu.write(register("CTRL").offset, register("CTRL").field("SOFT_RESET").mask)
            for _ in range(_LOOKS):
                if register("STATUS").field("IDLE").get(npu.read(register("STATUS").offset)):
                    break


def board_target(bundle: Bundle, registers: int | None = None) -> CheckupTarget:
    """Describe the NPU of a bundle to the checks of a board.

    `registers`: the physical address of the NPU's registers, by default that of generated projects. Raises
    DriverUsageError where it is not given and the design carries no facts of its board.
    """
    board = bundle.design.facts
    if registers is None and board is None:
        raise DriverUsageError(
            f"the address of the NPU's registers must be given where the board is not known: {bundle.design.lacking}"
        )
    family = _family(bundle)
    return CheckupTarget(
        family=family,
        registers=PLATFORMS[family].registers_base if registers is None else registers,
        board=board,
        design=bundle.design,
        bytes=bundle.memory_bytes,
    )


def _check_reachable(bundle: Bundle) -> None:
    """Refuse an NPU that reads another memory than the processing system's, where PYNQ allocates."""
    board = bundle.design.facts
    memory = None if board is None else board.memory(bundle.design.memory)
    if memory is not None and memory.side == "pl":
        raise DriverUsageError(
            f"PYNQ must allocate where the NPU reads, and this one reads the programmable logic's memory '{memory.name}': "
            "open it as 'devmem', as the project's README says"
        )


def _family(bundle: Bundle) -> str:
    """Return the processing system of the design's board; any will do where its facts are not known."""
    board = bundle.design.facts
    return "zynq7000" if board is None else board.family
