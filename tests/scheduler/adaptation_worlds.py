"""Loads of known difficulty for tests of adaptation: recorded answers, times, a simulated stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Schedule, World, make_policy, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits
from fluidnpu.scheduler.simulation import ActiveExits, PartTimes
from fluidnpu.scheduler.tuning import Adaptation, AdaptationPlan, CandidateTable, Goal, Watching

EARLY = 3
BATCH = 8
NAMES = tuple(f"exit{exit + 1}" for exit in range(EARLY))


@dataclass(frozen=True)
class Load:
    """Samples: confidence and class at every exit (N, EARLY + 1); the true class is always 0."""

    confidence: NDArray[np.float64]
    classes: NDArray[np.int64]


def load(count: int, hardness: float, seed: int) -> Load:
    """Samples whose difficulty grows with `hardness` (0.3: as recorded); surer exits are right more often."""
    rng = np.random.default_rng(seed)
    difficulty = rng.beta(2 * hardness, 2 * (1 - hardness), count)[:, None]
    depth = np.linspace(0.35, 0.8, EARLY + 1)[None, :]
    sure = np.clip(1 - difficulty * (1 - depth) * 1.3 + rng.normal(0, 0.05, (count, EARLY + 1)), 0.01, 0.999)
    wrong = rng.random((count, 1)) > np.clip(sure * 1.05 - 0.02, 0, 1)  # one fate a sample: later exits know more
    return Load(sure, wrong.astype(np.int64))


def times(head: float = 0.03) -> PartTimes:
    """Stages of equal work whose heads cost a share of a stage."""
    rows = [[1000 * b + 200 for b in range(1, BATCH + 1)] for _ in range(EARLY + 1)]
    whole = [[round(ns * (1 + head * (stage < EARLY))) for ns in row] for stage, row in enumerate(rows)]
    return PartTimes(whole=LatencyTable(ns=tuple(map(tuple, whole))), bare=LatencyTable(ns=tuple(map(tuple, rows))))


def plan(recorded: Load, chain: tuple[tuple[int, float], ...], eta: float = 0.99) -> AdaptationPlan:
    """A plan on a recorded load, with its own last exit as the reference."""
    truths, parts = np.zeros(len(recorded.classes), np.int64), times()
    rows = zip(parts.whole.ns[:-1], parts.bare.ns[:-1], strict=True)
    heads = tuple(tuple(a - b for a, b in zip(*row, strict=True)) for row in rows)
    return AdaptationPlan(
        names=NAMES,
        goal=Goal(eta=eta, batch=BATCH),
        chain=chain,
        confidence=recorded.confidence,
        classes=recorded.classes,
        truths=truths,
        reference=recorded.classes[:, -1] == 0,
        times=CandidateTable(names=NAMES, segments=parts.bare.ns, heads=heads),
    )


def served(
    made: AdaptationPlan,
    parts: PartTimes,
    stream: Load,
    watching: Watching | None = None,
    *,
    gap_ns: int = 200,
    adapting: bool = True,
) -> tuple[Schedule, Adaptation, ActiveExits]:
    """Serve a load in the simulator, sample by sample in order, with adaptation."""
    requests = [Request(i, i * gap_ns, i * gap_ns + 10**7) for i in range(len(stream.classes))]
    criteria = Criteria(ExitProfile(latency=parts.whole), "false")
    active = ActiveExits(parts, made.exits, made.rates, criteria.obey)
    watch = Adaptation(active, made, watching, classes=dict(enumerate(stream.classes.tolist())))
    exits = RuledExits(rule=criteria, confidences=dict(enumerate(stream.confidence.tolist())))
    world = World(
        latency=active.now.latency,
        exits=exits,
        exit_rates=active.now.rates,
        active=active,
        watch=watch if adapting else None,
    )
    return simulate(requests, make_policy("greedy"), world), watch, active


def joined(*loads: Load) -> Load:
    """One load after another."""
    return Load(np.concatenate([one.confidence for one in loads]), np.concatenate([one.classes for one in loads]))
