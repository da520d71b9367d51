"""Lanes of a filter on the way out, in the search: resources, estimates, bounds, choices and designs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DesignError, DramModel, FitError, Mode, Point, answer, explore
from fluidnpu.dse.exact import search
from fluidnpu.dse.exact.bound import Candidates, lower_bound
from fluidnpu.dse.exact.estimate import PLAN_CYCLES, estimated_plan, estimated_plans
from fluidnpu.dse.exact.mapping import joins, mappings
from fluidnpu.dse.exact.model import Machine, layer_cost
from fluidnpu.dse.exact.search import best_plan, evaluate_array, lower_bounds, merged_pairs, synthetic_job
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.hardware.array import Array
from fluidnpu.dse.hardware.roofline import layer_words, roofline_cycles
from fluidnpu.dse.hardware.space import DesignSpace
from fluidnpu.dse.question import LANES, Question, Target
from fluidnpu.dse.resources.buildable import least_point
from fluidnpu.dse.resources.fit import fit
from fluidnpu.dse.resources.logic import filter_logic
from fluidnpu.dse.resources.primitives import NpuShape, fixed_ramb18
from fluidnpu.models import LayerShape, Window, Workload
from fluidnpu.models.graph import Filtering, FilterPair

HIGH, CHANNELS = 28, 96
FILTERING = Filtering(kernel=3, padded=(1, 1), out=(HIGH, HIGH))
EXPAND = LayerShape(
    name="expand", r=HIGH**2, p=16, c=CHANNELS, window=Window(kernel=(1, 1), out=(HIGH, HIGH), channels=16)
)
DEPTHWISE = LayerShape(
    name="depthwise", r=HIGH**2, p=9, c=1, groups=CHANNELS, window=Window(kernel=(3, 3), out=(HIGH, HIGH), channels=CHANNELS),
)  # fmt: skip
PROJECT = LayerShape(
    name="project", r=HIGH**2, p=CHANNELS, c=16, window=Window(kernel=(1, 1), out=(HIGH, HIGH), channels=CHANNELS)
)
PAIR = FilterPair(producer=0, depthwise=1, filtering=FILTERING)
WORK = Workload(name="block", layers=(EXPAND, DEPTHWISE, PROJECT), filters=(PAIR,))
BOARD = load_board("zc706")
POINT = Point(t_r=1024, t_p=9, t_c=32)
MERGED = WORK.filtered([0])


def test_a_search_merges_a_pair_and_has_fewer_cycles() -> None:
    question = Question(workload=WORK, board=BOARD, b_max=2, evaluations=2)
    assert [one.lanes for one in question.of_lanes] == [0, *LANES]
    chosen, without = answer(question), answer(replace(question, board=BOARD, lanes=0))
    assert chosen.design.layers == MERGED
    assert chosen.fit.lanes == chosen.design.out_words in LANES
    assert without.design.layers == WORK.layers
    assert without.fit.lanes == 0
    assert chosen.frames_per_second[0] > 1.2 * without.frames_per_second[0]
    design = chosen.design
    assert Design.loads(design.dumps()) == design
    assert design.matches(WORK)
    assert not design.matches(replace(WORK, filters=()))
    assert design.workload_digest == WORK.digest
    assert design.rtl_parameters()["FilterKernel"] == 3
    assert "FilterKernel" not in without.design.rtl_parameters()
    walls = chosen.walls(1)
    assert walls is not None
    assert 0 < walls.compute < 1
    assert walls.tiles >= 0
    assert walls.memory >= 0
    assert chosen.layer_gops(1) == (0.0, 0.0)
    assert chosen.layer_operations_per_word(1, 1) == 0


def test_a_network_without_pairs_is_searched_as_before() -> None:
    question = Question(workload=replace(WORK, filters=()), board=BOARD, b_max=2, evaluations=1)
    assert question.of_lanes == (question,)
    assert explore(replace(WORK, filters=()), BOARD, b_max=2, evaluations=1).fit.lanes == 0


@pytest.mark.parametrize("lanes", [-1, 129, True, 2.5])
def test_lanes_that_no_filter_has(lanes: int) -> None:
    with pytest.raises(DesignError, match=r"lanes of a filter must lie in 0\.\.128"):
        Question(workload=WORK, board=BOARD, lanes=lanes)


def test_lanes_need_a_pair_and_a_model_that_knows_them() -> None:
    with pytest.raises(DesignError, match="can be merged with the one before, and it has none"):
        Question(workload=replace(WORK, filters=()), board=BOARD, lanes=8)
    with pytest.raises(DesignError, match="the paper's model knows no filter"):
        Question(workload=WORK, board=BOARD, model="paper", lanes=8)


def test_networks_side_by_side_keep_their_pairs() -> None:
    plain = Workload(name="plain", layers=(PROJECT,))
    question = Question.of_mix([(plain, 0.5), (WORK, 0.5)], BOARD, b_max=1, evaluations=1, lanes=16)
    assert [(pair.producer, pair.depthwise) for pair in question.pairs] == [(1, 2)]
    found = answer(question)
    whole = found.design
    assert [layer.filtering is not None for layer in whole.layers] == [False, True, False, False]
    first, second = whole.part(0), whole.part(1)
    assert first.layers == plain.layers
    assert second.layers == MERGED
    assert first.filter_room == second.filter_room == whole.filter_room
    assert Design.loads(first.dumps()) == first
    assert first.matches(plain)
    assert second.matches(WORK)
    assert [len(part.frames_per_second) for part in found.parts] == [1, 1]


def test_a_lane_has_nine_slices_and_eight_block_rams() -> None:
    """As Yosys maps `fluidnpu_output_filter` with rows of 672 beats, 60 windows and 60 rows of weights."""
    array = Array(t_r=512, t_p=9, t_c=32, weight_slots=1, in_words=18, out_words=16)
    plain = NpuShape(array=array, layers=3)
    shape = replace(plain, filter_kernel=3, filter_windows=60, filter_rows=672, filter_weights=60)
    assert int(fixed_ramb18(shape)["filter"]) == 8 * 16
    deep = replace(shape, filter_kernel=5, filter_deep_rows=672, filter_weights=180)
    assert int(fixed_ramb18(deep)["filter"]) == 10 * 16
    assert float(filter_logic("lut", shape)) == pytest.approx(8499 + 4070, rel=0.02)
    assert float(filter_logic("ff", shape)) == pytest.approx(10899, rel=0.02)
    widest = replace(deep, filter_kernel=7, filter_weights=360)
    assert int(fixed_ramb18(widest)["filter"]) == 18 * 16
    assert float(filter_logic("lut", plain)) == float(filter_logic("ff", plain)) == 0
    assert "filter" not in fixed_ramb18(plain)


def test_the_price_of_lanes() -> None:
    asked = [Question(workload=WORK, board=BOARD, b_max=1, lanes=lanes).target for lanes in (0, 8, 16)]
    none, eight, sixteen = (fit(POINT, target) for target in asked)
    assert eight.dsp - none.dsp == 9 * 8
    assert sixteen.dsp - eight.dsp == 9 * 8
    assert none.parts.get("filter") is None
    assert sixteen.parts["filter"] == 2 * eight.parts["filter"] == 16 * 7  # a row is short
    assert sixteen.array.out_words == 16
    assert "144 DSPs" in sixteen.filter_note[0]
    assert none.filter_note == ()
    plain = fit(POINT, Target(board=BOARD, b_max=1, layers=3))
    assert none == plain


def test_a_merged_layer_moves_and_computes_with_the_one_before() -> None:
    expand, depthwise, _ = MERGED
    assert layer_words(depthwise, 2) == 0

    def cycles(layer: LayerShape) -> float:
        return roofline_cycles(layer, batch=1, macs_per_cycle=100.0, words_per_cycle=0.0)

    assert cycles(depthwise) == 0
    assert cycles(expand) == cycles(EXPAND) + cycles(DEPTHWISE)


@settings(max_examples=12, deadline=None, derandomize=True)  # an estimate is an estimate: rare draws are farther off
@given(
    kernel=st.integers(2, 7),
    stride=st.sampled_from((1, 2)),
    size=st.integers(7, 20),
    columns=st.integers(4, 40),
    lanes=st.sampled_from((4, 8, 12, 32)),
    batch=st.integers(1, 3),
    slow=st.booleans(),
)
def test_bounds_stay_below_the_exact_cycles_and_estimates_near_them(
    kernel: int, stride: int, size: int, columns: int, lanes: int, batch: int, slow: bool
) -> None:
    out = (size - kernel + 2 * (kernel // 2)) // stride + 1
    layer = LayerShape(
        name="expand", r=size**2, p=24, c=columns, window=Window(kernel=(1, 1), out=(size, size), channels=24),
        filtering=Filtering(kernel=kernel, stride=stride, padded=(kernel // 2, kernel // 2), out=(out, out)),
    )  # fmt: skip
    array = Array(t_r=256, t_p=7, t_c=16, weight_slots=1, in_words=14, out_words=lanes)
    machine = Machine(array=array, port_bytes=16, buffer_words=1 << 15)
    dram = DramModel(latency_cycles=20, write_latency_cycles=9, link_words=3.1, total_words=4.2)
    dram = dram if slow else DramModel.IDEAL
    on = Candidates.of(machine, dram)
    for mapping in mappings(layer, batch):
        assert mapping.mode is not Mode.LANES or mapping.row_lanes
        job, slots = synthetic_job(layer, mapping, size, array)
        counted = layer_cost(job, slots, machine, dram)
        assert float(lower_bound(layer, mapping, np.array(float(size)), on)[0]) <= counted.run
    estimate = estimated_plan(layer, machine, dram, batch)[0]
    assert estimate == pytest.approx(best_plan(layer, batch, machine, dram)[1].run, rel=0.35, abs=400)


@pytest.mark.parametrize(("kernel", "lanes"), [(3, 16), (7, 16), (7, 1)])
def test_pairs_are_merged_where_the_exact_model_says_so(kernel: int, lanes: int) -> None:
    """A window of seven by seven takes six cycles: with one lane the map is better left alone."""
    filtering = Filtering(kernel=kernel, padded=(kernel // 2,) * 2, out=(8, 8))
    layers = tuple(
        replace(layer, r=64, groups=min(24, layer.groups), c=min(24, layer.c), p=p, window=window)
        for layer, p, window in (
            (EXPAND, 16, Window(kernel=(1, 1), out=(8, 8), channels=16)),
            (DEPTHWISE, kernel**2, Window(kernel=(kernel, kernel), out=(8, 8), channels=24)),
            (PROJECT, 24, Window(kernel=(1, 1), out=(8, 8), channels=24)),
        )
    )
    work = Workload(name="block", layers=layers, filters=(replace(PAIR, filtering=filtering),))
    question = Question(workload=work, board=BOARD, b_max=1, lanes=lanes)
    fitted = share_memory(question, POINT).fit
    machine = Machine.on(question.target, fitted.array, fitted.buffer_words)

    def cycles(layer: LayerShape) -> int:
        counts = joins(layer, machine.array)
        return min(best_plan(layer.joined(count), 1, machine, question.dram)[1].run for count in counts)

    together, apart = cycles(work.filtered([0])[0]) + PLAN_CYCLES, sum(map(cycles, layers[:2]))
    assert merged_pairs(question, machine) == ((0,) if together < apart else ())
    assert (together < apart) == (lanes > 1)
    counted = evaluate_array(question, fitted, [1])
    assert counted.layers == work.filtered((0,) if together < apart else ())
    space = DesignSpace(t_r=np.array([fitted.t_r]), t_p=np.array([9]), t_c=np.array([32]))
    assert lower_bounds(question, space, [1])[0, 0] <= counted.total(counted.layers, 1)
    assert len(estimated_plans(work, machine, question.dram, 1, pairs=question.pairs).plans) == 3


def test_lanes_fit_though_the_smallest_array_has_no_room_for_a_filter() -> None:
    """Few columns make many beats of a pixel, whose rows and windows a filter keeps."""
    wide = replace(EXPAND, c=960), replace(DEPTHWISE, groups=960), replace(PROJECT, p=960)
    question = Question(workload=replace(WORK, layers=wide), board=BOARD, b_max=1, evaluations=1, lanes=32)
    with pytest.raises(FitError, match="RAMB18 \\(filter: "):
        fit(least_point(question.target), question.target)
    assert answer(question).fit.lanes == 32


@pytest.mark.parametrize("chosen", [(), (0,), (0, 3)])
def test_resources_are_those_of_the_pairs_that_are_merged(
    chosen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays are fitted with room for all pairs; the answer has a filter for those that it merges."""
    larger = replace(FILTERING, kernel=7, padded=(3, 3))
    seven = replace(DEPTHWISE, p=49, window=Window(kernel=(7, 7), out=(HIGH, HIGH), channels=CHANNELS))
    pairs = PAIR, FilterPair(producer=3, depthwise=4, filtering=larger)
    work = Workload(name="blocks", layers=(*WORK.layers, EXPAND, seven, PROJECT), filters=pairs)
    monkeypatch.setattr(search, "merged_pairs", lambda question, machine: chosen)
    found = answer(Question(workload=work, board=BOARD, b_max=1, evaluations=1, lanes=8))
    design, target = found.design, Target.of(found.design, BOARD)
    assert design.layers == work.filtered(chosen)
    assert design.out_words == target.out_words == 8
    assert found.fit == fit(found.fit.point, target, buffer_words=design.buffer_words)
    assert found.fit.lanes == (8 if chosen else 0) == len(found.fit.filter_note) * 8
    assert ("filter" in found.fit.parts) == bool(chosen)
