"""The queues between modules as levels: twin of `common_fifo` and `common_skid`.

A queue shows what is pushed only a cycle later, and its room does not depend on what is popped. So both
sides look at the level of the cycle's beginning, and `step_queue` moves it at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from .records import jit

SKID_DEPTH = 2


@dataclass(slots=True)
class Queue:
    """Entries that were there when the cycle began, and what happens to them in it."""

    level: int
    push: int
    pop: int


@jit
def step_queue(queue: Queue) -> None:
    """End the cycle of a queue."""
    queue.level += queue.push - queue.pop
    queue.push = 0
    queue.pop = 0
