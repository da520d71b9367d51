"""Depthwise filters on the way out, in the exact model: RAM, weights, positions, and merged layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import DramModel, Mode
from fluidnpu.dse.exact.mapping import LayerMapping
from fluidnpu.dse.exact.model import LayerCycles, LayerJob, Machine, job_cycles, layer_cost, layer_numbers
from fluidnpu.dse.exact.search import synthetic_job
from fluidnpu.dse.hardware.array import Array
from fluidnpu.dse.hardware.filtering import FilterRoom, filter_bytes, filter_room, filter_rows, filterings
from fluidnpu.models import LayerShape, Window
from fluidnpu.models.graph import Filtering

EXPAND = LayerShape(
    name="expand", r=256, p=4, c=24, window=Window(kernel=(1, 1), out=(16, 16), channels=4),
    filtering=Filtering(kernel=3, stride=2, padded=(1, 1), out=(8, 8)),
)  # fmt: skip
DEPTHWISE = LayerShape(
    name="depthwise", r=64, p=9, c=1, groups=24, merged=True,
    window=Window(kernel=(3, 3), stride=(2, 2), out=(8, 8), channels=24),
)  # fmt: skip
ARRAY = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8, out_words=4)
SLOW = DramModel(latency_cycles=20, write_latency_cycles=9, link_words=3.1, total_words=4.2)


def job_of(layer: LayerShape, batch: int = 1, block: int = 64, **mapping: Any) -> tuple[LayerJob, list[int]]:
    return synthetic_job(
        layer, LayerMapping(**{"mode": Mode.NORMAL, "batch": batch, "b_r": batch} | mapping), block, ARRAY
    )


def count(layer: LayerShape, dram: DramModel = DramModel.IDEAL, **of: Any) -> LayerCycles:
    job, slots = job_of(layer, **of)
    return job_cycles([job], slots, Machine(array=ARRAY), dram)[0]


def test_the_room_is_that_of_the_largest_layer_in_every_mode() -> None:
    assert filter_room((), ARRAY) == FilterRoom(0, 0, 0, 0, 0, 0)
    deep = replace(
        EXPAND, r=35, c=5, window=Window(kernel=(1, 1), out=(5, 7), channels=4),
        filtering=Filtering(kernel=5, padded=(2, 2), out=(5, 7), activation="table"),
    )  # fmt: skip
    some = filterings([EXPAND, DEPTHWISE, deep, replace(EXPAND, name="again")])
    assert len(some) == 2
    assert filter_room(some, ARRAY) == FilterRoom(5, 6, 16 * 6, 7 * 2, 6, 1)
    sizes: dict[str, Any] = {
        name: np.full(3, getattr(ARRAY, name)) for name in ("t_r", "t_p", "weight_slots", "in_words")
    }
    many = Array(**sizes, t_c=np.array([2, 8, 30]), out_words=4)
    each = [filter_room(some, replace(ARRAY, t_c=t_c)) for t_c in (2, 8, 30)]
    for name in FilterRoom._fields:
        got = np.broadcast_to(getattr(filter_room(some, many), name), 3).tolist()
        assert got == [getattr(room, name) for room in each]
    assert filter_rows(deep, many).tolist() == [3 * n for n in (5, 2, 2)]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(1, 2), st.integers(0, 6), st.integers(4, 9), st.integers(1, 6), st.data())
def test_every_window_leaves_once(
    kernel: int, stride: int, pad: int, wide: int, high: int, data: st.DataObject
) -> None:
    """In blocks that end anywhere, on both memories: all beats, and never faster than its positions."""
    pad = min(pad, kernel - 1)
    out = tuple((size + 2 * pad - kernel) // stride + 1 for size in (high, wide))
    if min(out) < 1:
        return
    columns, table = data.draw(st.integers(1, 20)), data.draw(st.sampled_from(["", "table"]))
    layer = replace(
        EXPAND, r=high * wide, c=columns, window=Window(kernel=(1, 1), out=(high, wide), channels=4),
        filtering=Filtering(kernel=kernel, stride=stride, padded=(pad, pad), out=(out[0], out[1]), activation=table),
    )  # fmt: skip
    batch, block = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 64))
    lanes = data.draw(st.booleans())
    of: dict[str, Any] = {"mode": Mode.LANES, "row_lanes": True} if lanes else {}
    job, slots = job_of(layer, batch=batch, block=block, **of)
    assert job.pooled_hw == out
    machine = Machine(array=ARRAY)
    (cycles,) = job_cycles([job], slots, machine, data.draw(st.sampled_from([DramModel.IDEAL, SLOW])))
    width = ARRAY.tile(job.mode)[1]
    beats = sum(-(-min(width, columns - first) // 4) for first in range(0, columns, width))
    assert cycles.output_beats == batch * high * wide * beats
    assert batch * out[0] * out[1] * columns <= 8 * cycles.write_beats
    windows = out[0] * out[1]
    steps = layer_numbers(job, machine)["filter_steps"]
    assert cycles.cycles > batch * beats * (job.walk_h * job.walk_w + windows * (steps - 1))


def test_constants_come_behind_the_weights_in_one_request() -> None:
    machine, rows = Machine(array=ARRAY), filter_rows(EXPAND, ARRAY)
    plain = layer_numbers(job_of(EXPAND)[0], machine)
    table = layer_numbers(job_of(replace(EXPAND, filtering=replace(EXPAND.filtering, activation="table")))[0], machine)  # type: ignore[type-var]
    assert plain["constant_words"] == plain["filter_words"] == filter_bytes(rows, 4, 16) // 16 == 36
    assert table["constant_words"] == 36 + -(-258 * 4 // 16)
    assert count(EXPAND).read_beats[2] == 36
    assert (
        layer_cost(*job_of(EXPAND), machine).lead
        > layer_cost(*job_of(replace(EXPAND, filtering=None)), machine).lead + 36
    )


def test_a_merged_layer_takes_no_time() -> None:
    machine = Machine(array=ARRAY)
    cost = layer_cost(*job_of(DEPTHWISE), machine)
    assert cost.run <= 3
    merged, alone = (layer_cost(*job_of(one), machine).run for one in (EXPAND, replace(EXPAND, filtering=None)))
    assert merged < alone + layer_cost(*job_of(replace(DEPTHWISE, merged=False)), machine).run
    both = count(DEPTHWISE)
    assert (both.input_beats, both.weight_beats, both.write_beats, sum(both.read_beats[1:])) == (0, 0, 0, 0)
