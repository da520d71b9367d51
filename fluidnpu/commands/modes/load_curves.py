"""Policies over a range of Poisson loads in the simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import World, make_policy, measure, simulate
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import requests_at

from ...reports.figures import LoadPoint

POLICIES = ("serial", "greedy", "fluid")
SOLVED = ("credit", "guarded")  # policies that are solved for one rate, and then meet others


def capacity(latency: LatencyTable, exits: npt.NDArray[np.int64]) -> float:
    """Give the samples a second in full batches only; `exits` are (samples,).

    No policy can exceed it where larger batches are never slower per sample.
    """
    stages, batch = latency.stages, latency.b_max
    reach = [float(np.mean(exits >= stage)) for stage in range(stages)]
    return 1e9 / sum(share * latency.ns[stage][batch - 1] / batch for stage, share in enumerate(reach))


def load_curves(
    latency: LatencyTable,
    exits: npt.NDArray[np.int64],
    rates_per_s: Sequence[float],
    slo_ns: int,
    seed: int,
    setting: Setting | None = None,
) -> dict[str, list[LoadPoint]]:
    """Serve each policy at each rate. Request i leaves at `exits[i]`; gaps are the same but for the rate.

    `exits` are (requests,). With a `setting` also the policies that are solved for it, which then serve every
    rate.
    """
    gaps = np.random.default_rng(seed).exponential(1e9, len(exits))
    shares = tuple(float(np.mean(exits == stage)) for stage in range(latency.stages))
    world = World(latency=latency, exits=exits.tolist(), exit_rates=shares)
    names = (*POLICIES, *(SOLVED if setting is not None else ()))
    curves: dict[str, list[LoadPoint]] = {name: [] for name in names}
    for rate in rates_per_s:
        requests = requests_at(np.cumsum(gaps / rate).astype(np.int64), slo_ns)
        for name in names:
            metrics = measure(simulate(requests, make_policy(name, setting), world))
            curves[name].append(
                LoadPoint(
                    rate_per_s=rate,
                    average_ms=metrics.average_ms,
                    p99_ms=metrics.p99_ms,
                    violations_pct=metrics.violations_pct,
                    utilisation_pct=metrics.busy_pct,
                )
            )
    return curves
