"""The policy of a plan: splits of a network in turns on one device, each at its own full batch (TETRIS)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import SchedulerError
from ..policy import Action, Run, View
from .baselines import PATIENCE, deepest, oldest_first
from .entry import Entry

Splits = tuple[tuple[int, int], ...]


@dataclass(kw_only=True)
class TurnsPolicy:
    """Samples gather at the beginning of each split until its batch is full; the deepest full split runs.

    `splits`: first stage and batch of each, the first from stage 0; none: every stage is a split of its own
    at the largest batch. Without a full split the queue goes before what waits further on, as long as it
    fills a batch; inside a split a batch goes on. A sample that has waited for `patience` objectives goes
    first, so that nobody gathers for ever; 0 for never. Raises SchedulerError.
    """

    splits: Splits = ()
    patience: int = PATIENCE
    name: str = "turns"

    def __post_init__(self) -> None:
        stages = [stage for stage, _ in self.splits]
        if stages and (stages[0] or stages != sorted(set(stages)) or min(batch for _, batch in self.splits) < 1):
            raise SchedulerError(
                f"splits must begin at stages from 0 on, in order, in batches from 1, not {self.splits}"
            )

    def reset(self) -> None:
        """Forget nothing: it keeps no state."""

    def table(self, stages: int, b_max: int) -> tuple[list[int], list[int]]:
        """Return for each stage 1 where a split begins, and the batch of the split it is in."""
        splits = dict(self.splits) or dict.fromkeys(range(stages), b_max)
        begins, batch = list[int](), list[int]()
        for stage in range(stages):
            begins.append(int(stage in splits))
            batch.append(min(b_max, splits[stage]) if stage in splits else batch[-1])
        return begins, batch

    def decide(self, view: View) -> Action:
        """Go on inside a split; else run the deepest full split, else the deepest that waits."""
        waiting, stages = view.waiting, len(view.waiting)
        begins, batch = self.table(stages, view.b_max)
        for stage in range(stages - 1, 0, -1):
            if waiting[stage] and not begins[stage]:
                return Run(stage, tuple(waiting[stage][: view.b_max]), "go on")
        if self.patience and (first := oldest_first(view, self.patience)) is not None:
            return first
        for stage in range(stages - 1, 0, -1):
            if len(waiting[stage]) >= batch[stage] and begins[stage]:
                return Run(stage, tuple(waiting[stage][: batch[stage]]), "full")
        free = (view.slots or view.b_max) - sum(len(line) for line in waiting[1:])
        size, stage = min(len(waiting[0]), batch[0], free), deepest(view)
        if size > 0 and (size >= batch[0] or stage == 0):
            return Run(0, tuple(waiting[0][:size]), "full" if size >= batch[0] else "nothing else waits")
        return Run(stage, tuple(waiting[stage][: batch[stage]]), "no batch is full")


def splits_text(splits: Splits) -> str:
    """Write splits as the parameter has them.

    >>> splits_text(((0, 8), (2, 4))), parse_splits("splits", "0x8+2x4")
    ('0x8+2x4', {'splits': ((0, 8), (2, 4))})
    """
    return "+".join(f"{stage}x{batch}" for stage, batch in splits)


def parse_splits(key: str, text: str) -> dict[str, Any]:
    """Return splits of a text like `0x8+2x4`: from stage 0 in batches of 8, from stage 2 of 4.

    Raises SchedulerError.
    """
    parts = [re.fullmatch(r"([0-9]{1,4})x([0-9]{1,4})", part) for part in text.split("+")]
    if not all(parts):
        raise SchedulerError(f"{key} must be STAGExBATCH, joined by '+', such as 0x8+2x4, not {text!r}")
    return {key: tuple((int(match[1]), int(match[2])) for match in parts if match is not None)}


ENTRIES = {
    "turns": Entry(TurnsPolicy, "a plan's splits in turns, each at its own full batch", {"splits": parse_splits})
}
