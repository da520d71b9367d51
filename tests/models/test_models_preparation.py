"""Thresholds, rates, calibration and names of a model file of one's own, and heads that are fitted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from fluidnpu.models import ImageSet, Network, NetworkError, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.errors import DataError, ModelFileError, TrainingError
from fluidnpu.models.exits import attach_exits, decide_exits, single_exit, with_rates, with_thresholds
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.numeric import prepare, run_float
from fluidnpu.models.numeric.float_reference import examine
from fluidnpu.models.onnx import with_metadata, write_onnx
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.training import fit_heads
from fluidnpu.models.zoo import random_network


def bare(exits: int = 3, seed: int = 2) -> Network:
    """A network as an exporter leaves it: no thresholds of its own, no rates, no ranges."""
    network = random_network(seed, exits=exits)
    rows = tuple(replace(exit, threshold=0.8, assumed=True, rate=None) for exit in network.exits)
    return replace(network, exits=rows, calibration={})


def images_of(network: Network, count: int = 24, labelled: bool = True) -> ImageSet:
    rng = np.random.default_rng(5)
    classes = network.tensors[network.exits[-1].classes][2]
    pixels = rng.integers(0, 256, (count, *network.tensors[network.input]), np.uint8)
    return ImageSet(images=pixels, labels=rng.integers(0, classes, count) if labelled else None)


def test_thresholds_leave_the_last_exit_out() -> None:
    network = bare()
    for given in ([0.5, 0.6], [0.5, 0.6, 0.7]):
        found = with_thresholds(network, given)
        assert found.thresholds == (0.5, 0.6)
        assert found.exits[-1].threshold is None
        assert not any(exit.assumed for exit in found.exits)
    for wrong in ([0.5], [0.5, 1.5], [0.5, 0.5, 0.5, 0.5]):
        with pytest.raises(NetworkError, match=r"needs 2 thresholds of 0\.\.1, one for every exit but the last"):
            with_thresholds(network, wrong)
    for rates in ([0.5, 0.5], [0.5, 0.5, 0.5], [-0.5, 1.0, 0.5], [float("nan"), 0.5, 0.5]):
        with pytest.raises(NetworkError, match="needs 3 exit rates that sum to 1"):
            with_rates(network, rates)
    assert with_rates(network, [0.5, 0.25, 0.25]).workload.exit_rates == (0.5, 0.25, 0.25)


def test_a_single_exit_has_rate_one_and_needs_nothing() -> None:
    network = single_exit(bare())
    assert network.exits[0].rate == 1
    assert network.exits[0].threshold is None
    assert network.thresholds == ()
    assert network.workload.exit_rates == (1.0,)


@pytest.mark.parametrize("labelled", [True, False])
def test_images_give_ranges_rates_and_accuracies(labelled: bool) -> None:
    network, images = bare(), images_of(bare(), labelled=labelled)
    found = prepare(network, images=images, thresholds=[0.3, 0.4])
    logits = run_float(network, images.images)
    exits = decide_exits([confidence(one) for one in logits], [0.3, 0.4])
    assert found.workload.exit_rates == tuple(float(np.mean(exits == index)) for index in range(3))
    assert set(found.calibration) == set(network.tensors)
    assert found.calibration == examine(network, images.images).ranges
    for exit, one in zip(found.exits, logits, strict=True):
        wanted = float(np.mean(one.argmax(-1) == images.labels)) if labelled else None
        assert exit.accuracy == wanted
    quantise(found)
    given = prepare(network, images=images, rates=[0.2, 0.3, 0.5])
    assert given.workload.exit_rates == (0.2, 0.3, 0.5)


def test_a_tolerance_chooses_the_threshold() -> None:
    network, images = bare(), images_of(bare())
    loose = prepare(network, images=images, tolerance_points=100)
    strict = prepare(network, images=images, tolerance_points=0)
    assert loose.workload.exit_rates is not None
    assert strict.workload.exit_rates is not None
    assert loose.workload.exit_rates[0] >= strict.workload.exit_rates[0]
    assert loose.workload.exit_rates[0] == 1
    for message, error, words in (
        ("needs labelled images", DataError, {"images": images_of(network, labelled=False)}),
        ("needs labelled images", DataError, {}),
        ("both were asked for", NetworkError, {"images": images, "thresholds": [0.5, 0.5]}),
    ):
        with pytest.raises(error, match=message):
            prepare(network, tolerance_points=1, **words)
    with pytest.raises(NetworkError, match=r"must be 0\.\.100 percentage points, not -1"):
        prepare(network, images=images, tolerance_points=-1)
    with pytest.raises(NetworkError, match="has one exit, so there is no threshold to choose"):
        prepare(single_exit(network), images=images, tolerance_points=1)
    wild = ImageSet(images=images.images, labels=images.labels + 500)
    with pytest.raises(NetworkError, match=r"labels must be classes 0\.\."):
        prepare(network, images=wild)


def test_new_preprocessing_forgets_what_was_measured_under_another() -> None:
    ready = prepare(bare(), images=images_of(bare()))
    assert ready.calibration
    changed = prepare(ready, preprocessing=Preprocessing(mean=(0.5,)))
    assert not changed.calibration
    assert [(exit.rate, exit.accuracy) for exit in changed.exits] == [(None, None)] * 3
    assert prepare(changed, preprocessing=Preprocessing(mean=(0.5,))) == changed


def strip(model: onnx.ModelProto) -> bytes:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.metadata_props[:]
    return bytes(copy.SerializeToString(deterministic=True))


def test_a_file_keeps_its_graph_and_foreign_metadata(tmp_path: Path) -> None:
    model = build_onnx(bare())
    onnx.helper.set_model_props(model, {"author": "somebody"})
    onnx.save(model, tmp_path / "mine.onnx")
    network = read_onnx(tmp_path / "mine.onnx")
    assert [exit.threshold for exit in network.exits] == [0.8, 0.8, None]
    assert [exit.assumed for exit in network.exits] == [True, True, False]
    ready = prepare(network, images=images_of(network), thresholds=[0.5, 0.6], preprocessing=Preprocessing(std=(0.5,)))
    (tmp_path / "ready.onnx").write_bytes(with_metadata(tmp_path / "mine.onnx", ready))
    again = read_onnx(tmp_path / "ready.onnx")
    assert (again.exits, again.preprocessing) == (ready.exits, ready.preprocessing)
    assert again.calibration == pytest.approx(ready.calibration)
    written = onnx.load(tmp_path / "ready.onnx")
    assert strip(written) == strip(model)
    assert {one.key for one in written.metadata_props} > {"author", "fluidnpu.exits", "fluidnpu.preprocessing"}
    with pytest.raises(ModelFileError, match="must read back as it was written"):
        with_metadata(
            tmp_path / "mine.onnx", replace(ready, exits=(replace(ready.exits[0], name="a\x07"), *ready.exits[1:]))
        )


def test_weights_beside_a_file_come_along(tmp_path: Path) -> None:
    onnx.save(
        build_onnx(bare()), tmp_path / "mine.onnx", save_as_external_data=True, location="mine.data", size_threshold=0
    )
    ready = prepare(read_onnx(tmp_path / "mine.onnx"), images=images_of(bare()))
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "ready.onnx").write_bytes(with_metadata(tmp_path / "mine.onnx", ready))
    again = read_onnx(tmp_path / "away" / "ready.onnx")
    for name, parameters in ready.parameters.items():
        np.testing.assert_array_equal(again.parameters[name].weights, parameters.weights)
    model = onnx.load(tmp_path / "away" / "ready.onnx", load_external_data=False)
    assert all(one.data_location == TensorProto.DEFAULT for one in model.graph.initializer)


@pytest.mark.parametrize("name", ["main_graph", "torch_jit", "torch-jit-export", "main", ""])
def test_a_graph_that_its_exporter_named_is_named_after_its_file(tmp_path: Path, name: str) -> None:
    model = build_onnx(bare())
    del model.metadata_props[:]
    model.graph.name = name
    (tmp_path / "my_net.onnx").write_bytes(model.SerializeToString())
    assert read_onnx(tmp_path / "my_net.onnx").name == "my_net"
    model.graph.name = "resnet"
    (tmp_path / "my_net.onnx").write_bytes(model.SerializeToString())
    assert read_onnx(tmp_path / "my_net.onnx").name == "resnet"


@pytest.fixture(scope="module")
def backbone() -> Network:
    """The shipped network without its early exits: a trained backbone."""
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return single_exit(read_onnx(path))


def test_fitted_heads_answer_and_pay(backbone: Network) -> None:
    network = attach_exits(backbone, ["stem_out", "stage2_block1_b_out"])
    images = shipped_images(400)
    seen: list[tuple[int, int]] = []
    fitted = fit_heads(network, ["exit1", "exit2"], images, progress=lambda done, total: seen.append((done, total)))
    assert fitted.fitted + fitted.held_out == 400
    assert seen[-1] == (400, 400)
    assert max(fitted.before[:2]) < 0.3
    assert fitted.after[1] > 0.7
    assert fitted.after[2] == fitted.before[2]
    ready = fitted.network
    assert ready.exits[0].threshold == ready.exits[1].threshold
    assert ready.workload.exit_rates is not None
    assert sum(ready.workload.exit_rates) == pytest.approx(1)
    assert [exit.accuracy for exit in ready.exits] == list(fitted.after)
    assert fitted.accuracy >= fitted.after[-1] - 0.005 - 1e-9
    for name in network.parameters:
        same = network.parameters[name] is ready.parameters[name]
        assert same == (name not in ("exit1_fc", "exit2_fc"))
    rerun = examine(ready, images.images)
    assert rerun.ranges == pytest.approx(dict(ready.calibration), rel=1e-4)
    again = fit_heads(network, ["exit1", "exit2"], images)
    assert again.after == fitted.after
    np.testing.assert_array_equal(again.network.parameters["exit1_fc"].weights, ready.parameters["exit1_fc"].weights)
    assert fit_heads(network, ["exit1"], images[:80], thresholds=[0.9, 0.9]).network.thresholds == (0.9, 0.9)


def test_what_cannot_be_fitted_is_refused(backbone: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    network, images = attach_exits(backbone, ["stage2_block1_b_out"]), shipped_images(60)
    for names, data, message in (
        ([], images, "needs the names of exits"),
        (["exit9"], images, "there is no exit 'exit9'"),
        (["exit1"], images[:12], r"at least 4 images of each of several classes, and of these class \d has 1"),
        (["exit1"], images[np.flatnonzero(images.labels == 2)], "all are of class 2"),
        (["exit1"], ImageSet(images=images.images), "needs labelled images"),
        (["exit1"], ImageSet(images=images.images, labels=images.labels + 1), r"labels must be classes 0\.\.9"),
    ):
        with pytest.raises(NetworkError, match=message):
            fit_heads(network, names, data)
    pooled = random_network(4, exits=2)
    early = next(layer for layer in pooled.layers if layer.output == pooled.exits[0].logits)
    clipped = tuple(replace(one, clip=(0.0, None)) if one is early else one for one in pooled.layers)
    with pytest.raises(NetworkError, match="must end in one linear layer to be fitted"):
        fit_heads(replace(pooled, layers=clipped), [pooled.exits[0].name], images_of(pooled, 200))
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(TrainingError, match=r"needs SciPy, which is not installed: pip install 'fluidnpu\[fit\]'"):
        fit_heads(network, ["exit1"], images)


def test_a_rewritten_head_survives_the_file(backbone: Network, tmp_path: Path) -> None:
    network = attach_exits(backbone, ["stage2_block1_b_out"])
    fitted = fit_heads(network, ["exit1"], shipped_images(120)).network
    write_onnx(fitted, tmp_path / "fitted.onnx")
    again = read_onnx(tmp_path / "fitted.onnx")
    assert again.exits == fitted.exits
    images = shipped_images(5).images
    for mine, theirs in zip(run_float(fitted, images), run_float(again, images), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
