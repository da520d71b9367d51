"""Chains of exits and their outcomes, written for the study's dictionary."""

from __future__ import annotations

from typing import Any

from fluidnpu.scheduler.tuning import Chain, ChainOutcome

from ..writing import significant


def describe_outcome(outcome: ChainOutcome, alone: int) -> dict[str, Any]:
    """Write an outcome beside the single-exit network's time."""
    return {
        "average_change_pct": significant(100 * (outcome.average_ns / alone - 1)),
        "tail_change_pct": significant(100 * (outcome.tail_ns / alone - 1)),
        "p99_change_pct": significant(100 * (outcome.p99_ns / alone - 1)),
        "late_batches": significant(outcome.late_batches),
        "late_samples": significant(outcome.late_samples),
        "kept_pct": significant(100 * outcome.kept),
        "rates": [significant(rate) for rate in outcome.rates],
    }


def chain_list(chain: Chain) -> list[list[float]]:
    """Write a chain as [candidate from 1, threshold]."""
    return [[exit + 1, threshold] for exit, threshold in chain]
