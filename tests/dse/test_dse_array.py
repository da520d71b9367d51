"""The PE array: one answer to the size of a tile, for one array and for many side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import DesignError, DramModel, Mode
from fluidnpu.dse.exact import Machine
from fluidnpu.dse.hardware.array import Array, Floats, Ints, ceil_div, floor_div
from fluidnpu.dse.testing import tiny_design

arrays: st.SearchStrategy[Array[int]] = st.builds(
    Array,
    t_r=st.integers(2, 9000),
    t_p=st.integers(2, 30).map(lambda half: 2 * half),
    t_c=st.integers(2, 300),
    weight_slots=st.integers(1, 8),
    in_words=st.integers(1, 64),
    stackable=st.just(True),
    split=st.just(True),
)


@given(st.lists(arrays, min_size=1, max_size=5), st.sampled_from(list(Mode)), st.integers(1, 600))
def test_many_side_by_side_are_as_each_alone(drawn: list[Array[int]], mode: Mode, columns: int) -> None:
    names = ("t_r", "t_p", "t_c", "weight_slots", "in_words")
    numbers: dict[str, Any] = {name: np.array([getattr(one, name) for one in drawn]) for name in names}
    whole: Array[Ints] = Array(**numbers, split=True)
    floats: Array[Floats] = whole.side_by_side()
    for index, one in enumerate(drawn):
        assert whole.at(index) == one
        for many in (whole, floats):
            assert _row(many, mode, columns, index) == (
                *one.tile(mode), one.tile_beats(mode, columns), one.bias_beats(columns), one.macs, one.columns, one.weight_words,
            )  # fmt: skip
        assert whole.line_words[index] == one.line_words


def _row(many: Array[Any], mode: Mode, columns: int, index: int) -> tuple[int, ...]:
    """The figures of one of many arrays."""
    each = np.full_like(many.t_p, columns)
    numbers = (
        *many.tile(mode), many.tile_beats(mode, each), many.bias_beats(each), many.macs, many.columns, many.weight_words,
    )  # fmt: skip
    return tuple(int(number[index]) for number in numbers)


@given(arrays)
def test_a_row_of_one_holds_the_same_numbers(array: Array[int]) -> None:
    assert array.side_by_side().at(0) == array
    assert array.side_by_side().t_r.dtype == np.float64


def test_every_mode_multiplies_with_the_whole_array_or_one_lane_of_it() -> None:
    array = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8, split=True)
    products = {mode: width * columns for mode in Mode for width, columns in (array.tile(mode),)}
    assert products == {
        Mode.NORMAL: 32, Mode.WIDE: 32, Mode.LANES: 16, Mode.SPLIT: 32, Mode.MAX_POOL: 64, Mode.SUM_POOL: 64,
    }  # fmt: skip


def test_design_and_machine_have_the_same_tiles() -> None:
    design = tiny_design().changed(port_bits=512)
    machine = Machine.of(design)
    for mode in Mode:
        assert design.tile(mode) == machine.array.tile(mode)
    assert design.tile(Mode.SUM_POOL) == (32, 32)


def test_streams_keep_up_with_the_ports() -> None:
    array = Array.on(load_board("zc706"), "pl", t_r=512, t_p=7, t_c=128)
    assert (array.in_words, array.out_words, array.weight_words) == (32, 32, 35)
    single = Array.on(load_board("zc706"), "ps", t_r=512, t_p=7, t_c=128, stackable=False)
    assert (single.in_words, single.out_words, single.weight_slots) == (7, 8, 1)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"t_r": 0}, "t_r must be a whole number of at least 1, not 0"),
        ({"in_words": True}, "in_words must be a whole number of at least 1, not True"),
        ({"out_words": 1.5}, "out_words must be a whole number"),
        ({"t_c": 1}, "t_c must be at least 2 when stackable PEs are on, not 1"),
        ({"t_p": 3, "split": True}, "t_p must be even and t_r at least 2 when trees split, not 3 and 64"),
        ({"t_c": np.array([2, 0])}, "t_c must be a whole number"),
    ],
)
def test_arrays_that_cannot_be(wrong: dict[str, object], says: str) -> None:
    array = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8)
    with pytest.raises(DesignError, match=says):
        replace(array, **wrong)  # type: ignore[arg-type]


@given(st.integers(0, 2**40), st.integers(1, 2**20))
def test_quotients_of_floats_are_those_of_whole_numbers(value: int, by: int) -> None:
    floats = np.array([float(value)])
    assert int(ceil_div(floats, by)[0]) == ceil_div(value, by) == -(-value // by)
    assert int(floor_div(floats, by)[0]) == floor_div(value, by) == value // by


def test_rates_of_a_memory_count_refresh() -> None:
    dram = DramModel(link_words=3.0, total_words=40.0, refresh_interval_cycles=10, refresh_cycles=1)
    rates = dram.rates(port_words=16, stripes=4)
    assert [rates.port, rates.total] == pytest.approx([10.8, 36.0])
    assert rates.burst == pytest.approx(12.0)
    assert DramModel.IDEAL.rates(8).port == 8
    assert DramModel.IDEAL.rates(8).total == float("inf")
