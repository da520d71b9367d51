"""Chains of multiply-accumulates in columns of DSP slices: counting, searching, and the price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import BoardError, load_board
from fluidnpu.dse import FitError, Point, Target, explore, fit
from fluidnpu.dse.paper.search import legal_space
from fluidnpu.dse.resources.buildable import buildable
from fluidnpu.dse.resources.columns import chains, fewest_pieces
from fluidnpu.models import LayerShape, Window, Workload

heights = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=4)


@given(columns=heights, length=st.integers(1, 50))
def test_chains_are_those_that_can_be_laid_one_by_one(columns: list[tuple[int, int]], length: int) -> None:
    laid = 0
    for height, count in columns:
        for _ in range(count):
            at = 0
            while at + length <= height:
                laid, at = laid + 1, at + length
    assert chains(columns, length) == laid
    assert chains(columns, np.array([length, 1])).tolist() == [laid, sum(h * n for h, n in columns)]


@given(columns=heights, length=st.integers(1, 30), number=st.integers(1, 60))
def test_pieces_are_the_fewest_that_fit(columns: list[tuple[int, int]], length: int, number: int) -> None:
    found = fewest_pieces(columns, length, number)
    fits = [n for n in range(1, length + 1) if chains(columns, -(-length // n)) >= n * number]
    if length * number > sum(height * count for height, count in columns):
        assert found is None
    else:
        assert found == min(fits)


def test_the_search_offers_the_reference_core_only_what_places() -> None:
    for name in ("zc706", "zcu104"):
        board = load_board(name)
        space = legal_space(board)
        rtl = buildable(space, Target(board=board)).space
        hls = buildable(space, Target(board=board, core="hls")).space
        assert np.all(chains(board.dsp_columns, rtl.t_p) >= rtl.t_c)
        assert not np.all(chains(board.dsp_columns, hls.t_p) >= hls.t_c)
        unknown = replace(board, dsp_columns=(), sources={})
        assert len(buildable(space, Target(board=unknown)).space) > len(rtl)


@pytest.mark.parametrize(
    ("board", "t_p", "t_c", "held"), [("zcu104", 27, 64, 60), ("zcu104", 54, 32, 24), ("zc706", 28, 32, 31)]
)
def test_a_point_that_cannot_be_placed_is_refused(board: str, t_p: int, t_c: int, held: int) -> None:
    point = Point(t_r=512, t_p=t_p, t_c=t_c)
    with pytest.raises(FitError, match=f"hold {held} whole chains of {t_p}, and {t_c} PEs .* need {t_c}") as caught:
        fit(point, Target(board=load_board(board)))
    assert caught.value.resource == "dsp_columns"
    assert fit(point, Target(board=load_board(board), core="hls")).dsp >= t_p * t_c


def test_a_board_may_keep_slices_for_others() -> None:
    board = replace(load_board("zc706"), dsp_most_pct=90)
    with pytest.raises(FitError, match="it has 810 within the 90 % that its file lets a design take"):
        fit(Point(t_r=512, t_p=7, t_c=128), Target(board=board, memory="pl"))
    assert fit(Point(t_r=512, t_p=7, t_c=112), Target(board=board, memory="pl")).dsp <= 810


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (((140, 5),), "must hold the 900 DSP slices of the device, not 700"),
        (((140,),), "must be pairs of a height and a number of columns"),
        (((0, 5), (140, 7)), "a number of dsp_columns must be a whole number in 1"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: tuple[tuple[int, ...], ...], says: str) -> None:
    with pytest.raises(BoardError, match=says):
        replace(load_board("zc706"), dsp_columns=columns)  # type: ignore[arg-type]


def test_the_price_names_the_array_that_is_left_out() -> None:
    """On four columns of ten slices chains of four leave two slices each: eight of ten PEs have room."""
    window = Window(kernel=(1, 1), out=(8, 8), channels=64)
    work = Workload(name="one", layers=(LayerShape(name="conv", r=64, p=64, c=64, window=window),))
    small = replace(load_board("zc706"), name="small", dsp=44, dsp_columns=((11, 4),), sources={})
    found = explore(work, small, b_max=1, model="exact", evaluations=2)
    assert found.design.t_c <= chains(small.dsp_columns, found.design.t_p)
    price = found.price_of_columns()
    assert price.startswith("the columns of DSP slices leave out ")
    free = explore(work, replace(small, dsp_columns=()), b_max=1, model="exact", evaluations=2)
    assert free.frames_per_second[0] >= found.frames_per_second[0]
    assert "asks nothing" in explore(work, small, b_max=1, model="exact", core="hls", evaluations=1).price_of_columns()
    assert "says nothing" in replace(free).price_of_columns()
