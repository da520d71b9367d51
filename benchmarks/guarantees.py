"""What selections with a guarantee miss, and what they cost: tables of `docs/explanation/guarantee.md`.

    python benchmarks/guarantees.py [--splits 200] [--worlds 300] [--nulls 4000]

The 20,000 recorded answers of the study's network: exits are selected on a half, and judged on the other and
on all. Then as many draws with replacement, for which the truth is known: it is that of the 20,000. Then
worlds that are drawn (exits, skill, costs of heads, demands), judged on 200,000 fresh samples each. At the
end tests of claims that are false by a hair, which may pass with the stated risk. Times are simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler.exits import Kept, proven_above, spread_of
from fluidnpu.scheduler.tuning import Answers, CandidateTable, Chain, Goal, guaranteed, outcome
from fluidnpu.studies.pame.networks import table_of
from fluidnpu.studies.pame.recorded import shuffle_recording

ETA, BATCH, RISK = 0.99, 8, 0.05
HALF = 10_000
FRESH = 200_000
NULLS = ((0.99, 450, 0.97, 0.0), (0.995, 1000, 0.97, 0.0), (0.99, 1000, 0.9, 0.01), (0.95, 4000, 0.6, 0.05))
BY = "the other half", "all 20,000", "all, drawn with replacement"
HEADS = {"cheap heads": 0.05, "dear heads": 1.0, "heads as dear as 1.8 segments": 1.8}
HEAD = "selections", "naive: misses", "late", "average", "guaranteed: misses", "late", "none", "average", "kept"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A selection on other samples than those it was made on; one without exits is the network with one."""

    missed: bool
    late: bool
    average: float  # in parts of the network's with one exit
    kept: float


Pair = tuple[Judged, Judged | None]  # naive, and guaranteed where exits passed


def judge(table: CandidateTable, others: Answers, chain: Chain, goal: Goal) -> Judged:
    """Judge a chain on samples."""
    ours = outcome(table, others, chain, goal.batch)
    return Judged(
        missed=ours.kept < goal.eta,
        late=ours.late_batches > goal.late,
        average=ours.average_ns / table.single_ns(goal.batch),
        kept=ours.kept,
    )


def judged(table: CandidateTable, some: Answers, others: Sequence[Answers], goal: Goal, seed: int) -> list[Pair]:
    """Select on some samples, and judge on several others."""
    found = guaranteed(table, some, goal, delta=RISK, seed=seed)
    return [
        (judge(table, other, found.naive, goal), judge(table, other, found.chain, goal) if found.chain else None)
        for other in others
    ]


def split(own: bool, seed: int) -> list[Pair]:
    """Select on a half of the recorded answers, and on as many drawn anew; in the order of `BY`."""
    table, goal = table_of("fashion"), Goal(eta=ETA, batch=BATCH)
    whole = shuffle_recording("fashion").answers(own_last=own)
    order = np.random.default_rng(seed).permutation(len(whole))
    again = whole[np.random.default_rng([seed, 1]).integers(len(whole), size=HALF)]
    halves = judged(table, whole[order[:HALF]], (whole[order[HALF:]], whole), goal, seed)
    return halves + judged(table, again, [whole], goal, seed)


def recorded(splits: int) -> Iterator[str]:
    """Give the rows of the recorded answers."""
    for own in (False, True):
        columns = zip(*(split(own, seed) for seed in range(splits)), strict=True)
        for by, pairs in zip(BY, columns, strict=True):
            yield line(f"recorded, of {'the last exit' if own else 'one exit'}, judged on {by}", pairs)


def world(seed: int) -> Pair:
    """Draw a world, with heads by the seed, and select in it."""
    rng = np.random.default_rng([9, seed])
    exits, samples = int(rng.integers(2, 6)), int(rng.integers(1500, 5000))
    goal = Goal(eta=float(rng.choice([0.95, 0.97, 0.98])), batch=int(rng.choice([4, 8, 16])))
    skill = np.linspace(rng.uniform(0.9, 1.5), rng.uniform(2, 3), exits + 1)
    table = drawn_table(rng, exits, tuple(HEADS.values())[seed % len(HEADS)])
    return judged(table, drawn(rng, samples, skill), [drawn(rng, FRESH, skill)], goal, seed)[0]


def worlds(count: int) -> Iterator[str]:
    """Give the rows of drawn worlds, by the cost of their heads."""
    pairs = [world(seed) for seed in range(count)]
    for place, name in enumerate(HEADS):
        yield line(f"drawn worlds, {name}", pairs[place :: len(HEADS)])


def drawn(rng: np.random.Generator, count: int, skill: NDArray[np.float64]) -> Answers:
    """Draw samples: what an exit makes of the difficulty decides confidence and answer, with noise."""
    ease = 1 - rng.beta(2.2, 2.2, count)
    margin = 2 * skill[None, :] * ease[:, None] - 0.6 + rng.normal(0, 0.35, (count, len(skill)))
    right = margin + rng.normal(0, 0.25, margin.shape) > 0
    reference = margin[:, -1] + rng.normal(0, 0.25, count) > 0
    return Answers(confidence=0.1 + 0.9 / (1 + np.exp(-2.2 * margin)), right=right, reference=reference)


def drawn_table(rng: np.random.Generator, exits: int, head: float) -> CandidateTable:
    """Draw times of segments for batches up to 16, and of heads of so many segments."""
    base, each = rng.integers(2000, 9000, exits + 1), rng.integers(40_000, 130_000, exits + 1)
    rows = [tuple(int(a + n * b) for n in range(1, 17)) for a, b in zip(base, each, strict=True)]
    heads = tuple(tuple(int(head * ns) for ns in row) for row in rows[:-1])
    return CandidateTable(names=tuple(f"exit{i}" for i in range(exits)), segments=tuple(rows), heads=heads)


def line(name: str, rows: Sequence[Pair]) -> str:
    """Write a row of the table; a selection without exits takes the time of the network with one."""
    naive, ours = [first for first, _ in rows], [second for _, second in rows if second is not None]
    none = len(rows) - len(ours)
    cells = [name, f"{len(rows)}"]
    for values, missing in ((naive, 0), (ours, none)):
        average = (sum(value.average for value in values) + missing) / len(rows)
        cells += [f"{sum(value.missed for value in values)}", f"{sum(value.late for value in values)}"]
        cells += [f"{none}"] * (values is ours) + [f"{100 * average:.1f} %"]
    cells.append(f"{100 * np.mean([our.kept for our in ours]):.2f} %" if ours else "-")
    return f"| {' | '.join(cells)} |"


def nulls(count: int) -> Iterator[str]:
    """Give the share of false claims that pass, where both kinds of answers lie exactly at the claim."""
    for share, samples, accuracy, gained in NULLS:
        rng, kept, both = np.random.default_rng(4), Kept(share), share * accuracy - gained
        chances = [both, gained, accuracy - both, 1 - accuracy - gained]
        passed = 0
        for _ in range(count):
            before, seen = (
                kept.outcomes(kind <= 1, (kind == 0) | (kind == 2))
                for kind in (rng.choice(4, size=each, p=chances) for each in (samples // 2, samples))
            )
            spread = spread_of(before, kept.mean)
            passed += proven_above(seen, mean=kept.mean, risk=RISK, spread=spread, best=kept.best)
        claim = f"{100 * share:g} % of {100 * accuracy:g} %"
        yield f"| {claim} | {samples:,} | {100 * gained:g} % | {100 * passed / count:.1f} % |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, size in (("--splits", 200), ("--worlds", 300), ("--nulls", 4000)):
        parser.add_argument(name, type=int, default=size)
    asked = parser.parse_args()
    print(f"| | {' | '.join(HEAD)} |\n|---|{'---:|' * len(HEAD)}")
    for row in (*recorded(asked.splits), *worlds(asked.worlds)):
        print(row, flush=True)
    print("\n| claim | samples | only the exits right | passed, 5 % allowed |\n|---|---:|---:|---:|")
    for row in nulls(asked.nulls):
        print(row, flush=True)


if __name__ == "__main__":
    main()
