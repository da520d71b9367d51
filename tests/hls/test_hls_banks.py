"""The HLS core's accumulators in the memories of a board, and designs that do not fit."""

from __future__ import annotations

import json

from hls_cases import design_of, small_network, texts

from fluidnpu import rtl_tb
from fluidnpu.boards import load_board
from fluidnpu.dse import Point, build_design
from fluidnpu.hls import render_project
from fluidnpu.hls.core import hls_core_lacks, hls_ultra_banks
from fluidnpu.hls.core.render import render_core
from fluidnpu.models import LayerShape, Workload


def test_an_hls_core_has_the_ultraram_of_its_board() -> None:
    """Of 96 URAMs the input buffer takes 16; a bank of 512 rows takes one."""
    board = load_board("zcu104")
    work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=2304, c=256),))
    design = build_design(work, board, Point(t_r=8192, t_p=10, t_c=172), core="hls")
    assert hls_ultra_banks(design, board) == 96 - 16
    files = texts(render_project(design, None, board, rtl=rtl_tb.sources()))
    assert json.loads(files["manifest.json"])["missing"] == []
    array = files["hls/src/array.h"]
    assert "static acc_t ready_ultra[80][Halves][BankDepth];" in array
    assert "static acc_t ready_block[Banks - 80][Halves][BankDepth];" in array
    assert "static acc_t sums[TC][Halves][BankDepth];" in array
    assert "variable=ready_ultra core=RAM_2P_URAM" in array
    assert "variable=sums core=RAM_2P_BRAM" in array


def test_an_hls_core_that_does_not_fit_says_so() -> None:
    """Few PEs behind a wide beat: the C++ has a bank a channel of a pool, the reference core one a PE."""
    board = load_board("zcu104")
    work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=2304, c=256),))
    design = build_design(work, board, Point(t_r=8192, t_p=54, t_c=8), core="rtl")
    (why,) = json.loads(texts(render_project(design, None, board, rtl=rtl_tb.sources()))["manifest.json"])["missing"]
    assert "keeps 116 banks" in why
    assert "the board has 624" in why
    assert (
        json.loads(texts(render_project(design, None, board, core="rtl", rtl=rtl_tb.sources()))["manifest.json"])[
            "missing"
        ]
        == []
    )


def test_a_beat_wider_than_vivado_hls_can_take_says_so() -> None:
    board = load_board("zc706")
    widest = design_of(small_network(), t_p=128, t_c=4, t_r=512)
    assert "4096 bits" not in hls_core_lacks(widest, board)
    assert "#define AP_INT_MAX_W 4096" in render_core(widest)["params.h"]
    why = hls_core_lacks(widest.changed(t_p=130), board)
    assert "at most 4096 bits, the widest number of Vivado HLS, and this design needs 4160" in why
