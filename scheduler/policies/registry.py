"""Policies by name: `make_policy("adaptive:timeout=18ms")`.

Parameters follow the name, separated by colons; `anytime=3%`, `shed=1` and `drain=1` fit every policy.

>>> make_policy("greedy:b_max=4").b_max
4
>>> make_policy("fluid:anytime=3%").share
0.03
>>> make_policy("lifo")
Traceback (most recent call last):
fluidnpu.scheduler.errors.SchedulerError: policy must be one of adaptive, ..., turns, not 'lifo'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fluidnpu.models.files import ExtensionGroup

from ..errors import SchedulerError
from ..policy import Policy
from .drain import Drain
from .entry import Entry, parse_flag, parse_percent
from .names import POLICY_FILES
from .setting import Setting
from .wrappers.anytime import Anytime
from .wrappers.draining import Draining
from .wrappers.shedding import Shedding


class Registry(Mapping[str, Entry]):
    """The entries of the policies by name; a policy's file is loaded when its entry is asked for."""

    def __getitem__(self, name: str) -> Entry:
        entry: Entry = import_module(POLICY_FILES[name], __package__).ENTRIES[name]
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(POLICY_FILES)

    def __len__(self) -> int:
        return len(POLICY_FILES)


REGISTRY = Registry()
POLICY_EXTENSIONS: ExtensionGroup[Entry] = ExtensionGroup(
    "fluidnpu.policies",
    "policy",
    "an Entry under a name without ':' and ','",
    lambda name, thing: isinstance(thing, Entry) and not set(":,") & set(name),
    SchedulerError,
    POLICY_FILES,
)


def find_entry(name: str) -> Entry | None:
    """Return the entry of a policy, of fluidnpu or of a package; None for a name that nobody knows.

    Raises SchedulerError for a package that cannot be used.
    """
    return REGISTRY[name] if name in REGISTRY else POLICY_EXTENSIONS.find(name)


@dataclass(frozen=True)
class Spec:
    """A policy's text, taken apart; `arguments` are those of the entry's factory."""

    text: str
    entry: Entry
    arguments: Mapping[str, Any]
    share: float | None
    shed: bool
    drains: bool


def parse_policy(text: str) -> Spec:
    """Take `name` or `name:key=value:key=value` apart. Raises SchedulerError in one sentence."""
    text = text.strip()
    name, *parameters = text.split(":")
    entry = find_entry(name)
    if entry is None:
        names = ", ".join(sorted([*REGISTRY, *POLICY_EXTENSIONS.names]))
        raise SchedulerError(f"policy must be one of {names}, not {name!r}")
    arguments: dict[str, Any] = {"name": text}
    share, shed, drains = None, False, entry.drains
    given: set[str] = set()
    for part in parameters:
        key, equals, value = part.partition("=")
        if key in given:
            raise SchedulerError(f"a policy's parameter must be given once, and '{text}' gives '{key}' again")
        given.add(key)
        if equals and key == "anytime":
            share = parse_percent(key, value)
        elif equals and key == "shed":
            shed = parse_flag(key, value)[key]
        elif equals and key == "drain":
            drains = parse_flag(key, value)[key]
        elif equals and key in entry.parameters:
            with _packages_code(name, f"must parse its parameter {part!r}"):
                arguments |= entry.parameters[key](key, value)
        else:
            names = ", ".join(sorted({*entry.parameters, "anytime", "drain", "shed"}))
            raise SchedulerError(
                f"parameters of policy '{name}' must be key=value with a key among: {names}; not {part!r}"
            )
    if entry.tuned:
        arguments["anytime"] = share is not None
    if entry.within:
        arguments["drain"] = drains
    return Spec(text=text, entry=entry, arguments=arguments, share=share, shed=shed, drains=drains)


def make_policy(text: str, setting: Setting | None = None) -> Policy:
    """Make a policy from `name` or `name:key=value:key=value`; its `name` is the text.

    `setting` is needed by the policies that are solved beforehand. Raises SchedulerError in one sentence.
    """
    spec = parse_policy(text)
    entry = spec.entry
    if setting is None:
        if entry.solved or spec.drains:
            raise SchedulerError(f"policy '{spec.text}' is solved for a rate and an objective, so it needs both")
        policy = _made(spec)
    else:
        policy = _made(spec, setting) if entry.solved else _made(spec)
        if spec.drains and not entry.within:
            policy = Draining(policy, Drain(setting), name=spec.text)
    if spec.share is not None:
        policy = Anytime(policy, spec.share, name=spec.text)
    return Shedding(policy, name=spec.text) if spec.shed else policy


def _made(spec: Spec, *settings: Setting) -> Policy:
    """Call a policy's factory. Raises SchedulerError."""
    with _packages_code(spec.text.partition(":")[0], "must make a policy"):
        policy: Policy = spec.entry.make(*settings, **spec.arguments)
    return policy


@contextmanager
def _packages_code(name: str, must: str) -> Iterator[None]:
    """Raise SchedulerError for what the code of a package's policy raises."""
    try:
        yield
    except Exception as error:  # a package may raise anything
        if name in REGISTRY or isinstance(error, SchedulerError):
            raise
        raise POLICY_EXTENSIONS.failure(name, must, error) from error
