"""The name of this machine's processor, which measurements are told with."""

from __future__ import annotations

import platform


def processor_name() -> str:
    """Return the model name of the first processor, or its architecture where the system tells no name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine() or "an unknown processor"
