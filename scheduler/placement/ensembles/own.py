"""Rules of one's own that combine the answers of an ensemble, brought by installed packages.

A package names a function in the group `fluidnpu.combiners` of its entry points; the name is the `rule` of an
ensemble. The function is asked when an answer leaves, with the parts in the order of the networks, so what it
gives does not depend on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import FleetError

GROUP = "fluidnpu.combiners"
Floats = NDArray[np.float64]


class Combiner(Protocol):
    """A function that combines answers."""

    def __call__(self, logits: Floats, seen: NDArray[np.bool_], weights: Floats) -> Any:
        """Return finite scores (samples, classes); the first largest is the class.

        `logits` (samples, networks, classes) are exact, in real units, and 0 where `seen` (samples, networks)
        is not. `weights` (networks,) are those of the fleet file. All three may be changed.
        """


@lru_cache
def find_combiner(name: str, shipped: Sequence[str]) -> Combiner:
    """Load the rule of a name. Raises FleetError unless one package brings it and it can be loaded."""
    every = entry_points(group=GROUP)
    named = [entry for entry in every if entry.name == name]
    if not named:
        known = ", ".join([*shipped, *sorted({entry.name for entry in every})])
        raise FleetError(f"a rule must be one of {known}, or of a package with entry points '{GROUP}', not '{name}'")
    if len({entry.value for entry in named}) > 1:
        raise FleetError(
            f"one package must bring the rule '{name}', not {', '.join(sorted(entry.value for entry in named))}"
        )
    try:
        made: Combiner = named[0].load()
    except Exception as error:  # a package may do anything when it is loaded
        raise FleetError(
            f"the rule '{name}' must load from '{named[0].value}', and that failed: {_sentence(error)}"
        ) from error
    if not callable(made):
        raise FleetError(f"the rule '{name}' must be a function, and '{named[0].value}' is none")
    return made


def scores_of(name: str, combiner: Combiner, logits: Floats, seen: NDArray[np.bool_], weights: Sequence[int]) -> Floats:
    """Ask a rule for the scores (samples, classes) of all parts that came. Raises FleetError."""
    wanted = (logits.shape[0], logits.shape[2])
    try:
        scores = np.asarray(combiner(logits.copy(), seen.copy(), np.array(weights, float)), float)
    except Exception as error:  # a function of a user's may raise anything
        raise FleetError(f"the rule '{name}' must give scores {wanted}, and it failed: {_sentence(error)}") from error
    if scores.shape != wanted or not np.isfinite(scores).all():
        what = "some that are not finite" if scores.shape == wanted else f"an array {scores.shape}"
        raise FleetError(f"the rule '{name}' must give finite scores {wanted}, not {what}")
    return scores


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
