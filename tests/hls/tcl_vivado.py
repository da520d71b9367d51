"""The vendor's tools as far as generated scripts use them, played in a Tcl interpreter.

Every command is checked against the table of `checks/tcl.py`, every IP, pin, interface and property against
`vivado_vocabulary.toml`, where each names its public source. A block design is kept: a pin that is not there,
is driven twice, or is never driven, fails, as does a property with a value that it cannot have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fluidnpu.boards import list_boards, load_board
from fluidnpu.hls.project.checks.tcl import TOOLS, TclCommand

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VOCABULARY: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("vivado_vocabulary.toml").read_text())
NPU = "fluidnpu:npu:fluid_npu:1.0"
LANGUAGE = set(TOOLS["vivado"]) & set(TOOLS["vivado_hls"]) - {"add_files", "close_project"}


class WrongTclError(AssertionError):
    """A script asks for what the tools do not have."""


@dataclass
class Cell:
    """One cell of the block design."""

    vlnv: str
    facts: Mapping[str, Any]
    properties: dict[str, str] = field(default_factory=dict)
    driven: dict[str, str] = field(default_factory=dict)  # pin -> its driver

    def has(self, kind: str, name: str) -> bool:
        """True when a pin or an interface is there, with the properties that the cell has now."""
        for pattern, condition in self.facts[kind].items():
            match = re.fullmatch(pattern, name)
            if match is None:
                continue
            key, sign, wanted = re.fullmatch(r"([^=>]*)([=>]?)(.*)", condition or "").groups()  # type: ignore[union-attr]
            if not sign:
                return True
            given = self.properties.get(key)
            if sign == ">" and int(match[1]) < int(given or 1):
                return True
            if sign == "=" and given == wanted:
                return True
        return False


def dsp_sites(part: str) -> tuple[str, ...]:
    """The sites of DSP slices of a shipped board's part, as its file has their columns."""
    board = next(board for board in map(load_board, list_boards()) if board.part == part)
    name = {"DSP48E1": "DSP48"}.get(board.dsp_primitive, board.dsp_primitive)
    heights = [height for height, count in board.dsp_columns for _ in range(count)]
    return tuple(f"{name}_X{x}Y{y}" for x, height in enumerate(heights) for y in range(height))


@dataclass
class Vivado:
    """One run of a tool: `reports` and `statistics` are what its runs leave; `done` lists the commands."""

    tool: str
    version: str
    verilog: str = ""
    reports: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, str] = field(
        default_factory=lambda: {"PROGRESS": "100%", "STATS.WNS": "0.1", "STATS.WHS": "0.1"}
    )
    environment: Mapping[str, str] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    joined: dict[str, str] = field(default_factory=dict)  # interface -> the other
    reached: dict[str, list[str]] = field(default_factory=dict)  # space of a master of the NPU -> its segments
    sites: tuple[str, ...] | None = None  # of DSP slices; by default those that a shipped board's file says
    part: str = ""  # of the design that is open
    board_files: tuple[str, ...] = tuple(load_board(name).board_part for name in list_boards())  # installed
    slices: tuple[str, ...] = ()  # cells of DSP slices after synthesis
    located: dict[str, str] = field(default_factory=dict)  # cell of a slice -> its site

    def __post_init__(self) -> None:
        tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: on Debian python3-tk")
        self.tcl = tkinter.Tcl()
        self.error: type[Exception] = tkinter.TclError
        self._caught: BaseException | None = None
        for name, command in TOOLS[self.tool].items():
            if name not in LANGUAGE:
                self._define(name, command)
        self.tcl.createcommand("fluidnpu_says", lambda *words: self.said.append(words[-1]))
        self.tcl.eval(
            "rename puts _puts; proc puts {args} {if {[llength $args] == 1} {fluidnpu_says {*}$args} else {_puts {*}$args}}"
        )
        self.tcl.eval("proc exit {args} {}; array unset ::env ALLOW_SLACK")
        for key, value in self.environment.items():
            self.tcl.setvar(f"env({key})", value)

    def run(self, script: str) -> None:
        """Run a script; WrongTclError for what no tool has, TclError for what the script itself refuses."""
        try:
            self.tcl.eval(script)
        except self.error as error:
            if self._caught is not None:
                raise self._caught from None
            if "invalid command name" in str(error):
                raise WrongTclError(str(error)) from None
            raise

    def _define(self, name: str, command: TclCommand) -> None:
        act: Callable[..., object] = getattr(self, "_" + name.replace("::", "_"), lambda options, *words: name)

        def call(*words: str) -> str:
            try:
                options, operands = _parsed(name, command, words)
                self.done.append(name)
                result = act(options, *operands)
            except WrongTclError as error:
                self._caught = error
                raise
            return "" if result is None else str(result)

        self.tcl.createcommand(name, call)

    # -- projects and files --

    def _get_board_parts(self, options: Mapping[str, str], part: str) -> str:
        names = [name for name in sorted(self.board_files) if fnmatch(name, part)]
        return " ".join(names[-1:] if "-latest_file_version" in options else names)

    def _current_project(self, options: Mapping[str, str]) -> str:
        return "project:"

    def _current_fileset(self, options: Mapping[str, str]) -> str:
        return "fileset:"

    def _link_design(self, options: Mapping[str, str]) -> None:
        self.part = options["-part"]

    def _close_project(self, options: Mapping[str, str]) -> None:
        self.part = ""

    def _open_run(self, options: Mapping[str, str], run: str) -> None:
        self.part = "that of the project"

    def _get_sites(self, options: Mapping[str, str], pattern: str) -> str:
        assert pattern == "DSP48*"
        if not self.part:
            raise WrongTclError("sites are those of an open design, and none is open")
        return " ".join(self._sites())

    def _sites(self) -> tuple[str, ...]:
        return dsp_sites(self.part) if self.sites is None else self.sites

    def _get_cells(self, options: Mapping[str, str]) -> str:
        assert options["-filter"] == "REF_NAME =~ DSP48E*"
        return " ".join(f"{{slice:{name}}}" for name in self.slices)

    def _get_runs(self, options: Mapping[str, str], name: str) -> str:
        return f"run:{name}"

    def _get_files(self, options: Mapping[str, str], name: str) -> str:
        return name

    def _make_wrapper(self, options: Mapping[str, str], design: str) -> str:
        return f"{design}_wrapper.v"

    def _current_design(self, options: Mapping[str, str]) -> str:
        return "design:"

    def _write_hw_platform(self, options: Mapping[str, str], *words: str) -> None:
        Path(options["-file"]).write_text("platform")

    def _csynth_design(self, options: Mapping[str, str]) -> None:
        for path, text in self.reports.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)

    # -- packaging --

    def _ipx_current_core(self, options: Mapping[str, str]) -> str:
        return "core:"

    def _ipx_get_bus_interfaces(self, options: Mapping[str, str], name: str) -> str:
        found = re.search(rf'X_INTERFACE_INFO = "xilinx\.com:(interface|signal):[\w.:]+ {name} \w+"', self.verilog)
        return f"bus:{name}" if found else ""

    def _ipx_get_memory_maps(self, options: Mapping[str, str], name: str) -> str:
        return f"map:{name}"

    def _ipx_get_address_blocks(self, options: Mapping[str, str], name: str) -> str:
        return f"block:{name}"

    def _ipx_add_register(self, options: Mapping[str, str], name: str, block: str) -> str:
        return f"register:{name}"

    # -- block design --

    def _get_ipdefs(self, options: Mapping[str, str], pattern: str) -> str:
        name = re.escape(pattern).replace(r"\*", ".*")
        return " ".join(vlnv for vlnv in VOCABULARY["ip"] if re.fullmatch(name, vlnv) and self._is_there(vlnv))

    def _is_there(self, vlnv: str) -> bool:
        return self.version in VOCABULARY["ip"].get(vlnv, {"tools": ()})["tools"]

    def _create_bd_cell(self, options: Mapping[str, str], name: str) -> str:
        vlnv = options["-vlnv"]
        if options.get("-type") != "ip" or name in self.cells:
            raise WrongTclError(f"cell {name} must be a new one of type ip")
        if vlnv == NPU:
            facts: Mapping[str, Any] = self._npu()
        elif self._is_there(vlnv):
            facts = VOCABULARY["ip"][vlnv]
            facts = VOCABULARY["ip"][facts["like"]] if "like" in facts else facts
        else:
            raise WrongTclError(f"Vivado {self.version} has no IP {vlnv}")
        self.cells[name] = Cell(vlnv, facts)
        return f"cell:{name}"

    def _npu(self) -> Mapping[str, Any]:
        """The NPU as the attributes of its Verilog describe it."""
        interfaces = set(re.findall(r'X_INTERFACE_INFO = "xilinx\.com:interface:aximm:1\.0 (\w+) \w+"', self.verilog))
        pins = {"aclk": "", "aresetn": "", "irq": ""}
        return {
            "pins": pins,
            "interfaces": dict.fromkeys(interfaces, ""),
            "properties": {},
            "needs": ["aclk", "aresetn"],
        }

    def _apply_bd_automation(self, options: Mapping[str, str], cell: str) -> None:
        if options["-rule"] not in VOCABULARY["rule"]:
            raise WrongTclError(f"there is no rule {options['-rule']}")

    def _get_bd_cells(self, options: Mapping[str, str], name: str) -> str:
        self._cell(name)
        return f"cell:{name}"

    def _cell(self, name: str) -> Cell:
        if name not in self.cells:
            raise WrongTclError(f"there is no cell {name}")
        return self.cells[name]

    def _get_bd_pins(self, options: Mapping[str, str], path: str) -> str:
        return self._found("pins", "pin", path)

    def _get_bd_intf_pins(self, options: Mapping[str, str], path: str) -> str:
        return self._found("interfaces", "intf", path)

    def _found(self, kind: str, prefix: str, path: str) -> str:
        cell, _, name = path.partition("/")
        if not self._cell(cell).has(kind, name):
            raise WrongTclError(f"{self._cell(cell).vlnv} '{cell}' has no {kind[:-1]} {name} as it is set up")
        return f"{prefix}:{path}"

    def _create_bd_intf_port(self, options: Mapping[str, str], name: str) -> str:
        if options["-vlnv"] not in VOCABULARY["interface"] or options["-mode"] not in ("Master", "Slave"):
            raise WrongTclError(f"there is no interface {options['-vlnv']} of mode {options['-mode']}")
        return f"intf_port:{name}"

    def _get_bd_intf_ports(self, options: Mapping[str, str], name: str) -> str:
        return f"intf_port:{name}"

    def _connect_bd_net(self, options: Mapping[str, str], source: str, *sinks: str) -> None:
        for sink in (one.removeprefix("pin:") for one in sinks):
            cell, _, pin = sink.partition("/")
            if pin in self.cells[cell].driven:
                raise WrongTclError(f"pin {sink} is driven twice")
            self.cells[cell].driven[pin] = source.removeprefix("pin:")

    def _connect_bd_intf_net(self, options: Mapping[str, str], one: str, other: str) -> None:
        for end, far in ((one, other), (other, one)):
            if end in self.joined or end == far:
                raise WrongTclError(f"interface {end} is joined twice")
            self.joined[end] = far

    def _get_bd_addr_spaces(self, options: Mapping[str, str], name: str) -> str:
        return f"space:{name}"

    def _get_bd_addr_segs(self, options: Mapping[str, str], name: str = "") -> str:
        return " ".join(self.reached[options["-of_objects"]]) if "-of_objects" in options else f"segment:{name}"

    def _assign_bd_address(self, options: Mapping[str, str]) -> None:
        """Give the NPU's masters all that lies behind the processing system's ports."""
        for master, slave in self.joined.items():
            link = slave.removeprefix("intf:").partition("/")[0]
            if master.startswith("intf:npu_0/m") and (port := self.joined.get(f"intf:{link}/M00_AXI")):
                system, space = port.removeprefix("intf:").partition("/")[0], master.removeprefix("intf:")
                if segments := self.cells[system].facts.get("segments"):
                    self.reached[f"space:{space}"] = [f"/{space}/SEG_{system}_{name}" for name in segments]

    def _exclude_bd_addr_seg(self, options: Mapping[str, str], segment: str) -> None:
        self.reached["space:" + segment[1:].rpartition("/")[0]].remove(segment)

    def _get_ips(self, options: Mapping[str, str], name: str) -> str:
        return f"ip:{name}"

    def _validate_bd_design(self, options: Mapping[str, str]) -> None:
        """Find pins without a driver and interfaces that lead nowhere."""
        for name, cell in self.cells.items():
            for pattern in cell.facts["needs"]:
                for pin in self._pins_like(cell, pattern):
                    if pin not in cell.driven:
                        raise WrongTclError(f"pin {name}/{pin} is driven by nothing")
            for interface in cell.facts["interfaces"]:
                if (
                    "(" not in interface
                    and cell.has("interfaces", interface)
                    and f"intf:{name}/{interface}" not in self.joined
                ):
                    raise WrongTclError(f"interface {name}/{interface} leads nowhere")

    @staticmethod
    def _pins_like(cell: Cell, pattern: str) -> list[str]:
        parts = (r"(\d+)", r"(\d\d)", r"([1-9])")
        names = {name.replace(part, str(i)) for name in cell.facts["pins"] for part in parts for i in range(16)}
        return sorted(name for name in names if re.fullmatch(pattern, name) and cell.has("pins", name))

    # -- properties --

    def _set_property(self, options: Mapping[str, str], *words: str) -> None:
        if "-dict" in options:
            values = self.tcl.splitlist(words[0])
            pairs, target = list(zip(values[::2], values[1::2], strict=True)), words[1]
        else:
            pairs, target = [(words[0], words[1])], words[2]
        for name, value in pairs:
            self._set(target, name, value)

    def _set(self, target: str, name: str, value: str) -> None:
        kind, _, which = target.partition(":")
        known = self._cell(which).facts["properties"] if kind == "cell" else _object(kind)
        pattern = next((pattern for key, pattern in known.items() if key == name or re.fullmatch(key, name)), None)
        if pattern is None:
            raise WrongTclError(f"{kind} {which} has no property {name}")
        if not re.fullmatch(pattern, value):
            raise WrongTclError(f"property {name} of {kind} {which} cannot be '{value}'")
        if kind == "cell":
            self.cells[which].properties[name] = value
        if kind == "slice":
            assert value in self._sites()
            assert value not in self.located.values()
            self.located[which] = value

    def _get_property(self, options: Mapping[str, str], name: str, target: str) -> str:
        kind, _, which = target.partition(":")
        if kind == "run" and name in _object("run"):
            return self.statistics.get(name, "")
        if kind == "slice" and name == "LOC":
            return self.located.get(which, "")
        if kind == "cell" and name == "CONFIG.Component_Name":
            return f"system_{which}_0"
        if kind == "ip" and name == "IP_DIR":
            folder = Path("build/ip_of_cells") / which
            folder.mkdir(parents=True, exist_ok=True)
            return str(folder)
        if kind == "intf" and name == "CONFIG.DATA_WIDTH" and which.endswith("/S_AXI"):
            (prj,) = Path("build/ip_of_cells").glob("*/mig.prj")
            return ElementTree.parse(prj).findtext(".//C0_S_AXI_DATA_WIDTH", "")
        raise WrongTclError(f"{kind} {which} has no property {name}")


def _object(kind: str) -> Mapping[str, str]:
    found: Mapping[str, str] = VOCABULARY["object"].get(kind, {}).get("properties", {})
    return found


def _parsed(name: str, command: TclCommand, words: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Options and operands of a command as it came; WrongTclError for what it does not have."""
    options: dict[str, str] = {}
    operands: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in command.flags:
            options[word] = ""
        elif word in command.valued and left:
            options[word] = left.pop(0)
        elif re.fullmatch(r"-[A-Za-z]\w*", word):
            raise WrongTclError(f"{name} has no option {word}")
        else:
            operands.append(word)
    if not command.least <= len(operands) <= command.most:
        raise WrongTclError(f"{name} takes {command.least} to {command.most} operands, not {len(operands)}")
    return options, operands
