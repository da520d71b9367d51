"""Time of the policies: microseconds of one decision, and a whole comparison of all that are registered.

    python benchmarks/policies.py cost matrix --seeds 30 --processes 2 --out build/policies

Parts: `cost` (microseconds of a decision, in plain Python) and `matrix` (every registered policy on every row
of Table II of Fluid Batching, solving included, and decisions a second). The tables themselves, with goals,
frontier, drift, sweeps, LazyBatching, accuracy and co-design, are the study: `fluidnpu simulate --study
fluid-batching`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fluidnpu.dse import has_numba
from fluidnpu.scheduler import Action, Policy, View, compare, make_policy
from fluidnpu.scheduler.comparison import Local, Source, serve_stream
from fluidnpu.scheduler.policies import REGISTRY
from fluidnpu.studies.fluid_batching.paper import table2_rows
from fluidnpu.studies.fluid_batching.settings import ANYTIME

EVERY = (*("adaptive:timeout=18ms" if name == "adaptive" else name for name in REGISTRY), *ANYTIME)
COST_REQUESTS = 5000
QUICK_US = 20.0  # a decision that takes longer is pointed out
Report = dict[str, Any]


class Timed:
    """A policy with a stopwatch."""

    def __init__(self, inner: Policy, spent_ns: list[int]) -> None:
        self.inner, self.name, self.spent_ns = inner, inner.name, spent_ns

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, view: View) -> Action:
        begin = time.thread_time_ns()
        action = self.inner.decide(view)
        self.spent_ns.append(time.thread_time_ns() - begin)
        return action


def cost(args: argparse.Namespace) -> Report:
    """Microseconds of one decision, without the simulator's own time."""
    out: Report = {}
    for row in table2_rows():
        setting = row.serving.setting(row.rate_per_s, row.slo_ns)
        source = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=COST_REQUESTS)
        drawn = source.draw(row.serving, 0)
        for name in EVERY:
            spent_ns: list[int] = []
            timed = Timed(make_policy(name, setting), spent_ns)
            gc.collect()
            gc.disable()  # the simulator's growing log is not the policy's cost
            serve_stream(row.serving, timed, drawn.requests, drawn.exits)
            gc.enable()
            out[f"{row.serving.name}, {name}"] = cell = {
                "mean_us": float(np.mean(spent_ns) / 1e3),
                "p50_us": float(np.median(spent_ns) / 1e3),
                "p99_us": float(np.percentile(spent_ns, 99) / 1e3),
            }
            slow = "".join(f"  {key} over {QUICK_US:g} us" for key in ("mean", "p99") if cell[f"{key}_us"] > QUICK_US)
            figures = ", ".join(f"{key} {cell[f'{key}_us']:5.1f} us" for key in ("mean", "p50", "p99"))
            print(f"{row.serving.name}: {name:24} {figures}{slow}")
    return out


def matrix(args: argparse.Namespace) -> Report:
    """Every registered policy, and the anytime variants, on the four rows: wall time, CPU time, decisions a
    second.
    """
    loading = time.perf_counter()
    first = table2_rows()[0]
    compare(first.serving, ["fluid"], rate_per_s=first.rate_per_s, slo_ns=first.slo_ns, requests=100, seeds=1,
            compiled=has_numba())  # fmt: skip
    loading = time.perf_counter() - loading
    begin, spent, out = time.perf_counter(), cpu_seconds(), {}
    for row in table2_rows():
        result = compare(
            row.serving,
            EVERY,
            rate_per_s=row.rate_per_s,
            slo_ns=row.slo_ns,
            requests=args.requests,
            seeds=args.seeds,
            engine=Local(processes=args.processes),
        )
        print(f"\n{result.serving.name}\n{result.table()}", flush=True)
        out[result.serving.name] = result.to_dict()
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - spent
    decisions = sum(m["decisions"]["mean"] for c in out.values() for m in c["policies"].values()) * args.seeds
    schedules = len(EVERY) * len(out) * args.seeds
    print(
        f"\n{len(EVERY)} policies, {len(out)} rows, {args.seeds} seeds, {args.requests} requests: {wall:.0f} s of wall "
        f"time with {args.processes} processes, {cpu:.0f} s of CPU time ({loading:.1f} s before that to load or compile); "
        f"{decisions / 1e6:.1f} million decisions, {decisions / cpu / 1e3:.0f} thousand a CPU second, metrics included"
    )
    speed = {
        "compiled": has_numba(),
        "policies": len(EVERY),
        "schedules": schedules,
        "requests": schedules * args.requests,
        "decisions": round(decisions),
        "processes": args.processes,
        "wall_s": wall,
        "cpu_s": cpu,
        "load_or_compile_s": loading,
        "decisions_per_cpu_s": decisions / cpu,
    }
    return out | {"speed": speed}


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


PARTS: dict[str, Callable[[argparse.Namespace], Report]] = {"cost": cost, "matrix": matrix}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/policies"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        begin = time.perf_counter()
        print(f"\n== {part} ==")
        result = PARTS[part](args)
        (args.out / f"{part}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"({time.perf_counter() - begin:.0f} s; written to {args.out / part}.json)", flush=True)


if __name__ == "__main__":
    main()
