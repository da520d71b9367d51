"""Tasks of the study on composited landmarks and segmentation: exits that answer with maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler.tuning import Answers, CandidateTable, Chain, Goal, greedy, guaranteed, outcome

from ..writing import significant
from .networks import BATCH, block_numbers, table_of
from .recorded import MAP_CHECKS, MapRecording, map_recording
from .selections import chain_list, describe_outcome

Answer = dict[str, Any]
ETAS = (0.99, 0.95)  # of the own last exit
SURE_ETA = 0.97  # of the single exit trained as long, where 2,000 pictures can prove anything
SHOWN_SHARE = 0.5  # of samples that leave, where checks are compared
VALUES = 24  # thresholds to choose among


def dense(name: str) -> Answer:
    """Give accuracy, selection and checks of one dense task, each beside leavers drawn at random."""
    recording, table = map_recording(name), table_of(name)
    answers, alone = recording.answers(), table.single_ns(BATCH)
    sure_goal = Goal(eta=SURE_ETA, batch=BATCH, thresholds=thresholds_of(answers))
    sure = guaranteed(table, recording.answers(reference=True), sure_goal)
    return {
        "pictures": len(answers),
        "learned": recording.learned,
        "blocks": list(block_numbers(name)),
        "exits_pct": [significant(100 * float(share)) for share in answers.right.mean(axis=0)],
        "reference_pct": significant(100 * float(recording.reference.mean())),
        "selected": {f"{eta:g}": _selected(table, answers, eta) for eta in ETAS},
        "guaranteed": None
        if sure.chain is None or sure.found is None
        else {"eta": SURE_ETA, "chain": chain_list(sure.chain), **describe_outcome(sure.found, alone)},
        "guarantee_needs": sure.needed,
        "checks": checks(recording),
    }


def thresholds_of(answers: Answers) -> tuple[float, ...]:
    """Return values to choose thresholds among: quantiles of the sureness at all early exits.

    Principal values of heat maps lie far from 1, so a fixed list would miss them.
    """
    sure = answers.confidence[:, : answers.exits]
    return tuple(float(quantile) for quantile in np.unique(np.quantile(sure, np.arange(VALUES) / VALUES)))


def _selected(table: CandidateTable, answers: Answers, eta: float) -> Answer | None:
    """Select on one half of the pictures and judge on the other; None where no exit keeps eta."""
    half = len(answers) // 2
    proposing, other = answers[:half], answers[half:]
    chain, _ = greedy(table, proposing, Goal(eta=eta, batch=BATCH, thresholds=thresholds_of(proposing)))
    return _row(table, proposing, other, chain) if chain else None


def _row(table: CandidateTable, proposing: Answers, other: Answers, chain: Chain) -> Answer:
    """Write a chain on the half that chose it and on the other, beside random leavers at the same rates."""
    alone = table.single_ns(BATCH)
    selected, held = outcome(table, proposing, chain, BATCH), outcome(table, other, chain, BATCH)
    exits = [*(exit for exit, _ in chain), other.exits]
    random = sum(rate * float(other.right[:, exit].mean()) for rate, exit in zip(held.rates, exits, strict=True))
    return {
        "chain": chain_list(chain),
        "selected": describe_outcome(selected, alone),
        "held_out": describe_outcome(held, alone),
        "random_kept_pct": significant(100 * random / held.reference),
    }


def checks(recording: MapRecording) -> Answer:
    """Give the score (%) at each exit when the surest half leaves, by check, and when a random half does.

    For random leavers it is the expectation, so no draw blurs it.
    """
    rows = {
        check: [significant(100 * share) for share in _kept(recording, recording.sure[check])] for check in MAP_CHECKS
    }
    mean = recording.score.mean(axis=0)
    random = SHOWN_SHARE * mean[:-1] + (1 - SHOWN_SHARE) * mean[-1]
    return rows | {"random": [significant(100 * float(share)) for share in random]}


def _kept(recording: MapRecording, sure: NDArray[np.float64]) -> list[float]:
    count, kept = int(SHOWN_SHARE * len(recording.score)), []
    for exit in range(recording.score.shape[1] - 1):
        leaving = np.zeros(len(sure), bool)
        leaving[np.argsort(-sure[:, exit], kind="stable")[:count]] = True
        kept.append(float(np.where(leaving, recording.score[:, exit], recording.score[:, -1]).mean()))
    return kept
