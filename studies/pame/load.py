"""Tasks of the study on adaptation while serving: a load that becomes hard, with exits that follow it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fluidnpu.scheduler.simulation import interval
from fluidnpu.scheduler.tuning import AdaptationPlan, Goal, Traffic, Watching, greedy, simulate_drift

from ..running.study import Size
from ..writing import mean_low_high
from .networks import BATCH, table_of
from .recorded import shuffle_recording

Answer = dict[str, Any]
ETA = 0.99
DISTANCE = 5000  # requests between two false alarms, at least
RATE_PER_S = 2000.0
SLO_NS = 10**8
REQUESTS = 6000  # of a stream, a third of them hard
MOST_STREAMS = 10
SIDES = ("fixed", "adapted")


@lru_cache
def plan_of(name: str) -> AdaptationPlan:
    """Return the plan that a selection on one half of the unseen images gives, eta of the own last exit."""
    shuffled_answers, table = shuffle_recording(name), table_of(name)
    answers, goal = shuffled_answers.answers(own_last=True), Goal(eta=ETA, batch=BATCH)
    part = slice(0, len(answers) // 2)
    chain, _ = greedy(table, answers[part], goal)
    return AdaptationPlan(
        names=table.names,
        goal=goal,
        chain=chain,
        confidence=answers.confidence[part],
        classes=shuffled_answers.classes[part],
        truths=shuffled_answers.labels[part],
        reference=answers.reference[part],
        times=table,
    )


def single_average_ms(name: str, seed: int) -> float:
    """Give the average from arrival of the network with one exit under as many requests at the same rate."""
    traffic = Traffic(rate_per_s=RATE_PER_S, slo_ns=SLO_NS, policy="fluid", requests=REQUESTS, seed=seed)
    return traffic.serve(table_of(name), shuffle_recording(name).answers(), (), BATCH).average_ns / 1e6


def adaptation(name: str, size: Size) -> Answer:
    """Serve streams whose middle third holds the hard half of the classes, with fixed exits and adapting.

    `noticed`: requests from the change to the first alarm, a stream each; None where none came. `missed`:
    requests without an answer.
    """
    streams = [
        simulate_drift(
            plan_of(name),
            "hard",
            rate_per_s=RATE_PER_S,
            slo_ns=SLO_NS,
            requests=REQUESTS,
            watching=Watching(distance=DISTANCE),
            seed=seed,
        )
        for seed in range(max(2, min(MOST_STREAMS, size.seeds)))
    ]
    third = REQUESTS // 3
    early = sum(event.kind == "alarm" and event.requests <= third for stream in streams for event in stream.events)
    phases: dict[str, dict[str, Answer]] = {
        side: {
            phase.name: {
                "early_pct": mean_low_high(interval([100 * run.early for run in same])),
                "kept_pct": mean_low_high(interval([100 * run.kept for run in same])),
                "average_ms": mean_low_high(interval([run.average_ms for run in same])),
                "p99_ms": mean_low_high(interval([run.p99_ms for run in same])),
            }
            for same in zip(*(getattr(stream, side) for stream in streams), strict=True)
            for phase in same[:1]
        }
        for side in SIDES
    }
    return {
        "streams": len(streams),
        "requests": REQUESTS,
        "distance": DISTANCE,
        "classes": list(streams[0].classes),
        "noticed": [stream.noticed for stream in streams],
        "alarms_before": early,
        "requests_before": third * len(streams),
        "shadow_pct": mean_low_high(interval([stream.shadow_pct for stream in streams])),
        "kept_gain_points": mean_low_high(
            interval([100 * (stream.adapted[1].kept - stream.fixed[1].kept) for stream in streams])
        ),
        "single_average_ms": mean_low_high(interval([single_average_ms(name, seed) for seed in range(len(streams))])),
        "phases": phases,
    }
