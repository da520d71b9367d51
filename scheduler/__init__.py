"""Serving policies, the discrete-event simulator they are judged in, traffic and metrics."""

from .policy import Action, Policy, Request, Run, View, Wait

__all__ = ["Action", "Policy", "Request", "Run", "View", "Wait"]
