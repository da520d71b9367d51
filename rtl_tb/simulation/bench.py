"""One bench by hand: `python -m fluidnpu.rtl_tb.simulation.bench TOP [NAME=VALUE ...]` prints the tests that passed; the exit code is 1 when one failed.

A parameter that is not given is the one of the bench's own test, and the bench is told all of them. Benches that play whole layers know one
array only: they hold for the array of their test.

>>> sorted(BY_HAND)[:2]
['axi_masters_top', 'axi_striped_masters_top']
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from importlib.resources import files

from .units import UNITS, Unit
from .model import Model, SimulationError, run
from ..common.sources import sources

BY_HAND: Mapping[str, Unit] = {
    **UNITS,
    "axi_masters_top": Unit(bench="masters", parameters={"DataBytes": 8, "MaxBurst": 16, "QueueBeats": 32}),
    "axi_striped_masters_top": Unit(bench="stripes", parameters={"DataBytes": 16, "MaxBurst": 16, "Ports": 4}),
    "fluidnpu_batching_engine": Unit(bench="engine", parameters={"BMax": 4, "Layers": 3}),
    "fluidnpu_regs": Unit(bench="regs", parameters={}),
}


def _harness(top: str) -> Mapping[str, str]:
    """The file of `formal/` that holds a top which is no module of the RTL."""
    if f"{top}.sv" in sources():
        return {}
    return {f"{top}.sv": files("fluidnpu.rtl_tb").joinpath("formal", f"{top}.sv").read_text()}


def parameters_of(top: str) -> list[str]:
    """Names of a top's parameters.

    >>> parameters_of("common_fifo")
    ['Width', 'Depth']
    """
    text = {**sources(), **_harness(top)}[f"{top}.sv"]
    return re.findall(r"^\s*parameter\s+(?:\w+\s+)*(\w+)\s*=", text, re.M)


def main() -> None:
    """Build, run, print."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.simulation.bench", description="one bench of the data plane by hand"
    )
    parser.add_argument("top", metavar="TOP", help=f"one of {', '.join(sorted(BY_HAND))}")
    parser.add_argument(
        "parameters", metavar="NAME=VALUE", nargs="*", default=[], help="a parameter of TOP and its number"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the bench's random numbers, 1 by default")
    chosen = parser.parse_args()
    if chosen.top not in BY_HAND:
        parser.error(f"TOP must be one of {', '.join(sorted(BY_HAND))}, not {chosen.top}")
    known, given = parameters_of(chosen.top), {}
    for item in chosen.parameters:
        match = re.fullmatch(r"(\w+)=(\d+)", item)
        if match is None or match[1] not in known:
            parser.error(f"a parameter of {chosen.top} must be NAME=NUMBER with NAME of {', '.join(known)}, not {item}")
        given[match[1]] = int(match[2])
    unit = BY_HAND[chosen.top]
    model = Model(top=chosen.top, parameters={**unit.parameters, **given}, harness=tuple(_harness(chosen.top)))
    try:
        print("\n".join(run(model, unit.bench, seed=chosen.seed, tests=unit.tests, env=unit.env)))
    except SimulationError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
