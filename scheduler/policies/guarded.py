"""`GuardedPolicy`: credit that may give up few requests, and minimises mean latency while many are late.

`Credit` saves the many by letting the few wait: a sample that is late anyway goes last. When the load is
higher than told, the few become many and the tail explodes. Three guards, from visible state only:

1. At most GIVE_UP of the requests may exceed the patience, which leaves p99 unaffected; the first to reach
   it are sacrificed. The budget is a leaky bucket over a window of requests: a calm day does not pay for a
   peak.
2. When another late sample would pass the patience before the late samples ahead of it can be served (its
   `debt`), the decision is that of `Optimal`, which works the tail off, the most urgent first; with more in
   the queue than that table sees, that of `Fluid`.
3. The patience follows the share of late requests: PATIENT objectives while few are late (LOW of the last
   HORIZON), HASTY when HIGH are.

It estimates the load as it goes (`estimates.py`). While that is above what it was told by a margin it decides
as `Fluid` or `Optimal`, whichever the choice for the table found better there (`selection.py`); and always so
where no weights are better than these as told. A long queue is worked off at the largest throughput
(`drain.py`).

Variants that were tried and rejected are in the head of `benchmarks/table2_tune.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiled.twin import NO_DRAIN, Compiled, Npu, Stream, records, twin_of
from ..policy import Action, Request, Run, Traits, View
from .baselines import urgent_lines
from .bucket import Bucket
from .credit import LOOK, ROBUST, Credit, parse_dial, parse_patience, parse_weights
from .drain import Drain
from .entry import Entry, parse_count, parse_share
from .estimates import Estimates
from .fluid import Fluid
from .optimal import Optimal
from .selection import BESIDE, choose
from .setting import Setting
from .solving.decision_process import CountTable, continue_shares
from .weights import Weights, candidates, load_weights

GIVE_UP = 0.01  # of all requests
WINDOW = 3000  # requests: a peak may give up 30 more; with 1000 p99 is 12 % higher on Inception-v3, ZCU104
HEAD_START = 200  # requests that count as seen before the first: so that one may be given up early
PATIENT, HASTY = 5.0, 1.2  # objectives
LOW, HIGH = 0.03, 0.08  # shares of late requests
HORIZON = 1000  # requests that the share of late ones remembers
FADE = 1 - 1 / HORIZON
PLAIN = ("", *BESIDE)


class GuardedPolicy:
    """`credit` within bounds, as the module says.

    Bounded as `Credit`: a sample that is PATIENCE objectives old goes before everything else. `window`:
    requests over which those given up are counted. `plain`: the policy, of PLAIN, that decides instead of the
    credit; `fallback`: the one that decides while the load is above what was told. `drain`: what works off a
    long queue.
    """

    def __init__(
        self,
        setting: Setting,
        credit: Credit,
        *,
        patience: float = PATIENT,
        give_up: float = GIVE_UP,
        window: int = WINDOW,
        plain: str = "",
        fallback: str = "fluid",
        drain: Drain | None = None,
        name: str = "",
    ) -> None:
        self.name = name or f"guarded {credit.name}"
        self.credit, self.optimal, self.fluid, self.drain = credit, Optimal(setting), Fluid(), drain
        self.weights_from = credit.weights_from
        self.patience, self.plain, self.fallback = patience, plain, fallback
        self.work_ns = remaining_work_ns(setting)
        self.estimates = Estimates(setting)
        self._budget = Bucket(give_up, window, start=give_up * HEAD_START)
        self._slo = setting.slo_ns
        self.reset()

    @property
    def table(self) -> CountTable:
        """The solved process."""
        return self.credit.table

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(weights_from=self.weights_from, solved_for_per_s=self.table.rate_per_s)

    def reset(self) -> None:
        """Forget the requests that were late or given up, and all estimates."""
        self.estimates.reset()
        self._budget.reset()
        if self.drain is not None:
            self.drain.reset()
        self._late = 0.0  # share of late requests
        self._last: tuple[int, int] = (-1, -1)  # the newest request seen
        self._latest: tuple[int, int, int] = (-1, -1, -1)  # deadline and request seen late last
        self._spared: set[int] = set()

    def decide(self, view: View) -> Action:
        """Decide as `credit`, or work off the tail."""
        self._count_arrivals(view.waiting[0])
        self.estimates.see(view)
        return self.estimates.note(view, self._choose(view))

    def _choose(self, view: View) -> Action:
        if self.drain is not None and (run := self.drain.decide(view)) is not None:
            return run
        if instead := self.fallback if self.estimates.raised else self.plain:
            return self.optimal.decide(view) if instead == "optimal" else self.fluid.decide(view)
        return self._guard(view, urgent_lines(view, LOOK))

    def _guard(self, view: View, lines: Sequence[Sequence[Request]]) -> Action:
        now = view.now_ns
        if max([now - line[0].deadline_ns for line in lines if line]) <= 0:
            return self.credit.weigh(view, lines)  # the usual case: all are in time
        self._count_late(now, lines)
        if not self._tail_grows(now, lines, view):
            return self.credit.weigh(view, lines)
        starved = self.credit.starved(view, lines)
        if starved is not None:
            return starved
        action = self.optimal.decide(view) if len(view.waiting[0]) <= LOOK else self.fluid.decide(view)
        if not isinstance(action, Run) or len(action.requests) > LOOK:
            return action
        return Run(action.stage, tuple(lines[action.stage][: len(action.requests)]), action.reason)

    def compiled(self, stream: Stream, npu: Npu) -> Compiled | None:
        """Return the twin for the compiled loop, or None where `credit` has none."""
        from ..compiled.guarded import MEMORY, GuardedTwin

        credit = twin_of(self.credit, stream, npu)
        optimal = twin_of(self.optimal, stream, npu)
        fluid = twin_of(self.fluid, stream, npu)
        if credit is None or optimal is None or fluid is None:
            return None
        memory = records(MEMORY)
        memory[0].last = memory[0].latest = -1
        memory[0].budget = self._budget.start
        twin = GuardedTwin(
            credit=credit.twin,
            optimal=optimal.twin,
            fluid=fluid.twin,
            estimates=self.estimates.compiled(),
            drain=NO_DRAIN if self.drain is None else self.drain.compiled(npu),
            plain=PLAIN.index(self.plain),
            fallback=PLAIN.index(self.fallback),
            give_up=self._budget.share,
            most=self._budget.most,
            patience=self.patience,
            hasty=min(HASTY, self.patience),
            low=LOW,
            high=HIGH,
            horizon=float(HORIZON),
            work=np.array(self.work_ns, np.int64),
            spared=np.zeros(len(stream.arrival), np.int64),
            memory=memory,
        )
        return Compiled(twin=twin)

    def _count_arrivals(self, queue: Sequence[Request]) -> None:
        """Note every request that came: the share of late ones fades."""
        last = self._last
        if not queue or (queue[-1].arrival_ns, queue[-1].id) <= last:
            return
        first = len(queue)
        while first and (queue[first - 1].arrival_ns, queue[first - 1].id) > last:
            first -= 1
        arrive = self.estimates.arrive
        for r in queue[first:]:
            self._late *= FADE
            self._budget.fill(1)
            arrive(r.arrival_ns)
        self._last = (queue[-1].arrival_ns, queue[-1].id)

    def _count_late(self, now: int, lines: Sequence[Sequence[Request]]) -> None:
        """Count the requests that are late for the first time."""
        newest, late = self._latest, 0
        for group in lines:
            for r in group:
                if r.deadline_ns >= now:
                    break
                key = (r.deadline_ns, r.arrival_ns, r.id)
                if key > self._latest:
                    late, newest = late + 1, max(newest, key)
        self._latest = newest
        self._late += late / HORIZON

    def _tail_grows(self, now: int, lines: Sequence[Sequence[Request]], view: View) -> bool:
        """Return whether a late sample, not given up, would pass the patience behind those ahead of it."""
        debt = 0
        calm = min(1.0, max(0.0, (HIGH - self._late) / (HIGH - LOW)))
        hasty = min(HASTY, self.patience)
        limit = now + self._slo - int((hasty + (self.patience - hasty) * calm) * self._slo)
        for stage in range(len(lines) - 1, -1, -1):
            work = self.work_ns[stage]
            for r in lines[stage]:
                if r.id in self._spared:
                    continue
                if r.deadline_ns >= now:
                    break
                if r.deadline_ns < limit + debt + work:
                    if not self._budget.spend():
                        return True
                    self._spare(r, view.waiting)
                else:
                    debt += work
        return False

    def _spare(self, request: Request, waiting: Sequence[Sequence[Request]]) -> None:
        if len(self._spared) > 4 * LOOK:  # forget those that have left
            self._spared &= {r.id for group in waiting for r in group}
        self._spared.add(request.id)


def remaining_work_ns(setting: Setting) -> tuple[int, ...]:
    """Return the mean remaining time in ns of a sample at each stage, at the most efficient batches.

    >>> from fluidnpu.dse import LatencyTable
    >>> table = LatencyTable(ns=((10, 12), (20, 20)))
    >>> remaining_work_ns(Setting(latency=table, exit_rates=(0.5, 0.5), rate_per_s=1, slo_ns=100))
    (11, 10)
    """
    after, work = 0.0, []
    goes_on = continue_shares(setting.exit_rates)
    for row, share in zip(reversed(setting.latency.ns), reversed(goes_on), strict=True):
        after = min(ns / b for b, ns in enumerate(row, 1)) + share * after
        work.append(round(after))
    return tuple(reversed(work))


def with_weights(setting: Setting, weights: Weights) -> GuardedPolicy:
    """Make the policy as weights are tried for it."""
    return GuardedPolicy(setting, Credit(setting, weights), drain=Drain(setting))


def make_guarded(
    setting: Setting,
    *,
    name: str,
    dial: float = 1.0,
    anytime: bool = False,
    patience: float = PATIENT,
    give_up: float = GIVE_UP,
    window: int = WINDOW,
    weights: Weights | None = None,
    drain: bool = True,
) -> GuardedPolicy:
    """Make the policy with the weights given, those that ship for the setting, or the best of them for it.

    Where none of them beats `fluid` and `optimal` it decides as the better of the two. Raises SchedulerError.
    """
    plain, fallback, origin = "", "fluid", "given"
    if weights is None:
        tuned = load_weights(setting, dial, anytime)
        if tuned is None:
            choice = choose(setting, with_weights, "guarded", dial=dial, anytime=anytime)
            plain, fallback = choice.plain, choice.fallback
            tuned = choice.weights or candidates(setting)[ROBUST], choice.origin
        weights, origin = tuned
    credit = Credit(setting, weights, name=name)
    credit.weights_from = origin
    return GuardedPolicy(
        setting,
        credit,
        patience=patience,
        give_up=give_up,
        window=window,
        plain=plain,
        fallback=fallback,
        drain=Drain(setting) if drain else None,
        name=name,
    )


ENTRIES = {
    "guarded": Entry(
        make_guarded,
        "the same within bounds: few are given up, and the tail is worked off when many are late",
        {
            "dial": parse_dial,
            "patience": parse_patience,
            "give_up": parse_share,
            "window": parse_count,
            "weights": parse_weights,
        },
        solved=True,
        tuned=True,
        drains=True,
        within=True,
    )
}
