"""The overload rule around any policy: while the queue is long, the largest throughput decides.

`guarded` has the rule within itself, since it learns from every decision.
"""

from __future__ import annotations

from ...compiled.twin import NO_DRAIN, Compiled, Npu, Stream, Wrappers, twin_of
from ...policy import Action, Policy, View
from ..drain import Drain


class Draining:
    """`inner`, but for a long queue, which `drain` works off."""

    def __init__(self, inner: Policy, drain: Drain, name: str | None = None) -> None:
        self.inner, self.drain = inner, drain
        self.name = name or f"{inner.name}+drain"

    def reset(self) -> None:
        """Reset the wrapped policy, and begin with a short queue."""
        self.drain.reset()
        self.inner.reset()

    def decide(self, view: View) -> Action:
        """Decide as the wrapped policy, or as the rule of largest throughput."""
        return self.drain.decide(view) or self.inner.decide(view)

    def compiled(self, stream: Stream, npu: Npu) -> Compiled | None:
        """Return the twin of the wrapped policy, wrapped; None when it has none or is wrapped already."""
        inner = twin_of(self.inner, stream, npu)
        if inner is None or inner.wrappers != Wrappers() or inner.drain is not NO_DRAIN:
            return None
        return inner._replace(drain=self.drain.compiled(npu))
