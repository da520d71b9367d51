"""The places in Linux' file system where a board shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Places:
    """Paths of devices and of their attributes; a test names look-alikes."""

    memory: Path = Path("/dev/mem")
    devices: Path = Path("/dev")
    classes: Path = Path("/sys/class")
    compatible: Path = Path("/proc/device-tree/compatible")


BOARD = Places()
