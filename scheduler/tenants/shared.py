r"""The policy of an NPU that several tenants share: whose turn it is, and which samples run together.

A policy of its own decides for each tenant what it would run if it were alone. The turns are those of the
accounts: tenants with tokens first, then whoever has had least. A run of one tenant is filled up with
samples of others that wait at the same stage, so tenants of one network share batches. Between two stages
everything is open again, so a tenant waits for one stage of another, not for its whole network.

>>> from fluidnpu.dse import LatencyTable
>>> from ..simulation.engine import simulate
>>> from ..simulation.world import World
>>> from .tenant import parse_tenants
>>> tenancy = parse_tenants("[tenant.flood]\nshare = 0.5\nburst = '1us'\n[tenant.door]\nshare = 0.5")
>>> table = LatencyTable(ns=((900,), (900,)))
>>> requests = [Request(i, 0, 10**6, tenant="flood") for i in range(9)]
>>> requests.append(Request(9, 2000, 10**6, tenant="door"))
>>> world = World(latency=table, exits=[1] * 10, exit_rates=(0, 1), slots=4)
>>> done = simulate(requests, Shared(tenancy, "greedy"), world)
>>> done.end_ns[9]
4500
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError, SchedulerError
from ..exits.adaptation import AdaptationMode
from ..exits.criteria import Criteria
from ..exits.profile import PowerModel
from ..policies.registry import make_policy
from ..policies.setting import Setting
from ..policy import Action, Policy, Request, Run, Shed, View, Wait
from ..simulation.networks import Networks
from .accounts import Accounts
from .battery import Charge
from .demand import Demand
from .lines import Lines
from .shares import cooperative_shares
from .tenant import OTHERS, Tenancy

AT_LIMIT = "over its share while others want the NPU"


class Shared:
    """Shares an NPU between the tenants of a tenancy; `inner` makes, or names, the policy of each.

    `criteria` are those in force: at every interval the modes of the tenants change them, from the share that
    each has and the rate that it asks with. One slot is always kept for each tenant, so give the NPU more
    slots than its largest batch. Requests that name no tenant share what is left.

    With several `networks` each tenant has its own, and there are as many settings and criteria as networks.
    `power`: watts of the board, by which a tenancy with an energy budget spends it. Raises SchedulerError.
    """

    def __init__(
        self,
        tenancy: Tenancy,
        inner: str | Callable[[], Policy] = "fluid",
        *,
        setting: Setting | Sequence[Setting] | None = None,
        criteria: Criteria | Sequence[Criteria] | None = None,
        modes: Mapping[str, AdaptationMode] | None = None,
        networks: Networks | None = None,
        power: PowerModel | None = None,
    ) -> None:
        self.tenancy, self._networks, self._power = tenancy, networks, power
        self.check_energy(tenancy, power)
        self.name = f"tenants of {inner}" if isinstance(inner, str) else "tenants"
        count = 1 if networks is None else len(networks)
        settings = (setting,) * count if setting is None or isinstance(setting, Setting) else tuple(setting)
        self._makers: list[Callable[[], Policy]] = [
            partial(make_policy, inner, network_setting) if isinstance(inner, str) else inner
            for network_setting in settings
        ]
        self._criteria = (criteria,) if isinstance(criteria, Criteria) else tuple(criteria or ())
        self._modes = dict(modes or {})
        self._tables: tuple[LatencyTable, ...] = ()
        self._table: LatencyTable | None = None
        if count > 1 and (lost := [tenant.name for tenant in tenancy.all if tenant.name not in self._of_tenant]):
            raise SchedulerError(f"tenant '{lost[0]}' must have a network of its own, and it has none")
        self._changed: tuple[Tenancy, Mapping[str, AdaptationMode]] | None = None
        _check_modes(tenancy, self._modes)
        self.reset()

    @staticmethod
    def check_energy(tenancy: Tenancy, power: PowerModel | None) -> None:
        """Raise SchedulerError for an energy budget on a board whose power is not known."""
        if tenancy.energy is None:
            return
        if power is None:
            raise SchedulerError(
                "an energy budget must have a power model of the board, the table [power] of its file, and there is none"
            )
        tenancy.energy.duty(power)

    def reset(self) -> None:
        """Fill all buckets, forget all rates and put the first criteria in force."""
        self.accounts = Accounts(self.tenancy)
        self.charge: Charge | None = None
        if self.tenancy.energy is not None and self._power is not None:
            self.charge = Charge(self.tenancy.energy, self._power)
        self.demand = Demand(self.tenancy)
        self._inner: dict[str, Policy] = {}
        self._network = {tenant.name: self._of_tenant.get(tenant.name, 0) for tenant in self.tenancy.all}
        for tenant in self.tenancy.all:
            policy = self._inner[tenant.name] = self._makers[self._network[tenant.name]]()
            policy.reset()
            if self._criteria and tenant.criterion is not None:
                self._criteria[self._network[tenant.name]].set(tenant.criterion, tenant=tenant.name)
        self._by_name = {tenant.name: tenant for tenant in self.tenancy.all}
        self._lines = [
            Lines([name for name, at in self._network.items() if at == network]) for network in range(len(self._makers))
        ]
        self._follow()

    @property
    def _of_tenant(self) -> Mapping[str, int]:
        return {} if self._networks is None else self._networks.of_tenant

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of each tenant as of the last interval."""
        return dict(self.accounts.shares)

    @property
    def infeasible(self) -> tuple[str, ...]:
        """The tenants whose target accuracy nothing has; their budget alone decides."""
        return tuple(name for name, mode in self._modes.items() if not mode.feasible)

    def change(self, tenancy: Tenancy, modes: Mapping[str, AdaptationMode] | None = None) -> None:
        """Take changed tenants at the next decision, from any thread; their names must be the same.

        `modes`: of all tenants (None: as before). Raises SchedulerError.
        """
        if [tenant.name for tenant in tenancy.all] != [tenant_.name for tenant_ in self.tenancy.all]:
            raise SchedulerError("tenants may be changed while they are served, but neither added nor removed")
        chosen = self._modes if modes is None else dict(modes)
        _check_modes(tenancy, chosen)
        self._changed = tenancy, chosen

    # -- decisions -------------------------------------------------------------------------------------------

    def decide(self, view: View) -> Action:
        """Return what the tenant whose turn it is would do, with room in its batch filled by others."""
        if self._changed is not None:
            self._apply(*self._changed)
        self.accounts.refill(view.now_ns)
        if self.charge is not None:
            self.charge.refill(view.now_ns)
        views = self._apart(view)
        new = [request for lines, part in zip(self._lines, views, strict=True) for request in lines.read(part.waiting)]
        if self.demand.read(view.now_ns, new):
            self._share_anew([part.latency.between(0, part.latency.stages - 1, 1) for part in views])
        lines = {name: self._lines[network].of(name) for name, network in self._network.items()}
        wanting = [name for name, line in lines.items() if any(line)]
        order = self.accounts.order(wanting)
        with_tokens = [name for name in order if self.accounts.balance_ns[name] > 0]
        if dropped := self._dropped(order, with_tokens, lines):
            return dropped
        if self.charge is not None and self.charge.level_nj <= 0 and not view.closed:
            return Wait(view.now_ns + self.charge.ready_ns(), "the energy budget is spent")
        held = Counter({name: sum(map(len, line[1:])) for name, line in lines.items()})
        waits: list[int] = []
        for name in order:
            tokens = self.accounts.balance_ns[name] > 0
            if not (tokens or self._by_name[name].borrow or view.closed):
                ready = self.accounts.ready_ns(name)
                if ready < 2**62:
                    waits.append(view.now_ns + max(1, int(ready) + 1))
                continue
            part = views[self._network[name]]
            most = part.slots - self._claimed(name, held) + self._claim(name, held)
            action = self._turn(name, part, lines[name], most)
            if isinstance(action, Wait):
                if action.until_ns is not None:
                    waits.append(action.until_ns)
            elif isinstance(action, Run):
                return self._fill(name, action, part, lines, held, lent=not tokens)
            elif action is not None:
                if isinstance(action, Shed):
                    self._lines[self._network[name]].remove(action.requests)
                return action
        return Wait(min(waits, default=None), "no tenant may, or wants to, run now")

    def _apart(self, view: View) -> list[View]:
        """Return what each network's tenants see: its own stages and slots."""
        side, slots = self._networks, view.slots or view.b_max
        if self._table is not view.latency:
            self._table, self._tables = view.latency, (view.latency,) if side is None else side.tables(view.latency)
        if side is None:
            views = [dataclasses.replace(view, slots=slots)]
        else:
            rows = zip(self._tables, side.parts(view.exit_rates), side.slots, strict=True)
            views = [
                view.of_network(side.span(index), table, rates, own) for index, (table, rates, own) in enumerate(rows)
            ]
        named = Counter(self._network[tenant.name] for tenant in self.tenancy.tenants)
        for index, part in enumerate(views):
            if part.slots < named[index]:
                raise PolicyError(f"{named[index]} tenants need a slot each, and the NPU has {part.slots}")
        return views

    def _turn(self, name: str, view: View, line: Sequence[Sequence[Request]], most: int) -> Action | None:
        """Ask the tenant's policy about its own requests and `most` slots; None where it can do nothing."""
        free = most - sum(map(len, line[1:]))
        waiting = line if free > 0 else ([], *line[1:])
        if not any(waiting):
            return None
        action = self._inner[name].decide(view.of_tenant(waiting, most))
        if isinstance(action, Run):
            limit = min(view.b_max, free) if action.stage == 0 else view.b_max
            if len(action.requests) > limit:  # samples that came here in batches of others may be more than fit
                return dataclasses.replace(action, requests=action.requests[:limit])
        return action

    def _fill(
        self,
        name: str,
        run: Run,
        view: View,
        lines: Mapping[str, Sequence[Sequence[Request]]],
        held: Counter[str],
        *,
        lent: bool,
    ) -> Run:
        """Fill a run with samples of other tenants at its stage, and charge everybody in it.

        Each place goes to the tenant that has had least, counting the places that it got before. A larger
        batch takes longer, so in a run that is paid for only tenants with tokens may join: none beyond its
        share slows another down. Where the policy left samples of the tenant itself behind, it wants a batch
        of that size.
        """
        stage, batch = run.stage, list(run.requests)
        taken = held + Counter({name: len(batch)}) if stage == 0 else held
        sample_ns = view.latency.ns[stage][view.b_max - 1] / view.b_max
        queues = {
            other: deque(line[stage])
            for other, line in lines.items()
            if other != name
            and self._network[other] == self._network[name]
            and len(lines[name][stage]) == len(run.requests)
            and (self.accounts.balance_ns[other] > 0 or (lent and self._by_name[other].borrow))
        }
        joined: Counter[str] = Counter()
        while len(batch) < view.b_max and (ready := [other for other, queue in queues.items() if queue]):
            owner = min(ready, key=lambda other: self.accounts.turn(other, sample_ns * joined[other]))
            if stage == 0 and self._claimed(name, taken + Counter({owner: 1})) > view.slots:
                del queues[owner]
                continue
            taken += Counter({owner: 1})
            joined[owner] += 1
            batch.append(queues[owner].popleft())
        network = self._network[name]
        if stage == 0:
            self._lines[network].remove(batch)
        counts = Counter(request.tenant for request in batch)
        samples = {name: counts.pop(name), **counts}
        run_ns = view.latency.ns[stage][len(batch) - 1]
        self.accounts.pay(samples, run_ns, lent=lent)
        if self.charge is not None:
            self.charge.spend(run_ns)
        turn = f"{name or 'others'}'s turn" + (" on lent time" if lent else "")
        with_others = f", with {joined.total()} of others" if joined else ""
        first = 0 if self._networks is None else self._networks.first[network]
        return Run(first + stage, tuple(sorted(batch, key=_age)), f"{turn}{with_others}: {run.reason}")

    def _claim(self, name: str, held: Counter[str]) -> int:
        """Return the slots that are a tenant's: those that it holds, and at least one if it was named."""
        return max(held[name], 0 if name == OTHERS else 1)

    def _claimed(self, name: str, held: Counter[str]) -> int:
        """Return the slots that are claimed by the tenants of a tenant's network."""
        network = self._network[name]
        return sum(self._claim(other, held) for other, at in self._network.items() if at == network)

    def _dropped(
        self, order: Sequence[str], with_tokens: Sequence[str], lines: Mapping[str, Sequence[Sequence[Request]]]
    ) -> Shed | None:
        """Refuse the queue of a tenant that drops at its limit, while another has tokens or it may not
        borrow.
        """
        for name in order:
            tenant = self._by_name[name]
            over = tenant.at_limit == "drop" and name not in with_tokens and lines[name][0]
            if over and (with_tokens or not tenant.borrow):
                refused = tuple(lines[name][0])
                self._lines[self._network[name]].remove(refused)
                return Shed(refused, AT_LIMIT)
        return None

    # -- shares and criteria ---------------------------------------------------------------------------------

    def _apply(self, tenancy: Tenancy, modes: Mapping[str, AdaptationMode]) -> None:
        before, self.tenancy, self._modes, self._changed = self._by_name, tenancy, dict(modes), None
        self.demand.tell([tenant for tenant in tenancy.all if tenant.rate_per_s != before[tenant.name].rate_per_s])
        self._by_name = {tenant.name: tenant for tenant in tenancy.all}
        self.accounts.set_tenancy(tenancy)
        for tenant in tenancy.all if self._criteria else ():
            if tenant.mode == "fixed":
                self._criteria[self._network[tenant.name]].set(tenant.criterion, tenant=tenant.name)
        self._follow()

    def _share_anew(self, full_ns: Sequence[int]) -> None:
        """Divide the shares of those that cooperate by what they ask for, then let criteria follow."""
        every = self.tenancy.all
        given = cooperative_shares(
            shares=[tenant.share for tenant in every],
            priorities=[tenant.priority for tenant in every],
            rates_per_s=[self.demand.rate_per_s(tenant.name) or 0.0 for tenant in every],
            full_ns=[full_ns[self._network[tenant.name]] for tenant in every],
            cooperates=[tenant.cooperative for tenant in every],
        )
        for tenant, share in zip(every, given, strict=True):
            self.accounts.shares[tenant.name] = share
        self._follow()

    def _follow(self) -> None:
        """Give every tenant whose mode follows its share the criterion of its budget."""
        if not self._criteria:
            return
        for tenant in self.tenancy.all:
            mode, rate = self._modes.get(tenant.name), self.demand.rate_per_s(tenant.name)
            if tenant.mode == "fixed" or mode is None or not rate:
                continue
            allowed = 1.0 if self.charge is None else self.charge.share(self.tenancy.interval_ns)
            budget_ns = self.tenancy.utilisation * allowed * self.accounts.shares[tenant.name] / rate * 1e9
            self._criteria[self._network[tenant.name]].set(mode.criterion(budget_ns), tenant=tenant.name)


def _check_modes(tenancy: Tenancy, modes: Mapping[str, AdaptationMode]) -> None:
    """Refuse a tenant whose mode was not made."""
    for tenant in tenancy.tenants:
        if tenant.mode != "fixed" and tenant.name not in modes:
            raise SchedulerError(f"tenant '{tenant.name}' has the mode {tenant.mode}, and no such mode was made for it")


def _age(request: Request) -> tuple[int, int]:
    return request.arrival_ns, request.id
