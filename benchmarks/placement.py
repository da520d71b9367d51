"""Times of the planner and of the fleet's twin, in CPU seconds, with value and gap.

    python benchmarks/placement.py

The planner: twelve layers on made-up GPUs (`studies/tetris/profiles.py`), 100 ms, five types of 4, 8 and 200
devices; the best of three for the dynamic programme. The twin: boards of a small network, without and with a
tenth of them lost, and whether a repeat gives the same bits. CPU seconds of one thread; nothing is served.
"""

from __future__ import annotations

import time

import numpy as np

from fluidnpu.scheduler.placement import place, serve_plan
from fluidnpu.scheduler.placement.dynamic import MOST_STATES, best_pipeline, states
from fluidnpu.scheduler.placement.integer import best_mix
from fluidnpu.scheduler.placement.options import Space
from fluidnpu.scheduler.placement.testing import toy_fleet
from fluidnpu.scheduler.placement.twin import Fault
from fluidnpu.studies.tetris.profiles import LAYER_MS, gpu_fleet, mix_rates


def planner() -> None:
    """Print a row a size of the fleet."""
    print(
        "| devices | pieces s | pipeline s | pipeline/s | mix s | mix/s | bound/s | gap |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for count in (4, 8, 200):
        fleet = gpu_fleet(dict.fromkeys(LAYER_MS, count), mix_rates(0.5))
        spent, line = [], None
        for _ in range(3):
            began = time.process_time()
            space = Space.of(fleet, "bert", 90_000_000, batches=(1, 2, 4, 8, 16), serial=False, ramps=("on", "last"))
            pieces = len(space.pieces)
            made = time.process_time()
            if states(space) <= MOST_STATES:
                line = best_pipeline(space)
            spent.append((made - began, time.process_time() - made))
        began = time.process_time()
        mix = best_mix(space)
        took = time.process_time() - began
        assert mix is not None
        assert pieces
        first, second = (min(column) for column in zip(*spent, strict=True))
        said = "-" if line is None else f"{line.rate:.0f}"
        print(
            f"| 5 types x {count} | {first:.3f} | {second:.3f} | {said} | {took:.2f} | {mix.rate:.0f} | {mix.bound:.0f} | "
            f"{100 * (mix.bound / mix.rate - 1):.2f} % |"
        )


def twin() -> None:
    """Print events a CPU second."""
    print(
        "\n| boards | lost | requests | events | CPU s | events/s | answered | in time | repeat |\n|---|---:|---:|---:|---:|---:|---:|---:|---|"
    )
    for boards, lost in ((1, 0), (100, 0), (1000, 0), (1000, 100)):
        fleet = toy_fleet(boards)
        plan = place(fleet, slo_ns=10**8, forms=["data parallel", "serial"]).plan
        faults = [Fault(at_ns=10**9, device=f"board-{10 * k}") for k in range(lost)]
        count = 500_000 if boards > 1 else 100_000
        rate = 0.7 * plan.rate_per_s
        serve_plan(fleet, plan, rate_per_s=rate, count=1000, seed=1)
        began = time.process_time()
        served = serve_plan(fleet, plan, rate_per_s=rate, count=count, seed=1, faults=faults)
        took = time.process_time() - began
        again = serve_plan(fleet, plan, rate_per_s=rate, count=count, seed=1, faults=faults)
        same = np.array_equal(served.end_ns, again.end_ns) and np.array_equal(served.exit, again.exit)
        print(
            f"| {boards} | {lost} | {count} | {served.events} | {took:.2f} | {served.events / took / 1e6:.2f} M | {served.answered} | "
            f"{100 * served.in_time:.2f} % | {'same bits' if same else 'differs'} |"
        )


if __name__ == "__main__":
    planner()
    twin()
