"""RAM primitives and DSPs of an NPU from its numbers alone, as Yosys counts them, for one design or for many.

`NpuShape` holds the numbers; its array may be many side by side, so that a search can ask about a whole space
at once. The counts are those of the reference core and of the data plane in SystemVerilog, each memory of the
RTL by name (`memories`). LUTs and flip-flops are estimates: see `resources.logic`.

>>> array = Array(t_r=512, t_p=7, t_c=128, weight_slots=1, in_words=14)
>>> shape = NpuShape(array=array, port_bytes=8, layers=54, b_max=8)
>>> int(ramb18(shape)["accumulators"]), dsp(shape)
(512, 896)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..design import Design
from ..hardware.array import Array, Ints, chain_columns, log2_ceil
from ..hardware.filtering import PACKED_PAIRS, PRODUCTS, SHALLOW_KERNEL, WEIGHT_PAIRS, FilterRoom, filter_room
from ..hardware.pooling import pool_room
from ..hardware.row_buffer import BUFFER_WORDS
from ..question import Target
from .memories import FAMILIES, XC7, Mapped, block_rams, distributed_luts, free_memory, ultra_rams

Number = Ints | int
PARTS = ("core", "data_plane")  # of an NPU, synthesised apart

# The data plane as it is built: parameters of `fluidnpu_data_plane` that no search turns.
QUEUE_BEATS = 128
FBCB_BITS = 23
COUNTERS, COUNTER_BITS = 8, 32  # of each layer
_READ_MASTERS = 3
_COMMAND_BITS = 111
_SHORTEST_DSP_PRODUCT = 9  # bits, below which Yosys multiplies in logic
_ROW_QUEUE = 8

BIAS_GENERATIONS = 4
SCALE_BITS = 17 + 6  # of M and S
SCALE_DSPS = 2  # of a lane that multiplies a sum by M
PIECE_ROWS, PIECE_BITS = 256, 32  # of each of the two banks of a lane of the activation unit


# Numbers of an NPU, besides those of its array, of which each of many may have its own.
VARYING = (
    "ultra_banks",
    "pool_windows",
    "pool_rows",
    "filter_windows",
    "filter_rows",
    "filter_deep_rows",
    "filter_weights",
    "unit_dsps",
)


@dataclass(frozen=True, kw_only=True)
class NpuShape:
    """The numbers that decide the resources of an NPU.

    `pool_windows`, `pool_rows`: beats that a max pool behind the core keeps (`hardware.pooling`).
    `filter_*`: the room of a depthwise filter (`hardware.filtering`); a kernel of 0: there is none.
    `unit`: an activation unit stands behind the core (ADR 69), `filter_unit`: another behind the filter;
    `unit_dsps`: multipliers of both that are DSPs, one a lane, or 0 where they are logic.
    `ultra_banks`: accumulator banks in UltraRAM, of `banks`; `ultra_buffer`: the input buffer lies there,
    too. `pool_banks`: as many banks drain as a pool has channels in a beat, as in the HLS core; the reference
    core pools without. `family`: of the device, as Yosys names it.
    """

    array: Array[int] | Array[Ints]
    acc_bits: int = 48
    b_max: int = 8
    layers: int = 1
    port_bytes: int = 16
    stripes: int = 1
    buffer_words: int = BUFFER_WORDS
    pool_windows: Number = 0
    pool_rows: Number = 0
    filter_kernel: int = 0
    filter_windows: Number = 0
    filter_rows: Number = 0
    filter_deep_rows: Number = 0
    filter_weights: Number = 0
    filter_unit: bool = False
    unit: bool = False
    unit_dsps: Number = 0
    ultra_banks: Number = 0
    ultra_buffer: bool = False
    pool_banks: bool = False
    family: str = XC7

    @classmethod
    def of(cls, design: Design, board: Board, *, ultra_banks: int = 0) -> NpuShape:
        """The NPU of a design on a board."""
        return cls.on(design, FAMILIES[board.family], ultra_banks=ultra_banks, ultra_buffer=board.uram288 > 0)

    @classmethod
    def on(cls, design: Design, family: str = XC7, *, ultra_banks: int = 0, ultra_buffer: bool = False) -> NpuShape:
        """The NPU of a design on a family of devices as Yosys names it."""
        return cls(
            array=design.array,
            acc_bits=design.acc_bits,
            b_max=design.b_max,
            layers=design.hardware_layers,
            port_bytes=design.port_bytes,
            stripes=design.stripes,
            buffer_words=design.buffer_words,
            pool_windows=design.pool_room[0],
            pool_rows=design.pool_room[1],
            **_filter_numbers(design.filter_room),
            unit=design.activation is not None,
            unit_dsps=design.out_words * (1 + design.filter_room.activation) if design.activation == "dsp" else 0,
            ultra_banks=ultra_banks,
            ultra_buffer=ultra_buffer,
            family=family,
        )

    @classmethod
    def at(cls, target: Target, array: Array[int] | Array[Ints], buffer_words: int) -> NpuShape:
        """The NPUs of one array or of n, (n,), on a target, all their accumulators in block RAM.

        A unit's multipliers are logic.
        """
        windows, rows = pool_room(target.poolings, cast("Array[Ints]", array))
        return cls(
            array=array,
            acc_bits=target.acc_bits,
            b_max=target.b_max,
            layers=target.layers,
            port_bytes=target.ports.port_bits // 8,
            stripes=target.ports.stripes,
            buffer_words=buffer_words,
            pool_windows=windows,
            pool_rows=rows,
            **_filter_numbers(filter_room(target.filterings, cast("Array[Ints]", array))),
            unit=target.activation,
            ultra_buffer=target.board.uram288 > 0,
            pool_banks=target.core == "hls",
            family=FAMILIES[target.board.family],
        )

    def __len__(self) -> int:
        """The number of NPUs, where their numbers are NumPy arrays."""
        return len(np.asarray(self.array.t_c))

    def __getitem__(self, keep: npt.NDArray[np.bool_] | Ints | slice) -> NpuShape:
        """Some of many NPUs, by mask or by indices."""
        counts: dict[str, Any] = {
            name: value if isinstance(value := getattr(self, name), int) else value[keep] for name in VARYING
        }
        return replace(self, array=self.array.only(keep), **counts)

    @property
    def units(self) -> int:
        """Activation units: in front of the filter and behind it."""
        return int(self.unit) + int(self.filter_unit)

    @property
    def banks(self) -> Number:
        """Accumulator banks: of every chain one that accumulates and one that drains; twice that if split."""
        chains = self.array.chains
        pooled = -(-self.array.in_words // self.array.chain_columns)
        drains = np.maximum(chains, pooled) if self.pool_banks else chains
        return (2 if self.array.split else 1) * (chains + drains)

    @property
    def bank_bits(self) -> int:
        """Bits of a row of a bank: the sums of all columns of a chain, side by side."""
        return self.acc_bits * self.array.chain_columns

    @property
    def header_bits(self) -> int:
        """Bits of a column's header behind the loader: its bias, with 8-bit words also M and S (ADR 75)."""
        return self.acc_bits + (SCALE_BITS if self.array.chain_columns > 1 else 0)

    @property
    def bank_rows(self) -> Number:
        """Rows of a bank."""
        return -(-self.array.t_r // 2) if self.array.split else self.array.t_r

    @property
    def beat_bits(self) -> Ints:
        """Bits of the widest beat of the core's streams: of n arrays (n,), of one array a scalar."""
        return self.array.word_bits * np.maximum(
            np.maximum(self.array.in_words, self.array.weight_words), self.array.out_words
        )

    @property
    def place_bits(self) -> int:
        """Bits that number a port word in the input buffer."""
        return int(log2_ceil(self.array.word_bytes * self.buffer_words // self.port_bytes))


def _filter_numbers(room: FilterRoom) -> dict[str, Any]:
    """The fields of a shape that say what its filter has room for."""
    return {
        "filter_kernel": room.kernel,
        "filter_windows": room.windows,
        "filter_rows": room.rows,
        "filter_deep_rows": room.deep_rows,
        "filter_weights": room.weights,
        "filter_unit": bool(room.activation),
    }


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One memory of the RTL, `count` times.

    `kind`: "ultra", "block", "distributed", "dual" for block RAM whose writing port reads too, or "free"
    where the synthesiser chooses. `forwards`: see `free_memory`.
    """

    name: str
    count: Number
    depth: Number
    width: Number
    kind: str = "free"
    forwards: bool = False


def core_memories(shape: NpuShape) -> tuple[Memory, ...]:
    """Every memory of the reference core but the accumulator banks."""
    array = shape.array
    biases, groups = array.biases_per_beat, log2_ceil(-(-array.columns // array.out_words))
    beats = -(-array.columns // biases)
    return (
        Memory(name="bias headers", count=1, depth=2 * beats, width=12 + biases * shape.header_bits, forwards=True),
        Memory(name="biases", count=array.out_words, depth=BIAS_GENERATIONS << groups, width=shape.header_bits),
        Memory(name="load commands", count=1, depth=4, width=32, forwards=True),
        Memory(name="beat commands", count=1, depth=4, width=36, forwards=True),
        Memory(name="drain commands", count=1, depth=4, width=109, forwards=True),
    )


def data_plane_memories(shape: NpuShape) -> tuple[Memory, ...]:
    """Every memory of the data plane that may become block RAM."""
    return (
        input_lines(shape),
        Memory(name="read queues", count=_READ_MASTERS, depth=QUEUE_BEATS, width=8 * shape.port_bytes, forwards=True),
        Memory(name="write queue", count=1, depth=QUEUE_BEATS, width=9 * shape.port_bytes, forwards=True),
        Memory(name="fbcb", count=1, depth=shape.layers * shape.b_max, width=FBCB_BITS),
        Memory(name="counters", count=1, depth=shape.layers * COUNTERS, width=COUNTER_BITS),
        Memory(name="pieces", count=shape.units * shape.array.out_words, depth=2 * PIECE_ROWS, width=PIECE_BITS),
        Memory(name="pooled rows", count=_pools(shape), depth=np.maximum(1, shape.pool_rows), width=_out_bits(shape)),
        *_filter_memories(shape),
    )


def _filter_memories(shape: NpuShape) -> tuple[Memory, ...]:
    """The block RAM of a filter's lanes (ADR 70): two rows above, those above them, weights of two banks."""
    if not shape.filter_kernel:
        return ()
    lanes, shallow = shape.array.out_words, min(shape.filter_kernel, SHALLOW_KERNEL) - 1
    deep, bits = shape.filter_kernel - SHALLOW_KERNEL, shape.array.word_bits
    pairs = PACKED_PAIRS if shape.array.chain_columns > 1 else WEIGHT_PAIRS
    banks = 2 << log2_ceil(shape.filter_weights)
    above = Memory(name="deep filter rows", count=lanes, depth=shape.filter_deep_rows, width=bits * deep, kind="block")
    return (
        Memory(name="filter rows", count=lanes, depth=shape.filter_rows, width=bits * shallow, kind="block"),
        *([above] if deep > 0 else []),
        Memory(name="filter weights", count=pairs * lanes, depth=banks, width=32, kind="block"),
    )


def filter_windows(shape: NpuShape) -> Memory:
    """The windows at hand in a filter: of each lane, as many columns to the left as it needs."""
    kernel = shape.filter_kernel
    width = shape.array.word_bits * kernel * (kernel - 1)
    lanes = shape.array.out_words
    return Memory(name="filter windows", count=lanes, depth=shape.filter_windows, width=width, kind="distributed")


def input_lines(shape: NpuShape) -> Memory:
    """The input buffer: two banks of lines, a memory for each port word of a line."""
    port_words, lines = shape.port_bytes // shape.array.word_bytes, np.asarray(shape.array.line_words)
    kind = "ultra" if shape.ultra_buffer else "dual"
    depth = shape.buffer_words // (2 * lines)
    return Memory(name="input lines", count=2 * lines // port_words, depth=depth, width=8 * shape.port_bytes, kind=kind)


def mapped(memory: Memory, family: str) -> Mapped:
    """The primitives of one of `count` besides UltraRAM."""
    if memory.kind == "free":
        return free_memory(memory.depth, memory.width, family, forwards=memory.forwards)
    nothing = np.zeros_like(np.asarray(memory.depth))
    if memory.kind == "distributed":
        luts = distributed_luts(memory.depth, memory.width, family)
        return Mapped(ramb18=nothing, luts=luts, chunks=nothing + 1)
    dual, ultra = memory.kind == "dual", memory.kind == "ultra"
    blocks = nothing if ultra else block_rams(memory.depth, memory.width, family, dual=dual)
    return Mapped(ramb18=blocks, luts=nothing, chunks=nothing + 1)


def data_plane_queues(shape: NpuShape) -> tuple[Memory, ...]:
    """The shallow queues of the data plane, never block RAM."""
    return (
        Memory(name="core commands", count=1, depth=4, width=128, forwards=True),
        Memory(name="input commands", count=1, depth=4, width=_COMMAND_BITS, forwards=True),
        Memory(name="other commands", count=2, depth=8, width=_COMMAND_BITS, forwards=True),
        Memory(name="weight jobs", count=1, depth=2, width=32, forwards=True),
        Memory(name="residual jobs", count=1, depth=32, width=_residual_job(shape), forwards=True),
        Memory(name="rows", count=1, depth=_ROW_QUEUE, width=1 + shape.place_bits + 24, forwards=True),
        Memory(name="beats", count=1, depth=8, width=shape.array.word_bits * shape.array.in_words, forwards=True),
        Memory(name="unit commands", count=int(shape.unit), depth=8, width=_COMMAND_BITS, forwards=True),
        Memory(name="pool commands", count=_pools(shape), depth=8, width=_COMMAND_BITS, forwards=True),
        Memory(name="pooled beats", count=_pools(shape), depth=8, width=_out_bits(shape), forwards=True),
        Memory(
            name="pooled windows", count=_pools(shape), depth=np.maximum(1, shape.pool_windows), width=_out_bits(shape)
        ),
    )


def _pools(shape: NpuShape) -> int:
    """One of a memory that is there where outputs pass a pool, else none."""
    return int(np.any(np.greater(shape.pool_rows, 0)))


def _out_bits(shape: NpuShape) -> int:
    return shape.array.word_bits * shape.array.out_words


def _residual_job(shape: NpuShape) -> int:
    return int(log2_ceil(shape.port_bytes // shape.array.word_bytes)) + 12


def dsp(shape: NpuShape) -> Number:
    """DSPs of a whole NPU: those of its core, the engine's, those of its units and of a filter."""
    return core_dsp(shape) + engine_dsp(shape) + shape.unit_dsps + filter_dsp(shape)


def core_dsp(shape: NpuShape) -> Number:
    """DSPs of the core: one a product; with 8-bit words one for two, and those that multiply by M."""
    return shape.array.slices + scale_dsp(shape)


def scale_dsp(shape: NpuShape) -> int:
    """DSPs that multiply the sums of the core by M; none with 16-bit words."""
    return SCALE_DSPS * shape.array.out_words if shape.array.chain_columns > 1 else 0


def filter_dsp(shape: NpuShape) -> int:
    """DSPs of a filter: nine a lane; with 8-bit words its products are logic, and M takes some."""
    return lane_dsps(shape.array.word_bits) * shape.array.out_words if shape.filter_kernel else 0


def lane_dsps(word_bits: int) -> int:
    """DSPs of a lane of a filter.

    >>> lane_dsps(16), lane_dsps(8)
    (9, 2)
    """
    return PRODUCTS if chain_columns(word_bits) == 1 else SCALE_DSPS


def engine_dsp(shape: NpuShape) -> int:
    """DSPs of the engine, which finds an FBCB word at `layer * b_max + batch - 1`.

    A power of two multiplies for nothing, a short product is logic.

    >>> array = Array(t_r=8, t_p=4, t_c=4, weight_slots=1, in_words=8)
    >>> [engine_dsp(NpuShape(array=array, layers=54, b_max=b_max)) for b_max in (8, 7, 6, 3)]
    [0, 1, 0, 0]
    """
    shift = (shape.b_max & -shape.b_max).bit_length() - 1
    bits = int(log2_ceil(shape.layers * shape.b_max)) - shift
    return int(shape.b_max >> shift > 1 and bits >= _SHORTEST_DSP_PRODUCT)


def uram288(shape: NpuShape) -> Number:
    """URAM288s: those of the accumulator banks that lie in UltraRAM, and of the input buffer if it does."""
    return bank_uram288(shape) + buffer_uram288(shape)


def bank_uram288(shape: NpuShape) -> Number:
    """URAM288s of the accumulator banks."""
    return shape.ultra_banks * ultra_rams(shape.bank_rows, shape.bank_bits)


def buffer_uram288(shape: NpuShape) -> Number:
    """URAM288s of the input buffer.

    >>> array = Array(t_r=512, t_p=10, t_c=172, weight_slots=1, in_words=20)
    >>> int(buffer_uram288(NpuShape(array=array, buffer_words=1 << 18, ultra_buffer=True)))
    16
    """
    lines = input_lines(shape)
    return lines.count * ultra_rams(lines.depth, 8 * shape.port_bytes) if shape.ultra_buffer else 0


def accumulator_ramb18(shape: NpuShape) -> Ints:
    """RAMB18s of the accumulator banks that do not lie in UltraRAM: of n arrays (n,), of one array a
    scalar.
    """
    return np.asarray((shape.banks - shape.ultra_banks) * block_rams(shape.bank_rows, shape.bank_bits, shape.family))


def fixed_ramb18(shape: NpuShape) -> dict[str, Ints]:
    """RAMB18s that do not depend on t_r, by use: of n arrays (n,), of one array scalars.

    >>> array = Array(t_r=512, t_p=7, t_c=128, weight_slots=1, in_words=14)
    >>> shape = NpuShape(array=array, port_bytes=8, layers=54)
    >>> {use: int(count) for use, count in fixed_ramb18(shape).items()}
    {'biases': 3, 'input_buffer': 32, 'queues': 8, 'fbcb': 1, 'counters': 1}
    """
    uses = {
        "biases": ("bias headers", "biases"),
        "input_buffer": ("input lines",),
        "queues": ("read queues", "write queue", "load commands", "beat commands", "drain commands"),
        "fbcb": ("fbcb",),
        "counters": ("counters",),
        **({"pooled_rows": ("pooled rows",)} if _pools(shape) else {}),
        **({"pieces": ("pieces",)} if shape.units else {}),
        **({"filter": ("filter rows", "deep filter rows", "filter weights")} if shape.filter_kernel else {}),
    }
    counts = {
        memory.name: memory.count * mapped(memory, shape.family).ramb18
        for memory in (*core_memories(shape), *data_plane_memories(shape))
    }
    return {use: np.asarray(sum(counts.get(name, 0) for name in names)) for use, names in uses.items()}


def part_primitives(part: str, shape: NpuShape) -> dict[str, Ints]:
    """DSPs, RAMB18s and URAMs of one part of an NPU: of n arrays (n,), of one array scalars.

    >>> array = Array(t_r=512, t_p=7, t_c=128, weight_slots=1, in_words=14)
    >>> part_primitives("data_plane", NpuShape(array=array, port_bytes=8, layers=54))["ramb18"]
    array(42)
    """
    fixed = fixed_ramb18(shape)
    if part == "core":
        rams = accumulator_ramb18(shape) + fixed["biases"]
        return {"dsp": np.asarray(core_dsp(shape)), "ramb18": rams, "uram288": np.asarray(bank_uram288(shape))}
    rams = np.asarray(sum(count for use, count in fixed.items() if use != "biases"))
    return {
        "dsp": np.asarray(engine_dsp(shape) + shape.unit_dsps + filter_dsp(shape)),
        "ramb18": rams,
        "uram288": np.asarray(buffer_uram288(shape)),
    }


def ramb18(shape: NpuShape) -> dict[str, Ints]:
    """RAMB18s of a whole NPU by use, of n arrays (n,), of one array scalars. A device must have their sum."""
    return {"accumulators": accumulator_ramb18(shape), **fixed_ramb18(shape)}


def hls_banks_in_ultraram(shape: NpuShape, board: Board) -> int:
    """Banks of the HLS core that lie in UltraRAM with both halves, of one NPU."""
    return int(ultra_banks(replace(shape, pool_banks=True), board)) // (2 if shape.array.split else 1)


def ultra_banks(shape: NpuShape, board: Board) -> Ints:
    """Accumulator banks that a board's UltraRAM holds beside the input buffer: all, or as many as fit.

    Of n arrays (n,), of one array a scalar.
    """
    left = np.maximum(0, board.uram288 - buffer_uram288(shape))
    return np.minimum(shape.banks, left // ultra_rams(shape.bank_rows, shape.bank_bits))
