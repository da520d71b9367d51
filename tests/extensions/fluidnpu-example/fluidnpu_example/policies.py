"""A policy that serves the newest request first; `newest-first:most=2` starts two at a time."""

from dataclasses import dataclass

from fluidnpu.scheduler import Action, Run, View
from fluidnpu.scheduler.policies import Entry, parse_count


@dataclass(kw_only=True)
class NewestFirst:
    """Runs the samples in flight to their end, then the newest of the queue."""

    most: int = 1
    name: str = "newest-first"

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        stage = max(stage for stage, line in enumerate(view.waiting) if line)
        return Run(stage, tuple(view.waiting[stage][-min(self.most, view.b_max) :]), reason="newest")


NEWEST_FIRST = Entry(NewestFirst, "the newest request first", {"most": parse_count})
