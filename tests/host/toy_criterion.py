"""A criterion of one's own: all that must be written to add one to simulator and device."""

from dataclasses import dataclass

from fluidnpu.scheduler.exits import Seen


@dataclass(frozen=True)
class Impatient:
    """Leaves after `patience_ns` of response time, or earlier with a confidence above `bar`."""

    patience_ns: int
    bar: float = 1.0

    def leaves(self, seen: Seen) -> bool:
        """Decide by response time first; without a known confidence by response time alone."""
        return seen.elapsed_ns > self.patience_ns or (seen.confidence is not None and seen.confidence > self.bar)
