"""The table of cycles that the studies of placement read is one of ResNet-50, whole and plausible."""

from __future__ import annotations

import json

import pytest

from fluidnpu.boards import load_board
from fluidnpu.models import shipped_file
from fluidnpu.studies.running.cycles import resnet50_on


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_every_layer_is_counted_at_every_batch_size(board: str) -> None:
    counted = resnet50_on(board)
    with shipped_file("layers_resnet50.json") as path:
        named = {layer["name"] for layer in json.loads(path.read_text())["layers"]}
    assert counted.batches == (1, 2, 4, 8)
    assert counted.clock_hz == load_board(board).clock_hz
    for batch in counted.batches:
        assert tuple(counted.cycles[batch]) == counted.layers
        assert named <= set(counted.layers)
        assert min(counted.cycles[batch].values()) > 0


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_no_layer_is_quicker_than_all_multipliers_of_the_device(board: str) -> None:
    counted, slices = resnet50_on(board), load_board(board).dsp
    with shipped_file("layers_resnet50.json") as path:
        layers = json.loads(path.read_text())["layers"]
    for batch in counted.batches:
        for layer in layers:
            assert counted.cycles[batch][layer["name"]] >= batch * layer["R"] * layer["P"] * layer["C"] / slices
        assert counted.milliseconds(batch) <= batch * counted.milliseconds(1)
