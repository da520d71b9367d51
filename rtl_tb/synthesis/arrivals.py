"""Finds the longest path of a netlist from register to register: a static timing analysis.

A path begins at the clock of a flip-flop, RAM or DSP, goes through look-up tables, carries, memories and
nets, and ends where its value must be there before the clock. Ports count as flip-flops (`ports`), or not at
all. Nets within a slice and into an inverter are free, all others cost `NetDelay`. A look-up table's inputs
are interchangeable, so the last one to arrive takes the fastest pin, as placers do it. All in ps of `delays`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .delays import Delays, Kind, delays_of, is_clock, kind_of, port_of

_BOUNDARY: Kind = ("FDRE", ())
# Nets that do not leave a slice, or run between neighbours on wires of their own: (driver, output) -> (load,
# input); a look-up table's and a carry's only where nothing else hangs on the net.
_WIRED = {
    ("CARRY", "CO", "CARRY", "CI"), ("DSP", "PCOUT", "DSP", "PCIN"), ("DSP", "ACOUT", "DSP", "ACIN"), ("DSP", "BCOUT", "DSP", "BCIN"),
    ("DSP", "CARRYCASCOUT", "DSP", "CARRYCASCIN"), ("DSP", "MULTSIGNOUT", "DSP", "MULTSIGNIN"),
    ("MUXF", "O", "MUXF", "I0"), ("MUXF", "O", "MUXF", "I1"),
}  # fmt: skip
_ALONE = {
    ("LUT", "O", "CARRY", "S"), ("LUT", "O", "MUXF", "I0"), ("LUT", "O", "MUXF", "I1"), ("LUT", "O", "FD", "D"),
    ("CARRY", "O", "FD", "D"), ("MUXF", "O", "FD", "D"), ("CARRY", "CO", "FD", "D"),
}  # fmt: skip
_FAMILY = re.compile(r"LUT|CARRY|MUXF|DSP|FD")


_RESETS = ("R", "S", "CLR", "PRE")
RENT = 0.65  # exponent of Rent's rule: of logic 0.57 to 0.75 (Landman, Russo, IEEE Trans. Computers C-20, 1971)
_CLB_LUTS = 8  # of both fabrics (UG474, UG574)


@dataclass(frozen=True)
class NetDelay:
    """Delay of a net that leaves its slice, in ps: `base`, and `clb` for each block between its ends."""

    base: float
    clb: float

    def of(self, loads: int, apart: float = 1.0) -> float:
        """Return the delay of a net whose loads lie `apart` blocks from each other.

        They cover a square, so the way to the farthest one grows with the root of their number. A placer
        pulls the loads of a critical net together; those of a reset lie where their own logic is (`apart`).

        >>> NetDelay(100, 10).of(4), NetDelay(100, 10).of(400, 5)
        (120.0, 1100.0)
        """
        return self.base + self.clb * apart * math.sqrt(loads)


def blocks_apart(luts: int) -> float:
    """Return the average length of a connection in a placed design, in blocks.

    `luts`: its look-up tables. Donath, "Placement and average interconnection lengths of computer logic",
    IEEE Trans. Circuits and Systems 26(4), 1979, with the exponent RENT.

    >>> [round(blocks_apart(luts), 1) for luts in (1_000, 10_000, 100_000)]
    [3.2, 5.3, 8.2]
    """
    n, p = max(luts / _CLB_LUTS, 5), RENT
    far = 7 * (n ** (p - 0.5) - 1) / (4 ** (p - 0.5) - 1) - (1 - n ** (p - 1.5)) / (1 - 4 ** (p - 1.5))
    return float(2 / 9 * far * (1 - 4 ** (p - 1)) / (1 - n ** (p - 1)))


class PathStep(NamedTuple):
    """One cell on a path: its type, its delay, and the net at its output."""

    cell: str
    ps: int
    loads: int
    net_ps: float
    name: str


@dataclass(frozen=True)
class Path:
    """The longest path: delays of its cells with the first clock-to-output and the last set-up, of its nets.

    `nets` is the number of those nets that cost something, `luts` that of all look-up tables around it.
    """

    cells_ps: int
    nets: int
    nets_ps: float
    steps: tuple[PathStep, ...]
    start: str
    end: str
    luts: int = 0

    @property
    def ps(self) -> float:
        """Length of the path."""
        return self.cells_ps + self.nets_ps

    @property
    def levels(self) -> int:
        """Look-up tables, carries and multiplexers on the way."""
        return sum(bool(re.match("LUT|CARRY|MUXF", step.cell)) for step in self.steps)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the RTL that the path meets, from its first register to its last."""
        met = [self.start, *(step.name for step in self.steps if step.name), self.end]
        return tuple(name for i, name in enumerate(met) if i == 0 or name != met[i - 1])


@dataclass(frozen=True)
class Net:
    """A net with the cell that drives it.

    `loads`: inputs of cells other than clocks, and ports; of a flip-flop with `max_fanout` at most so many,
    since the vendor's tools replicate it (UG901). Two inverters in a row are none, and tables take one in;
    elsewhere it drives a net of its own. `driver`: the type of the cell, or `port`.
    """

    name: str
    driver: str
    loads: int


class _End(NamedTuple):
    at: float
    bit: int
    load: str  # the cell that takes it, "" for a port
    port: str
    ps: int
    net_ps: float


def _keep(ends: dict[str, _End], scope: str, end: _End) -> None:
    if scope not in ends or end.at > ends[scope].at:
        ends[scope] = end


class Netlist:
    """A flat netlist, ready to be walked; `module` is one of Yosys' JSON.

    `ports`: paths from and to ports count, as if flip-flops stood there. `fabric`: whose delays cells have.
    """

    def __init__(self, module: Mapping[str, Any], *, ports: bool, fabric: str = "xc7") -> None:
        """Put the cells in order. A loop of cells without a register raises ValueError."""
        self._cells: dict[str, Any] = {n: c for n, c in module["cells"].items() if not c["type"].startswith("$")}
        kinds = {name: kind_of(cell) for name, cell in self._cells.items()}
        self._kinds = kinds
        self._luts = sum(cell["type"].startswith("LUT") for cell in self._cells.values())
        cells = [kind for kind in kinds.values() if kind[0] not in ("VCC", "GND")]
        self._delays = delays_of([*cells, _BOUNDARY], fabric)
        self._driver: dict[int, tuple[str, str, int]] = {}
        self.loads: dict[int, int] = defaultdict(int)
        self._kinds_of_loads: dict[int, dict[str, int]] = defaultdict(lambda: {"LUT": 0, "INV": 0})
        for name, cell in self._cells.items():
            directions = cell["port_directions"]
            for port, bits in cell["connections"].items():
                if directions[port] == "output":
                    for index, bit in enumerate(bits):
                        if isinstance(bit, int):
                            self._driver[bit] = (name, port, index)
                elif not is_clock(cell["type"], port):
                    for bit in bits:
                        if isinstance(bit, int):
                            self.loads[bit] += 1
                            for kind in self._kinds_of_loads[bit]:
                                self._kinds_of_loads[bit][kind] += cell["type"].startswith(kind)
        self._inputs: set[int] = set()
        self._outputs: list[int] = []
        if ports:
            for name, port in module["ports"].items():
                whole = [bit for bit in port["bits"] if isinstance(bit, int)]
                if port["direction"] == "input" and not re.fullmatch(r"clk\w*|clock\w*", name):
                    self._inputs.update(whole)
                elif port["direction"] == "output":
                    self._outputs.extend(whole)
                    for bit in whole:
                        self.loads[bit] += 1
        self._names = _names(module)
        self._most = _replicated(module)
        # Instance -> module of the RTL, as `flatten` has noted them.
        self.scopes: dict[str, str] = {
            name.replace("\\", ""): cell["attributes"]["module_hdlname"]
            for name, cell in module["cells"].items()
            if cell["type"] == "$scopeinfo" and "module_hdlname" in cell["attributes"]
        }
        self._ordered = self._order()

    def _through(self, name: str) -> list[tuple[int, list[tuple[int, str, int]]]]:
        """Outputs of a cell with the inputs that reach them: (output bit, [(input bit, port, ps)])."""
        cell, delays = self._cells[name], self._delays.get(self._kinds[name], Delays())
        if not delays.arcs:
            return []
        paths: dict[int, list[tuple[int, str, int]]] = {}
        outputs: dict[tuple[str, int], list[int]] = {}
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                for index, bit in enumerate(bits):
                    if isinstance(bit, int):
                        outputs.setdefault((port_of(port), index), []).append(bit)
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] != "output":
                for index, bit in enumerate(bits):
                    if isinstance(bit, int):
                        for out, ps in delays.arcs.get((port_of(port), index), {}).items():
                            for target in outputs.get(out, ()):
                                paths.setdefault(target, []).append((bit, port, ps))
        return list(paths.items())

    def _order(self) -> list[tuple[int, str, list[tuple[int, str, int]]]]:
        """All (output bit, cell, inputs) such that inputs come before outputs."""
        entries = {bit: (name, inputs) for name in self._cells for bit, inputs in self._through(name)}
        waiting = {bit: sum(source in entries for source, _, _ in inputs) for bit, (_, inputs) in entries.items()}
        follow: dict[int, list[int]] = defaultdict(list)
        for bit, (_, inputs) in entries.items():
            for source, _, _ in inputs:
                if source in entries:
                    follow[source].append(bit)
        ready = [bit for bit, count in waiting.items() if not count]
        ordered = []
        while ready:
            bit = ready.pop()
            ordered.append((bit, *entries[bit]))
            for after in follow[bit]:
                waiting[after] -= 1
                if not waiting[after]:
                    ready.append(after)
        if len(ordered) != len(entries):
            stuck = next(self._label(bit) or entries[bit][0] for bit, count in waiting.items() if count)
            raise ValueError(f"a netlist must have no loop without a register, but there is one through {stuck}")
        return ordered

    def _label(self, bit: int) -> str:
        return self._names.get(bit, "")

    def _free(self, bit: int, load: str, port: str) -> bool:
        at = self._driver.get(bit)
        if at is None:
            return False
        if load and self._cells[load]["type"] == "INV":  # what it drives takes it in
            return True
        key = (_family(self._cells[at[0]]["type"]), at[1], _family(self._cells[load]["type"]), port)
        return key in _WIRED or (key in _ALONE and self.loads[bit] == 1)

    def longest(self, net: NetDelay) -> Path | None:
        """Return the longest path, None when no path has a register at both ends."""
        longest = self.longest_by_scope(net)
        return max(longest.values(), key=lambda path: path.ps, default=None)

    def longest_by_scope(self, net: NetDelay) -> dict[str, Path]:
        """Return the longest path that ends in each instance of the hierarchy; "" is the top, with the
        ports.
        """
        arrival: dict[int, float] = {}
        origin: dict[int, tuple[int, str, int]] = {}  # bit -> (bit before, port, ps)
        launched: dict[int, int] = {}
        for name, kind in self._kinds.items():
            cell, launch = self._cells[name], self._delays.get(kind, Delays()).launch
            if launch:
                for port, bits in cell["connections"].items():
                    if cell["port_directions"][port] == "output":
                        for index, bit in enumerate(bits):
                            ps = launch.get((port_of(port), index))
                            if ps is not None and isinstance(bit, int):
                                launched[bit] = ps
        launched |= dict.fromkeys(self._inputs, self._delays[_BOUNDARY].launch[("Q", 0)])
        arrival |= {bit: float(ps) for bit, ps in launched.items()}
        copied = {bit: min(count, self._most.get(self._source(bit)[0], count)) for bit, count in self.loads.items()}
        costs = {bit: net.of(count) for bit, count in copied.items()}
        apart = blocks_apart(self._luts)
        for bit, name, inputs in self._ordered:
            arrivals = []
            for source, port, ps in inputs:
                if source in arrival:
                    cost = 0.0 if self._free(source, name, port) else costs[source]
                    arrivals.append((arrival[source] + cost, source, port, ps))
            if not arrivals:
                continue
            if self._cells[name]["type"].startswith("LUT"):
                arrivals.sort(reverse=True)
                arrivals = [
                    (at, s, p, ps)
                    for (at, s, p, _), ps in zip(arrivals, sorted(ps for *_, ps in arrivals), strict=True)
                ]
            at, source, port, ps = max(arrivals, key=lambda end: end[0] + end[3])
            if at + ps > arrival.get(bit, -1.0):  # a memory's output also starts at its own clock
                arrival[bit], origin[bit] = at + ps, (source, port, ps)
                launched.pop(bit, None)
        ends: dict[str, _End] = {}
        for name, kind in self._kinds.items():
            setup = self._delays.get(kind, Delays()).setup
            if setup:
                cell, scope = self._cells[name], self._scope(name)
                for port, bits in cell["connections"].items():
                    if cell["port_directions"][port] != "output" and not is_clock(cell["type"], port):
                        for index, bit in enumerate(bits):
                            ps = setup.get((port_of(port), index))
                            if ps is not None and bit in arrival:
                                cost = 0.0 if self._free(bit, name, port) else costs[bit]
                                wide = port in _RESETS and self._source(bit)[0] not in origin  # no table to copy
                                if cost and wide and cell["type"].startswith("FD"):
                                    cost = net.of(copied[bit], apart)
                                _keep(ends, scope, _End(arrival[bit] + cost + ps, bit, name, port, ps, cost))
        for bit in self._outputs:
            if bit in arrival:
                _keep(ends, "", _End(arrival[bit] + costs[bit], bit, "", "", 0, costs[bit]))
        return {scope: self._traced(end, origin, launched, costs) for scope, end in ends.items()}

    def widest_by_scope(self) -> dict[str, Net]:
        """Return the net with the most loads that each instance of the hierarchy drives; "" is the top, with
        the ports.
        """
        loads: dict[tuple[int, bool], int] = defaultdict(int)  # (bit, inverted)
        most: dict[int, int] = {}
        for bit, count in self.loads.items():
            source, inverted = self._source(bit)
            kinds = self._kinds_of_loads[bit]
            loads[source, False] += kinds["LUT"]
            loads[source, inverted] += count - kinds["LUT"] - kinds["INV"]
            if bit in self._most and not inverted:
                most[source] = self._most[bit]
        widest: dict[str, Net] = {}
        for (bit, inverted), count in loads.items():
            name = self._driver.get(bit, ("", "", 0))[0]
            kind = "INV" if inverted else self._cells[name]["type"] if name else "port"
            counted = min(count, most.get(bit, count)) if kind.startswith("FD") else count
            scope = self._within(self._label(bit) or _plain(name)) if name else ""
            if kind not in ("VCC", "GND") and (scope not in widest or counted > widest[scope].loads):
                widest[scope] = Net(self._told(bit), kind, counted)
        return widest

    def _source(self, bit: int) -> tuple[int, bool]:
        """The bit behind all inverters, and whether their number is odd."""
        inverted = False
        while (driver := self._driver.get(bit)) and self._cells[driver[0]]["type"] == "INV":
            (before,) = self._cells[driver[0]]["connections"]["I"]
            if not isinstance(before, int):  # a constant
                break
            bit, inverted = before, not inverted
        return bit, inverted

    def _told(self, bit: int) -> str:
        """The name of a net; of one without a name, what its driver looks at."""
        if self._label(bit) or bit not in self._driver:
            return self._label(bit) or "a port"
        cell = self._cells[self._driver[bit][0]]
        sources = [
            self._label(self._source(source)[0])
            for port, bits in sorted(cell["connections"].items())
            if cell["port_directions"][port] == "input"
            for source in bits
            if isinstance(source, int)
        ]
        return f"a {cell['type']} of {', '.join(sorted(set(filter(None, sources)))) or 'unnamed nets'}"

    def _traced(
        self,
        end: _End,
        origin: Mapping[int, tuple[int, str, int]],
        launched: Mapping[int, int],
        costs: Mapping[int, float],
    ) -> Path:
        """Follow a path back to its start."""
        _, bit, load, port, last_ps, net_ps = end
        cells, steps = last_ps, []
        while True:
            kind = self._cells[self._driver[bit][0]]["type"] if bit in self._driver else "port"
            ps = origin[bit][2] if bit in origin else launched[bit]
            cells += ps
            steps.append(PathStep(kind, ps, self.loads[bit], net_ps, self._label(bit)))
            if bit not in origin:
                break
            load = self._driver[bit][0]
            bit, port, _ = origin[bit]
            net_ps = 0.0 if self._free(bit, load, port) else costs[bit]
        start = self._place(*self._driver[bit][:2]) if bit in self._driver else self._label(bit)
        stop = self._place(end.load, end.port) if end.load else self._label(end.bit)
        nets = [step.net_ps for step in steps if step.net_ps]
        return Path(cells, len(nets), sum(nets), tuple(reversed(steps)), start, stop, self._luts)

    def _scope(self, name: str) -> str:
        """Instance of the hierarchy that a register or a memory belongs to."""
        cell = self._cells[name]
        bits = cell["connections"].get("Q", ()) if cell["type"].startswith("FD") else ()
        return self._within(next((self._label(bit) for bit in bits if isinstance(bit, int)), "") or _plain(name))

    def _within(self, label: str) -> str:
        """The instance that a name stands in."""
        while label and label not in self.scopes:
            label = label.rpartition(".")[0]
        return label

    def _place(self, name: str, port: str) -> str:
        """What the RTL calls a register or a memory."""
        cell = self._cells[name]
        if cell["type"].startswith("FD"):
            bit = next((bit for bit in cell["connections"].get("Q", ()) if isinstance(bit, int)), None)
            label = self._label(bit) if bit is not None else ""
            return label + ("" if port in ("D", "Q") else f" ({port})") if label else _plain(name)
        return f"{_plain(name)} ({cell['type']}.{port})"


def _family(kind: str) -> str:
    match_ = _FAMILY.match(kind)
    return match_[0] if match_ else kind


def _plain(name: str) -> str:
    return re.sub(r"\$\w*\$.*?\$|\$\d+|\$flatten|\\", "", name).strip(".")


def _replicated(module: Mapping[str, Any]) -> dict[int, int]:
    """Bit -> the loads that its attribute `max_fanout` leaves to each copy of its driver."""
    return {
        bit: int(net["attributes"]["max_fanout"], 2)
        for net in module["netnames"].values()
        if "max_fanout" in net.get("attributes", {})
        for bit in net["bits"]
        if isinstance(bit, int)
    }


def _names(module: Mapping[str, Any]) -> dict[int, str]:
    """Bit -> the name that the RTL has for it: of several the deepest one, of a register if there is one."""
    best: dict[int, tuple[tuple[bool, int, int], str]] = {}
    for name, net in module["netnames"].items():
        if net.get("hide_name") or "$" in name:
            continue
        plain = name.replace("\\", "")
        rank = (not re.search(r"_q(\[|\.|$)", plain), -plain.count("."), len(plain))
        bits = net["bits"]
        for index, bit in enumerate(bits):
            if isinstance(bit, int) and (bit not in best or rank < best[bit][0]):
                best[bit] = rank, plain if len(bits) == 1 else f"{plain}[{index}]"
    return {bit: text for bit, (_, text) in best.items()}
