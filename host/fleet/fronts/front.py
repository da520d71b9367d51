"""The fleet as one server: the Open Inference Protocol in front, a dispatcher and its boards behind."""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...bundle import Bundle
from ...errors import BundleError, HostError, TooLargeError, UnknownModelError
from ...oip.admission.limits import Limits, bounds_of
from ...oip.edges.openapi import document
from ...oip.interface import input_of, model_metadata, server_metadata, with_best
from ...oip.observing.metric_table import Row
from ...oip.operations import operations_of
from ...oip.repeats import Repeats
from ...oip.wire.bodies import ExitsChange, LoadOrder
from ...oip.wire.calls import Bounds, Call, ModelAnswer, Wishes, read_wishes
from ...serving.models import VERSION
from ...serving.tails import check_joinable
from ..boards.admin import AdminLink
from ..boards.board import BoardOptions, shared_by
from ..boards.editions import Editions
from ..boards.editions import expected_of as expected_of  # for those who make boards
from ..boards.leaf import Leaf
from ..boards.link import BoardLink
from ..boards.processes import Process
from ..dispatcher import Dispatcher, DispatchOptions
from ..reference import Reference
from ..roster import Roster, Seat
from .counts import ModelCounts
from .metrics import fleet_rows
from .page import live_page, snapshot
from .steering import Steering

_log = logging.getLogger("fluidnpu.fleet")


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """The circumstances of a fleet. `boards`: of those started here; `token`: for those that are reached.

    `guard_s`: how long a board that was loaded anew is watched before the next one is.
    """

    dispatch: DispatchOptions = field(default_factory=DispatchOptions)
    boards: BoardOptions = field(default_factory=BoardOptions)
    token: str | None = None
    guard_s: float = 2.0


class FleetFront:
    """A `Front` whose answers come from boards. It starts and ends the boards that have no address."""

    def __init__(self, roster: Roster, options: FleetOptions, limits: Limits, version: str) -> None:
        self.roster, self.options, self.limits, self.version = roster, options, limits, version
        self.draining = False
        names = (*roster.models, *roster.ensembles)
        self.counts = {model: ModelCounts() for model in names}
        self.repeats = {model: Repeats() for model in names}
        self.processes: dict[str, Process] = {}
        self._dispatcher: Dispatcher | None = None
        self._parts: tempfile.TemporaryDirectory[str] | None = None  # bundles that a plan cut, for boards started here
        self._instance = secrets.token_hex(8)
        self._editions = Editions()
        self._steering: Steering | None = None

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher, from `start` on."""
        assert self._dispatcher is not None
        return self._dispatcher

    @property
    def steering(self) -> Steering:
        """The acts on boards, from `start` on."""
        assert self._steering is not None
        return self._steering

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the boards that have no address, reach all others, and refuse what does not fit.

        Raises BoardError for a board that cannot be started or reached, or is not the one of its bundle.
        """
        leaves = await self._open()
        self._dispatcher = self._make_dispatcher(leaves)
        self._dispatcher.follow = self._adopt
        self._steering = Steering(self._dispatcher, self._seat, self._editions, self.options.guard_s)
        await self._dispatcher.start()
        for model, counts in self.counts.items():
            relay = self.roster.relays.get(model)
            counts.slo_ns = (
                self._dispatcher.objective_ns(self._networks(model), Wishes())
                if relay is None
                else relay.slo_ns(self._dispatcher)
            )

    async def _open(self) -> list[Leaf]:
        """Start or reach what answers for this front, and return it. Raises BoardError."""
        loop = asyncio.get_running_loop()
        for seat in self.roster.seats:
            if not seat.address:
                self.processes[seat.name] = Process(seat.name, self._folders(seat), self._board_options(seat))
        started = [loop.run_in_executor(None, process.start) for process in self.processes.values()]
        for result in await asyncio.gather(*started, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        return [self._leaf(seat, self.roster) for seat in self.roster.seats]

    def _board_options(self, seat: Seat) -> BoardOptions:
        """Return the circumstances of a board that is started here."""
        b_max = max(bundle.design.b_max for bundle in seat.bundles.values())
        options = replace(self.options.boards.by_plan(seat.duties, b_max), processor=seat.worker)
        log = options.decisions
        return options if log is None else replace(options, decisions=log / seat.name)

    def _leaf(self, seat: Seat, roster: Roster) -> Leaf:
        """Return a board as the dispatcher sees it, from when it can be reached."""
        address = seat.address or self.processes[seat.name].address
        link = BoardLink(address, seat.token or self.options.token, seat.ca) if seat.address else BoardLink(address)
        place = seat.admin or ("" if seat.address else self.processes[seat.name].admin)
        admin = AdminLink(place, link.token, seat.ca) if place else None
        times = roster.times(seat)
        return Leaf(name=seat.name, address=address, link=link, times=times, duties=seat.duties, admin=admin)

    def _folders(self, seat: Seat) -> dict[str, Path]:
        """Return the folders of a board that is started here; of parts they are written now."""
        folders = dict(seat.folders)
        for model in seat.bundles.keys() - seat.folders.keys():
            if self._parts is None:
                self._parts = tempfile.TemporaryDirectory(prefix="fluidnpu-parts-")
            bundle = seat.bundles[model]
            folders[model] = Path(self._parts.name) / f"{model}-{bundle.program.digest[:16]}"
            if not folders[model].is_dir():
                bundle.write(folders[model])
        return folders

    def _make_dispatcher(self, leaves: Sequence[Leaf]) -> Dispatcher:
        """Return the dispatcher, which knows by what facts to tell the boards."""
        references = {model: Reference(next(iter(bundles.values()))) for model, bundles in self.roster.bundles.items()}
        dispatcher = Dispatcher(leaves, references, self.options.dispatch)
        dispatcher.expected = {
            seat.name: {model: expected_of(bundle) for model, bundle in seat.bundles.items()}
            for seat in self.roster.seats
        }
        return dispatcher

    def _seat(self, name: str) -> Seat:
        return next(seat for seat in self.roster.seats if seat.name == name)

    async def _adopt(self, leaf: Leaf, model: str, facts: Mapping[str, str]) -> bool:
        """Take what a board shows where the folder of its bundle holds the same, and tell if it does."""
        if leaf.left:
            return False
        seat = self._seat(leaf.name)
        try:
            edition = await self._editions.shown(seat, model, facts)
        except (BundleError, OSError) as error:
            _log.warning("what board '%s' has loaded cannot be followed: %s", leaf.name, error)
            return False
        if edition is None:
            return False
        times = self.roster.times(replace(seat, bundles={model: edition.bundle}))[model]
        self.dispatcher.adopt(leaf, model, times, edition.reference, dict(edition.facts))
        return True

    async def close(self) -> None:
        """End the dispatcher, then the boards that were started here."""
        if self._dispatcher is not None:
            await self._dispatcher.close()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, process.close) for process in self.processes.values()))
        if self._parts is not None:
            self._parts.cleanup()

    # -- health and metadata ---------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Always true: boards come and go without this process."""
        return True

    @property
    def ready(self) -> bool:
        """True while a board can serve a model: a balancer takes a front out that is not.

        All fronts of the same boards see the same, so one model without a board must not make all of them
        unready for the others; `is_ready` tells of a model.
        """
        return not self.draining and any(map(self._has_boards, self.roster.models))

    def check(self, name: str, version: str = "") -> None:
        """Raise UnknownModelError for a model that no board of the fleet file has."""
        if name not in self.counts:
            raise UnknownModelError(
                f"a model of this fleet must be one of {', '.join(self.counts)}, not '{name[:100]}'"
            )
        if version not in ("", VERSION):
            raise UnknownModelError(f"model '{name}' has version {VERSION} only, not '{version[:100]}'")

    def bounds(self, name: str = "") -> Bounds:
        """Return the bounds of a request to a model, or of the largest that any takes."""
        return self._largest if not name else self._bounds((name,))

    @cached_property
    def _largest(self) -> Bounds:
        return self._bounds(self.counts)

    def _bounds(self, names: Iterable[str]) -> Bounds:
        networks = [
            network
            for name in names
            for network in (self._networks(name) if name in self.roster.ensembles else (name,))
        ]
        return bounds_of(self.limits, *(input_of(self.bundle(network).program) for network in networks))

    def is_ready(self, name: str, version: str = "") -> bool:
        """Tell if a model has a board. Raises UnknownModelError."""
        self.check(name, version)
        return not self.draining and self._has_boards(name)

    def _has_boards(self, name: str) -> bool:
        """Tell if all that a model needs has a board: of a network in parts, all of one way."""
        if name in self.roster.relays:
            return bool(self.roster.relays[name].open_ways(self.dispatcher.has_board))
        return all(map(self.dispatcher.has_board, self._networks(name)))

    def _networks(self, name: str) -> tuple[str, ...]:
        """Return the networks of an ensemble, the parts of a network, or the model itself."""
        if name in self.roster.ensembles:
            return self.roster.ensembles[name].rule.networks
        return self.roster.relays[name].models if name in self.roster.relays else (name,)

    def _boards(self, model: str) -> list[Leaf]:
        return [leaf for leaf in self.dispatcher.boards_of(model) if leaf.ready]

    def _serving(self, name: str) -> list[Leaf]:
        """Return the boards of a model, or of an ensemble's networks, in any state."""
        leaves = {leaf.name: leaf for network in self._networks(name) for leaf in self.dispatcher.boards_of(network)}
        return list(leaves.values())

    def identity(self, name: str) -> dict[str, str]:
        """Return the number of this process: a front is no board."""
        return {"instance": self._instance}

    def server_metadata(self) -> dict[str, Any]:
        """Return the server's metadata."""
        return server_metadata(self.version, self.limits)

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata. Raises UnknownModelError."""
        self.check(name, version)
        if name in self.roster.ensembles:
            return self.roster.ensembles[name].metadata()
        return model_metadata(name, [VERSION], self.bundle(name).program)

    def bundle(self, model: str) -> Bundle:
        """Return one of the bundles of a model, of all of its network."""
        if model in self.roster.relays:
            return self.roster.relays[model].bundle
        return next(iter(self.roster.bundles[model].values()))

    # -- inference -------------------------------------------------------------------------------------------

    async def infer(self, call: Call) -> ModelAnswer:
        """Answer a call from the boards; a repeat with a key of its own gets the first answer.

        Raises as `Dispatcher.infer`, ProtocolError and TooLargeError.
        """
        self.check(call.model, call.version)
        if call.model not in self.roster.ensembles:
            check_joinable(
                self.bundle(call.model).program,
                max((input_.shape[0] for input_ in call.inputs.values() if input_.ndim), default=0),
            )
        wishes = read_wishes(call.parameters)
        if wishes.key is None:
            answer = await self._serve(call, wishes)
        else:
            repeats = self.repeats[call.model]
            answer = await repeats.once(wishes.key, call, lambda: self._serve(call, wishes), wishes.tenant)
        return answer if call.best is None else with_best(answer, call, self.bundle(call.model).program)

    async def _serve(self, call: Call, wishes: Wishes) -> ModelAnswer:
        counts, began = self.counts[call.model], time.perf_counter_ns()
        count = max((array.shape[0] for array in call.inputs.values() if array.ndim), default=0)
        if count > self.limits.batch:
            raise TooLargeError(f"a request must hold at most {self.limits.batch} samples, not {count}")
        several = self.roster.ensembles.get(call.model) or self.roster.relays.get(call.model)
        try:
            if several is None:
                answer = await self.dispatcher.infer(call, wishes)
            else:
                answer = await several.infer(self.dispatcher, call, wishes)
        except HostError as error:
            counts.errors[type(error).__name__] += 1
            raise
        counts.count_answer(count, time.perf_counter_ns() - began, met=bool(answer.parameters["met"]))
        return answer

    def count_refusal(self, name: str, error: Exception) -> None:
        """Count a request to a model that could not be read, by its error."""
        if name in self.counts:
            self.counts[name].errors[type(error).__name__] += 1

    # -- statistics and repository ---------------------------------------------------------------------------

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics extension's object; boards have the details. Raises UnknownModelError."""
        if name:
            self.check(name, version)
        return {"model_stats": [self._statistics(model) for model in ([name] if name else self.counts)]}

    def _statistics(self, model: str) -> dict[str, Any]:
        counts, none = self.counts[model], {"count": 0, "ns": 0}
        unknown = ("queue", "compute_input", "compute_infer", "compute_output", "cache_miss")
        return {
            "name": model,
            "version": VERSION,
            "last_inference": counts.last_ms,
            "inference_count": counts.samples,
            "execution_count": sum(leaf.counts["answers"] for leaf in self._serving(model)),
            "inference_stats": {
                "success": {"count": counts.requests, "ns": counts.latency.sum_ns},
                "fail": {"count": sum(counts.errors.values()), "ns": 0},
                **dict.fromkeys(unknown, none),
                "cache_hit": {"count": self.repeats[model].hits, "ns": 0},
            },
            "batch_stats": [],
        }

    def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return name, version, state and reason of every model."""
        rows = []
        for model in self.counts:
            ready = self.is_ready(model)
            away = [leaf for leaf in self._serving(model) if not leaf.ready]
            reason = "; ".join(f"{leaf.name} {leaf.state.value}" for leaf in away)
            if ready or not ready_only:
                state = "READY" if ready else "UNAVAILABLE"
                rows.append({"name": model, "version": VERSION, "state": state, "reason": reason})
        return rows

    async def exits(self, name: str) -> dict[str, Any]:
        """Return the active exits of a model on its boards. Raises as `Steering.exits`."""
        self.check(name)
        return await self.steering.exits(name)

    async def change_exits(self, name: str, change: ExitsChange) -> dict[str, Any]:
        """Change the active exits of a model on all its boards, or on one. Raises as `Steering`."""
        self.check(name)
        return await self.steering.change_exits(name, change)

    async def load(self, name: str, order: LoadOrder) -> None:
        """Load a model anew on its boards, one at a time; where one fails none changes.

        Raises as `Steering.roll`.
        """
        self.check(name)
        await self.steering.roll(name, None if order.guard_ms is None else order.guard_ms / 1e3)

    async def act(self, board: str, act: str) -> dict[str, Any]:
        """Drain, restore or reload a board. Raises as `Steering.act`."""
        return await self.steering.act(board, act)

    # -- pages -----------------------------------------------------------------------------------------------

    def metrics(self) -> Iterator[Row]:
        """Yield the rows of the table of metrics."""
        return fleet_rows(self.dispatcher, self.counts)

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws."""
        pids = {name: process.pid for name, process in self.processes.items()}
        return snapshot(self.roster.name, self.version, self.dispatcher, self.counts, pids)

    def page(self) -> str:
        """Return the live page."""
        return live_page()

    def openapi(self, *, admin: bool) -> dict[str, Any]:
        """Return the document of the REST surface."""
        programs = {
            model: None if model in self.roster.ensembles else self.bundle(model).program for model in self.counts
        }
        file = self.options.boards.tenants
        named = [] if file is None else [tenant.name for tenant in shared_by(file).tenants]
        operations = tuple(operations_of(self, admin=admin))
        boards = [leaf.name for leaf in self.dispatcher.leaves]
        return document(self.version, programs, operations, tenants=["", *named], boards=boards)

    @property
    def capacity_per_s(self) -> dict[str, float]:
        """Predicted samples a second by model, of the boards that are ready: at their planned shares, or
        else alone.

        That of an ensemble is its scarcest network's.
        """
        boards = {
            model: sum(leaf.capacity_per_s(model) for leaf in self._boards(model)) for model in self.roster.bundles
        }
        capacity = {
            model: self.roster.relays[model].capacity_per_s(boards) if model in self.roster.relays else boards[model]
            for model in self.roster.models
        }
        for name in self.roster.ensembles:
            capacity[name] = min(capacity[network] for network in self._networks(name))
        return capacity


def open_fleet(roster: Roster, options: FleetOptions | None = None) -> Any:
    """Return the function that `NetworkServer` makes its front with."""

    def open_front(limits: Limits, version: str) -> FleetFront:
        return FleetFront(roster, options or FleetOptions(), limits, version)

    return open_front
