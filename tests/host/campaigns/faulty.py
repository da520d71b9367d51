"""A device that fails in every way a board does: buses, interrupts, results, memories, registers.

Each `Mishap` names a kind, the job at which it strikes and, where it needs one, a place. Whether a driver
notices is what campaigns find out (`requests.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from fluidnpu.hls import register
from fluidnpu.host.devices.device import Buffer, Clock, Device

_STATUS, _CTRL = register("STATUS"), register("CTRL")
_START, _RESET = _CTRL.field("START").mask, _CTRL.field("SOFT_RESET").mask
_DONE, _IDLE = _STATUS.field("DONE").mask, _STATUS.field("IDLE").mask
_SETTINGS = ("PROGRAM_LO", "WEIGHTS_LO", "SLOT_BASE_LO", "SLOT_BYTES", "LAYERS", "FIRST_LAYER", "LAST_LAYER")


class Mischief(Enum):
    """The kinds of failure."""

    BUS_READ = "a read of a register fails"
    BUS_WRITE = "a write of a register fails"
    HANG = "a job never ends"
    NPU_ERROR = "a job ends with an error"
    LOST_INTERRUPT = "the interrupt of a job never comes"
    SPURIOUS_INTERRUPT = "an interrupt comes before the end of a job"
    STUCK_DONE = "STATUS says done and idle, and nothing was computed"
    DAMAGED_PROGRAM = "a byte of descriptors or weights changes before a job"
    DAMAGED_FBCB = "a word of the FBCB changes before a job"
    DAMAGED_REGISTER = "a bit of a configuration register changes before a job"
    VANISHED = "the device does not answer for a while"


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """One failure at accepted job `job` (from 0); `place` chooses register, byte or word, and how long."""

    kind: Mischief
    job: int
    place: int = 0


class FaultyDevice:
    """Any `Device` with mishaps at its registers, its interrupt and its memory. `struck` lists what happened.

    The device behind it is whole: it never sees a START that hangs or ends without work, and errors, damages
    and watchdogs are brought about by registers and memory, so that simulated and RTL devices fail alike.
    """

    def __init__(self, device: Device, mishaps: Iterable[Mishap]) -> None:
        self.device = device
        self.struck: list[Mishap] = []
        self.jobs = 0  # started so far
        self._due = sorted(mishaps, key=lambda mishap: mishap.job, reverse=True)
        self._silent_until_ns = 0
        self._failing: set[Mischief] = set()  # bus failures that strike at the next access
        self._now: Mischief | None = None  # what ails the present job, where that is not a thing of the past
        self._buffers: list[Buffer] = []
        self._fbcb: dict[int, int] = {}
        self._index = 0

    @property
    def due(self) -> int:
        """Mishaps that are still to strike."""
        return len(self._due)

    # -- Device ----------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The clock of the device."""
        return self.device.clock

    def read(self, offset: int) -> int:
        """Read a register, if the bus works."""
        self._fail_on(Mischief.BUS_READ)
        self._check_silence()
        word = self.device.read(offset)
        if offset == _STATUS.offset and self._now is Mischief.STUCK_DONE:
            return word | _DONE | _IDLE
        if offset == _STATUS.offset and self._now is Mischief.HANG:
            return word & ~(_DONE | _IDLE)
        return word

    def write(self, offset: int, value: int) -> None:
        """Write a register, if the bus works; a START may bring the next mishap."""
        self._check_silence()
        start = offset == _CTRL.offset and value == _START
        if start:
            self._now = None
            if self._due and self._due[-1].job <= self.jobs:
                self._strike(self._due.pop())
        self._fail_on(Mischief.BUS_WRITE)
        self.jobs += start
        if start and self._now in (Mischief.HANG, Mischief.STUCK_DONE):
            return
        if offset == _CTRL.offset and value == _RESET and self._now is Mischief.HANG:
            self._now = None
        self._note_fbcb(offset, value)
        self.device.write(offset, value)

    def allocate(self, size: int) -> Buffer:
        """Allocate from the device's memory."""
        self._check_silence()
        self._buffers.append(self.device.allocate(size))
        return self._buffers[-1]

    def free(self, buffer: Buffer) -> None:
        """Free a buffer of `allocate`."""
        self._buffers = [other for other in self._buffers if other is not buffer]
        self.device.free(buffer)

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Wait as a board would, with interrupts lost, or coming for no reason."""
        self._check_silence()
        if self._now is Mischief.SPURIOUS_INTERRUPT:
            self._now = None
            return True
        if self._now is Mischief.STUCK_DONE:
            return True
        if self._now in (Mischief.LOST_INTERRUPT, Mischief.HANG):
            self.clock.sleep_until(deadline_ns)
            return False
        return self.device.wait_interrupt(deadline_ns)

    # -- mishaps ---------------------------------------------------------------------------------------------

    def _note_fbcb(self, offset: int, value: int) -> None:
        """Remember the words of the FBCB, which the host cannot read back."""
        if offset == register("FBCB_INDEX").offset:
            self._index = value
        elif offset == register("FBCB_DATA").offset:
            self._fbcb[self._index] = value
            self._index += 1

    def _fail_on(self, kind: Mischief) -> None:
        if kind in self._failing:
            self._failing.discard(kind)
            raise OSError(5, kind.value)

    def _check_silence(self) -> None:
        if self.clock.now_ns() < self._silent_until_ns:
            raise OSError(19, Mischief.VANISHED.value)

    def _strike(self, mishap: Mishap) -> None:
        self.struck.append(mishap)
        kind, place = mishap.kind, mishap.place
        if kind in (Mischief.BUS_READ, Mischief.BUS_WRITE):
            self._failing.add(kind)
        elif kind is Mischief.HANG and place % 2:
            self.device.write(register("WATCHDOG").offset, 1)  # the NPU itself finds it
        elif kind is Mischief.NPU_ERROR:
            self._flip_register(("SLOT_BASE_HI", "PROGRAM_HI")[place % 2], 6)
        elif kind is Mischief.DAMAGED_PROGRAM:
            bytes_ = self._buffers[0].array
            bytes_[place % len(bytes_)] ^= 1 << place % 8
        elif kind is Mischief.DAMAGED_FBCB:
            at = place % len(self._fbcb)
            self.device.write(register("FBCB_INDEX").offset, at)
            self.device.write(register("FBCB_DATA").offset, self._fbcb[at] ^ 1 << place % 13)
        elif kind is Mischief.DAMAGED_REGISTER:
            self._flip_register(_SETTINGS[place % len(_SETTINGS)], place // 7 % 16)
        elif kind is Mischief.VANISHED:
            self._silent_until_ns = self.clock.now_ns() + 1_000_000 * (1 + place % 40)
        else:
            self._now = kind

    def _flip_register(self, name: str, bit: int) -> None:
        offset = register(name).offset
        self.device.write(offset, self.device.read(offset) ^ 1 << bit)


def random_mishaps(count: int, rng: random.Random, *, every: int = 4) -> list[Mishap]:
    """Return mishaps of random kinds and places, one in about `every` jobs."""
    job, made = 2, []
    for _ in range(count):
        made.append(Mishap(kind=rng.choice(list(Mischief)), job=job, place=rng.randrange(1 << 30)))
        job += rng.randint(1, 2 * every - 1)
    return made
