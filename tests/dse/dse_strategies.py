"""Hypothesis strategies: layers, workloads, points, boards and designs, small enough for brute force."""

from dataclasses import replace

from hypothesis import strategies as st

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import BatchPlan, Design, LatencyTable, Point
from fluidnpu.dse.design import Stack
from fluidnpu.dse.hardware.array import Array, input_words
from fluidnpu.models import Kind, LayerShape, Workload

kinds = st.sampled_from((Kind.GEMM, Kind.GEMM, Kind.GEMM, Kind.MAX_POOL, Kind.SUM_POOL))


@st.composite
def layers(draw: st.DrawFn, gemm_only: bool = False, stage: int = 0) -> LayerShape:
    return LayerShape(
        name=draw(st.text("abcdefgh.01", min_size=1, max_size=6)),
        r=draw(st.integers(1, 3000)),
        p=draw(st.integers(1, 1200)),
        c=draw(st.integers(1, 600)),
        groups=draw(st.sampled_from((1, 1, 1, 2, 32))),
        kind=Kind.GEMM if gemm_only else draw(kinds),
        stage=stage,
        residual=draw(st.booleans()),
    )


@st.composite
def workloads(draw: st.DrawFn, max_stages: int = 3) -> Workload:
    stages = draw(st.integers(1, max_stages))
    rows = [draw(layers(gemm_only=True))]
    for stage in range(stages):
        rows += [draw(layers(stage=stage)) for _ in range(draw(st.integers(1, 3)))]
    return Workload(name="drawn", layers=tuple(rows), exits=tuple(f"exit{s}" for s in range(stages)))


points = st.builds(Point, t_r=st.integers(1, 9000), t_p=st.integers(1, 40), t_c=st.integers(1, 300))


@st.composite
def small_boards(draw: st.DrawFn) -> Board:
    """A shipped board with other resources, few enough DSPs to walk the whole space one by one."""
    base = load_board(draw(st.sampled_from(("zc706", "zcu104"))))
    return replace(
        base,
        name="drawn",
        dsp=draw(st.integers(1, 40)),
        ramb36=draw(st.integers(1, 400)),
        uram288=draw(st.sampled_from((0, 1, 7, 96))),
        paper_words_per_cycle=draw(st.sampled_from((1, 3, 8, 16))),
        paper_memory_bits=draw(st.integers(20_000, 4_000_000)),
        sources={},
    )


@st.composite
def designs(draw: st.DrawFn) -> Design:
    """Any legal design, not only what the search would pick."""
    workload = draw(workloads())
    b_max = draw(st.integers(1, 4))
    t_p, stackable = draw(st.integers(1, 32)), draw(st.booleans())
    split = t_p % 2 == 0 and draw(st.booleans())
    stacks = [Stack.ONE] + [Stack.TWO] * stackable + [Stack.HALF] * split

    def plan(batch: int) -> BatchPlan:
        k = draw(st.sampled_from(stacks))
        lanes = k is Stack.ONE and stackable and draw(st.booleans())
        return BatchPlan(k=k, b_r=draw(st.integers(1, batch)), row_lanes=lanes)

    t_r = draw(st.integers(2, 10_000))
    ns = st.lists(st.integers(1, 10**12), min_size=b_max, max_size=b_max).map(tuple)
    rates = None if draw(st.booleans()) else tuple(1 / len(workload.exits) for _ in workload.exits)
    array = Array(
        t_r=t_r,
        t_p=t_p,
        t_c=draw(st.integers(2, 300)),
        weight_slots=draw(st.integers(1, 8)),
        in_words=input_words(t_p, 128, stackable=stackable),
        out_words=draw(st.integers(1, 32)),
        stackable=stackable,
        split=split,
    )
    return Design(
        network=workload.name,
        workload_digest=workload.digest,
        board="drawn",
        clock_hz=draw(st.integers(10**6, 10**9)),
        array=array,
        b_max=b_max,
        layers=workload.layers,
        exits=workload.exits,
        exit_rates=rates,
        plans=tuple(tuple(plan(b) for b in range(1, b_max + 1)) for _ in workload.layers),
        latency=LatencyTable(ns=tuple(draw(ns) for _ in workload.exits)),
        model=draw(st.sampled_from(("paper", "exact"))),
        published_t_r=draw(st.integers(t_r, 20_000)),
        acc_bits=draw(st.integers(32, 48)),
        activation=draw(st.sampled_from((None, "lut", "dsp"))),
    )
