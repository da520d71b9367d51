"""Search with the exact model: the lower bound holds, the best array is found, and a gap is reported."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, DesignError, DramModel, FitError, Question, counted_with, explore
from fluidnpu.dse.exact import Machine
from fluidnpu.dse.exact import search as exact_search
from fluidnpu.dse.exact.bound import LEAST_PLAN_CYCLES, Candidates, block_sizes, lower_bound
from fluidnpu.dse.exact.mapping import LayerMapping, layer_key, mappings
from fluidnpu.dse.exact.model import layer_cost
from fluidnpu.dse.exact.search import best_plan, by_bound, lower_bounds, objective_of, search_exact, synthetic_job
from fluidnpu.dse.hardware.activation import LANE_PIECES, USES, piece_rows, pieces, residual_words, too_many_pieces
from fluidnpu.dse.hardware.array import Array
from fluidnpu.dse.hardware.space import Point, legal_space
from fluidnpu.dse.resources.buildable import buildable
from fluidnpu.dse.resources.fit import fit
from fluidnpu.models import Kind, LayerShape, Window, Workload

BOARD = replace(load_board("zc706"), dsp=24)
SLOW = DramModel(
    latency_cycles=20,
    write_latency_cycles=20,
    link_words=3.0,
    total_words=7.0,
    refresh_interval_cycles=900,
    refresh_cycles=50,
)


def conv(
    size: int, channels: int, columns: int, kernel: int = 1, stride: int = 1, groups: int = 1, **more: object
) -> LayerShape:
    """A square convolution; `channels` of one group."""
    window = Window(kernel=(kernel, kernel), stride=(stride, stride), out=(size, size), channels=channels * groups)
    shape = LayerShape(
        name="conv", r=size * size, p=kernel * kernel * channels, c=columns, groups=groups, window=window
    )
    return replace(shape, **more)  # type: ignore[arg-type]


WORK = Workload(
    name="small", layers=(conv(9, 3, 10, 3, 2), conv(9, 10, 12), replace(conv(9, 12, 20, 3), residual=True))
)
ASKED = Question(workload=WORK, board=BOARD, b_max=2, model="exact", evaluations=10_000, core="rtl")


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(1, 12), channels=st.integers(1, 24), columns=st.integers(1, 40), kernel=st.integers(1, 3), stride=st.integers(1, 2),
    groups=st.integers(1, 2), residual=st.booleans(), pool=st.booleans(), batch=st.integers(1, 3), pick=st.integers(0, 1000),
    inside=st.integers(0, 10), t_p=st.integers(3, 9), t_c=st.integers(2, 12), slots=st.integers(1, 3), words=st.sampled_from([10, 12, 17]),
    dram=st.sampled_from([DramModel.IDEAL, SLOW]), hls=st.booleans(), use=st.sampled_from(USES), spread=st.booleans(), fixed=st.booleans(),
)  # fmt: skip
def test_no_layer_undercuts_the_bound_in_any_block(
    size: int, channels: int, columns: int, kernel: int, stride: int, groups: int, residual: bool, pool: bool, batch: int, pick: int,
    inside: int, t_p: int, t_c: int, slots: int, words: int, dram: DramModel, hls: bool, use: str, spread: bool, fixed: bool,
) -> None:  # fmt: skip
    layer = conv(size, channels, columns, kernel, stride, groups)
    if pool:
        layer = replace(conv(size, channels, channels, kernel, stride), kind=Kind.MAX_POOL, p=kernel * kernel)
    residual |= use == "product"
    layer = replace(
        layer, activation=use, residual=residual, residual_spread=residual and spread, residual_fixed=residual and fixed
    )
    array = Array(t_r=500, t_p=t_p, t_c=t_c, weight_slots=slots, in_words=max(2 * t_p, 4), out_words=4)
    distance = array.row_distance() if hls else 0
    machine = Machine(array=array, port_bytes=8, line_words=32, buffer_words=1 << words, row_distance=distance)
    every = mappings(layer, batch)
    mapping = every[pick % len(every)]
    sizes = block_sizes(layer, mapping)
    block = sizes[pick // 3 % len(sizes)]
    on = Candidates.of(machine, dram)
    bound = lower_bound(layer, mapping, np.array([float(block)]), on)[0]
    least = float(max((size for size in sizes if size < block), default=0) + 1)
    bound = max(bound, lower_bound(layer, mapping, np.array([float(block)]), on, np.array([least]))[0])
    block = int(least) + inside * (min(block, 500) - int(least)) // 10 if inside else min(block, 500)
    assume(mapping.needed_bytes(layer, block) <= 2 << words)
    job, addresses = synthetic_job(layer, mapping, block, array)
    cost = layer_cost(job, addresses, machine, dram)
    assert bound <= max(LEAST_PLAN_CYCLES, cost.run)
    assert cost.lead >= LEAST_PLAN_CYCLES


def test_a_pass_without_weights_gives_as_many_words_as_leave_in_a_cycle() -> None:
    """The unit stands in between and delays, but holds nothing up."""
    array = Array(t_r=500, t_p=16, t_c=8, weight_slots=1, in_words=32, out_words=16)
    machine = Machine(array=array, port_bytes=32, line_words=32)
    one = replace(conv(64, 32, 32, residual=True, residual_fixed=True), kind=Kind.MAX_POOL, p=1)
    passed = [best_plan(replace(one, activation=use), 1, machine, DramModel.IDEAL)[1].run for use in ("", "product")]
    assert 2 * one.r < passed[0] < passed[1] < 1.1 * 2 * one.r


def test_only_a_network_that_uses_a_unit_gets_one() -> None:
    """Its multipliers lie in DSPs where the array leaves one a lane."""
    plain, gated = (
        replace(ASKED, workload=replace(WORK, layers=(replace(WORK.layers[0], activation=use), *WORK.layers[1:])))
        for use in ("", "table")
    )
    mix = Question.of_mix([(plain.workload, 1.0), (replace(gated.workload, name="gated"), 1.0)], BOARD)
    assert [plain.target.activation, gated.target.activation, mix.target.activation] == [False, True, True]
    small = Point(t_r=64, t_p=3, t_c=2)
    fits = [fit(small, question.target) for question in (plain, gated)]
    assert [one.activation for one in fits] == [None, "dsp"]
    lanes = fits[0].array.out_words
    assert fits[1].dsp - fits[0].dsp == lanes == fits[1].parts["pieces"]
    less = replace(gated.board, dsp=fits[1].dsp - 1, dsp_columns=(), sources={})
    logic = fit(small, replace(gated.target, board=less))
    assert (logic.activation, logic.dsp) == ("lut", fits[0].dsp)
    assert logic.lut.value > fits[1].lut.value > fits[0].lut.value
    found = explore(
        gated.workload, replace(BOARD, dsp=60, dsp_columns=(), sources={}), b_max=1, core="rtl", evaluations=1
    )
    assert found.design.activation == found.fit.activation
    assert any(note.startswith("an activation unit of") for note in found.notes)


def test_channels_that_a_lane_cannot_hold_are_joined_or_refused() -> None:
    """A depthwise layer has a row of pieces for every group that is computed alone."""
    array = Array(t_r=500, t_p=8, t_c=8, weight_slots=1, in_words=16, out_words=8)
    machine = Machine(array=array)
    many = replace(conv(4, 1, 1, 3, groups=2 * LANE_PIECES), activation="slope")
    assert piece_rows(many, array) == 2 * LANE_PIECES
    assert pieces(many.joined(4), array) == 4 * LANE_PIECES
    assert too_many_pieces(many, array)
    assert not too_many_pieces(many.joined(2), array)
    assert exact_search.best_join(many, 1, machine, DramModel.IDEAL) > 1
    with pytest.raises(DesignError, match="need 512 pieces of a lane of the activation unit, which holds 256"):
        best_plan(many, 1, machine, DramModel.IDEAL)
    wide = Workload(name="wide", layers=(replace(conv(1, 1, 40 * LANE_PIECES), name="wide", activation="affine"),))
    with pytest.raises(FitError, match="channels of layer 'wide' need"):
        explore(wide, BOARD, b_max=1, core="rtl", evaluations=1)


def test_repeated_residuals_are_read_once_at_best() -> None:
    whole = conv(8, 3, 10, groups=2, residual=True)
    of = [
        residual_words(replace(whole, residual_fixed=f, residual_spread=s))
        for f in (False, True)
        for s in (False, True)
    ]
    assert of == [64 * 20, 64, 20, 1]
    assert residual_words(replace(whole, residual=False)) == 0


def test_arrays_come_in_the_order_of_their_near_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "POINTS", 3)  # so that near bounds are reckoned in several turns
    depthwise = replace(conv(9, 1, 1, 3, groups=12), name="depthwise")
    question = replace(ASKED, workload=replace(WORK, layers=(*WORK.layers, depthwise)))
    space = buildable(legal_space(BOARD), question.target).space
    near, loose = (lower_bounds(question, space, question.batches, near=near) for near in (True, False))
    assert np.all(loose <= near)
    assert np.any(loose < near)
    order = np.argsort(-objective_of(question)(near), kind="stable")
    found = list(by_bound(question, space))
    assert [index for index, _, _ in found] == order.tolist()
    np.testing.assert_array_equal(np.concatenate([bounds for _, bounds, _ in found], axis=1), near[:, order])
    assert [value for _, _, value in found] == objective_of(question)(near)[order].tolist()


@pytest.mark.parametrize("latency", [False, True])
def test_the_best_array_is_the_best_of_all_when_all_may_be_counted(latency: bool) -> None:
    question = replace(ASKED, objective="latency" if latency else "throughput")
    found = search_exact(question)
    assert found.gap_pct == 0
    assert found.evaluated < found.bounded
    assert found.best.batches == (1, 2)
    every = search_exact(replace(question, evaluations=1))
    assert every.evaluated == 1
    better = found.objective < every.objective if latency else found.objective > every.objective
    assert better or every.best.fit.point == found.best.fit.point
    for _, bound, exact in found.trace:
        assert exact >= bound if latency else exact <= bound
    asked: list[tuple[int, int]] = []
    search_exact(replace(question, evaluations=3), lambda done, of: asked.append((done, of)))
    steps = 3 * len(question.batches)
    counting = asked[asked.index((0, steps)) :]  # arrays at each batch size, from 0 before the first is counted
    assert asked.index((0, steps)) > 0
    assert counting == sorted(counting)
    assert counting[-1] == (steps, steps)
    with pytest.raises(DesignError, match="at least 1"):
        replace(question, evaluations=0)


@pytest.mark.parametrize("core", CORES)
def test_nothing_left_out_is_better(core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bound every array is counted: the same one wins."""
    small = replace(ASKED, board=replace(BOARD, dsp=12), b_max=1, core=core)
    found = search_exact(small)
    monkeypatch.setattr(exact_search, "lower_bounds", lambda *given, **more: np.full((1, len(given[1])), 1.0))
    brute = search_exact(small)
    assert brute.evaluated == brute.bounded > found.evaluated
    assert brute.objective == found.objective


def test_the_plan_is_the_fastest_of_those_tried() -> None:
    array = Array(t_r=60, t_p=4, t_c=8, weight_slots=1, in_words=8, out_words=4)
    machine = Machine(array=array, port_bytes=8)
    layer = layer_key(WORK.layers[2])
    plan, cost = best_plan(layer, 2, machine, DramModel.IDEAL, tries=1000, near=1.0)
    for mapping in mappings(layer, 2):
        for block in block_sizes(layer, mapping):
            if block <= 60:
                job, slots = synthetic_job(layer, mapping, block, array)
                assert layer_cost(job, slots, machine).run >= cost.run
    assert 1 <= plan.block <= 60


@pytest.mark.parametrize(
    ("channels", "columns", "batch"),
    [(512, 128, 1), (128, 512, 1), (512, 128, 8), pytest.param(128, 512, 8, marks=pytest.mark.long)],
)
def test_few_tries_find_a_plan_near_the_best_of_all_blocks(channels: int, columns: int, batch: int) -> None:
    """Large blocks leave no room for the rows of the next: the least bound is no sign of the best plan."""
    layer = layer_key(conv(14, channels, columns, 1))
    array = Array(t_r=512, t_p=14, t_c=64, weight_slots=2, in_words=28, out_words=8)
    machine = Machine(array=array, port_bytes=16, line_words=64, buffer_words=1 << 17)
    dram = DramModel.of(BOARD)
    _, cost = best_plan(layer, batch, machine, dram)
    least = inf
    for mapping in mappings(layer, batch):
        for block in range(14, 505, 14):
            if mapping.needed_bytes(layer, block) <= 2 << 17:
                job, slots = synthetic_job(layer, mapping, block, array)
                least = min(least, layer_cost(job, slots, machine, dram).run)
    assert cost.run <= 1.01 * least


@pytest.mark.parametrize("core", CORES)
def test_an_exact_design_holds_what_was_counted(core: str) -> None:
    found = explore(WORK, BOARD, b_max=2, model="exact", weights=(1.0, 0.0), core=core)
    assert (found.design.model, found.design.core) == ("exact", core)
    assert bool(Machine.of(found.design).row_distance) is (core == "hls")
    assert found.design.latency.ns[0][1] >= found.design.latency.ns[0][0]
    one = found.design.latency.ns[0][0] * 1e-9
    assert found.fitted_gops[0] == pytest.approx(2e-9 * WORK.macs / one, rel=1e-4)
    assert "none of the others can be better" in found.notes[0]
    assert found.layer_cycles is not None
    costs = []
    for index, layer in enumerate(WORK.layers):
        plan = found.design.plans[index][0]
        mapping = LayerMapping(mode=found.design.mode(index, 1), batch=1, b_r=plan.b_r, row_lanes=plan.row_lanes)
        job, slots = synthetic_job(layer, mapping, plan.block, found.design.array)
        costs.append(layer_cost(job, slots, Machine.of(found.design), DramModel.of(BOARD)))
    cycles = costs[0].lead + costs[0].run
    cycles += sum(cost.behind(before) for before, cost in pairwise(costs))
    assert found.design.latency.ns[0][0] == -(-cycles * 10**9 // BOARD.clock_hz)
    assert sum(row[0] for row in found.layer_cycles) == cycles


@pytest.mark.parametrize(("core", "other"), [CORES, CORES[::-1]])
def test_a_design_is_counted_again_for_the_core_that_is_built(core: str, other: str) -> None:
    """Stages, joined groups and batch sizes: counted back, the table is the search's again."""
    depthwise = replace(conv(9, 1, 1, 3, groups=12), name="depthwise", stage=1)
    work = Workload(name="two", layers=(*WORK.layers, depthwise), exits=("early", "final"))
    design = explore(work, BOARD, b_max=2, core=core).design
    assert counted_with(design, core) is design
    again = counted_with(design, other)
    assert (again.core, again.array, again.plans, again.joins) == (other, design.array, design.plans, design.joins)
    assert again.latency != design.latency
    assert counted_with(again, core) == design
    older = replace(design, core=None)  # bitstreams know it by its digest
    assert counted_with(older, other) is older


def test_a_layer_table_is_refused() -> None:
    table = Workload(name="table", layers=(LayerShape(name="fc", r=1, p=8, c=8),))
    with pytest.raises(DesignError, match="window of every layer, and 'fc' has none: give the network as ONNX"):
        explore(table, BOARD, model="exact", core="rtl")
    pools = Workload(name="none", layers=(replace(conv(2, 4, 4), kind=Kind.MAX_POOL, p=1),))
    with pytest.raises(DesignError, match="at least one GEMM"):
        explore(pools, BOARD, model="exact", core="rtl")


def test_windows_that_no_array_leaves_room_for_are_refused_before_any_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dilated layers of DeepLab: a row of their windows spans more of the map than a board can hold."""
    window = Window(kernel=(3, 3), stride=(1, 1), dilation=(300, 300), out=(600, 600), channels=256)
    shape = LayerShape(name="wide", r=360_000, p=9 * 256, c=16, kind=Kind.GEMM, window=window)
    question = Question(workload=Workload(name="wide", layers=(shape,), exits=("final",)), board=load_board("zcu104"))

    def never(*_: object) -> None:
        raise AssertionError("no array must be looked at")

    monkeypatch.setattr(exact_search, "by_bound", never)
    with pytest.raises(
        FitError, match=r"windows of one row of layer 'wide' need an input buffer of .* beside the fewest PEs"
    ):
        search_exact(question)
