"""The golden model against a slow oracle in plain Python integers, element by element, and against itself
in other batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_cases import oracle_word, random_unit

from fluidnpu.models import Kind, Layer, NetworkError, QuantisedLayer, QuantisedNetwork, golden, quantise
from fluidnpu.models.errors import QuantisationError
from fluidnpu.models.graph import Activation, Use
from fluidnpu.models.zoo import random_network

Int16s = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]


def half_even(value: int, shift: int) -> int:
    """value / 2**shift rounded to the nearest integer, ties to even, in integers alone."""
    floor, rest = value >> shift, value & ((1 << shift) - 1)
    half = (1 << shift) >> 1
    if shift and (rest > half or (rest == half and floor % 2)):
        floor += 1
    return floor


def oracle(qlayer: QuantisedLayer, x: Int16s, residual: Int16s | None) -> tuple[Int16s, int]:
    """ADR 3, and ADR 69 for the unit, word by word."""
    layer = qlayer.layer
    height, width, channels = layer.in_shape
    out_h, out_w = layer.out_hw
    out = np.zeros((len(x), out_h, out_w, layer.channels), np.int16)
    per_group_in, per_group_out = channels // layer.groups, layer.channels // layer.groups
    saturated = 0
    for sample, oy, ox, c in np.ndindex(*out.shape):
        group = c // per_group_out
        taps = []
        for ky, kx in np.ndindex(*layer.kernel):
            y = oy * layer.stride[0] + ky * layer.dilation[0] - layer.padding[0]
            z = ox * layer.stride[1] + kx * layer.dilation[1] - layer.padding[1]
            inside = 0 <= y < height and 0 <= z < width
            pixel = [int(v) for v in x[sample, y, z]] if inside else [0] * channels
            taps.append(
                pixel[group * per_group_in : (group + 1) * per_group_in] if layer.kind is Kind.GEMM else [pixel[c]]
            )
        words = [word for tap in taps for word in tap]
        if layer.kind is Kind.MAX_POOL:
            acc = max(words)
        elif layer.kind is Kind.SUM_POOL:
            acc = sum(words)
        else:
            column = qlayer.weights[group, :, c % per_group_out]
            acc = int(qlayer.bias[c]) + sum(a * int(w) for a, w in zip(words, column, strict=True))
            assert -(1 << 47) <= acc < 1 << 47
        other = None if residual is None else int(residual[sample, oy, ox, c])
        value = acc if other is None or not layer.adds else acc + (other << qlayer.residual_shift)
        assert -(1 << 47) <= value < 1 << 47
        rounded = half_even(value, qlayer.shift)
        saturated += not -32768 <= rounded <= 32767
        word = max(qlayer.lo, min(qlayer.hi, rounded))
        if qlayer.unit is not None:
            word, beyond = oracle_word(qlayer.unit, word, other, c)
            saturated += beyond
        out[sample, oy, ox, c] = word
    return out, saturated


def words(rng: np.random.Generator, shape: tuple[int, ...], extreme: bool) -> Int16s:
    """Random int16; extreme: only the largest magnitudes and their neighbours."""
    if extreme:
        return rng.choice(np.array([-32768, -32767, 32767, 32766], np.int16), shape)
    return rng.integers(-32768, 32768, shape).astype(np.int16)


def activation_of(use: Use | None) -> Activation | None:
    return None if use is None else Activation(use=use, function="silu" if use is Use.TABLE else "")


@st.composite
def gemms(draw: st.DrawFn) -> tuple[QuantisedLayer, Int16s, Int16s | None]:
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    height, width, per_in, per_out = (draw(st.integers(1, n)) for n in (5, 5, 3, 2))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    room = (height + padding[0] + padding[2], width + padding[1] + padding[3])
    kernel = tuple(draw(st.integers(1, min(3, (room[a] - 1) // dilation[a] + 1))) for a in (0, 1))
    use = draw(st.sampled_from([None, None, *Use]))
    residual = use is Use.PRODUCT or draw(st.booleans())
    layer = Layer(
        name="g", kind=Kind.GEMM, input="x", output="y", channels=groups * per_out, in_shape=(height, width, groups * per_in),
        kernel=(kernel[0], kernel[1]), stride=(draw(st.integers(1, 2)), draw(st.integers(1, 3))), dilation=dilation,
        padding=(padding[0], padding[1], padding[2], padding[3]), groups=groups, residual="r" if residual else None,
        activation=activation_of(use),
    )  # fmt: skip
    shape = layer.shape
    lo, hi = sorted(draw(st.tuples(*[st.one_of(st.sampled_from([-32768, 0, 32767]), st.integers(-32768, 32767))] * 2)))
    extreme = draw(st.booleans())
    qlayer = QuantisedLayer(
        layer=layer,
        weights=words(rng, (groups, shape.p, shape.c), extreme),
        bias=rng.integers(-(1 << draw(st.integers(1, 45))), 1 << 40, layer.channels),
        shift=draw(st.one_of(st.integers(0, 20), st.integers(0, 47))),
        residual_shift=draw(st.integers(0, 30)) if residual else 0,
        lo=lo,
        hi=hi,
        unit=None if use is None else random_unit(rng, use, layer.channels, extreme),
    )
    batch = draw(st.integers(1, 3))
    x = words(rng, (batch, *layer.in_shape), extreme)
    return qlayer, x, words(rng, (batch, *layer.out_hw, layer.channels), extreme) if residual else None


@settings(max_examples=150, deadline=None)
@given(gemms())
def test_gemm_equals_the_integer_oracle(case: tuple[QuantisedLayer, Int16s, Int16s | None]) -> None:
    qlayer, x, residual = case
    expected, saturated = oracle(qlayer, x, residual)
    out, count = golden.run_layer_counting(qlayer, x, residual)
    np.testing.assert_array_equal(out, expected)
    assert out.dtype == np.int16
    assert count == saturated


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from([Kind.MAX_POOL, Kind.SUM_POOL]),
    size=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 1)] * 4),
    shift=st.integers(0, 20),
    use=st.sampled_from([None, None, *Use]),
    adds=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_pools_equal_the_integer_oracle(
    kind: Kind,
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    shift: int,
    use: Use | None,
    adds: bool,
    seed: int,
) -> None:
    rng, taken = np.random.default_rng(seed), adds or use is Use.PRODUCT
    kernel = (min(kernel[0], size[0]), min(kernel[1], size[1]))
    layer = Layer(
        name="p",
        kind=kind,
        input="x",
        output="y",
        channels=size[2],
        in_shape=size,
        kernel=kernel,
        stride=stride,
        padding=padding,
        residual="r" if taken else None,
        activation=activation_of(use),
    )
    extreme = bool(seed % 2)
    qlayer = QuantisedLayer(
        layer=layer,
        weights=np.zeros((0, 0, 0), np.int16),
        bias=np.zeros(0, np.int64),
        shift=shift,
        residual_shift=int(rng.integers(0, 20)) if layer.adds else 0,
        unit=None if use is None else random_unit(rng, use, size[2], extreme),
    )
    x = words(rng, (2, *size), extreme)
    residual = words(rng, (2, *layer.out_hw, size[2]), extreme) if taken else None
    expected, saturated = oracle(qlayer, x, residual)
    out, count = golden.run_layer_counting(qlayer, x, residual)
    np.testing.assert_array_equal(out, expected)
    assert count == saturated


@given(st.integers(-(1 << 47), (1 << 47) - 1), st.integers(0, 47))
def test_rounding_in_float64_is_half_even_over_all_48_bits(value: int, shift: int) -> None:
    assert int(np.rint(np.ldexp(float(value), -shift))) == half_even(value, shift)


def test_ties_go_to_even() -> None:
    layer = Layer(name="t", kind=Kind.GEMM, input="x", output="y", channels=1, in_shape=(1, 1, 1))
    qlayer = QuantisedLayer(layer=layer, weights=np.ones((1, 1, 1), np.int16), bias=np.zeros(1, np.int64), shift=1)
    x = np.array([-5, -3, -1, 1, 3, 5, 7], np.int16).reshape(-1, 1, 1, 1)
    assert golden.run_layer(qlayer, x).ravel().tolist() == [-2, -2, 0, 0, 2, 2, 4]


def test_the_longest_column_is_exact() -> None:
    """P so long that the sum needs 47 bits: any order of addition must still be exact."""
    length = 1 << 16
    layer = Layer(name="long", kind=Kind.GEMM, input="x", output="y", channels=1, in_shape=(1, 1, length))
    weights = np.full((1, length, 1), 32767, np.int16)
    weights[0, ::3] = -32767
    qlayer = QuantisedLayer(layer=layer, weights=weights, bias=np.array([12345]), shift=31)
    x = np.full((1, 1, 1, length), -32768, np.int16)
    total = 12345 + int((weights.astype(np.int64) * -32768).sum())
    assert golden.run_layer(qlayer, x).item() == max(-32768, min(32767, half_even(total, 31)))
    with pytest.raises(QuantisationError, match=r"must fit 48 bits .* 49 bits"):
        replace(
            qlayer,
            layer=replace(layer, in_shape=(1, 1, 2 * length + 8)),
            weights=np.full((1, 2 * length + 8, 1), 32767, np.int16),
        )


@pytest.fixture(scope="module")
def qnet() -> QuantisedNetwork:
    return quantise(random_network(11, exits=3))


@pytest.fixture(scope="module")
def images(qnet: QuantisedNetwork) -> Floats:
    return np.random.default_rng(3).random((6, *qnet.network.tensors["image"])).astype(np.float32)


@pytest.mark.parametrize("batch", range(1, 7))
def test_every_batch_size_gives_every_sample_the_same_bits(qnet: QuantisedNetwork, images: Floats, batch: int) -> None:
    whole = golden.run(qnet, images)
    for start in range(0, 6, batch):
        for part, full in zip(golden.run(qnet, images[start : start + batch]), whole, strict=True):
            np.testing.assert_array_equal(part, full[start : start + batch])


def test_chunking_a_large_batch_changes_nothing(
    qnet: QuantisedNetwork, images: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, counts = golden.run(qnet, images), golden.saturations(qnet, images)
    monkeypatch.setattr(golden, "_CHUNK_WORDS", 64)
    for part, full in zip(golden.run(qnet, images), whole, strict=True):
        np.testing.assert_array_equal(part, full)
    assert golden.saturations(qnet, images) == counts


def test_stages_run_on_the_samples_that_are_left(qnet: QuantisedNetwork, images: Floats) -> None:
    whole = golden.run(qnet, images)
    tensors = {"image": qnet.quantise_input(images)}
    left = np.arange(6)
    for stage in range(3):
        golden.run_stage(qnet, stage, tensors)
        np.testing.assert_array_equal(golden.stored_logits(qnet, stage, tensors), whole[stage][left])
        left = left[::2]
        tensors = {name: value[::2] for name, value in tensors.items()}


def test_early_exit_is_the_first_confident_exit(qnet: QuantisedNetwork, images: Floats) -> None:
    logits = [qnet.logits(index, one) for index, one in enumerate(golden.run(qnet, images))]
    exits, classes, confidences = golden.early_exit(qnet, images)
    for sample in range(6):
        chosen = next((e for e in range(2) if golden.confidence(logits[e][sample]) > 0.5), 2)
        assert exits[sample] == chosen
        assert classes[sample] == logits[chosen][sample].argmax()
        assert confidences[sample] == golden.confidence(logits[chosen][sample])


def test_no_images_give_empty_answers(qnet: QuantisedNetwork, images: Floats) -> None:
    assert [one.shape for one in golden.run(qnet, images[:0])] == [(0, 5)] * 3
    assert [len(one) for one in golden.early_exit(qnet, images[:0])] == [0, 0, 0]


def test_saturations_are_counted() -> None:
    network = random_network(4)
    images = np.random.default_rng(0).random((4, *network.tensors["image"])).astype(np.float32)
    counts = []
    for factor in (16.0, 1 / 64):  # ranges far wider and far narrower than needed
        scaled = replace(network, calibration={name: factor * value for name, value in network.calibration.items()})
        counts.append(sum(golden.saturations(quantise(scaled), images).values()))
    assert counts[0] == 0
    assert counts[1] > 0


def test_wrong_inputs_are_refused(qnet: QuantisedNetwork) -> None:
    first = qnet.layers[0]
    x = np.zeros((1, *first.layer.in_shape), np.int16)
    with pytest.raises(NetworkError, match="takes int16"):
        golden.run_layer(first, x.astype(np.int32))
    with pytest.raises(NetworkError, match="takes int16"):
        golden.run_layer(first, x[:, :-1])
    with pytest.raises(NetworkError, match="must not be given a residual"):
        golden.run_layer(first, x, x)
    adds = next(q for q in quantise(random_network(2, steps=6)).layers if q.layer.residual)
    with pytest.raises(NetworkError, match="must be given a residual"):
        golden.run_layer(adds, np.zeros((1, *adds.layer.in_shape), np.int16))
    with pytest.raises(NetworkError, match=r"the residual of layer .* must be int16"):
        golden.run_layer(adds, np.zeros((1, *adds.layer.in_shape), np.int16), np.zeros((1, 1, 1, 1), np.int16))
