"""Serving through the compiled loop of `kernel.py`, for the policies that it knows. Optional: with Numba
(`pip install "fluidnpu[fast]"`).

`serve_compiled` gives a `Trace`: the same schedule as `simulate`, as columns; `Trace.schedule()` turns it
into the same `Schedule`, only without the reasons of decisions. `rules_of` says None for a policy that it
does not know, and for anything that the engine would refuse: then `simulate` is to be asked, which names the
fault.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import Greedy, Request, World
>>> two = [Request(0, 0, 100), Request(1, 5, 105)]
>>> table = LatencyTable(ns=((10, 15), (10, 15)))
>>> done = serve_compiled(two, Greedy(), World(latency=table, exits=[0, 1], exit_rates=[0.5, 0.5]))
>>> done is None or done.end_ns.tolist() == [10, 30]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..policies.baselines import Adaptive, Greedy, Serial
from ..policies.credit import Credit, Optimal
from ..policies.decision_process import CountTable
from ..policies.fluid import Fluid
from ..policies.guarded import Guarded
from ..policies.peers import Lazy, Staged
from ..policies.wrappers.anytime import Anytime
from ..policies.wrappers.shedding import Shedding, innermost
from ..policy import Action, Answer, Policy, Request, Run, Shed, Wait
from ..schedule import Schedule, Tally
from ..simulation.world import World
from . import kernel
from .fast import available
from .kernel import Ints, Machine, Rules, Stream

PLACES = 1 << 20  # the largest index of counts past the queue


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What happened, as columns aligned with `requests`; `log` and `ids` as `kernel.serve` returns them."""

    policy: str
    stages: int
    b_max: int
    slots: int
    requests: tuple[Request, ...]
    stream: Stream
    fates: Ints
    log: Ints
    ids: Ints

    @property
    def end_ns(self) -> Ints:
        """When each request left."""
        return np.asarray(self.fates[:, 1])

    def schedule(self) -> Schedule:
        """The same as objects; reasons are empty."""
        runs = self.log[:, 1] == kernel.RUN
        return Schedule(
            policy=self.policy,
            stages=self.stages,
            b_max=self.b_max,
            slots=self.slots,
            requests=self.requests,
            **{k: tuple(map(int, self.fates[:, i])) for i, k in enumerate(("start_ns", "end_ns", "exit", "outcome"))},
            log=tuple(self._actions()),
            run_end_ns=tuple(map(int, self.log[runs, 5])),
        )

    def tally(self) -> Tally:
        """What `measure` needs."""
        runs = self.log[self.log[:, 1] == kernel.RUN]
        table = np.zeros((self.stages, self.b_max), np.int64)
        np.add.at(table, (runs[:, 2], runs[:, 3] - 1), 1)
        return Tally(
            policy=self.policy,
            arrival_ns=self.stream.arrival,
            deadline_ns=self.stream.deadline,
            end_ns=self.fates[:, 1],
            exit=self.fates[:, 2],
            outcome=self.fates[:, 3],
            runs=table,
            busy_ns=int((runs[:, 5] - runs[:, 0]).sum()),
            decisions=len(self.log),
        )

    def _actions(self) -> list[tuple[int, Action]]:
        out: list[tuple[int, Action]] = []
        at = 0
        for now, kind, stage, size, until, _ in self.log.tolist():
            batch = tuple(self.requests[k] for k in self.ids[at : at + size, 0])
            at += size
            if kind == kernel.RUN:
                out.append((now, Run(stage, batch)))
            elif kind == kernel.WAIT:
                out.append((now, Wait(None if until == kernel.NEVER else until)))
            else:
                out.append((now, Answer(batch) if kind == kernel.ANSWER else Shed(batch)))
        return out


def serve_compiled(requests: Sequence[Request], policy: Policy, world: World) -> Trace | None:
    """Serve as `simulate` does; None for a policy that the loop does not know or that breaks the rules.

    The loop knows exits drawn beforehand only, so None too for exits decided at the exit. Raises
    SchedulerError for inconsistent input.
    """
    world.check(requests)
    if world.drawn is None:
        return None
    arrival = np.array([r.arrival_ns for r in requests], np.int64)
    deadline = np.array([r.deadline_ns for r in requests], np.int64)
    machine = Machine(
        np.array(world.latency.ns, np.int64), np.array(world.run_ns, np.int64), world.batch_limit, world.slot_limit
    )
    rules = rules_of(policy, machine)
    if rules is None or not available():
        return None
    stream = Stream(arrival, deadline, np.array(world.drawn, np.int64), _due(policy, arrival, deadline))
    broken, fates, log, ids = kernel.serve(stream, machine, rules)
    if broken:
        return None
    return Trace(
        policy=policy.name,
        stages=world.latency.stages,
        b_max=world.batch_limit,
        slots=world.slot_limit,
        requests=tuple(requests),
        stream=stream,
        fates=fates,
        log=log,
        ids=ids,
    )


def rules_of(policy: Policy, machine: Machine) -> Rules | None:
    """The policy as numbers and tables; None when it is not one of ours as it ships, or does not fit the
    machine.
    """
    shed, share, rescue = False, 0.0, False
    if type(policy) is Shedding:
        shed, policy = True, policy.inner
    if type(policy) is Anytime:
        share, rescue, policy = float(policy.share), policy.rescue_only, policy.inner
    found = _own(policy, machine)
    if found is None:
        return None
    usual = {"limit": machine.b_max, "flag": 0, "slo": 0, "width": 1, "patience_ns": 0, "gap": 0, "oldest": 0}
    return Rules(**usual | _NO_TABLE | found | {"anytime": share, "rescue_only": int(rescue), "shed": int(shed)})


_NO_TABLE: dict[str, Any] = {
    "table_b_max": 1,
    "table_slots": 1,
    "queue_max": 1,
    "radix": 1,
    "place": np.zeros(1, np.int64),
    "q": np.zeros((1, 1, 1), np.int64),
    "steps": np.zeros((1, 1), np.int64),
    "v": np.zeros((1, 1), np.int64),
    "gain": np.zeros((1, 1), np.int64),
    "work": np.zeros(1, np.int64),
    "guard": np.zeros(1),
}


def _own(policy: Policy, machine: Machine) -> dict[str, Any] | None:
    """The fields that differ from the usual; exact types only, for a subclass may decide otherwise."""
    kind = type(policy)
    if kind is Serial:
        return {"code": kernel.SERIAL}
    if isinstance(policy, Greedy | Adaptive) and kind in (Greedy, Adaptive):
        code = kernel.GREEDY if kind is Greedy else kernel.ADAPTIVE
        return {"code": code, "limit": min(policy.b_max or machine.b_max, machine.b_max)}
    if isinstance(policy, Fluid) and kind is Fluid:
        return {"code": kernel.FLUID, "flag": int(policy.repaired)}
    if isinstance(policy, Lazy) and kind is Lazy:
        return {"code": kernel.LAZY, "flag": int(policy.exit_aware)}
    if isinstance(policy, Staged) and kind is Staged:
        return {"code": kernel.STAGED, "limit": policy.tau_b}
    if isinstance(policy, Optimal) and kind is Optimal:
        table = _table(policy.table, machine)
        return table and {"code": kernel.OPTIMAL} | table
    if isinstance(policy, Credit) and kind is Credit:
        return _credit(policy, machine)
    if isinstance(policy, Guarded) and kind is Guarded and type(policy.credit) is Credit:
        inner = _credit(policy.credit, machine)
        return inner and inner | {"code": kernel.GUARDED} | policy.numbers()
    return None


def _credit(policy: Credit, machine: Machine) -> dict[str, Any] | None:
    table, numbers = _table(policy.table, machine), policy.numbers()
    if table is None or numbers["steps"].shape != machine.believed.shape:
        return None
    return {"code": kernel.CREDIT} | table | numbers


def _table(table: CountTable, machine: Machine) -> dict[str, Any] | None:
    """The solved process as arrays; None when it was not solved for so many stages, or its index would be too
    large.
    """
    stages = len(machine.believed)
    if any(len(place) != stages - 1 for place in table.places) or table.q.shape[2] != stages * table.b_max + 1:
        return None
    radix = table.slots + 1
    if radix ** (stages - 1) > PLACES:
        return None
    place = np.zeros(radix ** (stages - 1), np.int64)
    for counts, row in table.places.items():
        key = 0
        for count in counts:
            key = key * radix + count
        place[key] = row
    return {
        "table_b_max": table.b_max,
        "table_slots": table.slots,
        "queue_max": table.queue_max,
        "radix": radix,
        "place": place,
        "q": table.whole,
    }


def _due(policy: Policy, arrival: Ints, deadline: Ints) -> Ints:
    """When `adaptive` stops waiting for company, per request as the oldest."""
    policy = innermost(policy)
    if not isinstance(policy, Adaptive):
        return arrival
    if policy.timeout_ns is not None:
        return arrival + policy.timeout_ns
    wait: Ints = np.rint((policy.share or 0) * (deadline - arrival)).astype(np.int64)
    return arrival + wait
