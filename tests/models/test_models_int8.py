"""Words of 8 bits: the golden model against ADR 75 in plain integers, and what quantise makes of networks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_cases import half_up

from fluidnpu.models import (
    Kind,
    Layer,
    NetworkError,
    QuantisedLayer,
    accuracy_guard,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.errors import QuantisationError
from fluidnpu.models.graph import Activation, Use
from fluidnpu.models.graph.activations import FUNCTIONS
from fluidnpu.models.graph.network import INT8_RECORD
from fluidnpu.models.numeric import DeviationError, Unit, fitting_bits, guard_network, measure_in_words, run_float
from fluidnpu.models.numeric.channel_scales import scale_weights, scales
from fluidnpu.models.numeric.comparison import compare
from fluidnpu.models.numeric.pieces import table
from fluidnpu.models.numeric.words import INT8, TensorFormat
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network

Words = npt.NDArray[np.int8]


def rounded(value: int, divisor: int) -> int:
    """Python's `round` of a fraction takes ties to even."""
    return round(Fraction(value, divisor))


def unit_word(unit: Unit, word: int, other: int | None, channel: int) -> int:
    """ADR 69 on words of 8 bits, whose tables have the smallest window."""
    if unit.use is Use.TABLE:
        base, slope = (int(part) for part in unit.pieces[(word + 256) >> 1])
        return base + half_up(slope * (word & 1), unit.shift)
    if unit.use is Use.PRODUCT:
        assert other is not None
        return half_up(word * other, unit.shift)
    base, slope = (int(part) for part in unit.pieces[channel])
    line = half_up(slope * word, unit.shift)
    return base + line if unit.use is Use.AFFINE else line if word < 0 else word


def oracle(qlayer: QuantisedLayer, x: Words, residual: Words | None) -> tuple[Words, int]:
    """ADR 75 for one sample, word by word."""
    layer = qlayer.layer
    height, width = layer.in_shape[:2]
    out = np.zeros((1, *layer.out_hw, layer.channels), np.int8)
    inputs, outputs = layer.in_shape[2] // layer.groups, layer.channels // layer.groups
    saturated = 0

    def at(row: int, column: int, channel: int) -> int:
        inside = 0 <= row < height and 0 <= column < width
        return int(x[0, row, column, channel]) if inside else qlayer.halo

    for _, oy, ox, c in np.ndindex(*out.shape):
        group = c // outputs
        places = [
            (oy * layer.stride[0] + ky - layer.padding[0], ox * layer.stride[1] + kx - layer.padding[1])
            for ky, kx in np.ndindex(*layer.kernel)
        ]
        if layer.kind is Kind.GEMM:
            words = [at(*place, group * inputs + i) for place in places for i in range(inputs)]
            column = qlayer.weights[group, :, c % outputs].tolist()
            total = int(qlayer.bias[c]) + sum(a * w for a, w in zip(words, column, strict=True))
            assert -(1 << 31) <= total < 1 << 31
            q = rounded(total * int(qlayer.multipliers[c]), 1 << int(qlayer.shifts[c]))
        else:
            taps = [at(*place, c) for place in places]
            q = max(taps) if layer.kind is Kind.MAX_POOL else sum(taps)
        other = None if residual is None else int(residual[0, oy, ox, c])
        value = q + other * qlayer.residual_multiplier if other is not None and layer.adds else q
        assert -(1 << 31) <= q < 1 << 31
        assert -(1 << 31) <= value < 1 << 31
        value = rounded(value, 1 << qlayer.shift)
        saturated += not -128 <= value <= 127
        word = max(qlayer.lo, min(qlayer.hi, value))
        if qlayer.unit is not None:
            word = unit_word(qlayer.unit, word, other, c)
            saturated += not -128 <= word <= 127
            word = max(qlayer.unit.lo, min(qlayer.unit.hi, word))
        out[0, oy, ox, c] = word
    return out, saturated


def words(rng: np.random.Generator, shape: tuple[int, ...], extreme: bool) -> Words:
    if extreme:
        return rng.choice(np.array([-128, -127, 126, 127], np.int8), shape)
    return rng.integers(-128, 128, shape).astype(np.int8)


def any_unit(rng: np.random.Generator, use: Use | None, channels: int) -> Unit | None:
    if use is None:
        return None
    count = {Use.TABLE: 258, Use.PRODUCT: 0}.get(use, channels)
    pieces = rng.integers(-300, 300, (count, 2)).astype(np.int16)
    pieces[:, 0] *= use is not Use.SLOPE
    lo, hi = sorted(int(bound) for bound in rng.choice([-128, -100, 0, 6, 127], 2, replace=False))
    window = 8 if use is Use.TABLE else 0
    return Unit(use=use, window=window, shift=int(rng.integers(0, 16)), lo=lo, hi=hi, pieces=pieces, bits=8)


def drawn(rng: np.random.Generator, kind: Kind, use: Use | None, extreme: bool) -> tuple[QuantisedLayer, Any, Any]:
    """Return a layer within the contract, an input and a residual or None."""
    groups, inputs, outputs = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    if kind is not Kind.GEMM:
        groups, inputs, outputs = 1, inputs, inputs
    height, width = int(rng.integers(3, 6)), int(rng.integers(3, 6))
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    residual = use is Use.PRODUCT or bool(rng.integers(0, 2))
    layer = Layer(
        name="l", kind=kind, input="x", output="y", channels=groups * outputs, in_shape=(height, width, groups * inputs),
        kernel=kernel, stride=(int(rng.integers(1, 3)), int(rng.integers(1, 3))), padding=(1, 0, int(rng.integers(0, 2)), 1),
        groups=groups, residual="r" if residual else None,
        activation=None if use is None else Activation(use=use, function="silu" if use is Use.TABLE else ""),
    )  # fmt: skip
    gemm, shape, count = kind is Kind.GEMM, layer.shape, layer.channels if kind is Kind.GEMM else 0
    multipliers = rng.integers(0, 1 << 17, count)
    most = max(1, (1 << 31) // (1 << 17) // 2 >> 1)  # of q, so that a residual has room beside it
    sums = shape.p * 127 * 128 + (1 << 20)
    least = [max(0, (int(m) * sums // (most << 16)).bit_length()) for m in multipliers]
    shifts = np.array([int(rng.integers(min(47, low), 48)) for low in least], np.int64).reshape(count)
    lo, hi = sorted(int(bound) for bound in rng.choice([-128, -128, -50, 0, 100, 127], 2))
    weights = words(rng, (groups, shape.p, shape.c), extreme) if gemm else np.zeros((0, 0, 0), np.int8)
    qlayer = QuantisedLayer(
        layer=layer,
        weights=np.maximum(weights, -127).astype(np.int8),
        bias=rng.integers(-(1 << 20), 1 << 20, count),
        multipliers=multipliers,
        shifts=shifts,
        shift=int(rng.integers(0, 32)) if layer.adds or not gemm else 0,
        residual_multiplier=int(rng.integers(0, 1 << 16)) if layer.adds else 0,
        lo=lo,
        hi=hi,
        halo=int(rng.choice([0, 0, -128, 127, 5])),
        unit=any_unit(rng, use, layer.channels),
    )
    added = words(rng, (1, *layer.out_hw, layer.channels), extreme) if residual else None
    return qlayer, words(rng, (1, *layer.in_shape), extreme), added


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(list(Kind)), st.sampled_from([None, None, *Use]), st.booleans())
def test_layers_equal_the_integer_oracle(seed: int, kind: Kind, use: Use | None, extreme: bool) -> None:
    qlayer, x, residual = drawn(np.random.default_rng(seed), kind, use, extreme)
    expected, saturated = oracle(qlayer, x, residual)
    out, count = golden.run_layer_counting(qlayer, x, residual)
    np.testing.assert_array_equal(out, expected)
    assert (out.dtype, count) == (np.dtype(np.int8), saturated)


def column(length: int, **changes: Any) -> QuantisedLayer:
    layer = Layer(name="only", kind=Kind.GEMM, input="x", output="y", channels=1, in_shape=(1, 1, length))
    given_: dict[str, Any] = {
        "layer": layer,
        "weights": np.full((1, length, 1), -127, np.int8),
        "bias": np.zeros(1, np.int64),
        "multipliers": np.ones(1, np.int64),
        "shifts": np.full(1, 24, np.int64),
        "lo": -128,
        "hi": 127,
    }
    return QuantisedLayer(**(given_ | changes))


@pytest.mark.parametrize("length", [1032, 1033, 4608, 131_000])  # 1,032 words are the last whose sums float32 holds
def test_long_columns_are_exact(length: int) -> None:
    qlayer = column(length, bias=np.array([77]))
    x = np.full((1, 1, 1, length), -128, np.int8)
    x[..., ::5] = -127
    total = 77 + int(x.astype(np.int64).sum()) * -127
    assert qlayer.float_weights.dtype == (np.float32 if length == 1032 else np.float64)
    assert golden.run_layer(qlayer, x).item() == max(-128, min(127, rounded(total, 1 << 24)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": np.array([1 << 31])}, r"must fit 32 bits .* 33 bits"),
        ({"multipliers": np.array([1 << 17])}, r"multipliers of 0\.\.131071, not 131072"),
        ({"shifts": np.array([48])}, r"shifts of 0\.\.47, not 48"),
        ({"multipliers": np.array([(1 << 17) - 1]), "shifts": np.array([0])}, "must fit 32 bits"),
        ({"multipliers": np.zeros(0, np.int64)}, "an int64 multipliers of 1"),
        ({"shift": 3}, "adds no residual, so it needs a shift of 0, not 3"),
        ({"residual_multiplier": 1 << 16}, r"residual multiplier of 0\.\.65535"),
        ({"residual_shift": 1}, "a residual shift at 16 bits and a multiplier at 8"),
        ({"hi": 128}, "int8 bounds"),
        ({"halo": 200}, "an int8 at 8 bits, not 200"),
    ],
)
def test_what_the_npu_cannot_hold_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantisationError, match=message):
        column(8, **changes)


def test_words_of_the_other_width_are_refused() -> None:
    with pytest.raises(NetworkError, match="takes int8"):
        golden.run_layer(column(8), np.zeros((1, 1, 1, 8), np.int16))
    layer = column(8).layer
    silu = Activation(use=Use.TABLE, function="silu")
    unit = table(silu, TensorFormat(fraction_bits=9), TensorFormat(fraction_bits=9))
    with pytest.raises(QuantisationError, match="a unit of 8 bits, not 16"):
        column(8, layer=replace(layer, activation=silu), unit=unit)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_tables_are_their_functions_exactly(function: str) -> None:
    activation = Activation(use=Use.TABLE, function=function)
    source, target = TensorFormat(fraction_bits=4, gain=0.83), TensorFormat(fraction_bits=5, gain=1.1)
    unit = table(activation, source, target, INT8)
    every = np.arange(-128, 128).astype(np.int8)
    expected = np.clip(
        np.rint(target.steps(activation.real(source.real(every)))), *target.bounds(activation.bounds, INT8)
    )
    np.testing.assert_array_equal(unit.run(every)[0], expected)
    assert unit.error == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-9, 1e4), min_size=1, max_size=8))
def test_a_channel_scale_is_the_least_from_the_wanted_one_on(wanted: list[float]) -> None:
    asked = np.array(wanted)
    scale, multipliers, shifts = scales(asked)
    assert np.all(scale >= asked)
    assert np.all(scale <= asked * (1 + 2.0**-16) + 2.0**-47)
    assert multipliers.max() < 1 << 17
    assert shifts.max() <= 47
    again, _, _ = scales(scale)
    np.testing.assert_array_equal(again, scale)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.floats(1e-4, 1e4), st.one_of(st.none(), st.floats(1e-3, 1e3)))
def test_scaled_weights_are_within_half_a_step_of_the_real_ones(seed: int, size: float, residual: float | None) -> None:
    rng = np.random.default_rng(seed)
    real, bias = rng.normal(0, size / 100, (2, 9, 3)), rng.normal(0, size, 6)
    made = scale_weights("l", real, bias, residual)
    scale = np.ldexp(made.multipliers.astype(np.float64), -made.shifts - made.shift).reshape(2, 1, 3)
    assert np.abs(made.weights * scale - real).max() <= 0.5001 * scale.max()
    assert np.all(np.abs(made.bias * scale.reshape(-1) - bias) <= 0.5001 * scale.reshape(-1))
    if residual is not None:
        assert abs(made.residual_multiplier / 2.0**made.shift - residual) <= 0.5001 / 2.0**made.shift


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_random_networks_stay_near_float(seed: int) -> None:
    """An eighth of the largest value is far above what these networks come to."""
    network = random_network(seed, exits=2, steps=3)
    images = network.intake.random(4, seed)
    qnet = quantise(network, images, bits=8)
    assert (qnet.bits, qnet.dtype) == (8, np.dtype(np.int8))
    for index, (stored, real) in enumerate(zip(golden.run(qnet, images), run_float(network, images), strict=True)):
        assert np.sqrt(np.mean((qnet.logits(index, stored) - real) ** 2)) <= 0.125 * np.abs(real).max() + 1e-6


def test_widths_other_than_16_and_8_are_refused() -> None:
    with pytest.raises(QuantisationError, match="16 or 8 bits, not 12"):
        quantise(random_network(1), bits=12)
    with pytest.raises(QuantisationError, match="must have 8 bits, not 4"):
        quantise(random_network(1), weight_bits=4, bits=8)


def test_corrected_biases_bring_networks_nearer_to_float() -> None:
    """Over twelve drawn networks of ReLUs; one by one there are some that rounding happened to help."""
    errors = []
    for seed in range(12):
        network = random_network(seed, exits=1, steps=4)
        images = network.intake.random(8, seed)
        corrected = quantise(network, images, bits=8)
        plain = quantise(replace(corrected.network, corrections={}), bits=8)
        again = quantise(corrected.network, bits=8)
        assert again.digest == corrected.digest  # the choice stands in the network, and is not made twice
        errors.append([compare(network, qnet, images).error for qnet in (plain, corrected)])
    before, after = np.mean(errors, axis=0)
    assert after < 0.9 * before


def test_corrections_stand_in_the_file_and_belong_to_its_ranges(tmp_path: Path) -> None:
    network = random_network(3, exits=2, steps=3)
    network = quantise(network, network.intake.random(8, 3), bits=8).network
    assert network.corrections
    (tmp_path / "corrected.onnx").write_bytes(build_onnx(network).SerializeToString())
    again = read_onnx(tmp_path / "corrected.onnx")
    assert again.corrections == network.corrections
    assert again.recalibrated(again.calibration).corrections == {}


def test_the_guard_says_which_width_a_network_may_have() -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    images = shipped_images(200)
    guard = guard_network(network, images.images, bits=8)
    assert guard.network.metadata[INT8_RECORD].startswith(guard.comparison.text)
    assert guard.comparison.same_class >= 0.9
    assert (fitting_bits(network), fitting_bits(guard.network)) == (16, 8)
    assert fitting_bits(guard.network.recalibrated(network.calibration)) == 16
    report = accuracy_guard(network, guard.qnet, images.images, images.labels)
    assert report.same_exit >= 0.95
    with pytest.raises(DeviationError, match=r"int8 must stay within 0\.001 of the spread"):
        guard_network(network, images.images, 0.001, bits=8)


def test_the_guard_refuses_classes_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluidnpu.models.numeric.guard.LEAST_SAME_INT8", 1.01)
    network = random_network(5)
    with pytest.raises(DeviationError, match="int8 must name float's class on at least 101 % of images"):
        guard_network(network, network.intake.random(8, 0), bits=8)


def test_exits_are_measured_in_the_words_that_they_have() -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    images = shipped_images(120)
    qnet = quantise(network, bits=8)
    again = measure_in_words(network, qnet, images, 0.5)
    exits, classes, _ = golden.early_exit(replace(qnet, network=again), images.images)
    rates = [float(np.mean(exits == index)) for index in range(len(network.exits))]
    np.testing.assert_allclose([exit.rate or 0.0 for exit in again.exits], rates, atol=1e-9)
    last = golden.run(qnet, images.images)[-1].argmax(axis=1)
    assert np.mean(classes == images.labels) >= np.mean(last == images.labels) - 0.005 - 1e-9


def test_a_tensor_that_calibration_saw_no_more_than_a_trace_of_is_taken() -> None:
    """Its largest value would be the largest word, and sums far beyond 32 bits."""
    network = random_network(5)
    tensor = network.layers[0].output
    for trace in (1e-12, 0.0):
        qnet = quantise(replace(network, calibration={**network.calibration, tensor: trace}), bits=8)
        assert max(qlayer.accumulator_bits for qlayer in qnet.layers) <= 32
