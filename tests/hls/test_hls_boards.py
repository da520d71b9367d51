"""The project of every shipped board: its part, files, clock, processing system and memory ports."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hls_cases import design_of, design_with, project_of, small_network, texts

from fluidnpu import rtl_tb
from fluidnpu.boards import Dram, list_boards, load_board
from fluidnpu.hls import ProjectError, render_project
from fluidnpu.hls.project.platform import MASTERS, PLATFORMS

MEMORIES = [(name, memory.name) for name in list_boards() for memory in load_board(name).dram]
# What a port of each family is called in the block design, and the setting that tells its width.
PORTS = {
    "zynq7000": (r"processing_system7_0/S_AXI_HP(\d)\]", r"PCW_S_AXI_HP(\d)_DATA_WIDTH \{(\d+)\}", 0),
    "zynquplus": (r"zynq_ultra_ps_e_0/S_AXI_HP(\d)_FPD\]", r"PSU__SAXIGP(\d)__DATA_WIDTH \{(\d+)\}", 2),
}


@pytest.mark.parametrize(("name", "memory"), MEMORIES)
@pytest.mark.parametrize("core", ["hls", "rtl"])
def test_a_shipped_boards_project_is_for_its_part_clock_and_ports(name: str, memory: str, core: str) -> None:
    board = load_board(name)
    files = texts(project_of(name, memory=memory, core=core, rtl=rtl_tb.sources(), tools="2022.1"))
    build, design = files["vivado/build.tcl"], files["vivado/block_design.tcl"]
    assert set(re.findall(r"-part (\S+)", build)) == {board.part}
    assert f"get_board_parts -quiet {board.board_part}]" in build
    assert f"CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {{{board.clock_hz // 10**6}}}" in design
    ps = PLATFORMS[board.family]
    (cell,) = set(re.findall(r"create_bd_cell -type ip -vlnv \S+ (processing_system7_0|zynq_ultra_ps_e_0)", design))
    assert cell == ps.cell
    assert 'apply_board_preset "1"' in design
    port, width, first = PORTS[board.family]
    joined = {int(index) for index in re.findall(port, design)}
    widths = {int(index) - first: int(bits) for index, bits in re.findall(width, design)}
    if board.memory(memory).side == "pl":
        assert (joined, widths) == (set(), {})
        assert "mig_7series" in design
    else:
        used = range(board.memory(memory).stripes if board.memory(memory).stripes > 1 else MASTERS)
        assert joined == set(used)
        assert widths == dict.fromkeys(used, board.axi_port_bits)
        assert "mig_7series" not in design
        assert "vivado/mig.prj" not in files
    if core == "hls":
        assert f"set_part {{{board.part}}}" in files["hls/synth.tcl"]


def test_a_part_that_the_tools_do_not_know_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        ProjectError, match=r"know xck26-sfvc784-2LV-c, and 2019\.2 is older .*: build with --tools 2022"
    ):
        project_of("kv260")
    assert project_of("kv260", tools="2022.1")


def test_memory_at_the_logic_of_another_board_than_the_zc706_is_refused() -> None:
    """The controller's pins and parameters are that board's: they fit no other of its family."""
    pynq = load_board("pynqz2")
    memory = Dram(name="pl", bytes_per_s=10**9, side="pl", port_bits=512)
    board = replace(pynq, dram=(*pynq.dram, memory))
    design = design_with(design_of(small_network()), port_bits=512).changed(board=board.name, memory="pl")
    sentence = r"where board_part begins with xilinx\.com:zc706:part0, not with tul\.com\.tw:pynq-z2:part0$"
    with pytest.raises(ProjectError, match=sentence):
        render_project(design, None, board)
