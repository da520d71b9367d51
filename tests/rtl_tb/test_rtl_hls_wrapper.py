"""The wrapper that a bitstream project puts around the HLS core: it counts and connects, by proof."""

from __future__ import annotations

import pytest

from fluidnpu import hls
from fluidnpu.boards import load_board
from fluidnpu.dse.testing import tiny_design
from fluidnpu.rtl_tb import sources
from fluidnpu.rtl_tb.proving.prover import Proof, prove

WRAPPER, BOX = "fluidnpu_hls_core.v", "fluidnpu_core.v"
# A core whose answers tell which stream they are of.
CORE = """module fluidnpu_core (
  input ap_clk, input ap_rst_n,
  input [{cmd}:0] cmd_TDATA, input cmd_TVALID, output cmd_TREADY,
  input [{input}:0] input_TDATA, input input_TVALID, output input_TREADY,
  input [{weight}:0] weight_TDATA, input weight_TVALID, output weight_TREADY,
  input [{residual}:0] residual_TDATA, input residual_TVALID, output residual_TREADY,
  output [{output}:0] output_TDATA, output output_TVALID, input output_TREADY,
  output [31:0] saturations_TDATA, output saturations_TVALID, input saturations_TREADY
);
  (* anyseq *) wire [32:0] told;
  assign {{saturations_TVALID, saturations_TDATA}} = told;
  assign cmd_TREADY = cmd_TVALID && ^cmd_TDATA;
  assign input_TREADY = input_TVALID && !(^input_TDATA);
  assign weight_TREADY = !weight_TVALID && ^weight_TDATA;
  assign residual_TREADY = residual_TVALID || ^residual_TDATA;
  assign output_TDATA = ~residual_TDATA;
  assign output_TVALID = residual_TVALID ^ output_TREADY;
endmodule
"""
PROOF = Proof(
    says="the wrapper of the HLS core sums up saturations up to the largest number, and every stream is the core's",
    top="fluidnpu_hls_core",
    reads=(BOX, WRAPPER),
    depth=2,
    inside={WRAPPER: "inside_hls_wrapper.sv"},
)
SEEDS = [
    ("sum[32] ?", "1'b0 ?"),
    ("if (!rst_ni || clear_i)", "if (!rst_ni)"),
    (".weight_TVALID(weight_valid_i)", ".weight_TVALID(input_valid_i)"),
    (".residual_TREADY(residual_ready_o)", ".residual_TREADY()"),
]


def texts() -> dict[str, str]:
    """The wrapper of a small design, and the core of known answers at its widths."""
    board = load_board("zcu104")
    memory = board.memory("ps_striped")
    ports = {"port_bits": memory.port_bits, "stripes": memory.stripes, "memory": "ps_striped"}
    design = tiny_design().changed(board=board.name, clock_hz=board.clock_hz, **ports)
    files = hls.render_project(design, None, board, core="hls", rtl=sources(), tools="2022.1")
    wrapper = files[f"rtl/{WRAPPER}"]
    assert isinstance(wrapper, str)
    words = {
        "input": design.input_words,
        "weight": design.t_p * design.weight_slots,
        "residual": design.out_words,
        "output": design.out_words,
    }
    return {WRAPPER: wrapper, BOX: CORE.format(cmd=127, **{name: 16 * count - 1 for name, count in words.items()})}


def test_the_wrapper_of_the_hls_core_counts_and_connects() -> None:
    assert prove(PROOF, override=texts()) == "PASS"


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS, ids=[new for _, new in SEEDS])
def test_a_wrong_wrapper_is_found(seed: tuple[str, str]) -> None:
    good = texts()
    assert good[WRAPPER].count(seed[0]) == 1
    assert prove(PROOF, override=good | {WRAPPER: good[WRAPPER].replace(*seed)}) != "PASS"
