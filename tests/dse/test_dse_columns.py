"""Chains of multiply-accumulates in columns of DSP slices: counting, searching, and the price."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import BoardFileError, load_board
from fluidnpu.dse import DesignError, FitError, Point, Target, fit
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exploration.placing import price_of_columns
from fluidnpu.dse.hardware.space import legal_space
from fluidnpu.dse.question import Question
from fluidnpu.dse.resources.buildable import buildable
from fluidnpu.dse.resources.columns import MOST_BREAKS, WHOLE, Cut, Place, broken_elements, chains, fewest_breaks, lay
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


def check_places(places: tuple[Place, ...], columns: list[tuple[int, int]], length: int, number: int) -> None:
    """Every word of every chain lies in one slice, a piece in a row in one column, none above its column."""
    height = [high for high, count in sorted(columns, reverse=True) for _ in range(count)]
    slices = [(place.column, place.offset + word) for place in places for word in range(place.words)]
    assert len(set(slices)) == len(slices) == length * number
    assert all(0 <= at < height[column] for column, at in slices)
    words = sorted((place.pe, place.first + word) for place in places for word in range(place.words))
    assert words == [(pe, word) for pe in range(number) for word in range(length)]


@given(columns=heights, length=st.integers(1, 60), number=st.integers(1, 60), stackable=st.booleans())
def test_every_piece_has_a_place_of_its_own(
    columns: list[tuple[int, int]], length: int, number: int, stackable: bool
) -> None:
    cut = fewest_breaks(tuple(columns), length, number, stackable=stackable)
    if cut is None:
        assert chains(columns, length) < number
        return
    places = lay(columns, length, number, cut, stackable=stackable)
    check_places(places, columns, length, number)
    pieces = [sum(place.pe == pe for place in places) for pe in range(number)]
    broken = {pe for pe in range(number) if pieces[pe] > 1}
    assert len(broken) == cut.broken
    assert max(pieces) <= MOST_BREAKS + 1
    assert {place.words for place in places if place.pe in broken} <= {
        cut.piece,
        length % cut.piece if cut.piece else 0,
    }
    if stackable:
        assert all((pe in broken) == (pe + number // 2 in broken) for pe in range(number // 2))
    assert (cut == WHOLE) == (chains(columns, length) >= number)


@given(columns=heights, length=st.integers(2, 12), number=st.integers(1, 12))
def test_no_chain_breaks_without_need(columns: list[tuple[int, int]], length: int, number: int) -> None:
    """No way of fewer breaks, or of as many in fewer chains, fits as `lay` lays."""
    cut = fewest_breaks(tuple(columns), length, number, stackable=False)
    ways = [(breaks, broken, piece) for breaks in range(1, MOST_BREAKS + 1) for broken in range(1, number + 1)
            for piece in range(1, length) if -(-length // piece) == breaks + 1]  # fmt: skip
    for breaks, broken, piece in ways:
        with contextlib.suppress(DesignError):
            lay(columns, length, number, Cut(piece, broken), stackable=False)
            assert cut is not None
            assert (-(-length // cut.piece) - 1 if cut.broken else 0, cut.broken) <= (breaks, broken)


def test_a_piece_without_room_is_named() -> None:
    with pytest.raises(
        DesignError, match=r"2 chains of 6 .* 2 of them in pieces of 4, must fit 2 columns .* of 2 does not"
    ):
        lay([(5, 2)], 6, 2, Cut(4, 2))


def test_elements_that_break_are_pairs() -> None:
    for number in range(2, 9):
        for broken in range(2 - number % 2, number + 1, 2 - number % 2):
            found = broken_elements(number, broken)
            assert len(found) == broken
            paired = {pe for pe in found if pe < 2 * (number // 2)}
            assert all((pe + number // 2) % (2 * (number // 2)) in paired for pe in paired)


def test_the_search_offers_the_reference_core_only_what_places() -> None:
    """Whole or in pieces: all that the HLS core could have, on these boards."""
    for name in ("zc706", "zcu104"):
        board = load_board(name)
        space = legal_space(board)
        built = buildable(space, Target(board=board, core="rtl")).shape.array
        held = chains(board.dsp_columns, np.asarray(built.t_p))
        assert np.all((held >= built.t_c) | (np.asarray(built.broken) > 0))
        assert np.all((held < built.t_c) | (np.asarray(built.broken) == 0))
        assert np.any(np.asarray(built.broken) > 0)
        assert not np.any(buildable(space, Target(board=board, core="hls")).shape.array.broken)
        unknown = replace(board, dsp_columns=(), sources={})
        assert len(buildable(space, Target(board=unknown, core="rtl")).space) == np.size(built.t_p)


@pytest.mark.parametrize(
    ("board", "t_p", "t_c", "cut"),
    [
        ("zcu104", 27, 64, Cut(24, 24)),
        ("zcu104", 54, 32, Cut(48, 24)),
        ("zc706", 28, 32, Cut(22, 2)),
        ("zc706", 7, 128, WHOLE),
    ],
)
def test_headline_arrays_place_with_one_break(board: str, t_p: int, t_c: int, cut: Cut) -> None:
    point, on = Point(t_r=512, t_p=t_p, t_c=t_c), load_board(board)
    array = fit(point, Target(board=on, memory="pl" if board == "zc706" else None, core="rtl")).array
    assert Cut(array.piece, array.broken) == cut
    check_places(lay(on.dsp_columns, t_p, t_c, cut), list(on.dsp_columns), t_p, t_c)
    assert not fit(point, Target(board=on, core="hls")).array.broken


def test_what_even_columns_would_hold_whole_breaks_on_the_columns_that_a_zcu104_has() -> None:
    """Twelve columns of 144 slices, which were its file, hold 104 arrays whole that the device does not."""
    true, even = load_board("zcu104").dsp_columns, ((144, 12),)
    pairs = [(t_p, t_c) for t_p in range(4, 97) for t_c in range(1, 1728 // t_p + 1)]
    lost = [(t_p, t_c) for t_p, t_c in pairs if chains(even, t_p) >= t_c > chains(true, t_p)]
    assert len(lost) == 104
    for t_p, t_c in lost:
        with pytest.raises(DesignError, match="must fit 14 columns of DSP slices"):
            lay(true, t_p, t_c, WHOLE)
        cut = fewest_breaks(true, t_p, t_c)
        assert cut is not None
        assert 2 * cut.piece >= t_p  # one break
        check_places(lay(true, t_p, t_c, cut), list(true), t_p, t_c)


def test_a_point_that_cannot_be_placed_is_refused() -> None:
    """Chains as long as the device are higher than its columns by more than three breaks."""
    point = Point(t_r=512, t_p=650, t_c=2)
    with pytest.raises(
        FitError, match=r"hold 0 whole chains of 650, and 2 PEs .* need 2: .* at most 4 pieces"
    ) as caught:
        fit(point, Target(board=replace(load_board("zcu104"), lut=1 << 20, ff=1 << 20, sources={}), core="rtl"))
    assert caught.value.resource == "dsp_columns"


def test_a_board_may_keep_slices_for_others() -> None:
    board = replace(load_board("zc706"), dsp_most_pct=90)
    with pytest.raises(FitError, match="it has 810 within the 90 % that its file lets a design take"):
        fit(Point(t_r=512, t_p=7, t_c=128), Target(board=board, memory="pl", core="rtl"))
    assert fit(Point(t_r=512, t_p=7, t_c=112), Target(board=board, memory="pl", core="rtl")).dsp <= 810


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (((140, 5),), "must hold the 900 DSP slices of the device, not 700"),
        (((140,),), "must be pairs of a height and a number of columns"),
        (((0, 5), (140, 7)), "a number of dsp_columns must be a whole number in 1"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: tuple[tuple[int, ...], ...], says: str) -> None:
    with pytest.raises(BoardFileError, match=says):
        replace(load_board("zc706"), dsp_columns=columns)  # type: ignore[arg-type]


def test_the_price_is_that_of_the_breaks() -> None:
    """Four columns of eleven slices hold four chains of seven, and the pieces of two more."""
    window = Window(kernel=(1, 1), out=(8, 8), channels=64)
    work = Workload(name="one", layers=(LayerShape(name="conv", r=64, p=64, c=64, window=window),))
    small = replace(load_board("zc706"), name="small", dsp=44, dsp_columns=((11, 4),), sources={})
    question = Question(workload=work, board=small, b_max=1, model="exact", core="rtl")
    fitted = fit(Point(t_r=64, t_p=7, t_c=6), question.target)
    assert Cut(fitted.array.piece, fitted.array.broken) == fewest_breaks(small.dsp_columns, 7, 6) != WHOLE
    whole = replace(fitted, array=replace(fitted.array, piece=0, broken=0))
    cycles = [evaluate_array(question, one, [1]).total(work.layers, 1) for one in (fitted, whole)]
    assert cycles[0] > cycles[1]
    price = price_of_columns(question, fitted)
    assert f"which costs {cycles[0] - cycles[1]:,} of {cycles[1]:,} cycles" in price
    assert price.startswith(f"{fitted.array.broken} of 6 chains of 7 break into pieces of {fitted.array.piece} and ")
    assert price_of_columns(question, whole).startswith("each of the 6 chains of 7 lies whole")
    assert "asks nothing" in price_of_columns(replace(question, core="hls"), whole)
    assert "says nothing" in price_of_columns(replace(question, board=replace(small, dsp_columns=())), whole)


@given(
    columns=st.lists(st.tuples(st.integers(9, 60), st.integers(1, 3)), min_size=1, max_size=3),
    length=st.integers(3, 40),
    lanes=st.integers(1, 12),
)
def test_chains_leave_room_for_the_lanes_of_a_filter(columns: list[tuple[int, int]], length: int, lanes: int) -> None:
    held = chains(columns, length, lanes)
    heights = sorted((height for height, count in columns for _ in range(count)), reverse=True)
    left, number = 0, held
    for height in heights:  # as `lay` fills them
        taken = min(number, height // length)
        number, left = number - taken, left + (height - taken * length) // 9
    assert held == 0 or (left >= lanes and held <= chains(columns, length))
    cut = fewest_breaks(tuple(columns), length, held + 1, lanes=lanes)
    assert cut is None or cut != WHOLE
    assert held == 0 or fewest_breaks(tuple(columns), length, held, lanes=lanes) == WHOLE
