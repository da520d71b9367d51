"""The decision log of a live server, all that its policy saw and decided, and a replay that asks again.

A live run takes as long as it takes, so the log holds the measured ends. JSON lines: a header, then one line
an arrival, a decision, or the end of a run. A rotated log continues in a part with the next number; parts
that are put together again (`cat log.1 log`) replay as one. Where tenants share the NPU the log holds them,
their changes, and the networks side by side, so that their turns can be asked again, too.

>>> from fluidnpu.dse import LatencyTable
>>> setting = Setting(latency=LatencyTable(ns=((10, 15),)), exit_rates=(1.0,), rate_per_s=1000.0, slo_ns=100)
>>> log = LiveLog("greedy", setting, slots=2)
>>> one = Request(0, 0, 100)
>>> run = Run(0, (one,), "start 1 of 1 in the queue")
>>> begin = log.header(View(0, [[]], setting.latency, (1.0,), 2))
>>> lines = [begin, log.arrival(one), log.decision(0, run, closed=False), log.run_end(12, [])]
>>> print(replay_live(lines))
Relived(policy='greedy', requests=1, decisions=1, asked=1)
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError, SchedulerError
from ..exits.profile import PowerModel
from ..policies.registry import make_policy
from ..policies.setting import Setting
from ..policy import Action, Answer, Policy, Request, Run, Shed, View
from ..simulation.active import ExitSet, InForce
from ..simulation.flight import Flight, Terms
from ..simulation.ledger import Ledger
from ..simulation.networks import Networks
from ..simulation.schedule import action_line, read_action
from ..tenants.shared import Shared
from ..tenants.tenant import Tenancy, read_told, told

LIVE_KIND = "fluidnpu live decisions"
SCHEMA = 1
ENDLESS = 1 << 62
TERMS = "terms"  # key of a decision that a request's own terms demanded, so that the policy was not asked


@dataclass(frozen=True, kw_only=True)
class Relived:
    """The facts about a live log that replays; `asked`: decisions that the policy, asked again, repeated."""

    policy: str
    requests: int
    decisions: int
    asked: int


class LiveLog:
    """Writes the lines of one server's log. Pure text; no I/O."""

    def __init__(
        self,
        policy: str,
        setting: Setting | Sequence[Setting],
        slots: int,
        *,
        tenancy: Tenancy | None = None,
        power: PowerModel | None = None,
        networks: Networks | None = None,
    ) -> None:
        """Note what the policy was told; `tenancy`: tenants share the NPU, and `policy` is that of each.

        `networks` side by side have a setting each. `power`: watts, by which an energy budget is spent.
        """
        settings = (setting,) if isinstance(setting, Setting) else tuple(setting)
        self._head: dict[str, Any] = {
            "log": LIVE_KIND,
            "schema": SCHEMA,
            "policy": policy,
            "latency_ns": [list(row) for network in settings for row in network.latency.ns],
            "exit_rates": [rate for network in settings for rate in network.exit_rates],
            "rate_per_s": settings[0].rate_per_s,
            "slo_ns": settings[0].slo_ns,
            "slots": slots,
        }
        if tenancy is not None:
            self._head["shared"] = told(tenancy)
        if power is not None:
            self._head["power_w"] = [power.idle_w, power.active_w]
        if networks is not None:
            self._head["networks"] = {
                "stages": list(networks.stages),
                "slots": list(networks.slots),
                "of_tenant": dict(networks.of_tenant),
                "expected": [[network.rate_per_s, network.slo_ns] for network in settings],
            }
        self._part = -1

    def header(self, view: View, *, fresh: bool = False) -> str:
        """Return the header of the next part, with the requests that wait at its beginning.

        `fresh`: the policy was reset, so that numbering starts again.
        """
        self._part = 0 if fresh else self._part + 1
        lines = [[_row(request) for request in line] for line in view.waiting]
        more = {"unanswerable": sorted(view.unanswerable)} if view.unanswerable else {}
        return json.dumps({**self._head, "part": self._part, "waiting": lines, **more})

    def arrival(self, request: Request, priority: int = 0) -> str:
        """Return the line of a request that entered the queue."""
        rank = {"priority": priority} if priority else {}
        return json.dumps({"in": _row(request), **rank})

    def withdrawn(self, request: Request) -> str:
        """Return the line of a request that left the queue before it had begun, since nobody waits for it."""
        return json.dumps({"out": request.id})

    def decision(self, at_ns: int, action: Action, *, closed: bool, terms: bool = False) -> str:
        """Return the line of a decision; `terms`: the request's own terms demanded it."""
        more = {TERMS: True} if terms else {}
        return json.dumps({**action_line(at_ns, action), "closed": closed, **more}, allow_nan=False)

    def adapted(self, at_ns: int, state: InForce) -> str:
        """Return the line of a change of the active exits, with what policies see from then on."""
        now = {
            "exits": list(state.exits.thresholds),
            "latency_ns": [list(row) for row in state.latency.ns],
            "exit_rates": list(state.rates),
        }
        self._head |= now
        return json.dumps({"t": at_ns, "why": state.why, **now})

    def shared_anew(self, at_ns: int, tenancy: Tenancy) -> str:
        """Return the line of a change of the tenants, which holds from the next decision on."""
        self._head["shared"] = told(tenancy)
        return json.dumps({"t": at_ns, "shared": self._head["shared"]})

    def run_end(
        self,
        at_ns: int,
        staying: Iterable[int],
        because: Mapping[int, str] | None = None,
        shadows: Sequence[int] = (),
    ) -> str:
        """Return the line of the last run's end, with those who stay for the next stage.

        `because`: by id of those who left, the clause for which they did. `shadows`: those who stay although
        they were answered.
        """
        on = {"shadows": list(shadows)} if shadows else {}
        left = {"left": {str(id): text for id, text in because.items()}} if because else {}
        return json.dumps({"end": at_ns, "stay": list(staying), **left, **on})


def replay_live(lines: Iterable[str]) -> Relived:
    """Check that a live log obeys the rules, and that its policy, asked again, decides the same.

    A log that begins with a later part checks the rules alone: the policy may remember what came before.
    Raises SchedulerError for a malformed line, naming it, and PolicyError at the first difference.
    """
    replayed: _Replayed | None = None
    for number, line in enumerate(lines, 1):
        try:
            raw = json.loads(line)
            if "log" in raw:
                replayed = _begun(raw, replayed)
            elif replayed is None:
                raise ValueError("the first line must be the header")
            else:
                replayed.take(raw)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, SchedulerError):
                raise
            raise SchedulerError(
                f"line {number} of the decision log must be one that a server writes: {error}"
            ) from None
    if replayed is None:
        raise SchedulerError("a decision log must have a header, and it is empty")
    return Relived(policy=replayed.name, requests=replayed.requests, decisions=replayed.decisions, asked=replayed.asked)


def _begun(raw: Mapping[str, Any], before: _Replayed | None) -> _Replayed:
    if raw["log"] != LIVE_KIND or raw["schema"] != SCHEMA:
        raise ValueError(f"it must say {LIVE_KIND!r} and schema {SCHEMA}")
    if before is not None and raw["part"] == before.part + 1:
        before.part += 1
        return before
    made = _Replayed(raw)
    if before is not None:
        made.requests, made.decisions, made.asked = before.requests, before.decisions, before.asked
    return made


class _Replayed:
    """The state of a server while its log is read."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        latency, rates = _believed(head)
        self.name, self.part = str(head["policy"]), int(head["part"])
        self.requests = self.decisions = self.asked = 0
        networks = _networks(head)
        self._policy: Policy | None = None
        if self.part == 0 and head.get("shared") is not True:  # older logs say no more than that
            self._policy = _policy(head, latency, rates, networks)
            self._policy.reset()
        self._ledger = Ledger[Flight](
            policy=self.name,
            latency=latency,
            exit_rates=rates,
            b_max=latency.b_max,
            slots=int(head["slots"]),
            networks=networks,
            patience=ENDLESS,  # the server's was enough
        )
        self._adapt(head)
        hidden = set(map(int, head.get("unanswerable", ())))
        for stage, line in enumerate(head["waiting"]):
            for row in line:
                flight = Flight(_request(row))
                self._ledger.resume(flight, stage, answerable=flight.request.id not in hidden)
        self._run: Run | None = None

    def _adapt(self, raw: Mapping[str, Any]) -> None:
        """Take the active exits that a line names, if it does."""
        if "exits" in raw:
            self._ledger.take(ExitSet(tuple(raw["exits"])), *_believed(raw))

    def take(self, raw: Mapping[str, Any]) -> None:
        """Take one line. Raises ValueError for one that does not fit those before."""
        if "in" in raw:
            self._ledger.admit(Flight(_request(raw["in"]), Terms(priority=int(raw.get("priority", 0)))))
            self.requests += 1
        elif "out" in raw:
            if not self._ledger.withdraw([int(raw["out"])]):
                raise ValueError(f"request {raw['out']} was withdrawn, and it is not in the queue")
        elif "end" in raw:
            self._finish(int(raw["end"]), set(raw["stay"]), frozenset(raw.get("shadows", ())))
        elif "shared" in raw:
            if isinstance(self._policy, Shared):
                self._policy.change(_by_turns(raw["shared"]))
        elif "exits" in raw:
            self._adapt(raw)
        else:
            by_id = {id: self._ledger.flights[id].request for id in raw.get("ids", ())}
            self._decide(*read_action(raw, by_id), bool(raw["closed"]), bool(raw.get(TERMS)))

    def _finish(self, at_ns: int, stay: Set[int], shadows: frozenset[int]) -> None:
        if self._run is None:
            raise ValueError("a run ends that was not begun")
        if stay:
            left = ["" if request.id in stay - shadows else "left" for request in self._run.requests]
            self._ledger.finish(self._run, at_ns, left, shadows=shadows)
        else:
            self._ledger.lose()  # whether they were answered or given up
        self._ledger.view.now_ns, self._run = at_ns, None

    def _decide(self, at_ns: int, action: Action, closed: bool, terms: bool) -> None:
        ledger = self._ledger
        if at_ns < ledger.view.now_ns or self._run is not None:
            raise PolicyError(f"the decision at {at_ns} ns comes before the end of what was decided before it")
        self.decisions += 1
        if self._policy is not None and not terms:
            again = ledger.decide(self._policy, at_ns, closed)
            if again != action:
                logged, now = action_line(at_ns, action), action_line(at_ns, again)
                raise PolicyError(f"decision {self.decisions} was {logged} by the log, and '{self.name}' says {now}")
            self.asked += 1
        else:
            ledger.view.now_ns = at_ns
            ledger.check(at_ns, action, closed)
        if isinstance(action, Run):
            ledger.begin(at_ns, action)
            self._run = action
        elif isinstance(action, Answer):
            ledger.answer(at_ns, action)
        elif isinstance(action, Shed):
            ledger.shed(at_ns, action)


def _request(row: Sequence[Any]) -> Request:
    id, arrival_ns, deadline_ns, *rest = row
    return Request(int(id), int(arrival_ns), int(deadline_ns), *map(str, rest))


def _believed(raw: Mapping[str, Any]) -> tuple[LatencyTable, tuple[float, ...]]:
    """Return the times and exit rates that a line names."""
    return LatencyTable(ns=tuple(map(tuple, raw["latency_ns"]))), tuple(map(float, raw["exit_rates"]))


def _networks(head: Mapping[str, Any]) -> Networks | None:
    """Return the networks that a header names; None where the NPU has one."""
    raw = head.get("networks")
    if raw is None:
        return None
    of_tenant = {str(name): int(network) for name, network in raw["of_tenant"].items()}
    return Networks(stages=tuple(map(int, raw["stages"])), slots=tuple(map(int, raw["slots"])), of_tenant=of_tenant)


def _policy(
    head: Mapping[str, Any], latency: LatencyTable, rates: tuple[float, ...], networks: Networks | None
) -> Policy:
    """Return the policy that a header names: one of its own, or the turns of tenants with one for each."""
    expected = [[head["rate_per_s"], head["slo_ns"]]] if networks is None else head["networks"]["expected"]
    tables = (latency,) if networks is None else networks.tables(latency)
    parts = (rates,) if networks is None else networks.parts(rates)
    settings = [
        Setting(latency=table, exit_rates=part, rate_per_s=float(rate), slo_ns=int(slo_ns))
        for table, part, (rate, slo_ns) in zip(tables, parts, expected, strict=True)
    ]
    name = str(head["policy"])
    if not head.get("shared"):
        return make_policy(name, settings[0])
    power = None if "power_w" not in head else PowerModel(idle_w=head["power_w"][0], active_w=head["power_w"][1])
    return Shared(_by_turns(head["shared"]), name, setting=settings, networks=networks, power=power)


def _by_turns(raw: Mapping[str, Any]) -> Tenancy:
    """Return a tenancy of a log without its modes: they make criteria, and who left is in the log."""
    tenancy = read_told(raw)
    plain = (dataclasses.replace(tenant, mode="fixed", accuracy=None) for tenant in tenancy.tenants)
    return dataclasses.replace(tenancy, tenants=tuple(plain))


def _row(request: Request) -> list[int | str]:
    tenant = [request.tenant] if request.tenant else []
    return [request.id, request.arrival_ns, request.deadline_ns, *tenant]
