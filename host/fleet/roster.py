"""The boards that a fleet file names, each with the bundles that it must serve; what does not agree is
refused.

A board with an address is reached there; one without is started on this machine, with a simulated NPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from fluidnpu.scheduler import placement

from ..bundle import Bundle
from ..errors import BundleError
from .reference import Reference

_PROBES = 3  # random images on which bundles of different designs are compared


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One board: its address (host:port; empty: to be started here) and its bundles by model name."""

    name: str
    address: str
    folders: Mapping[str, Path]
    bundles: Mapping[str, Bundle]


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The boards of a fleet; every model's bundles give the same bits. Raises BundleError."""

    name: str
    seats: tuple[Seat, ...]

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

    @classmethod
    def read(cls, path: Path | str) -> Roster:
        """Read a fleet file and its bundles. Raises FleetError and BundleError."""
        path = Path(path)
        known: dict[Path, Bundle] = {}

        def opened(folder: Path) -> placement.Profile:
            known[folder] = Bundle.read(folder)
            return known[folder].profile

        fleet = placement.read_fleet(path, bundle=opened)
        for kind in fleet.types.values():
            for model, (source, name) in kind.paths.items():
                if source != "bundle":
                    raise BundleError(
                        f"type '{kind.name}' must name the bundle of '{model}' to be served, and it names the {source} "
                        f"'{name}'"
                    )
        return cls(name=fleet.name, seats=tuple(_seats(fleet, path.parent, known)))


def _seats(fleet: placement.Fleet, folder: Path, known: Mapping[Path, Bundle]) -> Iterable[Seat]:
    for device in fleet.devices:
        folders = {model: folder / name for model, (_, name) in fleet.types[device.type].paths.items()}
        if not folders:
            raise BundleError(f"board '{device.name}' must serve a network, and type '{device.type}' names none")
        bundles = {model: known[place] for model, place in folders.items()}
        yield Seat(name=device.name, address=device.address, folders=folders, bundles=bundles)


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
