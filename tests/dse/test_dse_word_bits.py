"""Words of 8 bits in designs, resources and the search: everything that counts words counts them (ADR 75)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DesignError, DramModel, Mode, Question, answer
from fluidnpu.dse.exact.bound import Candidates, lower_bound
from fluidnpu.dse.exact.estimate import estimated_plan
from fluidnpu.dse.exact.mapping import LayerMapping, mappings
from fluidnpu.dse.exact.model import Machine, layer_cost
from fluidnpu.dse.exact.search import best_plan, synthetic_job
from fluidnpu.dse.hardware.array import Array, weight_slots_for
from fluidnpu.dse.resources.buildable import buildable, least_point, target_space
from fluidnpu.dse.resources.columns import WHOLE, fewest_segments
from fluidnpu.dse.resources.primitives import NpuShape, dsp, ramb18
from fluidnpu.dse.testing import design_for
from fluidnpu.models import LayerShape, Window, Workload

WINDOW = Window(kernel=(3, 3), out=(14, 14), channels=64)
LAYER = LayerShape(name="conv", r=196, p=576, c=96, window=WINDOW)
WORK = Workload(name="one", layers=(LAYER,), exits=("final",))
SIZES: dict[str, Any] = {"t_p": 9, "t_c": 8, "weight_slots": 2}
BOARD = replace(load_board("zcu104"), part="of no prediction", sources={})


def packed(**sizes: Any) -> Design:
    return design_for(WORK, word_bits=8, **(SIZES | sizes))


def test_a_file_says_the_width_only_where_it_is_eight() -> None:
    design = packed()
    assert Design.loads(design.dumps()) == design
    assert {"word_bits", "field_bits"} <= set(json.loads(design.dumps()))
    assert not {"word_bits", "field_bits"} & set(json.loads(design_for(WORK, **SIZES).dumps()))
    assert design.rtl_parameters()["WordBits"] == 8
    assert "WordBits" not in design_for(WORK, **SIZES).rtl_parameters()
    assert (design.acc_bits, design.word_bytes, design.array.bias_words, design.array.chains) == (32, 1, 8, 4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"t_c": 6}, "t_c must be a multiple of 4 where words have 8 bits, not 6"),
        ({"weight_slots": 3}, "weight_slots must be even where words have 8 bits, not 3"),
        ({"split": True, "t_p": 8}, "trees must not split"),
        ({"word_bits": 12}, "word_bits must be 16 or 8, not 12"),
        ({"word_bits": 8.0}, "word_bits must be 16 or 8, not 8.0"),
        ({"field_bits": 18.0}, "field_bits must be 17 or 18, not 18.0"),
        ({"field_bits": 16}, "field_bits must be 17 or 18, not 16"),
        ({"broken": 2, "piece": 4}, "all chains break where words have 8 bits, or none, not 2 of 4"),
        ({"acc_bits": 40}, "acc_bits must be 32 where words have 8 bits, not 40"),
        ({"model": "paper"}, "words must have 16 bits in a design of the paper's model"),
    ],
)
def test_what_eight_bits_cannot_be_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DesignError, match=says):
        packed().changed(**change)


def test_the_paper_model_knows_no_other_width() -> None:
    with pytest.raises(DesignError, match="words must have 16 bits for the paper's model"):
        Question(workload=WORK, board=BOARD, model="paper", bits=8)
    with pytest.raises(DesignError, match="bits of a word must be 16 or 8, not 4"):
        Question(workload=WORK, board=BOARD, bits=4)


def test_a_header_is_a_slot_of_eight_words() -> None:
    array = packed(t_p=17).array
    assert array.biases_per_beat == 4
    with pytest.raises(DesignError, match="t_p must be at least 8 to carry a column's header of 64 bits"):
        Machine(array=replace(array, t_p=7))


@pytest.mark.parametrize(
    ("t_p", "field_bits", "piece", "late"), [(24, 18, 0, 31), (14, 17, 0, 21), (17, 17, 0, 17), (26, 18, 13, 21)]
)
def test_sums_come_late_by_a_segment_and_the_levels_above(t_p: int, field_bits: int, piece: int, late: int) -> None:
    chain: dict[str, Any] = {"t_r": 64, "t_c": 64, "weight_slots": 2, "word_bits": 8}
    array = Array(t_p=t_p, in_words=2 * t_p, field_bits=field_bits, piece=piece, broken=32 if piece else 0, **chain)
    assert (array.late, array.turnaround) == (late, 4)


@pytest.mark.parametrize(("columns", "beats"), [(3, 4), (4, 4), (1, 2)])
def test_a_wide_tile_has_whole_pairs_of_columns(columns: int, beats: int) -> None:
    assert packed().array.tile_beats(Mode.WIDE, columns) == beats


@given(st.integers(8, 80), st.sampled_from((32, 64, 128, 256, 512)))
def test_slots_carry_a_port_word_and_both_weights_of_a_slice(t_p: int, port_bits: int) -> None:
    slots = weight_slots_for(t_p, port_bits, 8)
    assert slots % 2 == 0
    assert 8 * slots * t_p >= port_bits > 8 * (slots - 2) * t_p


def test_a_slice_multiplies_twice_and_two_sums_share_a_bank() -> None:
    narrow, wide = (NpuShape.on(design_for(WORK, t_r=512, word_bits=bits, **SIZES)) for bits in (8, 16))
    assert (dsp(wide), dsp(narrow)) == (9 * 8, 9 * 4 + 2 * 4)
    assert int(ramb18(narrow)["accumulators"]) * 2 == int(ramb18(wide)["accumulators"])


@pytest.mark.parametrize("length", [9, 24, 25, 26, 40])
def test_segments_are_short_enough_and_have_room(length: int) -> None:
    columns = ((144, 11), (48, 3))
    cut = fewest_segments(columns, length, 64, 32, 32)
    if cut is None:
        assert length * 64 + 2 * 32 > 1728
        return
    piece = length if cut == WHOLE else cut.piece
    assert -(-piece // -(-piece // 32)) <= 32
    assert cut == WHOLE or cut.broken == 64


def test_the_smallest_array_can_be_built_and_every_other_has_whole_chains() -> None:
    target = Question(workload=WORK, board=BOARD, core="rtl", bits=8).target
    assert (least_point(target).t_p, least_point(target).t_c) == (8, 4)
    space = buildable(target_space(target), target).space
    assert not (space.t_c % 4).any()
    assert space.t_p.min() == 8
    assert (space.t_p * space.t_c).max() > 3_000


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("slow", [False, True])
def test_bounds_stay_below_the_exact_cycles_and_estimates_near_them(batch: int, slow: bool) -> None:
    array = replace(packed(t_p=16, t_c=32, out_words=8).array, t_r=256)
    machine = Machine(array=array, port_bytes=16, line_words=array.line_words, buffer_words=1 << 15)
    dram = DramModel(latency_cycles=20, write_latency_cycles=9, link_words=3.1, total_words=4.2)
    dram = dram if slow else DramModel.IDEAL
    on = Candidates.of(machine, dram)
    for mapping in mappings(LAYER, batch):
        job, slots = synthetic_job(LAYER, mapping, 56, array)
        bound = lower_bound(LAYER, mapping, on.array.t_r * 0 + 56.0, on)[0]
        assert bound <= layer_cost(job, slots, machine, dram).run
    estimate = estimated_plan(LAYER, machine, dram, batch)[0]
    assert estimate == pytest.approx(best_plan(LAYER, batch, machine, dram)[1].run, rel=0.25)


def test_memory_moves_twice_the_words() -> None:
    """A pass that does nothing but move takes half of the cycles, and half of the bytes of a buffer."""
    layer = replace(LAYER, p=64, window=Window(kernel=(1, 1), out=(14, 14), channels=64))
    dram = DramModel(latency_cycles=1, link_words=2.0, total_words=2.0)
    runs = []
    for bits in (16, 8):
        array = Array(t_r=256, t_p=32, t_c=64, weight_slots=2, in_words=64, out_words=32, word_bits=bits)
        machine = Machine(array=array, port_bytes=16, line_words=64, buffer_words=1 << 15)
        runs.append(best_plan(layer, 1, machine, dram)[1].run)
    assert 1.8 < runs[0] / runs[1] < 2.05
    mapping = LayerMapping(mode=Mode.NORMAL, batch=1, b_r=1)
    wide, narrow = (mapping.needed_bytes(layer, 196, size) for size in (2, 1))
    assert wide > 1.8 * narrow


def test_a_search_at_eight_bits_is_faster_and_says_so() -> None:
    wide, narrow = (
        answer(Question(workload=WORK, board=BOARD, core="rtl", b_max=2, evaluations=1, bits=bits)) for bits in (16, 8)
    )
    assert narrow.frames_per_second[0] > 1.3 * wide.frames_per_second[0]
    assert narrow.to_json(front=False)["word_bits"] == 8
    assert narrow.design.word_bits == 8 != wide.design.word_bits
    assert narrow.fit.dsp <= BOARD.dsp
