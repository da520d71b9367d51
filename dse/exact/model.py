"""The `exact` cycle model: cycles of every layer of a job, equal to those of the RTL. `exact_kernel.py` counts; here is what goes in and out.

A `LayerJob` says what a layer's descriptor, its FBCB word and the addresses say; `hls.layer_jobs` makes one for every layer of a program, and
`Machine` holds the parameters of the RTL. Where time depends on the place of data (4 KiB pages, port words), places are part of the job.

>>> machine = Machine(t_p=4, t_c=8, weight_slots=1, input_words=8, out_words=4)
>>> job = LayerJob(mode=Mode.NORMAL, batch=1, b_r=1, block=64, in_offset=0, in_row_bytes=64, in_pixel_bytes=8, kernel_h=1, kernel_w=1,
...     stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, out_h=8, out_w=8, group_words=4, groups=1, columns=8, out_offset=4096,
...     out_row_bytes=128, out_pixel_bytes=16, weights=8192, descriptor=12288)
>>> [(layer.input_beats, layer.write_beats) for layer in job_cycles([job], [0], machine)]
[(64, 64)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import ModuleType

import numpy as np

from fluidnpu.boards import STRIPES

from ..design import Design, DesignError, Mode, pool_beats
from ..hardware.dram import DramModel
from ..resources.primitives import BUFFER_WORDS

MAX_POOL = Mode.MAX_POOL
DIVIDE_STEPS = 32
STEP_CYCLES = 2  # of the planner, besides a bit a cycle


class TooLongError(DesignError):
    """A job does not end within the cycles that it was given."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Parameters of the RTL that time depends on; `buffer_words` and `queue_beats` as `rtl_tb.data_plane_parameters` explains them."""

    t_p: int
    t_c: int
    weight_slots: int
    input_words: int
    out_words: int
    stackable: bool = True
    split: bool = False
    port_bytes: int = 16
    max_burst: int = 16
    line_words: int = 16
    buffer_words: int = BUFFER_WORDS
    queue_beats: int = 128
    stripes: int = 1  # narrow ports that each master's port_bytes are spread over

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < (0 if field.type == "bool" else 1):
                raise DesignError(f"{field.name} must be at least 1, not {getattr(self, field.name)}")
        if self.t_p < 3:
            raise DesignError(f"t_p must be at least 3 to carry a 48-bit bias in one slot, not {self.t_p}")
        if self.line_words % self.port_words:
            raise DesignError(f"line_words must be a multiple of {self.port_words} port words, not {self.line_words}")
        if self.stripes not in STRIPES or self.port_bytes < 2 * self.stripes:
            raise DesignError(
                f"stripes must be 1, 2 or 4 ports of at least 2 bytes, not {self.stripes} of {self.port_bytes} together"
            )

    @classmethod
    def of(cls, design: Design, **memory: int) -> Machine:
        """The NPU of a design; `memory` is what is not the design's: `port_bytes`, `sets`, ...

        >>> from fluidnpu.dse.testing import tiny_design
        >>> Machine.of(tiny_design(), port_bytes=8).port_words
        4
        """
        own = Machine(
            t_p=design.t_p,
            t_c=design.t_c,
            weight_slots=design.weight_slots,
            input_words=design.input_words,
            out_words=design.out_words,
            stackable=design.stackable,
            split=design.split,
            port_bytes=design.port_bytes,
            stripes=design.stripes,
            line_words=design.line_words,
            buffer_words=design.buffer_words,
        )
        return replace(own, **memory)  # type: ignore[arg-type]  # all numbers

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, int]) -> Machine:
        """From the parameters that the RTL is given, by their names there."""
        return cls(
            t_p=parameters["TP"],
            t_c=parameters["TC"],
            weight_slots=parameters["WeightSlots"],
            input_words=parameters["InWords"],
            out_words=parameters["OutWords"],
            stackable=bool(parameters["Stackable"]),
            split=bool(parameters["Split"]),
            port_bytes=parameters["PortBytes"],
            max_burst=parameters["MaxBurst"],
            line_words=parameters["LineWords"],
            buffer_words=2 * parameters["Sets"] * parameters["LineWords"],
            queue_beats=parameters["QueueBeats"],
            stripes=parameters.get("Stripes", 1),
        )

    @property
    def port_words(self) -> int:
        """Words of 16 bits that a memory port carries in a cycle."""
        return self.port_bytes // 2

    @property
    def columns(self) -> int:
        """Columns of the widest column tile."""
        return 2 * self.t_c if self.split else self.t_c

    @property
    def biases_per_beat(self) -> int:
        """Biases in one beat of a header."""
        return self.t_p // 3 * self.weight_slots

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4), as the planner reckons; of a pool the same as of NORMAL."""
        if mode is Mode.WIDE:
            return 2 * self.t_p, max(1, self.t_c // 2)
        if mode is Mode.LANES:
            return self.t_p, max(1, self.t_c // 2)
        if mode is Mode.SPLIT:
            return self.t_p // 2, 2 * self.t_c
        return self.t_p, self.t_c

    def numbers(self) -> dict[str, int]:
        """What the kernel wants to know."""
        return {field.name: int(getattr(self, field.name)) for field in fields(self)} | {
            "split_depth": int(self.split),
            "late": self.t_p + 3 + int(self.stackable),
            "port_words": self.port_words,
            "buffer_bytes": 2 * self.buffer_words,
            "biases_per_beat": self.biases_per_beat,
            "bias_depth": 2 * -(-self.columns // self.biases_per_beat),
        }


@dataclass(frozen=True, kw_only=True)
class LayerJob:
    """One layer as an NPU is asked to run it. Offsets count bytes from a slot's base, `weights` and `descriptor` are addresses.

    `mode`, `b_r`, `row_lanes` and `block` are what the FBCB word says at this batch (ADR 5); everything else stands in the descriptor.
    """

    mode: Mode
    batch: int
    b_r: int
    row_lanes: bool = False
    block: int
    in_offset: int
    in_row_bytes: int
    in_pixel_bytes: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    out_h: int
    out_w: int
    group_words: int
    groups: int
    columns: int
    out_offset: int
    out_row_bytes: int
    out_pixel_bytes: int
    has_residual: int = 0
    residual_offset: int = 0
    residual_row_bytes: int = 0
    residual_pixel_bytes: int = 0
    weights: int = 0
    descriptor: int = 0

    @property
    def pool(self) -> bool:
        """Whether the layer is a pool."""
        return self.mode >= MAX_POOL

    @property
    def rows(self) -> int:
        """Output rows of a sample."""
        return self.out_h * self.out_w

    @cached_property
    def beats(self) -> tuple[int, int]:
        """Rows of lane 0 and of lane 1 in the whole layer."""
        if self.row_lanes:
            every = self.rows * self.batch
            return (every + 1) // 2, every // 2
        return self.rows * self.b_r, 0 if self.pool else self.rows * (self.batch - self.b_r)


@dataclass(frozen=True, kw_only=True)
class LayerCycles:
    """What a layer takes: `rtl_tb.LayerRun` without its place in time."""

    cycles: int
    input_beats: int
    blocked_cycles: int
    starved_cycles: int
    weight_beats: int
    residual_beats: int
    output_beats: int
    read_beats: tuple[int, int, int]
    read_bursts: tuple[int, int, int]
    write_beats: int
    write_bursts: int


def _kernel() -> ModuleType:
    """The loop; its compiler takes a second to load, so nothing loads it before cycles are counted."""
    from .. import exact_kernel

    return exact_kernel


def _up(value: int, by: int) -> int:
    return -(-value // by)


def layer_numbers(job: LayerJob, machine: Machine) -> list[int]:
    """In the order of `exact_kernel.LAYER`: what fluidnpu_planner makes of a descriptor, and how long it takes."""
    width, columns = machine.tile(job.mode)
    taps = job.kernel_h * job.kernel_w
    words = taps * job.group_words
    p_tiles = pool_beats(taps, maximum=job.mode is MAX_POOL) if job.pool else _up(words, width)
    tiles, last_cols = (job.columns - 1) // columns, (job.columns - 1) % columns + 1

    def tile_beats(cols: int) -> int:
        slots = 2 * cols if job.mode is Mode.WIDE else _up(cols, 2) if job.mode is Mode.SPLIT else cols
        return _up(slots, machine.weight_slots)

    def bias_beats(cols: int) -> int:
        return _up(_up(cols, machine.t_p // 3), machine.weight_slots)

    full, last = tile_beats(columns), tile_beats(last_cols)
    group_beats = tiles * (p_tiles * full + bias_beats(columns)) + p_tiles * last + bias_beats(last_cols)
    contiguous = not job.pool and job.dilation_w == 1 and job.in_pixel_bytes == 2 * job.group_words
    flat = job.kernel_h == 1
    rise, span = (1, 1) if flat else (job.stride_h, (job.kernel_h - 1) * job.dilation_h + 1)
    row_step = job.in_row_bytes * (job.stride_h if flat else 1)
    apart = (job.out_w - 1) * job.stride_w + (job.kernel_w - 1) * job.dilation_w
    row_bytes = apart * job.in_pixel_bytes + 2 * job.groups * job.group_words
    least = row_bytes + machine.port_bytes - 2
    pitch = least + (row_step - least) % machine.port_bytes
    sample_rows = (job.out_h - 1) * rise + span
    factors = (
        job.stride_h, job.stride_w, job.kernel_h - 1, job.dilation_w, job.kernel_h, taps, job.out_w,
        job.batch if job.row_lanes else job.b_r, job.batch - job.b_r, last, full, tiles, job.groups,
        machine.weight_slots * machine.t_p, job.kernel_w, job.out_w - 1, job.kernel_w - 1, job.groups, job.out_h - 1,
        rise, job.dilation_h, sample_rows,
    )  # fmt: skip
    divisions = 5
    steps = len(factors) + divisions
    plan_cycles = steps * STEP_CYCLES + sum(n.bit_length() for n in factors) + divisions * DIVIDE_STEPS + 1
    values = {
        "pool": job.pool,
        "mode": job.mode,
        "sample_lanes": job.mode is Mode.LANES and not job.row_lanes,
        "out_row": job.out_row_bytes,
        "out_pixel": job.out_pixel_bytes,
        "residual_row": job.residual_row_bytes,
        "residual_pixel": job.residual_pixel_bytes,
        "row_bytes": row_bytes,
        "row_step": row_step,
        "sample_rows": sample_rows,
        "rise": rise,
        "span": span,
        "pitch": pitch,
        "sample_pitch": _up(sample_rows * pitch, machine.port_bytes) * machine.port_bytes,
        "contiguous": contiguous,
        "run_words": job.kernel_w * job.group_words if contiguous else job.group_words,
        "p_tiles": p_tiles,
        "beats0": job.beats[0],
        "beats1": job.beats[1],
        "block_words": group_beats * job.groups * machine.weight_slots * machine.t_p,
        "plan_cycles": plan_cycles,
    }
    return [int(values[n]) if n in values else int(getattr(job, n)) for n in _kernel().LAYER]


def memory_numbers(dram: DramModel) -> dict[str, int]:
    """What the kernel wants to know of memory."""
    link, total = (round(2 * words * _kernel().FRACTION) for words in (dram.link_words, dram.total_words))
    return {
        "latency": dram.latency_cycles,
        "write_latency": dram.write_latency_cycles,
        "link_rate": link,
        "total_rate": total,
        "refresh_interval": max(1, dram.refresh_interval_cycles),
        "refresh_cycles": dram.refresh_cycles,
        "outstanding": dram.outstanding,
        **{f"link{i}": link for i, link in enumerate(dram.links)},
    }


def job_cycles(
    jobs: Sequence[LayerJob],
    slots: Sequence[int],
    machine: Machine,
    dram: DramModel = DramModel.IDEAL,
    *,
    first_cycle: int = 0,
    limit: int = 1 << 40,
) -> tuple[LayerCycles, ...]:
    """Cycles of each layer of one job on samples in `slots` (addresses, ascending); the first includes the job's set-up.

    `first_cycle` counts from reset, since the DRAM model's refresh does.
    """
    kernel = _kernel()
    if dram.outstanding > kernel.BURSTS:
        raise DesignError(f"the exact model follows at most {kernel.BURSTS} bursts of a master, not {dram.outstanding}")
    if any(len(slots) != job.batch for job in jobs):
        raise DesignError(f"each layer must run at the batch of {len(slots)} samples that have slots")
    counts = np.zeros((len(jobs), len(kernel.COUNTS)), np.int64)
    layers = np.array([layer_numbers(job, machine) for job in jobs], np.int64)
    state = kernel.new_state(machine.numbers(), memory_numbers(dram), slots)
    end = kernel.simulate(state, layers, counts, first_cycle, limit)
    if end < 0:
        raise TooLongError(f"the job does not end within {limit} cycles")
    return tuple(_layer_cycles(row.tolist()) for row in counts)


def _layer_cycles(row: list[int]) -> LayerCycles:
    n = dict(zip(_kernel().COUNTS, row, strict=True))
    return LayerCycles(
        **{field.name: n[field.name] for field in fields(LayerCycles) if field.name in n},
        read_beats=(n["read_beats0"], n["read_beats1"], n["read_beats2"]),
        read_bursts=(n["read_bursts0"], n["read_bursts1"], n["read_bursts2"]),
    )
