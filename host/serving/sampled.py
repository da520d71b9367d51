"""Counters of layers while a model is served: one job is read now and then, beside the exact model.

The owner thread reads, right after a job, and never more than the layers of that job in an interval. What
the exact model says of the same layers is computed on a thread of its own, in a loop that holds no lock of
Python's; without Numba that takes too long, and nothing is compared.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fluidnpu.dse import DesignError, has_numba
from fluidnpu.scheduler import Action, Request, Run, View
from fluidnpu.scheduler.simulation import InForce, Terms

from ..devices.counting import CountedJob, LayerCounts
from ..driver import Driver, JobRecord
from ..errors import DeviceError
from .replies import Fate, Observer, Reply

_log = logging.getLogger(__name__)
INTERVAL_NS = 10 * 10**9


@dataclass(frozen=True, kw_only=True)
class SampledJob:
    """The counters of one job, each summed over its layers; words and bursts are those of masters.

    `off_model`: layers whose cycles are not those of the exact model; None where nothing was compared.
    """

    layers: int
    cycles: int
    starved: int
    blocked: int
    read_words: int
    read_bursts: int
    write_words: int
    write_bursts: int
    off_model: int | None = None

    @classmethod
    def of(cls, counts: Sequence[LayerCounts]) -> SampledJob:
        """Sum the counters of a job's layers."""
        return cls(
            layers=len(counts),
            cycles=sum(layer.cycles for layer in counts),
            starved=sum(layer.starved for layer in counts),
            blocked=sum(layer.blocked for layer in counts),
            read_words=sum(layer.read_beats for layer in counts),
            read_bursts=sum(layer.read_bursts for layer in counts),
            write_words=sum(layer.write_beats for layer in counts),
            write_bursts=sum(layer.write_bursts for layer in counts),
        )


class Sampler(Observer):
    """Reads the counters of the job that just ended, at most once in `interval_ns` on the device's clock.

    `latest` is the last job of which all is known, `jobs` their number since the model was first served. The
    exact model is loaded here, before anybody waits for an answer: its compiler holds Python's lock.
    """

    def __init__(self, driver: Driver, *, interval_ns: int = INTERVAL_NS, jobs: int = 0) -> None:
        self.latest: SampledJob | None = None
        self.jobs = jobs
        self._driver, self._interval_ns = driver, interval_ns
        self._due_ns = 0
        self._comparing: threading.Thread | None = None
        self._compares = has_numba()
        if self._compares:
            try:
                driver.describe_job(0, 0, [0]).counts(driver.design, driver.core)
            except DesignError as error:
                _log.info("counters of layers are not compared: %s", error)
                self._compares = False

    def began(self, view: View) -> None:
        """Read the first job of a runtime, whose time begins at 0."""
        self._due_ns = 0

    def admitted(self, request: Request, terms: Terms) -> None:
        """Nothing is read here."""

    def withdrawn(self, request: Request) -> None:
        """Nothing is read here."""

    def decided(self, view: View, action: Action) -> None:
        """Nothing is read here."""

    def ran(self, run: Run, start_ns: int, end_ns: int, job: JobRecord) -> None:
        """Read the job's counters where that is due; a device that fails meanwhile fails the next job."""
        if end_ns < self._due_ns or (self._comparing is not None and self._comparing.is_alive()):
            return
        self._due_ns = end_ns + self._interval_ns
        try:
            counts = self._driver.read_counts(*job.layers)
        except DeviceError as error:
            _log.warning("the counters of a job were not read: %s", error)
            return
        if self._compares:
            work = (counts, self._driver.describe_job(*job.layers))
            self._comparing = threading.Thread(target=self._compare, args=work, name="npu-counters", daemon=True)
            self._comparing.start()
        else:
            self._publish(SampledJob.of(counts))

    def failed(self, error: DeviceError) -> None:
        """Nothing is read here."""

    def ended(self, fates: Sequence[Fate]) -> None:
        """Nothing is read here."""

    def adapted(self, now_ns: int, state: InForce) -> None:
        """Nothing is read here."""

    def answered_early(self, reply: Reply) -> None:
        """Nothing is read here."""

    def wait(self, timeout_s: float) -> None:
        """Return when what was read last has been compared, or after a while."""
        if self._comparing is not None:
            self._comparing.join(timeout_s)

    def _compare(self, counts: Sequence[LayerCounts], job: CountedJob) -> None:
        expected = job.counts(self._driver.design, self._driver.core)
        off = sum(count.cycles != theirs.cycles for count, theirs in zip(counts, expected, strict=True))
        self._publish(replace(SampledJob.of(counts), off_model=off))

    def _publish(self, sampled: SampledJob) -> None:
        self.latest = sampled
        self.jobs += 1
