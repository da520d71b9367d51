"""The settings of fine-tuning, and the rate of every step. Pure arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import NetworkError

FIRST_EXIT_WEIGHT = 0.4  # of its loss, with rising weights; the last exit has 1, those between lie on a line
WEIGHTS = ("equal", "rising")
BITS = (16, 8)  # of a word, as `numeric.words` has them; a command line that shows its help loads no NumPy
AUGMENTS = ("none", "shift", "shift-mirror")


@dataclass(frozen=True, kw_only=True)
class TrainingSchedule:
    """Fine-tuning in figures. Raises NetworkError for what makes no sense.

    weights: of the exits' losses, "equal" (PAME, section 5.2) or "rising" towards the last. frozen: only
    bridges and heads learn. distil: share of an early exit's loss that asks for the last exit's
    probabilities instead of the label. held_out: share of the images that nothing learns from. patience:
    epochs without a lower held-out loss before training stops, and the best epoch is kept; 0 never stops.
    bits: 8 trains with the rounding of int8 in the way.
    """

    epochs: int = 10
    batch_size: int = 128
    peak_rate: float = 1e-3
    weights: str = "equal"
    frozen: bool = False
    distil: float = 0.0
    temperature: float = 2.0
    augment: str = "none"
    held_out: float = 0.1
    patience: int = 0
    seed: int = 0
    bits: int = 16

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("patience", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise NetworkError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, most in (("peak_rate", 10.0), ("temperature", 100.0)):
            if not 0 < getattr(self, name) <= most:
                raise NetworkError(f"{name} must lie above 0 and at most {most:g}, not {getattr(self, name)}")
        if not 0 <= self.distil <= 1:
            raise NetworkError(f"distil must be a share of 0..1, not {self.distil}")
        if not 0 < self.held_out < 1:
            raise NetworkError(f"held_out must be a share between 0 and 1, not {self.held_out}")
        if self.bits not in BITS:
            raise NetworkError(f"bits must be 16 or 8, not {self.bits}")
        for name, allowed in (("weights", WEIGHTS), ("augment", AUGMENTS)):
            if getattr(self, name) not in allowed:
                raise NetworkError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")

    def rate(self, step: int, steps: int) -> float:
        """Return one cycle's rate: linear up over the first tenth, cosine down to zero over the rest.

        >>> [round(TrainingSchedule(peak_rate=1.0).rate(step, 20), 2) for step in (0, 1, 11, 19)]
        [0.5, 1.0, 0.5, 0.01]
        """
        return learning_rate(step, steps, self.peak_rate, rise=0.1)

    def exit_weights(self, exits: int) -> list[float]:
        """Return the weight of every exit's loss; they sum to 1.

        >>> TrainingSchedule(weights="equal").exit_weights(4)
        [0.25, 0.25, 0.25, 0.25]
        """
        raw = [1.0] * exits if self.weights == "equal" else rising_weights(exits)
        return [weight / sum(raw) for weight in raw]


def rising_weights(exits: int) -> list[float]:
    """Return weights of the exits' losses that grow towards the last exit.

    >>> rising_weights(3)
    [0.4, 0.7, 1.0]
    """
    if exits == 1:
        return [1.0]
    return [FIRST_EXIT_WEIGHT + (1 - FIRST_EXIT_WEIGHT) * index / (exits - 1) for index in range(exits)]


def learning_rate(step: int, steps: int, peak: float, rise: float = 0.2) -> float:
    """Return one cycle's rate: linear up over a share of the steps, cosine down to zero over the rest."""
    first = max(1, int(steps * rise))
    if step < first:
        return peak * (step + 1) / first
    return peak * 0.5 * (1 + math.cos(math.pi * (step - first) / max(1, steps - first)))
