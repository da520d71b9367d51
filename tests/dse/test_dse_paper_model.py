"""The paper model: the plain and the vectorised form agree to the last tick, and time behaves."""

import math

import numpy as np
import pytest
from dse_strategies import layers, points, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import DesignError, Point
from fluidnpu.dse.design import Stack
from fluidnpu.dse.hardware.space import DesignSpace
from fluidnpu.dse.paper import Batching, layer_ticks, total_ticks
from fluidnpu.dse.paper.model import best_stack, compute_cycles, distinct, eq1_cycles, memory_words
from fluidnpu.dse.paper.search import evaluate
from fluidnpu.models import Kind, LayerShape, Workload

batches = st.integers(1, 16)
words = st.integers(1, 64)
ways = st.sampled_from(list(Batching))


@given(workloads(), st.lists(points, min_size=1, max_size=5), words, ways, st.booleans())
def test_vectorised_equals_plain(
    workload: Workload, chosen: list[Point], w: int, batching: Batching, stackable: bool
) -> None:
    axes = {name: np.array([getattr(p, name) for p in chosen], dtype=np.int64) for name in ("t_r", "t_p", "t_c")}
    ticks = evaluate(
        DesignSpace(**axes), workload.layers, b_max=4, words_per_cycle=w, batching=batching, stackable=stackable
    )
    for index, point in enumerate(chosen):
        for b in (1, 2, 3, 4):
            plain = total_ticks(workload.layers, point, b, w, batching=batching, stackable=stackable)
            assert int(ticks[b - 1, index]) == plain == ticks[b - 1, index]


@given(layers(gemm_only=True), points, batches, words, ways)
def test_a_larger_batch_never_takes_less_time(
    layer: LayerShape, point: Point, b: int, w: int, batching: Batching
) -> None:
    for stack in (Stack.ONE, Stack.TWO):
        if stack is Stack.ONE or point.stacked() is not None:
            before = layer_ticks(layer, point, b, w, stack, batching=batching)
            assert before <= layer_ticks(layer, point, b + 1, w, stack, batching=batching)


@given(layers(gemm_only=True), points, batches, words)
def test_time_is_never_below_what_the_array_can_do(layer: LayerShape, point: Point, b: int, w: int) -> None:
    for batching in (Batching.FLUID, Batching.R, Batching.P, Batching.FC):
        _, ticks = best_stack(layer, point, b, w, batching=batching)
        assert ticks * point.dsp >= w * b * layer.macs


@given(layers(gemm_only=True), points, batches)
def test_fluid_is_never_slower_than_r_nor_r_than_fc(layer: LayerShape, point: Point, b: int) -> None:
    cycles = {way: compute_cycles(layer, point, b, way) for way in Batching}
    assert cycles[Batching.FLUID] <= min(cycles[Batching.P], cycles[Batching.R])
    assert cycles[Batching.R] <= cycles[Batching.FC]
    if b == 1:
        assert cycles[Batching.R] == cycles[Batching.P] == cycles[Batching.FC]


@given(layers(gemm_only=True), points, batches)
def test_no_hybrid_of_eq1_beats_all_samples_side_by_side(layer: LayerShape, point: Point, b: int) -> None:
    """What the docstring of `eq1_cycles` claims: the printed formula leaves the hybrids nothing to gain."""
    assert min(eq1_cycles(layer, point, b, b_r) for b_r in range(1, b + 1)) == eq1_cycles(layer, point, b, 1)


@given(layers(gemm_only=True), points, batches, words)
def test_groups_repeat_a_layer(layer: LayerShape, point: Point, b: int, w: int) -> None:
    one = LayerShape(name="one", r=layer.r, p=layer.p, c=layer.c)
    assert layer_ticks(layer, point, b, w) == layer.groups * layer_ticks(one, point, b, w)


def test_hand_computed_layer() -> None:
    """ResNet-50's layer3 3x3 at b = 2 on <4652, 7, 128>: 330 tiles of 7 less 6, 256 columns are 2 tiles."""
    layer, point = LayerShape(name="conv2", r=196, p=2304, c=256), Point(t_r=4652, t_p=7, t_c=128)
    assert compute_cycles(layer, point, 2) == 330 * 784
    assert memory_words(layer, point, 2) == max(2 * 196 * 2310 * 2, 2310 * 256 * 1, 2 * 196 * 256)
    assert layer_ticks(layer, point, 2, 8) == 8 * 330 * 784  # compute-bound: 2069760 > 1811040
    stacked = Point(t_r=2326, t_p=14, t_c=64)
    assert point.stacked() == stacked
    assert layer_ticks(layer, point, 2, 8, Stack.TWO) == layer_ticks(layer, stacked, 2, 8)


def test_weights_are_read_again_for_every_row_block() -> None:
    layer, point = LayerShape(name="x", r=10, p=64, c=64), Point(t_r=4, t_p=8, t_c=8)
    assert memory_words(layer, point, 1) == max(10 * 64 * 8, 64 * 64 * 3, 10 * 64)
    assert memory_words(layer, Point(t_r=10, t_p=8, t_c=8), 1) == 10 * 64 * 8


def test_ties_take_k_1_and_a_better_k_2_is_taken() -> None:
    point = Point(t_r=64, t_p=8, t_c=8)
    assert best_stack(LayerShape(name="even", r=64, p=128, c=64), point, 1, 64)[0] is Stack.ONE
    assert best_stack(LayerShape(name="narrow", r=1, p=128, c=4), point, 1, 64)[0] is Stack.TWO
    assert best_stack(LayerShape(name="narrow", r=1, p=128, c=4), point, 1, 64, stackable=False)[0] is Stack.ONE


def test_pools_take_no_time_and_k_must_exist() -> None:
    pool = LayerShape(name="pool", r=49, p=9, c=64, kind=Kind.MAX_POOL)
    point = Point(t_r=64, t_p=8, t_c=1)
    assert layer_ticks(pool, point, 4, 8) == 0
    assert not distinct([pool])
    layer = LayerShape(name="x", r=1, p=1, c=1)
    with pytest.raises(DesignError, match="at least two PEs"):
        layer_ticks(layer, point, 1, 8, Stack.TWO)
    with pytest.raises(DesignError, match="not k = 1/2"):
        layer_ticks(layer, point, 1, 8, Stack.HALF)
    with pytest.raises(DesignError, match="t_p must be a whole number"):
        Point(t_r=1, t_p=0, t_c=1)


@settings(max_examples=20)
@given(workloads(), points, st.integers(1, 8), words)
def test_equal_layers_cost_their_number(workload: Workload, point: Point, b: int, w: int) -> None:
    each = math.fsum(best_stack(layer, point, b, w)[1] for layer in workload.layers)
    assert total_ticks(workload.layers, point, b, w) == each
