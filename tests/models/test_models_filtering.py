"""Depthwise layers that can be merged with the layers before them: which, and how a workload says so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fluidnpu.models import Exit, Kind, Layer, LayerShape, Network, NetworkError
from fluidnpu.models.graph import Activation, Builder, Filtering, FilterPair, Output, Use
from fluidnpu.models.zoo import full_size

SILU = Activation(use=Use.TABLE, function="silu")


def network(front: dict[str, Any] | None = None, size: tuple[int, int] = (9, 10), **change: Any) -> Network:
    """A stem, an expansion, a depthwise layer and a classifier; `change` of the depthwise layer's fields."""
    net = Builder({"image": (*size, 3)})
    stem = net.conv("stem", "image", 6, 3, 1)
    before: dict[str, Any] = {"channels": 6, "kernel": (1, 1), "clip": (0.0, None)} | (front or {})
    wide = net.add(Kind.GEMM, "expand", stem, before.pop("channels"), before.pop("kernel"), **before)
    channels = net.tensors[wide][2]
    fields: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1, 1, 1), "groups": channels, "stride": (2, 2)} | change
    filtered = net.add(Kind.GEMM, "depthwise", wide, fields.pop("channels", channels), fields.pop("kernel"), **fields)
    net.classifier(("mean", "fc"), filtered, 5, "logits")
    return net.network("small", [Exit(name="final", logits="logits")])


def pairs(net: Network) -> list[tuple[int, int]]:
    return [(pair.producer, pair.depthwise) for pair in net.filters]


def test_a_pair_is_named_and_a_choice() -> None:
    work = network().workload
    filtering = Filtering(kernel=3, stride=2, padded=(1, 1), out=(5, 5))
    assert work.filters == (FilterPair(producer=1, depthwise=2, filtering=filtering),)
    assert not any(layer.merged or layer.filtering for layer in work.layers)
    stem, expand, depthwise, *rest = work.filtered([1])
    assert (stem, *rest) == (work.layers[0], *work.layers[3:])
    assert (expand.filtering, depthwise.merged) == (filtering, True)
    assert (expand.stored, depthwise.stored) == (5 * 5 * 6, 0)
    assert (expand.alone, depthwise.alone) == work.layers[1:3]
    assert (expand.macs, depthwise.macs) == tuple(layer.macs for layer in work.layers[1:3])
    assert work.filtered([]) == work.layers
    assert work.digest == replace(work, filters=()).digest
    assert work.unmerged.filters == ()


def test_only_pairs_can_be_chosen() -> None:
    with pytest.raises(NetworkError, match=r"whose filters are merged must be of \[1\] in 'small', not 2"):
        network().workload.filtered([2])


def test_shapes_survive_json() -> None:
    for layer in network(activation=SILU).workload.filtered([1]):
        assert LayerShape.from_dict(layer.facts()) == layer
    assert not {"filtering", "merged"} & set(network().workload.layers[1].facts()), "older files have neither"


def test_full_size_networks_have_some() -> None:
    found = {name: len(full_size(name).filters) for name in ("resnet50", "mobilenet_v2", "efficientnet_lite0")}
    assert found == {"resnet50": 0, "mobilenet_v2": 17, "efficientnet_lite0": 16}


@pytest.mark.parametrize("kernel", range(2, 8))
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_two_to_seven(kernel: int, stride: int) -> None:
    net = network(kernel=(kernel, kernel), stride=(stride, stride), padding=(kernel - 1, 0, 0, kernel - 1))
    assert net.filters[0].filtering.padded == (kernel - 1, 0)
    assert net.filters[0].filtering.out == net.layers[2].out_hw


@pytest.mark.parametrize(
    "change",
    [
        {"activation": SILU},
        {"clip": (0.0, 6.0)},
        {"front": {"activation": SILU}},
        {"front": {"activation": Activation(use=Use.SLOPE)}},
        {"front": {"residual": "stem_out"}},
        {"front": {"residual": "stem_out", "activation": Activation(use=Use.PRODUCT)}},
        {"front": {"kernel": (3, 3), "padding": (1, 1, 1, 1)}},
        {"size": (1, 4)},
    ],
)
def test_these_are_pairs(change: dict[str, Any]) -> None:
    assert pairs(network(**change)) == [(1, 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": (1, 1), "padding": (0, 0, 0, 0)},
        {"kernel": (8, 8), "padding": (4, 4, 4, 4)},
        {"kernel": (3, 5)},
        {"stride": (1, 2)},
        {"stride": (3, 3)},
        {"dilation": (2, 2)},
        {"padding": (3, 1, 1, 1)},
        {"padding": (1, 1, 1, -1)},
        {"channels": 12},
        {"groups": 3},
        {"activation": Activation(use=Use.AFFINE)},
        {"front": {"groups": 2}},
        {"front": {"channels": 1}},
        {"size": (9, 3)},
    ],
)
def test_these_are_not(change: dict[str, Any]) -> None:
    assert pairs(network(**change)) == []


def test_it_may_fill_a_part_of_a_tensor_but_not_every_other_pixel() -> None:
    net = network()
    stem, expand, depthwise, *rest = net.layers
    part = replace(depthwise, output="joined", output_channel=2, output_at=(1, 0))
    tensors = {**net.tensors, "joined": (9, 9, 8)}
    assert pairs(replace(net, layers=(stem, expand, part, *rest), tensors=tensors)) == [(1, 2)]
    apart = replace(part, output_step=(2, 2))
    assert pairs(replace(net, layers=(stem, expand, apart, *rest), tensors=tensors)) == []


def test_a_layer_with_a_residual_is_none() -> None:
    net = network(stride=(1, 1))
    stem, expand, depthwise, *rest = net.layers
    assert pairs(net) == [(1, 2)]
    added = replace(depthwise, residual=stem.output)
    assert pairs(replace(net, layers=(stem, expand, added, *rest))) == []


def test_nobody_else_may_want_the_map() -> None:
    net = network()
    wide = net.layers[1].output
    given = Output(name="map", tensor=wide, shape=(6, 9, 10), axes="chw", split=(6,))
    assert pairs(replace(net, outputs=(given,))) == []
    stem, expand, depthwise, *rest = net.layers
    other = Layer(
        name="other", kind=Kind.GEMM, input=wide, output="means", channels=6, in_shape=(9, 10, 6), kernel=(9, 10)
    )
    both = replace(net, layers=(stem, expand, depthwise, other, *rest), tensors={**net.tensors, "means": (1, 1, 6)})
    assert pairs(both) == []
    later = (replace(one, stage=1) for one in (depthwise, *rest))
    apart = replace(net, layers=(stem, expand, *later), exits=(Exit(name="early", logits="logits"), *net.exits))
    assert pairs(apart) == []
    part = replace(depthwise, in_shape=(9, 10, 4), channels=4, groups=4)
    assert pairs(replace(net, layers=(stem, expand, part, *rest))) == []


def test_a_walk_ends_where_the_last_window_does() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        kernel, stride, size = int(rng.integers(2, 8)), int(rng.integers(1, 3)), int(rng.integers(1, 12))
        before = int(rng.integers(max(0, kernel - size - (kernel - 1)), kernel))
        behind = int(rng.integers(max(0, kernel - size - before), kernel))
        count = (size + before + behind - kernel) // stride + 1
        last = max(window * stride - before + kernel - 1 for window in range(count))
        walk = Filtering(kernel=kernel, stride=stride, padded=(before, 0), out=(count, 1)).walk((size, 1))
        assert walk[0] == max(size, last + 1)
        assert size <= walk[0] < size + kernel
