"""Folders that cache builds, proofs and netlists by digest, and the lock that guards one of them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def build_root() -> Path:
    """The folder of all builds and logs: `$FLUIDNPU_BUILD/rtl`, by default `build/rtl`."""
    return Path(os.environ.get("FLUIDNPU_BUILD", "build")).resolve() / "rtl"


def digest(*parts: object) -> str:
    """Sixteen hexadecimal digits over the printed form of `parts`.

    >>> digest("a", 1) == digest("a", 1) != digest("a", 2)
    True
    """
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@cache
def versions(*packages: str) -> tuple[str, ...]:
    """The versions of installed packages, "none" for one that is not: another tool may give another answer.

    >>> versions("no such package")
    ('none',)
    """
    entries = []
    for package in packages:
        try:
            entries.append(version(package))
        except PackageNotFoundError:
            entries.append("none")
    return tuple(entries)


@cache
def compiler_version() -> str:
    """The first line that the C++ compiler says of itself; "none" without one."""
    compiler = os.environ.get("CXX", "g++")
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return done.stdout.partition("\n")[0]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: the second process with the same build waits for the first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
