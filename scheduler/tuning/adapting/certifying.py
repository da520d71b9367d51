"""Thresholds that follow a running certificate: they fall while its evidence allows, and rise when it falls.

The certificate alone decides whether anybody may leave, so its promise needs nothing of what stands here: as
soon as the next batch could break it, all thresholds go to 1 and nobody leaves. Which thresholds it has
otherwise is steering, by what recent samples show that reached the last exit: all that left nowhere, which
cost nothing, and those of the leavers that ran on, each for the many that did not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import SchedulerError
from ...exits.certificate import Certificate, Promise
from ...exits.criteria import Criteria
from ...policy import Request
from ...simulation.active import ActiveExits, ExitSet, InForce
from ..selection.greedy import THRESHOLDS
from .adaptation import AdaptationEvent

GRID = (*THRESHOLDS, 1.0)  # the last lets nobody leave
CLOSED = len(GRID) - 1
EXPECTED = 10  # differences that may be seen in what steering remembers
ROUNDS = 10  # steps in the time that it remembers
FALLS, RISES, CLOSES, RESET = "falls", "rises", "closes", "reset"  # kinds of events


@dataclass(slots=True)
class _Path:
    """A sample's way so far: by exit, the grid's values that its confidence exceeds, and its class."""

    bands: list[int] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    tenant: str = ""


class Certifier:
    """Certifies one network while it is served and sets its thresholds. A `Watcher` of simulator and runtime.

    `batch`: the most samples of a run. `criteria`: those in force, where requests or tenants may have their
    own; they are counted apart. `classes` and `confidences`: for the simulator, what each exit says, by
    request. `certificate`: one that continues. `notify` is called with every event. Raises SchedulerError.
    """

    def __init__(
        self,
        active: ActiveExits,
        promise: Promise,
        *,
        batch: int,
        seed: int | None = None,
        criteria: Criteria | None = None,
        classes: Mapping[int, Sequence[int]] | None = None,
        confidences: Mapping[int, Sequence[float]] | None = None,
        certificate: Certificate | None = None,
        notify: Callable[[AdaptationEvent], None] | None = None,
    ) -> None:
        exits = len(active.now.exits.thresholds)
        if not exits:
            raise SchedulerError("a network must have an early exit to be certified, and it has none")
        self.active, self.promise = active, promise
        self.certificate = Certificate(promise, exits, seed=seed) if certificate is None else certificate
        self.shadows, self.shadow_ns, self.changes, self.ended_otherwise = 0, 0, 0, 0
        self._batch, self._criteria, self._classes, self._confidences = batch, criteria, classes, confidences
        self._notify, self._exits = notify, exits
        self.events: deque[AdaptationEvent] = deque(maxlen=1000)
        self._paths: dict[int, _Path] = {}
        self._running: dict[int, tuple[int, _Path]] = {}  # shadows under way: the exit that they left at
        times = active.times.whole
        self._saves = [sum(row[0] for row in times.ns[exit + 1 :]) for exit in range(exits)]
        self._memory = EXPECTED / (promise.may_lose * promise.share)
        self._step = max(1, round(self._memory / ROUNDS))
        self._places = [CLOSED] * exits
        self._forget()
        self._set(0, "nothing is certified yet, so nobody leaves")

    @property
    def places(self) -> tuple[float, ...]:
        """The thresholds that it wants now."""
        return tuple(GRID[place] for place in self._places)

    # -- what is seen ----------------------------------------------------------------------------------------

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
        """Count a run, choose the leavers that run on, and set thresholds anew where it is time."""
        on: list[int] = []
        for index, (request, reason) in enumerate(zip(requests, reasons, strict=True)):
            id = request.id
            label = self._class(id, stage) if labels is None else labels[index]
            if stage == self._exits:
                self._arrived(request, label)
                continue
            path = self._paths.setdefault(id, _Path(tenant=request.tenant))
            sure = self._confidence(id, stage) if confidences is None else confidences[index]
            path.bands.append(-1 if sure is None else bisect_left(GRID, sure))
            path.labels.append(label)
            if reason:
                del self._paths[id]
                if self._leaves(request, stage, path):
                    on.append(id)
        if on:
            self.shadows += len(on)
            self.shadow_ns += len(on) * self._saves[stage]
        self._steer(now_ns)
        return frozenset(on)

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Compare the last exit's class with the answer that was given."""
        running = self._running.pop(request_id, None)
        if running is None:
            return
        exit, path = running
        last = self._class(request_id, self._exits) if label is None else label
        differs = last is None or path.labels[exit] != last
        self._learn(path, last, 1 / self.promise.share)
        self._settle(now_ns, request_id, exit, path.tenant, differs)

    def gone(self, request_id: int) -> None:
        """Forget a request that ended otherwise; a sample that ran on and never arrives differs."""
        if self._paths.pop(request_id, None) is not None:
            self.ended_otherwise += 1
        if (running := self._running.pop(request_id, None)) is not None:
            exit, path = running
            self._settle(0, request_id, exit, path.tenant, True)

    def report(self) -> dict[str, Any]:
        """Return what is certified, and what it costs, as an object for people and programs."""
        return {
            **self.certificate.report(),
            "thresholds": list(self.places),
            "changes": self.changes,
            "shadows": self.shadows,
            "shadow_npu_ms": self.shadow_ns / 1e6,
            "ended_otherwise": self.ended_otherwise,
        }

    # -- evidence --------------------------------------------------------------------------------------------

    def _class(self, id: int, exit: int) -> int | None:
        return None if self._classes is None else int(self._classes[id][exit])

    def _confidence(self, id: int, exit: int) -> float | None:
        return None if self._confidences is None else float(self._confidences[id][exit])

    def _govern(self, request: Request) -> bool:
        return self._criteria is None or self._criteria.is_usual(request)

    def _leaves(self, request: Request, exit: int, path: _Path) -> bool:
        """Count an early answer; return whether its sample runs on."""
        on = self.certificate.answered(request.id, exit, request.tenant, governed=self._govern(request))
        if on:
            self._running[request.id] = exit, path
        self._seen += 1
        return on

    def _arrived(self, request: Request, label: int | None) -> None:
        """Count an answer of the last exit, and learn from it."""
        path = self._paths.pop(request.id, None)
        self.certificate.answered(request.id, None, request.tenant, governed=self._govern(request))
        self._seen += 1
        if path is not None:
            self._learn(path, label, 1.0)

    def _learn(self, path: _Path, last: int | None, weight: float) -> None:
        """Count a sample whose last exit is known in the bands of all exits that it passed."""
        for exit, (band, label) in enumerate(zip(path.bands, path.labels, strict=True)):
            if band >= 0:
                self._reached[exit, band] += weight
                self._lost[exit, band] += weight * (label != last)

    def _settle(self, now_ns: int, id: int, exit: int, tenant: str, differs: bool) -> None:
        if self.certificate.settle(id, exit, tenant, differs):
            self._forget()
            self._places = [CLOSED] * self._exits
            self._set(now_ns, "more is lost than may be, so a new stretch begins without evidence", RESET)

    def _forget(self) -> None:
        shape = (self._exits, len(GRID) + 1)
        self._reached, self._lost = np.zeros(shape), np.zeros(shape)
        self._answers = 0.0  # that these speak of
        self._seen = 0  # since the last step

    # -- steering --------------------------------------------------------------------------------------------

    def _steer(self, now_ns: int) -> None:
        """Let nobody leave where the promise could break; else take a step, where it is time."""
        closed = all(place == CLOSED for place in self._places)
        if not closed and not self.certificate.allows(self._batch):
            self._places = [CLOSED] * self._exits
            self._set(now_ns, "the next batch could break the promise, so nobody leaves")
        if self._seen < self._step:
            return
        self._answers += self._seen
        self._seen = 0
        if not self.certificate.allows(2 * self._batch):
            wanted = [CLOSED] * self._exits
        else:
            wanted = self._chosen(self.certificate.affordable(round(self._memory)))
        fading = self._memory / (self._memory + self._step)
        self._reached *= fading
        self._lost *= fading
        self._answers *= fading
        places = [max(new, old - 1) for new, old in zip(wanted, self._places, strict=True)]
        if places != self._places:
            falls = any(new < old for new, old in zip(places, self._places, strict=True))
            self._places = places
            stretch = self.certificate.stretch
            self._set(
                now_ns,
                f"at least {100 * stretch.kept:.2f} % of {stretch.answers} answers are the last exit's, where "
                f"{100 * self.promise.eta:g} % are promised",
                FALLS if falls else RISES,
            )

    def _chosen(self, rate: float) -> list[int]:
        """Return places on the grid at which about this share of answers differs, cheapest bands first.

        A band is what a threshold gains when it falls by one place. Of two exits' next bands the one comes
        first that saves more NPU time for each answer lost.
        """
        places, lost = [CLOSED] * self._exits, 0.0
        budget = rate * self._answers
        if budget <= 0:
            return places
        while True:
            best: tuple[float, int, int, float] | None = None
            for exit, place in enumerate(places):
                lower, samples, more = place, 0.0, 0.0
                while lower > 0 and samples == 0:
                    lower -= 1
                    samples += float(self._reached[exit, lower + 1])
                    more += float(self._lost[exit, lower + 1])
                if samples and lost + more <= budget:
                    value = samples * self._saves[exit] / (more + 1.0)
                    if best is None or value > best[0]:
                        best = value, exit, lower, more
            if best is None:
                return places
            _, exit, places[exit], more = best
            lost += more

    def _set(self, now_ns: int, why: str, kind: str = CLOSES) -> None:
        """Put the thresholds into the table, with the exit rates that they lead to."""
        exits, left, rates = ExitSet(self.places), 0.0, []
        for exit, place in enumerate(self._places):
            rates.append(float(self._reached[exit, place + 1 :].sum()) / max(1.0, self._answers))
        total = max(1.0, sum(rates))
        rates = [rate / total for rate in rates]
        left = max(0.0, 1.0 - sum(rates))
        self.active.change(exits, why, (*rates, left))
        self.changes += 1
        event = AdaptationEvent(
            kind=kind,
            at_ns=now_ns,
            requests=self.certificate.whole.answers,
            why=why,
            exits=exits,
            routine=kind != RESET,
        )
        self.events.append(event)
        if self._notify is not None:
            self._notify(event)
