"""The driver: it runs one program, or several side by side, on any `Device` and bounds every wait.

Order of use: `load`, then any number of `write_sample`, `activate` (or `merge` and `exit`), `run_stage`,
`logits`. After an `NpuTimeout` or `NpuError`, `reset` empties the batch; samples stay in their slots, so
the same stage can run again. With several programs, stages are numbered consecutively, and each has slots
of its own: halos are zeroed once, so a slot holds samples of one network only (ADR 40). An OSError of the
device becomes a `DeviceAccessError`, so every failure of the device is a `DeviceError`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design
from fluidnpu.hls import COUNTERS, Cause, Program, register
from fluidnpu.hls.program import DESCRIPTOR_BYTES, link
from fluidnpu.models import NetworkError as ImageError
from fluidnpu.models.exits import decide_exits, sureness_of_exits
from fluidnpu.models.numeric import WORDS, Stored
from fluidnpu.scheduler.simulation import Networks

from .devices import claims
from .devices.bus import Bus
from .devices.counting import CountedJob, LayerCounts
from .devices.device import Buffer, Device
from .errors import (
    BuildMismatch,
    DeviceAccessError,
    DeviceError,
    DriverUsageError,
    IntegrityError,
    NpuError,
    NpuTimeout,
)
from .identity import build_id_word, shape_word

MASK_SLOTS = 32  # slots that a mask register can name
_ALIGNMENT = 64
_SILENCE = 0xFFFF_FFFF  # the word that a bus reads where nothing answers
# A job may take this many times its predicted time. Generous, since the `paper` model is no upper bound:
# ResNet-8 on the RTL takes up to four times its prediction (benchmarks/rtl_network.py). A hang is still told
# from a slow job.
PATIENCE = 16.0
_CANARIES = (0, 1)  # above the lowest word, where no trained network's logits are all equal
_SPURIOUS_NS = 1_000  # between looks at a device that interrupts without a reason
_GRACE_NS = 20_000_000  # for the host to be scheduled again, on top of any predicted time
_CTRL, _STATUS, _ERROR = register("CTRL"), register("STATUS"), register("ERROR")
_START, _EXIT, _MERGE = (_CTRL.field(name).mask for name in ("START", "EXIT", "MERGE"))
_VERSION = register("SHAPE").field("VERSION").mask
_IDLE, _BUSY = (_STATUS.field(name).mask for name in ("IDLE", "BUSY"))
_EVENTS = sum(field.mask for field in register("IRQ_STATUS").fields)
_ADDRESSES = ("PROGRAM", "WEIGHTS", "SLOT_BASE")  # registers of two halves
_OFFSETS = {
    name: register(name).offset for name in ("CTRL", "STATUS", "IRQ_STATUS", "SLOT_MASK", "FIRST_LAYER", "LAST_LAYER")
}


Meanwhile = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class NpuStatus:
    """The NPU's status registers at one moment, decoded; `cycles` are those of the last job."""

    idle: bool
    done: bool
    cause: Cause
    error_layer: int
    layer: int
    active: tuple[int, ...]
    cycles: int
    saturations: int


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One finished job; times are on the device's clock.

    `start_ns`, `end_ns`: from its START until the host has seen the end. `npu_ns`: the time that the NPU
    worked, by its own counter of cycles; a simulated one counts the cycles of its model. `layers`: the first
    and the last.
    """

    start_ns: int
    end_ns: int
    npu_ns: int
    slots: tuple[int, ...]
    layers: tuple[int, int]


class Driver:
    """One program on one device, or several programs side by side on it.

    `slots`: samples that can be held at once; of several programs a number for each, by default as many as
    a batch has, as far as there are. `design` is then `Design.joined` of theirs. The watchdog drops a job
    after `patience` times its predicted time; the host itself waits twice as long, in case the device is
    too broken to report it. `guarded`: nothing that a job computed is believed before program, registers
    and results are checked (see `_check_job`); a damage is an IntegrityError, and `recover` writes
    everything again.
    """

    def __init__(
        self,
        device: Device,
        program: Program | Sequence[Program],
        design: Design,
        *,
        slots: int | Sequence[int] | None = None,
        patience: float = PATIENCE,
        guarded: bool = False,
    ) -> None:
        self.programs = (program,) if isinstance(program, Program) else tuple(program)
        self.parts = tuple(design.part(index) for index in range(len(design.parts))) or (design,)
        if [compiled.design_digest for compiled in self.programs] != [part.digest for part in self.parts]:
            raise DriverUsageError("the program must be compiled for this design, and it was compiled for another one")
        if not patience >= 1:
            raise DriverUsageError(f"patience must be at least 1, not {patience}")
        self.device, self.program, self.design = device, self.programs[0], design
        self.slots_of = _divide_slots(slots, len(self.programs), design.b_max)
        self.slots = self.slots_of[-1].stop
        self._owner = [index for index, held in enumerate(self.slots_of) for _ in held]  # by slot: its program
        self._stages = [(p, stage) for p, compiled in enumerate(self.programs) for stage in range(len(compiled.stages))]
        self._linked = link(self.programs)
        self.missed_interrupts = 0  # jobs that ended without an interrupt by the deadline
        self._bus = Bus(device)
        self._patience, self.guarded = patience, guarded
        self._image = np.frombuffer(self._linked.content, np.uint8)
        self._canary = _CANARIES[0]
        self._buffers: list[Buffer] = []
        self._settings: dict[str, int] = {}  # contents of the registers that `load` writes
        self._memory = np.zeros((0, 0), self.program.dtype)
        self._active = 0
        self._first = self._last = -1  # contents of FIRST_LAYER and LAST_LAYER
        self._watchdog = -1

    def networks(self, of_tenant: Mapping[str, int]) -> Networks:
        """The stages and slots of each program, with the program that each tenant's requests are for."""
        slots = tuple(len(held) for held in self.slots_of)
        return Networks(stages=tuple(part.stages for part in self.parts), slots=slots, of_tenant=dict(of_tenant))

    # -- setting up ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Identify the device, then give it the program, zeroed slots and the FBCB.

        Raises BuildMismatch, DeviceAccessError, OutOfMemory, NpuTimeout, DeviceInUseError, and IntegrityError
        where descriptors, weights or FBCB do not read back as they were written.
        """
        claims.check(self.device, self)
        self.identify()
        self.reset()
        self.close()
        self._buffers.append(self._bus.allocate(len(self._image) + _ALIGNMENT))
        size = self.slots * self._linked.slot_bytes
        self._buffers.append(self._bus.allocate(size + _ALIGNMENT))
        data, _ = _align(self._buffers[1])
        self._memory = data[:size].view(self.program.dtype).reshape(self.slots, -1)
        self._fill_halos()
        self._bus.flush(self._buffers[1])
        self._configure()

    def recover(self) -> None:
        """Recover from a failure: reset, identify and write all but the samples again. Raises as `load`.

        A guarded driver empties the slots, halos included: a damaged job may have written anywhere.
        """
        self._check_slots(())
        if self.guarded:
            self._memory[...] = 0
            self._fill_halos()
            self._bus.flush(self._buffers[1])
        self.reset()
        self.identify()
        self._configure()

    def _fill_halos(self) -> None:
        """Fill the halos of zeroed slots where a tensor's zero is another word."""
        for slot, owner in zip(self._memory, self._owner, strict=True):
            self.programs[owner].fill_halos(slot)

    def _configure(self) -> None:
        (code, code_at), (_, data_at) = (_align(buffer) for buffer in self._buffers)
        code[: len(self._image)] = self._image
        self._bus.flush(self._buffers[0])
        addresses = dict(zip(_ADDRESSES, (code_at, code_at + self._linked.weights_offset, data_at), strict=True))
        self._settings = {"SLOT_BYTES": self._linked.slot_bytes, "LAYERS": self._linked.layers}
        for name, address in addresses.items():
            self._settings |= {f"{name}_LO": address & 0xFFFF_FFFF, f"{name}_HI": address >> 32}
        for name, word in self._settings.items():
            self._write(name, word)
        self._load_fbcb()
        self._first = self._last = self._watchdog = -1
        self._write("IRQ_STATUS", _EVENTS)
        self._write("IRQ_ENABLE", _EVENTS)

    def identify(self) -> None:
        """Raise BuildMismatch for a device of another design, DeviceAccessError where nothing answers."""
        self._expect("BUILD_ID", build_id_word(self.design))
        self._expect("SHAPE", shape_word(self.design))

    def _expect(self, register: str, expected: int) -> None:
        word = self._read(register)
        if word != expected:
            if word == _SILENCE:
                raise _silent(register)
            old = register == "SHAPE" and not (word ^ expected) & ~_VERSION
            hint = ", an NPU of another version of fluidnpu: make its bitstream again" if old else ""
            raise BuildMismatch(what=register, expected=expected, found=word, hint=hint)

    def _load_fbcb(self) -> None:
        """Write every word; the index counts them, and ERROR is set by a word that the device cannot hold.

        Then all that was loaded is read back.
        """
        self._write("FBCB_INDEX", 0)
        for word in self._linked.fbcb_words:
            self._write("FBCB_DATA", word)
        self._expect("FBCB_INDEX", len(self._linked.fbcb_words))
        if _STATUS.field("ERROR").get(self._read("STATUS")):
            raise self._npu_error()
        self.check_loaded()

    def close(self) -> None:
        """Free the program's memory and the slots."""
        self._memory = np.zeros((0, 0), self.program.dtype)
        while self._buffers:
            self._bus.free(self._buffers.pop())

    # -- samples ---------------------------------------------------------------------------------------------

    def encode(self, image: npt.NDArray[np.generic], network: int = 0) -> Stored:
        """Convert one image (H, W, C) to the words of a network's input, as a copy.

        It may hold uint8 pixels, floats of the range that the network declares (0..1 without a record), or
        words (int16 or int8) as stored. The network's preprocessing is applied to pixels and floats, so they
        may also come as (C, H, W), and in another size where it resizes. Raises DriverUsageError.
        """
        stored = self._to_stored(image, network)
        return stored.copy() if stored is image else stored

    def _to_stored(self, image: npt.NDArray[np.generic], network: int) -> Stored:
        """Convert as `encode` does, without a copy of what is as stored already."""
        program = self.programs[network]
        intake = program.input_intake
        shape = intake.shape
        if not isinstance(image, np.ndarray):
            raise DriverUsageError(f"a sample must be a NumPy array of shape {shape}, not {type(image).__name__}")
        if image.dtype == program.dtype:
            if image.shape != shape:
                raise DriverUsageError(f"a sample must be of shape {shape}, not {image.shape}")
            return image
        if not program.takes_images:
            raise DriverUsageError(
                f"a sample of a part of a network must be {program.dtype} as stored, not {image.dtype}"
            )
        if image.dtype != np.uint8 and not np.issubdtype(image.dtype, np.floating):
            raise DriverUsageError(f"a sample must be of uint8, {program.dtype} or floats, not {image.dtype}")
        if not 1 <= image.ndim <= 3:
            raise DriverUsageError(f"a sample must be of shape {shape}, not {image.shape}")
        try:
            zero = program.tensors[program.input].zero
            return np.asarray(intake.codes(image[None], program.input_scale, program.dtype, zero)[0])
        except ImageError as error:
            raise DriverUsageError(f"a sample must be one that the network takes: {error}") from None

    def write_sample(self, slot: int, image: npt.NDArray[np.generic]) -> None:
        """Write one image (H, W, C) into a slot of its network. Raises as `encode`, and DriverUsageError."""
        self._check_slots((slot,))
        program = self.programs[self._owner[slot]]
        program.write_tensor(self._memory[slot], program.input, self._to_stored(image, self._owner[slot]))
        self._bus.flush(self._buffers[1], *self._bytes_of(slot, program.input))

    def stored_logits(self, slots: Sequence[int], exit_index: int) -> Stored:
        """Read an exit's logits as stored, words (len(slots), classes); no classes, no columns.

        Raises DriverUsageError for an exit or a slot that there is not.
        """
        if not 0 <= exit_index < len(self._stages):
            raise DriverUsageError(f"an exit must lie in 0..{len(self._stages) - 1}, not {exit_index}")
        network, exit_index = self._stages[exit_index]
        self._check_slots(slots, network)
        program = self.programs[network]
        tensor = program.exits[exit_index].tensor
        if tensor is None:
            return np.zeros((len(slots), 0), program.dtype)
        for slot in slots:
            self._bus.invalidate(self._buffers[1], *self._bytes_of(slot, tensor))
        return np.stack([program.read_tensor(self._memory[slot], tensor).reshape(-1) for slot in slots])

    def logits(self, slots: Sequence[int], exit_index: int) -> npt.NDArray[np.float64]:
        """Read an exit's logits in their unit, float64 (len(slots), classes)."""
        stored = self.stored_logits(slots, exit_index)
        network, exit_index = self._stages[exit_index]
        return self.programs[network].real_logits(stored, exit_index)

    def onward(self, slots: Sequence[int]) -> Stored:
        """Read the tensor with which samples continue from a part, as stored: words (len(slots), H, W, C).

        Raises DriverUsageError for slots of a program that samples do not continue from.
        """
        self._check_slots(slots)
        tensors = []
        for slot in slots:
            program = self.programs[self._owner[slot]]
            if not program.onward:
                raise DriverUsageError(f"samples must go on from '{program.network}', and they end there")
            self._bus.invalidate(self._buffers[1], *self._bytes_of(slot, program.onward))
            tensors.append(program.read_tensor(self._memory[slot], program.onward))
        return np.stack(tensors)

    def stored_outputs(self, slots: Sequence[int], stage: int) -> dict[str, Stored]:
        """Read the outputs that are no exits after a stage, as stored (len(slots), *shape), by name.

        Those of earlier stages are among them: a sample keeps its slot, and no tensor shares its place.
        """
        network, stage = self._stages[stage]
        self._check_slots(slots, network)
        program, outputs = self.programs[network], {}
        for output in program.outputs:
            if output.output.stage <= stage:
                for slot in slots:
                    self._bus.invalidate(self._buffers[1], *self._bytes_of(slot, output.output.tensor))
                tensors = [program.read_tensor(self._memory[slot], output.output.tensor) for slot in slots]
                outputs[output.output.name] = output.output.arranged(np.stack(tensors))
        return outputs

    def outputs(self, slots: Sequence[int], stage: int) -> dict[str, npt.NDArray[np.float32]]:
        """Read the outputs that are no exits after a stage in their unit, activations applied.

        float32 (len(slots), *shape), by name.
        """
        program = self.programs[self._stages[stage][0]]
        return {name: program.real_output(stored, name) for name, stored in self.stored_outputs(slots, stage).items()}

    def measure_exit_rates(self, images: Sequence[npt.NDArray[np.generic]]) -> tuple[float, ...]:
        """Run images (H, W, C) to the last exit, in batches; return the share that leaves at each.

        With several programs, of the first.

        Nothing else may run meanwhile; the batch is empty afterwards. Raises as `encode` and `run_stage`.
        Raises DriverUsageError without an image.
        """
        if not len(images):
            raise DriverUsageError("exit rates are measured on at least one image, and none came")
        logits: list[list[npt.NDArray[np.float64]]] = [[] for _ in self.program.exits]
        for start in range(0, len(images), self.design.b_max):
            batch = images[start : start + self.design.b_max]
            slots = range(len(batch))
            for slot, image in zip(slots, batch, strict=True):
                self.write_sample(slot, image)
            self.activate(slots)
            for stage, of_exit in enumerate(logits):
                self.run_stage(stage)
                of_exit.append(self.logits(slots, stage))
        self.activate(())
        sure = sureness_of_exits([np.concatenate(of_exit) for of_exit in logits], self.program.check)
        left = decide_exits(sure, self.program.thresholds)
        return tuple(float(np.mean(left == index)) for index in range(len(sure)))

    # -- the batch -------------------------------------------------------------------------------------------

    @property
    def active(self) -> tuple[int, ...]:
        """The slots of the active batch, ascending."""
        return _bits(self._active)

    def merge(self, slots: Iterable[int]) -> None:
        """Add slots to the batch. Raises NpuError when the NPU refuses; the batch is then as it was."""
        self._edit(_MERGE, self._mask(slots))

    def exit(self, slots: Iterable[int]) -> None:
        """Remove slots from the batch. Raises NpuError when the NPU refuses; the batch is then as it was."""
        self._edit(_EXIT, self._mask(slots))

    def activate(self, slots: Iterable[int]) -> None:
        """Make these slots the active batch: EXIT the others, MERGE those that are missing (ADR 6)."""
        wanted = self._mask(slots)
        if gone := self._active & ~wanted:
            self._edit(_EXIT, gone)
        if missing := wanted & ~self._active:
            self._edit(_MERGE, missing)

    def _edit(self, verb: int, mask: int) -> None:
        write = self._bus.write
        write(_OFFSETS["SLOT_MASK"], mask)
        write(_OFFSETS["CTRL"], verb)
        status = self._bus.read(_OFFSETS["STATUS"])
        after = self._active | mask if verb == _MERGE else self._active & ~mask
        if _STATUS.field("ERROR").get(status):
            error = self._npu_error()
            self.reset(keep=self._active)
            raise error
        self._active = after

    # -- jobs ------------------------------------------------------------------------------------------------

    def run_stage(self, stage: int, *, meanwhile: Meanwhile | None = None) -> JobRecord:
        """Run one stage on the active batch: `run_to_exit(stage, stage)`."""
        return self.run_to_exit(stage, stage, meanwhile=meanwhile)

    def run_segment(self, stage: int, predicted_ns: float, *, meanwhile: Meanwhile | None = None) -> JobRecord:
        """Run a stage without its exit's head on the active batch, predicted to take `predicted_ns`.

        Raises DriverUsageError for a stage of which nothing is needed later, and as `run_to_exit`.
        """
        if not 0 <= stage < len(self.program.stages):
            raise DriverUsageError(f"a stage must lie in 0..{len(self.program.stages) - 1}, not {stage}")
        first, end = self.program.stages[stage][0], self.program.segments[stage]
        if end < first:
            raise DriverUsageError(f"stage {stage} must have layers that are no head, and it has none")
        return self.run_layers(first, end, predicted_ns, meanwhile=meanwhile)

    def run_to_exit(self, stage: int, first_stage: int = 0, *, meanwhile: Meanwhile | None = None) -> JobRecord:
        """Run stages first_stage..stage on the active batch and wait for the end.

        Raises NpuError or NpuTimeout; then `reset` must come next.
        """
        if not 0 <= first_stage <= stage < len(self._stages):
            raise DriverUsageError(
                f"stages must be ordered and lie in 0..{len(self._stages) - 1}, not {first_stage}..{stage}"
            )
        (network, first), (other, last) = self._stages[first_stage], self._stages[stage]
        if network != other or any(self._owner[slot] != network for slot in self.active):
            raise DriverUsageError("a job must be of one network, and so must the samples in its batch")
        at, stages = self._linked.first_layers[network], self.programs[network].stages
        batch = max(1, self._active.bit_count())
        predicted_ns = self.design.latency.between(first_stage, stage, batch)
        return self.run_layers(at + stages[first][0], at + stages[last][1], predicted_ns, meanwhile=meanwhile)

    def run_layers(
        self, first: int, last: int, predicted_ns: float, *, meanwhile: Meanwhile | None = None
    ) -> JobRecord:
        """Run layers first..last (inclusive), predicted to take `predicted_ns`, on the active batch and
        wait.

        A job whose interrupt never comes is found in STATUS at the deadline and counted in
        `missed_interrupts`. `meanwhile` is called while the NPU works; of the samples' memory it may touch
        the slots alone that are not in the batch. Raises NpuError, NpuTimeout, DeviceInUseError.
        """
        claims.check(self.device, self)
        limit_ns = int(predicted_ns * self._patience)
        self._aim(first, last, limit_ns)
        if self.guarded:
            self._place_canaries(last)
        self._bus.write(_OFFSETS["CTRL"], _START)
        # From after START: a host that was held up before it has not waited yet, and a simulated NPU that
        # others share begins when it is free.
        start = self.device.clock.now_ns()
        if meanwhile is not None:
            meanwhile()
        interrupted, status = self._wait_job(start + 2 * limit_ns + _GRACE_NS)
        end = self.device.clock.now_ns()
        self._bus.write(_OFFSETS["IRQ_STATUS"], _EVENTS)
        failed = _STATUS.field("ERROR").get(status)
        done = _STATUS.field("DONE").get(status) and _STATUS.field("IDLE").get(status)
        self.missed_interrupts += bool((failed or done) and not interrupted and status != _SILENCE)
        if failed:
            raise self._npu_error()
        if not done:
            layer = _STATUS.field("LAYER").get(status)
            raise NpuTimeout(waited_ns=end - start, layer_index=layer, layer=self._layer(layer), slots=self.active)
        if self.guarded:
            self._check_job(first, last)
        npu_ns = -(-self._read_cycles() * 1_000_000_000 // self.design.clock_hz)
        return JobRecord(start_ns=start, end_ns=end, npu_ns=npu_ns, slots=self.active, layers=(first, last))

    def _wait_job(self, deadline_ns: int) -> tuple[bool, int]:
        """Wait for the end of a job; return the interrupt's level and STATUS.

        A spurious interrupt is cleared.
        """
        while True:
            interrupted = self._bus.wait_interrupt(deadline_ns)
            status = self._bus.read(_OFFSETS["STATUS"])
            ended = _STATUS.field("ERROR").get(status) or _STATUS.field("DONE").get(status)
            if ended or not interrupted or self.device.clock.now_ns() >= deadline_ns:
                return interrupted, status
            self._bus.write(_OFFSETS["IRQ_STATUS"], _EVENTS)
            self.device.clock.sleep_until(self.device.clock.now_ns() + _SPURIOUS_NS)

    def _place_canaries(self, last: int) -> None:
        """Fill the logits that a job will write with a word that is no result; it changes from job to job."""
        self._canary = _CANARIES[self._canary == _CANARIES[0]]
        for slot, tensor in self._results(last):
            self._tensor(slot, tensor)[...] = self._canary_word
            self._bus.flush(self._buffers[1], *self._bytes_of(slot, tensor))

    @property
    def _canary_word(self) -> int:
        return WORDS[self.program.bits].lowest + self._canary

    def _check_job(self, first: int, last: int) -> None:
        """Raise IntegrityError where a finished job cannot be believed.

        The canaries in its logits must be gone, the registers that lead it must be as they were written, and
        so must its words of the FBCB and the program in memory, byte by byte.
        """
        for slot, tensor in self._results(last):
            self._bus.invalidate(self._buffers[1], *self._bytes_of(slot, tensor))
            if (self._tensor(slot, tensor) == self._canary_word).all():
                raise IntegrityError(f"the NPU reports the end of layers {first}..{last}, and has written no results")
        expected = self._settings | {"FIRST_LAYER": first, "LAST_LAYER": last, "ACTIVE": self._active}
        for name, word in expected.items():
            if (actual := self._read(name)) != word:
                raise IntegrityError(f"register {name} must hold {word:#x} as written, and it holds {actual:#x}")
        self._bus.invalidate(self._buffers[0])
        code, _ = _align(self._buffers[0])
        if not np.array_equal(code[: len(self._image)], self._image):
            raise IntegrityError("the program in the NPU's memory must equal the bundle's, and it is damaged")
        batch = self._active.bit_count()
        self._check_fbcb(layer * self.design.b_max + batch - 1 for layer in range(first, last + 1))

    def _results(self, last: int) -> Iterator[tuple[int, str]]:
        """Yield (slot, tensor) of the logits of the exit whose stage ends with this layer, by active slot."""
        for network, stage in self._stages:
            program, at = self.programs[network], self._linked.first_layers[network]
            tensor = program.exits[stage].tensor
            if at + program.stages[stage][1] == last and tensor is not None:
                for slot in self.active:
                    yield slot, tensor

    def _aim(self, first: int, last: int, limit_ns: int) -> None:
        """Write those of the job's registers that changed."""
        if first != self._first:
            self._bus.write(_OFFSETS["FIRST_LAYER"], first)
        if last != self._last:
            self._bus.write(_OFFSETS["LAST_LAYER"], last)
        self._first, self._last = first, last
        cycles = min(limit_ns * self.design.clock_hz // 10**9 + 1, 0xFFFF_FFFF)
        if cycles != self._watchdog:
            self._write("WATCHDOG", cycles)
            self._watchdog = cycles

    def reset(self, keep: int = 0) -> None:
        """Soft-reset the NPU: drop the job, clear the error, empty the batch, then merge the mask `keep`.

        Samples stay in their slots. Raises NpuTimeout.
        """
        started = self.device.clock.now_ns()
        deadline = started + _GRACE_NS
        self._write("CTRL", _CTRL.field("SOFT_RESET").mask)
        # Settings that come while a job is still being dropped are refused, so idle must be meant.
        while (status := self._read("STATUS")) & (_IDLE | _BUSY) != _IDLE and status != _SILENCE:
            if self.device.clock.now_ns() >= deadline:
                layer = _STATUS.field("LAYER").get(status)
                waited = self.device.clock.now_ns() - started
                raise NpuTimeout(waited_ns=waited, layer_index=layer, layer=self._layer(layer), slots=self.active)
            self.device.clock.sleep_until(self.device.clock.now_ns() + 1_000)
        self._write("IRQ_STATUS", _EVENTS)
        self._active = 0
        if keep:
            self._edit(_MERGE, keep)

    def status(self) -> NpuStatus:
        """Read and decode the status registers."""
        status, error = self._read("STATUS"), self._read("ERROR")
        return NpuStatus(
            idle=bool(_STATUS.field("IDLE").get(status)),
            done=bool(_STATUS.field("DONE").get(status)),
            cause=_cause(_ERROR.field("CAUSE").get(error)),
            error_layer=_ERROR.field("LAYER").get(error),
            layer=_STATUS.field("LAYER").get(status),
            active=_bits(self._read("ACTIVE")),
            cycles=self._read_cycles(),
            saturations=self._read("SATURATIONS"),
        )

    # -- what is loaded, and what is counted -----------------------------------------------------------------

    def check_loaded(self) -> None:
        """Compare descriptors, weights and FBCB in the NPU with the programs. Raises IntegrityError.

        The NPU must be idle: a running job alone can read the FBCB.
        """
        self._check_memory()
        self._check_fbcb(range(len(self._linked.fbcb_words)))

    def _check_memory(self) -> None:
        self._bus.invalidate(self._buffers[0])
        code, _ = _align(self._buffers[0])
        actual, expected = (zlib.crc32(words.data) for words in (code[: len(self._image)], self._image))
        if actual != expected:
            raise IntegrityError(
                f"descriptors and weights in the NPU's memory must have the CRC-32 {expected:#010x} of the bundle's, not {actual:#010x}"
            )

    def _check_fbcb(self, places: Iterable[int]) -> None:
        for place in places:
            self._write("FBCB_INDEX", place)
            actual, expected = self._read("FBCB_DATA"), self._linked.fbcb_words[place]
            if actual != expected:
                raise IntegrityError(f"FBCB word {place} must be {expected:#x} as written, and it is {actual:#x}")

    def read_counts(self, first: int, last: int) -> list[LayerCounts]:
        """Read the counters of layers first..last, each of the last job that ran it to its end."""
        layers = []
        for layer in range(first, last + 1):
            self._write("COUNTERS_LAYER", layer)
            counts = {counter.name.lower(): self._read(f"LAYER_{counter.name}") for counter in COUNTERS}
            layers.append(LayerCounts(**counts))
        return layers

    def expected_counts(self, first: int, last: int) -> list[LayerCounts]:
        """Count layers first..last by the exact model, as one job on the active batch that ran just now.

        A simulation in RTL tells its core, and the cycle with which its memory's refresh is in step. Of a
        board the core is the design's, and the phase of the refresh is unknown and taken as zero. Raises
        DesignError where the design carries no facts of its board.
        """
        return self.describe_job(first, last).counts(self.design, self.core)

    def describe_job(self, first: int, last: int, slots: Sequence[int] | None = None) -> CountedJob:
        """Describe layers first..last to the exact model, which may count them later.

        `slots`: of the batch, by default those of the active one.
        """
        slots, registers = self.active if slots is None else slots, self._settings
        base = {name: registers[f"{name}_HI"] << 32 | registers[f"{name}_LO"] for name in _ADDRESSES}
        return CountedJob(
            program=base["PROGRAM"] + DESCRIPTOR_BYTES * first,
            weights=base["WEIGHTS"],
            words=[
                self._linked.fbcb_words[layer * self.design.b_max + len(slots) - 1] for layer in range(first, last + 1)
            ],
            descriptors=self._linked.descriptors[first : last + 1],
            slots=[base["SLOT_BASE"] + slot * registers["SLOT_BYTES"] for slot in slots],
            first_cycle=getattr(self.device, "first_cycle", 0),
        )

    @property
    def core(self) -> str | None:
        """The core that a simulation in RTL has; None for the design's."""
        core: str | None = getattr(self.device, "core", None)
        return core

    # -- helpers ---------------------------------------------------------------------------------------------

    def _read(self, name: str) -> int:
        return self._bus.read(register(name).offset)

    def _read_cycles(self) -> int:
        return self._read("CYCLES_HI") << 32 | self._read("CYCLES_LO")

    def _write(self, name: str, value: int) -> None:
        self._bus.write(register(name).offset, value)

    def _npu_error(self) -> DeviceError:
        word = self._read("ERROR")
        if word == _SILENCE:  # STATUS read all ones too, its ERROR bit among them
            return _silent("ERROR")
        layer = _ERROR.field("LAYER").get(word)
        cause = _cause(_ERROR.field("CAUSE").get(word))
        return NpuError(cause=cause, layer_index=layer, layer=self._layer(layer), slots=self.active)

    def _layer(self, index: int) -> str:
        return self.design.layers[index].name if index < len(self.design.layers) else "beyond the program"

    def _check_slots(self, slots: Iterable[int], network: int | None = None) -> None:
        if not len(self._memory):
            raise DriverUsageError("the program must be loaded first")
        own = range(self.slots) if network is None else self.slots_of[network]
        for slot in slots:
            if slot not in own:
                raise DriverUsageError(f"a slot must lie in {own.start}..{own.stop - 1}, not {slot}")

    def _tensor(self, slot: int, tensor: str) -> Stored:
        return self.programs[self._owner[slot]].tensors[tensor].view(self._memory[slot])

    def _bytes_of(self, slot: int, tensor: str) -> tuple[int, int]:
        """The bytes start..stop of a slot's tensor in the buffer of the slots, halo included."""
        place = self.programs[self._owner[slot]].tensors[tensor]
        skip = -self._buffers[1].physical_address % _ALIGNMENT
        start = skip + slot * self._linked.slot_bytes + place.offset
        return start, start + place.size

    def _mask(self, slots: Iterable[int]) -> int:
        chosen = tuple(slots)
        self._check_slots(chosen)
        mask = 0
        for slot in chosen:
            mask |= 1 << slot
        return mask


def _divide_slots(slots: int | Sequence[int] | None, programs: int, b_max: int) -> tuple[range, ...]:
    """The slots of each program; a network alone has a batch at least. Raises DriverUsageError."""
    if slots is None:
        slots = (min(b_max, MASK_SLOTS // programs),) * programs
    counts = (slots,) if isinstance(slots, int) else tuple(slots)
    least = b_max if programs == 1 else 1
    if len(counts) != programs or min(counts) < least or sum(counts) > MASK_SLOTS:
        if programs == 1:
            raise DriverUsageError(f"slots must lie in b_max = {b_max}..{MASK_SLOTS}, not {counts[0]}")
        raise DriverUsageError(f"slots must be one for each of {programs} programs and {MASK_SLOTS} together at most")
    ends = list(accumulate(counts, initial=0))
    return tuple(range(first, last) for first, last in pairwise(ends))


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def _silent(register: str) -> DeviceAccessError:
    return DeviceAccessError(
        f"the device does not answer: {register} reads {_SILENCE:#x}, as where no NPU is on the bus"
    )


def _cause(code: int) -> Cause:
    return Cause(code) if code in set(Cause) else Cause.NONE


def _align(buffer: Buffer) -> tuple[npt.NDArray[np.uint8], int]:
    """The buffer from its first 64-byte boundary on, and that address."""
    skip = -buffer.physical_address % _ALIGNMENT
    return buffer.array[skip:], buffer.physical_address + skip
