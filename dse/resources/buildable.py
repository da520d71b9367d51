"""Which arrays of a space can be built on a board, how deep their accumulators can be, and what they take: `geometry.fit` for all points at once.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.dse import legal_space
>>> found = buildable(legal_space(load_board("zc706")), load_board("zc706"), b_max=8, memory="pl")
>>> index = int(np.flatnonzero((found.space.t_p == 7) & (found.space.t_c == 128))[0])
>>> found.space[index], int(found.ramb18[index])
(Point(t_r=1024, t_p=7, t_c=128), 887)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board

from ..paper.search import Floats, Ints, Space
from .fit import (
    CORES,
    DEPTH_STEP,
    HLS_BEAT_BITS,
    MAX_T_C,
    MAX_T_R,
    MIN_T_C,
    MIN_T_P,
    npu_shape,
    ultra_banks,
    weight_slots_for,
)
from .logic import interval_pct, npu_logic
from .primitives import NpuShape, accumulator_ramb18, buffer_uram288, dsp, fixed_ramb18, uram288

_RAMB18_BITS, _URAM288_BITS = 18 * 1024, 288 * 1024
_Number = TypeVar("_Number", int, npt.NDArray[np.int64])


@dataclass(frozen=True, kw_only=True)
class Buildable:
    """Points that can be built, T_R as deep as their banks can be, and beside each what it takes. LUTs and flip-flops are estimates."""

    space: Space
    dsp: Ints
    ramb18: Ints
    uram288: Ints
    lut: Floats
    ff: Floats

    def __len__(self) -> int:
        return len(self.space)

    def __getitem__(self, keep: npt.NDArray[np.bool_] | Ints) -> Buildable:
        """Some of them, by mask or by indices."""
        s = self.space
        return Buildable(
            space=Space(t_r=s.t_r[keep], t_p=s.t_p[keep], t_c=s.t_c[keep]),
            dsp=self.dsp[keep], ramb18=self.ramb18[keep], uram288=self.uram288[keep], lut=self.lut[keep], ff=self.ff[keep],
        )  # fmt: skip

    @property
    def memory_bits(self) -> Ints:
        """Bits of the RAM primitives that each takes, whether it fills them or not."""
        return ram_bits(self.ramb18, self.uram288)


def ram_bits(ramb18: _Number, uram288: _Number) -> _Number:
    """Bits of so many RAM primitives, parity included.

    >>> ram_bits(2, 1)
    331776
    """
    return _RAMB18_BITS * ramb18 + _URAM288_BITS * uram288


def buildable(
    space: Space,
    board: Board,
    *,
    fbcb_words: int = 0,
    b_max: int = 8,
    acc_bits: int = 48,
    stackable: bool = True,
    memory: str | None = None,
    core: str = CORES[0],
) -> Buildable:
    """Those points of a space that `fit` does not refuse, as it fits them: beside the least input buffer."""
    legal = (space.t_p >= MIN_T_P) & (space.t_c >= (MIN_T_C if stackable else 1)) & (space.t_c <= MAX_T_C)
    t_p, t_c = space.t_p[legal], space.t_c[legal]
    depth = np.maximum(2, np.minimum(space.t_r[legal], MAX_T_R) // 2 * 2)
    shape = npu_shape(
        board, memory, t_r=depth, t_p=t_p, t_c=t_c, weight_slots=weight_slots_for(t_p, board.memory(memory).port_bits),
        acc_bits=acc_bits, stackable=stackable, b_max=b_max, layers=-(-fbcb_words // b_max),
        pool_banks=core == "hls",
    )  # fmt: skip
    fixed = np.broadcast_to(sum(fixed_ramb18(shape).values()), depth.shape)
    possible = (np.asarray(dsp(shape)) <= board.dsp) & (np.asarray(buffer_uram288(shape)) <= board.uram288)
    if core == "hls":
        possible &= shape.beat_bits <= HLS_BEAT_BITS
    found, banks, rams = np.zeros_like(depth), np.zeros_like(depth), np.zeros_like(depth)
    left = np.flatnonzero(possible)
    while len(left):
        one = _taken(replace(shape, t_r=depth[left]), left)
        on_uram = ultra_banks(one, board)
        taken = accumulator_ramb18(replace(one, ultra_banks=on_uram)) + fixed[left]
        fits = taken <= board.ramb18
        done = left[fits]
        found[done], banks[done], rams[done] = depth[done], on_uram[fits], taken[fits]
        left = left[~fits & (depth[left] > DEPTH_STEP)]
        depth[left] = (depth[left] - 1) // DEPTH_STEP * DEPTH_STEP
    keep = np.flatnonzero(found)
    built = replace(_taken(replace(shape, t_r=found[keep]), keep), ultra_banks=banks[keep])
    logic = npu_logic(built) if len(keep) else {"lut": np.zeros(0), "ff": np.zeros(0)}
    result = Buildable(
        space=Space(t_r=found[keep], t_p=t_p[keep], t_c=t_c[keep]),
        dsp=np.broadcast_to(dsp(built), keep.shape), ramb18=rams[keep], uram288=np.broadcast_to(uram288(built), keep.shape),
        lut=np.broadcast_to(logic["lut"], keep.shape), ff=np.broadcast_to(logic["ff"], keep.shape),
    )  # fmt: skip
    # The whole interval must fit.
    high = {kind: np.ceil(value * (1 + interval_pct(kind) / 100)) for kind, value in logic.items()}
    return result[(high["lut"] <= board.lut) & (high["ff"] <= board.ff)]


def _taken(shape: NpuShape, keep: Ints) -> NpuShape:
    """The shape with only some of its points; `t_r` is of those already."""
    t_p, t_c, slots = (np.asarray(axis)[keep] for axis in (shape.t_p, shape.t_c, shape.weight_slots))
    return replace(shape, t_p=t_p, t_c=t_c, weight_slots=slots)
