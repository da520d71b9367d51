"""Tenants as a file or a program describes them. Frozen; errors name the tenant and the key.

>>> tenancy = parse_tenants('''
... [tenant.doors]
... share = 0.5
... criteria = "confidence > 0.9 or slack < 2ms"
... [tenant.cameras]
... share = 0.25
... at_limit = "drop"
... ''')
>>> [(one.name, one.share, one.criterion.text) for one in tenancy.tenants if one.criterion]
[('doors', 0.5, 'confidence > 0.9 or slack < 2ms')]
>>> tenancy.all[-1].name, tenancy.all[-1].share
('', 0.25)
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..errors import SchedulerError
from ..exits.adaptation import MODES
from ..exits.criterion import Criterion
from ..exits.parsing import parse_criterion
from ..simulation.units import parse_duration_ns
from .battery import PowerBudget

if sys.version_info >= (3, 11):
    import tomllib
else:  # a board's image may have Python 3.10
    import tomli as tomllib

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_JOULES = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*(mJ|J)", re.ASCII)
AT_LIMIT = {"delay": "its requests wait for tokens", "drop": "its requests are refused while others want the NPU"}
BURST_NS = 50_000_000
INTERVAL_NS = 1_000_000_000
OTHERS = ""  # the tenant of requests that name none, with the share that nobody has


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """One application that shares the NPU.

    `share`: of the NPU's time, guaranteed while it has work. `burst_ns`: of saved-up time that it may use
    at once. `at_limit`: what happens while it has used its share up and others want the NPU. `borrow`: it
    may use time that nobody else wants. `priority`: weight of its demand where shares are made anew, which
    happens to those that are `cooperative`. `mode`: how its criterion follows its share; `criterion` None
    is that of the network. `accuracy`: the share of right answers that is enough for its mode. `rate_per_s`
    and `slo_ns` are expectations, for simulations and until rates are known. `network`: the one that its
    requests are for, where several share the NPU.
    """

    name: str
    share: float
    priority: float = 1.0
    criterion: Criterion | None = None
    mode: str = "fixed"
    accuracy: float | None = None
    burst_ns: int = BURST_NS
    at_limit: str = "delay"
    borrow: bool = True
    cooperative: bool = False
    rate_per_s: float | None = None
    slo_ns: int | None = None
    network: str = ""

    def __post_init__(self) -> None:
        where = f"tenant '{self.name}'"
        if self.name != OTHERS and not NAME.fullmatch(self.name):
            raise SchedulerError(f"a tenant's name must be letters, digits, '_', '.' and '-', not {self.name!r}")
        for key, value, low, high in (
            ("share", self.share, 0.0, 1.0),
            ("priority", self.priority, 1e-3, 1e3),
            ("rate", self.rate_per_s, 1e-6, 1e9),
            ("accuracy", self.accuracy, 0.0, 1.0),
        ):
            if value is not None and (not _number(value) or not low <= value <= high):
                raise SchedulerError(f"{where}: {key} must be a number in {low:g}..{high:g}, not {value!r:.60}")
        for key, text, allowed in (("at_limit", self.at_limit, AT_LIMIT), ("mode", self.mode, MODES)):
            if not isinstance(text, str) or text not in allowed:
                raise SchedulerError(f"{where}: {key} must be one of {', '.join(allowed)}, not {text!r:.60}")
        if self.accuracy is not None and self.mode == "fixed":
            raise SchedulerError(f"{where}: accuracy is the target of a mode, and its mode is fixed")
        if not 1 <= self.burst_ns <= 10**12:
            raise SchedulerError(f"{where}: burst must be above zero and at most 1000s, not {self.burst_ns} ns")


@dataclass(frozen=True, kw_only=True)
class Tenancy:
    """All tenants of one NPU, the interval at which rates are read, and the load that modes plan for.

    `confidences`: by network the file of its recorded confidences, as it was written down; that of the only
    network is under "". `exit_rates`: by network the share of samples that leaves at each exit. `energy`:
    what all together may spend over time.
    """

    tenants: tuple[Tenant, ...]
    interval_ns: int = INTERVAL_NS
    utilisation: float = 0.9  # of a share that modes spend: at 1 the queue of a random stream has no end
    confidences: Mapping[str, str] = field(default_factory=dict)
    exit_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    energy: PowerBudget | None = None

    def __post_init__(self) -> None:
        if not self.tenants:
            raise SchedulerError("there must be at least one tenant, and there is none")
        names = [tenant.name for tenant in self.tenants]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SchedulerError(f"tenants must have names of their own, and two are called '{twice}'")
        if self.networks and (lost := next((tenant.name for tenant in self.tenants if not tenant.network), None)):
            raise SchedulerError(f"tenant '{lost}' must name its network, as others do")
        total = sum(tenant.share for tenant in self.tenants)
        if total > 1 + 1e-9:
            raise SchedulerError(f"the shares of all tenants must sum to at most 1, not {total:g}")
        if not 0 < self.utilisation <= 1:
            raise SchedulerError(f"the utilisation must lie above 0 and up to 1, not {self.utilisation:g}")

    @cached_property
    def networks(self) -> tuple[str, ...]:
        """The networks that tenants name, in the order of the file; none where they are not distinguished."""
        return tuple(dict.fromkeys(tenant.network for tenant in self.tenants if tenant.network))

    @cached_property
    def all(self) -> tuple[Tenant, ...]:
        """The tenants, and one for the requests that name none, with the share that is left.

        Where tenants name networks there is none, since nobody knows which network it would be for.
        """
        if self.networks or any(tenant.name == OTHERS for tenant in self.tenants):
            return self.tenants
        left = max(0.0, 1 - sum(tenant.share for tenant in self.tenants))
        return (*self.tenants, Tenant(name=OTHERS, share=left))

    def named(self, name: str) -> Tenant:
        """Return a tenant. Raises SchedulerError, naming those that there are."""
        for listed in self.tenants:
            if listed.name == name:
                return listed
        names = ", ".join(tenant.name for tenant in self.tenants)
        raise SchedulerError(f"a tenant must be one of {names}, not '{name:.60}'")

    def with_tenants(self, tenants: Mapping[str, Tenant]) -> Tenancy:
        """Return the tenancy with tenants exchanged for those of the same names. Raises SchedulerError."""
        for name in tenants:
            self.named(name)
        return dataclasses.replace(self, tenants=tuple(tenants.get(tenant.name, tenant) for tenant in self.tenants))


_DURATIONS = {"burst": "burst_ns", "slo": "slo_ns"}
_PLAIN = ("share", "priority", "mode", "at_limit", "borrow", "cooperative")
KEYS = (*_PLAIN, "criteria", "accuracy", *_DURATIONS, "rate", "network")
TABLES = ("tenant", "interval", "utilisation", "confidences", "network", "energy")


def parse_tenants(text: str, source: str = "tenants") -> Tenancy:
    """Read tenants from TOML text. Raises SchedulerError with the file, the tenant and the key."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchedulerError(f"{source} must be TOML: {error}") from None
    try:
        if odd := sorted(set(raw) - set(TABLES)):
            raise SchedulerError(f"there may be {', '.join(TABLES)}, not {', '.join(odd)}")
        rows = raw.get("tenant")
        if not isinstance(rows, Mapping) or not rows or not all(isinstance(row, Mapping) for row in rows.values()):
            raise SchedulerError("there must be a table [tenant.NAME] for each tenant, and there is none")
        more: dict[str, Any] = {}
        if "interval" in raw:
            more["interval_ns"] = parse_duration_ns(_text("interval", raw["interval"]), "interval")
        if "utilisation" in raw:
            if not _number(raw["utilisation"]):
                raise SchedulerError(f"utilisation must be a number, not {raw['utilisation']!r}")
            more["utilisation"] = raw["utilisation"]
        if "energy" in raw:
            more["energy"] = _energy(raw["energy"])
        tenants = tuple(changed(name, row) for name, row in rows.items())
        files, rates = _networks(raw, {tenant.network for tenant in tenants if tenant.network})
        return Tenancy(tenants=tenants, confidences=files, exit_rates=rates, **more)
    except SchedulerError as error:
        raise SchedulerError(f"{source}: {error}") from None


def _energy(row: object) -> PowerBudget:
    """Read the table [energy]: a budget over the idle power, and a battery."""
    if not isinstance(row, Mapping) or set(row) != {"over_idle", "battery"}:
        raise SchedulerError("the table [energy] must have over_idle and battery, and nothing else")
    if not _number(row["over_idle"]):
        raise SchedulerError(f"energy: over_idle must be a number such as 1.3, not {row['over_idle']!r}")
    match = _JOULES.fullmatch(_text("energy: battery", row["battery"]))
    if match is None:
        raise SchedulerError(f"energy: battery must be a number with a unit (mJ or J), not {row['battery']!r}")
    return PowerBudget(over_idle=row["over_idle"], battery_j=float(match[1]) * (1e-3 if match[2] == "mJ" else 1.0))


def _networks(raw: Mapping[str, Any], networks: Collection[str]) -> tuple[dict[str, str], dict[str, tuple[float, ...]]]:
    """Read which file holds the recorded confidences of each network, and its exit rates."""
    files, rates = {}, {}
    if "confidences" in raw:
        if networks:
            raise SchedulerError("confidences must stand in the table [network.NAME] of their network")
        files[""] = _text("confidences", raw["confidences"])
    tables = raw.get("network", {})
    if not isinstance(tables, Mapping) or not all(isinstance(row, Mapping) for row in tables.values()):
        raise SchedulerError("network must be a table [network.NAME] for each network")
    for name, row in tables.items():
        if name not in networks:
            raise SchedulerError(f"network '{name}' must be that of a tenant, and no tenant names it")
        if odd := sorted(map(str, set(row) - {"confidences", "exit_rates"})):
            raise SchedulerError(f"network '{name}' may have confidences and exit_rates, not {', '.join(odd)}")
        if "confidences" in row:
            files[name] = _text(f"network '{name}': confidences", row["confidences"])
        if "exit_rates" in row:
            given = row["exit_rates"]
            if not isinstance(given, list) or not all(_number(share) and 0 <= share <= 1 for share in given):
                raise SchedulerError(f"network '{name}': exit_rates must be shares of 0..1, not {given!r}")
            rates[name] = tuple(map(float, given))
    return files, rates


def changed(name: str, row: Mapping[str, Any], before: Tenant | None = None) -> Tenant:
    """Return a tenant from the keys of its table, those that are missing as before. Raises SchedulerError."""
    where = f"tenant '{name}'"
    if odd := sorted(map(str, set(row) - set(KEYS))):
        raise SchedulerError(f"{where} may have {', '.join(KEYS)}, not {', '.join(odd)[:100]}")
    if before is None and "share" not in row:
        raise SchedulerError(f"{where} must have a share")
    fields: dict[str, Any] = {key: row[key] for key in _PLAIN if key in row}
    for key in ("borrow", "cooperative"):
        if key in fields and type(fields[key]) is not bool:
            raise SchedulerError(f"{where}: {key} must be true or false, not {fields[key]!r:.60}")
    try:
        for key, field in _DURATIONS.items():
            if key in row:
                fields[field] = parse_duration_ns(_text(key, row[key]), key)
        if "criteria" in row:
            fields["criterion"] = parse_criterion(_text("criteria", row["criteria"]))
    except SchedulerError as error:
        raise SchedulerError(f"{where}: {error}") from None
    if "rate" in row:
        fields["rate_per_s"] = row["rate"]
    if "accuracy" in row:
        fields["accuracy"] = row["accuracy"]
    elif fields.get("mode") == "fixed":
        fields["accuracy"] = None  # the target was that of the mode before
    if "network" in row:
        network = _text(f"{where}: network", row["network"])
        if before is not None and network != before.network:
            raise SchedulerError(f"{where}: a tenant keeps its network '{before.network}', so it cannot be {network!r}")
        fields["network"] = network
    return Tenant(name=name, **fields) if before is None else dataclasses.replace(before, **fields)


def described(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant in the keys of its table, with plain JSON types; what is not set is left out."""
    fields: dict[str, Any] = {key: getattr(tenant, key) for key in _PLAIN}
    fields["burst"] = f"{tenant.burst_ns}ns"
    if tenant.network:
        fields["network"] = tenant.network
    if tenant.criterion is not None:
        fields["criteria"] = tenant.criterion.text
    if tenant.accuracy is not None:
        fields["accuracy"] = tenant.accuracy
    if tenant.rate_per_s is not None:
        fields["rate"] = tenant.rate_per_s
    if tenant.slo_ns is not None:
        fields["slo"] = f"{tenant.slo_ns}ns"
    return fields


def told(tenancy: Tenancy) -> dict[str, Any]:
    """Return a tenancy with plain JSON types, for logs; recorded confidences and exit rates are left out."""
    budget = tenancy.energy
    energy = None if budget is None else {"over_idle": budget.over_idle, "battery_j": budget.battery_j}
    return {
        "interval_ns": tenancy.interval_ns,
        "utilisation": tenancy.utilisation,
        "energy": energy,
        "tenants": {tenant.name: described(tenant) for tenant in tenancy.tenants},
    }


def read_told(raw: Mapping[str, Any]) -> Tenancy:
    r"""Return the tenancy that `told` told. Raises SchedulerError, KeyError, TypeError.

    >>> one = parse_tenants("[tenant.a]\nshare = 0.5\nslo = '3ms'")
    >>> read_told(told(one)) == one
    True
    """
    energy = raw["energy"]
    return Tenancy(
        tenants=tuple(changed(name, row) for name, row in raw["tenants"].items()),
        interval_ns=int(raw["interval_ns"]),
        utilisation=float(raw["utilisation"]),
        energy=None if energy is None else PowerBudget(over_idle=energy["over_idle"], battery_j=energy["battery_j"]),
    )


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise SchedulerError(f"{key} must be a text in quotes, not {value!r}")
    return value


def _number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 <= value <= 1e300  # type: ignore[operator]
