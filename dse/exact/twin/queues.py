"""Queues between modules, as levels: twin of `common_fifo` and `common_skid`.

An entry is visible one cycle after its push, and back-pressure does not depend on a pop of the same cycle. So
both sides look at the level from before the cycle, and `step_queue` updates it at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from .records import jit

SKID_DEPTH = 2


@dataclass(slots=True)
class Queue:
    """The level of a queue before the cycle, and the handshakes of the cycle."""

    level: int
    push: int
    pop: int


@jit
def step_queue(queue: Queue) -> None:
    """Update the level of a queue at the end of a cycle."""
    queue.level += queue.push - queue.pop
    queue.push = 0
    queue.pop = 0
