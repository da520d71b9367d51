"""Overload as a state: while the queue is long, the rule of largest throughput decides.

With a long queue every other policy falls to the throughput of greedy batching, whatever it was solved for:
its tables end at some queue length, and the oldest go first however small their batch. So one burst can leave
a queue that is never worked off, at a load that was served with ease before. A `Drain` takes over where the
queue holds more than ENTER times the slots, and more than a policy's tables weigh, and hands back where it
holds no more than the slots. Between the two nothing switches, and the rule (`saturated.py`) always finds
full batches.

The rule's throughput is what an endless queue gets: the predicted capacity.
"""

from __future__ import annotations

import numpy as np

from ..compiled.twin import NO_DRAIN, DrainTwin, Npu
from ..policy import Run, View
from .setting import Setting
from .solving.saturated import Saturated, solve_saturated

ENTER, LEAST = 3, 24  # times the slots, and samples


class Drain:
    """The state of one policy, for one stream; ask it before each decision.

    `rule`: None where the process is too large to solve. Then, and for an NPU with other stages, it never
    takes over.
    """

    def __init__(self, setting: Setting) -> None:
        self.rule: Saturated | None = solve_saturated(
            setting.latency, tuple(setting.exit_rates), setting.b_max, setting.slots
        )
        self.reset()

    def reset(self) -> None:
        """Begin with a short queue."""
        self._on = False

    def decide(self, view: View) -> Run | None:
        """Return the run of largest throughput, of the oldest at its stage; None where the queue is short."""
        rule, waiting = self.rule, view.waiting
        if rule is None or len(waiting) != rule.stages:
            return None
        queued = len(waiting[0])
        self._on = queued > (rule.slots if self._on else enter(rule.slots))
        if not self._on:
            return None
        later = [len(line) for line in waiting[1:]]
        action = rule.action(later)
        if action is None:
            return None
        stage, size = action
        size = min(size, view.b_max, (view.slots or view.b_max) - sum(later) if stage == 0 else size)
        if size < 1:
            return None
        return Run(stage, tuple(waiting[stage][:size]), f"overload: {queued} in the queue, largest throughput")

    def compiled(self, npu: Npu) -> DrainTwin:
        """Return the twin for the compiled loop; for an NPU with other stages one that never takes over."""
        rule = self.rule
        if rule is None or len(npu.believed) != rule.stages:
            return NO_DRAIN
        return DrainTwin(
            b_max=rule.b_max,
            slots=rule.slots,
            enter=enter(rule.slots),
            choice=np.asarray(rule.choice),
            on=np.zeros(1, np.int64),
        )


def enter(slots: int) -> int:
    """Return the length of a queue above which the rule takes over."""
    return max(LEAST, ENTER * slots)
