"""Derives the raw paths of open designs that the clock model is calibrated on.

    python benchmarks/clock_paths.py CHECKOUTS

`CHECKOUTS/OWNER/NAME` must hold each repository of rtl_tb/synthesis/clock_designs.toml at its commit. Yosys
synthesises each design as `make timing` does our own; its longest path on each fabric goes to
rtl_tb/synthesis/clock_paths.json, and the held-out errors of the model that follows are printed. Minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fluidnpu.rtl_tb.synthesis.clock import designs, model, report, write_paths
from fluidnpu.rtl_tb.synthesis.netlists import foreign_paths


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, help="folder of the designs' sources, OWNER/NAME below it")
    given = parser.parse_args()
    found = {}
    for design in designs():
        folder = given.checkouts / design.repository.removeprefix("github.com/")
        if not folder.is_dir():
            print(f"{folder} must hold {design.repository} at {design.commit}", file=sys.stderr)
            return 2
        print(design.name, file=sys.stderr, flush=True)
        found[design.name] = foreign_paths(design, folder)
    write_paths(found)
    print(report(model()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
