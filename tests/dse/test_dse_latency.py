"""Latency tables: whole nanoseconds, never falling with the batch, baselines never faster."""

from dataclasses import replace

import pytest
from dse_strategies import points, workloads
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable, Point
from fluidnpu.dse.paper import Batching, pool_cycles, stage_latency, total_ticks
from fluidnpu.dse.paper.latency import latency_table
from fluidnpu.dse.testing import design_for
from fluidnpu.models import Kind, LayerShape, Workload

clocks = st.integers(10**6, 10**9)
words = st.integers(1, 32)


def table(workload: Workload, point: Point, clock: int, w: int, way: Batching, stackable: bool = True) -> LatencyTable:
    return stage_latency(
        workload.layers, point, clock_hz=clock, words_per_cycle=w, b_max=6, batching=way, stackable=stackable
    )


@given(workloads(), points, clocks, words, st.sampled_from(list(Batching)))
def test_monotone_in_the_batch(workload: Workload, point: Point, clock: int, w: int, way: Batching) -> None:
    for row in table(workload, point, clock, w, way).ns:
        assert list(row) == sorted(row)
        assert all(isinstance(value, int) and value > 0 for value in row)


@given(workloads(), points, clocks, words)
def test_stages_add_up_to_the_model_and_the_pools(workload: Workload, point: Point, clock: int, w: int) -> None:
    found = table(workload, point, clock, w, Batching.FLUID)
    for b in range(1, 7):
        pools = b * w * sum(pool_cycles(layer, 2 * point.t_p) for layer in workload.layers)
        ticks = total_ticks(workload.layers, point, b, w) + pools
        exact = ticks * 10**9 / (clock * w)
        whole = found.between(0, found.stages - 1, b)
        assert exact * (1 - 1e-9) <= whole <= exact * (1 + 1e-9) + found.stages


@given(workloads(), points, clocks, words)
def test_baselines_are_never_faster(workload: Workload, point: Point, clock: int, w: int) -> None:
    ways = {way: table(workload, point, clock, w, way, stackable=way is Batching.FLUID) for way in Batching}
    for stage in range(len(workload.exits)):
        for b in range(6):
            fluid, r, fc = (ways[way].ns[stage][b] for way in (Batching.FLUID, Batching.R, Batching.FC))
            assert fluid <= r <= fc
        assert ways[Batching.R].ns[stage][0] == ways[Batching.FC].ns[stage][0]


def test_fc_batches_single_rows_only() -> None:
    layers = (
        LayerShape(name="conv", r=100, p=64, c=8),
        LayerShape(name="fc", r=1, p=64, c=8, stage=1),
    )
    design = design_for(Workload(name="two", layers=layers, exits=("a", "b")), t_p=8, t_c=8, b_max=4, out_words=1)
    conv, fc = latency_table(design, "fc").ns
    assert list(conv) == [conv[0] * b for b in (1, 2, 3, 4)]
    assert fc[3] < 4 * fc[0]


def test_pools_cost_one_beat_a_tap_and_max_pools_half_of_it() -> None:
    pool = LayerShape(name="pool", r=49, p=9, c=20, kind=Kind.MAX_POOL)
    assert pool_cycles(pool, 8) == 49 * 5 * 3
    assert pool_cycles(replace(pool, kind=Kind.SUM_POOL), 8) == 49 * 9 * 3
    assert pool_cycles(LayerShape(name="conv", r=49, p=9, c=20), 8) == 0
    layers = (LayerShape(name="fc", r=1, p=8, c=8), pool)
    point = Point(t_r=64, t_p=8, t_c=8)
    both, alone = (
        stage_latency(rows, point, clock_hz=10**9, words_per_cycle=8, b_max=2).ns[0] for rows in (layers, layers[:1])
    )
    assert [x - y for x, y in zip(both, alone, strict=True)] == [490, 980]


def test_unknown_batching_is_refused() -> None:
    design = design_for(Workload(name="w", layers=(LayerShape(name="fc", r=1, p=8, c=8),)))
    with pytest.raises(ValueError, match="'lazy' is not a valid Batching"):
        latency_table(design, "lazy")
