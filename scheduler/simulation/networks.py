"""Networks side by side on one NPU: the stages of each in one latency table, and the slots that are its own.

Stages are numbered consecutively: those of the first network, then those of the next. A request waits first
at the first stage of its network and leaves at the last one at the latest; its tenant says which network it
is for.

>>> two = Networks(stages=(2, 3), slots=(4, 4), of_tenant={"doors": 0, "cameras": 1})
>>> two.first, two.last, two.entry(Request(0, 0, 9, tenant="cameras"))
((0, 2), (1, 4), 2)
>>> Networks.alone(stages=3, slots=8).entry(Request(0, 0, 9))
0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError, SchedulerError
from ..policy import Request


@dataclass(frozen=True, kw_only=True)
class Networks:
    """The stages and slots of each network, and by tenant the network that its requests are for.

    Alone on an NPU, a network has the requests of all tenants. Raises SchedulerError.
    """

    stages: tuple[int, ...]
    slots: tuple[int, ...]
    of_tenant: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stages or len(self.stages) != len(self.slots) or min(*self.stages, *self.slots) < 1:
            raise SchedulerError(
                f"each network must have a stage and a slot at least, not {self.stages} stages in {self.slots} slots"
            )
        if any(not 0 <= network < len(self.stages) for network in self.of_tenant.values()):
            raise SchedulerError(f"a tenant's network must be one of 0..{len(self.stages) - 1}")

    @classmethod
    def alone(cls, *, stages: int, slots: int) -> Networks:
        """Return the only network of an NPU."""
        return cls(stages=(stages,), slots=(slots,))

    def __len__(self) -> int:
        """Return the number of networks."""
        return len(self.stages)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The first stage of each network."""
        return tuple(accumulate(self.stages[:-1], initial=0))

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The last stage of each network."""
        return tuple(first + count - 1 for first, count in zip(self.first, self.stages, strict=True))

    @cached_property
    def of_stage(self) -> tuple[int, ...]:
        """The network of each stage."""
        return tuple(index for index, count in enumerate(self.stages) for _ in range(count))

    def span(self, network: int) -> slice:
        """Return the stages of a network."""
        return slice(self.first[network], self.last[network] + 1)

    def of(self, request: Request) -> int:
        """Return the network that a request is for. Raises PolicyError where its tenant has none."""
        if len(self.stages) == 1:
            return 0
        if request.tenant not in self.of_tenant:
            raise PolicyError(f"request {request.id} is of tenant '{request.tenant}', which has no network")
        return self.of_tenant[request.tenant]

    def entry(self, request: Request) -> int:
        """Return the stage at which a request first waits."""
        return self.first[self.of(request)]

    def tables(self, latency: LatencyTable) -> tuple[LatencyTable, ...]:
        """Return the latency table of each network."""
        if len(self) == 1:
            return (latency,)
        return tuple(LatencyTable(ns=latency.ns[self.span(index)]) for index in range(len(self)))

    def parts(self, column: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """Return the values of each network of a column by stage."""
        return tuple(tuple(column[self.span(index)]) for index in range(len(self)))
