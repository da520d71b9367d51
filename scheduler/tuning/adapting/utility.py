"""Apparate's rules on the table of active exits, to compare with (Dai et al., SOSP 2024, 3.2 and 3.3).

Every leaver runs on, so what the last exit says of each sample is known soon after. Thresholds are tuned on
recent samples when the last few kept too little: from nobody leaving, that exit's threshold moves next which
saves most time for each answer lost. Steps double where they are taken, and halve where none may be. Now and
then each exit's utility is reckoned: the time that its leavers save less the time that its head costs all
others. Exits of negative utility go. Where there is none, the absent exit comes back that could gain most, if
everybody who leaves behind it left there.

Not taken: exits put into a network, their training, the budget of memory, language models. In their system
samples run on in the batch that they are in anyway; here they take NPU time of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...policy import Request
from ...simulation.active import ActiveExits, ExitSet, InForce

WINDOW = 16  # samples of which too few are kept before thresholds are tuned
ROUND = 128  # samples between two looks at utilities
RECENT = 256  # samples that thresholds are tuned on
FIRST_STEP, LAST_STEP = 0.1, 0.01  # of a threshold on doubt, 1 less confidence


class Utility:
    """Sets thresholds and active exits by what recent samples gained. A `Watcher` of the simulator.

    `eta`: the share of answers to keep. `classes` and `confidences`: what each exit says, by request.
    """

    def __init__(
        self,
        active: ActiveExits,
        eta: float,
        classes: Mapping[int, Sequence[int]],
        confidences: Mapping[int, Sequence[float]],
    ) -> None:
        self.active, self.eta = active, eta
        self.shadows = self.shadow_ns = self.changes = 0
        self._classes, self._confidences = classes, confidences
        whole, bare = active.times.whole.ns, active.times.bare.ns
        self._exits = len(whole) - 1
        self._saves = np.array([sum(row[0] for row in bare[exit + 1 :]) for exit in range(self._exits)])
        self._heads = np.array([whole[exit][0] - bare[exit][0] for exit in range(self._exits)])
        self._limits = np.array([1 - (1.0 if value is None else value) for value in active.now.exits.thresholds])
        self._on = np.ones(self._exits, bool)
        self._left: dict[int, int] = {}
        self._kept: deque[bool] = deque(maxlen=WINDOW)
        self._recent: deque[int] = deque(maxlen=RECENT)
        self._seen = 0

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        """Let every leaver run on; those at the last exit are known at once."""
        leavers = [request.id for request, reason in zip(requests, reasons, strict=True) if reason]
        if stage == self._exits:
            for id in leavers:
                self._known(id, stage)
            return frozenset()
        self._left.update(dict.fromkeys(leavers, stage))
        self.shadows += len(leavers)
        self.shadow_ns += len(leavers) * sum(row[0] for row in force.latency.ns[stage + 1 :])
        return frozenset(leavers)

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Take a sample that has come to the last exit."""
        if (exit := self._left.pop(request_id, None)) is not None:
            self._known(request_id, exit)

    def gone(self, request_id: int) -> None:
        """Forget a sample of which nothing will be known."""
        self._left.pop(request_id, None)

    def _known(self, id: int, exit: int) -> None:
        label = self._classes[id]
        self._kept.append(label[exit] == label[-1])
        self._recent.append(id)
        self._seen += 1
        before = self._limits.copy(), self._on.copy()
        if self._seen % ROUND == 0:
            self._adjust()
            self._tune()
        elif self._seen % WINDOW == 0 and sum(self._kept) < self.eta * WINDOW:
            self._tune()
        if not all(np.array_equal(*pair) for pair in zip(before, (self._limits, self._on), strict=True)):
            self.changes += 1
            rows = zip(self._on, self._limits, strict=True)
            exits = ExitSet(tuple(float(np.clip(1 - limit, 0, 1)) if on else None for on, limit in rows))
            self.active.change(exits, "by its utility")

    def _rows(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the recent samples' doubts, and where an exit's class is not the last one's (N, exits)."""
        sure = np.array([self._confidences[id][: self._exits] for id in self._recent], np.float64)
        labels = np.array([self._classes[id] for id in self._recent], np.int64)
        differs: NDArray[np.bool_] = labels[:, : self._exits] != labels[:, -1:]
        return 1.0 - sure, differs

    def _left_at(self, doubts: NDArray[np.float64], limits: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return where each sample leaves under thresholds (N,); the number of exits for the last."""
        leaves = (doubts < limits) & self._on
        return np.where(leaves.any(axis=1), leaves.argmax(axis=1), self._exits)

    def _tune(self) -> None:
        """Choose thresholds on the recent samples, from nobody leaving."""
        doubts, differs = self._rows()
        differs = np.column_stack([differs, np.zeros(len(differs), bool)])
        saves, most = np.append(self._saves, 0), (1 - self.eta) * len(doubts)
        everybody = np.arange(len(doubts))

        def tried(limits: NDArray[np.float64]) -> tuple[float, float]:
            left = self._left_at(doubts, limits)
            return float(saves[left].sum()), float(differs[everybody, left].sum())

        limits, steps = np.zeros(self._exits), np.where(self._on, FIRST_STEP, 0.0)
        saved = lost = 0.0
        while True:
            best: tuple[float, int, float, float] | None = None
            for exit in np.flatnonzero(self._on & (limits <= 1)):
                higher = limits.copy()
                higher[exit] += steps[exit]
                gain, loss = tried(higher)
                if loss <= most and gain > saved:
                    value = (gain - saved) / max(loss - lost, 1e-9)
                    if best is None or value > best[0]:
                        best = value, int(exit), gain, loss
            if best is not None:
                _, exit, saved, lost = best
                limits[exit] += steps[exit]
                steps[exit] *= 2
            elif steps.max(initial=0.0) / 2 < LAST_STEP:
                break
            else:
                steps /= 2
        self._limits = limits

    def _adjust(self) -> None:
        """Drop exits that cost more than they save, or bring back the one that could gain most."""
        doubts, _ = self._rows()
        left = self._left_at(doubts, self._limits)
        leavers = np.array([(left == exit).sum() for exit in range(self._exits)])
        passing = np.array([(left > exit).sum() for exit in range(self._exits)])
        worth = leavers * self._saves - passing * self._heads
        if (bad := self._on & (worth < 0)).any():
            self._on &= ~bad
            return
        gains = np.full(self._exits, -1.0)
        for exit in np.flatnonzero(~self._on):
            behind = [int(later) for later in np.flatnonzero(self._on) if later > exit]
            many = leavers[behind[0]] if behind else passing[exit]
            more = self._saves[exit] - (self._saves[behind[0]] if behind else 0)
            gains[exit] = many * more - (passing[exit] - many) * self._heads[exit]
        if gains.max(initial=-1.0) > 0:
            self._on[int(gains.argmax())] = True
