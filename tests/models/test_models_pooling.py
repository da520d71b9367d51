"""Max pools that are merged with the layer before them: which, and how a workload says so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fluidnpu.models import Exit, Kind, LayerShape, Network
from fluidnpu.models.graph import Builder, Output, Pooling
from fluidnpu.models.zoo import full_size


def network(**change: Any) -> Network:
    """A convolution, a pool of three and a classifier; `change` of the pool's fields."""
    net = Builder({"image": (16, 16, 3)})
    conv = net.conv("conv", "image", 6, 3, 1)
    fields: dict[str, Any] = {"stride": (2, 2), "padding": (1, 1, 0, 0)} | change
    kernel = fields.pop("kernel", (3, 3))
    pooled = net.add(Kind.MAX_POOL, "pool", conv, 6, kernel, **fields)
    net.classifier(("mean", "fc"), pooled, 5, "logits")
    return net.network("small", [Exit(name="final", logits="logits")])


def merged(net: Network) -> list[str]:
    return [layer.name for layer in net.workload.layers if layer.merged]


def test_a_pool_is_merged_with_the_layer_before_it() -> None:
    work = network().workload
    conv, pool, *rest = work.layers
    assert conv.pooling == Pooling(kernel=3, padded=(1, 1), out=(8, 8))
    assert pool.merged
    assert not any(layer.merged or layer.pooling for layer in rest)
    assert (conv.stored, pool.stored) == (8 * 8 * 6, 0)
    assert [(layer.name, layer.stored) for layer in work.unmerged.layers[:2]] == [("conv", 16 * 16 * 6), ("pool", 384)]
    assert work.macs == work.unmerged.macs


def test_full_size_networks_have_some() -> None:
    found = {name: merged(full_size(name)) for name in ("resnet50", "inception_v3", "mobilenet_v2")}
    assert found == {"resnet50": ["maxpool"], "inception_v3": ["maxpool1", "maxpool2"], "mobilenet_v2": []}


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": (2, 2), "padding": (0, 0, 0, 0)},
        {"padding": (0, 0, 1, 1)},
    ],
)
def test_other_windows_are_merged(change: dict[str, object]) -> None:
    assert merged(network(**change)) == ["pool"]


@pytest.mark.parametrize(
    "change",
    [
        {"stride": (1, 1)},
        {"stride": (3, 3)},
        {"kernel": (3, 2)},
        {"kernel": (4, 4)},
        {"dilation": (2, 2)},
        {"padding": (0, 0, 0, 0)},  # leaves out the last row and column
        {"kernel": (2, 2), "padding": (1, 1, 1, 1)},  # its last window is a pixel alone
        {"clip": (0.0, 1.0)},
        {"padding": (2, 2, 1, 1), "kernel": (3, 3)},
    ],
)
def test_these_are_not(change: dict[str, object]) -> None:
    assert merged(network(**change)) == []


def test_nobody_else_may_want_the_map() -> None:
    net = network()
    given = replace(
        net, outputs=(Output(name="map", tensor=net.layers[0].output, shape=(6, 16, 16), axes="chw", split=(6,)),)
    )
    assert merged(given) == []
    conv, pool, *rest = net.layers
    other = replace(rest[0], name="other", input=conv.output, in_shape=(16, 16, 6), kernel=(16, 16), output="means")
    both = replace(net, layers=(conv, pool, other, *rest), tensors={**net.tensors, "means": (1, 1, 6)})
    assert merged(both) == []
    grouped = replace(net, layers=(replace(conv, groups=3), pool, *rest))
    assert merged(grouped) == []
    later = (replace(one, stage=1) for one in (pool, *rest))
    apart = replace(net, layers=(conv, *later), exits=(Exit(name="early", logits="logits"), *net.exits))
    assert merged(apart) == []


def test_a_map_must_be_wide() -> None:
    net = Builder({"image": (16, 7, 3)})
    pooled = net.pool(Kind.MAX_POOL, "pool", net.conv("conv", "image", 6, 3, 1), 2, 1)
    net.classifier(("mean", "fc"), pooled, 5, "logits")
    assert merged(net.network("narrow", [Exit(name="final", logits="logits")])) == []


def test_shapes_survive_json() -> None:
    for layer in network().workload.layers:
        assert LayerShape.from_dict(layer.facts()) == layer
    plain = network().workload.layers[0].alone.facts()
    assert not {"pooling", "merged"} & set(plain), "older files have neither"


def test_windows_cover_a_map_without_rest() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        kernel, pads = int(rng.integers(2, 4)), rng.integers(0, 2, 2).tolist()
        size, out = rng.integers(1, 9, 2).tolist(), rng.integers(1, 5, 2).tolist()
        pooling = Pooling(kernel=kernel, padded=(pads[0], pads[1]), out=(out[0], out[1]))
        whole = True
        for n, pad, count in zip(size, pads, out, strict=True):
            windows = [set(range(2 * w - pad, 2 * w - pad + kernel)) & set(range(n)) for w in range(count)]
            several = n - 1 + pad > 2 * (count - 1)  # the last window does not begin with the last pixel
            whole &= set().union(*windows) == set(range(n)) and several
        assert pooling.covers((size[0], size[1])) == whole, (pooling, size)
