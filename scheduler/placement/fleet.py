"""A fleet: devices by type, their links, the networks that each type can run. Read from a TOML file.

A type is a design on a board with a memory, or a CPU whose times were measured. Profiles come from files that
the fleet file names; `read_fleet` opens them, `parse_fleet` takes them as a function.

>>> from fluidnpu.dse import LatencyTable
>>> text = '''
... schema = 1
... name = "two boards"
... [networks.toy]
... [links.lan]
... bytes_per_s = 117_700_000
... latency = "100us"
... [types.board]
... memory_bytes = 1_000_000
... networks.toy.profile = "toy.json"
... [[devices]]
... type = "board"
... count = 2
... '''
>>> fleet = parse_fleet(text, lambda kind, path: Profile.of_table("toy", LatencyTable(ns=((10, 15),))))
>>> [device.name for device in fleet.devices], fleet.counts
(['board-0', 'board-1'], {'board': 2})
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fluidnpu.dse import Design, DesignError

from ..errors import FleetError, SchedulerError
from ..simulation.units import parse_duration_ns
from .ensembles.combine import Rule
from .profile import Profile

if sys.version_info >= (3, 11):
    import tomllib
else:  # a board's image may have Python 3.10
    import tomli as tomllib

SCHEMA = 1
_FILES = ("ca", "token_file")
_ACCESS = ("admin", *_FILES)  # of a device: no matter of a plan
KINDS = ("npu", "cpu")
SOURCES = ("profile", "design", "bundle")  # what a type may say about a network, and how it is opened
MICROS = 1_000_000  # of a currency unit: costs are whole numbers, so that sums and ties are exact
MOST_DEVICES = 100_000
MOST_BYTES = 1 << 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})")

OpenProfile = Callable[[str, str], Profile]  # of a kind among SOURCES and a path as the file has it


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link between a device and the switch: bytes a second each way at once, and its delay."""

    name: str
    bytes_per_s: int
    latency_ns: int = 0
    source: str = ""

    def transfer_ns(self, size: int) -> int:
        """Time in ns in which bytes pass, without the delay."""
        return -(-size * 10**9 // self.bytes_per_s)


@dataclass(frozen=True, kw_only=True)
class NetworkFacts:
    """Facts of one network that hold on every device.

    `exit_rates`: share of samples that leaves at each exit, None where nobody said. `input_bytes` and
    `answer_bytes` of a sample on the wire. `weight`: samples of this network for one of the whole (1 in an
    ensemble). `demand_per_s`: samples a second wanted, 0 for as many as can be.
    """

    name: str
    exit_rates: tuple[float, ...] | None = None
    input_bytes: int = 0
    answer_bytes: int = 0
    weight: float = 1.0
    demand_per_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EnsembleFacts:
    """Networks that answer together, under a name of their own. Raises FleetError.

    `rule` and `weights`: see `Rule`. `wait_ns`: time after which an answer leaves with the parts that have
    come; 0 waits for all of them.
    """

    name: str
    networks: tuple[str, ...]
    rule: str = "average"
    weights: tuple[int, ...] = ()
    wait_ns: int = 0

    def __post_init__(self) -> None:
        Rule(networks=self.networks, name=self.rule, weights=self.weights)

    def of_bits(self, fractions: tuple[int, ...]) -> Rule:
        """Give the rule for networks with these fraction bits of their logits. Raises FleetError."""
        return Rule(networks=self.networks, name=self.rule, weights=self.weights, fractions=fractions)


@dataclass(frozen=True, kw_only=True)
class DeviceType:
    """A kind of device: profiles by network, memory, cost.

    `cost_micros`: millionths of a currency unit an hour; `cost_source` says where that comes from. `paths`:
    the kind and path that each profile was read from, relative to the fleet file.
    """

    name: str
    kind: str = "npu"
    memory_bytes: int = 0
    cost_micros: int = 0
    cost_source: str = ""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    paths: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FleetDevice:
    """One device of the fleet. `address`: host:port of its server, empty where nobody serves.

    `admin`: host:port of its gRPC admin surface, empty where it has none. `ca` and `token_file`: files,
    relative to that of the fleet, with the certificates that its server's must be signed by (empty: no TLS),
    and with the token that it asks for.
    """

    name: str
    type: str
    link: str
    address: str = ""
    admin: str = ""
    ca: str = ""
    token_file: str = ""


@dataclass(frozen=True, kw_only=True)
class DeviceSource:
    """A place where devices of a type are found while a fleet is served; `access` as of a device, by key.

    `files`: a folder, relative to the fleet file, with a file a device; `dns`: a name and port, whose every
    address is a device, with its gRPC admin surface at `admin_port` (0: it has none).
    """

    name: str
    type: str
    link: str
    files: str = ""
    dns: str = ""
    admin_port: int = 0
    access: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Devices, their types and links, and networks. Raises FleetError.

    `head`: the name of the link by which the front reaches the switch; empty where it is no limit. `sources`:
    of further devices, which are no matter of a plan.
    """

    name: str
    networks: Mapping[str, NetworkFacts]
    types: Mapping[str, DeviceType]
    links: Mapping[str, Link]
    devices: tuple[FleetDevice, ...]
    head: str = ""
    ensembles: Mapping[str, EnsembleFacts] = field(default_factory=dict)
    sources: tuple[DeviceSource, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        addresses: dict[str, str] = {}
        named: tuple[FleetDevice | DeviceSource, ...] = (*self.devices, *self.sources)
        for device in named:
            if device.name in seen:
                raise FleetError(f"devices must have names of their own, and '{device.name}' comes twice")
            seen.add(device.name)
            if device.type not in self.types:
                raise FleetError(
                    f"device '{device.name}' must have one of the types {_known(self.types)}, not '{device.type}'"
                )
            if device.link not in self.links:
                raise FleetError(
                    f"device '{device.name}' must hang on one of the links {_known(self.links)}, not '{device.link}'"
                )
        for device in self.devices:
            if device.address and (other := addresses.setdefault(device.address, device.name)) != device.name:
                raise FleetError(
                    f"devices must have addresses of their own, and '{device.name}' and '{other}' share {device.address}"
                )
        if not self.devices and not self.sources:
            raise FleetError("a fleet must have at least one device, and it has none")
        if len(self.devices) > MOST_DEVICES:
            raise FleetError(f"a fleet must have at most {MOST_DEVICES} devices, not {len(self.devices)}")
        if self.head and self.head not in self.links:
            raise FleetError(f"the head must hang on one of the links {_known(self.links)}, not '{self.head}'")
        for name, facts in self.networks.items():
            self._check_network(name, facts)
        for name, together in self.ensembles.items():
            if name in self.networks:
                raise FleetError(f"an ensemble must have a name of its own, and '{name}' is a network")
            if odd := [network for network in together.networks if network not in self.networks]:
                raise FleetError(
                    f"networks of ensemble '{name}' must be among {_known(self.networks)}, not {', '.join(odd)}"
                )

    def _check_network(self, name: str, facts: NetworkFacts) -> None:
        """Refuse profiles of one network that do not agree about its blocks and exits."""
        first: tuple[str, Profile] | None = None
        for kind in self.types.values():
            profile = kind.profiles.get(name)
            if profile is None:
                continue
            if first is None:
                first = kind.name, profile
            elif (here := _outline(profile)) != (there := _outline(first[1])):
                raise FleetError(
                    f"types '{first[0]}' and '{kind.name}' must have the same blocks and exits of '{name}', "
                    f"not {there} and {here}"
                )
        if first is None:
            raise FleetError(f"at least one type must run network '{name}', and none says so")
        exits = len(first[1].exits)
        if facts.exit_rates is not None and len(facts.exit_rates) != exits:
            raise FleetError(
                f"exit_rates of network '{name}' must be {exits}, one an exit, not {len(facts.exit_rates)}"
            )

    @cached_property
    def counts(self) -> dict[str, int]:
        """Devices of each type, in the order of the types."""
        counts = dict.fromkeys(self.types, 0)
        for device in self.devices:
            counts[device.type] += 1
        return counts

    @property
    def cost_micros(self) -> int:
        """Cost an hour of all devices, in millionths."""
        return sum(self.types[device.type].cost_micros for device in self.devices)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types: every fact, profiles by their digests."""
        types = {
            name: {
                **{key: value for key, value in asdict(device_type).items() if key not in ("profiles", "paths")},
                "profiles": {network: profile.digest for network, profile in device_type.profiles.items()},
            }
            for name, device_type in self.types.items()
        }
        return {
            "schema": SCHEMA,
            "name": self.name,
            "networks": {name: asdict(facts) for name, facts in self.networks.items()},
            "types": types,
            "links": {name: asdict(link) for name, link in self.links.items()},
            "devices": [
                {key: value for key, value in asdict(device).items() if key not in _ACCESS} for device in self.devices
            ],
            "head": self.head,
            **(
                {"ensembles": {name: asdict(ensemble) for name, ensemble in self.ensembles.items()}}
                if self.ensembles
                else {}
            ),
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every fact; a plan names the fleet that it is for."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def without(self, lost: Iterator[str] | set[str] | tuple[str, ...]) -> Fleet:
        """The same fleet without some devices. Raises FleetError for an unknown name, and where none is
        left.
        """
        gone = set(lost)
        if unknown := sorted(gone - {device.name for device in self.devices}):
            raise FleetError(
                f"devices of fleet '{self.name}' must be known to be left out, and {', '.join(unknown)} are not"
            )
        return replace(self, devices=tuple(device for device in self.devices if device.name not in gone))


def read_fleet(path: Path | str, bundle: Callable[[Path], Profile] | None = None) -> Fleet:
    """Read a fleet file and the profiles and designs that it names, relative to it. Raises FleetError.

    `bundle` opens the folder of a bundle; by default its `design.json` is read, and memory is an estimate.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"fleet file '{path}' must be readable UTF-8 text: {error}") from None

    def opened(kind: str, name: str) -> Profile:
        place = path.parent / name
        if kind == "bundle":
            return (bundle or bundle_profile)(place)
        try:
            content = place.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(f"'{place}' must be readable UTF-8 text: {error}") from None
        return Profile.loads(content, str(place)) if kind == "profile" else _of_design(content, str(place))

    return parse_fleet(text, opened, str(path))


def bundle_profile(folder: Path) -> Profile:
    """Profile the network of a bundle by its `profile.json`, or by its `design.json`. Raises FleetError."""
    for name, read in (("profile.json", Profile.loads), ("design.json", _of_design)):
        place = folder / name
        if place.is_file():
            try:
                return read(place.read_text(encoding="utf-8"), str(place))
            except (OSError, UnicodeDecodeError) as error:
                raise FleetError(f"'{place}' must be readable UTF-8 text: {error}") from None
    raise FleetError(f"'{folder}' must be a bundle with design.json or profile.json in it, and it has neither")


def _of_design(text: str, source: str) -> Profile:
    try:
        return Profile.of_design(Design.loads(text, source))
    except DesignError as error:
        raise FleetError(str(error)) from None


def parse_fleet(text: str, profiles: OpenProfile, source: str = "fleet") -> Fleet:
    """Parse a fleet from TOML text; errors name the file `source` and the place. Raises FleetError."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FleetError(f"fleet file '{source}' must be TOML: {error}") from None
    try:
        return _parse(_Place("", raw), profiles)
    except FleetError as error:
        raise FleetError(f"fleet file '{source}': {error}") from None


class _Place:
    """A table of the file and the path to it, so that every FleetError that is raised names the place."""

    def __init__(self, where: str, raw: object) -> None:
        if not isinstance(raw, Mapping):
            raise FleetError(f"{where} must be a table, not {raw!r}")
        self.where, self.raw, self.read = where, raw, set[str]()

    def at(self, key: str) -> str:
        """Name a key with the path to it."""
        return f"{self.where}.{key}" if self.where else key

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty. Raises FleetError."""
        value = self._get(key, default)
        if not isinstance(value, str) or (not value and default is None):
            raise FleetError(f"{self.at(key)} must be a text, not {value!r}")
        return value

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """Return a whole number within limits. Raises FleetError."""
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise FleetError(f"{self.at(key)} must be a whole number in {least}..{most}, not {value!r}")
        return value

    def real(self, key: str, least: float, most: float, default: float) -> float:
        """Return a number within limits. Raises FleetError."""
        value = self._get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise FleetError(f"{self.at(key)} must be a number in {least:g}..{most:g}, not {value!r}")
        return float(value)

    def list_of(self, key: str) -> list[Any]:
        """Return a list, empty where the key is missing. Raises FleetError."""
        value = self._get(key, [])
        if not isinstance(value, list):
            raise FleetError(f"{self.at(key)} must be a list, not {value!r}")
        return value

    def tables(self, key: str) -> Iterator[tuple[str, _Place]]:
        """Yield the tables of a table, by name. Raises FleetError."""
        inner = _Place(self.at(key), self._get(key, {}))
        for name, value in inner.raw.items():
            if not _NAME.fullmatch(name):
                raise FleetError(f"names in {self.at(key)} must be letters, digits, '.', '-' and '_', not {name!r}")
            yield name, _Place(inner.at(name), value)

    def done(self) -> None:
        """Raise FleetError for keys that nobody asked for."""
        if odd := sorted(set(self.raw) - self.read):
            where = self.where or "a fleet"
            raise FleetError(f"{where} may have {', '.join(sorted(self.read))}, not {', '.join(odd)}")

    def _get(self, key: str, default: Any) -> Any:
        self.read.add(key)
        if key not in self.raw and default is None:
            raise FleetError(f"{self.at(key)} must be given, and it is missing")
        return self.raw.get(key, default)


def _parse(top: _Place, profiles: OpenProfile) -> Fleet:
    if top.whole("schema", 0, MOST_BYTES) != SCHEMA:
        raise FleetError(f"schema must be {SCHEMA}, not {top.raw['schema']!r}")
    name = top.text("name")
    networks = {key: _network(key, place) for key, place in top.tables("networks")}
    links = {key: _link(key, place) for key, place in top.tables("links")}
    types = {key: _type(key, place, profiles, networks) for key, place in top.tables("types")}
    for what, tables in (("networks", networks), ("links", links), ("types", types)):
        if not tables:
            raise FleetError(f"{what} must have at least one entry, and there is none")
    devices, sources = list[FleetDevice](), list[DeviceSource]()
    for number, raw in enumerate(top.list_of("devices")):
        for device in _devices(_Place(f"devices[{number}]", raw), links):
            (devices if isinstance(device, FleetDevice) else sources).append(device)  # type: ignore[arg-type]
    head = top.text("head", "")
    ensembles = {key: _ensemble(key, place) for key, place in top.tables("ensembles")}
    top.done()
    networks = {key: _with_rates(facts, types) for key, facts in networks.items()}
    return Fleet(
        name=name,
        networks=networks,
        types=types,
        links=links,
        devices=tuple(devices),
        head=head,
        ensembles=ensembles,
        sources=tuple(sources),
    )


def _ensemble(name: str, place: _Place) -> EnsembleFacts:
    networks, weights = place.list_of("networks"), place.list_of("weights")
    if not all(isinstance(network, str) for network in networks):
        raise FleetError(f"{place.at('networks')} must be names of networks, not {networks}")
    rule, wait_ns = place.text("rule", "average"), _duration(place, "wait")
    place.done()
    try:
        return EnsembleFacts(name=name, networks=tuple(networks), rule=rule, weights=tuple(weights), wait_ns=wait_ns)
    except FleetError as error:
        raise FleetError(f"{place.where}: {error}") from None


def _network(name: str, place: _Place) -> NetworkFacts:
    rates = place.list_of("exit_rates")
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x <= 1 for x in rates):
        raise FleetError(f"{place.at('exit_rates')} must be shares of 0..1, not {rates}")
    if rates and abs(sum(rates) - 1) > 1e-6:
        raise FleetError(f"{place.at('exit_rates')} must sum to 1, not to {sum(rates):g}")
    facts = NetworkFacts(
        name=name,
        exit_rates=tuple(map(float, rates)) or None,
        input_bytes=place.whole("input_bytes", 0, MOST_BYTES, 0),
        answer_bytes=place.whole("answer_bytes", 0, MOST_BYTES, 0),
        weight=place.real("weight", 1e-6, 1e6, 1.0),
        demand_per_s=place.real("demand_per_s", 0, 1e9, 0.0),
    )
    place.done()
    return facts


def _with_rates(facts: NetworkFacts, types: Mapping[str, DeviceType]) -> NetworkFacts:
    """A network with one exit has one rate, which nobody needs to say."""
    exits = {len(type_.profiles[facts.name].exits) for type_ in types.values() if facts.name in type_.profiles}
    if facts.exit_rates is None and exits == {1}:
        return NetworkFacts(**{**asdict(facts), "exit_rates": (1.0,)})
    return facts


def _duration(place: _Place, key: str) -> int:
    text = place.text(key, "")
    try:
        return parse_duration_ns(text, place.at(key)) if text else 0
    except SchedulerError as error:
        raise FleetError(str(error)) from None


def _link(name: str, place: _Place) -> Link:
    link = Link(
        name=name,
        bytes_per_s=place.whole("bytes_per_s", 1, MOST_BYTES),
        latency_ns=_duration(place, "latency"),
        source=place.text("source", ""),
    )
    place.done()
    return link


def _type(name: str, place: _Place, profiles: OpenProfile, networks: Mapping[str, NetworkFacts]) -> DeviceType:
    kind = place.text("kind", "npu")
    if kind not in KINDS:
        raise FleetError(f"{place.at('kind')} must be one of {', '.join(KINDS)}, not {kind!r}")
    cost = place.real("cost_per_hour", 0, 1e6, 0.0)
    cost_source = place.text("cost_source", "")
    if cost and not cost_source:
        raise FleetError(f"{place.at('cost_source')} must say where cost_per_hour comes from, and it is missing")
    memory = place.whole("memory_bytes", 1, MOST_BYTES)
    opened, paths = {}, {}
    for network, entry in place.tables("networks"):
        if network not in networks:
            raise FleetError(f"{entry.where} must be one of the networks {_known(networks)}")
        given = [key for key in SOURCES if entry.text(key, "")]
        entry.done()
        if len(given) != 1:
            raise FleetError(
                f"{entry.where} must have exactly one of {', '.join(SOURCES)}, not {', '.join(given) or 'none'}"
            )
        path = entry.text(given[0])
        try:
            profile = profiles(given[0], path)
        except FleetError as error:
            raise FleetError(f"{entry.at(given[0])}: {error}") from None
        opened[network], paths[network] = profile, (given[0], path)
    place.done()
    return DeviceType(
        name=name,
        kind=kind,
        memory_bytes=memory,
        cost_micros=round(cost * MICROS),
        cost_source=cost_source,
        profiles=opened,
        paths=paths,
    )


def _devices(place: _Place, links: Mapping[str, Link]) -> list[FleetDevice] | list[DeviceSource]:
    """Return the devices that an entry names, or the source that it is."""
    addresses, admin = _addresses(place, "addresses"), _addresses(place, "admin")
    kind = place.text("type")
    name = place.text("name", kind)
    if not _NAME.fullmatch(name):
        raise FleetError(f"{place.at('name')} must be letters, digits, '.', '-' and '_', not {name!r}")
    count = place.whole("count", 1, MOST_DEVICES, max(1, len(addresses)))
    if addresses and len(addresses) != count:
        raise FleetError(f"{place.at('addresses')} must be {count}, one a device, not {len(addresses)}")
    link = place.text("link", next(iter(links), ""))
    access = {key: place.text(key, "") for key in _FILES}
    files, dns = place.text("files", ""), place.text("dns", "")
    admin_port = place.whole("admin_port", 0, (1 << 16) - 1, 0)
    place.done()
    ways = [key for key in ("addresses", "count", "files", "dns") if key in place.raw]
    if (files or dns) and (len(ways) != 1 or admin or (admin_port and not dns)):
        raise FleetError(f"{place.where} must say in one way where its devices are, not by {', '.join(place.raw)}")
    if files or dns:
        if dns and not is_address(dns):
            raise FleetError(f"{place.at('dns')} must be NAME:PORT, not {dns!r}")
        source = DeviceSource(
            name=name, type=kind, link=link, files=files, dns=dns, admin_port=admin_port, access=access
        )
        return [source]
    if admin and len(admin) != len(addresses):
        raise FleetError(f"{place.at('admin')} must be {len(addresses)}, one an address, not {len(admin)}")
    if not addresses and (odd := [key for key, given in access.items() if given]):
        raise FleetError(
            f"{place.at(odd[0])} is for devices with addresses, and these are started where they are needed"
        )
    names = [name] if count == 1 else [f"{name}-{k}" for k in range(count)]
    places = zip(names, addresses or [""] * count, admin or [""] * count, strict=True)
    return [FleetDevice(name=n, type=kind, link=link, address=a, admin=b, **access) for n, a, b in places]


def _addresses(place: _Place, key: str) -> list[str]:
    addresses = place.list_of(key)
    for address in addresses:
        if not isinstance(address, str) or not is_address(address):
            raise FleetError(f"{place.at(key)} must be HOST:PORT each, not {address!r}")
    return addresses


def is_address(text: str) -> bool:
    """Return whether a text is HOST:PORT, as fleet files have it."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[1]) < 1 << 16


def _outline(profile: Profile) -> tuple[int, list[str]]:
    return len(profile.blocks), [profile.blocks[index].exit for index in profile.exits]


def _known(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "(none)"
