"""Shedding around any policy: a request that cannot reach the first exit in time is refused.

It counts as a violation. Answers that would be late anyway are given up, which frees the NPU for others.
Off unless asked for: most users want a late answer rather than none.
"""

from __future__ import annotations

from ...policy import Action, Policy, Shed, View


class Shedding:
    """`inner`, after refusing the hopeless requests in the queue."""

    def __init__(self, inner: Policy, name: str | None = None) -> None:
        self.inner = inner
        self.name = name or f"{inner.name}+shed"

    def reset(self) -> None:
        """Reset the wrapped policy."""
        self.inner.reset()

    def decide(self, view: View) -> Action:
        """Refuse the requests that are late in any case, else decide as the wrapped policy."""
        soonest = view.now_ns + view.latency.ns[0][0]
        hopeless = tuple([r for r in view.waiting[0] if r.deadline_ns < soonest])
        return Shed(hopeless, "not even the first exit can be reached in time") if hopeless else self.inner.decide(view)
