"""The errors of design-space exploration, as one tree. ValueError is the caller's fault.

    DseError
    └── DesignError (ValueError)   a design, a question or a file of this room breaks a rule
        ├── FitError               a design does not fit a board: the resource, what is needed, what there is
        └── TooLongError           a job does not end within the cycles that it was given

>>> FitError("too small", resource="dsp", needed=930, available=900).needed
930
"""

from __future__ import annotations


class DseError(Exception):
    """Base of everything that this room raises."""


class DesignError(DseError, ValueError):
    """A design, a question or a file breaks a rule; the message says what must hold and what came."""


class FitError(DesignError):
    """A design does not fit a board: one sentence with the resource, what is needed and what there is."""

    def __init__(self, message: str, *, resource: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.resource, self.needed, self.available = resource, needed, available


class TooLongError(DesignError):
    """A job does not end within the cycles that it was given."""
