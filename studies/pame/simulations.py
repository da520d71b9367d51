"""Tasks of the study: each a pure function of its arguments and of the recordings, in plain JSON types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler import Request, World, make_policy, simulate
from fluidnpu.scheduler.simulation import interval
from fluidnpu.scheduler.tuning import (
    Answers,
    CandidateTable,
    Chain,
    Goal,
    expected_average_ns,
    first_exits,
    greedy,
    guaranteed,
    outcome,
    pattern_matrix,
    prove,
)

from ..running.study import Size
from ..writing import mean_low_high, significant
from .networks import BATCH, block_numbers, macs_of, table_of
from .recorded import CHECKS, EASY, shuffle_recording
from .selections import chain_list, describe_outcome

Answer = dict[str, Any]
ETAS = (0.98, 0.99, 0.995)
MOVERS = 0.216  # share that moves on behind H_13 of ResNet-101 (section 7.5)
PAPER_EXIT = 13  # its block
PROOF_NODES = 20_000
PROOF_SAMPLES = 1600
TAUS = (1, 2, 4, 6, 8)  # samples in flight below which a parallel batch begins
MOST_SEEDS = 10
SHOWN_SHARE = 0.5  # of samples that leave, where checks are compared


def accuracies(name: str) -> Answer:
    """Give the accuracy of every exit, of the last and of the reference on unseen images (Figs. 2, 11)."""
    answers_ = shuffle_recording(name)
    answers = answers_.answers()
    early = answers.right[:, :-1]
    best = early[:, int(early.mean(axis=0).argmax())].astype(float)
    reference = float(answers.reference.mean())
    over = interval((100 * (1 + (best - answers.reference) / reference)).tolist())
    return {
        "images": len(answers),
        "best_over_reference_pct": mean_low_high(over),
        "learned": answers_.learned,
        "exits_pct": [significant(100 * float(share)) for share in answers.right.mean(axis=0)],
        "reference_pct": significant(100 * float(answers.reference.mean())),
        "blocks": list(block_numbers(name)),
    }


def matrices(name: str) -> Answer:
    """Compare Eq. 2 with what the simulator serves, at v = 1, 2 and 4, for each exit alone."""
    table, answers = table_of(name), _some(name, 640)
    thresholds = [0.7] * table.exits
    errors: dict[str, list[float]] = {}
    for width in (1, 2, 4):
        times, pattern = (
            table.time_matrix(BATCH, width),
            pattern_matrix(answers, thresholds, BATCH, width),
        )
        errors[str(width)] = [
            expected_average_ns(times[exit], pattern[exit], BATCH, width)
            / float(np.mean(serve_batches(table, answers, ((exit, 0.7),))))
            - 1
            for exit in range(table.exits)
        ]
    return {width: [significant(100 * row) for row in rows] for width, rows in errors.items()}


def serve_batches(table: CandidateTable, answers: Answers, chain: Chain) -> NDArray[np.int64]:
    """Serve full batches one after another in the simulator; return each sample's time in service
    (samples,).
    """
    active = [exit for exit, _ in chain]
    count, gap = len(answers) // BATCH * BATCH, 10 * table.single_ns(BATCH)
    requests = [Request(index, index // BATCH * gap, 10**16) for index in range(count)]
    place = {exit: index for index, exit in enumerate((*active, table.exits))}
    exits = [place[int(exit)] for exit in answers.left_at(chain)[:count]]
    rates = (np.bincount(exits, minlength=len(place)) / count).tolist()
    done = simulate(
        requests,
        make_policy("greedy"),
        World(latency=table.latency(active), exits=exits, exit_rates=rates, b_max=BATCH),
    )
    return np.array([record.end_ns - record.start_ns for record in done.records])


def selection(name: str, eta: float) -> Answer:
    """Select with eta of the network's own last exit: each exit alone, one by one, exchanged, and with a
    proof.
    """
    table, answers = table_of(name), _some(name, 100_000, own_last=True)
    goal, alone = Goal(eta=eta, batch=BATCH), table.single_ns(BATCH)
    single, early = greedy(table, answers, goal, later=False)
    chain, many = greedy(table, answers, goal)
    swapped, better = greedy(table, answers, goal, exchange=True)
    part = answers[: PROOF_SAMPLES // BATCH * BATCH]
    best = prove(table, part, goal, PROOF_NODES)
    beside, beam = (greedy(table, part, goal, exchange=exchange)[1] for exchange in (False, True))
    return {
        "alone": [
            {
                "threshold": row.threshold,
                "moving": significant(1 - row.leaving),
                "average_change_pct": significant(100 * (row.average_ns / alone - 1)),
                "late_batches": significant(row.late_batches),
            }
            for row in first_exits(table, answers, goal)
        ],
        "first": {"chain": chain_list(single), **describe_outcome(early, alone)},
        "greedy": {"chain": chain_list(chain), **describe_outcome(many, alone)},
        "exchanged": {"chain": chain_list(swapped), **describe_outcome(better, alone)},
        "proven": {
            "chain": chain_list(best.chain),
            "average_change_pct": significant(100 * (best.outcome.average_ns / alone - 1)),
            "gap_pct": significant(best.gap_pct),
            "nodes": best.nodes,
            "samples": len(part),
            "greedy_above_pct": significant(100 * (beside.average_ns / best.outcome.average_ns - 1)),
            "exchanged_above_pct": significant(100 * (beam.average_ns / best.outcome.average_ns - 1)),
        },
    }


def splits(name: str, eta: float, group: int, count: int) -> Answer:
    """Select on a random three quarters of the unseen images, and judge on the others, `count` times."""
    table, answers = table_of(name), shuffle_recording(name).answers()
    goal, alone = Goal(eta=eta, batch=BATCH), table.single_ns(BATCH)
    rows = []
    for index in range(count):
        order = np.random.default_rng([group, index]).permutation(len(answers))
        proposing, other = answers[order[: 3 * len(order) // 4]], answers[order[3 * len(order) // 4 :]]
        selected = guaranteed(table, proposing, goal, seed=index)
        naive = outcome(table, other, selected.naive, BATCH)
        ours = None if selected.chain is None else outcome(table, other, selected.chain, BATCH)
        rows.append(
            {
                "naive": describe_outcome(naive, alone),
                "guaranteed": None if ours is None else describe_outcome(ours, alone),
                "chain": None if selected.chain is None else chain_list(selected.chain),
            }
        )
    return {"rows": rows}


def drift(name: str) -> Answer:
    """Serve easy and hard images with exits chosen on the mix (Fig. 16), then raise the thresholds."""
    answers_, table = shuffle_recording(name), table_of(name)
    answers = answers_.answers(own_last=True)
    goal, alone = Goal(eta=0.99, batch=BATCH), table.single_ns(BATCH)
    half = len(answers) // 2
    chain, _ = greedy(table, answers[:half], goal)
    rest, easy = answers[half:], np.isin(answers_.labels[half:], EASY)
    parts = {"mix": rest, "easy": rest[np.flatnonzero(easy)], "hard": rest[np.flatnonzero(~easy)]}
    result: Answer = {"chain": chain_list(chain)}
    for label, part in parts.items():
        result[label] = describe_outcome(outcome(table, part, chain, BATCH), alone)
    raised = chain
    while raised and outcome(table, parts["hard"], raised, BATCH).kept < goal.eta:
        higher = [
            (exit, min((higher for higher in goal.thresholds if higher > threshold), default=1.0))
            for exit, threshold in raised
        ]
        raised = tuple(higher)
        if all(threshold == 1.0 for _, threshold in raised):
            break
    return result | {
        "raised": chain_list(raised),
        "hard, raised": describe_outcome(outcome(table, parts["hard"], raised, BATCH), alone),
    }


def checks(name: str) -> Answer:
    """Compare exit checks at one share of leavers with random leavers, for each exit alone."""
    answers_ = shuffle_recording(name)
    rows: dict[str, list[float | None]] = {}
    for check in CHECKS:
        answers = answers_.answers(check)
        rows[check] = [
            significant(100 * _kept_at(answers, exit, answers.confidence[:, exit])) for exit in range(answers.exits)
        ]
    answers = answers_.answers()
    agreeing = [
        np.where(answers_.classes[:, exit] == answers_.classes[:, exit - 1], answers.confidence[:, exit], 0.0)
        for exit in range(1, answers.exits)
    ]
    rows["agreement"] = [
        None,
        *(significant(100 * _kept_at(answers, exit, agreement)) for exit, agreement in enumerate(agreeing, 1)),
    ]
    mean = answers.right.mean(axis=0)
    random = SHOWN_SHARE * mean[:-1] + (1 - SHOWN_SHARE) * mean[-1]  # the expectation, so that no draw blurs it
    rows["random"] = [significant(100 * float(share)) for share in random]
    return rows


def _kept_at(answers: Answers, exit: int, sure: NDArray[np.float64]) -> float:
    """Return the precision when the surest samples leave at an exit and the others at the end."""
    leaving = np.zeros(len(answers), bool)
    leaving[np.argsort(-sure, kind="stable")[: int(SHOWN_SHARE * len(answers))]] = True
    return float(np.where(leaving, answers.right[:, exit], answers.right[:, -1]).mean())


def resnet101(size: Size) -> Answer:
    """Serve ResNet-101's times with the paper's share of movers behind H_13, batches always full."""
    table, blocks = table_of("resnet101"), block_numbers("resnet101")
    exit, alone = blocks.index(PAPER_EXIT), table.single_ns(BATCH)
    rng = np.random.default_rng(0)
    movers = rng.binomial(BATCH, MOVERS, max(1, size.requests // BATCH))
    first = int(table.step(0, exit)[BATCH])
    ends = first + table.step(exit + 1, table.exits)[movers]
    times = np.repeat(np.array([first]), int((BATCH - movers).sum())).tolist() + np.repeat(ends, movers).tolist()
    batch_end = np.where(movers > 0, ends, first)
    segments, heads = macs_of("resnet101")
    rest = [sum(segments[index + 1 :]) for index in range(table.exits)]
    through = sum(table.heads[index][BATCH - 1] for index in range(table.exits))
    return {
        "blocks": list(blocks),
        "single_ms": significant(alone / 1e6),
        "average_change_pct": significant(100 * (float(np.mean(times)) / alone - 1)),
        "p99_change_pct": significant(100 * (float(np.quantile(times, 0.99)) / alone - 1)),
        "throughput_change_pct": significant(100 * (alone / float(batch_end.mean()) - 1)),
        "late_batches": significant(float(np.mean(batch_end > alone))),
        "allowed": list(table.allowed_movers(BATCH)),
        "allowed_by_work": [table.allowed_by_work(BATCH, head, left) for head, left in zip(heads, rest, strict=True)],
        "stage_overhead_pct": significant(100 * through / alone),
        "head_macs_pct": significant(100 * sum(heads) / sum(segments)),
        "per_sample_at_16": significant(alone / BATCH / table.single_ns(1)),
    }


def parallel_batches(tau_b: int, size: Size) -> Answer:
    """Serve ResNet-101's two stages with enough requests, and a parallel batch while few move on (Fig. 18).

    A sample is late whose time in service is above that of a batch of the network with one exit. Throughput
    is against that network's, in full batches.
    """
    table, exit = table_of("resnet101"), block_numbers("resnet101").index(PAPER_EXIT)
    alone, count = table.single_ns(BATCH), max(BATCH, size.requests // 5 // BATCH * BATCH)
    latency = table.latency([exit])
    rows: dict[str, list[float]] = {"throughput_change_pct": [], "average_ms": [], "late_pct": []}
    for seed in range(max(2, min(MOST_SEEDS, size.seeds))):
        exits = np.random.default_rng([18, seed]).binomial(1, MOVERS, count).tolist()
        world = World(latency=latency, exits=exits, exit_rates=(1 - MOVERS, MOVERS), b_max=BATCH, slots=2 * BATCH)
        requests = [Request(index, 0, 10**16) for index in range(count)]
        done = simulate(requests, make_policy(f"staged:tau_b={tau_b}"), world)
        took = np.array([record.end_ns - record.start_ns for record in done.records])
        ends = max(record.end_ns for record in done.records)
        rows["throughput_change_pct"].append(100 * (count / BATCH * alone / ends - 1))
        rows["average_ms"].append(float(took.mean()) / 1e6)
        rows["late_pct"].append(100 * float((took > alone).mean()))
    return {key: mean_low_high(interval(values)) for key, values in rows.items()}


def head_costs(name: str) -> Answer:
    """Give what an exit costs a sample that moves on behind it, in time and in MACs (Fig. 17).

    The exit is the paper's for ResNet-101, the middle candidate for others.
    """
    table = table_of(name)
    exit = block_numbers(name).index(PAPER_EXIT) if name == "resnet101" else table.exits // 2
    segments, heads = macs_of(name)
    both = int(table.step(0, exit)[BATCH]) + int(table.step(exit + 1, table.exits)[round(MOVERS * BATCH)])
    return {
        "candidate": exit + 1,
        "time_pct": significant(100 * table.heads[exit][BATCH - 1] / both),
        "macs_pct": significant(100 * heads[exit] / sum(segments)),
    }


def simple_head() -> Answer:
    """Count the Simple head's multiply-accumulates as the paper does, and without those by inserted zeros."""
    printed = 14**2 * 16 * 2048 * 256 + 28**2 * 16 * 256**2 + 56**2 * 16 * 256**2 + 56**2 * 256 * 16
    needed = (printed - 56**2 * 256 * 16) / 4 + 56**2 * 256 * 16
    segments, _ = macs_of("resnet101")
    table = table_of("resnet101")
    rest = [sum(segments[exit + 1 :]) for exit in range(table.exits)]
    return {
        "allowed": [table.allowed_by_work(BATCH, printed, left) for left in rest],
        "allowed_needed": [table.allowed_by_work(BATCH, round(needed), left) for left in rest],
        "printed_gmac": significant(printed / 1e9),
        "needed_gmac": significant(needed / 1e9),
        "printed_pct": significant(100 * printed / sum(segments)),
        "needed_pct": significant(100 * needed / sum(segments)),
    }


def _some(name: str, count: int, *, own_last: bool = False) -> Answers:
    return shuffle_recording(name).answers(own_last=own_last)[:count]
