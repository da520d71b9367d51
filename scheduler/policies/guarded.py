"""`Guarded`: credit that may give up few requests, and minimises mean latency while many are late.

`Credit` saves the many by letting the few wait: a sample that is late anyway goes last. When the load is
higher than told, the few become many and the tail explodes. Three guards, from visible state only:

1. At most GIVE_UP of the requests may exceed the patience, which leaves p99 unaffected; the first to reach
   it are sacrificed.
2. When another late sample would pass the patience before the late samples ahead of it can be served (its
   `debt`), the decision is that of `Optimal`, which works the tail off, oldest first; with more in the queue
   than that table sees, that of `Fluid`.
3. The patience follows the share of late requests: PATIENT objectives while few are late (LOW of the last
   HORIZON), HASTY when HIGH are.

Variants that were tried and rejected are in the head of `benchmarks/table2_tune.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiled.twin import Compiled, Npu, Stream, records, twin_of
from ..policy import Action, Request, Traits, View
from .credit import LOOK, Credit, make_credit, parse_dial, parse_patience
from .decision_process import CountTable, continue_shares
from .entry import Entry, parse_share
from .fluid import Fluid
from .optimal import Optimal
from .setting import Setting

GIVE_UP = 0.01  # of all requests
HEAD_START = 200  # requests that count as seen before the first: so that one may be given up early
PATIENT, HASTY = 5.0, 1.2  # objectives
LOW, HIGH = 0.03, 0.08  # shares of late requests
HORIZON = 1000  # requests that the share of late ones remembers
FADE = 1 - 1 / HORIZON


class Guarded:
    """`credit` within bounds, as the module says.

    Bounded as `Credit`: a sample that is PATIENCE objectives old goes before everything else.
    """

    def __init__(
        self, setting: Setting, credit: Credit, *, patience: float = PATIENT, give_up: float = GIVE_UP, name: str = ""
    ) -> None:
        self.name = name or f"guarded {credit.name}"
        self.credit, self.optimal, self.fluid = credit, Optimal(setting), Fluid()
        self.weights_from = credit.weights_from
        self.give_up, self.patience = give_up, patience
        self.work_ns = remaining_work_ns(setting)
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
        """Forget the requests that were late or given up."""
        self._seen = self._given = 0
        self._late = 0.0  # share of late requests
        self._last: tuple[int, int] = (-1, -1)  # the newest request seen
        self._latest: tuple[int, int] = (-1, -1)  # the newest request seen late
        self._spared: set[int] = set()

    def decide(self, view: View) -> Action:
        """Decide as `credit`, or work off the tail."""
        now = view.now_ns
        self._count_arrivals(view.waiting[0])
        if max([now - w[0].deadline_ns for w in view.waiting if w]) <= 0:
            return self.credit.decide(view)  # the usual case: the oldest of each line is in time
        self._count_late(view)
        if not self._tail_grows(view):
            return self.credit.decide(view)
        return self.optimal.decide(view) if len(view.waiting[0]) <= LOOK else self.fluid.decide(view)

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
        twin = GuardedTwin(
            credit=credit.twin,
            optimal=optimal.twin,
            fluid=fluid.twin,
            give_up=self.give_up,
            head_start=HEAD_START,
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
        """Let the share of late requests fade with every request that came."""
        last = self._last
        for r in reversed(queue):
            key = (r.arrival_ns, r.id)
            if key <= last:
                break
            self._seen += 1
            self._late *= FADE
            self._last = max(self._last, key)

    def _count_late(self, view: View) -> None:
        """Count the requests that are late for the first time."""
        now, newest, late = view.now_ns, self._latest, 0
        for group in view.waiting:
            for r in group[:LOOK]:
                if r.deadline_ns >= now:
                    break
                key = (r.arrival_ns, r.id)
                if key > self._latest:
                    late, newest = late + 1, max(newest, key)
        self._latest = newest
        self._late += late / HORIZON

    def _tail_grows(self, view: View) -> bool:
        """Tell if a late sample, not given up, would pass the patience behind those ahead of it."""
        now, debt = view.now_ns, 0
        calm = min(1.0, max(0.0, (HIGH - self._late) / (HIGH - LOW)))
        hasty = min(HASTY, self.patience)
        limit = now + self._slo - int((hasty + (self.patience - hasty) * calm) * self._slo)
        for stage in range(len(view.waiting) - 1, -1, -1):
            work = self.work_ns[stage]
            for r in view.waiting[stage][:LOOK]:
                if r.id in self._spared:
                    continue
                if r.deadline_ns >= now:
                    break
                if r.deadline_ns < limit + debt + work:
                    if self._given + 1 > self.give_up * (self._seen + HEAD_START):
                        return True
                    self._spare(r, view.waiting)
                else:
                    debt += work
        return False

    def _spare(self, request: Request, waiting: Sequence[Sequence[Request]]) -> None:
        self._given += 1
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


def make_guarded(
    setting: Setting,
    *,
    name: str,
    dial: float = 1.0,
    anytime: bool = False,
    patience: float = PATIENT,
    give_up: float = GIVE_UP,
) -> Guarded:
    """Make the policy with the weights that ship for the setting. Raises SchedulerError."""
    credit = make_credit(setting, name=name, dial=dial, anytime=anytime)
    return Guarded(setting, credit, patience=patience, give_up=give_up, name=name)


ENTRIES = {
    "guarded": Entry(
        make_guarded,
        "the same within bounds: few are given up, and the tail is worked off when many are late",
        {"dial": parse_dial, "patience": parse_patience, "give_up": parse_share},
        solved=True,
        tuned=True,
    )
}
