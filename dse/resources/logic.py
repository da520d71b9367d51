"""LUTs and flip-flops of an NPU: sums of structural terms, calibrated against Yosys on 7-series.

A term counts something that is in the RTL (bits of a register slice, lanes of post-processing, bits of a
multiplexer), so that a sum fitted to small designs holds for large ones. The coefficients and the interval
stand in `logic.json`, which `python -m fluidnpu.rtl_tb.synthesis.calibration fit` makes. LUTs are those of
logic and those used as memory or shift register. A vendor's tools pack differently: expect other absolute
numbers.

>>> estimate(10_000.0, interval_pct=4.0)
Estimate(value=10000, low=9600, high=10400)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast

import numpy as np

from ..hardware.array import Floats, Ints, log2_ceil
from .columns import MOST_BREAKS
from .memories import block_chunks, ultra_chunks
from .primitives import (
    PARTS,
    Memory,
    NpuShape,
    Number,
    core_memories,
    data_plane_memories,
    data_plane_queues,
    filter_windows,
    mapped,
)

LOGIC_KINDS = ("lut", "ff")
# For each bit of a master: three reading stripes and one that writes, as Yosys maps them at 512 bits.
STRIPE_BIT = {"lut": 16.8, "ff": 2.9}
# `fluidnpu_output_pool`: for itself, and for each bit of a beat of outputs, as Yosys maps 128 and 512 bits.
POOL, POOL_BIT = {"lut": 307, "ff": 276}, {"lut": 7.4, "ff": 6.92}
# `fluidnpu_activation`, `fluidnpu_piece_loader` and what spreads and keeps residuals: for themselves, and
# for each lane with its multiplier in LUTs or in a DSP, as Yosys maps 8, 16 and 32 lanes.
UNIT = {"lut": 660, "ff": 610}
# With 8-bit words a lane is as much smaller as Yosys maps a lane alone.
UNIT_LANE = {
    16: {"lut": {"lut": 552, "ff": 393}, "dsp": {"lut": 400, "ff": 270}},
    8: {"lut": {"lut": 353, "ff": 252}, "dsp": {"lut": 267, "ff": 191}},
}
# `fluidnpu_output_filter`: for itself, and by the largest kernel for each lane without its RAM of windows, as
# Yosys maps 4, 8 and 16 lanes of a kernel of 3, and 4 lanes of 5 and of 7.
FILTER = {"lut": 614, "ff": 488}
# With 8-bit words, as Yosys maps a lane alone of 3 and of 5, and half of what stands around one of 16 bits; a
# lane of 7 grows in proportion.
FILTER_LANE = {
    16: {3: {"lut": 620, "ff": 651}, 5: {"lut": 1248, "ff": 1013}, 7: {"lut": 2421, "ff": 1465}},
    8: {3: {"lut": 927, "ff": 1119}, 5: {"lut": 1225, "ff": 1295}, 7: {"lut": 1782, "ff": 1515}},
}
# Two products a slice (ADR 75), as Yosys maps `core_packed_pe` of 14 and of 24 words and a lane of
# `core_rescale`: of each slice its share of a side channel, of each segment the end of its two sums, of each
# chain their accumulators, of each word of a P-tile the bits beside it, of each word of the bus its packing.
PACKED: dict[str, dict[str, float]] = {
    "slice": {"lut": 2.05, "ff": 8.7},
    "segment": {"lut": 22, "ff": 40},
    "chain": {"lut": 64, "ff": 128},
    "lane": {"lut": 533, "ff": 400},
    "word": {"lut": 0, "ff": 8},
    "packed word": {"lut": 8, "ff": 4},
}
Terms = dict[str, Floats]
_SRL_DELAY = 32  # steps of one LUT used as a shift register
_SHORTEST_SRL = 3
_LOAD_COMPARATOR = 8  # LUTs that tell one column that a weight beat is its own
_INPUT = 2.35  # LUTs of a bit of a beat, from a line of the input buffer, for every doubling of the line; two ways
_BEATS = 6  # registers of a beat in `fluidnpu_beat_builder`: two segments cut, two placed, merged, and a part
_LINES = 4  # of a line there: two segments, both banks


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate with the interval that holds the synthesiser's number."""

    value: int
    low: int
    high: int


def estimate(value: float, interval_pct: float) -> Estimate:
    """`value` with plus and minus `interval_pct` per cent, whole numbers."""
    return Estimate(
        value=round(value),
        low=int(np.floor(value * (1 - interval_pct / 100))),
        high=int(np.ceil(value * (1 + interval_pct / 100))),
    )


def npu_logic(shape: NpuShape) -> dict[str, Floats]:
    """LUTs and flip-flops of a whole NPU: {"lut": ..., "ff": ...}.

    Of many arrays at once they are (n,), of one array scalars.
    """
    return {kind: np.asarray(sum(logic_uses(kind, shape).values())) for kind in LOGIC_KINDS}


def logic_uses(kind: str, shape: NpuShape) -> dict[str, Floats]:
    """LUTs ("lut") or flip-flops ("ff") of each part of a whole NPU, of n arrays (n,), of one array
    scalars.
    """
    striped = 8 * shape.port_bytes if shape.stripes > 1 else 0
    pools, lanes = np.greater(shape.pool_rows, 0), shape.array.out_words
    return {
        **{part.replace("_", " "): part_logic(part, kind, shape) for part in PARTS},
        "packed chains": packed_logic(kind, shape),
        "stripes": np.asarray(striped * STRIPE_BIT[kind]),
        "output pool": np.asarray(pools * (POOL[kind] + shape.array.word_bits * lanes * POOL_BIT[kind])),
        "activation unit": shape.units
        * unit_logic(kind, lanes, shape.unit_dsps // max(1, shape.units), shape.array.word_bits),
        "filter": filter_logic(kind, shape),
    }


def packed_logic(kind: str, shape: NpuShape) -> Floats:
    """LUTs ("lut") or flip-flops ("ff") that 8-bit words take in the core besides: zero with 16-bit ones.

    Chains of two columns with their side channels, two accumulators each, and lanes that multiply by M. Of n
    arrays (n,), of one array a scalar.
    """
    array = shape.array
    if array.chain_columns == 1:
        return np.asarray(0.0)
    t_p, chains = np.asarray(array.t_p), np.asarray(array.chains)
    counts: dict[str, Any] = {
        "slice": np.asarray(array.slices),
        "segment": chains * -(-t_p // array.segment),
        "chain": chains,
        "lane": array.out_words,
        "word": t_p,
        "packed word": t_p * (np.asarray(array.weight_slots) // array.chain_columns),
    }
    return np.asarray(sum(PACKED[name][kind] * count for name, count in counts.items()), dtype=np.float64)


def filter_logic(kind: str, shape: NpuShape) -> Floats:
    """LUTs ("lut") or flip-flops ("ff") of a depthwise filter, zero without one: of n arrays (n,), of one
    array a scalar.
    """
    if not shape.filter_kernel:
        return np.asarray(0.0)
    lane = next(
        numbers for kernel, numbers in FILTER_LANE[shape.array.word_bits].items() if shape.filter_kernel <= kernel
    )
    windows = _stored((filter_windows(shape),), shape.family) if kind == "lut" else 0
    return np.asarray(FILTER[kind] + shape.array.out_words * lane[kind] + windows, dtype=np.float64)


def unit_logic(kind: str, lanes: int, dsps: Number, word_bits: int = 16) -> Floats:
    """LUTs ("lut") or flip-flops ("ff") of an activation unit, of whose multipliers `dsps` are DSPs.

    In the shape of `dsps`.

    >>> [float(unit_logic("lut", 8, dsps)) for dsps in (0, 8)]
    [5076.0, 3860.0]
    """
    in_luts, other = (UNIT_LANE[word_bits][where][kind] for where in ("lut", "dsp"))
    return np.asarray(UNIT[kind] + lanes * in_luts - dsps * (in_luts - other), dtype=np.float64)


def part_logic(part: str, kind: str, shape: NpuShape, table: Mapping[str, Any] | None = None) -> Floats:
    """LUTs ("lut") or flip-flops ("ff") of one part by a calibration table, the shipped one by default.

    Of n arrays (n,), of one array a scalar.
    """
    coefficients = (logic_table() if table is None else table)[part][kind]["coefficients"]
    terms = logic_terms(part, kind, shape)
    return np.asarray(sum(terms[name] * coefficients[name] for name in coefficients), dtype=np.float64)


def interval_pct(kind: str) -> float:
    """Half the width of the interval of a whole NPU, in per cent: the larger of its parts'."""
    return max(float(logic_table()[part][kind]["interval_pct"]) for part in PARTS)


@cache
def logic_table() -> Mapping[str, Any]:
    """The shipped calibration."""
    table: Mapping[str, Any] = json.loads(resources.files(__package__).joinpath("logic.json").read_text())
    return table


def logic_terms(part: str, kind: str, shape: NpuShape) -> Terms:
    """Counts of everything in the RTL of a part that costs logic, by name; arrays of one shape."""
    terms = _TERMS[part, kind](shape)
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in terms.values()))
    return dict(zip(terms, arrays, strict=True))


def _core_luts(s: NpuShape) -> dict[str, Any]:
    lanes, acc, stackable, split = s.array.out_words, s.acc_bits, int(s.array.stackable), int(s.array.split)
    gathered, clusters = _gather_bits(s)
    return {
        "one": 1,
        "slice bits": _slice_bits(s),
        "memory LUTs": _stored(core_memories(s), s.family),
        "shift registers": _skewed_bits(s) * _skew_luts(s) + _lags(s)[1],
        **_lanes(s, 1),
        "gather bits": gathered + lanes * acc * _mux(clusters),
        "bias bits": s.header_bits * _mux(s.array.biases_per_beat),
        "pool bits": 2 * _pool_bits(s) * np.asarray(s.array.in_words),
        "choice bits": np.asarray(s.array.t_p) * (stackable * s.array.word_bits + 16 * _weight_bus(s)[1]),
        "pair bits": stackable * (np.asarray(s.array.t_c) // 2) * _sum_bits(s),
        "load comparators": _LOAD_COMPARATOR * np.asarray(s.array.chains),
        "split bits": split * np.asarray(s.array.t_c) * acc,
        "bank bits": _bank_bits(s),
    }


def _core_ffs(s: NpuShape) -> dict[str, Any]:
    lanes, acc, stackable, split = s.array.out_words, s.acc_bits, int(s.array.stackable), int(s.array.split)
    return {
        "one": 1,
        "slice bits": 2 * _slice_bits(s),
        **_lanes(s, 7),
        "gather bits": _gather_bits(s)[0] + lanes * acc,
        "pool bits": 2 * _pool_bits(s) * np.asarray(s.array.in_words),
        "skews": _skewed_bits(s) * 3 + _lags(s)[0],
        "load bits": _load_bits(s),
        "pair bits": stackable * (np.asarray(s.array.t_c) // 2) * _sum_bits(s),
        "split bits": split * np.asarray(s.array.t_c) * acc,
        "bank selects": _bank_selects(s),
    }


def _data_plane_luts(s: NpuShape) -> dict[str, Any]:
    """Shifters dominate: each word to or from a port of n words crosses a multiplexer of n inputs."""
    bits, beat, inputs = s.array.word_bits, np.asarray(s.array.weight_words), np.asarray(s.array.in_words)
    port = s.port_bytes // 2
    return {
        "one": 1,
        "wide port": port / 4 - 1,
        "unpacked bits": bits * (beat + s.array.out_words) * (1.75 + port / 4),
        "packed bits": bits * s.array.out_words * (1 + port / 4),
        "input bits": 2 * bits * inputs * _INPUT * log2_ceil(s.array.line_words),
        "slot bits": 2 * 40 * s.b_max,
        "memory LUTs": _stored((*data_plane_memories(s), *data_plane_queues(s)), s.family),
    }


def _data_plane_ffs(s: NpuShape) -> dict[str, Any]:
    bits, words = s.array.word_bits, np.asarray(s.array.weight_words) + s.array.out_words
    return {
        "one": 1,
        "wide port": s.port_bytes / 8 - 1,
        "word bits": bits * words,
        "beat bits": bits * _BEATS * np.asarray(s.array.in_words),
        "line bits": bits * _LINES * np.asarray(s.array.line_words),
        "slot bits": 40 * s.b_max,
    }


_TERMS: dict[tuple[str, str], Callable[[NpuShape], dict[str, Any]]] = {
    ("core", "lut"): _core_luts,
    ("core", "ff"): _core_ffs,
    ("data_plane", "lut"): _data_plane_luts,
    ("data_plane", "ff"): _data_plane_ffs,
}


def _slice_bits(s: NpuShape) -> Ints:
    """Data bits of the core's register slices: input, weight, residual, output."""
    words = np.asarray(s.array.in_words) + np.asarray(s.array.weight_words) + 2 * s.array.out_words
    return np.asarray(s.array.word_bits * words)


def _skewed_bits(s: NpuShape) -> Ints:
    """Bits of a place of the vectors that are skewed: inputs of both halves of pairs, and the weight bus.

    The bus has the words of all columns of a chain, whose bits are those of one word of 16.
    """
    return (1 + int(s.array.stackable)) * s.array.word_bits + 16 * _weight_bus(s)[0]


def _skew_luts(s: NpuShape) -> Ints:
    """LUTs that skew a bit of each word of a vector; each segment of a chain of 8-bit words by itself."""
    if s.array.chain_columns == 1:
        return _shift_luts(s.array.t_p)
    return np.asarray(-(-np.asarray(s.array.t_p) // s.array.segment) * _shift_luts(s.array.segment))


def _lanes(s: NpuShape, registers: int) -> dict[str, Any]:
    """The terms of post-processing with 16-bit words; that of 8-bit ones is mapped with `packed_logic`."""
    lanes = s.array.out_words if s.array.chain_columns == 1 else 0
    return {"lanes": lanes, "lane bits": registers * lanes * s.acc_bits}


def _load_bits(s: NpuShape) -> Number:
    """Registers that pass on the loading of weights; those of packed chains are in `PACKED`."""
    if s.array.chain_columns > 1:
        return 0
    return cast(Ints, np.asarray(s.array.macs) + np.asarray(s.array.broken) * s.array.breaks)


def _pool_bits(s: NpuShape) -> int:
    """Bits of a pooled sum: of 2**16 words."""
    return s.array.word_bits + 16


def _sum_bits(s: NpuShape) -> int:
    """Bits that the adder of a pair has for each column."""
    return s.acc_bits if s.array.chain_columns == 1 else s.array.field_bits + 3


def _weight_bus(s: NpuShape) -> tuple[Ints, Ints]:
    """Different vectors of `core_weight_bus`, and the number of them that choose between slots."""
    lanes = np.asarray(s.array.weight_slots) // s.array.chain_columns
    slots, t_c = np.broadcast_arrays(lanes, np.asarray(s.array.chains))
    if not s.array.stackable:
        return slots, np.zeros_like(slots)
    pairs, where = np.unique(np.stack([slots.ravel(), (t_c // 2 % slots).ravel()]), axis=1, return_inverse=True)
    counted = np.array([_bus_lanes(int(lanes), int(shift)) for lanes, shift in pairs.T])[where.ravel()]
    return counted[:, 0].reshape(slots.shape), counted[:, 1].reshape(slots.shape)


def _bus_lanes(slots: int, shift: int) -> tuple[int, int]:
    """The same for one number of slots; `shift` is t_c // 2 modulo `slots`.

    A vector is known by the slots that it takes in wide mode, with lanes, and else.

    >>> [_bus_lanes(slots, shift=1 % slots) for slots in (1, 2, 3)]
    [(1, 0), (4, 3), (6, 5)]
    """
    lower = {(2 * lane % slots, lane, lane) for lane in range(slots)}
    upper = {((2 * lane + 1) % slots, lane, (lane + shift) % slots) for lane in range(slots)}
    return len(lower | upper), sum(len(set(takes)) > 1 for takes in lower | upper)


def _shift_luts(t_p: Ints | int) -> Ints:
    """LUTs that delay word i of a vector by i + 1 steps, a bit of each word; shorter delays are flip-flops.

    The register before the skew is one step.

    >>> [int(_shift_luts(t_p)) for t_p in (3, 4, 32, 33)]
    [1, 2, 30, 32]
    """
    whole = np.asarray(t_p) // _SRL_DELAY
    partial = np.asarray(t_p) - whole * _SRL_DELAY
    total = _SRL_DELAY * whole * (whole + 1) // 2 + partial * (whole + 1)
    return np.asarray(np.maximum(0, total - (_SHORTEST_SRL - 1)))


def _lags(s: NpuShape) -> tuple[Ints, Ints]:
    """Flip-flops and LUTs that delay words for chains in pieces: a cycle for each piece before theirs.

    Words of inputs for both halves of pairs, and of the lanes of the weight bus that such chains listen to.
    """
    if s.array.chain_columns > 1:
        return np.asarray(0), np.asarray(0)
    t_p, piece = np.asarray(s.array.t_p), np.asarray(s.array.piece)
    halves = 1 + int(s.array.stackable)
    pairs = -(-np.asarray(s.array.broken) // halves)
    vectors = halves * (pairs > 0) + np.minimum(_weight_bus(s)[0], halves * np.minimum(s.array.weight_slots, pairs))
    words = [np.clip(t_p - cycles * piece, 0, piece) for cycles in range(1, MOST_BREAKS + 1)]
    flops = sum(cycles * count for cycles, count in enumerate(words, 1) if cycles < _SHORTEST_SRL)
    shifted = sum(count for cycles, count in enumerate(words, 1) if cycles >= _SHORTEST_SRL)
    return np.asarray(16 * vectors * flops), np.asarray(16 * vectors * shifted)


def _mux(inputs: Ints | int) -> Ints:
    """LUTs of six inputs that choose one of `inputs` bits.

    >>> [int(_mux(inputs)) for inputs in (1, 2, 4, 5, 8)]
    [0, 1, 1, 2, 3]
    """
    return np.asarray(-(-(np.asarray(inputs) - 1) // 3))


def _gather_bits(s: NpuShape) -> tuple[Ints, Ints]:
    """Bits of the first step of `core_gather` and clusters of four views that its second step chooses among.

    Views of banks come first; a cluster of pooled channels alone is no wider than a pooled sum, and has only
    as many lanes as channels remain.
    """
    channels, t_c, lanes = np.asarray(s.array.in_words), np.asarray(s.array.t_c), s.array.out_words
    groups, pairs = -(-t_c // lanes), t_c // 2
    lane_groups = np.where(pairs % lanes == 0, 0, -(-pairs // lanes)) if s.array.stackable else 0
    half = groups + lane_groups
    bank_views = 2 * half - (-2 * t_c // lanes) if s.array.split else half
    bank_clusters = -(-bank_views // 4)
    alone = np.maximum(0, channels - (4 * bank_clusters - bank_views) * lanes)  # they share no cluster with a bank
    pool_lanes = alone // (4 * lanes) * lanes + np.minimum(lanes, alone % (4 * lanes))
    bits = s.acc_bits * np.minimum(lanes, s.array.columns) * bank_clusters + _pool_bits(s) * pool_lanes
    return np.asarray(bits), np.asarray(bank_clusters - (-alone // (4 * lanes)))


def _bank_bits(s: NpuShape) -> Ints:
    """Multiplexed bits behind banks that are put together of several chunks of rows."""
    blocks = _mux(block_chunks(s.bank_rows, s.bank_bits, s.family)) * (s.banks - s.ultra_banks)
    return np.asarray(s.bank_bits * (blocks + _mux(ultra_chunks(s.bank_rows)) * s.ultra_banks))


def _bank_selects(s: NpuShape) -> Ints:
    """Registers that remember the chunk of rows that each bank reads."""
    blocks = log2_ceil(block_chunks(s.bank_rows, s.bank_bits, s.family)) * (s.banks - s.ultra_banks)
    return np.asarray(blocks + log2_ceil(ultra_chunks(s.bank_rows)) * s.ultra_banks)


def _stored(memories: tuple[Memory, ...], family: str) -> Ints:
    return np.asarray(sum(memory.count * mapped(memory, family).luts for memory in memories))
