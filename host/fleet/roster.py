"""The boards that a fleet file names, each with the bundles that it must serve; what does not agree is
refused.

A board with an address is reached there; one without is started on this machine, with a simulated NPU.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from fluidnpu.hls.program import Stages
from fluidnpu.scheduler import placement

from ..bundle import Bundle
from ..errors import BundleError, DriverUsageError
from ..oip.admission.access import read_token
from .boards.leaf import Times
from .duties import Duty, duties_of, ways_of
from .fronts.ensemble import Ensemble
from .fronts.relay import Relay
from .parts import part_of
from .reference import Reference

_PROBES = 3  # random images on which bundles of different designs are compared


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One board: its address (host:port; empty: to be started here) and its bundles by model name.

    `admin`: host:port of its gRPC admin surface; empty: it is steered at its own place alone.
    `folders` lack the parts of networks that a plan makes, which are written where a board needs them.
    """

    name: str
    address: str
    admin: str = ""
    folders: Mapping[str, Path]
    bundles: Mapping[str, Bundle]
    duties: Mapping[str, Duty] = field(default_factory=dict)  # of a plan, by model
    type: str = ""
    worker: bool = False  # a processor in an NPU's place
    ca: bytes | None = field(default=None, repr=False)  # PEM: TLS, and who signs for its server
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The boards of a fleet; every model's bundles give the same bits. Raises BundleError.

    `plan`: it says what each board serves; boards that it leaves idle have no seat. `exit_rates`: shares by
    network that the fleet file names. `ensembles`: models that are answered by several networks together.
    `relays`: networks of which boards have parts.
    """

    name: str
    seats: tuple[Seat, ...]
    plan: placement.Plan | None = None
    exit_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ensembles: Mapping[str, Ensemble] = field(default_factory=dict)
    relays: Mapping[str, Relay] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for model, bundles in self.bundles.items():
            different = {bundle.program.digest: (board, bundle) for board, bundle in bundles.items()}
            for (first, a), (other, b) in combinations(different.values(), 2):
                if difference := disagreement(a, b):
                    raise BundleError(
                        f"all boards must have the same network behind model '{model}', and the bundles of '{first}' "
                        f"and '{other}' differ: {difference}"
                    )

    @property
    def bundles(self) -> dict[str, dict[str, Bundle]]:
        """Bundles by model, then by board."""
        bundles: dict[str, dict[str, Bundle]] = {}
        for seat in self.seats:
            for model, bundle in seat.bundles.items():
                bundles.setdefault(model, {})[seat.name] = bundle
        return bundles

    @property
    def models(self) -> tuple[str, ...]:
        """The networks that clients may ask: those that boards serve whole, and those in parts."""
        of_parts = {model for relay in self.relays.values() for model in relay.models}
        return (*(model for model in self.bundles if model not in of_parts), *self.relays)

    def times(self, seat: Seat) -> dict[str, Times]:
        """Return the predicted times of a board by model, by the file's exit rates, the design's, or equal
        ones.
        """
        weights = {}
        for model, bundle in seat.bundles.items():
            design, duty = bundle.design, seat.duties.get(model)
            named_rates = self.exit_rates.get(model)
            if duty is not None and duty.stages is not None:
                named_rates = duty.stages.rates(self.exit_rates.get(duty.network))
            rates = named_rates or design.exit_rates or (1 / design.stages,) * design.stages
            weights[model] = Times.of(design.latency, rates)
        return weights

    def only(self, names: Collection[str]) -> Roster:
        """Return the same fleet with some of its boards; ensembles and parts of networks are for a front of
        all of them.
        """
        seats = tuple(seat for seat in self.seats if seat.name in names)
        return replace(self, seats=seats, ensembles={}, relays={})

    def write_parts(self, folder: Path | str) -> list[Path]:
        """Write the bundles of the plan's parts, a folder a type of board and a model; return the folders."""
        parts = dict[Path, Bundle]()
        for seat in self.seats:
            for model in seat.bundles.keys() - seat.folders.keys():
                parts[Path(folder) / seat.type / model] = seat.bundles[model]
        for place, bundle in sorted(parts.items()):
            bundle.write(place)
        return sorted(parts)

    @classmethod
    def read(cls, path: Path | str, plan: Path | str | None = None) -> Roster:
        """Read a fleet file, its bundles, and a plan for it.

        Raises FleetError, BundleError, and DriverUsageError for a plan that boards cannot follow.
        """
        return FleetFile.read(path).roster(None if plan is None else read_plan(plan))


@dataclass(frozen=True, kw_only=True)
class FleetFile:
    """A fleet file and its bundles, as they were read; a roster is made of them for every plan."""

    folder: Path
    fleet: placement.Fleet
    bundles: Mapping[Path, Bundle]

    @classmethod
    def read(cls, path: Path | str) -> FleetFile:
        """Read a fleet file and its bundles. Raises FleetError and BundleError."""
        path = Path(path)
        bundles: dict[Path, Bundle] = {}

        def read_profile(folder: Path) -> placement.Profile:
            bundles[folder] = Bundle.read(folder)
            return bundles[folder].profile

        return cls(fleet=placement.read_fleet(path, bundle=read_profile), folder=path.parent, bundles=bundles)

    def exit_rates(self, network: str) -> tuple[float, ...]:
        """Return the exit rates of the file, or else of a design, or else equal ones."""
        rates = self.fleet.networks[network].exit_rates
        kind = next(kind for kind in self.fleet.types.values() if network in kind.paths)
        design = self.bundles[self.folder / _bundle_path(kind, network)].design
        return rates or design.exit_rates or (1 / design.stages,) * design.stages

    def roster(self, plan: placement.Plan | None = None, fleet: placement.Fleet | None = None) -> Roster:
        """Return the boards of a plan, or all of them. `fleet`: the one that the plan is for, where it has
        other exit rates or fewer boards.

        Raises BundleError, and DriverUsageError for a plan that boards cannot follow.
        """
        fleet = fleet or self.fleet
        if fleet.sources:
            raise DriverUsageError(
                f"a plan, and what needs one, is for boards that the fleet file names, and those of "
                f"'{fleet.sources[0].name}' are found while it is served"
            )
        duties = None if plan is None else duties_of(plan, fleet)
        ways = {} if plan is None else ways_of(plan, fleet)
        seats = tuple(_seats(fleet, self.folder, self.bundles, duties))
        programs = {model: bundle.program for seat in seats for model, bundle in seat.bundles.items()}
        ensembles = {}
        for name, facts in fleet.ensembles.items():
            if cut := [network for network in facts.networks if network in ways]:
                raise DriverUsageError(
                    f"every network of ensemble '{name}' must be whole on its boards, and the plan cuts {', '.join(cut)}"
                )
            if missing := [network for network in facts.networks if network not in programs]:
                raise DriverUsageError(
                    f"every network of ensemble '{name}' must be on a board, and {', '.join(missing)} "
                    f"{'is' if len(missing) == 1 else 'are'} on none{' of the plan' if plan is not None else ''}"
                )
            ensembles[name] = Ensemble.of(facts, programs)
        rates = {name: facts.exit_rates for name, facts in fleet.networks.items() if facts.exit_rates is not None}
        relays = {}
        for network, own_ways in ways.items():
            whole = _whole(fleet, self.folder, self.bundles, network, seats)
            relays[network] = Relay(
                name=network,
                bundle=whole,
                ways=own_ways,
                programs={model: programs[model] for way in own_ways for model in way.models},
                exit_rates=fleet.networks[network].exit_rates or whole.design.exit_rates,
            )
        return Roster(name=fleet.name, seats=seats, plan=plan, exit_rates=rates, ensembles=ensembles, relays=relays)


def read_plan(path: Path | str) -> placement.Plan:
    """Read a plan, as `fluidnpu place --out` wrote it. Raises FleetError and DriverUsageError."""
    path = Path(path)
    try:
        return placement.Plan.loads(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DriverUsageError(f"plan '{path}' must be readable UTF-8 text: {error}") from None


def _seats(
    fleet: placement.Fleet,
    folder: Path,
    stored: Mapping[Path, Bundle],
    duties: Mapping[str, Mapping[str, Duty]] | None,
) -> Iterable[Seat]:
    parts: dict[tuple[Path, Stages], Bundle] = {}
    for device in fleet.devices:
        kind = fleet.types[device.type]
        if duties is None:
            own = {network: Duty(batch=0, network=network) for network in kind.paths}
        elif device.name in duties:
            own = dict(duties[device.name])
        else:
            continue
        if not own:
            raise BundleError(f"board '{device.name}' must serve a network, and type '{device.type}' names none")
        folders, bundles = dict[str, Path](), dict[str, Bundle]()
        for model, duty in own.items():
            place = folder / _bundle_path(kind, duty.network)
            _check_kind(kind, duty.network, stored[place])
            if duty.stages is None:
                folders[model], bundles[model] = place, stored[place]
                continue
            if (place, duty.stages) not in parts:
                parts[place, duty.stages] = part_of(stored[place], duty.stages)
            bundles[model] = parts[place, duty.stages]
        given = {} if duties is None else own
        yield Seat(
            name=device.name,
            address=device.address,
            admin=device.admin,
            folders=folders,
            bundles=bundles,
            duties=given,
            type=kind.name,
            worker=kind.kind == "cpu",
            ca=_certificates(folder / device.ca, device.name) if device.ca else None,
            token=_token(folder / device.token_file, device.name) if device.token_file else None,
        )


def _certificates(file: Path, board: str) -> bytes:
    """Read PEM certificates. Raises DriverUsageError."""
    try:
        text = file.read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (OSError, UnicodeDecodeError, ssl.SSLError) as error:
        raise DriverUsageError(
            f"ca of board '{board}' must be a file of PEM certificates, and '{file}' is not: {error}"
        ) from None
    return text.encode()


def _token(file: Path, board: str) -> str | None:
    """Read a token. Raises DriverUsageError."""
    try:
        return read_token(file)
    except (OSError, UnicodeDecodeError) as error:
        raise DriverUsageError(f"token_file of board '{board}' must be readable: {error}") from None


def _bundle_path(kind: placement.DeviceType, network: str) -> str:
    """Return the path of the bundle that a type names for a network. Raises BundleError."""
    source, name = kind.paths[network]
    if source != "bundle":
        raise BundleError(
            f"type '{kind.name}' must name the bundle of '{network}' to be served, and it names the {source} '{name}'"
        )
    return name


def _check_kind(kind: placement.DeviceType, network: str, bundle: Bundle) -> None:
    """Refuse a worker with the times of an NPU, and a board with those of a processor. Raises BundleError."""
    if kind.kind == "cpu" and not bundle.design.is_measured:
        raise BundleError(
            f"type '{kind.name}' is a cpu, so its bundle of '{network}' must have the times of one (`fluidnpu measure "
            f"BUNDLE --worker FOLDER`), and it has those of an NPU on {bundle.design.board}"
        )
    if kind.kind != "cpu" and bundle.design.is_measured:
        raise BundleError(
            f"type '{kind.name}' must be of kind \"cpu\", since its bundle of '{network}' has the times of "
            f"{bundle.design.board}"
        )


def _whole(
    fleet: placement.Fleet, folder: Path, stored: Mapping[Path, Bundle], network: str, seats: Iterable[Seat]
) -> Bundle:
    """Return the bundle of a whole network, of the first board that has a part of it."""
    name = next(seat.name for seat in seats if any(duty.network == network for duty in seat.duties.values()))
    kind = fleet.types[next(device.type for device in fleet.devices if device.name == name)]
    return stored[folder / _bundle_path(kind, network)]


def disagreement(a: Bundle, b: Bundle) -> str:
    """Return a phrase on the first thing in which two bundles' answers differ; empty where nothing does.

    Designs may differ; widths of words, inputs, exits, thresholds and logits of a few random images may not.
    """
    first, other = a.program, b.program
    if first.bits != other.bits:
        return f"words of {first.bits} and {other.bits} bits"
    if first.input_intake != other.input_intake:
        shapes = first.input_intake.shape, other.input_intake.shape
        return f"inputs of {shapes[0]} and {shapes[1]} pixels, or their preprocessing"
    names = tuple(tuple(exit.name for exit in program.exits) for program in (first, other))
    if names[0] != names[1]:
        return f"exits {list(names[0])} and {list(names[1])}"
    limits = tuple([exit.threshold for exit in program.exits] for program in (first, other))
    if first.thresholds != other.thresholds or (first.onward and limits[0] != limits[1]):
        return f"thresholds {limits[0]} and {limits[1]}"
    here, there, rng = Reference(a), Reference(b), np.random.default_rng(0)
    for image in first.random_samples(rng, _PROBES):
        (logits, onward), (others, there_onward) = here.compute(image), there.compute(image)
        for name, x, y in zip(names[0], logits, others, strict=True):
            if not np.array_equal(x, y):
                return f"the logits of exit '{name}' on a random image"
        if onward is not None and there_onward is not None and not np.array_equal(onward, there_onward):
            return "the tensor with which a random sample goes on"
    return ""
