"""`prepare`, `exits` and what other commands make of a model that says how it is served."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.dse import Design
from fluidnpu.models import read_onnx
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network
from fluidnpu.quantities import round_floats

CALM = ("--rate", "200", "--slo", "50ms")


def run(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(main, [str(word) for word in words])


def said(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def answer(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(*words, "--json").splitlines()[-1])
    return found


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A model with three exits as an exporter leaves it: no metadata, and a graph called `main_graph`."""
    network = replace(random_network(2, exits=3), calibration={})
    model = build_onnx(network)
    del model.metadata_props[:]
    model.graph.name = "main_graph"
    onnx.save(model, tmp_path / "mine.onnx")
    return tmp_path / "mine.onnx"


@pytest.fixture
def data(tmp_path: Path, bare: Path) -> Path:
    network = read_onnx(bare)
    rng = np.random.default_rng(0)
    shape, classes = network.tensors[network.input], network.tensors[network.exits[-1].classes][2]
    images = rng.integers(0, 256, (40, *shape), np.uint8).transpose(0, 3, 1, 2) / 255
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(40) % classes)
    np.savez(tmp_path / "bare.npz", images=images)
    return tmp_path / "data.npz"


def test_preparing_writes_what_is_given_and_what_is_measured(bare: Path, data: Path, tmp_path: Path) -> None:
    before = bare.read_bytes()
    words = ("prepare", bare, "--scale", "1/255", "--mean", "0.5", "--std", "0.25", "--resize", "crop:32")
    text = said(*words, "--calibrate", data, "--thresholds", "0.3,0.4", "--out", tmp_path / "ready.onnx")
    assert "crop 32 (bilinear), pixel * 1/255, - 0.5, / 0.25; floats in 0..1" in text
    assert "model written to" in text
    assert "about as often as chance among" in text  # random weights
    assert "is assumed" not in text
    assert bare.read_bytes() == before
    ready = read_onnx(tmp_path / "ready.onnx")
    assert ready.preprocessing == Preprocessing(mean=(0.5,), std=(0.25,), resize="crop:32")
    assert ready.thresholds == (0.3, 0.4)
    assert set(ready.calibration) == set(ready.tensors)
    assert ready.workload.exit_rates is not None
    assert sum(ready.workload.exit_rates) == pytest.approx(1)
    assert all(exit.accuracy is not None for exit in ready.exits)
    again = answer("prepare", tmp_path / "ready.onnx", "--layout", "NCHW")
    assert again["preprocessing"] == round_floats({**ready.preprocessing.to_dict(), "layout": "NCHW"})
    assert again["calibrated"] is False  # another record: what was measured under the old one is gone
    assert again["model"] is None


def test_nothing_is_written_without_out_and_never_over_the_model(bare: Path, data: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "nothing was written" in said("prepare", bare, "--mean", "0.5")
    assert "nothing was written" in said("exits", bare, "--thresholds", "0.5,0.5")
    (tmp_path / "same.onnx").symlink_to(bare)
    for command in ("prepare", "exits"):
        for out in (bare, tmp_path / "same.onnx"):
            refused(run(command, bare, "--calibrate", data, "--out", out), "--out must")
    (tmp_path / "same.onnx").unlink()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_threshold_that_a_file_lacks_is_assumed_aloud(bare: Path, tmp_path: Path) -> None:
    words = "no thresholds in the file: 0.8 is assumed for"
    for command in ("check", "exits", "prepare"):
        assert words in said(command, bare)
    found = answer("check", bare)
    assert found["name"] == "mine"
    assert ["threshold" in row for row in found["exits"]] == [True, True, False]
    said("exits", bare, "--thresholds", "0.5,0.6", "--out", tmp_path / "set.onnx")
    assert words not in said("check", tmp_path / "set.onnx")
    assert "the last threshold is not used" in said("exits", bare, "--thresholds", "0.5,0.6,0.7")


def test_exits_take_rates_calibration_and_a_tolerance(bare: Path, data: Path, tmp_path: Path) -> None:
    said("exits", bare, "--rates", "0.5,0.25,0.25", "--out", tmp_path / "rates.onnx")
    assert [row["rate"] for row in answer("check", tmp_path / "rates.onnx")["exits"]] == [0.5, 0.25, 0.25]
    said("exits", bare, "--calibrate", data, "--tolerance", 100, "--images", 20, "--out", tmp_path / "chosen.onnx")
    chosen = read_onnx(tmp_path / "chosen.onnx")
    assert len(set(chosen.thresholds)) == 1
    assert chosen.workload.exit_rates == (1.0, 0.0, 0.0)  # every accuracy will do, so the cheapest one does
    for words, why in (
        (("--tolerance", 1), "--calibrate names"),
        (("--calibrate", data.with_name("bare.npz"), "--tolerance", 1), "needs labelled images"),
        (("--rates", "0.5,0.6"), "3 exit rates that sum to 1"),
        (("--thresholds", "0.5"), "2 thresholds of 0..1"),
        (("--fit", data), "needs --exits"),
        (("--exits", "at=nothing", "--fit", data, "--calibrate", data), "must not be given"),
        (("--calibrate", tmp_path / "none.npz"), "does not exist"),
    ):
        refused(run("exits", bare, *words), why)


def test_a_record_that_makes_no_sense_is_refused(bare: Path) -> None:
    for words, why in (
        (("--scale", "1/0"), "--scale must be a number or a ratio such as 1/255, not '1/0'"),
        (("--scale", "-1"), "scale of a pixel must be a number above 0"),
        (("--mean", "0.5,0.5,0.5,0.5,0.5,0.5,0.5"), "one number or one for each of"),
        (("--mean", "a"), "--mean must be finite numbers"),
        (("--std", "0"), "std must be above 0"),
        (("--resize", "squash"), "resize must be none, stretch, crop or crop:256"),
        (("--float-range", "1,0"), "from low to high"),
    ):
        refused(run("prepare", bare, *words), why)


def test_rates_are_no_part_of_a_design(bare: Path, data: Path, tmp_path: Path) -> None:
    """A design that was made with exit rates works with the file that it was made from, and serves."""
    small = ("--board", "zc706", "--cycles", "paper", "--core", "rtl", "--b-max", 2)
    ready, design = tmp_path / "ready.onnx", tmp_path / "design.json"
    said("prepare", bare, "--calibrate", data.with_name("bare.npz"), "--out", ready)
    said("dse", bare, *small, "--exit-rates", "0.5,0.25,0.25", "--out", design)
    assert Design.loads(design.read_text()).exit_rates == (0.5, 0.25, 0.25)
    build = ("build", ready, "--board", "zc706", "--core", "rtl", "--design", design)
    built = answer(*build, "--out", tmp_path / "measured")
    assert built["exit_rates"] == list(read_onnx(ready).workload.exit_rates or ())
    assert built["int16_accuracy"] is None
    assert "int16 beside float, as prepared: off by" in said(*build, "--out", tmp_path / "project")
    given = answer(*build, "--exit-rates", "0.2,0.2,0.6", "--data", data, "--out", tmp_path / "given")
    assert given["exit_rates"] == [0.2, 0.2, 0.6]
    assert given["int16_accuracy"] is not None
    assert answer("stream", tmp_path / "given", *CALM, "--data", data)["accuracy"] is not None
    assert "random images have no labels" in said("stream", tmp_path / "given", *CALM, "--requests", 5)
    assert answer("stream", tmp_path / "given", *CALM, "--data", data.with_name("bare.npz"))["accuracy"] is None


def test_rates_that_nobody_knows_are_measured_or_asked_for(bare: Path, data: Path, tmp_path: Path) -> None:
    small = ("--board", "zc706", "--cycles", "paper", "--core", "rtl", "--b-max", 2)
    refused(run("build", bare, *small, "--out", tmp_path / "none"), "has none: give images with --data, or put ranges")
    said("dse", bare, *small, "--out", tmp_path / "bare.json")
    load = ("simulate", tmp_path / "bare.json", *CALM, "--requests", 50, "--seeds", 2)
    refused(run(*load), "has no exit rates, so they must be given, or be measured on data")
    said(*load, "--confidences", bare, "--data", data)
    said(*load, "--confidences", bare, "--data", data.with_name("bare.npz"))
    said("dse", bare, *small, "--data", data.with_name("bare.npz"), "--out", tmp_path / "measured.json")
    assert Design.loads((tmp_path / "measured.json").read_text()).exit_rates is not None
    refused(run("dse", "resnet50", *small, "--data", data), "--data measures a network with weights")
    network = replace(read_onnx(bare), calibration=random_network(2, exits=3).calibration)
    ranged = tmp_path / "ranged.onnx"
    model = build_onnx(network)
    onnx.save(model, ranged)
    words = ("build", ranged, "--board", "zc706", "--core", "rtl", "--design", tmp_path / "bare.json")
    assert "`stream` wants --exit-rates, or --data" in said(*words, "--out", tmp_path / "unknown")
    for more in (("--exit-rates", "0.5,0.25,0.25"), ("--data", data)):
        assert answer("stream", tmp_path / "unknown", *CALM, *more, "--requests", 10)["answered"] == 10
