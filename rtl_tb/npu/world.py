"""One NPU with a program in a memory that lies across 4 GiB, and the models of all that it may do.

A right job is compared with the stream model in every byte of memory and in the words that saturate, and
with the exact model in its cycles. Of a job that is ended each byte stays as it was or is as the whole job
leaves it. SimulationError tells the first thing that is wrong, and on which slots, plans and memory.

>>> ARRAY.b_max, ARRAY.split
(4, True)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, DramModel
from fluidnpu.dse.exact import LayerJob, job_cycles
from fluidnpu.hls import Cause, register
from fluidnpu.hls.core import execute_streams_reference, layer_streams, scatter_output
from fluidnpu.hls.formats import ActivationCode
from fluidnpu.hls.program import decode_layer, layer_job
from fluidnpu.models.graph import Filtering

from ..data_plane.environment.jobs import BenchProgram, Shape, align, bench_design, make_program, random_fbcb
from ..errors import SimulationError
from . import coverage
from .device import RtlNpu
from .job import differences
from .model import NpuModel

Bytes = npt.NDArray[np.uint8]
ARRAY: Design = bench_design(
    {
        "t_r": 12,
        "t_p": 4,
        "t_c": 6,
        "b_max": 4,
        "stackable": 1,
        "split": 1,
        "weight_slots": 2,
        "out_words": 4,
        "activation": 1,
        "filter": 5,
        "filter_table": 1,
    }
)
# One sample, which the widths of counters depend on; chains in pieces, and more rows than a P-tile waits
# for, so that one tile follows the other at once; RAM for layers of any size (`extremes`).
LEAST: Design = bench_design(
    {"t_r": 17, "t_p": 5, "t_c": 6, "b_max": 1, "stackable": 1, "split": 0, "weight_slots": 3, "out_words": 2,
     "buffer_words": 1 << 20, "activation": 1, "activation_dsp": 1, "filter": 7, "filter_table": 1}
).changed(piece=2, broken=2)  # fmt: skip
# Words of 8 bits, an odd T_P in two segments of which the first is shorter.
BYTES: Design = bench_design(
    {"t_r": 12, "t_p": 9, "t_c": 8, "b_max": 4, "stackable": 1, "split": 0, "weight_slots": 2, "out_words": 4, "word_bits": 8,
     "activation": 1, "filter": 5, "filter_table": 1}
).changed(piece=5, broken=4)  # fmt: skip
LAYERS = 290  # of every FBCB: more than eight bits count
# Of LEAST: no power of two, and more than eight bits count.
ROOM = {
    "PoolWindows": 112, "PoolRows": 1344, "FilterWindows": 112, "FilterRows": 1344, "FilterDeepRows": 1344, "FilterWeights": 672,
}  # fmt: skip
SLOTS = 32  # as many as a mask has bits
PAGE = 4096
BORDER = 1 << 32
LIMIT = 200_000  # cycles of a job; the longest take some 13,000
_UNCOUNTED = 1  # cycles between START and the interrupt that CYCLES does not count
ACROSS = ("descriptors", "weights", "slots")
# Without events of its own, so that the same job is the same in every cycle.
STEADY = DramModel(latency_cycles=9, write_latency_cycles=5)


def shapes(design: Design) -> list[Shape]:
    """Layers of every kind, with and without residuals, of several blocks, groups and column tiles.

    Outputs pass a pool where the design has room for one, such as those of `bench_design`, and an activation
    unit where it has one.
    """
    wide = design.t_c + 3
    pooled = [
        Shape(kernel=(3, 3), group_words=4, columns=wide, out=(7, 9), residual=True, pool=(3, 0, 1)),
        Shape(kernel=(1, 1), group_words=9, columns=5, groups=2, out=(6, 8), extra=1, pool=(2, 0, 0)),
    ]
    return [
        Shape(kernel=(3, 3), group_words=6, columns=wide, out=(5, 5), residual=True),
        Shape(kernel=(3, 3), group_words=5, columns=2 * wide, out=(4, 4)),
        Shape(kind=1, kernel=(3, 2), group_words=9, out=(4, 5)),
        Shape(kind=1, kernel=(2, 2), group_words=7, out=(5, 3), residual=True),
        Shape(kind=2, kernel=(2, 3), group_words=11, out=(3, 4)),
        Shape(kind=2, kernel=(3, 3), group_words=5, out=(4, 4), residual=True),
        Shape(kernel=(1, 1), group_words=3, groups=3, columns=4, out=(6, 5), residual=True),
        Shape(kernel=(1, 1), group_words=40, columns=wide, out=(2, 2), extra=3),
        Shape(kind=1, kernel=(3, 3), group_words=5, out=(4, 4), merged=True),
        *(pooled if design.pool_room[1] else []),
        *(_of_the_unit(design) if design.activation else []),
        *(_of_the_filter(design) if design.has_filter else []),
    ]


def _of_the_filter(design: Design) -> list[Shape]:
    """Layers whose outputs pass filters of each size and stride, behind each use of the unit, and one that a
    filter has computed.
    """
    wide, use, table = design.t_c + 3, ActivationCode, design.filter_room.activation > 0
    padded = {2: (0, 0, 1, 0), 3: (1, 1, 1, 1), 4: (3, 1, 0, 3), 5: (2, 2, 2, 2), 6: (5, 0, 0, 2), 7: (3, 6, 3, 6)}
    drawn = []
    for kernel in range(2, design.filter_room.kernel + 1):
        for stride, out in ((1, (5, 6)), (2, (8, 9) if kernel > 3 else (6, 8))):
            pads = padded[kernel] if stride == 1 or kernel > 3 else (0, 0, 0, 0)
            drawn.append(Shape(out=out, filter=filtering_of(out, kernel, stride, pads, table=table and stride == 2)))
    uses = [what for what in use if design.activation or what is use.NONE]
    count = max(len(drawn), len(uses))
    return [
        replace(
            drawn[i % len(drawn)],
            kernel=(3, 3) if i % 3 == 1 else (1, 1),
            group_words=3 + i,
            columns=(wide, 3, 2 * wide, 5)[i % 4],
            residual=uses[i % len(uses)] is use.PRODUCT or i % 4 == 3,
            extra=i % 2,
            activation=uses[i % len(uses)],
        )
        for i in range(count)
    ] + [Shape(kernel=(3, 3), group_words=1, groups=6, columns=1, out=(4, 5), merged=True)]


def filtering_of(
    out: tuple[int, int], kernel: int, stride: int, pads: tuple[int, int, int, int], *, table: bool = False
) -> Filtering:
    """A filter over a map of `out`; `pads`: above, left, below, right."""
    sizes = (out[0] + pads[0] + pads[2], out[1] + pads[1] + pads[3])
    high, wide = ((size - kernel) // stride + 1 for size in sizes)
    activation = "table" if table else ""
    return Filtering(kernel=kernel, stride=stride, padded=pads[:2], out=(high, wide), activation=activation)


def _of_the_unit(design: Design) -> list[Shape]:
    """Layers of each use, in turn with residuals; passes without weights, and residuals that repeat."""
    wide, use = design.t_c + 3, ActivationCode
    pooled = [
        Shape(kernel=(1, 1), group_words=5, columns=4, groups=2, out=(6, 8), pool=(2, 0, 0), activation=use.AFFINE),
        Shape(kernel=(1, 1), group_words=7, columns=wide, out=(5, 8), pool=(3, 1, 0), activation=use.TABLE),
        Shape(kernel=(1, 1), group_words=7, columns=5, out=(4, 9), pool=(3, 0, 1), residual=True, activation=use.PRODUCT, fixed=True),
        Shape(kernel=(1, 1), group_words=3, columns=5, out=(4, 8), pool=(2, 0, 0), residual=True, activation=use.SLOPE),
    ]  # fmt: skip
    return [
        Shape(kernel=(3, 3), group_words=4, columns=wide, out=(4, 5), activation=use.TABLE),
        Shape(kernel=(1, 1), group_words=12, columns=wide, out=(5, 4), residual=True, spread=True, activation=use.TABLE),
        Shape(kernel=(1, 1), group_words=6, columns=2 * wide, out=(4, 4), residual=True, activation=use.PRODUCT, extra=2),
        Shape(kernel=(1, 1), group_words=3, columns=4, groups=3, out=(4, 5), activation=use.SLOPE),
        Shape(kernel=(3, 3), group_words=4, columns=wide, out=(3, 5), residual=True, fixed=True, activation=use.AFFINE),
        Shape(kind=1, kernel=(1, 1), group_words=29, out=(4, 5), residual=True, spread=True, activation=use.PRODUCT),
        Shape(kind=1, kernel=(1, 1), group_words=13, out=(3, 4), residual=True, fixed=True, spread=True),
        Shape(kind=1, kernel=(1, 1), group_words=11, out=(4, 5), activation=use.AFFINE, extra=1),
        Shape(kind=1, kernel=(2, 2), group_words=7, out=(3, 3), residual=True, activation=use.SLOPE),
        Shape(kind=1, kernel=(1, 1), group_words=21, out=(3, 5), residual=True, activation=use.TABLE),
        *(Shape(kind=2, kernel=(2, 2), group_words=9, out=(3, 3), residual=what is use.PRODUCT, fixed=True, spread=True, activation=what)
          for what in use if what is not use.NONE),
        *(pooled if design.pool_room[1] else []),
    ]  # fmt: skip


def model_of(
    design: Design = ARRAY,
    edits: tuple[tuple[str, str, str], ...] = (),
    *,
    stripes: int | None = None,
    core: str = "rtl",
) -> NpuModel:
    """The NPU of a design with a core, room for `LAYERS` layers, bugs of `edits`, ports in `stripes`."""
    model = NpuModel.of(design, core=core, **({"stripes": stripes} if stripes else {}))
    room = {"Layers": LAYERS, "BuildId": 1} | (ROOM if design == LEAST else {})
    return replace(model, parameters={**model.parameters, **room}, edits=edits)


@dataclass
class NpuWorld:
    """An NPU, its program, the batch that it holds, and the bins that its jobs met."""

    npu: RtlNpu
    program: BenchProgram
    rng: random.Random
    hits: Counter[str] = field(default_factory=Counter)
    active: list[int] = field(default_factory=list)
    words: dict[int, int] = field(default_factory=dict)  # of the FBCB, by layer
    jobs: int = 0
    ended: int = 0  # the cycle in which the last job ended

    @classmethod
    def of(
        cls,
        seed: int,
        model: NpuModel,
        design: Design,
        *,
        layers: Sequence[Shape] = (),
        dram: DramModel = STEADY,
        across: str = "slots",
    ) -> NpuWorld:
        """Open an NPU with a program drawn from a seed; `across` (of ACROSS) is what lies over the border.

        Its layers are those of `shapes` by default.
        """
        rng = random.Random(seed)
        program = make_program(
            design, list(layers) or shapes(design), rng, every_mode=True, slots=SLOTS, slot_align=PAGE
        )
        middle = {
            "descriptors": program.program + 128 * 3,
            "weights": program.weights + len(program.image) // 2,
            "slots": program.slot_base + program.slot_bytes * (SLOTS // 2),
        }[across]
        base = align(BORDER - (middle - program.base))
        size = -(-(len(program.memory) + PAGE) // PAGE) * PAGE
        world = cls(RtlNpu(model, dram=dram, base=base, memory_bytes=size, seed=seed + 1), program, rng)
        world._load()
        return world

    # -- the host's side

    def at(self, address: int) -> int:
        """Return where an address of the program lies in the NPU's memory."""
        return address + self.npu.base - self.program.base

    @property
    def memory(self) -> Bytes:
        """The program's bytes in the NPU's memory, (bytes,)."""
        return self.npu.view(self.npu.base, len(self.program.memory))

    def put(self, name: str, value: int) -> None:
        """Write a register."""
        self.npu.write(register(name).offset, value)

    def get(self, name: str, part: str | None = None) -> int:
        """Read a register, or one of its fields."""
        value = self.npu.read(register(name).offset)
        return register(name).field(part).get(value) if part else value

    def command(self, name: str, mask: int | None = None) -> None:
        """Give START, EXIT, MERGE or SOFT_RESET."""
        if mask is not None:
            self.put("SLOT_MASK", mask)
        self.put("CTRL", register("CTRL").field(name).mask)

    def _load(self) -> None:
        p = self.program
        self.memory[:] = np.frombuffer(p.memory, np.uint8)
        for name, address in (("PROGRAM", p.program), ("WEIGHTS", p.weights), ("SLOT_BASE", p.slot_base)):
            self.put(f"{name}_LO", self.at(address) & 0xFFFF_FFFF)
            self.put(f"{name}_HI", self.at(address) >> 32)
        self.put("SLOT_BYTES", p.slot_bytes)
        self.put("LAYERS", len(p.descriptors))
        self.put("IRQ_ENABLE", 3)

    def batch(self, new: Sequence[int]) -> None:
        """EXIT the slots that leave, MERGE those that come."""
        out, into = set(self.active) - set(new), set(new) - set(self.active)
        if out:
            self.command("EXIT", mask_of(out))
        if into:
            self.command("MERGE", mask_of(into))
        self.active = sorted(new)
        self.must(self.get("ACTIVE") == mask_of(new), "ACTIVE must hold the batch")

    def draw_batch(self, size: int | None = None) -> None:
        """Change the batch in one of four ways where possible: not at all, an exit, a merge, both."""
        most = self.program.design.b_max
        others = [slot for slot in range(SLOTS) if slot not in self.active]
        way = self.rng.choice((0, 1, 1, 2, 3)) if size is None and self.active else 3  # few exits leave two lanes
        stay, count = list(self.active), len(self.active)
        if way == 1 and count > 1:
            stay, count = self.rng.sample(stay, self.rng.randrange(1, count)), 0
        elif way == 2 and count < most:
            count = self.rng.randrange(count + 1, most + 1)
        elif way == 3:
            count = size or self.rng.randint(1, most)
            stay = self.rng.sample(stay, self.rng.randrange(min(len(stay), count - 1) + 1))
        self.batch([*stay, *self.rng.sample(others, max(0, count - len(stay)))])

    def draw_layers(self, most: int = 3) -> range:
        """Draw a range of layers."""
        count = len(self.program.descriptors)
        first = self.rng.randrange(count)
        return range(first, min(first + self.rng.randint(1, most), count))

    def draw_plans(self, layers: range) -> None:
        """Draw a plan for each layer at this batch size and tell the FBCB."""
        for layer in layers:
            descriptor = self.program.descriptors[layer]
            self.plan(layer, random_fbcb(self.rng, self.program.design, descriptor, len(self.active)))

    def plan(self, layer: int, word: int) -> None:
        """Write the FBCB word of a layer at this batch size."""
        self.words[layer] = word
        self.put("FBCB_INDEX", layer * self.program.design.b_max + len(self.active) - 1)
        self.put("FBCB_DATA", word)

    def start(self, layers: range) -> None:
        """START a range of layers."""
        self.put("FIRST_LAYER", layers[0])
        self.put("LAST_LAYER", layers[-1])
        self.put("IRQ_STATUS", 3)
        self.npu.take_layers()
        self.command("START")

    def run_to(self, cycle: int) -> None:
        """Run to a cycle of the NPU, which must not have passed."""
        self.npu.run(max(0, cycle - self.npu.cycle))

    def ends(self) -> Cause:
        """Run to the interrupt; returns the cause in ERROR."""
        self.must(self.npu.run(LIMIT, until_interrupt=True), "a job must end")
        self.ended = self.npu.cycle
        cause = Cause(self.get("ERROR", "CAUSE"))
        self.must(bool(self.get("STATUS", "DONE")) == (cause is Cause.NONE), "a job is done or ends with an error")
        return cause

    def reset(self) -> None:
        """SOFT_RESET, until idle; the batch is empty then."""
        self.command("SOFT_RESET")
        self.idle()
        self.active = []

    def idle(self) -> None:
        """Run until the NPU is idle; DRAM answers in far fewer cycles than it may take."""
        self.npu.run(20_000, until_idle=True)
        self.must(self.npu.idle, "a job that was ended must come to idle")

    # -- what must come of it

    def after(self, layers: range) -> Bytes:
        """Return memory (bytes,) after a whole job on these layers, by the stream model."""
        return self._modelled(layers)[0]

    def _modelled(self, layers: range) -> tuple[Bytes, int]:
        """Memory after a whole job, and the words that saturate in it."""
        saturated = 0
        memory = bytearray(self.memory.tobytes())
        every, design = self.program.slot_words(memory), self.program.design
        for layer in layers:
            slots = every[self.active]
            descriptor, word = self.program.descriptors[layer], self.words[layer]
            streams = layer_streams(descriptor, word, design, slots, self.program.image)
            answer, more = execute_streams_reference(streams, design)
            saturated += more + scatter_output(descriptor, word, design, answer, slots, self.program.image)
            every[self.active] = slots
        return np.frombuffer(memory, np.uint8), saturated

    def right(self, layers: range) -> int:
        """Run a job that must be right; returns its cycles."""
        want, saturated = self._modelled(layers)
        self.start(layers)
        cause = self.ends()
        self.must(cause is Cause.NONE, f"a right job must end without an error, not with {cause.name}")
        counted = self.get("SATURATIONS")
        self.must(counted == saturated, f"{saturated} words must be counted as saturated, not {counted}")
        wrong = np.flatnonzero(self.memory != want)
        self.must(not len(wrong), f"memory must be the model's, and byte {wrong[:1]} is not, layers {layers}")
        runs = self.npu.take_layers()
        slots = [self.at(self.program.slot_base + slot * self.program.slot_bytes) for slot in self.active]
        counts = job_cycles(
            [self._job(layer) for layer in layers], slots, self.npu.model.machine, self.npu.dram,
            first_cycle=runs[0].start_cycle, limit=LIMIT,
        )  # fmt: skip
        for run, cycles in zip(runs, counts, strict=True):
            self.must(not differences(run, cycles), f"cycles must be the model's: {differences(run, cycles)}")
        self.count()
        for layer in layers:
            descriptor = self.program.descriptors[layer]
            plan = decode_layer(self.program.design, self.words[layer], descriptor, len(self.active))
            self.hits.update(coverage.layer_bins(descriptor, plan.mode))
        taken, span = self.get("CYCLES_LO"), self.ended - self.npu.began - _UNCOUNTED
        self.must(taken == span, f"CYCLES must be those from START to the interrupt, {span}, not {taken}")
        return taken

    def dropped(self, before: Bytes, whole: Bytes) -> None:
        """Check the memory of a job that was ended, put it back as it was, and the batch, too.

        `before` and `whole` are memory (bytes,) before a job and behind a whole one.
        """
        wrong = np.flatnonzero((self.memory != before) & (self.memory != whole))
        self.must(not len(wrong), f"byte {wrong[:1]} must be as before or as the whole job leaves it")
        batch = list(self.active)
        self.npu.fault()
        self.put("WATCHDOG", 0)
        self.reset()
        self.count()
        self.memory[:] = before
        self.batch(batch)

    def _job(self, layer: int) -> LayerJob:
        p, word = self.program, self.words[layer]
        places = {"weights": self.at(p.weights), "descriptor": self.at(p.program + 128 * layer)}
        return layer_job(p.design, p.descriptors[layer], word, len(self.active), **places)

    def count(self) -> None:
        """Add the samples since the last call: what came before them was right."""
        self.jobs += 1
        self.hits.update(coverage.bins(self.npu.take_samples()))

    def must(self, holds: bool, what: str) -> None:
        """Raise SimulationError unless it holds, with all that is needed to see it again."""
        if not holds:
            words = {layer: hex(word) for layer, word in self.words.items()}
            raise SimulationError(
                f"{what}; slots {self.active}, plans {words}, {self.npu.dram}, cycle {self.npu.cycle}"
            )


def mask_of(slots: Sequence[int] | set[int]) -> int:
    """Return the mask of some slots.

    >>> mask_of([0, 31]) == 0x8000_0001
    True
    """
    return sum(1 << slot for slot in slots)
