r"""Token buckets in nanoseconds of NPU time, one a tenant. No clock of their own, no policy.

A bucket is refilled with the tenant's share of the time that passes, up to its burst. A run is paid for
before it begins, since its time is known, by each tenant in the batch for its samples. Time that no tenant
with tokens wants is lent: it costs nothing.

Tenants with tokens come first, the one that saved most first, counted in wall time of its share. Lent time
is divided by start-time fair queueing (Goyal, Vin and Cheng, 1996): each tenant has a tag that grows with its
NPU time over its share, the smallest is next, and whoever begins to want the NPU begins at the tag that is
served then, so idle time is neither saved up nor punished.

>>> from .tenant import parse_tenants
>>> accounts = Accounts(parse_tenants("[tenant.a]\nshare = 0.5\nburst = '1ms'\n[tenant.b]\nshare = 0.5"))
>>> accounts.pay({"a": 3, "b": 1}, 800_000)
>>> accounts.balance_ns["a"], accounts.balance_ns["b"]
(400000.0, 49800000.0)
>>> accounts.refill(1_000_000)
>>> accounts.balance_ns["a"], accounts.overflown_ns["b"]
(900000.0, 300000.0)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .tenant import Tenancy

LEAST = 1e-6  # of a share, for the order of those that have none


class Accounts:
    """The balances of all tenants in ns, full at the beginning; `shares` may be set at any time.

    `refilled_ns`, `overflown_ns`, `paid_ns` and `lent_ns` are sums since the beginning: balance is burst +
    refilled - overflown - paid, and what was lent is in none of them.
    """

    def __init__(self, tenancy: Tenancy) -> None:
        self.burst_ns = {tenant.name: float(tenant.burst_ns) for tenant in tenancy.all}
        self.shares = {tenant.name: tenant.share for tenant in tenancy.all}
        self.balance_ns = dict(self.burst_ns)
        self.refilled_ns, self.overflown_ns, self.paid_ns, self.lent_ns = (
            dict.fromkeys(self.burst_ns, 0.0) for _ in range(4)
        )
        self._tag, self._served_tag = dict.fromkeys(self.burst_ns, 0.0), 0.0
        self._wanted: set[str] = set()
        self._at_ns = 0

    def order(self, wanting: Collection[str]) -> list[str]:
        """Return the tenants that have work in the order of their turns: those with tokens first."""
        for name in wanting:
            if name not in self._wanted:
                self._tag[name] = max(self._tag[name], self._served_tag)
        self._wanted = set(wanting)
        return sorted(wanting, key=self.turn)

    def turn(self, name: str, more_ns: float = 0.0) -> tuple[bool, float, str]:
        """Return the place of a tenant in the order of turns, if it had had so much more NPU time."""
        share, balance = max(self.shares[name], LEAST), self.balance_ns[name] - more_ns
        if balance > 0:
            return (False, -balance / share, name)
        return (True, self._tag[name] + more_ns / share, name)

    def refill(self, now_ns: int) -> None:
        """Add each tenant's share of the time since the last refill; what its burst cannot hold is lost."""
        elapsed, self._at_ns = now_ns - self._at_ns, now_ns
        if elapsed <= 0:
            return
        for name, share in self.shares.items():
            tokens, room = share * elapsed, self.burst_ns[name] - self.balance_ns[name]
            added = min(tokens, max(room, 0.0))
            self.balance_ns[name] += added
            self.refilled_ns[name] += tokens
            self.overflown_ns[name] += tokens - added

    def pay(self, samples: Mapping[str, int], run_ns: int, *, lent: bool = False) -> None:
        """Charge a run to the tenants in its batch, by their samples; a lent one costs no tokens.

        The first tenant is the one whose turn it was.
        """
        sample_ns = run_ns / sum(samples.values())
        self._served_tag = max(self._served_tag, self._tag[next(iter(samples))])
        for name, count in samples.items():
            self._tag[name] += sample_ns * count / max(self.shares[name], LEAST)
            if lent:
                self.lent_ns[name] += sample_ns * count
            else:
                self.paid_ns[name] += sample_ns * count
                self.balance_ns[name] -= sample_ns * count

    def ready_ns(self, name: str) -> float:
        """Return the time from now until the tenant has tokens again: infinite without a share."""
        if self.balance_ns[name] > 0:
            return 0.0
        share = self.shares[name]
        return (-self.balance_ns[name] + 1) / share if share > 0 else float("inf")

    def set_tenancy(self, tenancy: Tenancy) -> None:
        """Take changed shares and bursts; a balance above a smaller burst is cut."""
        for tenant in tenancy.all:
            self.shares[tenant.name], self.burst_ns[tenant.name] = tenant.share, float(tenant.burst_ns)
            self.balance_ns.setdefault(tenant.name, float(tenant.burst_ns))
            self._tag.setdefault(tenant.name, self._served_tag)
            for column in (self.refilled_ns, self.overflown_ns, self.paid_ns, self.lent_ns):
                column.setdefault(tenant.name, 0.0)
            cut = max(0.0, self.balance_ns[tenant.name] - tenant.burst_ns)
            self.balance_ns[tenant.name] -= cut
            self.overflown_ns[tenant.name] += cut
