"""Boards that are small, new or known by half, on the command line: what serves, and what a sentence says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from refusals import refused

from fluidnpu.cli import main
from fluidnpu.models import shipped_file

# Logic for ports of 128 bits a master, and not for 512; its columns are not known.
SMALL = """schema = 1
name = "small"
title = "A small board"
part = "xczu3eg-sbva484-1-i"
board_part = "example.org:small:part0:1.0"
family = "zynquplus"
dsp = 360
ramb36 = 216
uram288 = 0
lut = 70_560
ff = 141_120
clock_hz = 200_000_000
axi_ports = 4
axi_port_bits = 128

[dram.wide]
bytes_per_s = 4_264_000_000
side = "ps"
stripes = 4

[dram.narrow]
bytes_per_s = 4_264_000_000
side = "ps"
"""


def run(command: str, *words: object) -> Result:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return CliRunner(env={"COLUMNS": "500"}).invoke(main, [command, str(path), *map(str, words)])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_another_memory_than_the_first_and_columns_that_are_not_known_are_told(small: Path) -> None:
    words = ("--board", small, "--core", "rtl", "--b-max", 1, "--evaluations", 1)
    plain = run("dse", *words)
    assert plain.exit_code == 0, plain.output
    sentences = (
        "memory 'narrow' was chosen; with 'wide', the first of board 'small', no array fits",
        "chains of the reference",
    )
    assert all(plain.stdout.count(text) == 1 for text in sentences)
    assert "faster memory" not in plain.stdout
    report = run("dse", *words, "--json")
    assert all(text in note for text, note in zip(sentences, json.loads(report.stdout)["notes"], strict=False))
    explained = run("dse", *words, "--explain").stdout
    assert all(explained.count(text) == 1 for text in sentences)


def test_a_memory_that_was_named_is_refused_with_the_one_that_fits(small: Path) -> None:
    parts = ("data plane: ", "memory 'wide' gives a master 512 bits, and with 'narrow', which gives 128, arrays fit")
    refused(run("dse", "--board", small, "--memory", "wide", "--b-max", 1), *parts, code=1)


def test_a_kria_is_built_for_by_tools_that_know_it(tmp_path: Path) -> None:
    words = ("--board", "kv260", "--b-max", 1, "--evaluations", 1, "--out", tmp_path / "project")
    refused(run("build", *words), "know xck26-sfvc784-2LV-c, and 2019.2 is older than it: build with --tools 2022.1")
    assert not (tmp_path / "project").exists()
