"""The network of each tenant, and the slots of each network on one NPU."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SchedulerError
from .tenant import Tenancy

MOST_SLOTS = 32  # that an NPU's masks can name


def room_for(b_max: int, tenants: Sequence[int]) -> tuple[int, ...]:
    """Return the slots of each network: its largest batch and one a tenant, or its part of what there is.

    `tenants`: of each network.

    >>> room_for(8, [1, 2]), room_for(16, [1, 1])
    ((9, 10), (16, 16))
    """
    if b_max * len(tenants) + sum(tenants) <= MOST_SLOTS:
        return tuple(b_max + count for count in tenants)
    equal, rest = divmod(MOST_SLOTS, len(tenants))
    return tuple(equal + (index < rest) for index in range(len(tenants)))


def network_of_tenants(tenancy: Tenancy, names: Sequence[str]) -> dict[str, int]:
    """Return the network of each tenant, by its place in `names`. Raises SchedulerError."""
    if len(names) == 1 and not tenancy.networks:
        return {tenant.name: 0 for tenant in tenancy.all}
    slots = {}
    for tenant in tenancy.tenants:
        if tenant.network not in names:
            network = f"'{tenant.network}'" if tenant.network else "none"
            raise SchedulerError(f"tenant '{tenant.name}': network must be one of {', '.join(names)}, not {network}")
        slots[tenant.name] = list(names).index(tenant.network)
    return slots
