"""Preprocessing is part of a network: applied in floating point, in int16 and by the driver's program alike,
and folded into the first layer where that changes nothing but rounding.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluidnpu.models import Exit, Kind, Layer, Network, golden, quantise, read_onnx
from fluidnpu.models.errors import DataError, ModelFileError
from fluidnpu.models.graph.network import Parameters
from fluidnpu.models.images import ImageSet, Intake, Preprocessing
from fluidnpu.models.numeric import folded_steps, prepare, run_float
from fluidnpu.models.numeric.input_folding import fold_input
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import random_network

PADDED, BARE = (1, 1, 1, 1), (0, 0, 0, 0)


def one_conv(padding: tuple[int, int, int, int], groups: int = 1, seed: int = 0) -> Network:
    """A convolution that gives logits for a 3 x 3 x 4 image of which it sees all, and the padding if any."""
    rng = np.random.default_rng(seed)
    conv = Layer(
        name="conv", kind=Kind.GEMM, input="image", output="map", channels=4, in_shape=(3, 3, 4), kernel=(3, 3),
        padding=padding, groups=groups,
    )  # fmt: skip
    height, width = conv.out_hw
    last = Layer(
        name="fc", kind=Kind.GEMM, input="map", output="logits", channels=3, in_shape=(height, width, 4),
        kernel=(height, width),
    )  # fmt: skip
    return Network(
        name="one",
        input="image",
        tensors={"image": (3, 3, 4), "map": (height, width, 4), "logits": (1, 1, 3)},
        layers=(conv, last),
        exits=(Exit(name="final", logits="logits"),),
        parameters={
            "conv": Parameters(
                weights=rng.normal(0, 0.3, (groups, 9 * 4 // groups, 4 // groups)).astype(np.float32),
                bias=rng.normal(0, 1, 4).astype(np.float32),
            ),
            "fc": Parameters(
                weights=rng.normal(0, 0.3, (1, height * width * 4, 3)).astype(np.float32),
                bias=rng.normal(0, 1, 3).astype(np.float32),
            ),
        },
    )


numbers = st.floats(0.1, 2.0)


@settings(max_examples=30, deadline=None)
@given(
    padded=st.booleans(),
    groups=st.sampled_from([1, 2, 4]),
    scale=st.sampled_from([1.0, 1 / 255, 1 / 127.5]),
    mean=st.lists(numbers, min_size=4, max_size=4) | st.lists(numbers, min_size=1, max_size=1),
    std=st.lists(numbers, min_size=4, max_size=4) | st.lists(numbers, min_size=1, max_size=1),
    seed=st.integers(0, 99),
)
def test_folding_is_exact_but_for_rounding(
    padded: bool, groups: int, scale: float, mean: list[float], std: list[float], seed: int
) -> None:
    """The folded layers on what the host gives them are the network on what PyTorch would give it."""
    record = Preprocessing(scale=scale, mean=tuple(255 * scale * one for one in mean), std=tuple(std))
    network = replace(one_conv(PADDED if padded else BARE, groups, seed), preprocessing=record)
    pixels = np.random.default_rng(seed).integers(0, 256, (5, 3, 3, 4), np.uint8)
    bare = replace(network, preprocessing=Preprocessing(scale=1.0, float_range=(-1e4, 1e4)))
    real = (pixels * scale - np.array(record.mean)) / np.array(record.std)
    wanted = run_float(bare, real)[0]
    np.testing.assert_allclose(run_float(network, pixels)[0], wanted, rtol=1e-4, atol=1e-3)
    intake, parameters = fold_input(network)
    folded = replace(bare, parameters=parameters)
    np.testing.assert_allclose(run_float(folded, intake.values(pixels))[0], wanted, rtol=1e-3, atol=1e-2)
    assert intake.factor == (1 / scale,)
    assert any(intake.offset) == padded
    assert ("the host takes the mean off" in folded_steps(network)) == padded
    qnet = quantise(network, pixels)
    spread = np.abs(wanted).max()
    np.testing.assert_allclose(qnet.logits(0, golden.run(qnet, pixels)[0]), wanted, atol=2e-3 * spread + 1e-3)
    np.testing.assert_array_equal(qnet.quantise_input(pixels), qnet.quantise_input(pixels * scale))


def test_pixels_are_stored_without_rounding_where_everything_folds() -> None:
    network = replace(one_conv(BARE), preprocessing=Preprocessing(mean=(0.5,), std=(0.25,)))
    pixels = np.arange(0, 252, 7).astype(np.uint8).reshape(1, 3, 3, 4)
    qnet = quantise(network, pixels)
    np.testing.assert_array_equal(
        qnet.quantise_input(pixels), pixels.astype(np.int16) << qnet.input_format.fraction_bits
    )


def test_a_pool_that_reads_the_input_leaves_everything_to_the_host() -> None:
    network = one_conv(BARE)
    pool = Layer(name="pool", kind=Kind.MAX_POOL, input="image", output="seen", channels=4, in_shape=(3, 3, 4))
    conv = replace(network.layers[0], input="seen")
    pooled = replace(
        network,
        tensors={**network.tensors, "seen": (3, 3, 4)},
        layers=(pool, conv, network.layers[1]),
        preprocessing=Preprocessing(mean=(0.5,), std=(0.25,)),
    )
    intake, parameters = fold_input(pooled)
    assert parameters is pooled.parameters
    assert intake == pooled.intake
    assert "the host does it" in folded_steps(pooled)
    pixels = np.random.default_rng(1).integers(0, 256, (3, 3, 3, 4), np.uint8)
    qnet = quantise(pooled, pixels)
    wanted = run_float(pooled, pixels)[0]
    np.testing.assert_allclose(qnet.logits(0, golden.run(qnet, pixels)[0]), wanted, atol=5e-3)


def test_a_network_without_a_record_keeps_its_integers() -> None:
    network = random_network(3)
    assert fold_input(network) == (network.intake, network.parameters)
    images = np.random.default_rng(0).integers(0, 256, (2, *network.tensors["image"]), np.uint8)
    qnet = quantise(network)
    stored = np.rint(images / 255 * 2.0**qnet.input_format.fraction_bits)
    np.testing.assert_array_equal(qnet.quantise_input(images), stored)
    assert folded_steps(network) == ""


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1000))
def test_the_file_carries_it_and_onnxruntime_agrees(tmp_path: Path, seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    record = Preprocessing(mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3), layout="NCHW", resize="stretch")
    bare = random_network(seed, exits=1)
    channels = bare.tensors["image"][2]
    record = replace(record, mean=record.mean[:channels] or (0.4,), std=record.std[:channels])
    if channels > 3:
        record = replace(record, mean=(0.4,), std=(0.2,))
    network = replace(bare, preprocessing=record)
    write_onnx(network, tmp_path / "net.onnx")
    read = read_onnx(tmp_path / "net.onnx")
    assert read.preprocessing == record
    pixels = np.random.default_rng(seed).integers(0, 256, (2, *network.tensors["image"]), np.uint8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options, providers=["CPUExecutionProvider"])
    real = ((pixels / 255 - np.array(record.mean)) / np.array(record.std)).astype(np.float32)
    wanted = session.run(None, {"image": real.transpose(0, 3, 1, 2)})[0]
    np.testing.assert_allclose(run_float(read, pixels)[0], wanted, rtol=1e-3, atol=1e-3 * max(1, np.abs(wanted).max()))


def test_a_record_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    network = random_network(1, exits=1)
    write_onnx(network, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    for text, message in (
        ('{"std": [0]}', "std must be above 0"),
        ("[1]", "must be an object"),
        ('{"mean": [1, 2, 3, 4, 5, 6, 7, 8, 9]}', "one for each of"),
    ):
        onnx.helper.set_model_props(model, {"fluidnpu.preprocessing": text})
        onnx.save(model, tmp_path / "bad.onnx")
        with pytest.raises((ModelFileError, DataError), match=message):
            read_onnx(tmp_path / "bad.onnx")


def test_the_program_travels_with_it() -> None:
    """The driver's program gives the same codes as the network; one without a record has no trace of it."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 3, 4), np.uint8)
    for record in (None, Preprocessing(mean=(0.1, 0.2, 0.3, 0.4), std=(0.5,), colour="BGR")):
        network = prepare(replace(one_conv(PADDED), preprocessing=record), images=ImageSet(images=pixels))
        qnet = quantise(network)
        way = Intake.of_dict(qnet.intake.to_dict(), qnet.intake.shape)
        assert way == qnet.intake
        unit = float(qnet.input_format.real(np.ones(1, np.int16))[0])
        np.testing.assert_array_equal(way.codes(pixels, unit), qnet.quantise_input(pixels))
