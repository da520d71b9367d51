"""Adaptation: alarms, evidence and PAME's two rules, on the table of active exits (PAME, section 7.6).

Alarms cost nothing: cumulative sums over the leave rate of each active exit, over late batches, and over
wrong answers where labels are fed back. After an alarm a share of the leavers runs on to the last exit as
shadows, which shows what leaving costs in precision. Then one of the rules acts, by symptom: if batches end
late, the first exit moves to the next candidate behind it; if precision is too low, the threshold of the exit
that loses most rises by a step; if neither, the new rates are what is expected from now on. When the load is
as it was recorded again, the selected set comes back; where no exit is left to tell, it is tried again after
a while.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import SchedulerError
from ...policy import Request
from ...simulation.active import ActiveExits, ExitSet, InForce
from .charts import Chart
from .plan import AdaptationPlan, Expected

ANSWERS_KEPT = 20_000  # whose labels may still come
GRID = 20  # shares that charts are made for beforehand, where they are not the recorded ones
LATE_ODDS = 3.0
ALARM, CHANGE, HOLDS = "alarm", "change", "holds"


@dataclass(frozen=True, kw_only=True)
class Watching:
    """The settings of an adaptation. Raises SchedulerError.

    `distance`: requests between two false alarms on the recorded load, at least. `odds`: the change of the
    odds that charts look for. `shadow`: share of leavers that run on while alarmed. `evidence`: shadows
    that a judgement of precision takes. `learning`: requests that expected rates are learned from after a
    change.
    """

    distance: int = 5000
    odds: float = 2.0
    shadow: float = 0.25
    evidence: int = 100
    learning: int = 300

    def __post_init__(self) -> None:
        if self.distance < 1 or self.evidence < 1 or self.learning < 1:
            raise SchedulerError(
                f"distance, evidence and learning must be at least 1, not {self.distance}, {self.evidence} and "
                f"{self.learning}"
            )
        if not 0 < self.shadow <= 1:
            raise SchedulerError(f"the shadow share must lie above 0 and up to 1, not {self.shadow:g}")
        if not self.odds > 1:
            raise SchedulerError(f"the factor of the odds must be above 1, not {self.odds:g}")


@dataclass(frozen=True, kw_only=True)
class AdaptationEvent:
    """One thing that adaptation noticed or did. `requests` counts those that had begun.

    `routine`: one of many, for a log of details.
    """

    kind: str
    at_ns: int
    requests: int
    why: str
    exits: ExitSet
    routine: bool = False


@dataclass(slots=True)
class _Climb:
    """A chart's level, and what was seen since it last was zero."""

    level: int = 0
    seen: int = 0
    left: int = 0


@dataclass(slots=True)
class _Batch:
    """A first-stage batch: the samples under way, and whether one ended late."""

    open: int
    late: bool = False


@dataclass(slots=True)
class _Trip:
    """A request under way: its batch, and its NPU time by the table."""

    batch: _Batch
    worked_ns: int = 0


@dataclass(slots=True)
class _Given:
    """An answer that was given: its exit and class, and the last exit's class where the sample ran on."""

    exit: int
    label: int | None
    state: int
    last: int | None = None
    truth: int | None = None


@dataclass
class CountWindow:
    """Counts since the last change, by early exit."""

    reached: list[int]
    left: list[int]
    shadows: list[int]
    disagreeing: list[int]
    judged: list[int]  # shadows with a label
    lost: list[int]  # right answers lost less gained, among them
    requests: int = 0
    labelled: int = 0
    right: int = 0

    @classmethod
    def of(cls, exits: int) -> CountWindow:
        """Return an empty window."""
        reached, left, shadows, disagreeing, judged, lost = ([0] * exits for _ in range(6))
        return cls(reached, left, shadows, disagreeing, judged, lost)


@dataclass
class AdaptationCounts:
    """Totals for metrics."""

    requests: int = 0
    alarms: int = 0
    changes: int = 0
    shadows: int = 0
    shadow_ns: int = 0
    labels: int = 0
    batches: int = 0
    late_batches: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)


class Adaptation:
    """Watches one network while it is served and changes its active exits.

    A `Watcher` of the simulator and of the runtime. `feedback` may be called from any thread. `classes`: for
    the simulator, the class that each exit names, by request. `notify` is called with every event.
    """

    def __init__(
        self,
        active: ActiveExits,
        plan: AdaptationPlan,
        watching: Watching | None = None,
        *,
        seed: int = 0,
        classes: Mapping[int, Sequence[int]] | None = None,
        notify: Callable[[AdaptationEvent], None] | None = None,
    ) -> None:
        self.active, self.plan = active, plan
        self.watching = Watching() if watching is None else watching
        self.counts = AdaptationCounts()
        self.events: deque[AdaptationEvent] = deque(maxlen=1000)
        self._rng, self._classes, self._notify = np.random.default_rng(seed), classes, notify
        self._lock = threading.Lock()
        self._trips: dict[int, _Trip] = {}
        self._given: OrderedDict[int, _Given] = OrderedDict()
        self._usual_thresholds = plan.thresholds(active.times)
        self._alone_ns = active.times.single_ns(min(plan.goal.batch, active.times.whole.b_max))
        self._known: dict[ExitSet, Expected] = {}
        self._recorded = self._expected_of(plan.exits)
        charts = 2 * len(plan.names) + 2
        self._each = float(self.watching.distance * charts)  # each chart's own distance
        self._late_chart = Chart.of(plan.goal.late, odds=LATE_ODDS, distance=self._each)
        self._wrong_chart = Chart.of(1 - self._recorded.precision, odds=self.watching.odds, distance=self._each)
        for step in range(1, GRID):  # beforehand, since the thread that will ask for them serves requests
            self._pair(step / GRID)
        self._alarmed = ""
        self._number = active.now.number
        self._wanted = plan.exits
        self._late = self._wrong = 0
        self._window = CountWindow.of(len(plan.names))
        self._expect(self._recorded)

    # -- what is seen ----------------------------------------------------------------------------------------

    @property
    def alarmed(self) -> str:
        """The reason for which shadows run now; empty while nothing is amiss."""
        return self._alarmed

    @property
    def expected(self) -> tuple[float | None, ...]:
        """The share that leaves at each active exit, of those that reach it, as it is expected now."""
        return tuple(self._leaving)

    @property
    def window(self) -> CountWindow:
        """Counts since the last change."""
        return self._window

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None = None,
    ) -> frozenset[int]:
        """Count a run, look for a change, and choose the leavers that run on."""
        with self._lock:
            return self._ran(now_ns, force, stage, requests, reasons, labels)

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Compare the last exit's class with the answer that was given."""
        with self._lock:
            given = self._given.get(request_id)
            last = label if label is not None else self._class(request_id, len(self.plan.names))
            if given is None or last is None:
                return
            given.last = last
            if self._alarmed and given.label is not None and given.state == self._number:
                self._window.shadows[given.exit] += 1
                self._window.disagreeing[given.exit] += given.label != last
                self._judge_shadow(given)
            self._conclude(now_ns)

    def gone(self, request_id: int) -> None:
        """Forget a request that ended without an exit of its own."""
        with self._lock:
            trip = self._trips.pop(request_id, None)
            if trip is not None:
                self._end_trip(trip, 0)

    def feedback(self, request_id: int, truth: int) -> bool:
        """Take the true class of an answered request; False where its answer is not known any more."""
        with self._lock:
            given = self._given.get(request_id)
            if given is None or given.label is None or given.truth is not None:
                return False
            given.truth = truth
            self.counts.labels += 1
            self._window.labelled += 1
            self._window.right += given.label == truth
            self._judge_shadow(given)
            self._wrong = self._wrong_chart.next(self._wrong, given.label != truth)
            if self._wrong >= self._wrong_chart.limit:
                self._wrong = 0
                window = self._window
                self._alarm(
                    -1,
                    f"{window.labelled - window.right} of {window.labelled} labels say that the answer was wrong, where "
                    f"{100 * (1 - self._recorded.precision):.1f} % were expected",
                )
            return True

    # -- counting --------------------------------------------------------------------------------------------

    def _ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
    ) -> frozenset[int]:
        if force.number != self._number:  # somebody else changed the exits
            self._number = force.number
            self._expect(self._expected_of(force.exits))
        if stage == 0:
            shared = _Batch(open=len(requests))
            self._trips.update((request.id, _Trip(shared)) for request in requests)
            self.counts.requests += len(requests)
            self._window.requests += len(requests)
        took = force.latency.ns[stage][len(requests) - 1]  # without shadows, which nobody waits for
        on: list[int] = []
        early = stage < len(self.plan.names)
        watched = early and force.exits.runs_head(stage)
        for place, (request, reason) in enumerate(zip(requests, reasons, strict=True)):
            trip = self._trips.get(request.id)
            if trip is None:
                continue
            trip.worked_ns += took
            if watched:
                self._window.reached[stage] += 1
                self._window.left[stage] += bool(reason)
                self._look(now_ns, stage, bool(reason))
            if not reason:
                continue
            self._end_trip(self._trips.pop(request.id), now_ns)
            label = labels[place] if labels is not None else self._class(request.id, stage)
            self._given[request.id] = _Given(stage, label, force.number)
            if len(self._given) > ANSWERS_KEPT:
                self._given.popitem(last=False)
            if self._alarmed and early and self._rng.random() < self.watching.shadow:
                on.append(request.id)
        if on:
            self.counts.shadows += len(on)
            self.counts.shadow_ns += len(on) * sum(row[0] for row in force.latency.ns[stage + 1 :])
        self._conclude(now_ns)
        return frozenset(on)

    def _class(self, request_id: int, stage: int) -> int | None:
        return None if self._classes is None else int(self._classes[request_id][stage])

    def _end_trip(self, trip: _Trip, now_ns: int) -> None:
        """Settle a request's batch: late if a sample of it worked for longer than a whole batch without
        exits.
        """
        batch = trip.batch
        batch.late |= trip.worked_ns > self._alone_ns
        batch.open -= 1
        if batch.open:
            return
        self.counts.batches += 1
        self.counts.late_batches += batch.late
        self._late = self._late_chart.next(self._late, batch.late)
        if self._late >= self._late_chart.limit:
            self._late = 0
            self._move_later(now_ns)

    def _judge_shadow(self, given: _Given) -> None:
        """Count what a shadow with a label says: an answer lost, gained, or neither."""
        answered = given.last is not None and given.truth is not None
        if not answered or given.exit >= len(self.plan.names) or given.state != self._number:
            return
        self._window.judged[given.exit] += 1
        self._window.lost[given.exit] += (given.last == given.truth) - (given.label == given.truth)

    # -- alarms ----------------------------------------------------------------------------------------------

    def _pair(self, share: float) -> tuple[Chart | None, Chart | None]:
        """Return the charts for leave rates that fall and rise.

        Assumed shares are moved to the side where alarms are rarer; where that cannot be, there is no chart:
        hardly more can leave where nearly all do.
        """
        odds, step, edge = self.watching.odds, self._each, 1 / GRID
        fall = Chart.of(min(share, 1 - edge), odds=1 / odds, distance=step) if share >= edge else None
        rise = Chart.of(max(share, edge), odds=odds, distance=step) if share <= 1 - edge else None
        return fall, rise

    def _expect(self, expected: Expected | None, leaving: Sequence[float | None] | None = None) -> None:
        """Begin anew with expected leave rates; None where they are to be learned."""
        self._window = CountWindow.of(len(self.plan.names))
        self._leaving = list(leaving if leaving is not None else expected.leaving if expected is not None else [])
        self._learning = expected is None and leaving is None
        self._charts: dict[int, tuple[Chart | None, Chart | None]] = {}
        self._climbs: dict[int, tuple[_Climb, _Climb]] = {}
        self._late = self._wrong = 0
        if self._learning:
            self._leaving = [None] * len(self.plan.names)
            return
        for exit, share in enumerate(self._leaving):
            if share is None:
                continue
            if leaving is None:
                self._charts[exit] = self._pair(share)
            else:  # learned: the next place of the grid on the careful side of each
                low, high = int(share * GRID), int(share * GRID) + 1
                self._charts[exit] = (self._pair(low / GRID)[0], self._pair(high / GRID)[1])
            self._climbs[exit] = (_Climb(), _Climb())

    def _look(self, now_ns: int, exit: int, left: bool) -> None:
        """Move an exit's charts by one observation."""
        charts = self._charts.get(exit)
        if charts is None or self._alarmed:
            return
        for which, (climb, chart) in enumerate(zip(self._climbs[exit], charts, strict=True)):
            if chart is None:
                continue
            climb.level = chart.next(climb.level, left)
            if not climb.level:
                climb.seen = climb.left = 0
                continue
            climb.seen += 1
            climb.left += left
            if climb.level >= chart.limit:
                expected = self._leaving[exit]
                assert expected is not None
                direction = "fewer" if which == 0 else "more"
                self._alarm(
                    now_ns,
                    f"{direction} leave at exit {exit + 1} ({self.plan.names[exit]}) than expected: {climb.left} of the last "
                    f"{climb.seen} that came there, where {100 * expected:.1f} % were expected",
                )
                return

    def _alarm(self, now_ns: int, why: str) -> None:
        """Note an alarm, and begin to gather evidence."""
        if self._alarmed:
            return
        self._alarmed = why
        self.counts.alarms += 1
        self._note(ALARM, now_ns, why)
        self._fresh()

    def _fresh(self) -> None:
        """Begin a new window of evidence."""
        self._window = CountWindow.of(len(self.plan.names))

    def _note(self, kind: str, now_ns: int, why: str) -> None:
        exits = self.active.now.exits if kind != CHANGE else self._wanted
        event = AdaptationEvent(kind=kind, at_ns=now_ns, requests=self.counts.requests, why=why, exits=exits)
        self.events.append(event)
        self.counts.by_kind[kind] = self.counts.by_kind.get(kind, 0) + 1
        if self._notify is not None:
            self._notify(event)

    # -- rules -----------------------------------------------------------------------------------------------

    def kept(self) -> float | None:
        """Return the estimated precision of the window over the reference's; None without shadows.

        For each exit: its share of leavers, times the share of its shadows that lost a right answer. Where
        shadows have labels that share is counted, else disagreements are weighed as on the recorded samples.
        """
        window = self._window
        if not sum(window.shadows) or not window.requests:
            return None
        weights = self._expected_of(self.active.now.exits).losing
        lost = 0.0
        for exit, count in enumerate(window.shadows):
            if not count:
                continue
            leavers = window.left[exit] / max(1, window.requests)
            if window.judged[exit] >= self.watching.evidence // 2:
                lost += leavers * window.lost[exit] / window.judged[exit]
            else:
                lost += leavers * weights[exit] * window.disagreeing[exit] / count
        last = float(self.plan.answers.right[:, -1].mean())
        return (last - lost) / float(self.plan.answers.reference.mean())

    def _conclude(self, now_ns: int) -> None:
        """Judge, once there is evidence; learn expected rates, once there are enough."""
        window = self._window
        if not self.active.now.exits.active and window.requests >= self.watching.distance:
            why = f"without exits nothing can be watched: the selection is tried again after {window.requests} requests"
            self._change(now_ns, self.plan.exits, why, self._recorded)
            return
        if self._learning and not self._alarmed and window.requests >= self.watching.learning:
            self._learn()
            return
        if not self._alarmed:
            return
        enough = window.requests >= 20 * self.watching.evidence  # hardly anybody leaves: nothing can be lost
        if sum(window.shadows) < self.watching.evidence and not enough:
            return
        kept = self.kept()
        if kept is not None and kept < self.plan.goal.eta:
            self._raise_threshold(now_ns, kept)
            return
        precision = "hardly anybody leaves" if kept is None else f"about {100 * kept:.2f} % of the precision is kept"
        back = self.active.now.exits != self.plan.exits and self._as_recorded()
        self._alarmed = ""
        if back:
            self._change(
                now_ns,
                self.plan.exits,
                f"rates are as on the recorded load again, and {precision}: back to the selection",
                self._recorded,
            )
            return
        self._note(HOLDS, now_ns, f"{precision}, and batches end in time: these rates are expected from now on")
        self._learn()

    def _learn(self) -> None:
        window = self._window
        shares = [
            window.left[exit] / window.reached[exit] if window.reached[exit] >= self.watching.learning // 10 else None
            for exit in range(len(self.plan.names))
        ]
        self._expect(None, shares)

    def _as_recorded(self) -> bool:
        """Return whether the window's leave rates are those of the recorded load under the present set."""
        expected = self._expected_of(self.active.now.exits).leaving
        for exit, share in enumerate(expected):
            count = self._window.reached[exit]
            if share is None or not count:
                continue
            spread = 3 * np.sqrt(max(share * (1 - share), 1e-4) / count)
            if abs(self._window.left[exit] / count - share) > spread:
                return False
        return True

    def _move_later(self, now_ns: int) -> None:
        """Move the first active exit to the next candidate behind it, or take it away where there is none."""
        exits = self.active.now.exits
        if not exits.active:
            return
        first = exits.active[0]
        later = [
            exit
            for exit in range(first + 1, len(self.plan.names))
            if exit not in exits.active and self._usual_thresholds[exit] is not None
        ]
        changed = exits.with_exit(first, None)
        if later:
            changed = changed.with_exit(later[0], self._usual_thresholds[later[0]])
        to = f"to exit {later[0] + 1}" if later else "away, since no candidate is behind it"
        self._alarmed = ""
        self._change(
            now_ns,
            changed,
            f"more than {100 * self.plan.goal.late:g} % of batches end late ({self.counts.late_batches} of "
            f"{self.counts.batches} in all): exit {first + 1} moves {to}",
            None,
        )

    def _raise_threshold(self, now_ns: int, kept: float) -> None:
        """Raise the threshold of the exit that loses most by a step; evidence begins anew."""
        window = self._window
        exits = self.active.now.exits
        losses = {
            exit: window.left[exit] * window.disagreeing[exit] / max(1, window.shadows[exit]) for exit in exits.active
        }
        worst = max(losses, key=lambda exit: (losses[exit], -exit))
        old = exits.thresholds[worst]
        assert old is not None
        higher = next((value for value in self.plan.goal.thresholds if value > old), None)
        step = f"rises from {old:g} to {higher:g}" if higher is not None else "can rise no further, and is taken away"
        self._change(
            now_ns,
            exits.with_exit(worst, higher),
            f"about {100 * kept:.2f} % of the precision is kept, by {sum(window.shadows)} shadows, where "
            f"{100 * self.plan.goal.eta:g} % are asked: the threshold of exit {worst + 1} {step}",
            None,
        )

    def _expected_of(self, exits: ExitSet) -> Expected:
        """Return what a set does on the recorded samples, once computed."""
        if exits not in self._known:
            self._known[exits] = self.plan.expected(exits, self.active.times)
        return self._known[exits]

    def _change(self, now_ns: int, exits: ExitSet, why: str, expected: Expected | None) -> None:
        """Put a set into the table; what it leads to is learned anew unless it is known."""
        stated = self._expected_of(exits)
        self._wanted = exits
        self._number = self.active.change(exits, why, stated.rates).number
        self.counts.changes += 1
        self._note(CHANGE, now_ns, why)
        self._expect(expected)
