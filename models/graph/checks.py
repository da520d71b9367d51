"""Exit checks by name: the number of 0..1 that a classifier's logits become, before a threshold is
compared.
"""

from __future__ import annotations

from enum import Enum


class ExitCheck(str, Enum):
    """The check of a network's exits; every exit has a threshold of its own on it (PAME, section 5.3).

    top: the largest softmax probability. certainty: 1 less the entropy over that of no knowledge. margin: the
    largest probability less the second. agreement: the largest probability where the exit before named the
    same class, else 0, so nobody leaves at the first exit (after PABEE).
    """

    TOP = "top"
    CERTAINTY = "certainty"
    MARGIN = "margin"
    AGREEMENT = "agreement"
