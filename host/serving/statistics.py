"""Counts of one served model, kept by the owner thread and read by any thread without locks.

Another thread counts answers at deadlines, so the ends of requests are counted under a lock. A reader may see
a request in one counter and not yet in the next; every counter only grows.

>>> from fluidnpu.dse.testing import tiny_design
>>> counts = Statistics(tiny_design())
>>> counts.latency[0].add(1_500_000)
>>> counts.latency[0].cumulative()[-1], counts.latency[0].sum_ns
(1, 1500000)
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from fluidnpu.dse import Design
from fluidnpu.scheduler import Action, Outcome, Request, Run, View
from fluidnpu.scheduler.simulation import InForce, Terms

from ..driver import JobRecord
from ..errors import DeviceError
from .replies import Fate, Observer, Reply

# Upper edges of the latency histograms in ns: 1, 1.8, 3.2, 5.6 of every decade from 10 us to 10 s.
EDGES_NS = tuple(round(10 ** (4 + step / 4)) for step in range(25))
RECENT = 512  # latencies and runs that the live page can look back on


class Histogram:
    """A histogram over `EDGES_NS`, with the sum of all values in ns."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_NS) + 1)
        self.sum_ns = 0

    def add(self, ns: int) -> None:
        """Count one value."""
        self.counts[bisect_left(EDGES_NS, ns)] += 1
        self.sum_ns += ns

    def cumulative(self) -> list[int]:
        """Return the number of values up to each edge, and the number of all as the last."""
        return list(accumulate(self.counts))


@dataclass(slots=True)
class Drift:
    """Runs of one stage and batch size: their number, their measured time and the predicted time of one."""

    predicted_ns: int
    runs: int = 0
    measured_ns: int = 0


@dataclass(frozen=True, slots=True)
class RecentRun:
    """One run on the time scale of the runtime, for the live page."""

    start_ns: int
    end_ns: int
    stage: int
    batch: int
    waiting: int


@dataclass(frozen=True, slots=True)
class RecentReply:
    """One answer on the time scale of the runtime, for the live page."""

    end_ns: int
    latency_ns: int
    exit: int
    met: bool


@dataclass(slots=True)
class TenantCounts:
    """Counts of one tenant: requests by outcome, those late or unanswered, times in ns."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    violations: int = 0
    latency_ns: int = 0
    npu_ns: float = 0.0


class Statistics(Observer):
    """All counts of one model since it was first served; they continue over reloads."""

    def __init__(self, design: Design) -> None:
        self.latency: dict[int, Histogram] = {exit: Histogram() for exit in range(design.stages)}
        self.outcomes: Counter[Outcome] = Counter()
        self.shed: Counter[str] = Counter()  # by reason
        self.violations = 0
        self.queue_ns = 0  # of the answered, from arrival to the first run
        self.busy_ns = 0  # of the NPU, by its own counter
        self.host_ns = 0  # from the start of its runs until this host had seen their ends
        self.failed_attempts = 0
        self.decisions = 0
        self.exit_changes = 0  # of the active exits
        self.batches: dict[tuple[int, int], Drift] = {}  # by (stage, batch size)
        self.tenants: dict[str, TenantCounts] = {}
        self.last_inference_ms = 0  # since the epoch
        self.runs: deque[RecentRun] = deque(maxlen=RECENT)
        self.replies: deque[RecentReply] = deque(maxlen=RECENT)
        self._latency_table = design.latency
        self._waiting = 0
        self._ending = threading.Lock()

    @property
    def answered(self) -> int:
        """Requests that got an answer of the network."""
        return self.outcomes[Outcome.EXIT] + self.outcomes[Outcome.ANYTIME]

    @property
    def executions(self) -> int:
        """Runs of the NPU."""
        return sum(batch.runs for batch in self.batches.values())

    def began(self, view: View) -> None:
        """Take the predicted times of the design that is served from now on."""
        self._latency_table = view.latency
        for exit in range(view.latency.stages):
            self.latency.setdefault(exit, Histogram())
        if any(stage >= view.latency.stages or batch > view.b_max for stage, batch in self.batches):
            self.batches = {}
        for (stage, batch), drift in self.batches.items():
            if drift.predicted_ns != view.latency.ns[stage][batch - 1]:
                self.batches[stage, batch] = Drift(view.latency.ns[stage][batch - 1])

    def admitted(self, request: Request, terms: Terms) -> None:
        """Nothing is counted here."""

    def withdrawn(self, request: Request) -> None:
        """Nothing is counted here."""

    def decided(self, view: View, action: Action) -> None:
        """Count the decision."""
        self.decisions += 1
        self._waiting = len(view.waiting[0])

    def ran(self, run: Run, start_ns: int, end_ns: int, job: JobRecord) -> None:
        """Count the run, its batch and its time beside the predicted one."""
        stage, batch = run.stage, len(run.requests)
        drift = self.batches.get((stage, batch))
        if drift is None:
            drift = self.batches[stage, batch] = Drift(self._latency_table.ns[stage][batch - 1])
        drift.runs += 1
        drift.measured_ns += job.npu_ns
        self.busy_ns += job.npu_ns
        self.host_ns += job.end_ns - job.start_ns
        for request in run.requests:
            self._tenant(request.tenant).npu_ns += job.npu_ns / batch
        self.runs.append(RecentRun(start_ns, end_ns, stage, batch, self._waiting))

    def failed(self, error: DeviceError) -> None:
        """Count the attempt."""
        self.failed_attempts += 1

    def ended(self, fates: Sequence[Fate]) -> None:
        """Count answers by exit and refusals by reason."""
        with self._ending:
            for fate in fates:
                self._count(fate)
        if fates:
            self.last_inference_ms = time.time_ns() // 1_000_000

    def _count(self, fate: Fate) -> None:
        self.outcomes[fate.outcome] += 1
        self.violations += not fate.met
        tenant = self._tenant(fate.tenant)
        tenant.outcomes[fate.outcome] += 1
        tenant.violations += not fate.met
        tenant.latency_ns += fate.latency_ns if isinstance(fate, Reply) else 0
        if isinstance(fate, Reply):
            latency_ns = fate.latency_ns
            self.latency[fate.exit].add(latency_ns)
            self.queue_ns += fate.start_ns - fate.arrival_ns
            self.replies.append(RecentReply(fate.end_ns, latency_ns, fate.exit, fate.met))
        else:
            self.shed[fate.reason] += 1

    def _tenant(self, name: str) -> TenantCounts:
        counts = self.tenants.get(name)
        return self.tenants.setdefault(name, TenantCounts()) if counts is None else counts

    def adapted(self, now_ns: int, state: InForce) -> None:
        """Count the change; predicted times of the stages are those of the new set from now on."""
        self.exit_changes += state.number > 0  # state 0 is the beginning
        self._latency_table = state.latency
        for (stage, batch), drift in self.batches.items():
            if drift.predicted_ns != state.latency.ns[stage][batch - 1]:
                self.batches[stage, batch] = Drift(state.latency.ns[stage][batch - 1])

    def answered_early(self, reply: Reply) -> None:
        """Count an answer at a deadline."""
        self.ended([reply])
