"""The environment of the processes that a fleet starts: boards, fronts, clusters, measurements."""

from __future__ import annotations

import os
import sys

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
OUR_OWN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")  # what a service manager told this process alone


def environment(*, one_thread: bool = False) -> dict[str, str]:
    """Return this process's environment for a child that finds the same packages; `one_thread`: for NumPy."""
    threads = ONE_THREAD if one_thread else {}
    ours = {name: text for name, text in os.environ.items() if name not in OUR_OWN}
    return {**ours, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
