"""A simulated NPU that fails in every way a board does: buses, interrupts, results, memories, registers.

Each `Mishap` names a kind, the job at which it strikes and, where it needs one, a place. The device stays a
`Device`; whether a driver notices is what campaigns find out (`host/oip/campaign.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from fluidnpu.dse import Design
from fluidnpu.hls import Cause, register

from .device import Clock
from .simulated import Fault, SimulatedNpu

_STATUS, _CTRL = register("STATUS"), register("CTRL")
_START = _CTRL.field("START").mask
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


class FaultyNpu(SimulatedNpu):
    """A `SimulatedNpu` with mishaps. `struck` lists those that have happened."""

    def __init__(self, design: Design, mishaps: Iterable[Mishap], *, clock: Clock | None = None) -> None:
        super().__init__(design, clock=clock)
        self.struck: list[Mishap] = []
        self._due = sorted(mishaps, key=lambda one: one.job, reverse=True)
        self._silent_until_ns = 0
        self._failing: set[Mischief] = set()  # bus failures that strike at the next access
        self._lost = self._spurious = self._stuck = False

    def read(self, offset: int) -> int:
        """Read a register, if the bus works."""
        self._fail_on(Mischief.BUS_READ)
        self._check_silence()
        word = super().read(offset)
        if self._stuck and offset == _STATUS.offset:
            return word | _DONE | _IDLE
        return word

    def write(self, offset: int, value: int) -> None:
        """Write a register, if the bus works; a START may bring the next mishap."""
        self._check_silence()
        if offset == _CTRL.offset and value == _START:
            self._lost = self._spurious = self._stuck = False
            if self._due and self._due[-1].job <= self.jobs:
                self._strike(self._due.pop())
        self._fail_on(Mischief.BUS_WRITE)
        super().write(offset, value)

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Wait as a board would, with interrupts lost, or coming for no reason."""
        self._check_silence()
        if self._spurious:
            self._spurious = False
            return True
        if self._lost:
            self.clock.sleep_until(deadline_ns)
            self._advance()
            return False
        if self._stuck:
            return True
        return super().wait_interrupt(deadline_ns)

    def _compute(self, job: object, until_ns: int) -> None:
        if not self._stuck:
            super()._compute(job, until_ns)  # type: ignore[arg-type]

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
        acts: dict[Mischief, Callable[[], None]] = {
            Mischief.BUS_READ: lambda: self._failing.add(kind),
            Mischief.BUS_WRITE: lambda: self._failing.add(kind),
            Mischief.HANG: lambda: self.faults.append(Fault(job=self.jobs, layer=place % 4)),
            Mischief.NPU_ERROR: lambda: self.faults.append(
                Fault(job=self.jobs, layer=place % 4, cause=(Cause.BUS_READ, Cause.BUS_WRITE)[place % 2])
            ),
            Mischief.LOST_INTERRUPT: lambda: setattr(self, "_lost", True),
            Mischief.SPURIOUS_INTERRUPT: lambda: setattr(self, "_spurious", True),
            Mischief.STUCK_DONE: lambda: setattr(self, "_stuck", True),
            Mischief.DAMAGED_PROGRAM: lambda: self._damage_program(place),
            Mischief.DAMAGED_FBCB: lambda: self._damage_fbcb(place),
            Mischief.DAMAGED_REGISTER: lambda: self._damage_register(place),
            Mischief.VANISHED: lambda: setattr(
                self, "_silent_until_ns", self.clock.now_ns() + 1_000_000 * (1 + place % 40)
            ),
        }
        acts[kind]()

    def _damage_program(self, place: int) -> None:
        """Flip a bit of the buffer that the program lies in."""
        buffer = self.memory.buffers[0].array
        buffer[place % len(buffer)] ^= 1 << place % 8

    def _damage_fbcb(self, place: int) -> None:
        self._fbcb[place % len(self._fbcb)] ^= 1 << place % 13

    def _damage_register(self, place: int) -> None:
        self._stored[_SETTINGS[place % len(_SETTINGS)]] ^= 1 << (place // 7) % 16


def random_mishaps(count: int, rng: random.Random, *, every: int = 4) -> list[Mishap]:
    """Return mishaps of random kinds and places, one in about `every` jobs."""
    job, made = 2, []
    for _ in range(count):
        made.append(Mishap(kind=rng.choice(list(Mischief)), job=job, place=rng.randrange(1 << 30)))
        job += rng.randint(1, 2 * every - 1)
    return made
