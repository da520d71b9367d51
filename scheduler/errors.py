"""What can go wrong in this room, as a drawn tree: the caller's faults are ValueErrors, a policy that
breaks the rules is a RuntimeError.

SchedulerError (ValueError)     a wrong argument, file or trace; one sentence, fit to be shown to a user
  TrafficError                  arrivals, deadlines, rates and traces
  OverloadError                 a decision process at a load that has no stationary solution
PolicyError (RuntimeError)      a policy returned an action that the rules of `Policy` forbid
"""

from __future__ import annotations


class SchedulerError(ValueError):
    """A caller's fault: the message says what must hold and what came."""


class TrafficError(SchedulerError):
    """Arrivals, deadlines, rates or a trace break a rule; for a trace the line is named."""


class OverloadError(SchedulerError):
    """The load is too high for a decision process to be solved."""


class PolicyError(RuntimeError):
    """A policy broke the rules; the message names the policy, the time and the violation."""
