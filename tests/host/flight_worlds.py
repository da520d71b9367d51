"""Drawn worlds of requests in flight: all that serving can combine, in pairs and triples, on a virtual clock.

`served` runs a draw on the simulated device and holds it to one property: every request has exactly one fate,
no slot leaks, the log replays, and where the simulator knows all that happens it makes the same schedule.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from host_worlds import Images, network, pixels, world
from network_worlds import NAMES, pair

from fluidnpu.hls import Cause
from fluidnpu.host import Driver, GaveUpError
from fluidnpu.host.devices import claims
from fluidnpu.host.devices.simulated import JobFault
from fluidnpu.host.serving import active_exits
from fluidnpu.host.serving.decisions import DecisionLog
from fluidnpu.host.serving.replies import Fate, Reply
from fluidnpu.host.serving.runtime import Runtime
from fluidnpu.models import QuantisedNetwork, golden
from fluidnpu.models.exits.rule import confidence
from fluidnpu.scheduler import Policy, Request, Wait, World, make_policy, simulate
from fluidnpu.scheduler.comparison import replay_live
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import OVERDUE, ActiveExits, ExitSet, InForce, Networks, Terms
from fluidnpu.scheduler.simulation.world import SideBySide
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant

SEED, EXITS = 12, 4  # a network whose every exit is of many minds
RATES = ((0.3, 0.2, 0.1, 0.4), (0.5, 0.5), (0.3, 0.7))  # of it, and of the two that are side by side
MEDIANS = network(SEED, EXITS).network.thresholds[: EXITS - 1]
SLO_NS, MOST = 6_000, 24
POLICIES = ("serial", "greedy", "fluid", "adaptive:timeout=2us", "staged", "optimal")
WRAPPERS = ("", ":anytime=50%", ":shed=1", ":anytime=50%:shed=1")
CRITERIA = ("false", "exit_number == 1", "confidence > 0.3", "slack < 1us or confidence > 0.5")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One world; every field but the traffic has a value that leaves its feature out."""

    gaps_ns: tuple[int, ...]
    policy: str = "fluid"
    wrapper: str = ""
    tenants: bool = False
    networks: bool = False  # two side by side, which need tenants and have no table of active exits
    inactive: tuple[int, ...] = ()
    changes: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by run: the exits inactive after it
    shadows: bool = False
    anytime: int = 0  # every so manieth request; 0 for none
    timeouts: int = 0
    priorities: int = 0
    criteria: int = 0
    guarded: bool = False
    faults: tuple[int, ...] = ()  # jobs
    cause: Cause | None = None
    withdrawn: int = 0

    @property
    def settled(self) -> bool:
        """True where the simulator knows all that happens."""
        return not (self.anytime or self.timeouts or self.priorities or self.faults or self.withdrawn)


FEATURES: dict[str, Any] = {
    "wrapper": lambda rng: str(rng.choice(WRAPPERS[1:])),
    "tenants": lambda rng: True,
    "networks": lambda rng: True,
    "inactive": lambda rng: ((0,), (0, 1), (1,), (0, 1, 2))[rng.integers(4)],
    "changes": lambda rng: {int(rng.integers(1, 20)): ((), (0,), (1, 2))[rng.integers(3)] for _ in range(3)},
    "shadows": lambda rng: True,
    "anytime": lambda rng: int(rng.integers(1, 4)),
    "timeouts": lambda rng: int(rng.integers(1, 4)),
    "priorities": lambda rng: int(rng.integers(2, 5)),
    "criteria": lambda rng: int(rng.integers(1, 4)),
    "guarded": lambda rng: True,
    "faults": lambda rng: tuple(sorted(rng.choice(30, int(rng.integers(1, 8)), replace=False).tolist())),
    "withdrawn": lambda rng: int(rng.integers(2, 5)),
}


def drawn(seed: int) -> Draw:
    """Return a world with two or three features, now and then with any number of them."""
    rng = np.random.default_rng(seed)
    count = int(rng.choice([2, 3, rng.integers(0, len(FEATURES) + 1)], p=[0.4, 0.4, 0.2]))
    chosen = rng.choice(list(FEATURES), count, replace=False).tolist()
    if "networks" in chosen:
        chosen = ["tenants", *(name for name in chosen if name not in ("inactive", "changes", "shadows", "tenants"))]
    features = {name: FEATURES[name](rng) for name in chosen}
    gaps = rng.integers(0, int(rng.choice([400, 1500, 2500])), int(rng.integers(1, MOST)))
    cause = None if rng.random() < 0.3 else Cause.BUS_READ
    return Draw(gaps_ns=tuple(gaps.tolist()), policy=str(rng.choice(POLICIES)), cause=cause, **features)


@dataclass
class Scripted:
    """Change the exits after given runs, and let every third leaver run on while it is told to."""

    active: ActiveExits
    draw: Draw
    runs: int = 0
    open: set[int] = field(default_factory=set)  # shadows

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
        self.runs += 1
        if self.runs in self.draw.changes:
            self.active.change(exit_set(self.draw.changes[self.runs]), f"after run {self.runs}")
        leavers = [r.id for r, reason in zip(requests, reasons, strict=True) if reason]
        on = frozenset(id for id in leavers if self.draw.shadows and id % 3 == 0 and stage < EXITS - 1)
        self.open |= on
        return on

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        self.open.remove(request_id)

    def gone(self, request_id: int) -> None:
        self.open.discard(request_id)


def exit_set(inactive: Sequence[int]) -> ExitSet:
    return ExitSet(tuple(None if exit in inactive else value for exit, value in enumerate(MEDIANS)))


def qnet_of(which: int) -> QuantisedNetwork:
    """The network that is alone, or one of the two side by side (from 1)."""
    return pair().qnets[which - 1] if which else network(SEED, EXITS)


@cache
def images_of(which: int) -> Images:
    return pixels(qnet_of(which), MOST)


@cache
def sureness(which: int) -> list[list[float]]:
    """The confidence of each image at each exit."""
    qnet = qnet_of(which)
    values = [qnet.logits(i, stored) for i, stored in enumerate(golden.run(qnet, images_of(which)))]
    rows: list[list[float]] = np.stack([confidence(each) for each in values]).T.tolist()
    return rows


class Flown:
    """A draw served on the simulated device, with all that the property looks at."""

    def __init__(self, draw: Draw, folder: Path) -> None:
        self.draw = draw
        self.driver = self._driver()
        owners = ("porch", "street") if draw.networks else ("a", "b") if draw.tenants else ("",)
        self.of = {"porch": 0, "street": 1} if draw.networks else {}
        self.side = self.driver.networks(self.of)
        times = np.cumsum(draw.gaps_ns).tolist()
        self.requests = [Request(i, at, at + SLO_NS, owners[i % len(owners)]) for i, at in enumerate(times)]
        self.sure = [sureness(1 + self.of[each.tenant] if draw.networks else 0)[each.id] for each in self.requests]
        self.log = DecisionLog(folder / "d.jsonl", draw.policy + draw.wrapper)
        self.lost: list[int] = []
        self.gone: list[int] = []  # withdrawn
        self.fates: dict[int, Fate] = {}
        policy, rules = self._policy()
        self.active = self._active(rules)
        self.watch = None if self.active is None else Scripted(self.active, draw)
        shared = policy if isinstance(policy, Shared) else None
        self.log.expect(self._settings(), shared=shared, networks=self.side if len(self.side) > 1 else None)
        rates = RATES[1] + RATES[2] if draw.networks else RATES[0]
        with claims.claimed(self.driver.device, self.driver):
            self.runtime = Runtime(
                self.driver,
                policy,
                exit_rates=rates if self.active is None else self.active.now.rates,
                rule=rules,
                attempts=2,
                observers=[self.log],
                active=self.active,
                watch=self.watch,
                networks=self.of,
            )
            self._serve()
        self.log.close()
        self.lines = (folder / "d.jsonl").read_text().splitlines()

    def _driver(self) -> Driver:
        faults = [JobFault(job=job, cause=self.draw.cause) for job in self.draw.faults]
        if self.draw.networks:
            w = pair(slots=(5, 6), guarded=self.draw.guarded)
            w.device.faults.extend(faults)  # type: ignore[attr-defined]
            return w.driver
        alone = world(SEED, exits=EXITS, faults=faults, loaded=False)
        driver = Driver(alone.npu, alone.program, alone.design, slots=8, guarded=self.draw.guarded)
        driver.load()
        return driver

    def _settings(self) -> list[Setting]:
        parts = zip(self.driver.parts, RATES[1:] if self.draw.networks else RATES[:1], strict=True)
        return [Setting(latency=part.latency, exit_rates=r, rate_per_s=100.0, slo_ns=SLO_NS) for part, r in parts]

    def _policy(self) -> tuple[Policy, list[Criteria]]:
        name, settings = self.draw.policy + self.draw.wrapper, self._settings()
        rules = [Criteria(ExitProfile.of(part), "confidence > 0.35") for part in self.driver.parts]
        if not self.draw.tenants:
            return make_policy(name, settings[0]), rules
        places = zip(("porch", "street"), NAMES, strict=True) if self.draw.networks else (("a", ""), ("b", ""))
        tenants = tuple(Tenant(name=name, share=0.5, network=at, burst_ns=3000) for name, at in places)
        tenancy = Tenancy(tenants=tenants, interval_ns=5000)
        return Shared(
            tenancy, name, setting=settings, criteria=rules, networks=self.side if len(self.side) > 1 else None
        ), rules

    def _active(self, rules: Sequence[Criteria]) -> ActiveExits | None:
        draw = self.draw
        if draw.networks or not (draw.inactive or draw.changes or draw.shadows):
            return None
        return active_exits(self.driver, rules[0], exit_set(draw.inactive), RATES[0])

    def _terms(self, request: Request) -> Terms:
        draw, id = self.draw, request.id
        every = {name: bool(n) and id % n == 0 for name, n in vars(draw).items() if type(n) is int}
        criterion = None
        if every["criteria"]:
            profile = ExitProfile.of(self.driver.parts[self.of.get(request.tenant, 0)])
            criterion = Criteria(profile, CRITERIA[id % len(CRITERIA)]).usual
        return Terms(
            anytime=every["anytime"],
            timeout_ns=(3_000 if id % 2 else SLO_NS) if every["timeouts"] else None,
            priority=1 + id % 3 if every["priorities"] else 0,
            criterion=criterion,
        )

    def _image(self, request: Request) -> Any:
        return images_of(1 + self.of[request.tenant] if self.draw.networks else 0)[request.id]

    def _serve(self) -> None:
        """Serve as a server does, with the arrivals known."""
        runtime, requests, due = self.runtime, self.requests, 0
        leaving: list[tuple[int, int]] = []  # times and ids of clients that leave
        while True:
            now = runtime.now_ns
            while due < len(requests) and requests[due].arrival_ns <= now:
                request = requests[due]
                stored = self.driver.encode(self._image(request), self.of.get(request.tenant, 0))
                runtime.admit(request, stored, self._terms(request))
                if self.draw.withdrawn and request.id % self.draw.withdrawn == 0:
                    leaving.append((request.arrival_ns + 1_500, request.id))
                due += 1
            self.gone += runtime.withdraw([id for at, id in leaving if at <= now])
            leaving = [(at, id) for at, id in leaving if at > now]
            if runtime.ledger.busy:
                try:
                    result = runtime.step(closed=due == len(requests))
                except GaveUpError as error:
                    self.lost += error.request_ids
                    self.driver.recover()
                    continue
                if isinstance(result, Wait):
                    ends = [result.until_ns, runtime.ledger.next_end_ns()]
                    ends += [requests[due].arrival_ns] if due < len(requests) else []
                    runtime.sleep_until(min(end for end in ends if end is not None))
                    continue
                for fate in result:
                    assert fate.request_id not in self.fates, f"request {fate.request_id} has two fates"
                    self.fates[fate.request_id] = fate
            elif due < len(requests):
                runtime.sleep_until(requests[due].arrival_ns)
            else:
                break

    def check(self) -> None:
        """Hold the past to the property. Raises AssertionError, and what the replay raises."""
        draw, runtime = self.draw, self.runtime
        ended = collections.Counter([*self.fates, *self.lost, *self.gone])
        assert ended == collections.Counter(range(len(self.requests))), "every request has exactly one fate"
        assert (runtime.ledger.held, runtime.ledger.busy) == (0, False), "nothing is left"
        assert [sorted(free) for free in runtime._free] == [list(slots) for slots in self.driver.slots_of]
        assert not runtime.ledger.flights, "nothing is remembered"
        assert self.watch is None or not self.watch.open or draw.faults, "shadows end"
        for fate in self.fates.values():
            if isinstance(fate, Reply) and fate.because == OVERDUE:
                assert draw.anytime, "only terms of its own end a request so"
        relived = replay_live(self.lines)
        assert relived.requests + len(self.gone) >= len(self.requests)
        if not (self.lost or self.gone):
            schedule = runtime.ledger.schedule()
            if not draw.faults:
                schedule.check()
            if draw.settled:
                simulated = self._simulated()
                simulated.check()
                assert schedule == simulated, "simulator and device make the same schedule"
                assert schedule.because == simulated.because

    def _simulated(self) -> Any:
        policy, rules = self._policy()
        for request in self.requests:
            if (criterion := self._terms(request).criterion) is not None:
                rules[self.of.get(request.tenant, 0)].set(criterion, request=request.id)
        active = self._active(rules)
        watch = None if active is None else Scripted(active, self.draw)
        sure = {request.id: row for request, row in zip(self.requests, self.sure, strict=True)}
        exits: Any = tuple(RuledExits(rule=rule, confidences=sure) for rule in rules)
        side: Networks | None = self.side if len(self.side) > 1 else None
        return simulate(
            self.requests,
            policy,
            World(
                latency=self.driver.design.latency if active is None else active.now.latency,
                exits=exits[0] if side is None else SideBySide(networks=side, exits=exits),
                exit_rates=(RATES[1] + RATES[2] if side is not None else RATES[0])
                if active is None
                else active.now.rates,
                b_max=self.driver.design.b_max,
                slots=self.driver.slots,
                active=active,
                watch=watch,
                networks=side,
            ),
        )
