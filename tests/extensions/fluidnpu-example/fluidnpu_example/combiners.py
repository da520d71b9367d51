"""A rule for ensembles: the product of the networks' probabilities."""

from typing import Any

import numpy as np


def product(logits: Any, seen: Any, weights: Any) -> Any:
    """Sum the log-probabilities (samples, classes) of the parts that came."""
    shifted = logits - logits.max(axis=2, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=2, keepdims=True))
    return (logs * (seen * weights)[:, :, None]).sum(axis=1)
