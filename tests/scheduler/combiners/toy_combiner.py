"""A package with rules of one's own: all that must be written to combine an ensemble's answers otherwise."""

from typing import Any

import numpy as np


def surest(logits: Any, seen: Any, weights: Any) -> Any:
    """Take the logits of the network that is surest of its first class; of equals the first."""
    best = np.where(seen, weights * (logits.max(axis=2) - np.partition(logits, -2, axis=2)[..., -2]), -np.inf)
    return logits[np.arange(len(logits)), best.argmax(axis=1)]


def narrow(logits: Any, seen: Any, weights: Any) -> Any:
    """Forget a class, as a slip would."""
    return logits.sum(axis=1)[:, 1:]


def endless(logits: Any, seen: Any, weights: Any) -> Any:
    """Give scores that are no numbers."""
    return np.full((logits.shape[0], logits.shape[2]), np.nan)


def broken(logits: Any, seen: Any, weights: Any) -> Any:
    """Fail."""
    raise KeyError("no such class")
