"""The events of an NPU with several networks, told to an observer of each: its own stages and requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fluidnpu.scheduler import Action, Request, Run, View, Wait
from fluidnpu.scheduler.simulation import InForce, Networks, Terms

from ..driver import JobRecord
from ..errors import DeviceError
from .replies import Fate, Observer, Reply


class Apart(Observer):
    """Tells each network's observer what is its own, with its stages numbered from 0.

    A wait is every network's; a failed attempt is that of the run that was last decided.
    """

    def __init__(self, networks: Networks, observers: Sequence[Observer]) -> None:
        self._networks, self._observers = networks, tuple(observers)
        self._views: tuple[View, ...] = ()
        self._last = 0

    def began(self, view: View) -> None:
        """Show each network its part of the view."""
        side = self._networks
        rows = zip(side.tables(view.latency), side.parts(view.exit_rates), side.slots, strict=True)
        self._views = tuple(
            view.of_network(side.span(index), table, rates, slots) for index, (table, rates, slots) in enumerate(rows)
        )
        for observer, own_view in zip(self._observers, self._views, strict=True):
            observer.began(own_view)

    def admitted(self, request: Request, terms: Terms) -> None:
        """Tell the request's network."""
        self._observers[self._networks.of(request)].admitted(request, terms)

    def withdrawn(self, request: Request) -> None:
        """Tell the request's network."""
        self._observers[self._networks.of(request)].withdrawn(request)

    def decided(self, view: View, action: Action) -> None:
        """Tell the network of the action."""
        for own_view in self._views:
            own_view.now_ns, own_view.closed = view.now_ns, view.closed
        if isinstance(action, Wait):
            for observer, own_view in zip(self._observers, self._views, strict=True):
                observer.decided(own_view, action)
            return
        network = self._last = self._networks.of(action.requests[0])
        own = self._local(action) if isinstance(action, Run) else action
        self._observers[network].decided(self._views[network], own)

    def ran(self, run: Run, start_ns: int, end_ns: int, job: JobRecord) -> None:
        """Tell the network of the run."""
        self._observers[self._networks.of_stage[run.stage]].ran(self._local(run), start_ns, end_ns, job)

    def failed(self, error: DeviceError) -> None:
        """Tell the network of the last run."""
        self._observers[self._last].failed(error)

    def ended(self, fates: Sequence[Fate]) -> None:
        """Tell each network of its own requests."""
        for network, observer in enumerate(self._observers):
            observer.ended([fate for fate in fates if self._networks.of_tenant[fate.tenant] == network])

    def adapted(self, now_ns: int, state: InForce) -> None:
        """Nothing changes: networks side by side have no table of active exits."""

    def answered_early(self, reply: Reply) -> None:
        """Tell the request's network."""
        self._observers[self._networks.of_tenant[reply.tenant]].answered_early(reply)

    def _local(self, run: Run) -> Run:
        network = self._networks.of_stage[run.stage]
        return dataclasses.replace(run, stage=run.stage - self._networks.first[network])
