"""The criteria of one network while it is served: the usual one, those of tenants, those of single requests.

A request's own criterion comes first, then its tenant's, then the usual one. Any may be changed at any time,
from any thread; a change holds from the next exit on, also for requests that are under way.

>>> from fluidnpu.dse import LatencyTable
>>> profile = ExitProfile(latency=LatencyTable(ns=((100, 150), (80, 120))))
>>> criteria = Criteria(profile, parse_criterion("false"))
>>> criteria.set(parse_criterion("confidence > 0.7"), tenant="doors")
>>> two = [Request(0, 0, 900, tenant="doors"), Request(1, 0, 900)]
>>> criteria.leaving(two, (0, 0), exit=0, now_ns=100, confidences=(0.9, 0.9))
['confidence > 0.7', '']
>>> criteria.leaving(two, (0, 0), exit=1, now_ns=180, confidences=(0.9, 0.9))
['last exit', 'last exit']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..errors import SchedulerError
from ..policy import Request
from ..simulation.active import ExitSet
from ..simulation.schedule import LAST as LAST
from .criterion import Criterion
from .evaluation import AtExit, Bound
from .parsing import parse_criterion
from .profile import ExitProfile

Key = TypeVar("Key")
MOST_KEPT = 256  # bound criteria that are remembered, so that a request that repeats one costs nothing


class Criteria:
    """The criteria in force on one network. Raises CriterionError for one that does not fit it."""

    def __init__(self, profile: ExitProfile, usual: Criterion | str) -> None:
        self.profile = profile
        self._kept: dict[Criterion, Bound] = {}
        self._usual = self.bound(usual)
        self._tenants: dict[str, Bound] = {}
        self._requests: dict[int, Bound] = {}

    @property
    def usual(self) -> Criterion:
        """The criterion of a request that has none of its own, and whose tenant has none."""
        return self._usual.criterion

    @property
    def tenants(self) -> Mapping[str, Criterion]:
        """The criteria of tenants that have one."""
        return {name: bound.criterion for name, bound in list(self._tenants.items())}

    def bound(self, criterion: Criterion | str) -> Bound:
        """Return a criterion over this network's exits."""
        if isinstance(criterion, str):
            criterion = parse_criterion(criterion)
        bound = self._kept.get(criterion)
        if bound is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            bound = self._kept[criterion] = Bound(criterion, self.profile)
        return bound

    def set(self, criterion: Criterion | str | None, *, tenant: str | None = None, request: int | None = None) -> None:
        """Put a criterion in force for a tenant, for a request, or as the usual one; None takes it back.

        Raises SchedulerError without a usual one.
        """
        bound = None if criterion is None else self.bound(criterion)
        if tenant is None and request is None:
            if bound is None:
                raise SchedulerError("there must always be a usual criterion; 'false' lets nobody leave early")
            self._usual = bound
            return
        if tenant is not None:
            _put(self._tenants, tenant, bound)
        if request is not None:
            _put(self._requests, request, bound)

    def obey(self, exits: ExitSet) -> None:
        """Make the thresholds of a set of exits the usual criterion; nobody leaves at an inactive one."""
        self.set(Criterion.of_thresholds([1.0 if value is None else value for value in exits.thresholds]))

    def forget(self, request: int) -> None:
        """Drop the criterion of a request that has ended."""
        self._requests.pop(request, None)

    def of(self, request: Request) -> Bound:
        """Return the criterion in force for a request."""
        own = self._requests.get(request.id)
        return own if own is not None else self._tenants.get(request.tenant, self._usual)

    def is_usual(self, request: Request) -> bool:
        """Return whether the usual criterion decides for a request: neither it nor its tenant has another."""
        return self.of(request) is self._usual

    def leaving(
        self,
        requests: Sequence[Request],
        started_ns: Sequence[int],
        exit: int,
        now_ns: int,
        confidences: Sequence[float] | None = None,
    ) -> list[str]:
        """Return for each sample the clause that lets it leave at an exit (from 0), or an empty text.

        `started_ns`: the beginnings of the samples' first runs. All leave at the last exit.
        """
        if exit == self.profile.exits - 1:
            return [LAST] * len(requests)
        columns = AtExit(requests, started_ns, now_ns, self.profile.next_ns[exit], confidences)
        if not self._requests and not self._tenants:
            return self._usual.leaving(exit, columns)
        groups: dict[int, list[int]] = {}
        chosen = [self.of(request) for request in requests]
        for index, bound in enumerate(chosen):
            groups.setdefault(id(bound), []).append(index)
        if len(groups) == 1:
            return chosen[0].leaving(exit, columns)
        reasons = [""] * len(requests)
        for indices in groups.values():
            for index, text in zip(indices, chosen[indices[0]].leaving(exit, columns.of(indices)), strict=True):
                reasons[index] = text
        return reasons


def _put(kept: dict[Key, Bound], key: Key, bound: Bound | None) -> None:
    if bound is None:
        kept.pop(key, None)
    else:
        kept[key] = bound
