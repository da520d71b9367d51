"""The checks of a board, one step after the other, each with a sentence that says what to do.

`preflight` is what the device does itself before its first access. `check_board` goes on to registers, memory
and interrupt, for `fluidnpu doctor --board`. Both end at the first step without which the next would hang.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from fluidnpu.boards import Board
from fluidnpu.dse import Design
from fluidnpu.hls import WINDOW_BYTES, register
from fluidnpu.hls.project import PLATFORMS

from ...errors import DeviceAccessError
from ...identity import build_id_word, shape_word
from .places import BOARD, Places
from .power import find_meter
from .regions import DEVICE_MEMORY, MODES, DmaBuffer, dma_buffers
from .status_lines import read_status_lines
from .system import SYSTEMS, Read
from .system import WINDOW_BYTES as PAGE
from .words import Words

_SILENCE = 0xFFFF_FFFF
_UIO_NAME = "fluidnpu"  # of the node in software/fluidnpu.dtsi
_IRQ_WAIT_S, _IRQ_LOOKS = 0.2, 20


@dataclass(frozen=True, kw_only=True)
class Step:
    """One check: True passed, False failed, None not needed for serving; `said` explains in one sentence."""

    name: str
    passed: bool | None
    said: str


@dataclass(frozen=True, kw_only=True)
class CheckupTarget:
    """The NPU to look for: its family, the address of its registers and, where a bundle is there, its design.

    `bytes`: the memory that the bundle's program and slots need.
    """

    family: str
    registers: int
    board: Board | None = None
    design: Design | None = None
    bytes: int = 0

    @property
    def in_logic(self) -> bool:
        """True when the NPU reads the memory of the programmable logic."""
        return self.board is not None and self.design is not None and self.board.memory(self.design.memory).side == "pl"

    @property
    def ports(self) -> tuple[int, int]:
        """Number and bits of the memory ports that the NPU uses at the processors; none without a design."""
        if self.board is None or self.design is None or self.in_logic:
            return 0, 0
        platform, design = PLATFORMS[self.family], self.design
        return platform.ports_used(self.board.axi_ports, design.stripes), design.port_bits // design.stripes


def machine_family(places: Places = BOARD) -> str | None:
    """Tell the family of this machine by its device tree; None for a machine that is no Zynq."""
    try:
        names = places.compatible.read_bytes().split(b"\0")
    except OSError:
        return None
    return next((name for name, platform in PLATFORMS.items() if platform.compatible.encode() in names), None)


@contextmanager
def _system_registers(family: str, ports: int, places: Places) -> Iterator[Read]:
    """Map the pages of the processing system's registers that the checks read."""
    with ExitStack() as opened:
        pages = {}
        for page in SYSTEMS[family].windows(ports):
            pages[page] = Words(places.memory, page, PAGE)
            opened.callback(pages[page].close)
        yield lambda address: pages[address // PAGE * PAGE].read(address % PAGE)


def preflight(target: CheckupTarget, places: Places = BOARD) -> Iterator[Step]:
    """Check what can be checked without an access to the NPU; the last step is the first that failed."""
    step = _machine(target.family, places)
    yield step
    if not step.passed:
        return
    ports, bits = target.ports
    try:
        with _system_registers(target.family, ports, places) as read:
            yield Step(name="rights", passed=True, said=f"'{places.memory}' can be mapped")
            for name, fault in SYSTEMS[target.family].faults(read, ports, bits):
                yield Step(name=name, passed=not fault, said=fault or _PASSED[name])
                if fault:
                    return
    except DeviceAccessError as error:
        yield Step(name="rights", passed=False, said=str(error))
        return
    yield from _status_steps(target, places)


_PASSED = {
    "clock": "the processing system's clock for the logic runs at the right rate",
    "reset": "the processing system lets the logic run",
    "ports": "the memory ports have the design's width",
}


def _status_steps(target: CheckupTarget, places: Places) -> Iterator[Step]:
    """Check the lines that the block design wires to the GPIO controller."""
    try:
        lines = read_status_lines(target.family, places)
    except DeviceAccessError as error:
        yield Step(name="bitstream", passed=False, said=str(error))
        return
    yield Step(name="bitstream", passed=True, said="a bitstream of fluidnpu is loaded")
    wanted = [
        ("NPU clock", "clock_locked", "the clocking wizard must be locked, and it is not: its input must have 100 MHz"),
        ("NPU reset", "out_of_reset", "the NPU must be out of reset, and it is not: load the bitstream again"),
    ]
    if target.in_logic:
        sentence = (
            "the memory of the logic must be calibrated, and it is not: see that the SODIMM is seated, and load again"
        )
        wanted.append(("calibration", "memory_ready", sentence))
    for name, line, fault in wanted:
        yield Step(name=name, passed=lines[line], said=f"status line {line} is high" if lines[line] else fault)
        if not lines[line]:
            return


def _machine(family: str, places: Places) -> Step:
    """Compare this machine's device tree with a family; physical addresses of another mean something else."""
    wanted, actual = PLATFORMS[family].compatible, machine_family(places)
    if actual != family:
        other = "none of the boards'" if actual is None else PLATFORMS[actual].compatible
        sentence = f"the device tree of this machine must be compatible with '{wanted}', and it is {other}: run it on the board"
        return Step(name="board", passed=False, said=sentence)
    return Step(name="board", passed=True, said=f"the device tree is compatible with '{wanted}'")


def check_board(target: CheckupTarget | None = None, places: Places = BOARD) -> Iterator[Step]:
    """Check a whole board: `preflight`, then registers, memory and interrupt. The NPU must be idle.

    `target`: any NPU of ours on this machine when it is left out.
    """
    if target is None:
        family = machine_family(places) or "zynq7000"
        target = CheckupTarget(family=family, registers=PLATFORMS[family].registers_base)
    for step in preflight(target, places):
        yield step
        if step.passed is False:
            return
    registers = Words(places.memory, target.registers, WINDOW_BYTES)
    try:
        identity = _identity(target, registers)
        yield identity
        yield _memory(target, places)
        if identity.passed:
            yield _interrupt(target, registers, places)
    finally:
        registers.close()
    if target.board is not None:
        yield _power(target.board, places)


def _power(board: Board, places: Places) -> Step:
    """Read the board's power; serving needs none of it."""
    try:
        meter = find_meter(board, places)
        of = "the whole board" if meter.covers == "board" else "some rails"
        return Step(name="power", passed=True, said=f"{meter.watts():.2f} W measured of {of} ({meter.source})")
    except DeviceAccessError as error:
        return Step(name="power", passed=None, said=str(error))


def _identity(target: CheckupTarget, registers: Words) -> Step:
    """Compare BUILD_ID and SHAPE with the bundle's design."""
    words = {name: registers.read(register(name).offset) for name in ("BUILD_ID", "SHAPE")}
    if words["BUILD_ID"] == words["SHAPE"] == _SILENCE:
        sentence = (
            f"an NPU must answer at {target.registers:#010x}, and the bus is silent there (all ones): the bitstream has "
            "its registers elsewhere, or is another one"
        )
        return Step(name="registers", passed=False, said=sentence)
    if target.design is None:
        return Step(name="registers", passed=True, said=f"an NPU of build {words['BUILD_ID']:08x} answers")
    wanted = {"BUILD_ID": build_id_word(target.design), "SHAPE": shape_word(target.design)}
    for name, word in wanted.items():
        if words[name] != word:
            sentence = (
                f"{name} of the NPU must be {word:#010x}, that of the bundle, and it is {words[name]:#010x}: load the "
                "bitstream of the same project, or build it again"
            )
            return Step(name="registers", passed=False, said=sentence)
    return Step(name="registers", passed=True, said=f"the NPU answers with the bundle's build {words['BUILD_ID']:08x}")


def usable_buffer(target: CheckupTarget, places: Places = BOARD) -> DmaBuffer | None:
    """Find the largest u-dma-buf in the memory that the NPU reads; None when there is none.

    Raises DeviceAccessError for attributes that make no sense.
    """
    pl = PLATFORMS[target.family].pl_memory

    def in_logic(buffer: DmaBuffer) -> bool:
        return pl is not None and pl.base <= buffer.base < pl.base + pl.bytes

    fitting = (buffer for buffer in dma_buffers(places) if in_logic(buffer) == target.in_logic)
    return max(fitting, key=lambda buffer: buffer.size, default=None)


def _memory(target: CheckupTarget, places: Places) -> Step:
    where = "the programmable logic's memory" if target.in_logic else "the processors' memory"
    try:
        buffer = usable_buffer(target, places)
    except DeviceAccessError as error:
        return Step(name="memory", passed=False, said=str(error))
    if buffer is None:
        sentence = (
            f"a u-dma-buf in {where} must be there, and there is none: load u-dma-buf with software/fluidnpu.dtsi"
        )
        if target.in_logic:
            sentence += "; it works without, through /dev/mem, a word at a time"
        return Step(name="memory", passed=None if target.in_logic else False, said=sentence)
    if buffer.size < target.bytes:
        sentence = (
            f"'{buffer.name}' must have {target.bytes} bytes for the bundle's program and slots, and it has {buffer.size}: "
            "make it larger in the device tree"
        )
        return Step(name="memory", passed=False, said=sentence)
    note = ", and its sync_mode will be set to 2" if buffer.sync_mode & MODES == DEVICE_MEMORY else ""
    return Step(
        name="memory",
        passed=True,
        said=f"'{buffer.name}' has {buffer.size} bytes at {buffer.base:#010x} in {where}{note}",
    )


def _interrupt(target: CheckupTarget, registers: Words, places: Places) -> Step:
    """Raise an event on purpose, the refusal of an EXIT, and see whether Linux counts an interrupt."""
    node = next(
        (uio for uio in places.classes.glob("uio/uio*") if (uio / "name").read_text().strip() == _UIO_NAME), None
    )
    if node is None:
        sentence = (
            f"no UIO device is named '{_UIO_NAME}', so no interrupt can be seen; the driver polls and needs none "
            "(software/fluidnpu.dtsi has the node)"
        )
        return Step(name="interrupt", passed=None, said=sentence)
    irq, enable, ctrl = (register(name).offset for name in ("IRQ_STATUS", "IRQ_ENABLE", "CTRL"))
    error, before = register("IRQ_STATUS").field("ERROR").mask, int((node / "event").read_text())
    (places.devices / node.name).write_bytes((1).to_bytes(4, "little"))  # lets the next interrupt through
    kept = registers.read(enable)
    registers.write(irq, error)
    registers.write(enable, error)
    registers.write(register("SLOT_MASK").offset, 1)
    registers.write(ctrl, register("CTRL").field("EXIT").mask)
    try:
        for _ in range(_IRQ_LOOKS):
            if int((node / "event").read_text()) > before:
                return Step(name="interrupt", passed=True, said=f"'{node.name}' counts the NPU's interrupt")
            time.sleep(_IRQ_WAIT_S / _IRQ_LOOKS)
        number, flags = PLATFORMS[target.family].interrupt
        sentence = (
            f"'{node.name}' must count the NPU's interrupt, and it did not: its node needs "
            f"interrupts = <0 {number} {flags}>; the driver polls and works without"
        )
        return Step(name="interrupt", passed=False, said=sentence)
    finally:
        registers.write(ctrl, register("CTRL").field("SOFT_RESET").mask)
        registers.write(irq, error)
        registers.write(enable, kept)
