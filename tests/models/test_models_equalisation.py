"""Int16 beside float without labels: what is compared, who is refused, and channels that are equalised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.models import Exit, ImageSet, Kind, Layer, Network, NetworkError, golden, quantise
from fluidnpu.models.errors import QuantisationError
from fluidnpu.models.graph import Builder, MapCheck, MapTask, Output
from fluidnpu.models.graph.activations import Clip
from fluidnpu.models.graph.network import INT16_RECORD, Parameters
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.numeric import guard_network, prepare, run_float
from fluidnpu.models.numeric.comparison import compare, sample
from fluidnpu.models.numeric.equalisation import (
    choose_equalisation,
    fold_exponents,
    settle_exponents,
    word_exponents,
    written_exponents,
)
from fluidnpu.models.numeric.float_reference import examine, run_float_outputs
from fluidnpu.models.numeric.guard import MOST_ERROR, DeviationError
from fluidnpu.models.tail.graph import Tail, TailNode, TailOutput
from fluidnpu.models.zoo import random_network, with_random_weights

Images = npt.NDArray[Any]


def scaled(clip: Clip, exponents: npt.NDArray[np.int64]) -> Clip:
    low, high = (None if bound is None else float(np.ldexp(bound, -exponents[0])) for bound in clip)
    return low, high


def rescaled(network: Network) -> Network:
    """The network of floats whose channels hold what its equalisation makes of them."""
    exponents = settle_exponents(network)
    layers = []
    for layer in network.layers:
        clip = scaled(layer.clip, word_exponents(layer, exponents))
        activation = layer.activation
        if activation is not None:
            activation = replace(activation, clip=scaled(activation.clip, written_exponents(layer, exponents)))
        layers.append(replace(layer, clip=clip, activation=activation))
    return replace(
        network, layers=tuple(layers), parameters=fold_exponents(network, network.parameters), equalisation={}
    )


def unbalanced(seed: int, bits: int, activations: bool = False) -> tuple[Network, Images]:
    """A random network that computes as it did, its channels up to 2**bits apart in size."""
    network = random_network(seed, activations=activations)
    rng = np.random.default_rng(seed)
    drawn = {name: tuple(-rng.integers(0, bits + 1, shape[2])) for name, shape in network.tensors.items()}
    record = Preprocessing(mean=(0.5,), std=(0.25,)) if seed % 2 else None  # folded in beside the exponents
    network = rescaled(replace(network, equalisation=drawn, preprocessing=record))
    images = network.intake.random(16, seed)
    return network.recalibrated(examine(network, images).ranges), images


def pieces(ratio: float, given_out: bool = False) -> tuple[Network, Images]:
    """Two convolutions side by side, the first `ratio` times as large, and readers that make up for it."""
    net = Builder({"image": (6, 6, 2)})
    net.tensors["both"] = (6, 6, 6)
    net.conv("small", "image", 3, 3, output="both")
    net.conv("large", "image", 3, 3, output="both", output_channel=3)
    net.conv("reader", "both", 4)
    net.classifier(("average", "dense"), "reader_out", 3, "logits")
    rng = np.random.default_rng(3)

    def drawn(layer: Layer) -> Parameters:
        weights = rng.normal(0, 1, (1, layer.shape.p, layer.channels)).astype(np.float32)
        if layer.name == "small":
            weights *= np.float32(ratio)
        if layer.name == "reader":
            weights[0, :3] /= np.float32(ratio)
        return Parameters(weights=weights, bias=np.zeros(layer.channels, np.float32))

    network = net.network("pieces", [Exit(name="final", logits="logits")])
    parameters = {layer.name: drawn(layer) for layer in net.layers if layer.kind is Kind.GEMM}
    whole = Output(name="both", tensor="both", shape=(6, 6, 6), axes="hwc", split=(6,))
    network = replace(network, parameters=parameters, outputs=(whole,) if given_out else ())
    return network, network.intake.random(12, 0)


def error(network: Network, images: Images) -> float:
    """The error of the worst exit; infinite where int16 does not take the network at all."""
    try:
        return compare(network, quantise(network), images).error
    except QuantisationError:
        return np.inf


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), bits=st.integers(0, 24), activations=st.booleans())
def test_equalisation_changes_no_float_and_gives_lost_bits_back(seed: int, bits: int, activations: bool) -> None:
    network, images = unbalanced(seed, bits, activations)
    examined = examine(network, images)
    equal = replace(network, equalisation=choose_equalisation(network, examined.sizes))
    for got, wanted in zip(run_float(rescaled(equal), images), examined.logits, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * float(np.abs(wanted).max()))
    with pytest.raises(DeviationError) as caught:  # nothing is within no error at all
        guard_network(network, images, most_error=0.0)
    assert caught.value.comparison.error <= error(network, images)


def test_most_networks_of_channels_far_apart_are_as_good_as_if_they_were_not() -> None:
    drawn = [unbalanced(seed, 20) for seed in range(12)]
    assert np.median([error(network, images) for network, images in drawn]) > 10 * MOST_ERROR
    assert sorted(guard_network(network, images).comparison.error for network, images in drawn)[9] < MOST_ERROR / 10


@pytest.mark.parametrize("seed", range(6))
def test_a_network_that_int16_fits_keeps_every_bit(seed: int) -> None:
    network = random_network(seed)
    images = network.intake.random(8, 1)
    network = network.recalibrated(examine(network, images).ranges)
    guard = guard_network(network, images)
    assert (guard.network.equalisation, guard.before) == ({}, None)
    assert guard.qnet.digest == quantise(network).digest
    assert guard.network.metadata[INT16_RECORD] == f"{guard.comparison.text}; 8 images"


@pytest.mark.parametrize(("ratio", "lost"), [(1e-4, 0.05), (1e-5, 0.3)])
def test_pieces_of_a_concat_get_scales_of_their_own(ratio: float, lost: float) -> None:
    network, images = pieces(ratio)
    guard = guard_network(network, images)
    assert guard.before is not None
    assert guard.before > lost
    assert guard.comparison.error < 1e-3
    small, large = np.split(np.array(guard.network.equalisation["both"]), 2)
    assert max(small) <= -10
    assert max(large) == 0
    assert quantise(guard.network).digest == guard.qnet.digest  # the network says it all


def test_channels_that_are_given_out_keep_their_scale_and_the_network_is_refused() -> None:
    network, images = pieces(1e-5, given_out=True)
    with pytest.raises(
        DeviationError, match=r"off by .* at 'final' .*layer 'small' makes most of it.*channels of tensor 'both' reach"
    ):
        guard_network(network, images)
    assert guard_network(network, images, most_error=100).network.equalisation == {}
    for most in (-1.0, float("nan")):
        with pytest.raises(NetworkError, match="a share of the spread of at least 0"):
            guard_network(network, images, most_error=most)


def test_values_that_saturate_are_told() -> None:
    network = random_network(3)
    images = network.intake.random(8, 1)
    low = network.recalibrated({name: value / 1000 for name, value in network.calibration.items()})
    with pytest.raises(DeviationError, match=r"and [1-9][0-9]* values saturated"):
        guard_network(low, images)


def test_exponents_that_cannot_stand_are_made_to() -> None:
    """Whatever a file says: channels that must share an exponent share the largest."""
    network, images = pieces(1.0)
    network = network.recalibrated(examine(network, images).ranges)
    odd = {"image": (-3, -3), "both": (-1,) * 6, "reader_out": (-4, -3, -2, -1), "logits": (5, 5, 5)}
    network = replace(network, equalisation=odd)
    assert {name: some.tolist() for name, some in settle_exponents(network).items()} == {"both": [-1] * 6}
    pooled = replace(network, equalisation=odd | {"average_out": (-4, -4, -4, -4)})
    assert (
        settle_exponents(pooled)["reader_out"].tolist()
        == settle_exponents(pooled)["average_out"].tolist()
        == [-4, -3, -2, -1]
    )
    np.testing.assert_array_equal(run_float(rescaled(pooled), images)[0], run_float(network, images)[0])


def test_new_ranges_forget_what_was_chosen_and_measured_for_the_old_ones() -> None:
    network, images = pieces(1e-4)
    guard = guard_network(network, images).network
    again = prepare(guard, images=ImageSet(images=images))
    assert again.equalisation == {}
    assert INT16_RECORD in guard.metadata
    assert INT16_RECORD not in again.metadata


def heads() -> tuple[Network, Images]:
    """A label a pixel behind a softmax, scores behind a sigmoid, a vector as it is, and no classes."""
    net = Builder({"image": (6, 5, 2)})
    trunk = net.conv("trunk", "image", 4, 3)
    for name, channels in (("labels", 3), ("scores", 2), ("boxes", 4)):
        net.conv(name, trunk, channels, clip=(None, None), output=name)
    network = with_random_weights(net.network("heads", [Exit(name="end", logits=None)]), 0)

    def output(name: str, channels: int, activation: str = "") -> Output:
        return Output(
            name=name, tensor=name, shape=(channels, 6, 5), axes="chw", split=(channels,), activation=activation
        )

    outputs = (output("labels", 3, "softmax"), output("scores", 2, "sigmoid"), output("boxes", 4))
    return replace(network, outputs=outputs), network.intake.random(9, 2)


def test_outputs_are_compared_as_their_user_sees_them() -> None:
    network, images = heads()
    qnet = quantise(network, weight_bits=4)  # so that labels differ
    real, stored = run_float_outputs(network, images), golden.run_outputs(qnet, images)
    got = {name: qnet.output(name, values) for name, values in stored.items()}
    answers = {answer.name: answer for answer in compare(network, qnet, images).answers}
    ours, theirs = got["labels"].argmax(axis=1), real["labels"].argmax(axis=1)
    assert answers["labels"].same_class == pytest.approx(np.mean(ours == theirs))
    assert answers["labels"].same_class != 1
    overlaps = [
        np.mean([
            np.sum((a == label) & (b == label)) / np.sum((a == label) | (b == label))
            for label in range(3)
            if np.any((a == label) | (b == label))
        ])
        for a, b in zip(ours, theirs, strict=True)
    ]  # fmt: skip
    assert answers["labels"].overlap == pytest.approx(np.mean(overlaps))
    for name in ("labels", "scores"):
        assert answers[name].largest_score == pytest.approx(np.abs(got[name] - real[name]).max(), rel=1e-3)
    difference = got["boxes"] - real["boxes"]
    spread = real["boxes"].std(dtype=np.float64)
    assert answers["boxes"].rms == pytest.approx(np.sqrt(np.mean(difference**2)) / spread, rel=1e-3)
    assert answers["boxes"].largest == pytest.approx(np.abs(difference).max() / spread, rel=1e-3)
    assert (answers["boxes"].same_class, answers["boxes"].overlap, answers["boxes"].largest_score) == (None, None, None)
    assert answers["scores"].overlap is None


def test_exits_with_maps_are_compared_by_pixels_and_labels() -> None:
    network, images = heads()
    check = MapCheck(task=MapTask.SEGMENTATION, shape=(6, 5, 3))
    network = replace(network, exits=(Exit(name="end", logits="labels"),), outputs=(), check=check)
    comparison = compare(network, quantise(network, weight_bits=4), images)
    assert comparison.answers[0].overlap is not None
    assert comparison.answers[0].overlap < 1
    assert f"mean IoU {100 * comparison.answers[0].overlap:.4g} %" in comparison.text


def test_classes_that_the_host_names_are_compared_too() -> None:
    network, images = heads()
    raw = tuple(replace(output, activation="") for output in network.outputs)
    tail = Tail(
        opset=17,
        inputs=("labels", "boxes"),
        nodes=(TailNode("ArgMax", ("labels",), ("map",), {"axis": 1, "keepdims": 0}),),
        outputs=(TailOutput("map", "int64", (1, 6, 5)), TailOutput("boxes", "float32", (1, 4, 6, 5))),
    )
    qnet = quantise(network, weight_bits=4)
    direct = {answer.name: answer for answer in compare(network, qnet, images).answers}["labels"]
    comparison = compare(replace(network, outputs=raw, tail=tail), qnet, images)
    assert comparison.answers[-1].name == "map"
    assert (comparison.answers[-1].same_class, comparison.answers[-1].overlap) == (direct.same_class, direct.overlap)
    assert (comparison.answers[-1].rms, comparison.answers[-1].largest) == (None, None)
    assert comparison.worst.rms == comparison.error > 0


def test_a_large_network_is_compared_on_fewer_images() -> None:
    small = random_network(0)
    assert len(sample(small, small.intake.random(100, 0))) == 64
    net = Builder({"image": (64, 64, 16)})
    net.classifier(("average", "dense"), net.conv("wide", "image", 4096, 3), 10, "logits")
    large = net.network("large", [Exit(name="final", logits="logits")])
    assert len(sample(large, np.zeros((100, 64, 64, 16), np.uint8))) == 20_000_000_000 // large.workload.macs
