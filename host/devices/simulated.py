"""The simulated NPU: a shipped device with the registers of `hls.REGISTERS` and the predicted job times.

It reads descriptors, weights and slots from simulated DRAM by physical address and computes with the golden
model. On a `VirtualClock` a job costs only its arithmetic; on a `WallClock` it takes as long as the hardware
would, or as the arithmetic if that is longer.

>>> from fluidnpu.dse.testing import tiny_design
>>> npu = SimulatedNpu(tiny_design())
>>> npu.read(register("STATUS").offset) == register("STATUS").reset
True
>>> hex(npu.read(register("BUILD_ID").offset)) == hex(build_id_word(tiny_design()))
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from fluidnpu.dse import Design, DesignError
from fluidnpu.hls import COUNTERS, REGISTERS, WINDOW_BYTES, Access, Cause, Register, WhileBusy, register
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor

from ..identity import build_id_word, shape_word
from .counting import CountedJob, LayerCounts
from .dataplane import DataPlane, Fetch, LayerError, LayerStep, Slots
from .device import ArrayBuffer, Buffer, Clock, VirtualClock
from .memory import SimulatedMemory
from .occupancy import Occupancy
from .recall import Recall
from .timing import JobTimes

_WORD = 0xFFFF_FFFF
_AT: dict[int, Register] = {register.offset: register for register in REGISTERS}
_CTRL, _STATUS, _ERROR, _IRQ = register("CTRL"), register("STATUS"), register("ERROR"), register("IRQ_STATUS")


def known_bits(register: Register) -> int:
    """Return the mask of a register's bits that exist: those of its fields, or all 32 when it has none."""
    return sum(field.mask for field in register.fields) if register.fields else _WORD


@dataclass(frozen=True, kw_only=True)
class JobFault:
    """An injected failure of accepted job `job` (from 0), `layer` layers into it; no cause: it hangs."""

    job: int
    cause: Cause | None = None
    layer: int = 0


@dataclass(kw_only=True)
class _Job:
    """The running job: its decoded layers, their end times and its own end."""

    first: int
    slots: Slots
    start_ns: int
    fetch: Fetch
    steps: list[LayerStep]
    descriptors: Sequence[Descriptor]
    ends_ns: list[int]  # of the layers that run; the failing one's beginning is the last end
    end_ns: int | None = None  # None: it hangs
    cause: Cause = Cause.NONE
    ran: int = 0  # layers computed so far
    counts: list[LayerCounts] | None = None  # of its layers, once they are asked for

    def layer_at(self, now_ns: int) -> int:
        """Return the index of the layer that runs at this time."""
        done = sum(end <= now_ns for end in self.ends_ns)
        last = len(self.steps) if self.cause or self.end_ns is None else len(self.steps) - 1
        return self.first + min(done, last)


@dataclass(kw_only=True)
class _State:
    """The state that SOFT_RESET clears."""

    active: int = 0
    done: bool = False
    cause: Cause = Cause.NONE
    error_layer: int = 0
    layer: int = 0
    job: _Job | None = field(default=None)


class SimulatedNpu:
    """A `Device` made from a design, without a board.

    `build` overrides BUILD_ID, to imitate a foreign bitstream; `faults` may be extended at any time; with
    `recall` a job that has been computed before is not computed again; with `occupancy` its jobs wait for
    those of others that share it, all on one clock.
    """

    def __init__(
        self,
        design: Design,
        *,
        clock: Clock | None = None,
        memory: SimulatedMemory | None = None,
        faults: Sequence[JobFault] = (),
        build: int | None = None,
        recall: Recall | None = None,
        occupancy: Occupancy | None = None,
    ) -> None:
        self.design = design
        self.memory = SimulatedMemory() if memory is None else memory
        self.faults = list(faults)
        self.jobs = 0  # accepted so far
        self._clock: Clock = VirtualClock() if clock is None else clock
        self._times = JobTimes(design)
        self._plane = DataPlane(design, self.memory)
        self._recall, self._occupancy = recall, occupancy
        self._fbcb = [0] * (len(design.layers) * design.b_max)
        self._stored = {r.name: r.reset for r in REGISTERS if r.access is Access.RW}
        self._irq, self._cycles, self._saturations = 0, 0, 0
        self._state = _State()
        self._ran: dict[int, _Job] = {}  # by layer: the last job that ran it to its end
        self._readers: dict[str, Callable[[], int]] = {
            "CTRL": lambda: 0,
            "STATUS": self._status,
            "IRQ_STATUS": lambda: self._irq,
            "ERROR": lambda: _pack(_ERROR, CAUSE=self._state.cause, LAYER=self._state.error_layer),
            "BUILD_ID": lambda: build_id_word(design) if build is None else build,
            "SHAPE": lambda: shape_word(design),
            "ACTIVE": lambda: self._state.active,
            "CYCLES_LO": lambda: self._count_cycles() & _WORD,
            "CYCLES_HI": lambda: self._count_cycles() >> 32,
            "SATURATIONS": lambda: min(self._saturations, _WORD),
            "FBCB_DATA": self._read_fbcb,
            **{f"LAYER_{counter.name}": partial(self._counter, place) for place, counter in enumerate(COUNTERS)},
        }
        self._writers: dict[str, Callable[[int], None]] = {
            "CTRL": self._command,
            "IRQ_STATUS": self._clear_irq,
            "FBCB_DATA": self._write_fbcb,
        }

    # -- Device ----------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The clock on which jobs take their time."""
        return self._clock

    def read(self, offset: int) -> int:
        """Read a register; offsets of the window without one read as zero."""
        register = self._register(offset)
        self._advance()
        if register is None:
            return 0
        reader = self._readers.get(register.name)
        return reader() if reader else self._stored[register.name]

    def write(self, offset: int, value: int) -> None:
        """Write a register; read-only registers and bits that do not exist ignore it.

        Raises ValueError for a value of more than 32 bits.
        """
        register = self._register(offset)
        if not 0 <= value <= _WORD:
            raise ValueError(f"a register takes 32 bits, so {value:#x} does not fit")
        self._advance()
        if register is None or register.access is Access.RO:
            return
        if register.busy is WhileBusy.REFUSED and register.access is Access.RW and self._state.job is not None:
            self._refuse(Cause.BUSY)
            self._stored["FBCB_INDEX"] = self._stored["FBCB_INDEX"] + (register.name == "FBCB_DATA") & _WORD
        elif register.name in self._writers:
            self._writers[register.name](value)
        else:
            self._stored[register.name] = value & known_bits(register)

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate zeroed simulated DRAM. Raises OutOfMemory."""
        return self.memory.allocate(size)

    def free(self, buffer: Buffer) -> None:
        """Free simulated DRAM."""
        self.memory.free(buffer)

    @property
    def irq(self) -> bool:
        """The level of the interrupt line."""
        self._advance()
        return bool(self._irq & self._stored["IRQ_ENABLE"])

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Let time pass until the interrupt line is high or the deadline is reached; return its level."""
        while not self.irq:
            job = self._state.job
            if job is None or job.end_ns is None or job.end_ns > deadline_ns:
                self._clock.sleep_until(deadline_ns)
                return self.irq
            # Before sleeping, so that on a wall clock the arithmetic hides in the job's time.
            self._compute(job, job.end_ns)
            self._clock.sleep_until(job.end_ns)
        return True

    # -- registers -------------------------------------------------------------------------------------------

    @staticmethod
    def _register(offset: int) -> Register | None:
        if offset % 4 or not 0 <= offset < WINDOW_BYTES:
            raise ValueError(
                f"a register's offset must be a multiple of 4 in 0..{WINDOW_BYTES - 4:#x}, not {offset:#x}"
            )
        return _AT.get(offset)

    def _status(self) -> int:
        state, job = self._state, self._state.job
        return _pack(
            _STATUS,
            IDLE=job is None,
            BUSY=job is not None,
            DONE=state.done,
            ERROR=state.cause is not Cause.NONE,
            B_ACT=state.active.bit_count(),
            LAYER=self._heartbeat(),
        )

    def _heartbeat(self) -> int:
        job = self._state.job
        return self._state.layer if job is None else job.layer_at(self._clock.now_ns())

    def _count_cycles(self) -> int:
        job = self._state.job
        return self._cycles if job is None else self._times.cycles(self._clock.now_ns() - job.start_ns)

    def _counter(self, place: int) -> int:
        """Read a counter of the layer that COUNTERS_LAYER names, as the exact model counts it.

        Refresh of the memory begins with the job. Zero for a layer that has not run, and for an NPU whose
        design has no facts of its memory.
        """
        layer = self._stored["COUNTERS_LAYER"]
        job = self._ran.get(layer)
        if job is None:
            return 0
        if job.counts is None:
            job.counts = self._count_layers(job)
        index = layer - job.first
        return job.counts[index].numbers[place] & _WORD if index < len(job.counts) else 0

    def _count_layers(self, job: _Job) -> list[LayerCounts]:
        """Count the layers that ran; if the one fetched meanwhile was refused, another stands for it."""
        ran, legal = job.ran, len(job.steps)
        places = [min(place, legal - 1) for place in range(min(ran + 1, len(job.fetch.words)))]
        counted = CountedJob(
            program=job.fetch.program,
            weights=job.fetch.weights,
            words=[job.fetch.words[place] for place in places],
            descriptors=[job.descriptors[place] for place in places],
            slots=[job.slots.base + slot * job.slots.stride for slot in job.slots.active],
        )
        try:
            return counted.counts(self.design)
        except DesignError:
            return []

    def _note(self, job: _Job) -> None:
        """Note the layers that a job ran to their ends."""
        self._ran.update(dict.fromkeys(range(job.first, job.first + job.ran), job))

    def _clear_irq(self, value: int) -> None:
        self._irq &= ~value

    def _read_fbcb(self) -> int:
        """Read the word at FBCB_INDEX; the block's only read port is the running job's."""
        index = self._stored["FBCB_INDEX"]
        return self._fbcb[index] if self._state.job is None and index < len(self._fbcb) else 0

    def _write_fbcb(self, value: int) -> None:
        index = self._stored["FBCB_INDEX"]
        if index >= len(self._fbcb) or value & ~known_bits(register("FBCB_DATA")):
            self._refuse(Cause.BAD_FBCB)
        else:
            self._fbcb[index] = value
        self._stored["FBCB_INDEX"] = (index + 1) & _WORD

    def _command(self, value: int) -> None:
        """Execute one command bit; with several set, SOFT_RESET wins, and without it the write is refused."""
        value &= known_bits(_CTRL)
        if value & _CTRL.field("SOFT_RESET").mask:
            self._soft_reset()
        elif value and (self._state.job is not None or value.bit_count() > 1):
            self._refuse(Cause.BUSY)
        elif value & _CTRL.field("START").mask:
            self._start()
        elif value & _CTRL.field("EXIT").mask:
            self._exit(self._stored["SLOT_MASK"])
        elif value & _CTRL.field("MERGE").mask:
            self._merge(self._stored["SLOT_MASK"])

    def _refuse(self, cause: Cause) -> None:
        """Set ERROR and raise its event, unless an earlier error is still held."""
        if self._state.cause is Cause.NONE:
            self._state.cause, self._state.error_layer = cause, self._heartbeat()
            self._irq |= _IRQ.field("ERROR").mask

    def _exit(self, mask: int) -> None:
        if mask & ~self._state.active:
            self._refuse(Cause.EXIT_NOT_ACTIVE)
        else:
            self._state.active &= ~mask

    def _merge(self, mask: int) -> None:
        if mask & self._state.active:
            self._refuse(Cause.MERGE_ACTIVE)
        elif (mask | self._state.active).bit_count() > self.design.b_max:
            self._refuse(Cause.BATCH_TOO_LARGE)
        else:
            self._state.active |= mask

    def _soft_reset(self) -> None:
        job = self._state.job
        if job is not None:
            self._compute(job, self._clock.now_ns())
            self._note(job)
            self._cycles = self._count_cycles()
        self._state = _State(layer=self._heartbeat())

    # -- jobs ------------------------------------------------------------------------------------------------

    def _address(self, name: str) -> int:
        return self._stored[f"{name}_HI"] << 32 | self._stored[f"{name}_LO"]

    def _start(self) -> None:
        state = self._state
        state.cause, state.error_layer, state.done = Cause.NONE, 0, False
        first, last = self._stored["FIRST_LAYER"], self._stored["LAST_LAYER"]
        if first > last or last >= min(self._stored["LAYERS"], len(self.design.layers)):
            self._refuse(Cause.BAD_LAYER_RANGE)
        elif not state.active:
            self._refuse(Cause.EMPTY_BATCH)
        else:
            self._saturations = 0
            state.job = self._prepare(first, last)
            self.jobs += 1
            self._advance()

    def _prepare(self, first: int, last: int) -> _Job:
        """Decode every layer, find the failure if there is one, and compute the job's times."""
        active = tuple(i for i in range(32) if self._state.active >> i & 1)
        slots = Slots(base=self._address("SLOT_BASE"), stride=self._stored["SLOT_BYTES"], active=active)
        fault = next((f for f in self.faults if f.job == self.jobs), None)
        times = self._times.layer_ends(first, last, len(active))
        start = self._clock.now_ns()
        if self._occupancy is not None:
            start = self._occupancy.reserve(start, times[-1])
            self._clock.sleep_until(start)
        fetch = self._fetch_layers(first, last, slots)
        layers: list[Descriptor] = []
        job = _Job(first=first, slots=slots, start_ns=start, fetch=fetch, steps=[], descriptors=layers, ends_ns=[])
        job.end_ns = start + times[-1]
        checked = None if fault is not None else self._plane.checked(fetch, slots)
        if checked is not None:
            job.steps, job.descriptors, job.ends_ns = checked.steps, checked.descriptors, [start + end for end in times]
            return self._watch(job)
        for index, end in zip(range(first, last + 1), times, strict=True):
            try:
                if fault is not None and index - first == min(fault.layer, last - first):
                    if fault.cause is None:
                        job.end_ns = None
                        break
                    raise LayerError(fault.cause)
                descriptor = self._plane.descriptor(self._address("PROGRAM") + index * DESCRIPTOR_BYTES)
                layers.append(descriptor)
                word = self._fbcb[index * self.design.b_max + len(active) - 1]
                job.steps.append(self._plane.check(descriptor, word, slots, self._address("WEIGHTS")))
                job.ends_ns.append(start + end)
            except LayerError as error:
                job.cause, job.end_ns = error.cause, job.ends_ns[-1] if job.ends_ns else start
                break
        if fault is None and not job.cause:
            self._plane.keep(fetch, job.steps)
        return self._watch(job)

    def _fetch_layers(self, first: int, last: int, slots: Slots) -> Fetch:
        b_max, batch = self.design.b_max, len(slots.active)
        return Fetch(
            program=self._address("PROGRAM") + first * DESCRIPTOR_BYTES,
            weights=self._address("WEIGHTS"),
            words=tuple(self._fbcb[first * b_max + batch - 1 : last * b_max + batch : b_max]),
            batch=batch,
            slots=slots.base,
            stride=slots.stride,
        )

    def _watch(self, job: _Job) -> _Job:
        """Cut the job short where the watchdog would end it."""
        limit_cycles = self._stored["WATCHDOG"]
        if limit_cycles:
            limit_ns = job.start_ns + self._times.ns(limit_cycles)
            if job.end_ns is None or job.end_ns > limit_ns:
                job.end_ns, job.cause = limit_ns, Cause.WATCHDOG
        return job

    def _compute(self, job: _Job, until_ns: int) -> None:
        """Compute the layers that end by `until_ns` and have not run yet."""
        if self._recall is not None and not job.ran and job.steps and job.ends_ns[-1] <= until_ns:
            self._saturations += self._recall.run(self._plane, job.steps, job.slots)
            job.ran = len(job.steps)
        while job.ran < len(job.steps) and job.ends_ns[job.ran] <= until_ns:
            self._saturations += self._plane.run(job.steps[job.ran], job.slots)
            job.ran += 1

    def _advance(self) -> None:
        """End the job if its end time has passed."""
        job = self._state.job
        if job is None or job.end_ns is None or self._clock.now_ns() < job.end_ns:
            return
        self._compute(job, job.end_ns)
        self._note(job)
        self._state.job = None
        self._state.layer = job.layer_at(job.end_ns)
        self._cycles = self._times.cycles(job.end_ns - job.start_ns)
        if job.cause:
            self._refuse(job.cause)
        else:
            self._state.done = True
            self._irq |= _IRQ.field("DONE").mask


def _pack(register: Register, **values: int) -> int:
    return sum(register.field(name).put(int(value)) for name, value in values.items())
