"""A new head of maps on a classifier's backbone: shapes, the same backbone, files, int16, exits, training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.models import ImageSet, Kind, Network, NetworkError, golden, quantise, read_onnx
from fluidnpu.models.exits import attach_bridges, candidate_tensors, single_exit, with_map_head
from fluidnpu.models.graph import MapTask
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import examine
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import Architecture, full_size, skeleton, with_random_weights
from fluidnpu.models.zoo.hourglass import random_hourglass

SMALL = Architecture(name="small", blocks=2, widths=(4, 6), heads=((), ()), input_shape=(16, 16, 1), classes=3)


@pytest.fixture(scope="module")
def classifier() -> Network:
    """Blocks of 16 x 16 and 8 x 8 under a head of three classes."""
    return with_random_weights(single_exit(skeleton(SMALL)), 0, 2)


@settings(max_examples=20, deadline=None)
@given(task=st.sampled_from(MapTask), maps=st.integers(2, 5), enlarge=st.integers(0, 2), seed=st.integers(0, 99))
def test_a_head_of_any_size_stands_on_the_same_backbone(
    classifier: Network, task: MapTask, maps: int, enlarge: int, seed: int
) -> None:
    network = with_map_head(classifier, task, maps, enlarge=enlarge, seed=seed)
    side = 8 << enlarge
    assert network.check.shape == network.tensors[network.exits[-1].classes] == (side, side, maps)  # type: ignore[union-attr]
    images = np.random.default_rng(seed).integers(0, 256, (3, 16, 16, 1), np.uint8)
    end = "stage2_block2_b_out"
    before, after = (examine(one, images, (end,)).features[end] for one in (classifier, network))
    np.testing.assert_array_equal(before, after)
    logits = run_float(network, images)[0].reshape(3, side, side, maps)
    assert (logits.std(axis=(1, 2)) > 0).all()
    again = with_map_head(classifier, task, maps, enlarge=enlarge, seed=seed)
    np.testing.assert_array_equal(run_float(again, images)[0].reshape(logits.shape), logits)
    stored = golden.run(quantise(network, images), images)
    assert np.abs(quantise(network, images).logits(0, stored[0]) - logits.reshape(3, -1)).max() < 0.02 * logits.std()


def test_an_enlarged_map_is_that_of_a_transposed_convolution(classifier: Network) -> None:
    """The four phases, put together, are torch's ConvTranspose2d of kernel 4, stride 2 and padding 1."""
    torch = pytest.importorskip("torch")
    network = with_map_head(classifier, MapTask.SEGMENTATION, 2, enlarge=1)
    images = np.random.default_rng(3).integers(0, 256, (2, 16, 16, 1), np.uint8)
    end, up = "stage2_block2_b_out", "maps_up1_out"
    found = examine(network, images, (end, up)).features
    kernel = torch.zeros(6, 6, 4, 4)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weights = network.parameters[f"maps_up1_{row}{column}"].weights.reshape(2, 2, 6, 6)
        for y in (0, 1):
            for x in (0, 1):  # an output pixel of this phase reads two rows: the nearer tap and the farther one
                kernel[:, :, 3 - row - 2 * y, 3 - column - 2 * x] = torch.from_numpy(weights[y, x])
    value = torch.from_numpy(found[end].reshape(2, 8, 8, 6)).permute(0, 3, 1, 2)
    wanted = torch.nn.functional.conv_transpose2d(value, kernel, stride=2, padding=1).relu().permute(0, 2, 3, 1)
    np.testing.assert_allclose(found[up].reshape(2, 16, 16, 6), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_full_size_networks_get_the_papers_head() -> None:
    """PAME's Simple: 5.77 GMAC with the products with inserted zeros, a quarter of it without them."""
    network = with_map_head(full_size("resnet101"), MapTask.LANDMARKS, 16)
    up = [layer for layer in network.layers if layer.name.startswith("maps_up")]
    assert sum(layer.shape.macs for layer in up) == (14**2 * 2048 + 28**2 * 256 + 56**2 * 256) * 4 * 256
    assert network.tensors["maps"] == (56, 56, 16)
    several = attach_bridges(network, candidate_tensors(network, 2))
    assert [several.tensors[exit.classes] for exit in several.exits] == [(56, 56, 16)] * 3
    assert with_map_head(full_size("mobilenet_v2"), MapTask.SEGMENTATION, 19).tensors["maps"] == (56, 56, 19)


def test_it_is_written_read_and_trained(classifier: Network, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from fluidnpu.models.training import TrainingSchedule, fine_tune

    network = with_map_head(classifier, MapTask.SEGMENTATION, 2, enlarge=0)
    network = attach_bridges(network, candidate_tensors(network, 1))
    write_onnx(network, tmp_path / "maps.onnx")
    read = read_onnx(tmp_path / "maps.onnx")
    assert (read.check, read.workload.macs) == (network.check, network.workload.macs)
    rng = np.random.default_rng(0)
    images = np.repeat(np.repeat(rng.integers(0, 256, (120, 4, 4, 1), np.uint8), 4, axis=1), 4, axis=2)
    labels = (images[:, ::2, ::2, 0] > 127).astype(np.int64)
    tuned = fine_tune(
        read, ImageSet(images=images, labels=labels), TrainingSchedule(epochs=6, batch_size=20, peak_rate=1e-2)
    )
    assert min(tuned.accuracies.stored) > 0.7 > max(tuned.given.stored)


def test_what_cannot_have_a_new_head_is_refused(classifier: Network) -> None:
    several = attach_bridges(classifier, candidate_tensors(classifier, 1))
    for network in (several, random_hourglass(0, MapTask.LANDMARKS, exits=0)):
        with pytest.raises(NetworkError, match="takes the place of a classifier's only exit"):
            with_map_head(network, MapTask.LANDMARKS, 2)
    with pytest.raises(NetworkError, match="at least one map, not 0"):
        with_map_head(classifier, MapTask.LANDMARKS, 0)
    with pytest.raises(NetworkError, match="2 to 256 labels"):
        with_map_head(classifier, MapTask.SEGMENTATION, 1)
    with pytest.raises(NetworkError, match=r"0\.\.6 times, not 7"):
        with_map_head(classifier, MapTask.LANDMARKS, 2, enlarge=7)
    named = with_map_head(classifier, MapTask.LANDMARKS, 2, top=3, count=0.25)
    assert named.check.text == "landmarks:shape=8x8x2,count=0.25,top=3"
    assert {layer.kind for layer in named.layers} == {Kind.GEMM}
