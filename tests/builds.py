"""Make what several default tests share, before they start: simulators, compiled cores, prepared tools.

    python tests/builds.py

A file `tests/ROOM/*_builds.py` gives its parts in `shared()`: a name, what makes it, and whether it is there.
All of them go below `$FLUIDNPU_BUILD` (`build` by default), named by a digest of sources and tools.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

JOBS = 2


def main() -> None:
    """Make the parts that are missing, `JOBS` at a time; the first failure ends it."""
    files = sorted(Path(__file__).resolve().parent.glob("*/*_builds.py"))
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), *(str(path.parent) for path in files)]

    def make(part: tuple[str, Callable[[], object], Callable[[], bool]]) -> None:
        name, build, there = part
        if not there():
            print(f"building {name}", flush=True)
            build()

    parts = [part for path in files for part in importlib.import_module(path.stem).shared()]
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(make, parts))


if __name__ == "__main__":
    main()
