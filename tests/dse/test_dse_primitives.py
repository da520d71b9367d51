"""Primitives and logic by arithmetic: measured counts are met, arrays agree with single designs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse.hardware.array import Array, input_words
from fluidnpu.dse.resources import LOGIC_KINDS, PARTS, NpuShape, logic_table, logic_terms, part_primitives, ultra_banks
from fluidnpu.dse.resources.logic import npu_logic
from fluidnpu.dse.resources.memories import block_rams, free_memory, ultra_rams
from fluidnpu.dse.resources.primitives import (
    core_memories,
    data_plane_memories,
    dsp,
    engine_dsp,
    mapped,
    ramb18,
    uram288,
)
from fluidnpu.dse.testing import tiny_design

# RAMB18s and URAMs that Yosys 0.70 took for `core_bank`, by family, depth and width; the tests of rtl_tb
# synthesise some of them again.
MEASURED_BANKS = [
    ("xc7", 512, 48, 2, 0), ("xc7", 600, 36, 2, 0), ("xc7", 1024, 48, 3, 0), ("xc7", 1536, 48, 5, 0), ("xc7", 4096, 48, 12, 0),
    ("xc7", 65534, 48, 192, 0), ("xc7", 2048, 45, 5, 0), ("xc7", 4167, 48, 14, 0), ("xc7", 32769, 32, 68, 0), ("xc7", 33116, 44, 85, 0),
    ("xc7", 43204, 32, 88, 0), ("xcup", 2610, 32, 6, 0), ("xcup", 4181, 36, 9, 0), ("xcup", 34457, 48, 102, 0), ("xcup", 57086, 36, 112, 0),
    ("xcup", 547, 48, 0, 1), ("xcup", 4460, 36, 0, 1), ("xcup", 4728, 48, 0, 2), ("xcup", 24577, 35, 0, 4), ("xcup", 34289, 44, 0, 6),
    ("xcup", 59292, 48, 0, 10),
]  # fmt: skip

# RAMB18s and storing LUTs that it took for `common_fifo` on 7-series, by depth and width.
MEASURED_QUEUES = [
    (2, 20, 0, 16), (32, 28, 0, 20), (33, 20, 0, 28), (64, 204, 0, 272), (65, 20, 0, 48), (65, 28, 1, 0), (86, 108, 3, 0), (128, 20, 0, 56),
    (128, 64, 2, 0), (128, 144, 4, 0), (256, 20, 1, 0), (256, 204, 6, 0),
]  # fmt: skip


@pytest.mark.parametrize(("family", "depth", "width", "blocks", "ultras"), MEASURED_BANKS)
def test_banks_are_counted_as_measured(family: str, depth: int, width: int, blocks: int, ultras: int) -> None:
    assert (ultra_rams(depth, width) if ultras else block_rams(depth, width, family)) == (ultras or blocks)


@pytest.mark.parametrize(("depth", "width", "blocks", "luts"), MEASURED_QUEUES)
def test_queues_are_counted_as_measured(depth: int, width: int, blocks: int, luts: int) -> None:
    found = free_memory(depth, width, forwards=True)
    assert [int(found.ramb18), int(found.luts)] == [blocks, luts]


@pytest.mark.parametrize(
    ("b_max", "layers", "measured"),
    [
        (3, 85, 0),
        (3, 86, 1),
        (6, 85, 0),
        (6, 86, 1),
        (10, 51, 0),
        (10, 52, 1),
        (12, 43, 0),
        (12, 92, 1),
        (14, 36, 0),
        (14, 37, 1),
    ],
)
def test_the_engine_takes_a_dsp_where_yosys_gives_it_one(b_max: int, layers: int, measured: int) -> None:
    shape = replace(NpuShape.of(tiny_design(), load_board("zc706")), b_max=b_max, layers=layers)
    assert engine_dsp(shape) == measured


arrays = st.builds(
    Array,
    t_r=st.integers(2, 20_000),
    t_p=st.integers(2, 20).map(lambda half: 2 * half),
    t_c=st.integers(2, 300),
    weight_slots=st.integers(1, 5),
    in_words=st.just(1),  # see `behind`
    out_words=st.integers(1, 16),
    stackable=st.booleans(),
    split=st.booleans(),
)


def behind(shape: NpuShape) -> NpuShape:
    """The shape with input beats as wide as its array and its ports ask for."""
    array = one_array(shape)
    words = input_words(array.t_p, 8 * shape.port_bytes, stackable=array.stackable)
    return replace(shape, array=replace(array, in_words=words))


def one_array(shape: NpuShape) -> Array[int]:
    return cast(Array[int], shape.array)


shapes = st.builds(
    NpuShape,
    array=arrays,
    acc_bits=st.integers(32, 48),
    b_max=st.integers(1, 16),
    layers=st.integers(1, 300),
    port_bytes=st.sampled_from((8, 16, 64)),
    buffer_words=st.sampled_from((1 << 15, 1 << 18)),
    family=st.sampled_from(("xc7", "xcup")),
).map(behind)


def everything(shape: NpuShape) -> dict[str, Any]:
    found: dict[str, Any] = {f"{part} {name}": n for part in PARTS for name, n in part_primitives(part, shape).items()}
    return found | dict(npu_logic(shape))


@given(st.lists(shapes, min_size=2, max_size=4))
@settings(max_examples=20)
def test_a_whole_space_is_counted_as_its_designs_one_by_one(drawn: list[NpuShape]) -> None:
    first = drawn[0].array
    fixed: dict[str, Any] = {name: getattr(first, name) for name in ("out_words", "stackable", "split")}
    drawn = [behind(replace(drawn[0], array=replace(one.array, **fixed))) for one in drawn]
    varied: dict[str, Any] = {name: np.array([getattr(one.array, name) for one in drawn]) for name in VARIED}
    space = replace(drawn[0], array=Array(**varied, **fixed))
    for name, values in everything(space).items():
        single = [everything(one)[name] for one in drawn]
        np.testing.assert_allclose(np.broadcast_to(values, len(drawn)), single, rtol=1e-12, err_msg=name)


VARIED = ("t_r", "t_p", "t_c", "weight_slots", "in_words")


@given(shapes)
@settings(max_examples=30)
def test_the_parts_make_the_whole(shape: NpuShape) -> None:
    for name, whole in (("dsp", dsp(shape)), ("ramb18", sum(ramb18(shape).values())), ("uram288", uram288(shape))):
        assert sum(int(part_primitives(part, shape)[name]) for part in PARTS) == whole


@given(shapes, st.sampled_from(("acc_bits", "weight_slots", "b_max", "port_bytes")))
@settings(max_examples=30)
def test_more_of_anything_never_takes_less_logic_where_no_memory_moves_to_block_ram(shape: NpuShape, name: str) -> None:
    array = replace(one_array(shape), t_r=512)
    shape = replace(shape, array=array)
    larger = behind(
        {
            "acc_bits": replace(shape, acc_bits=min(48, shape.acc_bits + 1)),
            "weight_slots": replace(shape, array=replace(array, weight_slots=array.weight_slots + 1)),
            "b_max": replace(shape, b_max=shape.b_max + 1),
            "port_bytes": replace(shape, port_bytes=2 * shape.port_bytes),
        }[name]
    )
    memories = (
        (*core_memories(shape), *data_plane_memories(shape)),
        (*core_memories(larger), *data_plane_memories(larger)),
    )
    assume(
        all(
            (mapped(a, shape.family).luts > 0) <= (mapped(b, shape.family).luts > 0)
            for a, b in zip(*memories, strict=True)
        )
    )
    for kind in LOGIC_KINDS:
        assert npu_logic(shape)[kind] <= npu_logic(larger)[kind]


@given(shapes)
@settings(max_examples=30)
def test_ultraram_takes_banks_off_block_ram(shape: NpuShape) -> None:
    board = load_board("zcu104")
    banks = int(ultra_banks(shape, board))
    moved = replace(shape, ultra_banks=banks)
    assert 0 <= banks <= int(shape.banks)
    assert uram288(moved) <= board.uram288
    assert ramb18(moved)["accumulators"] <= ramb18(shape)["accumulators"]
    assert int(ultra_banks(shape, load_board("zc706"))) == 0


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", LOGIC_KINDS)
def test_the_calibration_has_a_coefficient_for_every_term(part: str, kind: str) -> None:
    entry = logic_table()[part][kind]
    shape = NpuShape.of(tiny_design(), load_board("zc706"))
    assert set(entry["coefficients"]) == set(logic_terms(part, kind, shape))
    assert all(value >= 0 for value in entry["coefficients"].values())
    assert entry["worst_pct"] <= entry["interval_pct"]


def test_an_activation_unit_takes_a_ram_a_lane_and_its_multipliers() -> None:
    board = load_board("zc706")
    none, logic, slices = (
        NpuShape.of(replace(tiny_design(), activation=where), board) for where in (None, "lut", "dsp")
    )
    lanes = none.array.out_words
    more = [{use: count - part_primitives("data_plane", none)[use] for use, count in part_primitives("data_plane", one).items()}
            for one in (logic, slices)]  # fmt: skip
    assert more == [{"dsp": dsps, "ramb18": lanes, "uram288": 0} for dsps in (0, lanes)]
    assert dsp(slices) == dsp(logic) + lanes == dsp(none) + lanes
    assert part_primitives("core", slices) == part_primitives("core", none)
