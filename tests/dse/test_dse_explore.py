"""From workload and board to a design that can be built, and the JSON that the command prints."""

import json
from dataclasses import replace

import pytest
from dse_strategies import small_boards, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, DesignError, FitError, Point, build_design, explore, fit
from fluidnpu.dse.paper import ablation
from fluidnpu.dse.paper.latency import latency_table
from fluidnpu.dse.paper.plans import plan_all, published_plan
from fluidnpu.models import Kind, LayerShape, Workload

SMALL = Workload(
    name="small",
    layers=(
        LayerShape(name="conv", r=784, p=9, c=16),
        LayerShape(name="pool", r=1, p=784, c=16, kind=Kind.SUM_POOL),
        LayerShape(name="fc", r=1, p=16, c=10),
    ),
)


@settings(max_examples=25)
@given(small_boards(), workloads(), st.integers(1, 4))
def test_every_design_that_comes_out_can_be_built(board: Board, workload: Workload, b_max: int) -> None:
    try:
        found = explore(workload, board, b_max=b_max, model="paper", core="rtl")
    except FitError as error:
        if error.needed <= error.available:
            pytest.fail(str(error))
        return
    design = found.design
    point = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    again = fit(point, found.question.target)
    assert again.t_r == design.t_r == found.fit.t_r
    assert again.ramb18 <= board.ramb18
    assert design.t_p >= 3
    assert design.t_c >= 2
    assert design.t_r <= min(65_534, design.published_t_r)
    assert design.matches(workload)
    assert Design.loads(design.dumps()) == design
    assert latency_table(design) == design.latency
    published = plan_all(design.lowered_layers, found.published, b_max, design.out_words, published_plan)
    pairs = [(a, b) for old, new in zip(published, design.plans, strict=True) for a, b in zip(old, new, strict=True)]
    alike = all((a.k, a.b_r) == (b.k, b.b_r) for a, b in pairs)  # Eq. 1 is no optimum where layers are tiny
    slower = design.port_bits // 16 <= board.paper_words_per_cycle  # the published point counts these words
    if slower and alike and (point.t_p, point.t_c) == (found.published.t_p, found.published.t_c):
        assert all(new <= old * (1 + 1e-12) for new, old in zip(found.fitted_gops, found.published_gops, strict=True))


def test_json_answers_with_the_design_and_with_the_optimum_of_the_paper_model() -> None:
    found = explore(SMALL, load_board("zcu104"), b_max=4, model="paper", core="rtl")
    answer = json.loads(json.dumps(found.to_json()))
    optimum = answer["paper_optimum"]
    for report, point in ((answer, found.built), (optimum, found.published)):
        assert (report["t_r"], report["t_p"], report["t_c"]) == (point.t_r, point.t_p, point.t_c)
        assert len(report["gops_by_batch"]) == 4
    assert set(optimum["resources"]) == {"dsp", "memory_bits"}
    assert set(answer["resources"]) == {"dsp", "ramb18", "uram288", "lut", "ff"}
    assert answer["digest"] == found.design.digest
    assert optimum["difference_pct"] == list(found.difference_pct)
    for row in answer["pareto"]:  # no mean is above the roof of its array
        assert row["mean_gops"] <= 2e-9 * row["t_p"] * row["t_c"] * found.board.clock_hz * (1 + 1e-9)
    assert 1 <= len(answer["pareto"]) <= 32
    assert answer["pareto_points"] == len(found.front)
    assert {"dsp", "memory_bits", "lut", "latency_1_ms"} < set(answer["pareto"][0])
    assert (answer["objective"], answer["core"]) == ("throughput", "rtl")
    assert any("pools cost" in note for note in answer["notes"])
    assert any("calibrated against Yosys" in note for note in answer["notes"])
    for name, available in (("lut", found.board.lut), ("ff", found.board.ff)):
        share = answer["resources"][name]
        assert 0 < share["low"] < share["used"] < share["high"] <= share["available"] == available


def test_an_optimum_that_cannot_be_built_is_replaced_and_named() -> None:
    """Dot products of two need trees two wide, but a design needs three for its bias words."""
    work = Workload(name="pairs", layers=(LayerShape(name="pair", r=5000, p=2, c=20),))
    board = replace(load_board("zc706"), dsp=40, sources={})
    found = explore(work, board, b_max=2, model="paper", core="rtl")
    assert found.published.t_p < 3 <= found.design.t_p
    assert any("cannot be built" in note and "t_p of at least 3" in note for note in found.notes)
    better = [p for p, _ in found.ranking.top(len(found.ranking)) if p.t_p >= 3 and p.t_c >= 2]
    assert (better[0].t_p, better[0].t_c) == (found.design.t_p, found.design.t_c)


def test_notes_say_how_many_plans_differ_from_the_printed_formula() -> None:
    """24 columns on an array made for 256: four samples side by side would be best; there are two lanes."""
    layers = (LayerShape(name="wide", r=784, p=576, c=256), LayerShape(name="narrow", r=49, p=576, c=24))
    work = Workload(name="two", layers=layers)
    found = explore(work, load_board("zc706"), b_max=4, memory="ps", model="paper", core="rtl")
    point = Point(t_r=found.design.t_r, t_p=found.design.t_p, t_c=found.design.t_c)
    other = sum(
        published_plan(layer, point, b, 8).b_r != plans[b - 1].b_r
        for layer, plans in zip(layers, found.design.plans, strict=True)
        for b in range(1, 5)
    )
    assert other > 0
    assert any(f"{other} of 8 FBCB entries" in note for note in found.notes)


def test_latency_is_throughput_at_one() -> None:
    board = load_board("zc706")
    found = explore(SMALL, board, b_max=4, objective="latency", model="paper", core="rtl")
    alone = explore(SMALL, board, b_max=4, weights=(1.0, 0.0, 0.0, 0.0), model="paper", core="rtl")
    assert found.design == alone.design
    assert (
        found.objective_gops
        == found.fitted_gops[0]
        >= explore(SMALL, board, b_max=4, model="paper", core="rtl").fitted_gops[0]
    )
    with pytest.raises(DesignError, match="weights of batch sizes must not be given"):
        explore(SMALL, board, b_max=4, objective="latency", weights=(1.0, 0.0, 0.0, 0.0), model="paper", core="rtl")
    for wrong in ({"objective": "size"}, {"core": "verilog"}):
        with pytest.raises(DesignError, match="must be '"):
            explore(SMALL, board, model="paper", **wrong)  # type: ignore[arg-type]


def test_models_have_names() -> None:
    with pytest.raises(DesignError, match="'exact' or 'paper', not 'magic'"):
        explore(SMALL, load_board("zc706"), model="magic", core="rtl")


@pytest.mark.parametrize("b_max", [0, 17, 1000])
def test_b_max_outside_its_range(b_max: int) -> None:
    with pytest.raises(DesignError, match=r"1\.\.16"):
        explore(SMALL, load_board("zc706"), b_max=b_max, model="paper", core="rtl")
    with pytest.raises(DesignError, match=r"1\.\.16"):
        build_design(SMALL, load_board("zc706"), Point(t_r=64, t_p=8, t_c=8), b_max=b_max)


@pytest.mark.parametrize(
    ("change", "resource", "says"),
    [
        ({"dsp": 5}, "dsp", "need 6 DSPs, and it has 5"),
        ({"ramb36": 4}, "ramb18", r"need \d+ RAMB18 .* it has 8"),
        ({"paper_memory_bits": 400}, "memory_bits", "needs 512 bits of on-chip memory, and it has 400"),
    ],
)
def test_a_board_too_small_names_what_the_smallest_design_needs(
    change: dict[str, int], resource: str, says: str
) -> None:
    with pytest.raises(FitError, match=says) as caught:
        explore(SMALL, replace(load_board("zc706"), sources={}, **change), model="paper", core="rtl")  # type: ignore[arg-type]
    assert caught.value.resource == resource
    assert caught.value.needed > caught.value.available
    assert "\n" not in str(caught.value)


def test_stream_widths_follow_the_boards_memory() -> None:
    """By default the first of a board, spread over its ports."""
    widths = [("zc706", None, 2, 16), ("zcu104", None, 4, 32), ("zc706", "ps", 1, 8), ("zcu104", "ps", 1, 16)]
    for name, memory, slots, words in widths:
        design = build_design(SMALL, load_board(name), Point(t_r=512, t_p=8, t_c=16), memory=memory)
        assert (design.weight_slots, design.out_words) == (slots, words)
        assert (design.memory, design.stripes) == (("ps", 1) if memory else ("ps_striped", 4))


def test_ablation_orders_as_the_paper_says() -> None:
    """Each strategy on its own best design: fluid is never below R in total, and stacking never costs."""
    rows = {row.name: sum(row.gops) for row in ablation(SMALL, load_board("zc706"))}
    assert rows["R"] <= rows["fluid"] <= rows["fluid + stackable"]
    assert rows["P"] <= rows["fluid"] * (1 + 1e-12)


def test_layer_efficiency_adds_up_to_the_whole() -> None:
    found = explore(SMALL, load_board("zc706"), b_max=3, model="paper", core="rtl")
    for b in (1, 2, 3):
        shares = [found.layer_efficiency_pct(index)[b - 1] for index in range(len(SMALL.layers))]
        assert shares[1] == 0.0
        time = sum(layer.macs / share for layer, share in zip(SMALL.layers, shares, strict=True) if share)
        assert SMALL.macs / time == pytest.approx(100 * found.fitted_gops[b - 1] / found.design.peak_gops)
        assert all(0 <= share <= 100 for share in shares)
