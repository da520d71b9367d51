r"""The rate with which each tenant asks, as seen in the queue: counted by the interval and smoothed.

>>> from .tenant import parse_tenants
>>> demand = Demand(parse_tenants("interval = '1s'\n[tenant.a]\nshare = 1"))
>>> demand.read(0, [Request(i, 0, 9, tenant="a") for i in range(3)]), demand.rate_per_s("a")
(False, None)
>>> demand.read(10**9, [Request(3, 10**9, 10**10, tenant="a")]), demand.rate_per_s("a")
(True, 4.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..policy import Request
from .tenant import Tenancy, Tenant

SMOOTHING = 0.5  # of the last interval in the estimate; a doubled rate is known to an eighth after three


class Demand:
    """Counts arrivals by tenant; a tenant's rate is that expected until the first interval has ended."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._interval_ns = tenancy.interval_ns
        self._rates: dict[str, float] = {
            tenant.name: tenant.rate_per_s for tenant in tenancy.all if tenant.rate_per_s is not None
        }
        self._names = [tenant.name for tenant in tenancy.all]
        self._counts: Counter[str] = Counter()
        self._since_ns = 0

    def tell(self, tenants: Iterable[Tenant]) -> None:
        """Take rates that are told while tenants are served, as at the beginning."""
        self._rates |= {tenant.name: tenant.rate_per_s for tenant in tenants if tenant.rate_per_s is not None}

    def rate_per_s(self, name: str) -> float | None:
        """Return the smoothed rate; None before the first interval of a tenant whose rate was not told."""
        return self._rates.get(name)

    def read(self, now_ns: int, new: Sequence[Request]) -> bool:
        """Count requests that have come; return whether an interval has ended."""
        for request in new:
            self._counts[request.tenant] += 1
        elapsed = now_ns - self._since_ns
        if elapsed < self._interval_ns:
            return False
        for name in self._names:
            seen = self._counts[name] * 1e9 / elapsed
            before = self._rates.get(name)
            self._rates[name] = seen if before is None else SMOOTHING * seen + (1 - SMOOTHING) * before
        self._counts.clear()
        self._since_ns = now_ns
        return True
