"""What commands make of int16 beside float: printed, refused, equalised, written down, without labels too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.models import Exit, Kind, Network, quantise, read_onnx
from fluidnpu.models.graph import Builder, Output
from fluidnpu.models.graph.network import INT16_RECORD
from fluidnpu.models.numeric.guard import MOST_ERROR
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import with_random_weights
from fluidnpu.quantities import round_floats

SMALL = ("--board", "zc706", "--cycles", "paper", "--core", "rtl", "--b-max", 1)


def run(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(word) for word in words])


def screen(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def answer(*words: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(screen(*words, "--json").splitlines()[-1])
    return report


def far_apart(bits: int) -> Network:
    """A classifier whose channels lie up to 2**bits apart in size, and whose classes need them all."""
    net = Builder({"image": (6, 6, 3)})
    net.classifier(("average", "dense"), net.conv("first", "image", 8, 3), 4, "logits")
    network = replace(
        with_random_weights(net.network("apart", [Exit(name="logits", logits="logits")]), 1), calibration={}
    )
    scales = np.ldexp(np.float32(1), -np.linspace(0, bits, 8).astype(np.int64))
    first, dense = network.parameters["first"], network.parameters["dense"]
    own = {
        "first": replace(first, weights=first.weights * scales, bias=first.bias * scales),
        "dense": replace(dense, weights=dense.weights / scales[:, None]),
    }
    return replace(network, parameters=own)


def maps() -> Network:
    """Labels and boxes of every pixel, and no classes of the whole image."""
    net = Builder({"image": (8, 8, 3)})
    trunk = net.conv("trunk", "image", 8, 3)
    outputs = []
    for name, channels, activation in (("labels", 3, "softmax"), ("scores", 2, "sigmoid"), ("boxes", 4, "")):
        net.conv(name, trunk, channels, clip=(None, None), output=name)
        outputs.append(
            Output(name=name, tensor=name, shape=(channels, 8, 8), axes="chw", split=(channels,), activation=activation)
        )
    network = with_random_weights(net.network("maps", [Exit(name="final", logits=None)]), 0)
    return replace(network, outputs=tuple(outputs), calibration={})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures in two folders, which every reader of folders takes for classes."""
    rng = np.random.default_rng(0)
    for number in range(12):
        place = tmp_path / "pictures" / ("day", "night")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(place / f"{number}.png")
    return tmp_path / "pictures"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    np.savez(tmp_path / "images.npz", images=np.random.default_rng(0).integers(0, 256, (16, 6, 6, 3), np.uint8))
    return tmp_path / "images.npz"


def test_what_is_far_apart_is_equalised_written_down_and_built(images: Path, tmp_path: Path) -> None:
    write_onnx(far_apart(20), tmp_path / "apart.onnx")
    ready = tmp_path / "ready.onnx"
    text = screen("prepare", tmp_path / "apart.onnx", "--calibrate", images, "--out", ready)
    assert "int16 beside float on 16 images: off by " in text
    assert "channels equalised in average" in text
    network = read_onnx(ready)
    assert {kind.kind for kind in network.layers} == {Kind.GEMM, Kind.SUM_POOL}
    assert len(network.equalisation) == 2
    assert min(min(some) for some in network.equalisation.values()) < -12
    assert network.metadata[INT16_RECORD].removesuffix("; 16 images") in text
    built = answer("build", ready, *SMALL, "--data", images, "--out", tmp_path / "project")
    assert built["int16"]["equalised"] == sorted(network.equalisation)
    assert built["int16"]["error_before"] is None  # it was equalised before this command
    assert built["int16"]["answers"][0]["rms"] < MOST_ERROR / 10
    kept = json.loads((tmp_path / "project" / "bundle" / "int16.json").read_text())
    assert round_floats(kept) == built["int16"]
    assert "int16 beside float, as prepared: off by" in screen("build", ready, *SMALL, "--out", tmp_path / "without")
    assert not (tmp_path / "without" / "bundle" / "int16.json").exists()
    programs = [(tmp_path / name / "bundle" / "program.bin").read_bytes() for name in ("project", "without")]
    assert programs[0] == programs[1]
    straight = answer("build", tmp_path / "apart.onnx", *SMALL, "--data", images, "--out", tmp_path / "straight")
    assert straight["int16"]["error_before"] > 10 * MOST_ERROR
    assert (tmp_path / "straight" / "bundle" / "program.bin").read_bytes() == programs[0]


def test_other_ranges_and_other_heads_take_the_equalisation_along_or_leave_it(images: Path, tmp_path: Path) -> None:
    write_onnx(far_apart(20), tmp_path / "apart.onnx")
    ready = tmp_path / "ready.onnx"
    screen("prepare", tmp_path / "apart.onnx", "--calibrate", images, "--out", ready)
    screen("exits", ready, "--exits", 2, "--out", tmp_path / "two.onnx")  # another pool reads the same channels
    two = read_onnx(tmp_path / "two.onnx")
    assert two.equalisation == read_onnx(ready).equalisation
    assert INT16_RECORD in read_onnx(ready).metadata
    assert INT16_RECORD not in two.metadata  # it was of one exit
    quantise(two)
    again = answer("exits", tmp_path / "two.onnx", "--calibrate", images, "--out", tmp_path / "again.onnx")
    assert again["int16"]["answers"][-1]["rms"] < MOST_ERROR
    screen("prepare", ready, "--mean", "0.5", "--out", tmp_path / "other.onnx")
    assert read_onnx(tmp_path / "other.onnx").equalisation == {}


def test_what_equalisation_cannot_mend_is_refused_with_its_layer(images: Path, tmp_path: Path) -> None:
    write_onnx(far_apart(0), tmp_path / "good.onnx")
    words = ("--calibrate", images, "--out", tmp_path / "none.onnx")
    refused(
        run("prepare", tmp_path / "good.onnx", *words, "--most-error", 0),
        "int16 must stay within 0 of the spread of float's values",
        "makes most of it",
    )
    refused(run("prepare", tmp_path / "good.onnx", *words, "--most-error", "-1"), "a share of the spread of at least 0")
    assert not (tmp_path / "none.onnx").exists()
    write_onnx(far_apart(20), tmp_path / "apart.onnx")
    text = screen("prepare", tmp_path / "apart.onnx", *words, "--most-error", 100)
    assert "equalised" not in text
    for command in ("prepare", "exits", "build"):
        assert f"[default: {MOST_ERROR}]" in " ".join(screen(command, "--help").split())


def test_networks_without_classes_are_calibrated_on_a_folder_of_folders(folder: Path, tmp_path: Path) -> None:
    write_onnx(maps(), tmp_path / "maps.onnx")
    ready = tmp_path / "ready.onnx"
    result = run("prepare", tmp_path / "maps.onnx", "--calibrate", folder, "--out", ready)
    assert result.exit_code == 0, result.output
    assert "the labels are not used: 'maps' tells no classes apart" in result.stderr
    for words in ("mean IoU ", "scores within "):
        assert words in result.output
    network = read_onnx(ready)
    assert set(network.calibration) == set(network.tensors)
    assert network.exits[-1].accuracy is None
    report = answer("build", ready, *SMALL, "--data", folder, "--out", tmp_path / "project")
    assert (report["int16_accuracy"], report["float_accuracy"]) == (None, None)
    answers = {row["name"]: row for row in report["int16"]["answers"]}
    assert answers["labels"]["overlap"] > 0.98
    assert answers["scores"]["largest_score"] < 1e-2
    assert answers["boxes"] | {"rms": 0, "largest": 0} == {
        "name": "boxes", "rms": 0, "largest": 0, "same_class": None, "overlap": None, "largest_score": None,
    }  # fmt: skip
    labels = answer("exits", ready, "--head", "segmentation", "--output", "labels")
    assert labels["check"].startswith("segmentation")


def test_classes_of_folders_are_no_truths_of_maps(folder: Path, tmp_path: Path) -> None:
    write_onnx(maps(), tmp_path / "maps.onnx")
    screen(
        "exits", tmp_path / "maps.onnx", "--head", "segmentation", "--output", "labels", "--out", tmp_path / "seg.onnx"
    )
    refused(
        run("prepare", tmp_path / "seg.onnx", "--calibrate", folder), "a label of 0..2 for each pixel", "--classes none"
    )
    assert "mean IoU" in screen("prepare", tmp_path / "seg.onnx", "--calibrate", folder, "--classes", "none")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("prepare", "MODEL", "--calibrate", "DATA", "--tolerance", 1), "needs labelled images"),
        (("exits", "MODEL", "--calibrate", "DATA"), "--head makes an output of it the answer"),
        (("exits", "MODEL", "--exits", 2, "--fit", "DATA"), "'maps' does neither"),
        (("measure", "MODEL"), "every exit of 'maps' must give classes"),
        (("train", "--from", "MODEL", "--data", "DATA", "--out", "OUT"), "must tell classes apart, or give maps"),
    ],
)
def test_what_needs_classes_says_so(words: tuple[object, ...], why: str, folder: Path, tmp_path: Path) -> None:
    write_onnx(maps(), tmp_path / "maps.onnx")
    places = {"MODEL": tmp_path / "maps.onnx", "DATA": folder, "OUT": tmp_path / "out.onnx"}
    result = run(*(places.get(str(word), word) for word in words))
    assert result.exit_code == 2
    *notes, sentence = result.stderr.strip().splitlines()
    assert why in sentence
    assert set(notes) <= {"note: the labels are not used: 'maps' tells no classes apart"}
