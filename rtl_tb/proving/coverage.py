"""Prints functional coverage: every bin with its hits, and the bins that are still open.

    python -m fluidnpu.rtl_tb.proving.coverage data_plane --run
    python -m fluidnpu.rtl_tb.proving.coverage npu --open

A run stores its hits below the build folder; without `--run` the last ones are shown. The exit code is 1 when
a bin is open, 2 for wrong arguments.

>>> hits = CoverageRecord(suite="npu", array="<1, 2, 3>", made="by hand", wanted=("a", "b"), hits={"a": 3})
>>> hits.open
('b',)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fluidnpu.dse import Design

from ..common.cache import build_root
from ..common.command import ended
from ..data_plane import coverage as bins
from ..errors import ParameterError, RtlError
from ..simulation.bench import read_design
from ..simulation.model import play, run_folder
from ..simulation.setups import setup

PROG = "python -m fluidnpu.rtl_tb.proving.coverage"
TESTS = "random_layers|every_plan|soft_reset"  # of the data plane's bench: those that meet its bins
PROGRAMS = 10
ROUNDS = 60  # of the campaign at most, until every bin is met


@dataclass(frozen=True, kw_only=True)
class CoverageRecord:
    """The hits of a run: which suite, on which array, made how, and the bins that must be met."""

    suite: str
    array: str
    made: str
    wanted: tuple[str, ...]
    hits: Mapping[str, int]

    @property
    def open(self) -> tuple[str, ...]:
        """Bins that were not met."""
        return tuple(name for name in self.wanted if not self.hits.get(name))

    @classmethod
    def path(cls, suite: str) -> Path:
        """The file of a suite's last run."""
        return build_root() / "coverage" / f"{suite}.json"

    @classmethod
    def read(cls, suite: str) -> CoverageRecord:
        """Read the last run of a suite. Raises ParameterError when there is none."""
        try:
            raw = json.loads(cls.path(suite).read_text())
            return cls(**{**raw, "wanted": tuple(raw["wanted"])})
        except FileNotFoundError:
            raise ParameterError(f"a run of {suite} must be stored, and there is none: make one with --run") from None
        except (ValueError, TypeError, KeyError):
            raise ParameterError(f"{cls.path(suite)} must hold a run, and it does not: make one with --run") from None

    def write(self) -> None:
        """Store this run as the suite's last one."""
        path = self.path(self.suite)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)


def data_plane(design: Design | None, seeds: Sequence[int]) -> CoverageRecord:
    """Run the data plane's bench and gather its bins; the core is played in Python.

    Raises RtlError where a test fails.
    """
    from ..data_plane.environment.jobs import array_under_test, bench_design, sizes_of

    given = {} if design else {"TR": 9, "TP": 7, "TC": 10, "BMax": 8, "WeightSlots": 3, "OutWords": 8, "PortBytes": 8}
    ready = setup("fluidnpu_data_plane", given, design)
    array = (
        bench_design(json.loads(ready.env["SIZES"])) if design else array_under_test(**json.loads(ready.env["SIZES"]))
    )
    env = {**ready.env, "PROGRAMS": str(PROGRAMS)}
    hits: Counter[str] = Counter()
    for seed in seeds:
        done = play(ready.model, seed=seed, tests=TESTS, env=env)
        if done.failed:
            raise RtlError(f"coverage counts only what is right, and {', '.join(done.failed)} failed; log: {done.log}")
        hits.update(bins.merge([run_folder(ready.model, seed=seed, tests=TESTS, env=env)]))
    sizes = sizes_of(array)
    return CoverageRecord(
        suite="data_plane",
        array=f"<{sizes['t_r']}, {sizes['t_p']}, {sizes['t_c']}>, b_max {sizes['b_max']}",
        made=f"seeds {', '.join(map(str, seeds))}",
        wanted=tuple(sorted(bins.required(array))),
        hits=dict(hits),
    )


def npu(design: Design | None, seeds: Sequence[int]) -> CoverageRecord:
    """Play the campaign of the whole NPU and gather what was sampled in its RTL."""
    from ..data_plane.environment.jobs import bench_design, sizes_of
    from ..npu import coverage as sampled
    from ..npu.campaign import campaign
    from ..npu.world import ARRAY

    array = bench_design(sizes_of(design)) if design else ARRAY
    hits: Counter[str] = Counter()
    jobs = cycles = 0
    for seed in seeds:
        result = campaign(seed, design=array, until_closed=ROUNDS)
        hits.update(result.hits)
        jobs, cycles = jobs + result.jobs, cycles + result.cycles
    return CoverageRecord(
        suite="npu",
        array=f"<{array.t_r}, {array.t_p}, {array.t_c}>, b_max {array.b_max}",
        made=f"seeds {', '.join(map(str, seeds))}: {jobs} jobs, {cycles} simulated cycles",
        wanted=tuple(sorted(sampled.required(array))),
        hits=dict(hits),
    )


SUITES: Mapping[str, Callable[[Design | None, Sequence[int]], CoverageRecord]] = {"data_plane": data_plane, "npu": npu}


def table(record: CoverageRecord, only_open: bool = False) -> str:
    """Render a record: a line for each bin, in groups, then the sum."""
    lines = [f"{record.suite} on {record.array}, {record.made}"]
    for name in record.wanted:
        count = record.hits.get(name, 0)
        if not count or not only_open:
            lines.append(f"{count or 'OPEN':>9}  {name}")
    more = sorted(set(record.hits) - set(record.wanted))
    if more and not only_open:
        lines += ["also met, not demanded:", *(f"{record.hits[name]:>9}  {name}" for name in more)]
    met, wanted = len(record.wanted) - len(record.open), len(record.wanted)
    lines.append(f"functional coverage: {met} of {wanted} bins" + (f", {len(record.open)} open" if record.open else ""))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show a run, or make one first; returns the exit code."""
    parser = argparse.ArgumentParser(prog=PROG, description="Show the bins of functional coverage with their hits.")
    parser.add_argument(
        "suite", metavar="SUITE", nargs="?", default="data_plane", help=f"{' or '.join(SUITES)} (default data_plane)"
    )
    parser.add_argument(
        "--run", action="store_true", help="run the suite first (minutes); without it the last run is shown"
    )
    parser.add_argument("--seeds", default="11,12,13", metavar="N,N", help="of the run, 11,12,13 by default")
    parser.add_argument("--design", metavar="FILE", help="run on the array of a design of `fluidnpu dse`")
    parser.add_argument("--open", action="store_true", help="show only the bins that were not met")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.suite not in SUITES:
            raise ParameterError(f"SUITE must be {' or '.join(SUITES)}, not '{chosen.suite}'")
        if chosen.run:
            began = time.monotonic()
            record = SUITES[chosen.suite](read_design(chosen.design) if chosen.design else None, _seeds(chosen.seeds))
            record.write()
            print(f"ran in {time.monotonic() - began:.1f} s", file=sys.stderr)
        else:
            record = CoverageRecord.read(chosen.suite)
    except ParameterError as error:
        parser.error(str(error))
    except (RtlError, OSError) as error:
        print(f"FAIL  {error}", file=sys.stderr)
        return 1
    print(json.dumps({**asdict(record), "open": record.open}) if chosen.json else table(record, chosen.open))
    return int(bool(record.open))


def _seeds(text: str) -> list[int]:
    if not all(part.strip().isdigit() for part in text.split(",")):
        raise ParameterError(f"--seeds must be whole numbers such as 11,12, not {text}")
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.proving.coverage"))
