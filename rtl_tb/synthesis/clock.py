"""Predicts the clock that a path of a netlist allows on a device, with an interval. Pure arithmetic.

The delay of a path is `scale` * factor of family and grade * growth with the design's size * (its cells + its
nets), in ps of `delays`. Nets are RapidWright's terms, families and grades the maker's tables, the growth is
one core's. Only the scale of each fabric is calibrated, on open designs with published clocks
(`clock_designs.toml`). Each design is predicted by a model of those in all other repositories, and these
errors make the interval, which this prints:

    python -m fluidnpu.rtl_tb.synthesis.clock

>>> clock = model()
>>> clock.factor("artix7", 1), 0.5 < clock.factor("kintex7", 2) < 0.6
(1.0, True)
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import NormalDist, mean, median, stdev
from typing import Any, NamedTuple

from ..common.command import ended
from .arrivals import NetDelay

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FABRICS = ("xc7", "xcup")  # 7-series and UltraScale+, as Yosys names them
CONFIDENCE = 0.9  # that a clock is not below the interval, nor, as surely, above it


class Raw(NamedTuple):
    """A path without a device: ps of its cells and of its nets on the fabric's slowest part (`delays`).

    `luts`: look-up tables of the design that it is a path of.
    """

    cells_ps: float
    nets_ps: float
    luts: int

    @property
    def ps(self) -> float:
        """Length of the path in a design of its size."""
        return (self.cells_ps + self.nets_ps) * growth(self.luts)


@dataclass(frozen=True, kw_only=True)
class PublishedClock:
    """A published clock: the shortest period in ns on a device, its family and speed grade.

    `driven`: the tool was asked for this period and had nothing left, or for a shorter one. With any other it
    may have been content.
    """

    device: str
    family: str
    grade: int
    ns: float
    driven: bool = False

    @property
    def fabric(self) -> str:
        """The family as Yosys names it."""
        return fabric(self.family)


@dataclass(frozen=True, kw_only=True)
class OpenDesign:
    """An open design with published clocks. `files` are patterns below its repository."""

    name: str
    repository: str
    commit: str
    files: tuple[str, ...]
    top: str
    results: tuple[PublishedClock, ...]
    tool: str
    source: str
    include: str = ""
    data: Mapping[str, str] = field(default_factory=dict)  # files that the sources read, by name
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
def designs() -> tuple[OpenDesign, ...]:
    """Return the designs of the calibration, with what is published of them."""
    made = []
    for raw in _data()["design"]:
        results = tuple(
            PublishedClock(
                **{
                    "ns" if key == "mhz" else key: 1e3 / value if key == "mhz" else value
                    for key, value in result.items()
                }
            )
            for result in raw["results"]
        )
        made.append(OpenDesign(**{"parameters": {}} | raw | {"files": tuple(raw["files"]), "results": results}))
    return tuple(made)


@cache
def _raw_paths() -> dict[str, dict[str, Raw]]:
    body = json.loads(files(__package__).joinpath("clock_paths.json").read_text())
    return {name: {kind: Raw(*raw) for kind, raw in kinds.items()} for name, kinds in body["paths"].items()}


def write_paths(measured: Mapping[str, Mapping[str, Raw]]) -> None:
    """Write the raw paths of the calibration's designs."""
    lines = [f"  {json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in sorted(measured.items())]
    text = '{\n "made_by": "benchmarks/clock_paths.py",\n "paths": {\n' + ",\n".join(lines) + "\n }\n}\n"
    files(__package__).joinpath("clock_paths.json").write_text(text)  # type: ignore[attr-defined]
    _raw_paths.cache_clear()
    model.cache_clear()


def factor(family: str, grade: int) -> float:
    """Return the period of a path on a device relative to that on the fabric's slowest part.

    That is an Artix-7 of grade -1, or any UltraScale+ of grade -1: its families are one fabric.
    """
    if fabric(family) == "xcup":
        return _graded("uplus", 1, grade)
    return _related("artix7", family) * _graded("seven", 1, grade)


def growth(luts: int) -> float:
    """Return the period in a design of `luts` look-up tables relative to that in a small one.

    Up to the smaller of two builds of a core whose tool was driven there is none; beyond it their ratio is
    carried on.

    >>> growth(5_000), round(growth(100_000), 2)
    (1.0, 1.16)
    """
    (small, large), (fast, slow) = _data()["growth"]["luts"], _data()["growth"]["ns"]
    return float(max(1.0, luts / small) ** (math.log(slow / fast) / math.log(large / small)))


def _graded(table: str, of: int, wanted: int) -> float:
    """Period in a grade relative to that in another."""
    grades = _data()["grades"][table]
    return float(grades[str(of)] / grades[str(wanted)])


def _related(of: str, wanted: str) -> float:
    """Period in a family relative to that in another, both in their fastest grade."""
    factors = _data()["factors"]
    return math.exp(mean(math.log(a / b) for a, b in zip(factors[of], factors[wanted], strict=True)))


def across() -> float:
    """Return the period on an UltraScale+ of grade -1 relative to an Artix-7 of grade -1."""
    families = [name for name in _data()["factors"] if fabric(name) == "xcup"]
    ratio = math.exp(mean(math.log(_related("artix7", name)) for name in families))
    return ratio * _graded("uplus", 3, 1) / _graded("seven", 3, 1)


def net_delay(kind: str) -> NetDelay:
    """Return what a net costs on a fabric's slowest part.

    The terms are of an UltraScale+ of grade -2. A net takes a short wire each way and a pin of a look-up
    table; farther on it takes long lines, which cost least for their length.
    """
    terms = _data()["nets"]
    line = terms["long"]
    way = line["k0"] + (line["k1"] + line["k2"]) * line["blocks"]
    net = NetDelay(sum(terms["k0"]) + mean(terms["pins"]), way / line["blocks"])
    slower = _graded("uplus", 2, 1) / (1.0 if kind == "xcup" else across())
    return NetDelay(slower * net.base, slower * net.clb)


@dataclass(frozen=True, kw_only=True)
class ClockModel:
    """The calibrated model.

    `scale`: of each fabric. `held_out[design]`: natural logarithm of the published period over the one that a
    model of all other repositories' designs predicts, the mean over its devices; `driven`: the same of those
    results that their tool was driven to.
    """

    scale: Mapping[str, float]
    held_out: Mapping[str, float]
    driven: Mapping[str, float]

    def factor(self, family: str, grade: int) -> float:
        """Return the period relative to that on the fabric's slowest part."""
        return factor(family, grade)

    @property
    def spread(self) -> float:
        """Factor between the prediction and either end of the interval of all designs, driven or not."""
        errors = list(self.held_out.values())
        rms = math.sqrt(mean(error * error for error in errors))
        return math.exp(_student(CONFIDENCE, len(errors) - 1) * rms)

    @property
    def driven_spread(self) -> tuple[float, float]:
        """Factors between the prediction and its pessimistic and optimistic ends, by the driven designs."""
        errors = list(self.driven.values())
        middle, half = mean(errors), _student(CONFIDENCE, len(errors) - 1) * stdev(errors)
        return math.exp(middle + half), math.exp(half - middle)

    def period_ns(self, raw: Raw, family: str, grade: int) -> float:
        """Predict the shortest period of a path."""
        return self.scale[fabric(family)] * factor(family, grade) * raw.ps / 1e3

    def mhz(self, raw: Raw, family: str, grade: int) -> tuple[float, float, float]:
        """Predict the clock of a driven tool: pessimistic end, prediction, optimistic end."""
        middle = 1e3 / self.period_ns(raw, family, grade)
        slower, faster = self.driven_spread
        return middle / slower, middle, middle * faster


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


class _Ratio(NamedTuple):
    """Logarithm of a published period over the raw path's."""

    design: OpenDesign
    result: PublishedClock
    log: float


def _ratios() -> tuple[_Ratio, ...]:
    return tuple(
        _Ratio(
            design,
            result,
            math.log(
                1e3 * result.ns / factor(result.family, result.grade) / _raw_paths()[design.name][result.fabric].ps
            ),
        )
        for design in designs()
        for result in design.results
    )


def _scales(ratios: Sequence[_Ratio]) -> dict[str, float]:
    """Logarithm of each fabric's scale: the mean over its designs of the mean over their devices."""
    clocks = {}
    for kind in FABRICS:
        by_design: dict[str, list[float]] = {}
        for ratio in ratios:
            if ratio.result.fabric == kind:
                by_design.setdefault(ratio.design.name, []).append(ratio.log)
        clocks[kind] = mean(map(mean, by_design.values()))
    return clocks


class Blind(NamedTuple):
    """A result, and the logarithm of its period over the one that a model without it predicts."""

    design: OpenDesign
    result: PublishedClock
    error: float


def blind(key: Callable[[OpenDesign, PublishedClock], str] = lambda design, _: design.repository) -> list[Blind]:
    """Predict each result by a model that has seen none with the same key: by default, of its repository."""
    errors, every = [], _ratios()
    for design, result, log in every:
        others = [other for other in every if key(other.design, other.result) != key(design, result)]
        errors.append(Blind(design, result, log - _scales(others)[result.fabric]))
    return errors


@cache
def model() -> ClockModel:
    """Calibrate on all designs; the error of each is that of a model without its repository's designs."""
    errors: dict[str, list[float]] = {}
    driven: dict[str, list[float]] = {}
    for design, result, error in blind():
        errors.setdefault(design.name, []).append(error)
        if result.driven:
            driven.setdefault(design.name, []).append(error)
    return ClockModel(
        scale={kind: math.exp(log) for kind, log in _scales(_ratios()).items()},
        held_out={name: mean(logs) for name, logs in errors.items()},
        driven={name: mean(logs) for name, logs in driven.items()},
    )


def report(clock: ClockModel) -> str:
    """Return the calibration's tables: published and blindly predicted periods, and errors by family.

    Blind is a model without the design's repository; of a family also one without any of its results.
    """
    lines = [f"{'design':14} {'device':12} {'published ns':>12} {'predicted ns':>12} {'ratio':>6}  tool"]
    unseen, unseen_family = blind(), blind(lambda _, result: result.family)
    for design, result, error in unseen:
        ratio = math.exp(error)
        lines.append(
            f"{design.name:14} {result.device:12} {result.ns:12.2f} {result.ns / ratio:12.2f} {ratio:6.2f}  {design.tool}"
            + (", driven" if result.driven else "")
        )
    lines.append(
        f"{'held-out error':14} {'clocks':>6} {'median ratio':>12} {'rms of ln':>10}   without the family: median, rms"
    )
    for family in dict.fromkeys(result.family for _, result, _ in unseen):
        errors, others = (
            [estimate.error for estimate in of if estimate.result.family == family] for of in (unseen, unseen_family)
        )
        lines.append(f"{family:14} {len(errors):6} {_told(errors)}   {_told(others)}")
    for kind in FABRICS:
        net = net_delay(kind)
        lines.append(
            f"{kind}: a net costs {net.base:.0f} + {net.clb:.0f} * sqrt(loads) ps, scale {clock.scale[kind]:.2f}"
        )
    lines.append(f"all {len(clock.held_out)} designs: an interval of a factor of {clock.spread:.2f} to either side")
    lines.append(
        f"the {len(clock.driven)} that were driven to their clock ({', '.join(sorted(clock.driven))}): factors of "
        f"{clock.driven_spread[0]:.2f} below and {clock.driven_spread[1]:.2f} above the prediction"
    )
    return "\n".join(lines)


def _told(errors: Sequence[float]) -> str:
    rms = math.sqrt(mean(error * error for error in errors))
    return f"{math.exp(median(errors)):12.2f} {rms:10.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.clock", description=__doc__)
    parser.parse_args(arguments)
    print(report(model()))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.clock"))
