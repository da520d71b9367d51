"""Latency from arrival of a selection, under a stated traffic with the policy that is deployed.

PAME counts latency from the start of a batch, and its batches are always full. Under a load requests wait,
and a chain that is best in service need not be best from arrival. Times are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import SchedulerError
from ...policies.registry import make_policy
from ...policies.setting import Setting
from ...simulation.engine import simulate
from ...simulation.traffic import poisson
from ...simulation.world import World
from .answers import Answers, Chain
from .candidates import CandidateTable

REQUESTS = 4000


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """Times from arrival to answer of a chain under a traffic, and the share answered in time."""

    average_ns: float
    p99_ns: float
    met: float


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Poisson arrivals and the policy that serves them; the same arrivals for every chain. Raises
    SchedulerError.
    """

    rate_per_s: float
    slo_ns: int
    policy: str = "fluid"
    requests: int = REQUESTS
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0 or self.slo_ns < 1 or self.requests < 1:
            raise SchedulerError(
                "a traffic needs a rate above 0, an objective of at least 1 ns and a request at least, not "
                f"{self.rate_per_s:g}/s, {self.slo_ns} ns and {self.requests}"
            )

    def serve(self, table: CandidateTable, answers: Answers, chain: Chain, batch: int) -> Arrived:
        """Serve recorded samples, drawn by the seed, with the exits of a chain in the simulator.

        The policy knows the chain's latency table and exit rates, and batches up to `batch`.
        """
        rng = np.random.default_rng([47, self.seed])
        rows = rng.integers(len(answers), size=self.requests)
        stream = poisson(self.rate_per_s, self.requests, slo_ns=self.slo_ns, rng=rng)
        active = [exit for exit, _ in chain]
        place = {exit: index for index, exit in enumerate((*active, table.exits))}
        left = answers.left_at(chain)
        rates = tuple(float(np.mean(left == exit)) for exit in place)
        latency = table.latency(active)
        setting = Setting(latency=latency, exit_rates=rates, rate_per_s=self.rate_per_s, slo_ns=self.slo_ns)
        exits = [place[int(exit)] for exit in left[rows]]
        world = World(latency=latency, exits=exits, exit_rates=rates, b_max=batch)
        done = simulate(stream, make_policy(self.policy, setting), world)
        ends = np.array([record.end_ns for record in done.records])
        took = ends - np.array([request.arrival_ns for request in stream])
        return Arrived(
            average_ns=float(took.mean()),
            p99_ns=float(np.quantile(took, 0.99, method="higher")),
            met=float(np.mean(took <= self.slo_ns)),
        )
