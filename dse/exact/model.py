"""The `exact` cycle model: cycles of every layer of a job, equal to those of the RTL.

`twin/` counts; its input and output are here. A `LayerJob` holds the numbers of a layer's descriptor, its
FBCB word and the addresses; `hls.layer_jobs` makes one for every layer of a program, and `Machine` holds
the parameters of the RTL. Where time depends on the place of data (4 KiB pages, port words), places are
part of the job.

>>> array = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8, out_words=4)
>>> job = LayerJob(
...     mode=Mode.NORMAL, batch=1, b_r=1, block=64, in_offset=0, in_row_bytes=64, in_pixel_bytes=8,
...     kernel_h=1, kernel_w=1, stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, out_h=8, out_w=8,
...     group_words=4, groups=1, columns=8, out_offset=4096, out_row_bytes=128, out_pixel_bytes=16,
...     weights=8192, descriptor=12288)
>>> [(layer.input_beats, layer.write_beats) for layer in job_cycles([job], [0], Machine(array=array))]
[(64, 64)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import Any

from fluidnpu.boards import STRIPES

from ..design import Design
from ..errors import DesignError, TooLongError
from ..hardware.activation import TABLE_PIECES, USES
from ..hardware.array import Array, Mode, ceil_div, pool_beats
from ..hardware.dram import DramModel
from ..hardware.filtering import filter_bytes, filter_steps
from ..hardware.layer import LayerGeometry
from ..hardware.row_buffer import BUFFER_WORDS, InputRows
from ..question import Target
from ..resources.primitives import NpuShape, hls_banks_in_ultraram
from .twin.parameters import BURSTS, FRACTION

DIVIDE_STEPS = 32
STEP_CYCLES = 2  # of the planner, besides a bit a cycle
PIECES_AT = 64  # bytes: pieces begin at a multiple, behind the weights
_SETTLE = 1  # cycles by which a job's first descriptor is asked for later than those of other layers
_WHOLE = ("port_bytes", "max_burst", "line_words", "buffer_words", "queue_beats", "stripes")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The parameters of the RTL that time depends on. Raises DesignError.

    `buffer_words` and `queue_beats` are explained at `rtl_tb.data_plane_parameters`. `stripes`: narrow ports
    that the `port_bytes` of each master are spread over. `row_distance`: the fewest calls of the HLS core
    between writing and reading a row (`Array.row_distance`); 0 for the core in SystemVerilog.
    """

    array: Array[int]
    port_bytes: int = 16
    max_burst: int = 16
    line_words: int = 16
    buffer_words: int = BUFFER_WORDS
    queue_beats: int = 128
    stripes: int = 1
    row_distance: int = 0

    def __post_init__(self) -> None:
        for name in _WHOLE:
            if getattr(self, name) < 1:
                raise DesignError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.row_distance and not 2 <= self.row_distance <= 62:  # calls are bits of a whole number
            raise DesignError(f"row_distance must be 0, or lie in 2..62, not {self.row_distance}")
        if self.array.t_p < (least := self.array.bias_words):
            raise DesignError(
                f"t_p must be at least {least} to carry a column's header of {least * self.array.word_bits} bits in one "
                f"slot, not {self.array.t_p}"
            )
        if self.line_words % self.port_words:
            raise DesignError(f"line_words must be a multiple of {self.port_words} port words, not {self.line_words}")
        if self.line_words < self.array.in_words:
            raise DesignError(
                f"line_words must be at least the {self.array.in_words} words of a beat, not {self.line_words}"
            )
        if self.stripes not in STRIPES or self.port_bytes < 2 * self.stripes:
            raise DesignError(
                f"stripes must be 1, 2 or 4 ports of at least 2 bytes, not {self.stripes} of {self.port_bytes} together"
            )

    @classmethod
    def of(cls, design: Design, core: str | None = None) -> Machine:
        """The NPU of a design with one of CORES, by default the design's; where it says none, "rtl".

        >>> from fluidnpu.dse.testing import tiny_design
        >>> Machine.of(tiny_design()).port_words, Machine.of(tiny_design(), "hls").row_distance
        (8, 14)
        """
        board, hls = design.facts, (core or design.core) == "hls"
        ultra = hls and board is not None and hls_banks_in_ultraram(NpuShape.of(design, board), board) > 0
        return cls(
            array=design.array,
            port_bytes=design.port_bytes,
            stripes=design.stripes,
            line_words=design.line_words,
            buffer_words=design.buffer_words,
            row_distance=design.array.row_distance(ultra=ultra) if hls else 0,
        )

    @classmethod
    def on(cls, target: Target, array: Array[int], buffer_words: int = BUFFER_WORDS) -> Machine:
        """The NPU with an array and the core of a target, with ports to its memory.

        >>> from fluidnpu.boards import load_board
        >>> target = Target(board=load_board("zcu104"), memory="ps_striped")
        >>> Machine.on(target, Array.on(target.board, target.memory, t_r=512, t_p=27, t_c=64)).stripes
        4
        """
        hls = target.core == "hls"
        ultra = hls and hls_banks_in_ultraram(NpuShape.at(target, array, buffer_words), target.board) > 0
        return cls(
            array=array,
            port_bytes=target.ports.port_bits // 8,
            stripes=target.ports.stripes,
            line_words=array.line_words,
            buffer_words=buffer_words,
            row_distance=array.row_distance(ultra=ultra) if hls else 0,
        )

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, int]) -> Machine:
        """The NPU of the parameters that the RTL is given, by their names there."""
        array = Array(
            t_r=parameters["TR"],
            t_p=parameters["TP"],
            t_c=parameters["TC"],
            weight_slots=parameters["WeightSlots"],
            in_words=parameters["InWords"],
            out_words=parameters["OutWords"],
            stackable=bool(parameters["Stackable"]),
            split=bool(parameters["Split"]),
            broken=parameters.get("Broken", 0),
            piece=parameters["Piece"] if parameters.get("Broken", 0) else 0,
            word_bits=parameters.get("WordBits", 16),
            field_bits=parameters.get("FieldBits", 18),
        )
        return cls(
            array=array,
            port_bytes=parameters["PortBytes"],
            max_burst=parameters["MaxBurst"],
            line_words=parameters["LineWords"],
            buffer_words=2 * parameters["Sets"] * parameters["LineWords"],
            queue_beats=parameters["QueueBeats"],
            stripes=parameters.get("Stripes", 1),
        )

    @property
    def port_words(self) -> int:
        """Words that a memory port carries in a cycle."""
        return self.port_bytes // self.array.word_bytes

    def numbers(self) -> dict[str, int]:
        """The kernel's numbers by name."""
        array = self.array
        return {name: int(getattr(self, name)) for name in _WHOLE} | {
            "t_p": array.t_p,
            "weight_slots": array.weight_slots,
            "in_words": array.in_words,
            "out_words": array.out_words,
            "late": array.late,
            "turnaround": array.turnaround,
            "finish_steps": array.finish_steps,
            "row_distance": self.row_distance,
            "half_shift": int(array.split),
            "port_words": self.port_words,
            "buffer_bytes": array.word_bytes * self.buffer_words,
            "word_shift": array.word_bytes.bit_length() - 1,
            "chain_columns": array.chain_columns,
            "biases_per_beat": array.biases_per_beat,
            "bias_depth": 2 * array.bias_beats(array.columns),
        }


@dataclass(frozen=True, kw_only=True)
class LayerJob(LayerGeometry):
    """One layer as an NPU is asked to run it; `weights` and `descriptor` are addresses.

    A layer that is no GEMM has its pieces at `weights`.

    `mode`, `b_r`, `row_lanes` and `block` are those of the FBCB word at this batch (ADR 5); everything else
    stands in the descriptor.
    """

    mode: Mode
    batch: int
    b_r: int
    row_lanes: bool = False
    block: int
    weights: int = 0
    descriptor: int = 0

    @property
    def pool(self) -> bool:
        """True for a pool."""
        return self.mode >= Mode.MAX_POOL

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
    """Cycles, beats and bursts of one layer of one job.

    Beats are handshakes; with stripes, beats and bursts of a master are those of all its narrow ports.
    `input_beats` are the cycles in which the core took input; in `blocked_cycles` it did not take a beat that
    was there, in `starved_cycles` it waited for one. The `cycles` of a job's first layer include its
    descriptor and plan; those of the others are made while the layer before runs, and what of them outlasts
    it counts here.
    """

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


@dataclass(frozen=True, kw_only=True)
class LayerTraffic:
    """A layer's cycles, with the words read and the bursts that its masters count before any narrow ports."""

    layer: LayerCycles
    read_beats: int
    read_bursts: int
    write_bursts: int


@dataclass(frozen=True)
class LayerCost:
    """Cycles of a layer that comes first in a job: `lead` from START until it begins, `run` from there on."""

    lead: int
    run: int

    def behind(self, before: LayerCost) -> int:
        """Cycles of this layer when it comes behind another one, while which runs its plan is made.

        >>> cost = LayerCost(300, 1000)
        >>> cost.behind(LayerCost(300, 2000)), cost.behind(LayerCost(300, 200))
        (1001, 1099)
        """
        return max(1, self.lead - _SETTLE - before.run) + self.run


def _kernel() -> ModuleType:
    """The loop; its compiler takes a second to load, so nothing loads it before cycles are counted."""
    from .twin import loop

    return loop


def layer_numbers(job: LayerJob, machine: Machine) -> dict[str, int]:
    """The planner's numbers for a layer and its own duration, by the names of `twin.parameters.Layer`."""
    array = machine.array
    mode = Mode.NORMAL if job.pool else job.mode  # the planner reckons a pool's weights, of which there are none
    width, columns = array.tile(mode)
    tile_words, tile_columns = array.tile(job.mode)
    taps = job.kernel_h * job.kernel_w
    words = taps * job.group_words
    p_tiles = pool_beats(taps, maximum=job.mode is Mode.MAX_POOL) if job.pool else ceil_div(words, width)
    tiles, last_cols = (job.columns - 1) // columns, (job.columns - 1) % columns + 1
    full, last = array.tile_beats(mode, columns), array.tile_beats(mode, last_cols)
    group_beats = tiles * (p_tiles * full + array.bias_beats(columns)) + p_tiles * last + array.bias_beats(last_cols)
    contiguous = not job.pool and job.dilation_w == 1 and job.in_pixel_bytes == array.word_bytes * job.group_words
    rows = InputRows.of(job, machine.port_bytes, array.word_bytes)
    factors = (
        job.stride_h, job.stride_w, job.kernel_h - 1, job.dilation_w, job.kernel_h, taps, job.out_w,
        job.batch if job.row_lanes else job.b_r, job.batch - job.b_r, last, full, tiles, job.groups,
        array.weight_words, job.kernel_w, job.out_w - 1, job.kernel_w - 1, job.groups, job.out_h - 1,
        rows.rise, job.dilation_h, rows.sample_rows,
    )  # fmt: skip
    divisions = 5
    steps = len(factors) + divisions
    plan_cycles = steps * STEP_CYCLES + sum(n.bit_length() for n in factors) + divisions * DIVIDE_STEPS + 1
    values = {
        "pool": job.pool,
        "max_pool": job.mode is Mode.MAX_POOL,
        "wide": job.mode is Mode.WIDE,
        "split": job.mode is Mode.SPLIT,
        "tile_words": tile_words,
        "tile_columns": tile_columns,
        "sample_lanes": job.mode is Mode.LANES and not job.row_lanes,
        "out_row": job.out_row_bytes,
        "out_pixel": job.out_pixel_bytes,
        "residual_row": job.residual_row_bytes,
        "residual_pixel": job.residual_pixel_bytes,
        "row_bytes": rows.row_bytes,
        "row_step": rows.row_step,
        "sample_rows": rows.sample_rows,
        "rise": rows.rise,
        "span": rows.span,
        "pitch": rows.pitch,
        "sample_pitch": rows.sample_pitch,
        "step_h": rows.pitch * rows.rise,
        "step_w": job.in_pixel_bytes * job.stride_w,
        "tap_h": rows.pitch * job.dilation_h,
        "tap_w": job.in_pixel_bytes * job.dilation_w,
        "contiguous": contiguous,
        "run_words": job.kernel_w * job.group_words if contiguous else job.group_words,
        "p_tiles": p_tiles,
        "beats0": job.beats[0],
        "beats1": job.beats[1],
        "block_words": group_beats * job.groups * array.weight_words,
        "plan_cycles": plan_cycles,
    }
    bytes_of_part = 0 if job.pool else ceil_div(array.word_bytes * values["block_words"], PIECES_AT) * PIECES_AT
    multiplies = USES[job.activation] == "product"
    values |= {
        "adds": job.has_residual and not multiplies,
        "multiplies": multiplies,
        "piece_address": job.weights + bytes_of_part,
    }
    weighted = filter_bytes(job.filter_rows, array.out_words, machine.port_bytes) // machine.port_bytes
    sections = (job.pieces, TABLE_PIECES * job.filter_table)
    values |= {
        "filter_first_h": job.filter_kernel - 1 - job.filter_top,
        "filter_first_w": job.filter_kernel - 1 - job.filter_left,
        "filter_steps": filter_steps(job.filter_kernel),
        "filter_words": weighted,
        "constant_words": weighted + sum(ceil_div(4 * count, machine.port_bytes) for count in sections),
    }
    given = {field.name: getattr(job, field.name) for field in fields(job)}
    return {name: int(value) for name, value in (given | values).items()}


def memory_numbers(dram: DramModel) -> dict[str, Any]:
    """The kernel's numbers of the memory, by name."""
    link, total = (round(2 * words * FRACTION) for words in (dram.link_words, dram.total_words))
    return {
        "latency": dram.latency_cycles,
        "write_latency": dram.write_latency_cycles,
        "link_rate": link,
        "total_rate": total,
        "refresh_interval": max(1, dram.refresh_interval_cycles),
        "refresh_cycles": dram.refresh_cycles,
        "outstanding": dram.outstanding,
        "links": dram.links,
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
    """Cycles of each layer of one job on samples in `slots` (addresses, ascending).

    The first layer includes the job's set-up.

    `first_cycle` counts from reset, since the DRAM model's refresh does.
    """
    return tuple(
        traffic.layer for traffic in job_traffic(jobs, slots, machine, dram, first_cycle=first_cycle, limit=limit)
    )


def job_traffic(
    jobs: Sequence[LayerJob],
    slots: Sequence[int],
    machine: Machine,
    dram: DramModel = DramModel.IDEAL,
    *,
    first_cycle: int = 0,
    limit: int = 1 << 40,
) -> tuple[LayerTraffic, ...]:
    """Count as `job_cycles`, and words and bursts of the masters before they are spread over narrow ports."""
    names, made = [field.name for field in fields(LayerCycles)], []
    for count in _counts(jobs, slots, machine, dram, first_cycle, limit):
        layer = LayerCycles(**{name: count[name] for name in names})
        beats, reads, writes = sum(layer.read_beats), sum(layer.read_bursts), layer.write_bursts
        if machine.stripes > 1:
            beats, reads, writes = (count[f"striped_{what}"] for what in ("read_beats", "reads", "writes"))
        made.append(LayerTraffic(layer=layer, read_beats=beats, read_bursts=reads, write_bursts=writes))
    return tuple(made)


def layer_cost(
    job: LayerJob, slots: Sequence[int], machine: Machine, dram: DramModel = DramModel.IDEAL, *, limit: int = 1 << 40
) -> LayerCost:
    """Cycles of one layer, its descriptor and plan apart. Raises as `job_cycles`."""
    (count,) = _counts([job], slots, machine, dram, 0, limit)
    return LayerCost(lead=count["lead"], run=count["cycles"] - count["lead"])


def _counts(
    jobs: Sequence[LayerJob],
    slots: Sequence[int],
    machine: Machine,
    dram: DramModel,
    first_cycle: int,
    limit: int,
) -> list[dict[str, Any]]:
    if dram.outstanding > BURSTS:
        raise DesignError(f"the exact model follows at most {BURSTS} bursts of a master, not {dram.outstanding}")
    if any(len(slots) != job.batch for job in jobs):
        raise DesignError(f"each layer must run at the batch of {len(slots)} samples that have slots")
    layers = [layer_numbers(job, machine) for job in jobs]
    setup = machine.numbers() | memory_numbers(dram)
    counts: list[dict[str, Any]] | None = _kernel().run(setup, slots, layers, first_cycle=first_cycle, limit=limit)
    if counts is None:
        raise TooLongError(f"the job does not end within {limit} cycles")
    return counts
