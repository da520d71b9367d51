"""Rules of one's own that combine the answers of an ensemble.

A script puts a function into `COMBINERS`; its name there is the `rule` of an ensemble. The function is asked
when an answer leaves, with the parts in the order of the networks, so what it gives does not depend on the
order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import FleetError

RULES = ("average", "weighted", "majority")  # of fluidnpu's own
Floats = NDArray[np.float64]


class Combiner(Protocol):
    """A function that combines answers."""

    def __call__(self, logits: Floats, seen: NDArray[np.bool_], weights: Floats) -> Any:
        """Return finite scores (samples, classes); the first largest is the class.

        `logits` (samples, networks, classes) are exact, in real units, and 0 where `seen` (samples, networks)
        is not. `weights` (networks,) are those of the fleet file. All three may be changed.
        """


COMBINERS: dict[str, Combiner] = {}  # by name, which must be none of `RULES`


def find_combiner(name: str) -> Combiner | None:
    """Return the function of a rule, None for those of `RULES`.

    Raises FleetError for an unknown name, and for one that `COMBINERS` and `RULES` share.
    """
    if name in RULES:
        if name in COMBINERS:
            raise FleetError(f"a rule of your own must have a name that is none of {', '.join(RULES)}, not '{name}'")
        return None
    if name not in COMBINERS:
        raise FleetError(f"a rule must be one of {', '.join([*RULES, *COMBINERS])}, not '{name}'")
    return COMBINERS[name]


def scores_of(name: str, combiner: Combiner, logits: Floats, seen: NDArray[np.bool_], weights: Sequence[int]) -> Floats:
    """Ask a rule for the scores (samples, classes) of all parts that came. Raises FleetError."""
    wanted = (logits.shape[0], logits.shape[2])
    try:
        scores = np.asarray(combiner(logits.copy(), seen.copy(), np.array(weights, float)), float)
    except Exception as error:  # a function of a user's may raise anything
        came = " ".join(f"{type(error).__name__}: {error}".split())
        raise FleetError(f"the rule '{name}' must give scores {wanted}, and that failed: {came}") from error
    if scores.shape != wanted or not np.isfinite(scores).all():
        what = "some that are not finite" if scores.shape == wanted else f"an array {scores.shape}"
        raise FleetError(f"the rule '{name}' must give finite scores {wanted}, not {what}")
    return scores
