"""Tasks of the study on composited landmarks and segmentation: exits that answer with maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler.tuning import Answers, CandidateTable, Chain, Goal, greedy, guaranteed, outcome

from ..writing import significant
from .networks import BATCH, block_numbers, table_of
from .recorded import MAP_CHECKS, MapRecording, map_recording
from .selections import chain_list, judged

Answer = dict[str, Any]
ETAS = (0.99, 0.95)  # of the own last exit
SURE_ETA = 0.97  # of the single exit trained as long, where 2,000 pictures can prove anything
SHOWN_SHARE = 0.5  # of samples that leave, where checks are compared
VALUES = 24  # thresholds to choose among


def dense(name: str) -> Answer:
    """Give accuracy, selection and checks of one dense task, each beside leavers drawn at random."""
    found, table = map_recording(name), table_of(name)
    answers, alone = found.answers(), table.single_ns(BATCH)
    sure_goal = Goal(eta=SURE_ETA, batch=BATCH, thresholds=thresholds_of(answers))
    sure = guaranteed(table, found.answers(reference=True), sure_goal)
    return {
        "pictures": len(answers),
        "learned": found.learned,
        "blocks": list(block_numbers(name)),
        "exits_pct": [significant(100 * float(share)) for share in answers.right.mean(axis=0)],
        "reference_pct": significant(100 * float(found.reference.mean())),
        "selected": {f"{eta:g}": _selected(table, answers, eta) for eta in ETAS},
        "guaranteed": None
        if sure.chain is None or sure.found is None
        else {"eta": SURE_ETA, "chain": chain_list(sure.chain), **judged(sure.found, alone)},
        "guarantee_needs": sure.needed,
        "checks": checks(found),
    }


def thresholds_of(answers: Answers) -> tuple[float, ...]:
    """Return values to choose thresholds among: quantiles of the sureness at all early exits.

    Principal values of heat maps lie far from 1, so a fixed list would miss them.
    """
    sure = answers.confidence[:, : answers.exits]
    return tuple(float(one) for one in np.unique(np.quantile(sure, np.arange(VALUES) / VALUES)))


def _selected(table: CandidateTable, answers: Answers, eta: float) -> Answer | None:
    """Select on one half of the pictures and judge on the other; None where no exit keeps eta."""
    half = len(answers) // 2
    one, other = answers[:half], answers[half:]
    chain, _ = greedy(table, one, Goal(eta=eta, batch=BATCH, thresholds=thresholds_of(one)))
    return _row(table, one, other, chain) if chain else None


def _row(table: CandidateTable, one: Answers, other: Answers, chain: Chain) -> Answer:
    """Write a chain on the half that chose it and on the other, beside random leavers at the same rates."""
    alone = table.single_ns(BATCH)
    selected, held = outcome(table, one, chain, BATCH), outcome(table, other, chain, BATCH)
    exits = [*(exit for exit, _ in chain), other.exits]
    random = sum(rate * float(other.right[:, exit].mean()) for rate, exit in zip(held.rates, exits, strict=True))
    return {
        "chain": chain_list(chain),
        "selected": judged(selected, alone),
        "held_out": judged(held, alone),
        "random_kept_pct": significant(100 * random / held.reference),
    }


def checks(found: MapRecording) -> Answer:
    """Give the score (%) at each exit when the surest half leaves, by check, and when a random half does.

    For random leavers it is the expectation, so no draw blurs it.
    """
    rows = {check: [significant(100 * one) for one in _kept(found, found.sure[check])] for check in MAP_CHECKS}
    mean = found.score.mean(axis=0)
    random = SHOWN_SHARE * mean[:-1] + (1 - SHOWN_SHARE) * mean[-1]
    return rows | {"random": [significant(100 * float(one)) for one in random]}


def _kept(found: MapRecording, sure: NDArray[np.float64]) -> list[float]:
    count, kept = int(SHOWN_SHARE * len(found.score)), []
    for exit in range(found.score.shape[1] - 1):
        leaving = np.zeros(len(sure), bool)
        leaving[np.argsort(-sure[:, exit], kind="stable")[:count]] = True
        kept.append(float(np.where(leaving, found.score[:, exit], found.score[:, -1]).mean()))
    return kept
