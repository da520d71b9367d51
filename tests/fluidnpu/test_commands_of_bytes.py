"""The commands at 8 bits (ADR 75), on a file that another tool has quantised with zero points."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType, quantize_static
from refusals import refused
from test_cli import run
from test_models_int8_files import Reader, float_model

from fluidnpu.dse import Design
from fluidnpu.host import Bundle
from fluidnpu.models import read_onnx, shipped_file

QUICK = ("--board", "zc706", "--core", "rtl", "--b-max", 2, "--evaluations", 1)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose average pool is a layer with weights at 8 bits, and images beside it."""
    folder = tmp_path_factory.mktemp("quantised")
    onnx.save(float_model(), folder / "float.onnx")
    quantize_static(folder / "float.onnx", folder / "file.onnx", Reader(), activation_type=QuantType.QUInt8)
    images = np.random.default_rng(0).random((20, 10, 10, 3)).astype(np.float32)
    np.savez(folder / "images.npz", images=images, labels=np.arange(20) % 5)
    return folder / "file.onnx"


@pytest.fixture(scope="module")
def design(quantised: Path) -> Path:
    out = quantised.with_name("design.json")
    assert run("dse", quantised, *QUICK, "--bits", 8, "--out", out).exit_code == 0
    return out


def test_a_design_of_dse_is_built_and_serves(quantised: Path, design: Path, tmp_path: Path) -> None:
    out = tmp_path / "project"
    result = run("build", quantised, "--board", "zc706", "--core", "rtl", "--design", design, "--out", out)
    assert result.exit_code == 0, result.output
    assert "int8 was not compared with float" in result.output
    assert Bundle.read(out / "bundle").program.bits == 8
    images = quantised.with_name("images.npz")
    result = run("stream", out, "--rate", 3000, "--slo", "5ms", "--data", images, "--json")
    assert result.exit_code == 0, result.output


def test_each_and_a_mix_have_the_layers_that_8_bits_compute(quantised: Path, design: Path, tmp_path: Path) -> None:
    """A file is part of each search as `build` knows it: with the layers of its own scales."""
    work = Design.loads(design.read_text(), "design").workload_digest
    result = run("dse", quantised, *QUICK, "--bits", 8, "--each", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    (one,) = json.loads(result.stdout)["designs"]
    assert Design.loads(Path(one["design"]).read_text(), "design").workload_digest == work
    both = tmp_path / "both.json"
    with shipped_file("resnet8_fashion_mnist.onnx") as other:
        result = run("dse", f"{quantised}=0.5", f"{other}=0.5", *QUICK, "--bits", 8, "--out", both)
    assert result.exit_code == 0, result.output
    assert work in {part.workload_digest for part in Design.loads(both.read_text(), "design").parts}


def test_a_design_of_the_other_width_is_refused(quantised: Path, design: Path, tmp_path: Path) -> None:
    words = ("--board", "zc706", "--design", design, "--bits", 16)
    for more in (("build", quantised, "--out", tmp_path / "p"), ("verify", quantised)):
        refused(run(*more, *words), "must be a design with words of 16 bits, not of 8")


def test_rates_that_are_given_stand_beside_what_is_measured_in_words(few_images: Path, tmp_path: Path) -> None:
    out = tmp_path / "ready.onnx"
    words = ("--calibrate", few_images, "--bits", 8, "--rates", "0.25,0.25,0.5", "--out", out)
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        assert run("prepare", path, *words).exit_code == 0
        before = [exit.accuracy for exit in read_onnx(path).exits]
    after = read_onnx(out).exits
    assert [exit.rate for exit in after] == [0.25, 0.25, 0.5]
    assert [exit.accuracy for exit in after] != before
