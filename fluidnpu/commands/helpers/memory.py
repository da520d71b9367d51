"""The memory that a command will need beside the memory that there is, so that it can refuse at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ...errors import UsageError

MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Give the memory that a new process could use, or None where the system does not say.

    The least of what is free, the limit of the control group, and the limit of this process.
    """
    limits = [value for value in (_free(), _group_limit(), _process_limit()) if value is not None]
    return min(limits, default=None)


def refuse_above(needed: int, what: str, remedy: str) -> None:
    """Refuse work that needs more memory than there is. Raises UsageError.

    >>> refuse_above(10, "this", "less of it")
    >>> refuse_above(10**18, "all of it", "take less")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fluidnpu.errors.UsageError: all of it would need about 909495 TiB of memory, and ... are free: take less
    """
    free = available_bytes()
    if free is not None and needed > free:
        raise UsageError(
            f"{what} would need about {readable(needed)} of memory, and {readable(free)} are free: {remedy}"
        )


def readable(size: int) -> str:
    """Write bytes with a unit.

    >>> readable(3 << 30), readable(5000)
    ('3.0 GiB', '4.9 KiB')
    """
    value, units = float(size), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units[:-1]:
        if value < 1024:
            return f"{value:.3g} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.0f} {units[-1]}"


def _free() -> int | None:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        return None


def _group_limit() -> int | None:
    """What a container may use and does not yet (cgroup v2)."""
    try:
        folder = Path("/sys/fs/cgroup")
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # "max" is no limit
        return None


def _process_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft
