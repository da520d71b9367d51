"""Every generated script runs in a Tcl interpreter against the recorded vocabulary, which finds slips."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hls_cases import Shape, design_of, design_with, network_of, project_of, small_network, texts
from tcl_vivado import VOCABULARY, Vivado, WrongTclError

from fluidnpu import rtl_tb
from fluidnpu.boards import load_board
from fluidnpu.commands.build import command
from fluidnpu.dse import Design
from fluidnpu.dse.resources.columns import Cut, broken_elements
from fluidnpu.hls import render_project, write_project
from fluidnpu.hls.project.tools import TOOLS
from fluidnpu.models.numeric.words import INT8

REPORT = "fluidnpu_core/solution1/syn/report/run_array_csynth.xml"
VERILOG = "fluidnpu_core/solution1/syn/verilog/fluidnpu_core.v"
DEPTH, ONE = "<Worst-caseLatency>13</Worst-caseLatency>", "<Interval-max>1</Interval-max>"
PERIOD = "<EstimatedClockPeriod>4.5</EstimatedClockPeriod>"
WORLDS = [
    ("zc706", None), ("zc706", "pl"), ("zc706", "ps_striped"), ("zcu104", None), ("zcu104", "ps_striped"),
    ("pynqz2", "ps_striped"), ("pynqz2", None), ("ultra96v2", "ps"), ("kv260", "ps_striped"), ("zcu102", "ps_striped"),
]  # fmt: skip


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def built(at: Path, board: str, memory: str | None, core: str, tools: str) -> Mapping[str, str]:
    """A project in the folder `at`."""
    files = project_of(board, memory=memory, core=core, rtl=rtl_tb.sources(), tools=tools)
    write_project(files, at)
    return texts(files)


def synthesise(at: Path, files: Mapping[str, str], tools: str) -> Vivado:
    """Run the HLS scripts in their folder."""
    hls = Vivado(TOOLS[tools].hls, tools, reports={REPORT: DEPTH + ONE + PERIOD, VERILOG: "module fluidnpu_core"})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(at / "hls")
        hls.run(files["hls/csim.tcl"])
        hls.run(files["hls/synth.tcl"])
    return hls


def implement(at: Path, files: Mapping[str, str], tools: str, **words: object) -> Vivado:
    """Run packaging, block design and build."""
    vivado = Vivado("vivado", tools, verilog=files["rtl/fluid_npu.v"], **words)  # type: ignore[arg-type]
    vivado.run(files["vivado/package.tcl"])
    left = at / "build/vivado/system.runs/impl_1/system_wrapper.bit"
    handoff = at / f"build/vivado/system.{TOOLS[tools].sources}/sources_1/bd/system/hw_handoff/system.hwh"
    for path in (left, handoff):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    vivado.run(files["vivado/build.tcl"])
    vivado.tcl.createcommand("get_ports", lambda name: f"port:{name}")
    vivado.run(files["vivado/fluidnpu.xdc"])
    return vivado


KNOWN = [
    (board, memory, tools)
    for board, memory in WORLDS
    for tools, facts in TOOLS.items()
    if not load_board(board).part.startswith(facts.unknown_parts)
]


@pytest.mark.parametrize(("board", "memory", "tools"), KNOWN)
def test_every_script_runs(at: Path, board: str, memory: str | None, tools: str) -> None:
    core = "rtl" if memory == "ps_striped" else "hls"
    files = built(at, board, memory, core, tools)
    if core == "hls":
        hls = synthesise(at, files, tools)
        assert "csynth_design" in hls.done
        assert "export_design" not in hls.done
        assert hls.said == []
    vivado = implement(at, files, tools)
    assert (at / "bundle/fluidnpu.bit").read_text() == "system_wrapper.bit"
    assert (at / "bundle/fluidnpu.hwh").read_text() == "system.hwh"
    assert (at / "build/fluidnpu.xsa").exists()
    masters = [name for name in vivado.joined if name.startswith("intf:npu_0/m")]
    assert len(vivado.reached) == (0 if memory == "pl" else len(masters))
    assert all(segments for segments in vivado.reached.values())
    assert all("DDR" in segment for segments in vivado.reached.values() for segment in segments), "OCM holds firmware"
    reports = {"report_high_fanout_nets", "report_design_analysis", "report_methodology", "report_cdc"}
    assert reports <= set(vivado.done)
    assert vivado.cells["status_0"].driven["In3"] == ("mig_0/init_calib_complete" if memory == "pl" else "ready_0/dout")
    assert {"reset_0/peripheral_aresetn"} == {
        vivado.cells["npu_0"].driven["aresetn"],
        vivado.cells["status_0"].driven["In2"],
    }


def test_the_command_offers_all_tools() -> None:
    (option,) = (parameter for parameter in command.params if parameter.name == "tools")
    assert list(option.type.choices) == list(TOOLS)  # type: ignore[attr-defined]
    assert option.default == next(iter(TOOLS))


def test_every_entry_of_the_vocabulary_names_its_source() -> None:
    for kind, entries in VOCABULARY.items():
        for name, entry in entries.items():
            assert re.search(r"UG\d+|PG\d+|github\.com/", entry["source"]), (kind, name)


# -- seeds: one slip each, and what is said of it --

SEEDS = [
    ("vivado/block_design.tcl", "CONFIG.NUM_SI", "CONFIG.NUM_S1", "has no property CONFIG.NUM_S1"),
    ("vivado/block_design.tcl", "CONFIG.USE_LOCKED {true}", "CONFIG.USE_LOCKED {yes}", "cannot be 'yes'"),
    ("vivado/block_design.tcl", "proc_sys_reset:5.0", "proc_sys_reset:5.1", "has no IP xilinx.com:ip:proc_sys_reset:5.1"),
    ("vivado/block_design.tcl", "reset_0/dcm_locked", "reset_0/dcm_lock", "has no pin dcm_lock"),
    ("vivado/block_design.tcl", "NUM_CLKS {2}", "NUM_CLKS {1}", "has no pin aclk1"),
    ("vivado/block_design.tcl", "GPIO_EMIO_GPIO_ENABLE {1}", "GPIO_EMIO_GPIO_ENABLE {0}", "has no pin GPIO_I"),
    ("vivado/block_design.tcl", "mig_0/DDR3]", "mig_0/DDR]", "has no interface DDR"),
    ("vivado/block_design.tcl", "    npu_0/aresetn\n", "", "pin npu_0/aresetn is driven by nothing"),
    ("vivado/block_design.tcl", "connect_bd_net [get_bd_pins low_0/dout]", "list [get_bd_pins low_0/dout]", "mig_0/sys_rst is driven by nothing"),
    ("vivado/block_design.tcl", "npu_0/m1_axi] [get_bd_intf_pins memory_0/S01", "npu_0/m0_axi] [get_bd_intf_pins memory_0/S01", "joined twice"),
    ("vivado/block_design.tcl", "connect_bd_net $memory_clock [get_bd_pins memory_0/aclk1]", "", "pin memory_0/aclk1 is driven by nothing"),
    ("vivado/block_design.tcl", "    status_0/In2\n", "    status_0/In1\n", "status_0/In1 is driven twice"),
    ("vivado/block_design.tcl", "assign_bd_address", "assign_bd_adress", "assign_bd_adress"),
    ("vivado/mig.prj", "<C0_S_AXI_DATA_WIDTH>512", "<C0_S_AXI_DATA_WIDTH>64", "must be 512 bits wide, as vivado/mig.prj says, and it has 64"),
    ("vivado/build.tcl", "ExplorePostRoutePhysOpt", "ExplorePostRoute", "cannot be 'Performance_ExplorePostRoute'"),
    ("vivado/build.tcl", "PHYS_OPT_DESIGN.IS_ENABLED true", "PHYS_OPT.IS_ENABLED true", "has no property"),
    ("vivado/build.tcl", "-include_bit", "-include_bits", "write_hw_platform has no option -include_bits"),
    ("vivado/build.tcl", "system.srcs", "system.gen", "hw_handoff"),
    ("rtl/fluid_npu.v", 'aximm:1.0 m1_axi', 'aximm:1.0 m_axi', "must have the interface m1_axi"),
    ("vivado/package.tcl", "address_offset", "adress_offset", "has no property adress_offset"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "right", "wrong", "said"), SEEDS, ids=[seed[2].strip() or "nothing" for seed in SEEDS]
)
def test_a_slip_is_found(at: Path, path: str, right: str, wrong: str, said: str) -> None:
    files = dict(built(at, "zc706", "pl", "rtl", "2019.2"))
    assert right in files[path]
    files[path] = files[path].replace(right, wrong)
    (at / path).write_text(files[path])
    with pytest.raises(Exception, match=re.escape(said)) as caught:
        implement(at, files, "2019.2")
    assert isinstance(caught.value, WrongTclError) or type(caught.value).__name__ == "TclError"


def test_words_of_one_tool_are_none_of_the_other(at: Path) -> None:
    for tools, other, said in (
        ("2019.2", "2022.1", "config_array_partition has no option -maximum_size"),
        ("2022.1", "2019.2", "open_solution has no option -flow_target"),
    ):
        files = texts(project_of("zc706", tools=tools))
        with pytest.raises(WrongTclError, match=said):
            Vivado(TOOLS[other].hls, other, reports={REPORT: DEPTH + ONE + PERIOD}).run(files["hls/synth.tcl"])


# -- what the scripts themselves refuse --


@pytest.mark.parametrize("tools", list(TOOLS))
@pytest.mark.parametrize(
    ("report", "said", "error"),
    [
        (f"<a>{DEPTH}<PipelineInitiationInterval>1</PipelineInitiationInterval>{PERIOD}</a>", "", ""),
        (DEPTH + ONE + PERIOD, "", ""),
        (DEPTH + "<Interval-max>2</Interval-max>" + PERIOD, "", "must take a beat every cycle"),
        (DEPTH + ONE, "must tell of a clock period of at most 6.667 ns", ""),
        (DEPTH + ONE + PERIOD.replace("4.5", "7.1"), "must tell of a clock period of at most 6.667 ns", ""),
        (DEPTH.replace("13", "14") + ONE + PERIOD, "", "must be less than 14 cycles deep, and it has 14"),
        (DEPTH.replace("13", "undef") + ONE + PERIOD, "", "must tell how deep its pipeline is"),
        ("", "", "must tell how deep its pipeline is"),
    ],
)  # fmt: skip
def test_synthesis_stops_at_a_pipeline_that_is_deep_or_slow(
    at: Path, report: str, said: str, error: str, tools: str
) -> None:
    """And the Verilog of such a core is thrown away. A static function's report may have a suffix."""
    left = {REPORT.replace("run_array", "run_array_s"): report, VERILOG: "module"}
    hls = Vivado(TOOLS[tools].hls, tools, reports=left)
    script = texts(project_of("zc706", tools=tools))["hls/synth.tcl"]
    if error:
        with pytest.raises(hls.error, match=error):
            hls.run(script)
    else:
        hls.run(script)
    assert Path(VERILOG).exists() == (not error)
    assert said in "".join(hls.said)
    assert bool(hls.said) == bool(said)


@pytest.mark.parametrize(
    ("slack", "what", "said", "allowed"),
    [
        ("-0.2", "STATS.WNS", "timing is not met at 200 MHz", ""),
        ("-0.2", "STATS.WHS", "hold times are not met", ""),
        ("-0.2", "STATS.WNS", "timing is not met at 200 MHz", "1"),
        ("0.2", "STATS.WNS", "", ""),
    ],
)
def test_a_bitstream_without_timing_stays_in_build_unless_it_is_asked_for(
    at: Path, slack: str, what: str, said: str, allowed: str
) -> None:
    files = built(at, "zcu104", None, "rtl", "2022.1")
    statistics = {"PROGRESS": "100%", "STATS.WNS": "0.1", "STATS.WHS": "0.1", what: slack}
    words = {"statistics": statistics, "environment": {"ALLOW_SLACK": allowed}}
    if float(slack) < 0 and not allowed:
        with pytest.raises(Exception, match=said):
            implement(at, files, "2022.1", **words)
    else:
        assert bool(implement(at, files, "2022.1", **words).said) == bool(allowed)
    assert (at / "build/fluidnpu.bit").exists()
    assert (at / "build/fluidnpu.xsa").exists()
    assert (at / "build/dsp_columns.txt").read_text().startswith("DSP48E2_X0 144\nDSP48E2_X1 144\n")
    assert (at / "bundle/fluidnpu.bit").exists() == (float(slack) >= 0 or allowed == "1")


# Of a ZCU104: eleven of 144, and three of 48 above what the processing system covers.
COLUMNS = tuple(f"DSP48E2_X{x}Y{y}" for x in range(14) for y in range(96 if x < 3 else 0, 144))
HOLED = tuple(site.replace("DSP48E2_X3Y40", "DSP48E2_X3Y151") for site in COLUMNS)
CUT = Cut(piece=24, broken=24)  # of 27 x 64


def in_pieces(at: Path) -> tuple[Design, dict[str, str]]:
    """A project on a ZCU104 of 27 x 64 slices, some of whose chains break."""
    design = design_of(small_network()).changed(t_p=27, t_c=64, piece=CUT.piece, broken=CUT.broken)
    design = design_with(design, board="zcu104")
    files = render_project(design, None, load_board("zcu104"), core="rtl", rtl=rtl_tb.sources())
    write_project(files, at)
    return design, texts(files)


def slices_of(design: Design) -> tuple[str, ...]:
    """The names of DSP cells as elaboration makes them."""
    inside = "system_i/npu_0/inst/core/u_array/gen_pe[{}].gen_whole.u_pe/u_chain/gen_mac[{}].u_mac/gen_dsp48e2.u_slice"
    return tuple(inside.format(pe, word) for pe in range(design.t_c) for word in range(design.t_p))


def test_the_pieces_of_chains_are_placed_in_rows_of_their_columns(at: Path) -> None:
    design, files = in_pieces(at)
    vivado = implement(at, files, "2019.2", sites=COLUMNS)
    vivado.slices = ("system_i/npu_0/inst/plane/engine/product", *slices_of(design))
    vivado.run(files["vivado/chains.tcl"])
    assert set(vivado.located) == set(slices_of(design))
    site = [re.fullmatch(r"DSP48E2_X(\d+)Y(\d+)", vivado.located[name]) for name in slices_of(design)]
    at_site = np.array([[int(found[1]), int(found[2])] for found in site if found]).reshape(64, 27, 2)
    steps = np.diff(at_site, axis=1)
    cut = {(pe, word) for pe, word, _ in np.argwhere(steps != [0, 1])}
    assert {word for _, word in cut} == {CUT.piece - 1}
    assert {pe for pe, _ in cut} <= set(broken_elements(64, CUT.broken))


def test_parts_of_chains_of_two_columns_are_placed_in_rows_of_their_columns(at: Path) -> None:
    """Thirty-two chains of 40 words in parts of 8, 16 and 16."""
    qnet = network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)], INT8)
    sizes: dict[str, Any] = {"t_p": 40, "t_c": 64, "weight_slots": 2, "word_bits": 8}
    design = design_with(design_of(qnet, **sizes).changed(piece=16, broken=32), board="zcu104")
    files = render_project(design, None, load_board("zcu104"), core="rtl", rtl=rtl_tb.sources())
    write_project(files, at)
    inside = "core/u_array/gen_pe[{}].u_pe/gen_segment[{}].gen_chain.u_chain/gen_mac[{}].u_mac/gen_dsp48e2.u_slice"
    parts = [(0, word) for word in range(8)] + [(1 + word // 16, word % 16) for word in range(32)]
    names = [inside.format(pe, *part) for pe in range(32) for part in parts]
    vivado = implement(at, texts(files), "2019.2", sites=COLUMNS)
    vivado.slices = tuple(names)
    vivado.run(texts(files)["vivado/chains.tcl"])
    assert set(vivado.located) == set(names)
    site = [re.fullmatch(r"DSP48E2_X(\d+)Y(\d+)", vivado.located[name]) for name in names]
    at_site = np.array([[int(found[1]), int(found[2])] for found in site if found]).reshape(32, 40, 2)
    steps = np.diff(at_site, axis=1)
    assert {word for _, word, _ in np.argwhere(steps != [0, 1])} <= {7, 23}


def test_columns_that_are_not_as_the_board_says_are_told(at: Path) -> None:
    design, files = in_pieces(at)
    for sites, slices, said in (
        (COLUMNS[1:], slices_of(design), "must have 24 in a row above its lowest 24"),
        (HOLED, slices_of(design), "must have 27 in a row"),
        (COLUMNS, slices_of(design)[1:], "word 0 of processing element 0 must have a DSP slice"),
    ):
        vivado = Vivado("vivado", "2019.2", sites=sites, slices=slices, part="of the run")
        with pytest.raises(vivado.error, match=said):
            vivado.run(files["vivado/chains.tcl"])


def wrong_columns(core: str) -> dict[str, str]:
    """The files of a project for a ZCU104 whose board file takes its DSP slices for twelve whole columns."""
    board = replace(load_board("zcu104"), dsp_columns=((72, 12), (72, 12)), sources={})
    design = design_with(design_of(small_network()), board="zcu104")
    return texts(render_project(design, None, board, core=core, rtl=rtl_tb.sources()))


def test_a_build_stops_in_its_first_seconds_where_the_part_has_other_columns(at: Path) -> None:
    vivado = Vivado("vivado", "2019.2")
    sentence = (
        "must be those of xczu7ev-ffvc1156-2-e, {144 11} {48 3}, and dsp_columns of the board's file has {72 24}: "
        "correct the file and search again"
    )
    with pytest.raises(vivado.error, match=re.escape(sentence)):
        vivado.run(wrong_columns("rtl")["vivado/build.tcl"])
    assert "create_bd_design" not in vivado.done
    assert (at / "build/dsp_columns.txt").read_text().startswith("DSP48E2_X0 144\n")


def test_a_build_of_the_hls_core_only_says_so(at: Path) -> None:
    script = wrong_columns("hls")["vivado/build.tcl"]
    vivado = Vivado("vivado", "2019.2")
    vivado.run(script[: script.index("create_project -force system")])
    (warning,) = vivado.said
    assert warning.startswith("WARNING: columns of DSP slices")


def test_the_newest_files_of_a_board_serve_where_those_of_its_version_are_not_installed(at: Path) -> None:
    files = built(at, "kv260", None, "rtl", "2022.1")
    older = ("xilinx.com:kv260_som:part0:1.3", "xilinx.com:kv260_carrier:part0:1.3")
    implement(at, files, "2022.1", board_files=older)
    with pytest.raises(Exception, match=r"board files of xilinx\.com:kv260_som:part0:1\.4 are not installed"):
        implement(at, files, "2022.1", board_files=older[1:])


def test_an_hls_core_with_ip_of_its_own_is_refused(at: Path) -> None:
    files = built(at, "zcu104", None, "hls", "2022.1")
    synthesise(at, files, "2022.1")
    (at / "hls" / VERILOG).with_name("ip.tcl").touch()
    with pytest.raises(Exception, match="must be Verilog alone"):
        implement(at, files, "2022.1")
