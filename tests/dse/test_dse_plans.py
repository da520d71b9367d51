"""FBCB contents: Eq. 1's B_R by brute force, and plans that two lanes can carry out."""

from dse_strategies import layers, points, workloads
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import Point
from fluidnpu.dse.design import Stack
from fluidnpu.dse.paper.model import best_stack
from fluidnpu.dse.paper.plans import buildable_plan, plan_all, published_plan
from fluidnpu.models import Kind, LayerShape, Workload

batches = st.integers(1, 16)
words = st.integers(1, 64)


def eq1(layer: LayerShape, point: Point, b: int, b_r: int) -> int:
    """REPRODUCTION's formula, written a second time."""
    p_tiles, columns = -(-layer.p // point.t_p), -(-(b - b_r + 1) * layer.c // point.t_c)
    return b_r * layer.r * p_tiles * columns


@given(layers(), points, batches, words)
def test_published_b_r_is_the_cheapest_and_ties_are_large(layer: LayerShape, point: Point, b: int, w: int) -> None:
    plan = published_plan(layer, point, b, w)
    if layer.kind is not Kind.GEMM or plan.k is Stack.TWO:
        assert plan.b_r == b
        return
    costs = {b_r: eq1(layer, point, b, b_r) for b_r in range(1, b + 1)}
    assert costs[plan.b_r] == min(costs.values())
    assert all(cost > costs[plan.b_r] for b_r, cost in costs.items() if b_r > plan.b_r)


@given(layers(), points, batches, words)
def test_both_take_the_faster_k_and_pools_never_stack(layer: LayerShape, point: Point, b: int, w: int) -> None:
    for plan in (published_plan(layer, point, b, w), buildable_plan(layer, point, b, w)):
        assert plan.k is (best_stack(layer, point, b, w)[0] if layer.kind is Kind.GEMM else Stack.ONE)
        assert not plan.row_lanes


@given(layers(), points, batches, words)
def test_buildable_plans_need_no_third_lane(layer: LayerShape, point: Point, b: int, w: int) -> None:
    plan = buildable_plan(layer, point, b, w)
    assert plan.b_r in (b, -(-b // 2))
    if plan.b_r < b:
        assert plan.k is Stack.ONE
        assert layer.kind is Kind.GEMM
        lanes = plan.b_r * layer.r * -(-layer.c // (point.t_c // 2))
        assert lanes < b * layer.r * -(-layer.c // point.t_c)


@given(workloads(), points, st.integers(1, 4), words)
def test_a_block_has_one_entry_for_each_layer_and_batch(workload: Workload, point: Point, b_max: int, w: int) -> None:
    block = plan_all(workload.layers, point, b_max, w, buildable_plan)
    assert len(block) == len(workload.layers)
    assert all(len(row) == b_max and row[0].b_r == 1 for row in block)


def test_narrow_layers_share_beats_and_wide_ones_do_not() -> None:
    point = Point(t_r=1024, t_p=7, t_c=128)
    narrow, wide = LayerShape(name="n", r=3136, p=576, c=64), LayerShape(name="w", r=3136, p=576, c=256)
    assert [buildable_plan(narrow, point, b, 64).b_r for b in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert [buildable_plan(wide, point, b, 64).b_r for b in (1, 2, 3, 8)] == [1, 2, 3, 8]
