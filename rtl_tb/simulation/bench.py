"""Runs one bench by hand: `python -m fluidnpu.rtl_tb.simulation.bench TOP [NAME=VALUE ...]`.

Prints the tests that passed; the exit code is 1 when one failed. A parameter that is not given has its value
of `UNITS`, and the bench is told all of them. Benches that play whole layers hold for the array of their test
only.

>>> sorted(UNITS)[:2]
['axi_masters_top', 'axi_striped_masters_top']
"""

from __future__ import annotations

import argparse
import re
import sys

from ..common.sources import sources, texts_of
from ..errors import SimulationError
from .model import Model, run
from .units import UNITS


def parameters_of(top: str) -> list[str]:
    """Names of a top's parameters.

    >>> parameters_of("common_fifo")
    ['Width', 'Depth']
    """
    text = {**sources(), **texts_of("benches")}[f"{top}.sv"]
    return re.findall(r"^\s*parameter\s+(?:\w+\s+)*(\w+)\s*=", text, re.M)


def main() -> None:
    """Build, run, print; the exit code tells whether all tests passed."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.simulation.bench", description="one bench of the data plane by hand"
    )
    parser.add_argument("top", metavar="TOP", help=f"one of {', '.join(sorted(UNITS))}")
    parser.add_argument(
        "parameters", metavar="NAME=VALUE", nargs="*", default=[], help="a parameter of TOP and its number"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the bench's random numbers, 1 by default")
    chosen = parser.parse_args()
    if chosen.top not in UNITS:
        parser.error(f"TOP must be one of {', '.join(sorted(UNITS))}, not {chosen.top}")
    known, given = parameters_of(chosen.top), {}
    for item in chosen.parameters:
        match = re.fullmatch(r"(\w+)=(\d+)", item)
        if match is None or match[1] not in known:
            parser.error(f"a parameter of {chosen.top} must be NAME=NUMBER with NAME of {', '.join(known)}, not {item}")
        given[match[1]] = int(match[2])
    model = Model(top=chosen.top, parameters={**UNITS[chosen.top], **given})
    try:
        print("\n".join(run(model, seed=chosen.seed)))
    except SimulationError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
