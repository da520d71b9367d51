"""A policy in one file; a row of `POLICY_FILES` makes it known."""

from __future__ import annotations

from dataclasses import dataclass

from fluidnpu.scheduler import Action, Run, SchedulerError, View
from fluidnpu.scheduler.policies.entry import Entry, parse_count


@dataclass(kw_only=True)
class Deepest:
    """Runs the samples furthest on, then up to `most` of the queue; refuses to start more than three."""

    most: int = 1
    name: str = "deepest"

    def __post_init__(self) -> None:
        if self.most > 3:
            raise SchedulerError(f"most must be at most 3, not {self.most}")

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Run the line that is furthest on."""
        stage = max(s for s, line in enumerate(view.waiting) if line)
        line = view.waiting[stage]
        return Run(stage, tuple(line[: min(self.most, view.b_max)]), "furthest on")


ENTRIES = {"deepest": Entry(Deepest, "the samples furthest on first", {"most": parse_count})}
