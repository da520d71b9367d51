"""Regions and blocks found in graphs of many kinds, and exits whose bridges are the network's own blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluidnpu.models import Exit, Network, NetworkError, golden, quantise, read_onnx
from fluidnpu.models.exits import attach_bridges, backbone_of, candidate_tensors, single_exit
from fluidnpu.models.graph import Builder
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import FULL_SIZE, full_size, random_network, skeleton, with_random_weights


def plain(widths: tuple[int, ...] = (8, 8, 16, 16, 16)) -> Network:
    """Convolutions, each doubling of the width behind a pool of stride 2."""
    from fluidnpu.models import Kind

    net = Builder({"image": (16, 16, 3)})
    value = "image"
    for index, width in enumerate(widths, start=1):
        if index > 1 and width != widths[index - 2]:
            value = net.pool(Kind.MAX_POOL, f"pool{index}", value, 2, 1)
        value = net.conv(f"conv{index}", value, width, 3)
    net.classifier(("pool", "fc"), value, 10, "final")
    return net.network("plain", [Exit(name="final", logits="final")])


def mobile(first: int = 2) -> Network:
    """Depthwise layers: MobileNet-v1 units with `first` = 1, expanded as in v2 with more."""
    net = Builder({"image": (32, 32, 3)})
    value = net.conv("stem", "image", 8, 3, 2)
    for index, (width, stride) in enumerate(((8, 1), (16, 2), (16, 1), (24, 2), (24, 1)), start=1):
        inside = net.tensors[value][2] * first
        inner = net.conv(f"expand{index}", value, inside) if first > 1 else value
        inner = net.conv(f"deep{index}", inner, inside, 3, stride, groups=inside)
        residual = value if first > 1 and stride == 1 and net.tensors[value][2] == width else None
        value = net.conv(f"project{index}", inner, width, residual=residual)
    net.classifier(("pool", "fc"), value, 10, "final")
    return net.network("mobile", [Exit(name="final", logits="final")])


def sizes(network: Network) -> list[int]:
    return [len(region.blocks) for region in backbone_of(network).regions]


def names(network: Network, layers: tuple[int, ...]) -> list[str]:
    return [network.layers[index].name for index in layers]


def test_regions_are_found_in_every_kind_of_network() -> None:
    assert sizes(full_size("resnet18")) == [2, 2, 2, 2]
    assert sizes(full_size("resnet34")) == sizes(full_size("resnet50")) == [3, 4, 6, 3]
    assert sizes(full_size("resnet101")) == [3, 4, 23, 3]  # the paper prints 4 for the last, its exits fit 3
    assert sizes(full_size("inception_v3"))[-5:] == [1, 2, 5, 1, 2]
    assert sizes(full_size("mobilenet_v2")) == [1, 2, 3, 4, 3, 3, 1, 1]  # the last widens for the classifier
    assert sizes(full_size("efficientnet_lite0")) == [1, 2, 2, 3, 3, 4, 1, 1]
    assert sizes(single_exit(skeleton("resnet20"))) == [3, 3, 3]
    assert sizes(plain()) == [2, 3]
    assert sizes(mobile(1)) == sizes(mobile(2)) == [1, 2, 2]
    backbone = backbone_of(plain())
    assert names(plain(), backbone.blocks[2].layers) == ["pool3", "conv3"]  # a pool belongs to the block behind it
    assert names(mobile(2), backbone_of(mobile(2)).blocks[1].layers) == ["expand2", "deep2", "project2"]
    assert names(mobile(1), backbone_of(mobile(1)).blocks[0].layers) == ["stem", "deep1", "project1"]


def test_blocks_stem_and_head_share_out_all_layers() -> None:
    for network in (*map(full_size, FULL_SIZE), plain(), mobile()):
        backbone = backbone_of(network)
        parts = [backbone.stem, *(block.layers for block in backbone.blocks), backbone.head]
        assert sorted(index for part in parts for index in part) == list(range(len(network.layers)))
        for before, after in zip(backbone.blocks, backbone.blocks[1:], strict=False):
            assert after.source == before.tensor


def test_the_example_of_the_paper() -> None:
    """Section 5.1: after region 2 of ResNet-101 the bridge is the first block of regions 3 and 4."""
    network, place = full_size("resnet101"), "layer2.3.conv3_out"
    assert network.tensors[place] == (28, 28, 512)
    more = attach_bridges(network, [place])
    bridge = [layer.name for layer in more.layers if layer.name.startswith("exit1.")]
    blocks = [
        f"exit1.layer{region}.0.{part}" for region in (3, 4) for part in ("conv1", "conv2", "downsample", "conv3")
    ]
    assert bridge == [*blocks, "exit1.avgpool", "exit1.fc"]
    assert more.tensors["exit1.layer4.0.conv3_out"] == (7, 7, 2048)


def test_candidates_stand_where_the_paper_has_them() -> None:
    network = full_size("resnet101")
    blocks = [block.tensor for block in backbone_of(network).blocks]
    assert len(blocks) == 33
    assert [blocks.index(tensor) + 1 for tensor in candidate_tensors(network, 11)] == list(range(1, 32, 3))
    with pytest.raises(NetworkError, match=r"1\.\.32 for 'resnet101' of 33 blocks, not 33"):
        candidate_tensors(network, 33)
    with pytest.raises(NetworkError, match="not 0"):
        candidate_tensors(network, 0)


@pytest.mark.parametrize("make", [plain, mobile, lambda: single_exit(skeleton("resnet20"))])
def test_an_exit_is_a_shorter_network_of_trained_parts(make: Any, tmp_path: Path) -> None:
    network = with_random_weights(make(), 1, 2)
    images = np.random.default_rng(0).integers(0, 256, (4, *network.tensors[network.input]), np.uint8)
    tensors = candidate_tensors(network, 2)
    more = attach_bridges(network, tensors, threshold=0.5)
    write_onnx(more, tmp_path / "more.onnx")
    read = read_onnx(tmp_path / "more.onnx")
    assert [exit.name for exit in read.exits] == ["exit1", "exit2", "final"]
    assert read.thresholds == (0.5, 0.5)
    for index, tensor in enumerate(tensors):
        short = run_float(without_blocks_after(network, tensor), images)[0]
        np.testing.assert_array_equal(run_float(more, images)[index], short)
        np.testing.assert_allclose(run_float(read, images)[index], short, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(run_float(more, images)[-1], run_float(network, images)[0])
    stored = golden.run(quantise(read), images)
    assert [one.shape for one in stored] == [(4, 10)] * 3


def without_blocks_after(network: Network, tensor: str) -> Network:
    """The oracle: the network itself, with the blocks that the bridge leaves out cut from its layers."""
    from dataclasses import replace

    backbone = backbone_of(network)
    first = {region.blocks[0].tensor for region in backbone.regions}
    blocks = list(backbone.blocks)
    exit_at = [block.tensor for block in blocks].index(tensor)
    dropped = [block for index, block in enumerate(blocks) if index > exit_at and block.tensor not in first]
    stands_for: dict[str, str] = {}
    for block in dropped:
        stands_for[block.tensor] = stands_for.get(block.source, block.source)
    gone = {index for block in dropped for index in block.layers}
    layers = [
        replace(
            layer,
            input=stands_for.get(layer.input, layer.input),
            residual=None if layer.residual is None else stands_for.get(layer.residual, layer.residual),
        )
        for index, layer in enumerate(network.layers)
        if index not in gone
    ]
    return replace(network, layers=tuple(layers))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_bridges_leave_the_network_as_it_was(seed: int, data: st.DataObject) -> None:
    network = random_network(seed, exits=1)
    try:
        blocks = backbone_of(network).blocks
    except NetworkError:
        assume(False)
        raise
    tensors = data.draw(st.lists(st.sampled_from([b.tensor for b in blocks[:-1]]), min_size=1, max_size=3, unique=True))
    more = attach_bridges(network, tensors)
    images = np.random.default_rng(0).random((3, *network.tensors[network.input]), np.float32)
    np.testing.assert_array_equal(run_float(more, images)[-1], run_float(network, images)[0])
    assert len(more.exits) == len(tensors) + 1
    assert set(more.gains) == set(more.tensors)
    written = {more.input}
    for layer in more.layers:
        assert {layer.input, layer.residual or layer.input} <= written
        written.add(layer.output)


def test_refusals_say_what_is_missing() -> None:
    net = Builder({"image": (8, 8, 3)})
    net.classifier(("pool", "fc"), net.conv("one", "image", 8, 3), 10, "final")
    bare = net.network("bare", [Exit(name="final", logits="final")])
    with pytest.raises(NetworkError, match="an exit stands between two blocks, and 'bare' has 1"):
        candidate_tensors(bare, 1)
    network = plain()
    with pytest.raises(NetworkError, match=r"no end of a block.*'conv5_out'.*close to it"):
        attach_bridges(network, ["conv5_out"])  # the last block: the network ends there anyway
    with pytest.raises(NetworkError, match="comes twice"):
        attach_bridges(network, ["conv1_out", "conv1_out"])
    twice = attach_bridges(attach_bridges(network, ["conv3_out"]), ["conv1_out"])
    assert [exit.name for exit in twice.exits] == ["exit2", "exit1", "final"]
