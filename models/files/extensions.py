"""Finds what installed packages bring by entry points, and loads it when it is first used.

A group of entry points is one kind of extension. Shipped names come first, so no package takes one over; a
name that two packages bring is refused. Nothing is loaded to list a group.

>>> from .extensions import ExtensionGroup
>>> group = ExtensionGroup("fluidnpu.examples", "rule", "a list", lambda name, thing: bool(thing), ValueError)
>>> group.names, group.find("mine")
((), None)
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """One entry point of a package: its group and name, and where it is loaded from."""

    group: str
    name: str
    value: str  # MODULE:OBJECT
    package: str
    version: str

    @classmethod
    def of(cls, entry: EntryPoint) -> Extension:
        """Describe an entry point."""
        facts: Any = entry.dist.metadata if entry.dist is not None else {}
        package, version = (facts["Name"], facts["Version"]) if "Name" in facts else ("?", "?")
        return cls(group=entry.group, name=entry.name, value=entry.value, package=package, version=version)


@dataclass(frozen=True)
class ExtensionGroup(Generic[T]):
    """One kind of extension.

    `group`: of the entry points. `noun`: the kind, for messages. `must`: what an entry must be, and `fits`
    tells it from a name and what was loaded. `error`: what is raised, with one sentence. `shipped`: names
    that no package can take.
    """

    group: str
    noun: str
    must: str
    fits: Callable[[str, Any], bool]
    error: type[Exception]
    shipped: Collection[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that packages add, sorted."""
        return tuple(sorted(set(_entries(self.group, tuple(sys.path))) - set(self.shipped)))

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """All entries of the group, sorted by name and package, with those that cannot be used."""
        entries = _entries(self.group, tuple(sys.path))
        every = (Extension.of(entry) for name in entries for entry in entries[name])
        return tuple(sorted(every, key=lambda extension: (extension.name, extension.package)))

    def find(self, name: str) -> T | None:
        """Load what a name stands for; None where no package brings it.

        Raises `error` where two packages bring it, where it cannot be loaded, and where it is something else.
        """
        entries = () if name in self.shipped else _entries(self.group, tuple(sys.path)).get(name, ())
        if not entries:
            return None
        if len(entries) > 1:
            packages = " and ".join(sorted(f"'{Extension.of(entry).package}'" for entry in entries))
            raise self.error(
                f"the {self.noun} '{name}' must come from one package, and {packages} bring it ({self.group})"
            )
        if entries[0].pattern.match(entries[0].value) is None:
            raise self.error(f"{self.title(name)} must load from MODULE:OBJECT, not from '{entries[0].value}'")
        try:
            with redirect_stdout(sys.stderr):  # standard output may be one object of JSON
                loaded: T = entries[0].load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a package may do anything when it is loaded; a panic of Rust is no Exception
            raise self.failure(name, f"must load from '{entries[0].value}'", error) from error
        if not self.fits(name, loaded):
            raise self.error(f"{self.title(name)} must be {self.must}, and '{entries[0].value}' is none")
        return loaded

    def title(self, name: str) -> str:
        """Return kind, name, package and group of an extension, for messages."""
        entries = _entries(self.group, tuple(sys.path)).get(name, ())
        package = f" of package '{Extension.of(entries[0]).package}'" if entries else ""
        return f"the {self.noun} '{name}'{package} ({self.group})"

    def failure(self, name: str, must: str, error: BaseException) -> Exception:
        """Return the error for an extension whose code failed: what it must do and what came, on one line."""
        came = " ".join(f"{type(error).__name__}: {error}".split())
        return self.error(f"{self.title(name)} {must}, and that failed: {came}")

    def problem(self, extension: Extension) -> str:
        """Return why an extension cannot be used, in a sentence; empty where it can. Loads it."""
        if extension.name in self.shipped:
            return f"the {self.noun} '{extension.name}' is fluidnpu's own, and no package can replace it"
        try:
            self.find(extension.name)
        except self.error as error:
            return str(error)
        return ""


@lru_cache(maxsize=64)
def _entries(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entries of a group by name; `path`: `sys.path`, in which packages are looked for."""
    from importlib.metadata import entry_points  # slow to load, and help needs none of it

    by_name: dict[str, list[EntryPoint]] = defaultdict(list)
    for entry in entry_points(group=group):
        by_name[entry.name].append(entry)
    return {name: tuple(entries) for name, entries in by_name.items()}
