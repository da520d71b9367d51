"""The boards that a fleet file names, each with the bundles that it must serve; what does not agree is
refused.

A board with an address is reached there; one without is started on this machine, with a simulated NPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from fluidnpu.scheduler import placement

from ..bundle import Bundle
from ..errors import BundleError, DriverUsageError
from .duties import Duty, duties_of
from .ensemble import Ensemble
from .leaf import Times
from .reference import Reference

_PROBES = 3  # random images on which bundles of different designs are compared


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One board: its address (host:port; empty: to be started here) and its bundles by model name."""

    name: str
    address: str
    folders: Mapping[str, Path]
    bundles: Mapping[str, Bundle]
    duties: Mapping[str, Duty] = field(default_factory=dict)  # of a plan, by model


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The boards of a fleet; every model's bundles give the same bits. Raises BundleError.

    `plan`: it says what each board serves; boards that it leaves idle have no seat. `exit_rates`: shares by
    model that the fleet file names. `ensembles`: models that are answered by several networks together.
    """

    name: str
    seats: tuple[Seat, ...]
    plan: placement.Plan | None = None
    exit_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ensembles: Mapping[str, Ensemble] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for model, bundles in self.bundles.items():
            different = {bundle.program.digest: (board, bundle) for board, bundle in bundles.items()}
            for (one, a), (other, b) in combinations(different.values(), 2):
                if found := disagreement(a, b):
                    raise BundleError(
                        f"all boards must have the same network behind model '{model}', and the bundles of '{one}' "
                        f"and '{other}' differ: {found}"
                    )

    @property
    def bundles(self) -> dict[str, dict[str, Bundle]]:
        """Bundles by model, then by board."""
        found: dict[str, dict[str, Bundle]] = {}
        for seat in self.seats:
            for model, bundle in seat.bundles.items():
                found.setdefault(model, {})[seat.name] = bundle
        return found

    def times(self, seat: Seat) -> dict[str, Times]:
        """Return the predicted times of a board by model, by the file's exit rates, the design's, or equal
        ones.
        """
        found = {}
        for model, bundle in seat.bundles.items():
            design = bundle.design
            rates = self.exit_rates.get(model) or design.exit_rates or (1 / design.stages,) * design.stages
            found[model] = Times.of(design.latency, rates)
        return found

    def only(self, names: Collection[str]) -> Roster:
        """Return the same fleet with some of its boards, and without ensembles, which need all of them."""
        return replace(self, seats=tuple(seat for seat in self.seats if seat.name in names), ensembles={})

    @classmethod
    def read(cls, path: Path | str, plan: Path | str | None = None) -> Roster:
        """Read a fleet file, its bundles, and a plan for it.

        Raises FleetError, BundleError, and DriverUsageError for a plan that boards cannot follow.
        """
        path = Path(path)
        known: dict[Path, Bundle] = {}

        def opened(folder: Path) -> placement.Profile:
            known[folder] = Bundle.read(folder)
            return known[folder].profile

        fleet = placement.read_fleet(path, bundle=opened)
        given = None if plan is None else _read_plan(Path(plan))
        duties = None if given is None else duties_of(given, fleet)
        seats = tuple(_seats(fleet, path.parent, known, duties))
        programs = {model: bundle.program for seat in seats for model, bundle in seat.bundles.items()}
        ensembles = {}
        for name, facts in fleet.ensembles.items():
            if missing := [one for one in facts.networks if one not in programs]:
                raise DriverUsageError(
                    f"every network of ensemble '{name}' must be on a board, and {', '.join(missing)} "
                    f"{'is' if len(missing) == 1 else 'are'} on none{' of the plan' if plan is not None else ''}"
                )
            ensembles[name] = Ensemble.of(facts, programs)
        rates = {name: facts.exit_rates for name, facts in fleet.networks.items() if facts.exit_rates is not None}
        return cls(name=fleet.name, seats=seats, plan=given, exit_rates=rates, ensembles=ensembles)


def _read_plan(path: Path) -> placement.Plan:
    try:
        return placement.Plan.loads(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DriverUsageError(f"plan '{path}' must be readable UTF-8 text: {error}") from None


def _seats(
    fleet: placement.Fleet,
    folder: Path,
    known: Mapping[Path, Bundle],
    duties: Mapping[str, Mapping[str, Duty]] | None,
) -> Iterable[Seat]:
    for device in fleet.devices:
        mine = {} if duties is None else duties.get(device.name, {})
        if duties is not None and not mine:
            continue
        kind = fleet.types[device.type]
        paths = {model: path for model, path in kind.paths.items() if duties is None or model in mine}
        if not paths:
            raise BundleError(f"board '{device.name}' must serve a network, and type '{device.type}' names none")
        for model, (source, name) in paths.items():
            if source != "bundle":
                raise BundleError(
                    f"type '{kind.name}' must name the bundle of '{model}' to be served, and it names the {source} "
                    f"'{name}'"
                )
        folders = {model: folder / name for model, (_, name) in paths.items()}
        bundles = {model: known[place] for model, place in folders.items()}
        yield Seat(name=device.name, address=device.address, folders=folders, bundles=bundles, duties=mine)


def disagreement(a: Bundle, b: Bundle) -> str:
    """Return a phrase on the first thing in which two bundles' answers differ; empty where nothing does.

    Designs may differ; inputs, exits, thresholds and the logits of a few random images may not.
    """
    one, other = a.program, b.program
    if one.input_intake != other.input_intake:
        shapes = one.input_intake.shape, other.input_intake.shape
        return f"inputs of {shapes[0]} and {shapes[1]} pixels, or their preprocessing"
    names = tuple(tuple(exit.name for exit in program.exits) for program in (one, other))
    if names[0] != names[1]:
        return f"exits {list(names[0])} and {list(names[1])}"
    if one.thresholds != other.thresholds:
        return f"thresholds {list(one.thresholds)} and {list(other.thresholds)}"
    here, there = Reference(a), Reference(b)
    for image in np.random.default_rng(0).integers(0, 256, (_PROBES, *one.input_intake.shape), dtype=np.uint8):
        for name, x, y in zip(names[0], here.logits(image), there.logits(image), strict=True):
            if not np.array_equal(x, y):
                return f"the logits of exit '{name}' on a random image"
    return ""
