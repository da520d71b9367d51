"""Random layers that pass a depthwise filter (ADR 70), on the RTL of whole NPUs: every stored word, the words
that saturate, cycles, beats and bursts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from fluidnpu.dse import Design
from fluidnpu.hls.program import Descriptor
from fluidnpu.models import LayerShape, Window
from fluidnpu.models.graph import Filtering
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.data_plane.coverage import filter_bins
from fluidnpu.rtl_tb.data_plane.environment.jobs import Shape, bench_design, random_shape
from fluidnpu.rtl_tb.npu.layers import shape_of
from fluidnpu.rtl_tb.npu.world import ARRAY, NpuWorld, model_of

PROGRAM = 4  # pairs of a program
SIZES = {
    "t_r": 24, "t_p": 4, "t_c": 10, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 2, "out_words": 8, "port_bytes": 16,
    "activation": 1, "filter_table": 1,
}  # fmt: skip
# Array and core; 60 pairs on each make the 300 of issue 35.
NPUS: Mapping[str, tuple[dict[str, int], str]] = {
    "8 lanes": (SIZES | {"filter": 7}, "rtl"),
    "16 lanes": (SIZES | {"filter": 5, "out_words": 16, "t_c": 20, "activation_dsp": 1}, "rtl"),
    "32 lanes": (SIZES | {"filter": 3, "out_words": 32, "t_c": 36, "port_bytes": 8, "activation": 0, "filter_table": 0}, "rtl"),
    "8 lanes, HLS core": (SIZES | {"filter": 5, "split": 0}, "hls"),
    "16 lanes, HLS core": (SIZES | {"filter": 7, "out_words": 16, "t_c": 12, "weight_slots": 1}, "hls"),
}  # fmt: skip


def pair(rng: random.Random, design: Design) -> Shape:
    """A layer that passes a filter, of any map, stride and padding, and what an array may do besides."""
    while (shape := random_shape(rng, design)).filter is None:
        pass
    return shape


def play(seed: int, model: NpuModel, design: Design, pairs: int) -> list[tuple[Descriptor, int]]:
    """Run so many random pairs, each at a batch of its own; returns their descriptors and batches."""
    rng, played = random.Random(seed), []
    for first in range(0, pairs, PROGRAM):
        shapes = [pair(rng, design) for _ in range(min(PROGRAM, pairs - first))]
        world = NpuWorld.of(rng.getrandbits(16), model, design, layers=shapes)
        for layer in range(len(shapes)):
            world.draw_batch()
            world.draw_plans(range(layer, layer + 1))
            world.right(range(layer, layer + 1))
            played.append((world.program.descriptors[layer], len(world.active)))
    return played


def bins_of(played: Sequence[tuple[Descriptor, int]]) -> Counter[str]:
    return Counter(name for layer, _ in played for name in filter_bins(layer))


@pytest.mark.cpu(8, "the array of the campaign, whose build others share")
def test_some_pairs_are_right() -> None:
    played = play(1, model_of(ARRAY, stripes=2), ARRAY, 12)
    met = bins_of(played)
    assert {layer.filter_stride for layer, _ in played} == {1, 2}
    assert len({layer.filter_kernel for layer, _ in played}) > 2
    assert met["a table behind a filter"] > 1 < met["no table behind a filter"]
    assert len({batch for _, batch in played}) > 2


@pytest.mark.long
@pytest.mark.parametrize("name", NPUS)
def test_sixty_pairs_are_right(name: str) -> None:
    sizes, core = NPUS[name]
    design = bench_design(sizes)
    played = play(35, model_of(design, core=core), design, 60)
    met = bins_of(played)
    assert len({layer.filter_kernel for layer, _ in played}) == design.filter_room.kernel - 1
    assert all(met[f"a filter {how} the map"] for how in ("begins beside", "begins with", "ends beside"))
    assert any(layer.columns > design.t_c for layer, _ in played), "several column tiles"
    assert {batch for _, batch in played} == set(range(1, 5))


def test_a_wrong_filter_is_told() -> None:
    """The comparison is able to fail: the memory has other weights than the models."""
    rng = random.Random(3)
    shapes = [pair(rng, ARRAY)]
    world = NpuWorld.of(3, model_of(ARRAY, stripes=2), ARRAY, layers=shapes)
    world.draw_batch(1)
    world.draw_plans(range(1))
    image = world.npu.view(world.at(world.program.weights), len(world.program.image))
    image[:] ^= 0x40
    with pytest.raises(SimulationError, match="must be"):
        world.right(range(1))


@pytest.mark.parametrize(
    ("most", "out", "filtered"),
    [(None, (12, 12), (6, 6)), ((8, 8), (8, 8), (4, 4)), ((7, 9), (7, 9), (3, 4)), ((8, 3), (8, 3), None)],
)
def test_a_layer_that_is_cut_keeps_its_filter(
    most: tuple[int, int] | None, out: tuple[int, int], filtered: tuple[int, int] | None
) -> None:
    """Of a map that is cut to fewer columns than the filter takes, nothing is filtered."""
    window = Window(kernel=(1, 1), out=(12, 12), channels=4)
    filtering = Filtering(kernel=3, stride=2, padded=(1, 1), out=(6, 6))
    shape = shape_of(LayerShape(name="expand", r=144, p=4, c=8, window=window, filtering=filtering), most)
    assert shape.out == out
    assert (shape.filter.out if shape.filter else None) == filtered
