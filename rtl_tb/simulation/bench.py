"""Runs one bench by hand and prints PASS or FAIL for each of its tests.

    python -m fluidnpu.rtl_tb.simulation.bench MODULE [NAME=VALUE ...] [--design DESIGN.json] [--waves]

The exit code is 0 when all tests passed, 1 when one failed, 2 for wrong arguments.

>>> numbers(["Width=4", "Depth=0x10"])
{'Width': 4, 'Depth': 16}
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fluidnpu.dse import Design, DseError

from ..common.command import ended
from ..errors import ParameterError, RtlError
from .model import BenchRun, play
from .setups import BenchSetup, known_top, parameters_of, setup, tests_of
from .units import UNITS, WHOLE

PROG = "python -m fluidnpu.rtl_tb.simulation.bench"
HELP = """
A parameter that is not given has its default, or that of the array of --design. What a bench plays follows:
TP=6 gives layers for six multipliers a tree.

The queue with other sizes, then the sequencer of a design of one's own, then a test with its waveform:
  python -m fluidnpu.rtl_tb.simulation.bench common_fifo Width=4 Depth=3
  python -m fluidnpu.rtl_tb.simulation.bench fluidnpu_sequencer --design design.json
  python -m fluidnpu.rtl_tb.simulation.bench fluidnpu_data_plane --tests one_plain --waves

Whole layers of a design, data plane and core together, with the exact model's cycles beside:
  python -m fluidnpu.rtl_tb.npu.layers --help
"""


def numbers(items: Sequence[str]) -> dict[str, int]:
    """Read NAME=VALUE of each item. Raises ParameterError of one sentence."""
    given: dict[str, int] = {}
    for item in items:
        match = re.fullmatch(r"(\w+)=(0x[0-9a-fA-F]+|\d+)", item)
        if match is None:
            raise ParameterError(f"a parameter must be NAME=NUMBER, such as Depth=3, not {item}")
        value = int(match[2], 0)
        if value >= 1 << 31:
            raise ParameterError(f"a parameter must be less than 2147483648, not {item}")
        if match[1] in given:
            raise ParameterError(f"a parameter must be given once, not {match[1]} twice")
        given[match[1]] = value
    return given


def read_design(path: str) -> Design:
    """Read a design file. Raises ParameterError of one sentence."""
    try:
        return Design.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ParameterError(f"{path} could not be read: {why}") from None
    except DseError as error:
        raise ParameterError(f"{path} must be a design file of `fluidnpu dse`: {error}") from None


def listing() -> str:
    """A line for each module with a bench: its parameters and their defaults."""
    lines = []
    for top in (*UNITS, *WHOLE):
        usual = setup(top).model.parameters
        lines.append(f"{top:26} {' '.join(f'{name}={usual[name]}' for name in parameters_of(top) if name in usual)}")
    return "\n".join(lines)


def report(ready: BenchSetup, *, seed: int, tests: str | None) -> BenchRun:
    """Build and run a bench and print how it ended."""
    model, began = ready.model, time.monotonic()
    shown = " ".join(f"{name}={value}" for name, value in model.parameters.items())
    print(f"{model.top} {shown}", flush=True)
    model.build()
    built, began = time.monotonic() - began, time.monotonic()
    done = play(model, seed=seed, tests=tests, env=ready.env)
    for case in done.cases:
        print(f"{'PASS' if case.passed else 'FAIL'}  {case.seconds:8.2f} s  {case.name}")
        for line in case.message.splitlines():
            print(f"      {line}")
    passed, count = len(done.cases) - len(done.failed), len(done.cases)
    print(f"{passed} of {count} tests passed; built in {built:.1f} s, ran in {time.monotonic() - began:.1f} s")
    print(f"log: {done.log}")
    if done.waveform:
        print(f"waveform: {done.waveform}")
    elif done.failed:
        print(f"for a waveform of the failure: --waves --tests '^{done.failed[0]}$'")
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Run the bench of one module, and print PASS or FAIL for each of its tests.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", metavar="MODULE", nargs="?", help="a module with a bench (--list)")
    parser.add_argument(
        "parameters", metavar="NAME=VALUE", nargs="*", default=[], help="a parameter of MODULE and its number"
    )
    parser.add_argument(
        "--design", metavar="FILE", help="take the parameters and the layers from a design of `fluidnpu dse`"
    )
    parser.add_argument("--tests", metavar="REGEX", help="run only the tests whose names match")
    parser.add_argument("--seed", type=int, default=1, help="of the bench's random numbers, 1 by default")
    parser.add_argument("--waves", action="store_true", help="record a waveform (FST), also of a test that fails")
    parser.add_argument("--list", action="store_true", help="show the modules and their default parameters and stop")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print(listing())
        return 0
    if chosen.module is None:
        parser.error("MODULE must be given; --list shows those with a bench")
    try:
        top = known_top(chosen.module)
        _check_filter(top, chosen.tests, chosen.seed)
        design = read_design(chosen.design) if chosen.design else None
        done = report(
            setup(top, numbers(chosen.parameters), design, waves=chosen.waves), seed=chosen.seed, tests=chosen.tests
        )
    except ParameterError as error:
        parser.error(str(error))
    except (RtlError, OSError) as error:
        print(f"FAIL  {error}", file=sys.stderr)
        return 1
    return int(bool(done.failed))


def _check_filter(top: str, tests: str | None, seed: int) -> None:
    try:
        selected = [name for name in tests_of(top) if re.search(tests or "", name)]
    except re.error as error:
        raise ParameterError(f"--tests must be a regular expression ({error}), not {tests}") from None
    if not selected:
        raise ParameterError(f"--tests must match one of {', '.join(tests_of(top))}, not {tests}")
    if not 0 <= seed < 1 << 32:
        raise ParameterError(f"--seed must be a number of 32 bits, not {seed}")


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.simulation.bench"))
