"""The NPU's register map: the single source of every offset, field and meaning.

SystemVerilog package, C header, documentation table, simulated device and driver are views of `REGISTERS`; an
offset stands in no other file.

>>> CTRL.field("START").mask
1
>>> register("STATUS").offset
4
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from .formats.table import FBCB


class Access(str, Enum):
    """Access: RO is the hardware's, RW the software's, W1S starts an action and reads 0, W1C clears bits."""

    __str__ = str.__str__  # as of enum.StrEnum, which Python 3.10 lacks

    RO = "RO"
    RW = "RW"
    W1S = "W1S"
    W1C = "W1C"


class WhileBusy(str, Enum):
    """The effect of a write while STATUS.BUSY is set: a job runs, or is being dropped."""

    __str__ = str.__str__

    AT_ONCE = "at once"
    HELD = "next START"  # the job keeps what it found at its START
    REFUSED = "BUSY"  # nothing is written, and ERROR tells BUSY; the job goes on


class Cause(IntEnum):
    """The cause of an ERROR. EXIT_NOT_ACTIVE to EMPTY_BATCH refuse a command and leave all state as is."""

    NONE = 0
    EXIT_NOT_ACTIVE = 1  # EXIT of a slot that is not active
    MERGE_ACTIVE = 2  # MERGE of a slot that is active already
    BATCH_TOO_LARGE = 3  # MERGE beyond b_max
    BAD_LAYER_RANGE = 4  # FIRST_LAYER > LAST_LAYER or beyond the program
    EMPTY_BATCH = 5  # START with no active slot
    BUSY = 6  # START, EXIT or MERGE while a job runs, or a write of a setting that acts in it
    BAD_DESCRIPTOR = 7  # checksum, zero size, misaligned address, or more P-tiles than a command can ask for
    BAD_FBCB = 8  # k or b_r outside what this NPU can do
    BUS_READ = 9  # a read answered with an error
    BUS_WRITE = 10  # a write answered with an error
    WATCHDOG = 11  # the job took more than WATCHDOG cycles


@dataclass(frozen=True)
class Field:
    """Bits [low + width - 1 : low] of a register."""

    name: str
    low: int
    width: int = 1
    meaning: str = ""

    @property
    def mask(self) -> int:
        """The field's bits in place."""
        return ((1 << self.width) - 1) << self.low

    def get(self, word: int) -> int:
        """The field's value in a register word."""
        return (word & self.mask) >> self.low

    def put(self, value: int) -> int:
        """The register word with only this field set. Raises ValueError when the value is too wide."""
        if not 0 <= value < 1 << self.width:
            raise ValueError(f"field {self.name} takes {self.width} bits, so {value} does not fit")
        return value << self.low


@dataclass(frozen=True)
class Register:
    """One 32-bit register on the AXI4-Lite port; `busy` is what a write does while a job runs."""

    name: str
    offset: int
    access: Access
    meaning: str
    fields: tuple[Field, ...] = ()
    reset: int = 0
    busy: WhileBusy = WhileBusy.AT_ONCE

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"register {self.name} has no field {name}")


@dataclass(frozen=True)
class Counter:
    """A number that the NPU counts in each layer, modulo 2**32; at most `step` a cycle."""

    name: str
    meaning: str
    step: int = 1


READ_MASTERS = 3
# Of the layer that COUNTERS_LAYER names, in the last job that ran it to its end.
COUNTERS: tuple[Counter, ...] = (
    Counter("CYCLES", "Cycles of the layer, from the end of the one before, or from START, to its own."),
    Counter("INPUTS", "Cycles in which the core took a beat of input."),
    Counter("STARVED", "Cycles in which the core waited for input."),
    Counter("BLOCKED", "Cycles in which input waited for the core."),
    Counter("READ_BEATS", "Words of the port that came from memory, of all masters.", READ_MASTERS),
    Counter("READ_BURSTS", "Read bursts that were asked for, of all masters.", READ_MASTERS),
    Counter("WRITE_BEATS", "Words of the port that went to memory."),
    Counter("WRITE_BURSTS", "Write bursts that were begun."),
)
COUNTERS_OFFSET = 0x80

RO, RW, W1S, W1C = Access.RO, Access.RW, Access.W1S, Access.W1C
HELD, REFUSED = WhileBusy.HELD, WhileBusy.REFUSED
VERSION = 3  # of this map and of the descriptor; it goes up where an NPU of before must be refused

REGISTERS: tuple[Register, ...] = (
    Register(
        "CTRL",
        0x00,
        W1S,
        "Commands; one bit a write, several without SOFT_RESET set ERROR (BUSY), and so do START, EXIT and MERGE while busy.",
        (
            Field("START", 0, 1, "run layers FIRST_LAYER..LAST_LAYER for the active slots"),
            Field("EXIT", 1, 1, "remove the slots of SLOT_MASK from the active batch"),
            Field("MERGE", 2, 1, "add the slots of SLOT_MASK to the active batch"),
            Field("SOFT_RESET", 3, 1, "drop the job, wait for outstanding bus responses, empty the batch, clear ERROR"),
        ),
        busy=REFUSED,
    ),
    Register(
        "STATUS",
        0x04,
        RO,
        "What the NPU is doing.",
        (
            Field("IDLE", 0, 1, "no job runs and no bus response is outstanding"),
            Field("BUSY", 1, 1, "a job runs"),
            Field("DONE", 2, 1, "the last job ended without an error"),
            Field("ERROR", 3, 1, "ERROR holds a cause"),
            Field("B_ACT", 8, 8, "number of active slots"),
            Field("LAYER", 16, 16, "layer that runs or ran last: the heartbeat"),
        ),
        reset=1,
    ),
    Register(
        "IRQ_ENABLE",
        0x08,
        RW,
        "Which events raise the interrupt.",
        (Field("DONE", 0, 1, "a job ended without an error"), Field("ERROR", 1, 1, "ERROR was set")),
    ),
    Register(
        "IRQ_STATUS",
        0x0C,
        W1C,
        "Events since they were last cleared; SOFT_RESET leaves them.",
        (Field("DONE", 0, 1, "a job ended without an error"), Field("ERROR", 1, 1, "ERROR was set")),
    ),
    Register(
        "ERROR",
        0x10,
        RO,
        "First error since the last START or SOFT_RESET. Of several in one cycle the first of this order is told: BUS_READ, "
        "BUS_WRITE, WATCHDOG, then the plan's; each of these before the refusal of a write.",
        (Field("CAUSE", 0, 8, "see Cause"), Field("LAYER", 16, 16, "layer it happened in")),
    ),
    Register("BUILD_ID", 0x14, RO, "First 32 bits of the design's digest; a driver with another bundle must refuse."),
    Register(
        "SHAPE",
        0x18,
        RO,
        "What was built.",
        (
            Field("B_MAX", 0, 5, "largest active batch"),
            Field("VERSION", 5, 3, f"of this map and of the descriptor: {VERSION}"),
            Field("T_P", 8, 8, "words a PE multiplies in one cycle"),
            Field("T_C", 16, 12, "processing elements"),
            Field("STACKABLE", 28, 1, "k = 2 and lanes exist"),
            Field("SPLIT", 29, 1, "k = 1/2 exists"),
        ),
    ),
    Register("SLOT_MASK", 0x1C, RW, "Slots that the next EXIT or MERGE means; bit i is slot i."),
    Register("ACTIVE", 0x20, RO, "Slots of the active batch; bit i is slot i."),
    Register("FIRST_LAYER", 0x24, RW, "First layer of a job.", (Field("INDEX", 0, 16),), busy=HELD),
    Register("LAST_LAYER", 0x28, RW, "Last layer of a job, inclusive.", (Field("INDEX", 0, 16),), busy=HELD),
    Register("LAYERS", 0x2C, RW, "Descriptors in the program.", (Field("COUNT", 0, 16),), busy=HELD),
    Register("PROGRAM_LO", 0x30, RW, "Address of descriptor 0, low half; 64-byte aligned.", busy=REFUSED),
    Register("PROGRAM_HI", 0x34, RW, "Address of descriptor 0, high half.", busy=REFUSED),
    Register("WEIGHTS_LO", 0x38, RW, "Address of the weight image, low half; 64-byte aligned.", busy=REFUSED),
    Register("WEIGHTS_HI", 0x3C, RW, "Address of the weight image, high half.", busy=REFUSED),
    Register("SLOT_BASE_LO", 0x40, RW, "Address of slot 0, low half; 64-byte aligned.", busy=HELD),
    Register("SLOT_BASE_HI", 0x44, RW, "Address of slot 0, high half.", busy=HELD),
    Register("SLOT_BYTES", 0x48, RW, "Distance between slots in bytes; a multiple of 64.", busy=REFUSED),
    Register("WATCHDOG", 0x4C, RW, "Cycles after which a job is dropped with an error; 0 switches it off."),
    Register("CYCLES_LO", 0x50, RO, "Cycles of the job that runs or ran last, low half."),
    Register("CYCLES_HI", 0x54, RO, "Cycles of the job that runs or ran last, high half."),
    Register("SATURATIONS", 0x58, RO, "Outputs that saturated in the last job; stays at its largest value."),
    Register(
        "FBCB_INDEX",
        0x5C,
        RW,
        "FBCB word that FBCB_DATA writes: layer * b_max + batch - 1; steps on after each write, also a refused one.",
    ),
    Register(
        "FBCB_DATA",
        0x60,
        RW,
        "One FBCB word (ADR 5), range-checked on the way in; reads the word at FBCB_INDEX, and 0 while busy or beyond the last.",
        tuple(Field(bits.name.upper(), bits.start, bits.width, bits.meaning) for bits in FBCB.fields),
        busy=REFUSED,
    ),
    Register(
        "COUNTERS_LAYER",
        0x64,
        RW,
        "Layer whose counters LAYER_CYCLES and those behind it show.",
        (Field("INDEX", 0, 16),),
    ),
    *(
        Register(f"LAYER_{counter.name}", COUNTERS_OFFSET + 4 * index, RO, counter.meaning)
        for index, counter in enumerate(COUNTERS)
    ),
)

_BY_NAME = {register.name: register for register in REGISTERS}
CTRL = _BY_NAME["CTRL"]
WINDOW_BYTES = 0x100  # size of the AXI4-Lite window: the next power of two


def register(name: str) -> Register:
    """The register of that name; KeyError when there is none."""
    return _BY_NAME[name]


def fields() -> Iterator[tuple[Register, Field]]:
    """Every field of every register, in order."""
    for register in REGISTERS:
        for field in register.fields:
            yield register, field
