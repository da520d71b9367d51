"""Tasks of the study on times from arrival: the paper's batches are always full, a server's are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidnpu.scheduler.simulation import interval
from fluidnpu.scheduler.tuning import Answers, CandidateTable, Chain, Goal, Traffic, guaranteed, outcome

from ..running.study import Size
from ..writing import mean_low_high, significant
from .networks import BATCH, block_numbers, table_of
from .recorded import shuffle_recording
from .selections import chain_list
from .simulations import MOVERS, PAPER_EXIT

Answer = dict[str, Any]
LOADS = (0.3, 0.6, 0.9)  # of what the network with one exit answers in full batches
POLICY = "fluid"
SLO_OVER_SINGLE = 4  # of one sample without early exits, as `fluidnpu exits --arrivals` has it
ETA = 0.99
MOST_STREAMS = 10
CHOOSING_SEED = 1000  # of the arrivals that choose; others judge
DRAWN = 20_000  # samples with the paper's share of movers


def traffic_at(table: CandidateTable, load: float, seed: int, requests: int) -> Traffic:
    """Return arrivals at a share of what the network with one exit answers in full batches."""
    rate, slo_ns = load * BATCH * 1e9 / table.single_ns(BATCH), SLO_OVER_SINGLE * table.single_ns(1)
    return Traffic(rate_per_s=rate, slo_ns=slo_ns, policy=POLICY, requests=requests, seed=seed)


def from_arrival(name: str, load: float, size: Size) -> Answer:
    """Select with the guarantee, once for the average in service and once for that from arrival, and serve
    other images.

    Selected on three quarters of the unseen images, served are those of the last quarter. Changes are per
    cent of the network with one exit under the same arrivals, a mean over streams.
    """
    table, answers = table_of(name), shuffle_recording(name).answers()
    cut = 3 * len(answers) // 4
    goal, choosing = Goal(eta=ETA, batch=BATCH), traffic_at(table, load, CHOOSING_SEED, size.sweep_requests)
    proposing, other = answers[:cut], answers[cut:]
    chains = {
        "in service": guaranteed(table, proposing, goal).chain,
        "from arrival": guaranteed(table, proposing, goal, traffic=choosing).chain,
    }
    return _served(table, other, load, size, {key: chain or () for key, chain in chains.items()})


def resnet101_from_arrival(load: float, size: Size) -> Answer:
    """Serve ResNet-101's times from arrival, with the paper's share of samples that move on behind H_13."""
    table = table_of("resnet101")
    sure = np.random.default_rng(0).random((DRAWN, table.exits + 1))
    answers = Answers(confidence=sure, right=np.ones(sure.shape, bool), reference=np.ones(DRAWN, bool))
    chain: Chain = ((block_numbers("resnet101").index(PAPER_EXIT), MOVERS),)
    return _served(table, answers, load, size, {"H_13": chain})


def _served(table: CandidateTable, answers: Answers, load: float, size: Size, chains: dict[str, Chain]) -> Answer:
    """Serve every chain, and the network with one exit, under the same streams of arrivals."""
    alone, count = table.single_ns(BATCH), max(2, min(MOST_STREAMS, size.seeds))
    streams = [traffic_at(table, load, seed, size.sweep_requests) for seed in range(count)]
    single = [stream.serve(table, answers, (), BATCH) for stream in streams]
    rows: Answer = {}
    for key, chain in chains.items():
        served = [stream.serve(table, answers, chain, BATCH) for stream in streams]
        rows[key] = {
            "chain": chain_list(chain),
            "in_service_change_pct": significant(100 * (outcome(table, answers, chain, BATCH).average_ns / alone - 1)),
            "average_change_pct": _change([run.average_ns for run in served], [run.average_ns for run in single]),
            "p99_change_pct": _change([run.p99_ns for run in served], [run.p99_ns for run in single]),
            "average_ms": significant(float(np.mean([run.average_ns for run in served])) / 1e6),
            "met_pct": significant(100 * float(np.mean([run.met for run in served]))),
        }
    return {
        "load": load,
        "rate_per_s": significant(streams[0].rate_per_s),
        "slo_ms": significant(streams[0].slo_ns / 1e6),
        "policy": POLICY,
        "streams": count,
        "requests": size.sweep_requests,
        "single_average_ms": significant(float(np.mean([run.average_ns for run in single])) / 1e6),
        "single_met_pct": significant(100 * float(np.mean([run.met for run in single]))),
        "rows": rows,
    }


def _change(ours: Sequence[float], theirs: Sequence[float]) -> list[float | None]:
    """Return the change in per cent, stream by stream, with its interval."""
    return mean_low_high(interval([100 * (a / b - 1) for a, b in zip(ours, theirs, strict=True)]))
