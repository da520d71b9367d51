"""Make what several default tests share, before they start: simulators, compiled cores, prepared tools.

    python -m workshop.builds [--jobs N]

The rooms' tests list their own: a file `tests/ROOM/*_builds.py` gives its parts in `shared()`. All of them go
below `$FLUIDNPU_BUILD` (`build` by default) and are named by a digest of sources and tools, so that what is
there already takes no time. Exit code 1 when one fails; its last lines are printed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from .sources import ROOT

TOLD_LINES = 25  # of a build that failed


def _no() -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class BuildPart:
    """One build: what makes it, and whether it is there; without an answer `make` itself sees that."""

    name: str
    make: Callable[[], object]
    there: Callable[[], bool] = _no


def parts() -> Iterator[BuildPart]:
    """Give the parts of every room's tests."""
    for path in sorted(set((ROOT / "tests").glob("*/*_builds.py")) - set((ROOT / "tests").glob("*/test_*"))):
        sys.path.insert(0, str(path.parent))
        yield from importlib.import_module(path.stem).shared()


def made(part: BuildPart) -> tuple[str, str]:
    """Make a part unless it is there: (a few words, the last lines of a failure or nothing)."""
    if part.there():
        return "cached", ""
    began = time.monotonic()
    try:
        part.make()
    except Exception as error:  # of any tool, told below its name
        return "FAILED", "\n".join((str(error) or repr(error)).splitlines()[-TOLD_LINES:])
    return f"{time.monotonic() - began:.1f} s", ""


def build(listed: Sequence[BuildPart], jobs: int = 2) -> int:
    """Make parts, `jobs` at a time, and print a line for each; returns the number that failed."""
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        asked = {pool.submit(made, part): part for part in listed}
        for number, done in enumerate(as_completed(asked), 1):
            words, lines = done.result()
            print(f"{number:3} of {len(listed)}  {asked[done].name}  {words}", flush=True)
            if lines:
                failed += 1
                print(lines, flush=True)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m workshop.builds", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="builds at a time, 2 by default")
    return 1 if build(list(parts()), parser.parse_args(arguments).jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
