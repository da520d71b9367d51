"""Feasibility of all points at once is that of one point after another."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dse_strategies import points, small_boards
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import CORES, FitError, Point, Target, fit
from fluidnpu.dse.hardware.space import DesignSpace, legal_space
from fluidnpu.dse.resources import ram_bits
from fluidnpu.dse.resources.buildable import buildable
from fluidnpu.dse.resources.fit import trade_offs

BOARDS = [load_board(name) for name in ("zc706", "zcu104")]
ON = [(board, memory.name) for board in BOARDS for memory in board.dram]


def _space(given: list[Point]) -> DesignSpace:
    t_r, t_p, t_c = np.array([(p.t_r, p.t_p, p.t_c) for p in given], dtype=np.int64).T
    return DesignSpace(t_r=t_r, t_p=t_p, t_c=t_c)


def _same(given: list[Point], target: Target) -> None:
    found = buildable(_space(given), target)
    left = iter(range(len(found)))
    for point in given:
        try:
            one = fit(point, target)
        except FitError:
            continue
        index = next(left)
        assert found.space[index] == replace(point, t_r=one.t_r)
        assert (found.dsp[index], found.ramb18[index], found.uram288[index]) == (one.dsp, one.ramb18, one.uram288)
        assert (round(found.lut[index]), round(found.ff[index])) == (one.lut.value, one.ff.value)
        assert found.memory_bits[index] == ram_bits(one.ramb18, one.uram288)
    assert next(left, None) is None


@settings(deadline=None)
@given(st.lists(points, min_size=1, max_size=6), small_boards(), st.sampled_from(CORES), st.integers(0, 250))
def test_points_together_are_as_points_alone(given: list[Point], board: Board, core: str, layers: int) -> None:
    _same(given, Target(board=board, core=core, layers=layers))


@pytest.mark.parametrize(("board", "memory"), ON, ids=[f"{board.name}-{memory}" for board, memory in ON])
@pytest.mark.parametrize("core", CORES)
def test_points_of_the_shipped_boards(board: Board, memory: str, core: str) -> None:
    space = legal_space(board)
    chosen = [space[index] for index in range(0, len(space), len(space) // 60)]
    _same(chosen, Target(board=board, memory=memory, core=core, layers=54))


def test_the_hls_core_has_no_beat_above_4096_bits() -> None:
    """So many the widest number of Vivado HLS has; two halves of 128 words of 16 bits."""
    large = replace(BOARDS[0], lut=1 << 20, ff=1 << 20)
    hls, rtl = (Target(board=large, core=core) for core in ("hls", "rtl"))
    fit(Point(t_r=512, t_p=128, t_c=4), hls)
    with pytest.raises(FitError, match=r"at most 4096 bits.* 129 words of inputs a PE need 4128"):
        fit(Point(t_r=512, t_p=129, t_c=4), hls)
    fit(Point(t_r=512, t_p=129, t_c=4), rtl)
    wide = _space([Point(t_r=512, t_p=t_p, t_c=4) for t_p in (128, 129)])
    assert [len(buildable(wide, target).space) for target in (hls, rtl)] == [1, 2]


def test_the_hls_core_has_a_bank_for_each_channel_of_a_pool() -> None:
    """30 columns are fewer than the 54 channels of a pool, 128 are more than 14."""
    for point, more in ((Point(t_r=2048, t_p=27, t_c=30), True), (Point(t_r=512, t_p=7, t_c=128), False)):
        rtl, hls = (fit(point, Target(board=BOARDS[0], core=core)) for core in ("rtl", "hls"))
        assert (hls.t_r < rtl.t_r or hls.ramb18 > rtl.ramb18) == more


@settings(deadline=None, max_examples=30)
@given(points, small_boards(), st.sampled_from([1 << n for n in range(15, 20)]))
def test_the_trade_off_of_ram_is_pareto_optimal(point: Point, board: Board, most: int) -> None:
    """Each depth has the largest buffer that fits beside it; depth is given up only for a larger buffer."""
    target = Target(board=board)
    try:
        found = trade_offs(point, target, most)
    except FitError:
        return
    assert found[0].t_r == fit(point, target).t_r
    for deeper, shallower in pairwise(found):
        assert deeper.t_r > shallower.t_r
        assert deeper.buffer_words < shallower.buffer_words
    for one in found:
        assert one == fit(one.point, target, buffer_words=one.buffer_words)
        if one.buffer_words < most:
            with contextlib.suppress(FitError):
                assert fit(one.point, target, buffer_words=2 * one.buffer_words).t_r < one.t_r
