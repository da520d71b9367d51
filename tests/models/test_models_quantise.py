"""Quantisation: formats that obey the contract, refusals, and values close to float on networks of every
shape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluidnpu.models import (
    Exit,
    Kind,
    Layer,
    Network,
    NetworkError,
    QuantisedLayer,
    accuracy_guard,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.errors import DataError, QuantisationError
from fluidnpu.models.graph.network import Parameters
from fluidnpu.models.numeric import AccuracyError, run_float
from fluidnpu.models.numeric.float_reference import early_exit_float, tensor_ranges
from fluidnpu.models.numeric.words import TensorFormat
from fluidnpu.models.zoo import random_network, skeleton


def images_for(network: Network, count: int = 4, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).random((count, *network.tensors[network.input])).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 5))
def test_random_networks_stay_close_to_float(seed: int, exits: int, steps: int) -> None:
    network = random_network(seed, exits=exits, steps=steps)
    images = images_for(network)
    qnet = quantise(network, images)
    for index, (stored, real) in enumerate(zip(golden.run(qnet, images), run_float(network, images), strict=True)):
        assert np.abs(qnet.logits(index, stored) - real).max() <= 0.01 * max(1e-3, np.abs(real).max())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 16))
def test_the_contract_holds_on_random_networks(seed: int, weight_bits: int) -> None:
    network = random_network(seed, exits=2, steps=4)
    try:
        qnet = quantise(network, weight_bits=weight_bits)
    except QuantisationError as error:
        assume(weight_bits < 8)  # too coarse to meet a residual: refused, never wrong
        assert "must keep a useful resolution" in str(error)  # noqa: PT017
        return
    bits = {name: one.fraction_bits for name, one in qnet.formats.items()}
    for qlayer in qnet.layers:
        layer = qlayer.layer
        assert np.abs(qlayer.weights.astype(int)).max(initial=0) < 1 << (weight_bits - 1)
        assert qlayer.accumulator_bits <= 48
        if layer.kind is Kind.MAX_POOL:
            assert bits[layer.input] == bits[layer.output]
            assert (qlayer.shift, qlayer.lo, qlayer.hi) == (0, -32768, 32767)
        elif layer.kind is Kind.SUM_POOL:
            assert qlayer.shift == layer.pool_shift + bits[layer.input] - bits[layer.output]
        elif layer.residual is not None:  # accumulator, residual and output meet at one binary point
            assert qlayer.shift - qlayer.residual_shift == bits[layer.residual] - bits[layer.output]
    assert {name: one.gain for name, one in qnet.formats.items()} == dict(network.gains)


def one_layer(weights: float, bias: float = 0.0, span: float = 1.0, **more: object) -> Network:
    fields = {"kind": Kind.GEMM, "channels": 2, "in_shape": (1, 1, 3)} | more
    layer = Layer(name="only", input="image", output="logits", **fields)  # type: ignore[arg-type]
    parameters = Parameters(weights=np.full((1, 3, 2), weights, np.float32), bias=np.full(2, bias, np.float32))
    return Network(
        name="one", input="image", tensors={"image": (1, 1, 3), "logits": (1, 1, 2)}, layers=(layer,),
        exits=(Exit(name="final", logits="logits"),), parameters={"only": parameters}, calibration={"image": 1.0, "logits": span},
    )  # fmt: skip


@pytest.mark.parametrize("weights", [1e-30, 1e-6, 1.0, 1e6, 1e25])
@pytest.mark.parametrize("bias", [0.0, 1.0, 1e8])
def test_odd_magnitudes_still_give_legal_layers(weights: float, bias: float) -> None:
    span = abs(3 * weights) + bias
    try:
        qnet = quantise(one_layer(weights, bias, span))
    except QuantisationError as error:
        assert "must not all round to zero" in str(error)  # noqa: PT017 - a bias that drowns the weights
        assert bias > 1e3 * weights
        return
    images = np.ones((1, 1, 1, 3), np.float32)
    got = qnet.logits(0, golden.run(qnet, images)[0])
    np.testing.assert_allclose(got, 3 * weights + bias, rtol=2e-3)


def test_all_zero_weights_are_allowed() -> None:
    qnet = quantise(one_layer(0.0, 0.5, 0.5))
    assert qnet.logits(0, golden.run(qnet, np.zeros((1, 1, 1, 3), np.float32))[0]).tolist() == [[0.5, 0.5]]


def test_relu6_becomes_integer_bounds() -> None:
    qnet = quantise(one_layer(4.0, 0.0, 6.0, clip=(0.0, 6.0)))
    bits = qnet.formats["logits"].fraction_bits
    assert (qnet.layers[0].lo, qnet.layers[0].hi) == (0, 6 << bits)


def test_no_calibration_is_refused_in_one_sentence() -> None:
    bare = replace(one_layer(1.0), calibration={})
    with pytest.raises(QuantisationError, match="has none: give images with --data, or put ranges into the file"):
        quantise(bare)
    quantise(bare, np.ones((1, 1, 1, 3), np.float32))
    with pytest.raises(QuantisationError, match=r"must be 0\.\.1e\+30, not nan"):
        quantise(replace(bare, calibration={"image": float("nan"), "logits": 1.0}))


def test_missing_weights_and_odd_bits_are_refused() -> None:
    with pytest.raises(QuantisationError, match="'only' must have weights"):
        quantise(replace(one_layer(1.0), parameters={}))
    for bits in (1, 17):
        with pytest.raises(QuantisationError, match=f"2 to 16 bits, not {bits}"):
            quantise(one_layer(1.0), weight_bits=bits)


def test_a_padded_max_pool_needs_a_relu_before_it() -> None:
    layers = [
        Layer(name="c", kind=Kind.GEMM, input="image", output="a", channels=2, in_shape=(4, 4, 1), clip=(0.0, None)),
        Layer(
            name="p",
            kind=Kind.MAX_POOL,
            input="a",
            output="b",
            channels=2,
            in_shape=(4, 4, 2),
            kernel=(2, 2),
            padding=(1, 1, 0, 0),
        ),
    ]
    network = Network(
        name="pooled", input="image", tensors={"image": (4, 4, 1), "a": (4, 4, 2), "b": (4, 4, 2)}, layers=tuple(layers),
        exits=(Exit(name="final", logits="b"),), parameters={"c": Parameters(weights=np.ones((1, 1, 2), np.float32), bias=np.zeros(2, np.float32))},
    )  # fmt: skip
    images = images_for(network)
    quantise(network, images)
    with pytest.raises(QuantisationError, match="max pool 'p' is padded with stored zeros"):
        quantise(replace(network, layers=(replace(layers[0], clip=(None, None)), layers[1])), images)


def test_a_layer_that_could_wrap_is_refused() -> None:
    layer = Layer(name="wide", kind=Kind.GEMM, input="x", output="y", channels=1, in_shape=(1, 1, 1), residual="r")
    one = np.ones((1, 1, 1), np.int16)
    fits = QuantisedLayer(layer=layer, weights=one, bias=np.zeros(1, np.int64), residual_shift=31)
    assert fits.accumulator_bits == 48
    with pytest.raises(QuantisationError, match=r"must fit 48 bits for every input, .* 49 bits"):
        QuantisedLayer(layer=layer, weights=one, bias=np.array([1 << 46]), residual_shift=31)
    for bad in (
        {"shift": 48},
        {"residual_shift": -1},
        {"lo": 5, "hi": 4},
        {"bias": np.zeros(2, np.int64)},
        {"weights": one.astype(np.int32)},
    ):
        with pytest.raises(QuantisationError, match="layer 'wide' needs"):
            replace(fits, **bad)


def test_the_bound_is_reached_by_no_input_and_nearly_by_the_worst() -> None:
    layer = Layer(name="w", kind=Kind.GEMM, input="x", output="y", channels=1, in_shape=(1, 1, 5))
    weights = np.array([-7, 3, 0, 2, -9], np.int16).reshape(1, 5, 1)
    qlayer = QuantisedLayer(layer=layer, weights=weights, bias=np.array([-11]))
    worst = sum(abs(int(w)) for w in weights.ravel()) * 32768 + 11
    assert qlayer.accumulator_bits == worst.bit_length() + 1


def test_input_codes() -> None:
    qnet = quantise(one_layer(1.0))
    assert qnet.input_format == TensorFormat(fraction_bits=14)
    pixels = np.array([0, 1, 128, 255], np.uint8)
    bytes_in = np.repeat(pixels[:, None, None, None], 3, axis=3)
    stored = qnet.quantise_input(bytes_in)
    assert stored[:, 0, 0, 0].tolist() == [0, 64, 8224, 16384]  # 16384 * p / 255, half to even
    np.testing.assert_array_equal(stored, qnet.quantise_input(bytes_in.astype(np.float64) / 255))
    np.testing.assert_array_equal(stored, qnet.quantise_input(bytes_in[:, 0, 0]))  # vectors, as they are
    with pytest.raises(DataError, match=r"of shape \(N, 1, 1, 3\), not \(1, 2\)"):
        qnet.quantise_input(np.zeros((1, 2)))
    for low, high in ((-9.0, 0.0), (0.0, 255.0)):
        with pytest.raises(DataError, match=rf"must lie in 0\.\.1, and {low:g}\.\.{high:g} came; give uint8, or set"):
            qnet.quantise_input(np.array([low, high, 0.0]).reshape(1, 1, 1, 3))
    odd: Any = np.zeros((1, 1, 1, 3), np.int64)
    for bad in (np.full((1, 1, 1, 3), np.nan), odd):
        with pytest.raises(DataError, match="uint8 or finite floats"):
            qnet.quantise_input(bad)


def test_the_digest_sees_every_integer_and_nothing_else() -> None:
    network = random_network(8)
    qnet = quantise(network)
    assert qnet.digest == quantise(replace(network, name="other", metadata={"a": "b"})).digest
    place, first = next((i, q) for i, q in enumerate(qnet.layers) if q.layer.kind is Kind.GEMM)
    other = first.weights.copy()
    other.flat[0] ^= 1
    for changed in (replace(first, weights=other), replace(first, bias=first.bias + 1), replace(first, lo=-5)):
        assert replace(qnet, layers=(*qnet.layers[:place], changed, *qnet.layers[place + 1 :])).digest != qnet.digest
    exits = (replace(network.exits[0], threshold=0.1), *network.exits[1:])
    assert quantise(replace(network, exits=exits)).digest != qnet.digest


def test_calibration_from_images_equals_calibration_in_the_file() -> None:
    network = random_network(9)
    images = images_for(network)
    carried = replace(network, calibration=tensor_ranges(network, images))
    assert quantise(carried).digest == quantise(network, images).digest


def test_the_skeletons_have_the_layers_of_their_names() -> None:
    for name, count in (("resnet8", 3), ("resnet20", 9)):
        network = skeleton(name)
        assert sum(layer.residual is not None for layer in network.layers) == count
        assert [exit.name for exit in network.exits] == ["exit1", "exit2", "final"]
        assert network.workload.macs == sum(layer.shape.macs for layer in network.layers)
    with pytest.raises(NetworkError, match="one of resnet8, resnet20, resnet26_small, not 'vgg'"):
        skeleton("vgg")


@pytest.fixture(scope="module")
def shipped() -> Network:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return read_onnx(path)


def test_the_guard_passes_the_shipped_model_and_reports(shipped: Network) -> None:
    data = shipped_images(200)
    report = accuracy_guard(shipped, quantise(shipped), data.images, data.labels)
    assert report.loss_points <= 0.5
    assert report.saturations == 0
    assert sum(report.exit_rates) == pytest.approx(1)
    _, classes, _ = early_exit_float(shipped, data.images)
    assert report.float_accuracy == np.mean(classes == data.labels)


def test_the_guard_fires_when_weights_have_three_bits(shipped: Network) -> None:
    data = shipped_images(200)
    qnet = quantise(shipped, weight_bits=3)
    with pytest.raises(
        AccuracyError, match=r"within 0\.5 points of float, and .* has [0-9.]+ % against [0-9.]+ % on 200 images"
    ) as caught:
        accuracy_guard(shipped, qnet, data.images, data.labels)
    assert caught.value.report.loss_points > 0.5
    assert accuracy_guard(shipped, qnet, data.images, data.labels, tolerance_points=100).loss_points > 0.5


def test_the_guard_refuses_nonsense(shipped: Network) -> None:
    data = shipped_images(2)
    qnet = quantise(shipped)
    with pytest.raises(NetworkError, match="as many labels"):
        accuracy_guard(shipped, qnet, data.images, data.labels[:1])
    with pytest.raises(NetworkError, match="at least 0, not nan"):
        accuracy_guard(shipped, qnet, data.images, data.labels, tolerance_points=float("nan"))
