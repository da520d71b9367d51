"""Pools that are merged with layers, in the search: RAM, roofline, bounds, plans and designs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DesignError, DramModel, Mode, Point, build_design, explore
from fluidnpu.dse.exact.bound import Candidates, lower_bound
from fluidnpu.dse.exact.estimate import estimated_plan
from fluidnpu.dse.exact.mapping import mappings
from fluidnpu.dse.exact.model import Machine, job_cycles, layer_cost
from fluidnpu.dse.exact.search import best_plan, synthetic_job
from fluidnpu.dse.hardware.array import Array
from fluidnpu.dse.hardware.pooling import pool_room, pooled_beats, poolings
from fluidnpu.dse.hardware.roofline import layer_words
from fluidnpu.dse.question import Question, Target
from fluidnpu.dse.resources.fit import fit
from fluidnpu.dse.testing import design_for
from fluidnpu.models import Kind, LayerShape, Window, Workload
from fluidnpu.models.graph import Pooling

CONV = LayerShape(
    name="conv", r=256, p=27, c=24, window=Window(kernel=(3, 3), out=(16, 16), channels=3),
    pooling=Pooling(kernel=3, padded=(1, 1), out=(8, 8)),
)  # fmt: skip
POOL = replace(
    CONV, name="pool", r=64, p=9, kind=Kind.MAX_POOL, pooling=None, merged=True,
    window=Window(kernel=(3, 3), stride=(2, 2), out=(8, 8), channels=24),
)  # fmt: skip
HEAD = LayerShape(name="head", r=64, p=24, c=10, window=Window(kernel=(1, 1), out=(8, 8), channels=24))
WORK = Workload(name="pooled", layers=(CONV, POOL, HEAD))
ARRAY = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8, out_words=4)
BOARD = load_board("zc706")


def test_what_is_pooled_moves_less() -> None:
    alone = WORK.unmerged.layers
    assert layer_words(POOL, 3) == 0
    assert layer_words(alone[0], 3) - layer_words(CONV, 3) == 3 * 24 * (256 - 64)
    residual = replace(CONV, residual=True)
    assert layer_words(residual, 1) - layer_words(CONV, 1) == 256 * 24


def test_every_mode_has_room() -> None:
    for t_c in (2, 5, 8, 27, 30):
        array = replace(ARRAY, t_c=t_c)
        beats = max(
            sum(-(-min(width, 24 - first) // 4) for first in range(0, 24, width))
            for width in (array.tile(mode)[1] for mode in (Mode.NORMAL, Mode.WIDE, Mode.LANES))
        )
        assert pooled_beats(24, array) == beats
        assert pool_room(poolings(WORK.layers), array) == (beats, 8 * beats)
    sizes: dict[str, Any] = {
        "t_r": np.full(3, 64),
        "t_p": np.full(3, 4),
        "weight_slots": np.ones(3, int),
        "in_words": np.full(3, 8),
    }
    many = Array(**sizes, t_c=np.array([2, 8, 30]), out_words=4)
    assert pooled_beats(24, many).tolist() == [pooled_beats(24, replace(ARRAY, t_c=n)) for n in (2, 8, 30)]
    assert pool_room((), many) == (0, 0)


def test_outputs_of_a_pool_come_in_the_order_of_the_image() -> None:
    assert [(one.mode, one.b_r, one.row_lanes) for one in mappings(CONV, 4)] == [
        (Mode.NORMAL, 4, False), (Mode.WIDE, 4, False), (Mode.LANES, 4, True),
    ]  # fmt: skip
    assert [one.row_lanes for one in mappings(CONV.alone, 4)] == [False, False, False]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 3), st.integers(0, 1), st.integers(8, 13), st.integers(1, 30), st.integers(1, 3), st.integers(0, 99)
)
def test_bounds_stay_below_the_exact_cycles(kernel: int, pad: int, width: int, c: int, batch: int, pick: int) -> None:
    width += (width - 1 + pad) % 2 == 0 and kernel == 2
    out = (width + pad) // 2 if kernel == 3 else (width - 1 + pad) // 2 + 1
    pooling = Pooling(kernel=kernel, padded=(pad, pad), out=(out, out))
    window = Window(kernel=(3, 3), out=(width, width), channels=4)
    layer = LayerShape(name="conv", r=width * width, p=36, c=c, window=window, pooling=pooling)
    machine = Machine(array=ARRAY, port_bytes=8)
    dram = DramModel(latency_cycles=20, write_latency_cycles=9, link_words=3.1, total_words=4.2)
    every = mappings(layer, batch)
    mapping = every[pick % len(every)]
    block = 1 + pick % 64
    bound = lower_bound(layer, mapping, np.array([float(block)]), Candidates.of(machine, dram))[0]
    job, slots = synthetic_job(layer, mapping, block, ARRAY)
    assert job.pooled_hw == (out, out)
    cost = layer_cost(job, slots, machine, dram)
    assert bound <= cost.run
    assert batch * layer.stored <= 4 * job_cycles([job], slots, machine, dram)[0].write_beats


def test_a_pool_that_is_merged_takes_no_time() -> None:
    machine = Machine(array=ARRAY)
    assert best_plan(POOL, 2, machine, DramModel.IDEAL)[1].run <= 4
    merged, alone = (best_plan(one, 2, machine, DramModel.IDEAL)[1].run for one in (CONV, CONV.alone))
    assert merged <= 1.05 * alone
    assert (
        estimated_plan(POOL, machine, DramModel.IDEAL, 2)[0]
        < estimated_plan(POOL.alone, machine, DramModel.IDEAL, 2)[0]
    )


def test_a_search_merges_and_the_published_model_does_not() -> None:
    found = explore(WORK, BOARD, b_max=2, evaluations=1).design
    assert found.layers == WORK.layers
    assert found.pool_room[1] > 0
    assert build_design(WORK, BOARD, Point(t_r=512, t_p=9, t_c=24), b_max=2).layers == WORK.unmerged.layers
    assert Design.loads(found.dumps()) == found
    assert found.matches(WORK)
    assert build_design(WORK, BOARD, Point(t_r=512, t_p=9, t_c=24), b_max=2).matches(WORK)
    assert not found.matches(WORK.unmerged), "a pool that somebody needs alone cannot be merged"


def test_the_room_is_counted() -> None:
    point = Point(t_r=512, t_p=9, t_c=24)
    without, with_room = (fit(point, Target(board=BOARD, poolings=some)) for some in ((), ((24, 900),)))
    assert Question(workload=WORK, board=BOARD).target.poolings == ((24, 8),)
    assert with_room.ramb18 == without.ramb18 + with_room.parts["pooled_rows"] > without.ramb18
    assert with_room.lut.value > without.lut.value
    assert with_room.ff.value > without.ff.value


def test_parts_share_the_room_of_their_npu() -> None:
    whole = design_for(WORK)
    other = whole.with_room(((24, 8), (5, 99)))
    assert other.pool_room[1] > whole.pool_room[1]
    assert Design.loads(other.dumps()) == other
    part = whole.of_stages((0,), ((0, 1, 2),), whole.latency, None)
    assert part.pool_room == whole.pool_room
    assert part.hardware is not None
    assert part.hardware.poolings == ((24, 8),)
    parameters = whole.rtl_parameters()
    assert (parameters["PoolWindows"], parameters["PoolRows"]) == whole.pool_room


def test_halves_of_a_batch_are_refused() -> None:
    design = design_for(WORK)
    rows = [list(row) for row in design.plans]
    rows[0][1] = replace(rows[0][1], b_r=1)
    with pytest.raises(DesignError, match="layer 'conv' at batch 2: b_r must be 2 where outputs pass a pool"):
        replace(design, plans=tuple(map(tuple, rows)))
