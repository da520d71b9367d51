"""Predicts the clock that a path of a netlist allows on a device, with an interval. Pure arithmetic.

The delay of a path is `scale` * factor of family and grade * (its cells + its nets), in ps of `delays`.
`scale` and the delay of a net are calibrated on open designs with published clocks (`clock_designs.toml`);
families and grades are not fitted but taken from the maker's tables. Each design is predicted by a model of
all others, and those errors make the interval.

>>> clock = model()
>>> clock.factor("artix7", 1), 0.5 < clock.factor("kintex7", 2) < 0.6
(1.0, True)
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import NormalDist, mean, stdev
from typing import Any, NamedTuple

from .arrivals import NetDelay

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GRID = tuple(NetDelay(base, octave) for base in (0, 100, 200, 300, 400, 500) for octave in (0, 50, 100, 150))
CONFIDENCE = 0.9  # that a clock is not below the interval, nor, as surely, above it


class Raw(NamedTuple):
    """A path without a device: ps of its cells, number of its nets, sum of log2 of their loads."""

    cells_ps: int
    nets: int
    octaves: float

    def ps(self, net: NetDelay) -> float:
        """Length of the path.

        >>> Raw(1000, 2, 3.0).ps(NetDelay(200, 50))
        1550.0
        """
        return self.cells_ps + self.nets * net.base + self.octaves * net.octave


@dataclass(frozen=True, kw_only=True)
class Result:
    """A published clock: the shortest period in ns on a device, its family and speed grade."""

    device: str
    family: str
    grade: int
    ns: float

    @property
    def fabric(self) -> str:
        """The family as Yosys names it."""
        return fabric(self.family)


@dataclass(frozen=True, kw_only=True)
class Design:
    """An open design with published clocks. `files` are patterns below its repository."""

    name: str
    repository: str
    commit: str
    files: tuple[str, ...]
    top: str
    results: tuple[Result, ...]
    tool: str
    source: str
    include: str = ""
    stub: str = ""  # Verilog of modules of the maker's that are not open: no path goes through them
    parameters: Mapping[str, int]


def fabric(family: str) -> str:
    """Return the name that Yosys has for a family.

    >>> fabric("kintex7"), fabric("zynquplus")
    ('xc7', 'xcup')
    """
    return "xcup" if family.endswith("uplus") else "xc7"


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads(files(__package__).joinpath("clock_designs.toml").read_text())
    return data


@cache
def designs() -> tuple[Design, ...]:
    """Return the designs of the calibration, with what is published of them."""
    made = []
    for raw in _data()["design"]:
        results = tuple(
            Result(**{key: each[key] for key in ("device", "family", "grade")}, ns=each.get("ns") or 1e3 / each["mhz"])
            for each in raw["results"]
        )
        made.append(Design(**{"parameters": {}} | raw | {"files": tuple(raw["files"]), "results": results}))
    return tuple(made)


@cache
def _raw_paths() -> dict[str, dict[str, tuple[Raw, ...]]]:
    body = json.loads(files(__package__).joinpath("clock_paths.json").read_text())
    return {
        name: {kind: tuple(Raw(*each) for each in paths) for kind, paths in kinds.items()}
        for name, kinds in body["paths"].items()
    }


def write_paths(found: Mapping[str, Mapping[str, Sequence[Raw]]]) -> None:
    """Write the raw paths of the calibration's designs."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps({kind: [list(raw) for raw in paths] for kind, paths in kinds.items()})}"
        for name, kinds in sorted(found.items())
    ]
    text = '{\n "made_by": "benchmarks/clock_paths.py",\n "paths": {\n' + ",\n".join(lines) + "\n }\n}\n"
    files(__package__).joinpath("clock_paths.json").write_text(text)  # type: ignore[attr-defined]
    _raw_paths.cache_clear()
    model.cache_clear()


def factor(family: str, grade: int) -> float:
    """Return the period of a path on a device relative to that on an Artix-7 of grade -1."""
    known, grades = _data()["factors"], _data()["grades"]

    def graded(of: str, wanted: int) -> float:
        table = grades["uplus" if of.endswith("uplus") else "seven"]
        return float(table[str(known[of]["fastest"])] / table[str(wanted)])

    ratios = [a / b for a, b in zip(known["artix7"]["mhz"], known[family]["mhz"], strict=True)]
    return math.exp(mean(map(math.log, ratios))) * graded(family, grade) / graded("artix7", 1)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The calibrated model.

    `held_out[design]`: natural logarithm of the published period over the one that a model of all other
    designs predicts, the mean over its devices. `spread`: the factor of the interval to either side.
    """

    net: NetDelay
    scale: float
    held_out: Mapping[str, float]

    def factor(self, family: str, grade: int) -> float:
        """Return the period relative to that on an Artix-7 of grade -1."""
        return factor(family, grade)

    @property
    def spread(self) -> float:
        """Factor between the prediction and either end of its interval."""
        errors = list(self.held_out.values())
        rms = math.sqrt(mean(error * error for error in errors))
        return math.exp(_student(CONFIDENCE, len(errors) - 1) * rms)

    def period_ns(self, raw: Raw, family: str, grade: int) -> float:
        """Predict the shortest period of a path."""
        return self.scale * factor(family, grade) * raw.ps(self.net) / 1e3

    def mhz(self, raw: Raw, family: str, grade: int) -> tuple[float, float, float]:
        """Predict a clock: the pessimistic end of the interval, the prediction, the optimistic end."""
        middle = 1e3 / self.period_ns(raw, family, grade)
        return middle / self.spread, middle, middle * self.spread


def _student(confidence: float, degrees: int) -> float:
    """Quantile of Student's t by its expansion (Abramowitz and Stegun, 26.7.5).

    >>> round(_student(0.9, 10), 2)
    1.37
    """
    z = NormalDist().inv_cdf(confidence)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def _ratio(name: str, net: NetDelay) -> float:
    """Logarithm of published over raw period of a design, the mean over its devices."""
    design = next(each for each in designs() if each.name == name)
    paths = _raw_paths()[name]
    logs = [
        math.log(1e3 * each.ns / factor(each.family, each.grade) / max(raw.ps(net) for raw in paths[each.fabric]))
        for each in design.results
    ]
    return mean(logs)


def _fit(names: Sequence[str]) -> tuple[NetDelay, float]:
    """Net delay of least spread over these designs, and the logarithm of the scale."""
    best = min(GRID, key=lambda net: stdev(_ratio(name, net) for name in names))
    return best, mean(_ratio(name, best) for name in names)


@cache
def model() -> Clock:
    """Calibrate on all designs; the error of each is that of a model without it."""
    names = [design.name for design in designs()]
    held_out = {}
    for name in names:
        net, scale = _fit([other for other in names if other != name])
        held_out[name] = _ratio(name, net) - scale
    net, scale = _fit(names)
    return Clock(net=net, scale=math.exp(scale), held_out=held_out)


def report(clock: Clock) -> str:
    """Return the calibration's table: each design's published periods and those of a model without it."""
    lines = [f"{'design':14} {'device':12} {'published ns':>12} {'predicted ns':>12} {'ratio':>6}  tool"]
    by_family: dict[str, list[float]] = {}
    names = [design.name for design in designs()]
    for design in designs():
        net, scale = _fit([name for name in names if name != design.name])
        for each in design.results:
            paths = _raw_paths()[design.name][each.fabric]
            ns = math.exp(scale) * factor(each.family, each.grade) * max(raw.ps(net) for raw in paths) / 1e3
            by_family.setdefault(each.family, []).append(math.log(each.ns / ns))
            lines.append(
                f"{design.name:14} {each.device:12} {each.ns:12.2f} {ns:12.2f} {each.ns / ns:6.2f}  {design.tool}"
            )
    for family, errors in by_family.items():
        rms = math.sqrt(mean(error * error for error in errors))
        lines.append(
            f"held-out error on {family}: {len(errors)} clocks, mean {mean(errors):+.2f}, rms {rms:.2f} (natural logarithm)"
        )
    lines.append(
        f"all {len(names)} designs: a net costs {clock.net.base:.0f} ps + {clock.net.octave:.0f} ps * log2(loads), "
        f"scale {clock.scale:.2f}, interval a factor of {clock.spread:.2f} to either side"
    )
    return "\n".join(lines)
