"""One FPGA board: resources, clock, ports and memories, read from a TOML file. Knows no networks.

>>> board = load_board("zc706")
>>> board.dsp, board.ramb36, board.clock_hz
(900, 545, 150000000)
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from .fields import DRAM_FIELDS, DRAM_OPTIONAL, FIELDS, OPTIONAL, POWER_FIELDS, SENSOR_FIELDS, SENSOR_OPTIONAL

if sys.version_info >= (3, 11):
    import tomllib
else:  # a board's image may have Python 3.10
    import tomli as tomllib

SCHEMA = 1
STRIPES = (1, 2, 4)
SUSTAINED_PCT = (
    75  # of a memory whose file does not say: the lower of the two shares that boards/*.toml have a source for
)
RAMB36_BITS, URAM288_BITS = 36 * 1024, 288 * 1024
NO_HARDWARE = ("title", "power", "sources")  # a better citation makes no other bitstream
FAMILIES = {"zynq7000": "DSP48E1", "zynquplus": "DSP48E2"}

# Inclusive limits of every whole-number fact: wide enough for any device of these families, narrow enough
# that a slip of the pen cannot make the search run for hours.
LIMITS = {
    "dsp": (1, 20_000),
    "ramb36": (1, 20_000),
    "uram288": (0, 20_000),
    "lut": (1, 20_000_000),
    "ff": (1, 40_000_000),
    "clock_hz": (1_000_000, 1_000_000_000),
    "axi_ports": (1, 16),
    "axi_port_bits": (32, 1024),
    "paper_words_per_cycle": (1, 128),
    "paper_memory_bits": (1, 2**40),
    "dsp_most_pct": (1, 100),
}


class BoardFileError(ValueError):
    """A board is unknown or its file breaks a rule; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Dram:
    """One external memory: its peak bytes a second, and the device's side ("ps" or "pl") that holds its
    controller.

    `stripes`: the ports that one of the NPU's masters is spread over. `port_bits`: the width of them
    together, 0 for `axi_port_bits` each. `sustained_pct`: per cent of the peak that all ports together get
    for long; row misses and turns of direction take the rest.
    """

    name: str
    bytes_per_s: int
    side: str = "ps"
    port_bits: int = 0
    stripes: int = 1
    sustained_pct: int = SUSTAINED_PCT

    def __post_init__(self) -> None:
        if self.side not in ("ps", "pl"):
            raise BoardFileError(f"dram '{self.name}': side must be 'ps' or 'pl', not {self.side!r}")
        _check_whole(f"dram '{self.name}': bytes_per_s", self.bytes_per_s, 1_000_000, 10**13)
        if self.stripes not in STRIPES:
            raise BoardFileError(
                f"dram '{self.name}': stripes must be one of {', '.join(map(str, STRIPES))}, not {self.stripes!r}"
            )
        _check_whole(f"dram '{self.name}': sustained_pct", self.sustained_pct, 1, 100)
        if self.port_bits:
            _check_port_bits(f"dram '{self.name}': port_bits", self.port_bits)


@dataclass(frozen=True, kw_only=True)
class Power:
    """Watts of the whole board while its NPU does nothing, and while it works: the model of every energy."""

    idle_w: float
    active_w: float

    def __post_init__(self) -> None:
        for name in POWER_FIELDS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1000:
                raise BoardFileError(f"power: {name} must be a number of watts above 0 and up to 1000, not {value!r}")
        if self.idle_w > self.active_w:
            raise BoardFileError(f"power: idle_w must be at most active_w = {self.active_w:g}, not {self.idle_w:g}")


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """A chip that measures power while the board runs: `chip` as Linux names it, at an I2C `address`.

    `covers`: "board" for its whole supply, "rails" for some rails. `rails`: the label of each rail's watts,
    or the labels of its volts and amps; empty where all that the chip tells count.
    """

    name: str
    chip: str
    covers: str
    address: int | None = None
    rails: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        where = f"sensor '{self.name}'"
        if not isinstance(self.chip, str) or not self.chip:
            raise BoardFileError(f"{where}: chip must be a text, not {self.chip!r}")
        if self.covers not in ("board", "rails"):
            raise BoardFileError(f"{where}: covers must be 'board' or 'rails', not {self.covers!r}")
        if self.address is not None:
            _check_whole(f"{where}: address", self.address, 0x08, 0x77)
        for rail in self.rails:
            if not isinstance(rail, tuple) or len(rail) not in (1, 2) or not all(isinstance(t, str) for t in rail):
                raise BoardFileError(
                    f"{where}: a rail must be the label of its watts, or those of volts and amps, not {rail!r}"
                )


@dataclass(frozen=True, kw_only=True)
class Board:
    """One board's resources, clock, ports and memories, each fact with its document in `sources`.

    `paper_words_per_cycle` (16-bit words) and `paper_memory_bits` are what the `paper` model counts; for the
    paper's two boards the first is a fit, the second a rounded capacity. Where a board does not say, they are
    what two ports carry and what the device has. `ramb36`, `uram288` and `dram` are those of the device.
    `dsp_columns`: columns of DSP slices as (height, count); empty where they are not known, and then nothing
    is asked of them. A design takes at most `dsp_most_pct` per cent of the slices.
    """

    name: str
    title: str
    part: str
    board_part: str
    family: str
    dsp: int
    ramb36: int
    uram288: int
    lut: int
    ff: int
    clock_hz: int
    axi_ports: int
    axi_port_bits: int
    dram: tuple[Dram, ...]
    paper_words_per_cycle: int = 0
    paper_memory_bits: int = 0
    dsp_columns: tuple[tuple[int, int], ...] = ()
    dsp_most_pct: int = 100
    power: Power | None = None
    sensors: tuple[Sensor, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("name", "title", "part", "board_part", "family"):
            value = getattr(self, key)
            if not isinstance(value, str) or not value:
                raise BoardFileError(f"{key} must be a text, not {value!r}")
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise BoardFileError(f"name must be lower-case letters, digits, '-' and '_', not {self.name!r}")
        if self.family not in FAMILIES:
            raise BoardFileError(f"family must be one of {', '.join(FAMILIES)}, not {self.family!r}")
        for key, (low, high) in LIMITS.items():
            if not (key.startswith("paper_") and getattr(self, key) == 0):
                _check_whole(key, getattr(self, key), low, high)
        if not self.paper_words_per_cycle:
            object.__setattr__(self, "paper_words_per_cycle", 2 * self.axi_port_bits // 16)
        if not self.paper_memory_bits:
            object.__setattr__(self, "paper_memory_bits", self.ramb36 * RAMB36_BITS + self.uram288 * URAM288_BITS)
        _check_port_bits("axi_port_bits", self.axi_port_bits)
        self._check_columns()
        if not self.dram:
            raise BoardFileError("a board needs at least one dram")
        for dram in self.dram:
            if dram.side == "ps" and dram.stripes > self.axi_ports:
                raise BoardFileError(
                    f"dram '{dram.name}': stripes must be at most the {self.axi_ports} ports there are, not {dram.stripes}"
                )
        names = {*self.facts, "title", "name"}
        odd = sorted(set(self.sources) - names)
        if odd:
            raise BoardFileError(f"sources must name facts of the board, not {', '.join(odd)}")

    def _check_columns(self) -> None:
        for pair in self.dsp_columns:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise BoardFileError(f"dsp_columns must be pairs of a height and a number of columns, not {pair!r}")
            for value in pair:
                _check_whole("a number of dsp_columns", value, 1, LIMITS["dsp"][1])
        sites = sum(height * count for height, count in self.dsp_columns)
        if self.dsp_columns and sites < self.dsp:
            raise BoardFileError(f"dsp_columns must hold the {self.dsp} DSP slices of the device, not {sites}")

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts that need a source: every field about the hardware, and two of each memory.

        `dram.NAME` is what the memory is, `dram.NAME.sustained_pct` what it sustains.
        """
        plain = [f.name for f in fields(self) if f.name not in ("name", "title", "dram", "power", "sensors", "sources")]
        plain += ["power"] if self.power is not None else []
        memories = [f"dram.{memory.name}" for memory in self.dram]
        sensors = [f"sensors.{sensor.name}" for sensor in self.sensors]
        return (*plain, *memories, *(f"{memory}.sustained_pct" for memory in memories), *sensors)

    @property
    def unsourced(self) -> tuple[str, ...]:
        """Facts that name no document; those that only the `paper` model counts are left out.

        >>> load_board("zc706").unsourced
        ()
        """
        counted = [name for name in self.facts if name == "power" or name not in OPTIONAL]
        return tuple(name for name in counted if name not in self.sources)

    def memory(self, name: str | None = None) -> Dram:
        """Return one of the memories, the first by default, with the width of its ports. Raises BoardError.

        >>> load_board("zc706").memory("ps").port_bits, load_board("zc706").memory("pl").port_bits
        (64, 512)
        """
        memory = next((memory_ for memory_ in self.dram if name in (None, memory_.name)), None)
        if memory is None:
            names = ", ".join(memory_.name for memory_ in self.dram)
            raise BoardFileError(f"memory of board '{self.name}' must be one of {names}, not '{name}'")
        return replace(memory, port_bits=memory.port_bits or memory.stripes * self.axi_port_bits)

    @property
    def ramb18(self) -> int:
        """RAMB18 sites: two in each RAMB36."""
        return 2 * self.ramb36

    @property
    def dsp_primitive(self) -> str:
        """The multiply-accumulate block of the family: DSP48E1 or DSP48E2."""
        return FAMILIES[self.family]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, with schema number and digest, without the sensors."""
        kept = {name: text for name, text in self.sources.items() if not name.startswith("sensors.")}
        body = {**asdict(self), "sources": kept}
        del body["sensors"]
        if self.power is None:
            del body["power"]
        hardware = {key: value for key, value in body.items() if key not in NO_HARDWARE}
        text = json.dumps(hardware, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return {"schema": SCHEMA, "digest": hashlib.sha256(text.encode()).hexdigest(), **body}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the facts that a bitstream depends on: all but NO_HARDWARE and the sensors."""
        return str(self.to_dict()["digest"])

    def record(self) -> dict[str, Any]:
        """Return `to_dict` with the sensors and all sources: what a design carries, and `from_dict` reads."""
        sensors = [asdict(sensor) | {"rails": [list(rail) for rail in sensor.rails]} for sensor in self.sensors]
        return {**self.to_dict(), "sources": dict(self.sources), "sensors": sensors}

    @classmethod
    def from_dict(cls, raw: object, source: str = "board") -> Board:
        """Invert `record`, through JSON or not; errors name `source`. Raises BoardError.

        >>> Board.from_dict(load_board("zcu104").record()) == load_board("zcu104")
        True
        """
        if not isinstance(raw, Mapping):
            raise BoardFileError(f"{source} must be an object with the fields of a board, not {raw!r}")
        named = {kind: _by_name(source, kind, raw.get(kind, [])) for kind in ("dram", "sensors")}
        board = _of_tables({key: value for key, value in raw.items() if key != "digest"} | named, source)
        if raw.get("digest") != board.digest:
            raise BoardFileError(
                f"{source}: its digest must be that of its other fields, and something changed them by hand"
            )
        return board


def _check_port_bits(name: str, value: object) -> None:
    low, high = LIMITS["axi_port_bits"]
    _check_whole(name, value, low, high)
    if isinstance(value, int) and value & (value - 1):
        raise BoardFileError(f"{name} must be a power of two, not {value}")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BoardFileError(f"{name} must be a whole number in {low}..{high}, not {value!r}")


def list_boards() -> tuple[str, ...]:
    """Return the names of the shipped boards, sorted.

    >>> list_boards()
    ('kv260', 'pynqz2', 'ultra96v2', 'zc706', 'zcu102', 'zcu104')
    """
    names = (item.name for item in resources.files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_board(name_or_path: str | Path) -> Board:
    """Load a shipped board by name, or a board from a user's TOML file. Raises BoardError."""
    text = str(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in list_boards():
        item = resources.files(__package__).joinpath(f"{name_or_path}.toml")
        return parse_board(item.read_text(encoding="utf-8"), source=f"{name_or_path}.toml")
    path = Path(name_or_path)
    if not path.is_file():
        if path.suffix == ".toml" or len(path.parts) > 1:
            raise BoardFileError(f"there must be a board file at '{text}', and there is none")
        raise BoardFileError(
            f"board must be one of {', '.join(list_boards())} or the path of a TOML file, not '{text}'"
        )
    try:
        return parse_board(path.read_text(encoding="utf-8-sig"), source=text)
    except (OSError, UnicodeDecodeError) as error:
        raise BoardFileError(f"board file '{text}' must be readable UTF-8 text: {error}") from None


def parse_board(text: str, source: str = "board") -> Board:
    """Parse a board from TOML text; errors name the file `source`. Raises BoardError."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BoardFileError(f"board file '{source}' must be TOML: {error}") from None
    return _of_tables(raw, f"board file '{source}'")


def _of_tables(raw: Mapping[str, Any], where: str) -> Board:
    """The board of a file's fields, as TOML has them. Raises BoardError."""
    if "schema" not in raw:
        raise BoardFileError(f"{where} must begin with the line 'schema = {SCHEMA}', and it has no schema")
    if raw["schema"] != SCHEMA:
        raise BoardFileError(f"{where} must have schema = {SCHEMA}, not {raw['schema']!r}")
    body = {key: value for key, value in raw.items() if key != "schema"}
    names = {f.name for f in fields(Board)}
    missing = [name for name in FIELDS if name in names - set(body) - set(OPTIONAL)]
    unknown = sorted(set(body) - names)
    if missing or unknown:
        parts = [f"lacks {_told(missing, FIELDS)}"] if missing else []
        parts += [f"has the unknown {', '.join(unknown)}"] if unknown else []
        raise BoardFileError(f"{where} must have exactly the fields of a board; it {', and it '.join(parts)}")
    try:
        columns = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in body.pop("dsp_columns", ()))
        made = {"dram": _drams(body["dram"]), "sources": _sources(body.get("sources", {})), "dsp_columns": columns}
        power = {"power": _power(body["power"])} if "power" in body else {}
        sensors = {"sensors": _sensors(body["sensors"])} if "sensors" in body else {}
        return Board(**{**body, **made, **power, **sensors})
    except BoardFileError as error:
        raise BoardFileError(f"{where}: {error}") from None


def _by_name(where: str, kind: str, raw: object) -> dict[str, Any]:
    """The tables of a kind by name, as TOML has them, of the list that a record has."""
    if not isinstance(raw, Sequence) or not all(isinstance(entry, Mapping) and "name" in entry for entry in raw):
        raise BoardFileError(f"{where}: {kind} must be a list of objects with a name, not {raw!r}")
    return {str(entry["name"]): {key: value for key, value in entry.items() if key != "name"} for entry in raw}


def _drams(raw: object) -> tuple[Dram, ...]:
    tables = _named(raw, "dram", DRAM_FIELDS, DRAM_OPTIONAL, "dram must be a table of memories, such as [dram.ps]")
    return tuple(Dram(name=name, **value) for name, value in tables)


def _sensors(raw: object) -> tuple[Sensor, ...]:
    sensors = []
    wrong = "sensors must be tables, such as [sensors.supply]"
    for name, value in _named(raw, "sensor", SENSOR_FIELDS, SENSOR_OPTIONAL, wrong):
        rails = value.get("rails", [])
        if not isinstance(rails, list):
            raise BoardFileError(f"sensor '{name}': rails must be a list of lists of labels, not {rails!r}")
        pairs = tuple(tuple(rail) if isinstance(rail, list) else rail for rail in rails)
        sensors.append(Sensor(name=name, **{**value, "rails": pairs}))
    return tuple(sensors)


def _named(
    raw: object, kind: str, meanings: Mapping[str, str], optional: Sequence[str], wrong: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables of a kind by name, each with all fields but optional ones, and no others."""
    if not isinstance(raw, Mapping) or not all(isinstance(value, Mapping) for value in raw.values()):
        raise BoardFileError(wrong)
    for name, value in raw.items():
        missing = [key for key in meanings if key not in {*value, *optional}]
        if missing:
            raise BoardFileError(f"{kind} '{name}' lacks {_told(missing, meanings)}")
        if odd := sorted(set(value) - set(meanings)):
            raise BoardFileError(f"{kind} '{name}' may have {', '.join(meanings)}, not {', '.join(odd)}")
        yield name, value


def _power(raw: object) -> Power:
    if not isinstance(raw, Mapping) or set(raw) != set(POWER_FIELDS):
        raise BoardFileError(f"power must be a table with {' and '.join(POWER_FIELDS)}, not {raw!r}")
    return Power(**raw)


def _told(names: list[str], meanings: Mapping[str, str]) -> str:
    return "; ".join(f"{name} ({meanings[name]})" for name in names)


def _sources(raw: object) -> dict[str, str]:
    if not isinstance(raw, Mapping):
        raise BoardFileError(f"sources must be a table of texts, not {raw!r}")
    flat = {}
    for key, value in raw.items():
        if not isinstance(value, str) or not value:
            raise BoardFileError(f"the source of {key} must be a text, not {value!r}")
        flat[key] = value
    return flat
