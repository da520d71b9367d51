"""The errors of the scheduler room, as one tree.

A ValueError is the caller's fault, a RuntimeError the policy's.

    SchedulingError
    ├── SchedulerError (ValueError)  a wrong argument, file or trace
    │   ├── CriterionError           a criterion breaks its grammar, or asks what is not known
    │   ├── TrafficError             arrivals, deadlines, rates or a trace break a rule
    │   ├── OverloadError            a decision process at a load that has no stationary solution
    │   └── FleetError               a fleet, profile or plan breaks a rule; file and place are named
    ├── PlacementError (RuntimeError)  networks fit nowhere, or no plan keeps the objective
    ├── EngineError (RuntimeError)   processes or a cluster that were to do work have died, or are not there
    └── PolicyError (RuntimeError)   a policy returned an action that the rules of `Policy` forbid
"""

from __future__ import annotations


class SchedulingError(Exception):
    """Base class of all errors of the scheduler room."""


class SchedulerError(SchedulingError, ValueError):
    """A caller's fault; the message says what must hold and what came, in one sentence for users."""


class CriterionError(SchedulerError):
    """A criterion breaks its grammar at `column` of its text, from 1, or asks what is not known (0)."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


class TrafficError(SchedulerError):
    """Arrivals, deadlines, rates or a trace break a rule; for a trace the line is named."""


class OverloadError(SchedulerError):
    """The load is too high for a decision process to be solved."""


class PolicyError(SchedulingError, RuntimeError):
    """A policy broke the rules; the message names the policy, the time and the violation."""


class EngineError(SchedulingError, RuntimeError):
    """Processes or a cluster that were to do work have died, or cannot be reached."""


class FleetError(SchedulerError):
    """A fleet, a profile or a plan breaks a rule; the message names the file and the place in it."""


class PlacementError(SchedulingError, RuntimeError):
    """No plan exists: a network fits nowhere, or none keeps the objective; the message has the numbers."""
