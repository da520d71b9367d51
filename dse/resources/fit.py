"""One array on a target: the deepest accumulators that fit, its primitives, the trade-off with the buffer.

>>> from fluidnpu.boards import load_board
>>> zc706 = Target(board=load_board("zc706"), memory="pl")
>>> fit(Point(t_r=4096, t_p=7, t_c=128), zc706).t_r
1024
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..hardware.array import Array
from ..hardware.row_buffer import BUFFER_WORDS
from ..hardware.space import DesignSpace, Point
from ..question import Target
from .buildable import Buildable, Limit, buildable
from .logic import Estimate, estimate, interval_pct, unit_logic
from .primitives import VARYING, accumulator_ramb18, fixed_ramb18, lane_dsps

SHALLOWER = (4096, 2048, 1024, 512)  # rows of a bank worth giving up for a larger input buffer
LOGIC_NOTE = "LUTs and flip-flops are estimates calibrated against Yosys on 7-series, each with its interval; vendor tools pack differently"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """An array with the deepest accumulators that fit, and its primitives. `parts` splits `ramb18` by use.

    `activation`: as in a design, of all `units`. `lanes`: of a depthwise filter on the way out, else 0.
    """

    array: Array[int]
    buffer_words: int
    dsp: int
    ramb18: int
    uram288: int
    uram_banks: int
    ramb_banks: int
    parts: Mapping[str, int]
    lut: Estimate
    ff: Estimate
    activation: str | None = None
    lanes: int = 0
    units: int = 0

    @classmethod
    def of(cls, built: Buildable, index: int = 0) -> Fit:
        """One of the arrays that can be built."""
        many = built.shape
        named = {name: getattr(many, name) for name in VARYING}
        own: dict[str, Any] = {
            name: value if isinstance(value, int) else int(value[index]) for name, value in named.items()
        }
        shape, on_uram = replace(many, array=many.array.at(index), **own), own["ultra_banks"]
        uses = {"accumulators": accumulator_ramb18(shape), **fixed_ramb18(shape)}
        return cls(
            array=built.shape.array.at(index),
            buffer_words=shape.buffer_words,
            dsp=int(built.dsp[index]),
            ramb18=int(built.ramb18[index]),
            uram288=int(built.uram288[index]),
            uram_banks=on_uram,
            ramb_banks=int(shape.banks) - on_uram,
            parts={use: int(count) for use, count in uses.items()},
            lut=estimate(float(built.lut[index]), interval_pct("lut")),
            ff=estimate(float(built.ff[index]), interval_pct("ff")),
            activation=("dsp" if shape.unit_dsps else "lut") if shape.unit else None,
            lanes=shape.array.out_words if shape.filter_kernel else 0,
            units=shape.units,
        )

    @property
    def t_r(self) -> int:
        """Rows of an accumulator bank."""
        return self.array.t_r

    @property
    def unit_note(self) -> tuple[str, ...]:
        """A sentence on the activation units, their multipliers and what they cost; none without one."""
        if self.activation is None:
            return ()
        lanes, units = self.array.out_words, self.units
        dsps = lanes if self.activation == "dsp" else 0
        lut, ff = (units * round(float(unit_logic(kind, lanes, dsps, self.array.word_bits))) for kind in ("lut", "ff"))
        where = (
            f"in {units * dsps} DSPs that the array leaves" if dsps else "in LUTs, since the array leaves too few DSPs"
        )
        what = (
            "stands behind the core, its"
            if units == 1
            else "stands behind the core and another behind the filter, their"
        )
        return (
            f"an activation unit of {lanes} lanes {what} multipliers {where}: "
            f"about {lut} LUTs, {ff} flip-flops and {self.parts['pieces']} RAMB18",
        )

    @property
    def filter_dsps(self) -> int:
        """DSPs of the filter: of its products, or with 8-bit words of what multiplies their sums by M."""
        return lane_dsps(self.array.word_bits) * self.lanes

    @property
    def filter_note(self) -> tuple[str, ...]:
        """A sentence on the filter and what it takes; none without one."""
        if not self.lanes:
            return ()
        return (
            f"a depthwise filter of {self.lanes} lanes stands behind the core (ADR 70): {self.filter_dsps} DSPs and "
            f"{self.parts['filter']} RAMB18",
        )

    @property
    def point(self) -> Point:
        """The point as it fits."""
        return Point(t_r=self.array.t_r, t_p=self.array.t_p, t_c=self.array.t_c)


def fit(point: Point, target: Target, *, buffer_words: int = BUFFER_WORDS) -> Fit:
    """Lower `point.t_r` (even, at least 2) until every memory fits. Raises FitError when nothing does."""
    return Fit.of(buildable(_space(point, [point.t_r]), target, buffer_words=buffer_words, judge=Limit.enforce))


def trade_offs(point: Point, target: Target, most_buffer_words: int) -> tuple[Fit, ...]:
    """The Pareto trade-off of on-chip RAM: for each accumulator depth, the largest input buffer that fits.

    The first has the deepest accumulators that fit beside the least buffer; no buffer has more than
    `most_buffer_words`. Raises FitError when nothing fits.
    """
    asked = [point.t_r, *(depth for depth in SHALLOWER if depth < point.t_r)]
    built = buildable(_space(point, asked), target)  # those that are too deep come as deep as fits
    if len(built) < len(asked):
        fit(point, target)  # raises, naming what the deepest lacks
    best: dict[int, Fit] = {}
    buffer_words = BUFFER_WORDS
    while len(built):
        depths, rows = np.unique(built.space.t_r, return_index=True)
        best |= {depth: Fit.of(built, row) for depth, row in zip(depths.tolist(), rows.tolist(), strict=True)}
        if buffer_words >= most_buffer_words:
            break
        buffer_words *= 2
        built = buildable(_space(point, depths.tolist()), target, buffer_words=buffer_words)
        built = built[np.isin(built.space.t_r, depths)]  # not those that are shallower than asked
    chosen: list[Fit] = []
    for depth in sorted(best, reverse=True):
        if not chosen or best[depth].buffer_words > chosen[-1].buffer_words:
            chosen.append(best[depth])
    return tuple(chosen)


def _space(point: Point, depths: Sequence[int]) -> DesignSpace:
    """The array of a point at several depths."""
    t_r = np.array(depths, dtype=np.int64)
    return DesignSpace(t_r=t_r, t_p=np.full_like(t_r, point.t_p), t_c=np.full_like(t_r, point.t_c))
