"""Serving through the compiled loop, for policies that have a twin.

Optional: with Numba (`pip install "fluidnpu[design]"`).

`serve_compiled` gives a `Trace`: the same schedule as `simulate`, as columns. `Trace.schedule()` turns it
into the same `Schedule` without the reasons of decisions.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import Request, World, make_policy
>>> two = [Request(0, 0, 100), Request(1, 5, 105)]
>>> table = LatencyTable(ns=((10, 15), (10, 15)))
>>> world = World(latency=table, exits=[0, 1], exit_rates=[0.5, 0.5])
>>> done = serve_compiled(two, make_policy("fluid"), world)
>>> done is None or done.end_ns.tolist() == [10, 30]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fluidnpu.dse import has_numba

from ..policy import Action, Answer, Policy, Request, Run, Wait
from ..simulation.schedule import Schedule, Tally
from ..simulation.world import World
from . import loop
from .twin import NEVER, RUN, WAIT, Book, Ints, Npu, Stream, twin_of


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A schedule as columns; rows of `stream` and of `book.fates` are aligned with `requests`."""

    policy: str
    stages: int
    b_max: int
    slots: int
    requests: tuple[Request, ...]
    stream: Stream
    book: Book

    @property
    def end_ns(self) -> Ints:
        """Time in ns at which each request left, (requests,)."""
        return np.asarray(self.book.fates[:, 1])

    def schedule(self) -> Schedule:
        """Return the same as objects; reasons are empty."""
        runs = self.book.log[:, 1] == RUN
        return Schedule(
            policy=self.policy,
            stages=self.stages,
            b_max=self.b_max,
            slots=self.slots,
            requests=self.requests,
            start_ns=tuple(map(int, self.book.fates[:, 0])),
            end_ns=tuple(map(int, self.book.fates[:, 1])),
            exit=tuple(map(int, self.book.fates[:, 2])),
            outcome=tuple(map(int, self.book.fates[:, 3])),
            log=tuple(self._actions()),
            run_end_ns=tuple(map(int, self.book.log[runs, 5])),
        )

    def tally(self) -> Tally:
        """Return the columns that `measure` needs."""
        runs = self.book.log[self.book.log[:, 1] == RUN]
        table = np.zeros((self.stages, self.b_max), np.int64)
        np.add.at(table, (runs[:, 2], runs[:, 3] - 1), 1)
        return Tally(
            policy=self.policy,
            arrival_ns=self.stream.arrival,
            deadline_ns=self.stream.deadline,
            end_ns=self.book.fates[:, 1],
            exit=self.book.fates[:, 2],
            outcome=self.book.fates[:, 3],
            runs=table,
            busy_ns=int((runs[:, 5] - runs[:, 0]).sum()),
            decisions=len(self.book.log),
        )

    def _actions(self) -> list[tuple[int, Action]]:
        out: list[tuple[int, Action]] = []
        at = 0
        for now, kind, stage, size, until, _ in self.book.log.tolist():
            batch = tuple(self.requests[k] for k in self.book.ids[at : at + size])
            at += size
            if kind == RUN:
                out.append((now, Run(stage, batch)))
            elif kind == WAIT:
                out.append((now, Wait(None if until == NEVER else until)))
            else:
                out.append((now, Answer(batch)))
        return out


def serve_compiled(requests: Sequence[Request], policy: Policy, world: World) -> Trace | None:
    """Serve as `simulate`; None without Numba, without a twin, and for a policy that breaks the rules.

    The loop knows only exits drawn beforehand, so None too for exits decided at the exit. Then `simulate`
    is to be asked, which names any fault. Raises SchedulerError for inconsistent input.
    """
    world.check(requests)
    if world.drawn is None:
        return None
    stream = Stream(
        arrival=np.array([r.arrival_ns for r in requests], np.int64),
        deadline=np.array([r.deadline_ns for r in requests], np.int64),
        leaves=np.array(world.drawn, np.int64),
    )
    npu = Npu(
        believed=np.array(world.latency.ns, np.int64),
        took=np.array(world.run_ns, np.int64),
        b_max=world.batch_limit,
        slots=world.slot_limit,
    )
    compiled = twin_of(policy, stream, npu) if has_numba() else None
    if compiled is None:
        return None
    book = loop.serve(stream, npu, compiled)
    if book is None:
        return None
    return Trace(
        policy=policy.name,
        stages=world.latency.stages,
        b_max=npu.b_max,
        slots=npu.slots,
        requests=tuple(requests),
        stream=stream,
        book=book,
    )
