"""The contract types: shapes, gains, what is known not to be negative, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fluidnpu.models import Exit, Kind, Layer, LayerShape, Network, NetworkError, Window, Workload
from fluidnpu.models.zoo import skeleton


def layer(name: str, kind: Kind, source: str, output: str, **more: Any) -> Layer:
    fields: dict[str, Any] = {"channels": 2, "in_shape": (6, 6, 2)} | more
    return Layer(name=name, kind=kind, input=source, output=output, **fields)


def network(*layers: Layer) -> Network:
    tensors = {"image": (6, 6, 2)} | {one.output: (*one.out_hw, one.channels) for one in layers}
    exits = (Exit(name="final", logits=layers[-1].output),)
    return Network(name="n", input="image", tensors=tensors, layers=layers, exits=exits, parameters={})


def test_shapes_are_what_the_hardware_plans_with() -> None:
    conv = layer(
        "c",
        Kind.GEMM,
        "x",
        "y",
        in_shape=(9, 8, 6),
        kernel=(3, 2),
        stride=(2, 1),
        dilation=(2, 3),
        padding=(1, 0, 1, 2),
        groups=2,
        channels=4,
    )
    assert conv.out_hw == (4, 7)  # (9 + 2 - 5) // 2 + 1, (8 + 2 - 4) // 1 + 1
    window = Window(kernel=(3, 2), stride=(2, 1), dilation=(2, 3), out=(4, 7), channels=6)
    assert conv.shape == LayerShape(name="c", r=28, p=18, c=2, groups=2, window=window)
    assert conv.shape.macs == 28 * 18 * 2 * 2
    pool = layer("p", Kind.MAX_POOL, "x", "y", kernel=(2, 3))
    assert (pool.shape.p, pool.shape.c, pool.shape.macs) == (6, 2, 0)


@pytest.mark.parametrize("axis", ["r", "p", "c", "groups"])
@pytest.mark.parametrize("value", [0, -1, 2.0, None])
def test_layer_shapes_refuse_nonsense(axis: str, value: Any) -> None:
    with pytest.raises(NetworkError, match=f"layer 'x' needs a whole {axis} of at least 1, not {value}"):
        LayerShape(name="x", **{"r": 1, "p": 1, "c": 1} | {axis: value})


def test_workloads_refuse_nonsense() -> None:
    one = LayerShape(name="x", r=1, p=1, c=1)
    with pytest.raises(NetworkError, match="needs at least one layer"):
        Workload(name="w", layers=())
    with pytest.raises(NetworkError, match=r"must stand in stages 0\.\.1 in order"):
        Workload(name="w", layers=(one,), exits=("a", "b"))
    for rates in ((float("nan"),), (-0.5,), (0.5, 0.5)):
        with pytest.raises(NetworkError, match=r"must be 1 shares of 0\.\.1"):
            Workload(name="w", layers=(one,), exit_rates=rates)


def test_gains_multiply_through_pools_and_end_at_a_gemm() -> None:
    found = network(
        layer("a", Kind.SUM_POOL, "image", "a", kernel=(3, 3)),
        layer("b", Kind.MAX_POOL, "a", "b", in_shape=(4, 4, 2), kernel=(2, 2)),
        layer("c", Kind.SUM_POOL, "b", "c", in_shape=(3, 3, 2), kernel=(3, 1)),
        layer("d", Kind.GEMM, "c", "d", in_shape=(1, 3, 2)),
    ).gains
    assert found == {"image": 1.0, "a": 16 / 9, "b": 16 / 9, "c": 16 / 9 * 4 / 3, "d": 1.0}


def test_gains_that_meet_are_refused() -> None:
    pool = layer("a", Kind.SUM_POOL, "image", "a", kernel=(3, 3))
    adds = layer("b", Kind.GEMM, "a", "b", in_shape=(4, 4, 2), residual="a")  # its weights take the gain over
    assert network(pool, adds).gains["b"] == 16 / 9
    more = layer(
        "c", Kind.SUM_POOL, "a", "b", in_shape=(4, 4, 2), kernel=(1, 3), padding=(0, 1, 0, 1), output_channel=2
    )
    with pytest.raises(
        NetworkError,
        match=r"'b' of average-pool gain 2\.37037 can only add a tensor of the same one, and 'a' carries 1\.77778",
    ):
        network(pool, adds, more).gains  # noqa: B018
    absorbed = layer("b", Kind.GEMM, "image", "a", kernel=(3, 3), output_channel=2)  # its weights take the gain over
    assert network(pool, absorbed).gains["a"] == 16 / 9
    mixed = layer("b", Kind.MAX_POOL, "image", "a", kernel=(3, 3), output_channel=2)
    with pytest.raises(NetworkError, match="what is concatenated in tensor 'a' must share one average-pool gain"):
        network(pool, mixed).gains  # noqa: B018


def test_only_relus_and_pools_of_them_are_non_negative() -> None:
    relu = layer("r", Kind.GEMM, "image", "r", clip=(0.0, 6.0))
    plain = layer("p", Kind.GEMM, "image", "p")
    pools = [layer(f"{one}m", Kind.MAX_POOL, one, f"{one}m", kernel=(2, 2)) for one in ("r", "p", "image")]
    joined = [
        layer("x", Kind.GEMM, "image", "j", clip=(0.0, None)),
        layer("y", Kind.GEMM, "image", "j", output_channel=2),
    ]
    readers = [layer(f"of_{one}", Kind.GEMM, one, f"of_{one}") for one in ("image", "r", "p", "rm", "pm", "imagem")]
    readers.append(layer("of_j", Kind.GEMM, "j", "of_j", in_shape=(6, 6, 4)))
    half = layer("of_half", Kind.GEMM, "j", "of_half", input_channel=0, input_pixel=4)
    net = network(relu, plain, *pools, *joined, *readers, half)
    net = replace(net, tensors={**net.tensors, "j": (6, 6, 4)})
    assert [one.name for one in (*readers, half) if net.reads_no_negatives(one)] == ["of_r", "of_rm", "of_half"]


def test_stages_are_ranges_of_layers() -> None:
    net = skeleton("resnet8")
    ranges = [list(net.stage_layers(stage)) for stage in range(3)]
    assert [i for one in ranges for i in one] == list(range(len(net.layers)))
    macs = [sum(net.layers[i].shape.macs for i in one) for one in ranges]
    assert np.sum(macs) == net.workload.macs


def test_messages_are_printable_and_short() -> None:
    error = NetworkError("a\nb\x1b[31m" + "x" * 5000)
    assert str(error).isprintable()
    assert len(str(error)) <= 800
