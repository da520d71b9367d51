"""RAM primitives by arithmetic: counts of known cases; an array that fits does fit, as deep as it can."""

from dataclasses import replace

import numpy as np
import pytest
from dse_strategies import points, small_boards
from hypothesis import assume, given
from hypothesis import strategies as st

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import FitError, Point, Target, fit
from fluidnpu.dse.hardware.array import Array, weight_slots_for
from fluidnpu.dse.resources import NpuShape
from fluidnpu.dse.resources.buildable import DEPTH_STEP, MAX_T_R
from fluidnpu.dse.resources.fit import Fit
from fluidnpu.dse.resources.memories import FAMILIES, block_rams, ultra_rams
from fluidnpu.dse.resources.primitives import fixed_ramb18


@pytest.mark.parametrize(
    ("depth", "width", "ramb18"),
    [
        (1024, 18, 1),
        (512, 36, 1),
        (16384, 1, 1),
        (513, 36, 2),
        (2048, 36, 4),  # "an accumulator bank of 2048 x 36 bit is 2 RAMB36"
        (9304, 16, 10),  # double-buffered 4652 x 16: 5 RAMB36
        (13664, 16, 14),  # 7 RAMB36
        (1024, 48, 3),
        (1536, 48, 5),  # three chunks of 54 bits side by side
        (1, 1, 1),
    ],
)
def test_known_counts(depth: int, width: int, ramb18: int) -> None:
    assert block_rams(depth, width) == ramb18


@given(st.integers(1, 40_000), st.integers(1, 100), st.integers(1, 5000), st.sampled_from(sorted(FAMILIES.values())))
def test_a_deeper_memory_never_takes_fewer(depth: int, width: int, more: int, family: str) -> None:
    assert block_rams(depth, width, family) <= block_rams(depth + more, width, family)
    assert ultra_rams(depth, width) <= ultra_rams(depth + more, width)
    assert block_rams(depth, width) * 18 * 1024 >= depth * width
    assert ultra_rams(depth, width) * 288 * 1024 >= depth * width


@pytest.mark.parametrize("family", sorted(FAMILIES.values()))
@pytest.mark.parametrize("width", range(32, 49))
def test_no_deeper_bank_of_any_width_takes_fewer(family: str, width: int) -> None:
    """The deepest banks that fit are found by bisection."""
    depths = np.arange(1, MAX_T_R + 1)
    assert (np.diff(block_rams(depths, width, family)) >= 0).all()
    assert (np.diff(ultra_rams(depths, width)) >= 0).all()


def _fit_or_none(point: Point, target: Target) -> Fit | None:
    try:
        return fit(point, target)
    except FitError as error:
        if error.needed <= error.available:
            pytest.fail(f"refused although {error.needed} of {error.available} are enough: {error}")
        return None


@given(
    points,
    st.one_of(small_boards(), st.sampled_from([load_board("zc706"), load_board("zcu104")])),
    st.integers(0, 250),
)
def test_what_fits_fits_and_is_as_deep_as_can_be(point: Point, board: Board, layers: int) -> None:
    found = _fit_or_none(point, Target(board=board, layers=layers, core="rtl"))
    if found is None:
        return
    assert found.ramb18 == sum(found.parts.values()) <= board.ramb18
    assert found.uram288 <= board.uram288
    assert found.dsp == point.dsp <= board.dsp
    assert found.uram_banks + found.ramb_banks == 2 * point.t_c
    assert found.t_r % 2 == 0
    assert 2 <= found.t_r <= max(2, point.t_r)
    if found.t_r < point.t_r // 2 * 2:  # it had to give: one step deeper needs more than there is
        deeper = min(point.t_r // 2 * 2, MAX_T_R, (found.t_r // DEPTH_STEP + 1) * DEPTH_STEP)
        banks = 2 * point.t_c
        buffer = found.uram288 - found.uram_banks * ultra_rams(found.t_r, 48)
        on_uram = min(banks, int((board.uram288 - buffer) // ultra_rams(deeper, 48)))
        rest = found.ramb18 - found.parts["accumulators"]
        assert (banks - on_uram) * block_rams(deeper, 48, FAMILIES[board.family]) + rest > board.ramb18


@given(points, st.integers(32, 48), st.integers(32, 48))
def test_narrower_sums_are_never_shallower(point: Point, narrow: int, wide: int) -> None:
    assume(narrow <= wide and point.t_p >= 3 and point.t_c >= 2)
    board = replace(load_board("zc706"), dsp=20_000, dsp_columns=(), ramb36=2000, sources={})
    deep, shallow = (fit(point, Target(board=board, acc_bits=bits, core="rtl")).t_r for bits in (narrow, wide))
    assert deep >= shallow


def test_the_published_resnet_points_shrink() -> None:
    zc, zcu = (
        fit(p, Target(board=load_board(b), core="hls"))  # 172 chains of ten do not fit the columns of a ZCU104
        for p, b in ((Point(t_r=4652, t_p=7, t_c=128), "zc706"), (Point(t_r=6832, t_p=10, t_c=172), "zcu104"))
    )
    assert zc.t_r < 4652
    assert zcu.t_r < 6832
    assert (zcu.uram_banks, zcu.uram288) == (80, 96)  # the input buffer takes the others
    narrow = fit(Point(t_r=4652, t_p=7, t_c=128), Target(board=load_board("zc706"), acc_bits=36, core="rtl"))
    assert narrow.t_r == 2048
    assert narrow.parts["accumulators"] == 2 * 512  # 512 RAMB36


@pytest.mark.parametrize(
    ("point", "board", "resource", "says"),
    [
        (Point(t_r=64, t_p=2, t_c=64), "zc706", "t_p", "t_p of at least 3, not 2"),
        (Point(t_r=64, t_p=64, t_c=1), "zc706", "t_c", "t_c of at least 2, not 1"),
        (Point(t_r=64, t_p=3, t_c=5000), "zc706", "t_c", "at most 4095"),
        (Point(t_r=64, t_p=30, t_c=31), "zc706", "dsp", "need 930 DSPs, and it has 900"),
        (Point(t_r=64, t_p=3, t_c=290), "zc706", "ramb18", r"need \d+ RAMB18 .* and it has 1090"),
    ],
)
def test_refusals_name_resource_needed_and_available(point: Point, board: str, resource: str, says: str) -> None:
    with pytest.raises(FitError, match=says) as caught:
        fit(point, Target(board=load_board(board), core="rtl"))
    assert caught.value.resource == resource
    assert str(caught.value.needed) in str(caught.value)
    assert str(caught.value.available) in str(caught.value)


def test_single_pes_are_allowed_without_stacking() -> None:
    assert (
        fit(Point(t_r=64, t_p=8, t_c=1), Target(board=load_board("zc706"), stackable=False, core="rtl")).ramb_banks == 2
    )


def test_small_fbcbs_stay_in_lutram() -> None:
    array = Array(t_r=64, t_p=7, t_c=8, weight_slots=1, in_words=14)
    shapes = {n: NpuShape(array=array, layers=n, b_max=1) for n in (64, 128, 432, 600)}
    assert {n: int(fixed_ramb18(shape)["fbcb"]) for n, shape in shapes.items()} == {64: 0, 128: 1, 432: 1, 600: 2}


@pytest.mark.parametrize(("name", "what"), [("lut", "LUTs"), ("ff", "flip-flops")])
def test_logic_must_fit_with_its_whole_interval(name: str, what: str) -> None:
    point, board = Point(t_r=512, t_p=7, t_c=64), load_board("zc706")
    need = getattr(fit(point, Target(board=board, core="rtl")), name)

    def with_room(number: int) -> Target:
        return Target(board=replace(board, sources={}, **{name: number}), core="rtl")  # type: ignore[arg-type]

    assert fit(point, with_room(need.high)).dsp == 448
    with pytest.raises(FitError, match=f"need up to {need.high} {what} .* and it has {need.high - 1}") as caught:
        fit(point, with_room(need.high - 1))
    assert (caught.value.resource, caught.value.needed, caught.value.available) == (name, need.high, need.high - 1)


def test_weight_slots_follow_the_memory() -> None:
    assert [weight_slots_for(t_p, 128) for t_p in (3, 7, 8, 16, 300)] == [3, 2, 1, 1, 1]
