"""A design for a board of one's own: searched, built, its layers checked, served on its RTL."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.models import shipped_file
from fluidnpu.rtl_tb.npu import layers
from fluidnpu.rtl_tb.simulation import bench

BOARD = """
schema = 1
name = "mine"
title = "A board of our own (Zynq-7000 XC7Z020)"
part = "xc7z020clg400-1"
board_part = "mine.org:mine:part0:1.0"
family = "zynq7000"
dsp = 220
ramb36 = 140
uram288 = 0
lut = 53200
ff = 106400
clock_hz = 100_000_000
axi_ports = 4
axi_port_bits = 64

[dram.ps]
bytes_per_s = 2_132_000_000
side = "ps"
"""


def fluidnpu(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def cycles_of(layer: str, table: str) -> int:
    """Return the cycles that the RTL took for a layer, of a printed table."""
    row = re.search(rf"^PASS  {layer} .* block=\w+ +(\d+) ", table, re.MULTILINE)
    assert row, table
    return int(row[1])


@pytest.mark.long
def test_a_board_of_ones_own_goes_all_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board, design, project = (str(tmp_path / name) for name in ("mine.toml", "design.json", "project"))
    Path(board).write_text(BOARD)
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        fluidnpu("dse", str(model), "--board", board, "--model", "paper", "--b-max", "2", "--out", design)
        fluidnpu("build", str(model), "--board", board, "--design", design, "--core", "rtl", "--out", project)
    assert layers.main([design, "--layer", "stem", "--layer", "exit1_fc", "--batch", "2"]) == 0
    behind = capsys.readouterr().out
    assert "2 of 2 layers passed" in behind
    assert layers.main([design, "--layer", "stem", "--batch", "2", "--ideal"]) == 0
    slow, fast = (cycles_of("stem", said) for said in (behind, capsys.readouterr().out))
    assert slow > fast  # the memory of a board that is not shipped, and not ideal memory in its place
    assert bench.main(["fluidnpu_planner", "--design", design]) == 0
    words = ("--device", "rtl", "--requests", "2", "--rate", "100", "--slo", "1s", "--json")
    served = json.loads(fluidnpu("stream", project, *words).splitlines()[-1])
    assert served["requests"] == 2, served
