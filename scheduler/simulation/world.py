"""The circumstances in which requests are served, as one frozen record that is validated once.

>>> table = LatencyTable(ns=((10, 15), (10, 15)))
>>> world = World(latency=table, exits=[0, 1], exit_rates=[0.5, 0.5], overhead_ns=2)
>>> world.batch_limit, world.slot_limit, world.run_ns
(2, 2, ((12, 17), (12, 17)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError, TrafficError
from ..policy import Request
from .active import ActiveExits, Watcher
from .networks import Networks


@runtime_checkable
class LiveExits(Protocol):
    """Decides at an exit, during the simulation, which requests leave there; see `exits.RuledExits`."""

    def leaving(self, requests: Sequence[Request], started_ns: Sequence[int], exit: int, now_ns: int) -> Sequence[str]:
        """Return for each request of a batch the reason why it leaves at `exit`, or an empty text.

        Its run has ended at `now_ns`, the first run of each began at `started_ns`. Not asked at the last
        exit.
        """


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Exits of networks side by side, numbered consecutively; each network decides by its own `exits`."""

    networks: Networks
    exits: tuple[LiveExits, ...]

    def leaving(self, requests: Sequence[Request], started_ns: Sequence[int], exit: int, now_ns: int) -> Sequence[str]:
        """Return for each sample of a batch the reason why it leaves, or an empty text."""
        network = self.networks.of_stage[exit]
        return self.exits[network].leaving(requests, started_ns, exit - self.networks.first[network], now_ns)


@dataclass(frozen=True, kw_only=True)
class World:
    """The latency, exits and limits under which a stream of requests is served.

    `latency` and `exit_rates` are the beliefs of the policy; `actual` (default: `latency`) is the true
    duration of runs. `exits[i]` is the exit at which request i leaves if it is let run, drawn beforehand so
    that all policies meet the same samples; or `exits` is a `LiveExits`, which is asked at each exit.
    `b_max` (default: the columns of the table) bounds a batch, `slots` (default: `b_max`) the samples past
    the queue. `overhead_ns` is added to every run: the cost of asking the scheduler and of restarting.
    `networks` side by side have their stages in one table and number their exits consecutively. `active`:
    exits of one network that may change meanwhile, which needs a `LiveExits`; `latency` and `exit_rates` are
    those of its beginning. `watch` sees every run. Raises SchedulerError.
    """

    latency: LatencyTable
    exits: Sequence[int] | LiveExits
    exit_rates: Sequence[float]
    actual: LatencyTable | None = None
    b_max: int | None = None
    slots: int | None = None
    overhead_ns: int = 0
    active: ActiveExits | None = None
    watch: Watcher | None = None
    networks: Networks | None = None

    def __post_init__(self) -> None:
        latency, actual = self.latency, self.actual or self.latency
        if self.networks is None:
            check_rates(self.exit_rates, latency.stages)
        else:
            if sum(self.networks.stages) != latency.stages or len(self.exit_rates) != latency.stages:
                raise SchedulerError(
                    f"networks must have the {latency.stages} stages of the latency table, not {self.networks.stages}"
                )
            for rates, stages in zip(self.networks.parts(self.exit_rates), self.networks.stages, strict=True):
                check_rates(rates, stages)
        if (actual.stages, actual.b_max) != (latency.stages, latency.b_max):
            raise SchedulerError(
                f"both latency tables must be {latency.stages} stages by {latency.b_max}, "
                f"not {actual.stages} by {actual.b_max}"
            )
        if not 1 <= self.batch_limit <= latency.b_max:
            raise SchedulerError(
                f"b_max must lie in 1..{latency.b_max}, the columns of the latency table, not {self.batch_limit}"
            )
        if self.networks is None and self.slot_limit < self.batch_limit:
            raise SchedulerError(f"slots must be at least b_max = {self.batch_limit}, not {self.slot_limit}")
        if self.overhead_ns < 0:
            raise SchedulerError(f"overhead_ns must not be negative, not {self.overhead_ns}")
        if self.active is not None and (self.live is None or self.actual is not None or self.networks is not None):
            raise SchedulerError(
                "exits that change while requests are served are those of one network, decided at the exit, and runs take "
                "the times of the table: neither drawn exits nor other times fit them"
            )

    @property
    def drawn(self) -> Sequence[int] | None:
        """The exits drawn beforehand; None when they are decided at the exit."""
        return None if isinstance(self.exits, LiveExits) else self.exits

    @property
    def live(self) -> LiveExits | None:
        """The object that decides at the exit; None when exits were drawn beforehand."""
        return self.exits if isinstance(self.exits, LiveExits) else None

    @property
    def batch_limit(self) -> int:
        """The largest batch: `b_max` or its default."""
        return self.latency.b_max if self.b_max is None else self.b_max

    @property
    def slot_limit(self) -> int:
        """The most samples past the queue: `slots` or its default."""
        if self.networks is not None:
            return sum(self.networks.slots)
        return self.batch_limit if self.slots is None else self.slots

    @property
    def run_ns(self) -> tuple[tuple[int, ...], ...]:
        """The true duration of a run by stage and batch, overhead included."""
        table = self.actual or self.latency
        return tuple(tuple(ns + self.overhead_ns for ns in row) for row in table.ns)

    def check(self, requests: Sequence[Request]) -> None:
        """Raise SchedulerError unless the requests are sane and each drawn exit is one of the table."""
        check_requests(requests)
        if self.drawn is None:
            return
        if len(self.drawn) != len(requests):
            raise SchedulerError(
                f"exits must name one exit for each of {len(requests)} requests, not {len(self.drawn)}"
            )
        side = self.networks or Networks.alone(stages=self.latency.stages, slots=self.slot_limit)
        for request, leave in zip(requests, self.drawn, strict=True):
            network = side.of(request)
            if not side.first[network] <= leave <= side.last[network]:
                raise SchedulerError(
                    f"request {request.id} must leave at an exit in {side.first[network]}..{side.last[network]}, "
                    f"not {leave}"
                )


def check_requests(requests: Sequence[Request]) -> None:
    """Raise TrafficError unless ids are unique, times sane and requests sorted by (arrival, id)."""
    last = (-1, -1)
    seen = set()
    for r in requests:
        if r.id in seen:
            raise TrafficError(f"request ids must be unique, but {r.id} comes twice")
        seen.add(r.id)
        if r.arrival_ns < 0 or r.deadline_ns <= r.arrival_ns:
            raise TrafficError(
                f"request {r.id} must arrive at or after 0 and have a later deadline, "
                f"not {r.arrival_ns} and {r.deadline_ns} ns"
            )
        here = (r.arrival_ns, r.id)
        if here < last:
            raise TrafficError(f"requests must be sorted by arrival and id, but {r.id} comes after its successor")
        last = here


def check_rates(exit_rates: Sequence[float], stages: int) -> None:
    """Raise SchedulerError unless there is one share per exit, none negative, summing to 1."""
    if len(exit_rates) != stages:
        raise SchedulerError(f"exit_rates must name {stages} shares, one per stage, not {len(exit_rates)}")
    if any(not 0 <= x <= 1 for x in exit_rates) or abs(sum(exit_rates) - 1) > 1e-6:
        raise SchedulerError(f"exit_rates must be shares that sum to 1, not {list(exit_rates)}")
