"""Predicts the clock of the shipped designs, module by module, and fails where it is below a board's clock.

    python -m fluidnpu.rtl_tb.synthesis.timing [--small] [--int8] [--only WORD ...] [--flat] [--write]

Static timing of Yosys' netlists of data plane, core and stripes with each design's parameters, out of
context, the stripes also with their masters in front; nets, families and grades as in `clock`. A line for
each module: the longest path that ends in it, the clock that it allows, and the interval. Behind them the
widest net of each design: whether a placer copies the driver of thousands of loads, nobody knows before. Ends
with 1 where a prediction is below the board's clock, or a net has more than 1,600 loads with no register
before them; counts the modules of which only the pessimistic end is below. `--small` takes a few small
modules instead, which the tests do. `--write` keeps the slowest of each design in
`dse/resources/clocks.json`, for the boards of which every design was timed on this RTL.

Modules are mapped one by one and joined (`netlists`), so a run that is stopped goes on where it stopped,
and a change of one module maps that one anew. `--flat` maps each part of a design in one piece, as a
vendor's tool would, which takes an hour and keeps nothing before its end.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, Point, build_design
from fluidnpu.dse.hardware import filterings, poolings
from fluidnpu.dse.resources import NpuShape, ultra_banks
from fluidnpu.models.zoo import full_size

from ..common.command import ended
from ..common.sources import needed, sources
from ..core.model import core_parameters
from ..data_plane.parameters import DATA_PLANE_TOP, data_plane_parameters
from .arrivals import Net
from .clock import ClockModel, Raw, fabric, model, net_delay, report
from .core import CELLS, FAMILY_CELLS, TOP
from .netlists import ModulePath, module_paths
from .yosys import sources_digest

_DEEPEST = 8192  # rows of a bank, before RAM is shared
_FABRIC = {"xc7z045": "kintex7", "xczu7ev": "zynquplus"}  # DS190; DS891


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """A design of the tables of cycles: the array that a search has found for a network.

    `core`: the one that it is placed with. Of the HLS core only the data plane around it is analysed.
    `unit`: with an activation unit besides, its multipliers in LUTs, as a network with activations needs it.
    `lanes`: of a filter that every pair of layers of the network is merged in; 0 without one (ADR 70).
    `bits`: of a word (ADR 75).
    """

    network: str
    board: str
    memory: str
    t_p: int
    t_c: int
    core: str = "rtl"
    unit: bool = False
    lanes: int = 0
    bits: int = 16

    @property
    def name(self) -> str:
        """Network, board and memory, the parts on the way out, and the width where it is not 16 bits."""
        beside = "-unit" * self.unit + "-filter" * bool(self.lanes) + "-int8" * (self.bits == 8)
        return f"{self.network}-{self.board}-{self.memory}{beside}"

    def design(self) -> Design:
        """Build the design, for batches up to 8, with room for what a search merges with layers."""
        point = Point(t_r=_DEEPEST, t_p=self.t_p, t_c=self.t_c)
        work = full_size(self.network).workload
        built = build_design(
            work, load_board(self.board), point, memory=self.memory, core=self.core, b_max=8, bits=self.bits
        )
        layers = work.filtered([pair.producer for pair in work.filters] if self.lanes else [])
        array = replace(built.array, out_words=self.lanes or built.array.out_words)
        roomy = replace(built, array=array).with_room(poolings(layers), filterings(layers))
        return replace(roomy, activation="lut" if self.unit else None)


SHIPPED = (
    Shipped(network="resnet50", board="zc706", memory="pl", t_p=7, t_c=128),
    Shipped(network="inception_v3", board="zc706", memory="pl", t_p=28, t_c=32, core="hls"),
    Shipped(network="resnet50", board="zcu104", memory="ps_striped", t_p=24, t_c=72),
    Shipped(network="inception_v3", board="zcu104", memory="ps_striped", t_p=54, t_c=32, core="hls"),
    Shipped(network="resnet50", board="zc706", memory="pl", t_p=7, t_c=128, core="hls", unit=True),
    Shipped(network="resnet50", board="zcu104", memory="ps_striped", t_p=24, t_c=72, core="hls", unit=True),
    Shipped(network="efficientnet_lite0", board="zc706", memory="pl", t_p=14, t_c=48, core="hls", lanes=24),
    Shipped(network="efficientnet_lite0", board="zcu104", memory="ps_striped", t_p=22, t_c=64, core="hls", lanes=32),
)
PACKED = (  # designs of 8-bit words, timed with --int8: no clock that a board is given comes of them yet
    Shipped(network="resnet50", board="zc706", memory="pl", t_p=13, t_c=128, bits=8),
    Shipped(network="resnet50", board="zcu104", memory="ps_striped", t_p=24, t_c=128, bits=8),
    Shipped(network="mobilenet_v2", board="zcu104", memory="ps_striped", t_p=22, t_c=128, lanes=32, bits=8),
)
STRIPES = ("axi_read_stripe", "axi_write_stripe")
MASTERS = "axi_striped_masters_top"  # masters with their stripes: what goes from one into the other, too
SMALL: Mapping[str, Mapping[str, int]] = {"core_requantise": {}}
SMALL_BOARDS = ("zc706", "zcu104")
MOST_LOADS = 1_600  # of a net that no tool replicates (ADR 55); the widest of a shipped design has 1,538
EDITS: tuple[tuple[str, str, str], ...] = ()  # (file, old, new) in the RTL: tests seed a long path


@dataclass(frozen=True, kw_only=True)
class ModuleTiming:
    """A module on a board with the clock in MHz that its longest path allows."""

    design: str
    board: Board
    path: ModulePath
    low: float
    mhz: float
    high: float

    @property
    def meets(self) -> bool:
        """Tell whether even the pessimistic end is at or above the board's clock."""
        return 1e6 * self.low >= self.board.clock_hz


def device_of(board: Board) -> tuple[str, int]:
    """Return family, as in `clock`, and speed grade of a board's part.

    Raises ValueError for a part of a family that is not modelled.

    >>> device_of(load_board("zc706")), device_of(load_board("zcu104"))
    (('kintex7', 2), ('zynquplus', 2))
    """
    family = next((fabric for part, fabric in _FABRIC.items() if board.part.startswith(part)), "")
    grade = re.search(r"-(\d)", board.part)
    if not family or not grade:
        raise ValueError(f"part must begin with one of {', '.join(_FABRIC)} and have a grade, not '{board.part}'")
    return family, int(grade[1])


def parts_of(design: Design, board: Board, *, core: str = "rtl") -> dict[str, dict[str, int]]:
    """Return the modules of our RTL in an NPU, with their parameters as a bitstream has them."""
    family = fabric(device_of(board)[0])
    ultra = {"UltraBuffer": 1} if board.uram288 else {}
    banks = int(ultra_banks(NpuShape.of(design, board), board))
    parts = {DATA_PLANE_TOP: data_plane_parameters(design, stripes=1) | {"BuildId": 0} | ultra}
    if core == "rtl":
        cells = {"Cells": CELLS[FAMILY_CELLS[family]]} | ({"UltraBanks": banks} if banks else {})
        parts[TOP] = core_parameters(design) | cells
    if design.stripes > 1:
        parts |= {name: {"DataBytes": design.port_bytes, "Ports": design.stripes} for name in (*STRIPES, MASTERS)}
    return parts


def lines_of(
    name: str, board: Board, parts: Mapping[str, Mapping[str, int]], clock: ClockModel, *, flat: bool = False
) -> list[ModuleTiming]:
    """Analyse modules for a board's part, slowest first; of a module's instances the worst path and net.

    `flat`: each part in one piece (`module_paths`).
    """
    family, grade = device_of(board)
    net = net_delay(fabric(family))
    slowest: dict[str, ModulePath] = {}
    luts = 0
    for top, parameters in parts.items():
        paths = module_paths(top, parameters, fabric(family), net, edits=EDITS, flat=flat, report=_progress)
        luts += max((path.path.luts for path in paths), default=0)
        for slow in paths:
            other = slowest.setdefault(slow.module, slow)
            longer = max(slow, other, key=lambda candidate: candidate.path.ps)
            slowest[slow.module] = replace(longer, net=max(slow.net, other.net, key=_loads))
    made = []
    for slow in slowest.values():
        path = slow.path
        low, mhz, high = clock.mhz(Raw(path.cells_ps, path.nets_ps, luts), family, grade)
        made.append(ModuleTiming(design=name, board=board, path=slow, low=low, mhz=mhz, high=high))
    return sorted(made, key=lambda line: line.mhz)


def _loads(net: Net | None) -> int:
    return net.loads if net else 0


def widest(lines: Sequence[ModuleTiming]) -> str:
    """Format the widest net of some modules in a line."""
    line = max(lines, key=lambda line: _loads(line.path.net))
    net = line.path.net
    return f"widest net: {net.loads} loads, {net.name} of {line.path.module} ({net.driver})" if net else "no net"


def too_wide(lines: Sequence[ModuleTiming]) -> list[str]:
    """Return a sentence for each module with a net of more than MOST_LOADS loads."""
    return [
        f"a net must have at most {MOST_LOADS} loads without a register before them, and {line.path.net.name} of "
        f"{line.path.module} in {line.design} has {line.path.net.loads} ({line.path.net.driver})"
        for line in lines
        if line.path.net and line.path.net.loads > MOST_LOADS
    ]


def _progress(module: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[Kmapping {module} ", end="", file=sys.stderr, flush=True)


def table(lines: Sequence[ModuleTiming]) -> str:
    """Format a line for each module: predicted clock, interval, levels of logic, and the path's names."""
    rows = [f"{'module':28} {'predicted MHz':>13} {'interval':>11} {'levels':>6}  path"]
    for line in lines:
        names = line.path.path.names
        shown = " > ".join([names[0], *names[1:-1][-2:], names[-1]] if len(names) > 1 else names)
        mark = "" if line.meets else f"  (below {line.board.clock_hz / 1e6:g})"
        rows.append(
            f"{line.path.module:28} {line.mhz:13.0f} {line.low:5.0f}..{line.high:4.0f} {line.path.path.levels:6}  {shown}{mark}"
        )
    return "\n".join(rows)


def rtl_digest() -> str:
    """Return the digest of the RTL that a prediction is made of, without comments and blanks."""
    texts = {name: text for top in (DATA_PLANE_TOP, TOP, *STRIPES) for name, text in needed(sources(), top).items()}
    return sources_digest({name: " ".join(re.sub(r"//[^\n]*", "", text).split()) for name, text in texts.items()})


def write(slowest: Mapping[str, ModuleTiming], clock: ClockModel) -> None:
    """Keep the slowest module of each design for `dse.resources`; others of the same RTL stay.

    A board of which a shipped design is missing is left out, since another might be slower.
    """
    path, digest = Path(str(files("fluidnpu.dse.resources").joinpath("clocks.json"))), rtl_digest()
    before = json.loads(path.read_text())
    designs = before["designs"] if before["rtl"] == digest else {}
    designs |= {
        name: {
            "board": line.board.name,
            "part": line.board.part,
            "module": line.path.module,
            "mhz": round(line.mhz, 1),
            "low_mhz": round(line.low, 1),
            "high_mhz": round(line.high, 1),
        }
        for name, line in slowest.items()
    }
    missing = {design.board for design in SHIPPED if design.name not in designs}
    body = {
        "made_by": "python -m fluidnpu.rtl_tb.synthesis.timing --write",
        "rtl": digest,
        "driven_spread": [round(factor, 3) for factor in clock.driven_spread],
        "spread": round(clock.spread, 3),
        "designs": {name: row for name, row in designs.items() if row["board"] not in missing},
    }
    path.write_text(json.dumps(body, indent=1) + "\n")


def _small(clock: ClockModel) -> list[ModuleTiming]:
    return [line for board in SMALL_BOARDS for line in lines_of("small", load_board(board), SMALL, clock)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.timing", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few small modules")
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[""], help="designs whose name holds a word")
    parser.add_argument(
        "--int8", action="store_true", help="the designs of 8-bit words instead, of which nothing is kept"
    )
    parser.add_argument("--flat", action="store_true", help="map each part of a design in one piece")
    parser.add_argument("--write", action="store_true", help="keep the predictions")
    given = parser.parse_args(arguments)
    clock = model()
    print(report(clock))
    every: list[ModuleTiming] = []
    slowest: dict[str, ModuleTiming] = {}
    if given.small:
        every = _small(clock)
        print(f"\n{table(every)}\n{widest(every)}")
    designs = PACKED if given.int8 else SHIPPED
    chosen = [] if given.small else [design_ for design_ in designs if any(word in design_.name for word in given.only)]
    for shipped in chosen:
        board, design = load_board(shipped.board), shipped.design()
        lines = lines_of(shipped.name, board, parts_of(design, board, core=shipped.core), clock, flat=given.flat)
        slowest[shipped.name] = lines[0]
        every += lines
        print(
            f"\n{shipped.name}: <{design.t_r}, {design.t_p}, {design.t_c}> on {board.part}, {board.clock_hz / 1e6:g} MHz"
        )
        print(f"{table(lines)}\n{widest(lines)}")
        print(f"slowest, by the interval of all designs: {lines[0].mhz / clock.spread:.0f} MHz", flush=True)
    if given.write and chosen and not given.int8:
        write(slowest, clock)
    missed, wide = [line for line in every if 1e6 * line.mhz < line.board.clock_hz], too_wide(every)
    doubted = sum(not line.meets for line in every) - len(missed)
    if missed or doubted:
        print(f"\n{len(missed)} of {len(every)} modules miss their board's clock as predicted, and {doubted} may")
    if wide:
        print("\n" + "\n".join(wide))
    return 1 if missed or wide else 0


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.timing"))
