"""Every counted cycle belongs to one wall, and layers that waste the array are named."""

from __future__ import annotations

import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import Exploration, explore
from fluidnpu.dse.exploration.walls import tile_cycles
from fluidnpu.models import LayerShape, Window, Workload


def convolution(name: str, size: int, channels: int, columns: int, *, groups: int = 1, kernel: int = 3) -> LayerShape:
    """A layer of `columns` outputs a group on `channels` of `size` by `size` pixels."""
    window = Window(kernel=(kernel, kernel), out=(size, size), channels=channels)
    words = kernel * kernel * channels // groups
    return LayerShape(name=name, r=size * size, p=words, c=columns, groups=groups, window=window)


def found(*layers: LayerShape, b_max: int = 2, memory: str = "pl") -> Exploration:
    work = Workload(name="few", layers=layers)
    return explore(work, load_board("zc706"), b_max=b_max, model="exact", memory=memory, evaluations=1, core="rtl")


def test_the_shares_are_those_of_the_counted_cycles() -> None:
    one = found(convolution("a", 14, 64, 64), convolution("b", 14, 64, 128, kernel=1))
    assert one.layer_cycles is not None
    for batch in (1, 2):
        walls = one.walls(batch)
        assert walls is not None
        assert walls.cycles == sum(row[batch - 1] for row in one.layer_cycles)
        busy = batch * one.workload.macs / one.design.macs_per_cycle
        assert walls.compute == pytest.approx(busy / walls.cycles)
        assert walls.tiles >= 0
        assert walls.memory >= 0
        assert walls.compute + walls.tiles + walls.memory == pytest.approx(1)
        assert one.frames_per_second[batch - 1] * one.batch_ms[batch - 1] == pytest.approx(1e3 * batch)
    assert one.waste(2) == []


def test_tiles_without_waiting_are_at_most_what_was_counted_and_at_least_the_work() -> None:
    one = found(convolution("a", 14, 48, 40), convolution("b", 7, 40, 72))
    assert one.layer_cycles is not None
    for index, layer in enumerate(one.workload.layers):
        for batch in (1, 2):
            tiled = tile_cycles(one.design, index, batch)
            assert batch * layer.macs / one.design.macs_per_cycle <= tiled <= one.layer_cycles[index][batch - 1]


def test_depthwise_layers_are_named_where_they_cost_much() -> None:
    one = found(convolution("wide", 14, 64, 64, kernel=1), convolution("deep", 14, 64, 1, groups=64))
    (said,) = one.waste(2)
    assert said.startswith("1 grouped (depthwise) layer takes ")
    assert "each group fills" in said
    walls = one.walls(2)
    assert walls is not None
    assert walls.tiles > walls.compute


def test_the_papers_model_counts_no_walls() -> None:
    one = explore(
        Workload(name="one", layers=(convolution("a", 14, 64, 64),)),
        load_board("zc706"),
        b_max=1,
        model="paper",
        core="rtl",
    )
    assert one.walls(1) is None
    assert one.waste(1) == []
    assert one.to_json()["walls"] == []
    assert "pareto" not in one.to_json(front=False)
