"""The arrays of a space that can be built on a target, with the deepest accumulators that fit.

Feasibility is decided here, for many points at once; `resources.fit` asks about one and raises. Primitives
are those of the reference core and the data plane, as Yosys maps them (`memories`, `primitives`); LUTs and
flip-flops are calibrated estimates (`logic`), and their whole interval must fit. Accumulator banks go to
UltraRAM first, since nothing else uses it, the rest to block RAM: `UltraBanks` of the core.

>>> from fluidnpu.boards import load_board
>>> zc706 = Target(board=load_board("zc706"), memory="pl")
>>> built = buildable(target_space(zc706), zc706)
>>> index = int(np.flatnonzero((built.space.t_p == 7) & (built.space.t_c == 128))[0])
>>> built.space[index], int(built.ramb18[index])
(Point(t_r=1024, t_p=7, t_c=128), 887)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..errors import FitError
from ..hardware.array import Array, Floats, Ints, ceil_div, chain_columns, header_words
from ..hardware.row_buffer import BUFFER_WORDS
from ..hardware.space import DesignSpace, Point, legal_space
from ..question import Target
from .columns import MOST_BREAKS, WHOLE, Cut, chains, cuts, fewest_segments
from .logic import interval_pct, logic_uses, npu_logic
from .primitives import (
    SCALE_DSPS,
    NpuShape,
    accumulator_ramb18,
    buffer_uram288,
    dsp,
    filter_dsp,
    fixed_ramb18,
    scale_dsp,
    ultra_banks,
    uram288,
)

DEPTH_STEP = 512  # the count of primitives changes at multiples of this only
MAX_T_R = 65_534  # even, and `beats` of a core command has 16 bits (ADR 4)
MAX_T_C = 4_095  # `cols` of a core command has 12 bits (ADR 4)
HLS_BEAT_BITS = 4096  # the widest number of Vivado HLS, by its manuals: AP_INT_MAX_W at most

_RAMB18_BITS, _URAM288_BITS = 18 * 1024, 288 * 1024
_LOGIC = {"lut": "LUTs", "ff": "flip-flops"}
_PES = "board '{board}' is too small for {t_p} x {t_c} PEs"

Mask = npt.NDArray[np.bool_]
_Number = TypeVar("_Number", int, Ints)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit of a target for many points at once: `needed` of a resource must be at most `available`.

    `says` is a refusal's sentence, into which `needed`, `available` and `facts` are filled, and of `uses`,
    what the need is made of, the name of the `largest` with its count, `most`.
    """

    resource: str
    needed: npt.ArrayLike
    available: npt.ArrayLike
    says: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    uses: Callable[[], Mapping[str, npt.ArrayLike]] = dict

    def met(self, points: int) -> Mask:
        """A mask (points,): true for those that keep the limit."""
        return np.broadcast_to(np.less_equal(self.needed, self.available), points)

    def enforce(self, points: int) -> Mask:
        """As `met`, (points,), where no point may break the limit. Raises FitError for the first that
        does.
        """
        met = self.met(points)
        broken = np.flatnonzero(~met)
        if len(broken):
            values = {"needed": self.needed, "available": self.available, **self.facts}
            facts = {name: np.broadcast_to(value, points)[broken[0]].item() for name, value in values.items()}
            counts = {
                name: round(np.broadcast_to(value, points)[broken[0]].item()) for name, value in self.uses().items()
            }
            if counts:
                largest = max(counts, key=counts.__getitem__)
                facts |= {"largest": largest.replace("_", " "), "most": counts[largest]}
            needed, available = int(facts["needed"]), int(facts["available"])
            raise FitError(self.says.format(**facts), resource=self.resource, needed=needed, available=available)
        return met


Judge = Callable[[Limit, int], Mask]


@dataclass(frozen=True, kw_only=True)
class Buildable:
    """Arrays that can be built, as deep as their banks can be, each with its resources.

    LUTs and flip-flops are estimates.
    """

    shape: NpuShape
    dsp: Ints
    ramb18: Ints
    uram288: Ints
    lut: Floats
    ff: Floats

    def __len__(self) -> int:
        return len(self.ramb18)

    def __getitem__(self, keep: Mask | Ints) -> Buildable:
        """Some of them, by mask or by indices."""
        return Buildable(
            shape=self.shape[keep],
            dsp=self.dsp[keep],
            ramb18=self.ramb18[keep],
            uram288=self.uram288[keep],
            lut=self.lut[keep],
            ff=self.ff[keep],
        )

    @property
    def space(self) -> DesignSpace:
        """Their points."""
        t_r, t_p, t_c = (
            np.asarray(axis) for axis in (self.shape.array.t_r, self.shape.array.t_p, self.shape.array.t_c)
        )
        return DesignSpace(t_r=t_r, t_p=t_p, t_c=t_c)

    @property
    def memory_bits(self) -> Ints:
        """Bits of the RAM primitives that each takes, (n,), filled or not."""
        return ram_bits(self.ramb18, self.uram288)


def ram_bits(ramb18: _Number, uram288: _Number) -> _Number:
    """Bits of RAM primitives, parity included.

    >>> ram_bits(2, 1)
    331776
    """
    return _RAMB18_BITS * ramb18 + _URAM288_BITS * uram288


def buildable(
    space: DesignSpace, target: Target, *, buffer_words: int = BUFFER_WORDS, judge: Judge = Limit.met
) -> Buildable:
    """The points of a space that can be built, T_R (even, at least 2) lowered until every memory fits.

    `judge` says which points keep a limit; `Limit.enforce` raises FitError instead of leaving a point out.
    """
    board = target.board
    for limit in (_narrowest, _fewest, _most, _together):
        space = space.only(judge(limit(space, target), len(space)))
    t_r = np.maximum(2, np.minimum(space.t_r, MAX_T_R) // 2 * 2)
    array = Array.on(
        board,
        target.memory,
        t_r=t_r,
        t_p=space.t_p,
        t_c=space.t_c,
        stackable=target.stackable,
        lanes=target.lanes,
        word_bits=target.word_bits,
    )
    shape = NpuShape.at(target, array, buffer_words)
    for need in (_beat, _dsp):
        shape = shape[judge(need(shape, target), len(shape))]
    shape = _in_pieces(_unit_in_dsps(shape, target), target)
    for need in (_columns, _buffer):
        shape = shape[judge(need(shape, target), len(shape))]
    shape, ramb18 = _deepest(shape, board)
    keep = judge(_rams(shape, ramb18, board), len(shape))
    shape, ramb18 = shape[keep], ramb18[keep]
    logic = npu_logic(shape) if len(shape) else dict.fromkeys(_LOGIC, np.zeros(0))
    built = Buildable(
        shape=shape,
        dsp=np.broadcast_to(dsp(shape), len(shape)),
        ramb18=ramb18,
        uram288=np.broadcast_to(uram288(shape), len(shape)),
        lut=np.broadcast_to(logic["lut"], len(shape)),
        ff=np.broadcast_to(logic["ff"], len(shape)),
    )
    for kind in _LOGIC:
        built = built[judge(_logic(built, kind, board), len(built))]
    return built


def least_point(target: Target) -> Point:
    """The smallest array that can be built: a slot holds a header, and columns and chains come in pairs."""
    return Point(t_r=2, t_p=header_words(target.word_bits), t_c=_step(target))


def target_space(target: Target) -> DesignSpace:
    """Every array within the DSPs of a target, before anything else is looked at."""
    return legal_space(target.board, chain_columns(target.word_bits))


def _step(target: Target) -> int:
    """Columns that come together: of a pair of PEs, and of a chain."""
    return chain_columns(target.word_bits) * (2 if target.stackable else 1)


def _narrowest(space: DesignSpace, target: Target) -> Limit:
    says = "a design that can be built needs t_p of at least {needed}, not {available}"
    return Limit(resource="t_p", needed=least_point(target).t_p, available=space.t_p, says=says)


def _together(space: DesignSpace, target: Target) -> Limit:
    """Columns of a chain and of a pair of chains are all there, or none."""
    step = _step(target)
    says = f"t_c must be a multiple of {step} where words have 8 bits, not {{t_c}}"
    odd = np.mod(space.t_c, step) if target.word_bits != 16 else 0
    return Limit(resource="t_c", needed=odd, available=0, says=says, facts={"t_c": space.t_c})


def _fewest(space: DesignSpace, target: Target) -> Limit:
    says = "a design that can be built needs t_c of at least {needed}, not {available}"
    return Limit(resource="t_c", needed=least_point(target).t_c, available=space.t_c, says=says)


def _most(space: DesignSpace, target: Target) -> Limit:
    says = "a design that can be built needs t_c of at most {available}, not {needed}"
    return Limit(resource="t_c", needed=space.t_c, available=MAX_T_C, says=says)


def _beat(shape: NpuShape, target: Target) -> Limit:
    says = (
        "a beat of the HLS core has at most {available} bits, the widest number of Vivado HLS, "
        "and {t_p} words of inputs a PE need {needed}; the reference core has no such limit"
    )
    needed = shape.beat_bits if target.core == "hls" else 0
    return Limit(
        resource="beat_bits", needed=needed, available=HLS_BEAT_BITS, says=says, facts=_facts(shape, target.board)
    )


def _dsp(shape: NpuShape, target: Target) -> Limit:
    board = target.board
    says = _PES + ": they need {needed} DSPs, and it has {available}"
    if board.dsp_most_pct < 100:
        says += f" within the {board.dsp_most_pct} % that its file lets a design take"
    return Limit(resource="dsp", needed=dsp(shape), available=_most_dsp(board), says=says, facts=_facts(shape, board))


def _most_dsp(board: Board) -> int:
    return board.dsp * board.dsp_most_pct // 100


def _unit_in_dsps(shape: NpuShape, target: Target) -> NpuShape:
    """The NPUs whose activation units multiply in DSPs where the array leaves one for every lane.

    None of these is cascaded, so that no column matters to them.
    """
    if not shape.units:
        return shape
    lanes = shape.units * shape.array.out_words
    return replace(shape, unit_dsps=np.where(dsp(shape) + lanes <= _most_dsp(target.board), lanes, 0))


def _asks_columns(target: Target) -> bool:
    return target.core != "hls" and bool(target.board.dsp_columns)


def _in_pieces(shape: NpuShape, target: Target) -> NpuShape:
    """The NPUs with as few breaks in the chains of the reference core as columns of DSP slices allow."""
    if not _asks_columns(target):
        return shape
    array = cast(Array[Ints], shape.array)
    if array.chain_columns > 1:
        breaks = [cut or WHOLE for cut in _segments(shape, target)]
        piece = np.array([cut.piece for cut in breaks], dtype=np.int64)
        broken = np.array([cut.broken for cut in breaks], dtype=np.int64)
        return replace(shape, array=replace(array, piece=piece, broken=broken))
    piece, broken = cuts(
        target.board.dsp_columns,
        np.asarray(array.t_p),
        np.asarray(array.t_c),
        stackable=target.stackable,
        lanes=_filter_lanes(shape),
    )
    return replace(shape, array=replace(array, piece=piece, broken=broken))


def _segments(shape: NpuShape, target: Target) -> list[Cut | None]:
    """How the chains of each of many arrays of 8-bit words break for the columns; None: they have no room."""
    array, pairs = shape.array, (scale_dsp(shape) + filter_dsp(shape)) // SCALE_DSPS
    arrays = zip(np.ravel(array.t_p).tolist(), np.ravel(array.chains).tolist(), strict=True)
    columns = tuple(target.board.dsp_columns)
    return [fewest_segments(columns, t_p, chains, array.longest, pairs) for t_p, chains in arrays]


def _columns(shape: NpuShape, target: Target) -> Limit:
    """Cascades of the reference core lie in one column each, whole or in pieces, beside those of a filter."""
    says = (
        "the columns of DSP slices of board '{board}' hold {available} whole chains of {t_p}, and {t_c} PEs of the "
        f"reference core need {{needed}}: no way was found to break the others into at most {MOST_BREAKS + 1} pieces "
        "each; the HLS core has no such chains"
    )
    board, array = target.board, shape.array
    held = chains(board.dsp_columns, np.asarray(array.t_p), _filter_lanes(shape))
    needed = array.chains if _asks_columns(target) else 0
    if array.chain_columns > 1 and _asks_columns(target):
        room = np.array([cut is not None for cut in _segments(shape, target)], dtype=bool)
        held = np.where(room, array.chains, np.minimum(held, array.chains - 1))
    available = np.where(np.greater(array.broken, 0), array.chains, held)
    return Limit(resource="dsp_columns", needed=needed, available=available, says=says, facts=_facts(shape, board))


def _filter_lanes(shape: NpuShape) -> int:
    return shape.array.out_words if shape.filter_kernel and shape.array.chain_columns == 1 else 0


def _buffer(shape: NpuShape, target: Target) -> Limit:
    says = (
        "board '{board}' is too small for an input buffer of {buffer_words} words: "
        "it needs {needed} URAM288, and there are {available}"
    )
    needed, board = buffer_uram288(shape), target.board
    return Limit(resource="uram288", needed=needed, available=board.uram288, says=says, facts=_facts(shape, board))


def _rams(shape: NpuShape, ramb18: Ints, board: Board) -> Limit:
    says = _PES + (
        ": they need {needed} RAMB18 ({largest}: {most}) beside {uram288} URAM288 even with {t_r} rows, and it has {available}"
    )
    facts = {**_facts(shape, board), "uram288": uram288(shape)}

    def uses() -> Mapping[str, npt.ArrayLike]:
        return {"accumulators": accumulator_ramb18(shape), **fixed_ramb18(shape)}

    return Limit(resource="ramb18", needed=ramb18, available=board.ramb18, says=says, facts=facts, uses=uses)


def _logic(built: Buildable, kind: str, board: Board) -> Limit:
    """The whole interval must fit."""
    says = _PES + (
        " with {t_r} rows: they need up to {needed} {what} (an estimate of {value}, {largest}: {most}), and it has {available}"
    )
    value = getattr(built, kind)
    needed = np.ceil(value * (1 + interval_pct(kind) / 100)).astype(np.int64)
    facts = {**_facts(built.shape, board), "what": _LOGIC[kind], "value": np.rint(value).astype(np.int64)}
    return Limit(
        resource=kind,
        needed=needed,
        available=getattr(board, kind),
        says=says,
        facts=facts,
        uses=partial(logic_uses, kind, built.shape),
    )


def _facts(shape: NpuShape, board: Board) -> dict[str, Any]:
    array = shape.array
    return {
        "board": board.name, "t_r": array.t_r, "t_p": array.t_p, "t_c": array.t_c, "buffer_words": shape.buffer_words,
    }  # fmt: skip


def _deepest(shape: NpuShape, board: Board) -> tuple[NpuShape, Ints]:
    """Each NPU with the deepest banks that fit the board, and its RAMB18s; UltraRAM takes the first banks.

    Bisection over depths, since deeper banks never take fewer primitives. Where nothing fits the depth is the
    least.
    """
    deepest = np.asarray(shape.array.t_r)
    fixed = np.broadcast_to(sum(fixed_ramb18(shape).values()), deepest.shape)
    low, high = np.ones_like(deepest), ceil_div(deepest, DEPTH_STEP)

    def at(steps: Ints, subset: Mask | slice) -> tuple[NpuShape, Ints]:
        array = replace(shape.array.only(subset), t_r=np.minimum(steps * DEPTH_STEP, deepest[subset]))
        part = replace(shape, array=array)
        part = replace(part, ultra_banks=ultra_banks(part, board))
        return part, accumulator_ramb18(part) + fixed[subset]

    while (unsure := low < high).any():
        middle = ceil_div(low + high, 2)
        fits = at(middle[unsure], unsure)[1] <= board.ramb18
        low[unsure] = np.where(fits, middle[unsure], low[unsure])
        high[unsure] = np.where(fits, high[unsure], middle[unsure] - 1)
    return at(low, slice(None))
