"""Exits attached to networks that lack them: their places, their order, and all that must stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluidnpu.models import Network, NetworkError, golden, quantise, read_onnx
from fluidnpu.models.exits import attach_exits, equidistant_tensors, exit_places, single_exit
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import full_size, random_network, skeleton


def images_for(network: Network, count: int = 3) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(3).random((count, *network.tensors[network.input]), np.float32)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_attaching_exits_leaves_the_others_as_they_were(seed: int, data: st.DataObject) -> None:
    network = random_network(seed, exits=2)
    names = [place.tensor for place in exit_places(network)]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    more = attach_exits(network, chosen)
    images = images_for(network)
    before = {exit.name: logits for exit, logits in zip(network.exits, run_float(network, images), strict=True)}
    after = {exit.name: logits for exit, logits in zip(more.exits, run_float(more, images), strict=True)}
    assert len(after) == len(before) + len(chosen)
    for name, logits in before.items():
        np.testing.assert_array_equal(logits, after[name])
    written: set[str] = {more.input}
    for layer in more.layers:  # every stage runs on what it and the stages before it wrote
        assert {layer.input, layer.residual or layer.input} <= written
        written.add(layer.output)
    assert more.exits[-1].name == network.exits[-1].name
    assert [exit.rate for exit in more.exits] == [None] * len(more.exits)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_ranges_of_heads_are_bounds(seed: int) -> None:
    network = random_network(seed, exits=1)
    assume(exit_places(network))  # a classifier may be all that has weights
    more = attach_exits(network, [exit_places(network)[0].tensor])
    images = images_for(network, 8)
    counts = golden.saturations(quantise(more), images)
    assert counts["exit1_pool"] == 0
    assert counts["exit1_fc"] == 0


def test_single_exit_and_back() -> None:
    network = skeleton("resnet8")
    bare = single_exit(network)
    assert [exit.name for exit in bare.exits] == ["final"]
    assert {layer.stage for layer in bare.layers} == {0}
    assert not any(layer.name.startswith("exit") for layer in bare.layers)
    assert [place.tensor for place in exit_places(bare) if place.cut] == [
        "stem_out",
        "stage1_block1_b_out",
        "stage2_block1_b_out",
        "stage3_block1_b_out",
        "final_pool_out",
    ]


def test_equidistant_exits_of_resnet50_stand_at_cuts_near_equal_shares() -> None:
    network = full_size("resnet50")
    shares = {place.tensor: place.share for place in exit_places(network)}
    found = equidistant_tensors(network, 4)
    assert len(found) == 3
    for share, tensor in zip((0.25, 0.5, 0.75), found, strict=True):
        assert abs(shares[tensor] - share) < 0.06  # half a block
    assert equidistant_tensors(network, 1) == ()
    every = equidistant_tensors(network, 18)
    assert len(set(every)) == 17
    with pytest.raises(NetworkError, match=r"1\.\.18 for 'resnet50'.*not 19"):
        equidistant_tensors(network, 19)


def test_refusals_name_what_is_close() -> None:
    network = single_exit(skeleton("resnet8"))
    with pytest.raises(NetworkError, match=r"no place for an exit 'stage1_block_b'.*stage1_block1_b_out"):
        attach_exits(network, ["stage1_block_b"])
    with pytest.raises(NetworkError, match="comes twice"):
        attach_exits(network, ["stem_out", "stem_out"])
    with pytest.raises(NetworkError, match="no place for an exit 'image'"):
        attach_exits(network, ["image"])


def test_what_is_attached_survives_the_file(tmp_path: Path) -> None:
    network = attach_exits(
        random_network(4, exits=1), [exit_places(random_network(4, exits=1))[1].tensor], threshold=0.7
    )
    write_onnx(network, tmp_path / "more.onnx")
    read = read_onnx(tmp_path / "more.onnx")
    assert read.workload.exits == network.workload.exits
    assert [exit.threshold for exit in read.exits] == [0.7, None]
    for mine, theirs in zip(run_float(network, images_for(network)), run_float(read, images_for(read)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_second_exit_gets_a_name_of_its_own() -> None:
    network = single_exit(skeleton("resnet8"))
    once = attach_exits(network, ["stage2_block1_b_out"])
    twice = attach_exits(once, ["stem_out"])
    assert [exit.name for exit in twice.exits] == ["exit2", "exit1", "final"]
