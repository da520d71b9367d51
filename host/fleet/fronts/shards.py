"""A fleet in shards: Ray actors that each run the front of some boards, and a front over them all.

An actor is placed by the custom resource `npu_boards`, and is restarted by Ray when it or its node dies. It
serves the protocol at a port of its own, so an image never enters Ray's object store: the front above it is
the same dispatcher, whose boards are the shards.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import BoardError, DriverUsageError, HostError
from ...oip.admission.limits import Limits
from ...oip.running import NetworkServer, ServeOptions, in_background
from ..boards.leaf import Leaf, Times
from ..boards.link import BoardLink
from ..dispatcher import Dispatcher
from ..duties import Duty
from ..roster import Roster, Seat
from .front import FleetFront, FleetOptions

_log = logging.getLogger("fluidnpu.fleet")
RESOURCE = "npu_boards"
LOOK_S = 0.5  # between questions for an actor's address, which changes when Ray has restarted it
TRIES = 3  # of a start of Ray, which gives its own processes 30 s, too few on a busy machine
START_S = 180.0  # of Ray and of every shard
STORE_BYTES = 80_000_000  # of Ray's object store, which it will not do without


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """The circumstances of shards: `boards` in one at most, and the address of a Ray cluster.

    `address`: empty for one of this machine alone; every node must see fleet file and bundles at the same
    paths. Raises DriverUsageError.
    """

    boards: int = 32
    address: str = ""

    def __post_init__(self) -> None:
        if self.boards < 1:
            raise DriverUsageError(f"a shard must have at least one board, not {self.boards}")


class Shard:
    """One actor: the front of its boards behind a server on this node. It starts when it is asked for its
    place.
    """

    def __init__(self, fleet: Path, plan: Path | None, names: Sequence[str], options: FleetOptions, here: str) -> None:
        self._fleet, self._plan, self._names, self._options, self._here = fleet, plan, names, options, here
        self._stack = contextlib.ExitStack()
        self._server: NetworkServer | None = None

    def place(self) -> dict[str, Any]:
        """Return the address of the server, its process and its node. Raises as `FleetFront.start`."""
        import ray

        if self._server is None:
            roster = Roster.read(self._fleet, self._plan).only(self._names)
            host = self._here or ray.util.get_node_ip_address()  # a host's own name is 127.0.1.1 on Debian
            surfaces = ServeOptions(
                host=host, http=None, grpc=0, limits=Limits(queue=self._options.dispatch.queue, batch=4096)
            )
            self._server = self._stack.enter_context(
                in_background(lambda limits, version: FleetFront(roster, self._options, limits, version), surfaces)
            )
        node = ray.get_runtime_context().get_node_id()
        return {"address": self._server.url("grpc"), "pid": os.getpid(), "node": node}

    def close(self) -> None:
        """Answer what was taken and end the boards that were started here."""
        self._stack.close()


class ShardedFront(FleetFront):
    """A front whose boards are shards. `file` and `plan`: what the roster was read from."""

    def __init__(
        self,
        roster: Roster,
        options: FleetOptions,
        limits: Limits,
        version: str,
        *,
        file: Path,
        plan: Path | None = None,
        shards: ShardOptions | None = None,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise DriverUsageError("the engine 'ray' needs Ray, which is not installed: pip install 'fluidnpu[ray]'")
        above = replace(options.dispatch, patience=2 * options.dispatch.patience, audit_every=0)  # shards do both
        super().__init__(roster, replace(options, dispatch=above), limits, version)
        self._below, self._file, self._plan = options, file.resolve(), None if plan is None else plan.resolve()
        self._shards = shards or ShardOptions()
        self.seats = cut(roster.seats, self._shards.boards)
        self.pids: dict[str, int] = {}
        self.nodes: dict[str, str] = {}  # Ray's number of the node that a shard is on
        self._actors: dict[str, Any] = {}
        self._keepers: list[asyncio.Task[None]] = []

    async def _open(self) -> list[Leaf]:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._begin)
        _signals_again()
        try:
            places = await asyncio.wait_for(
                asyncio.gather(*(actor.place.remote() for actor in self._actors.values())), START_S
            )
        except asyncio.TimeoutError:
            raise BoardError(f"every shard must be placed by Ray in {START_S:g} s, and one was not") from None
        except Exception as error:
            raise _cause(error) from None
        leaves = []
        for (name, seats), place in zip(self.seats.items(), places, strict=True):
            self.pids[name], self.nodes[name] = place["pid"], place["node"]
            link = BoardLink(place["address"])
            duties, times = self._duties(seats), self._times(seats)
            leaves.append(Leaf(name=name, address=place["address"], link=link, times=times, duties=duties, shard=True))
        self._keepers = [loop.create_task(self._keep(leaf)) for leaf in leaves]
        return leaves

    def _make_dispatcher(self, leaves: Sequence[Leaf]) -> Dispatcher:
        return Dispatcher(leaves, {}, self.options.dispatch)

    def _begin(self) -> None:
        """Start Ray, or join the cluster, and ask it for an actor a shard. Raises BoardError."""
        import ray

        for left in reversed(range(TRIES)):
            try:
                self._join(ray)
                break
            except Exception as error:  # Ray has many, and each means that there is no cluster
                ray.shutdown()
                if not left or self._shards.address:
                    line = _line(error)
                    raise BoardError(f"a Ray cluster must start or be reached, and it does not: {line}") from None
                _log.warning("Ray did not start and is started again: %s", _line(error))
        kind = ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)(Shard)
        here = "" if self._shards.address else "127.0.0.1"
        for name, seats in self.seats.items():
            placed = kind.options(resources={RESOURCE: len(seats)})
            names = [seat.name for seat in seats]
            self._actors[name] = placed.remote(self._file, self._plan, names, self._below, here)

    def _join(self, ray: Any) -> None:
        if self._shards.address:
            ray.init(address=self._shards.address, log_to_driver=False, logging_level=logging.ERROR)
            return
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=STORE_BYTES,
            resources={RESOURCE: len(self.roster.seats)},
        )

    async def _keep(self, leaf: Leaf) -> None:
        """Follow a shard to wherever Ray has restarted it."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                place = await self._actors[leaf.name].place.remote()
            except Exception as error:  # it is being restarted, or its boards do not answer yet
                _log.warning("shard '%s' has no place: %s", leaf.name, _line(error), extra={"board": leaf.name})
                continue
            if place["address"] != leaf.address:
                before, leaf.link, leaf.address = leaf.link, BoardLink(place["address"]), place["address"]
                self.pids[leaf.name], self.nodes[leaf.name] = place["pid"], place["node"]
                facts = {"board": leaf.name, "node": place["node"]}
                _log.warning("shard '%s' is at %s now", leaf.name, leaf.address, extra=facts)
                await before.close()  # what still waits there ends, and is asked elsewhere

    async def close(self) -> None:
        """End dispatcher and shards, and Ray where it was started here."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await super().close()
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self) -> None:
        import ray

        if not ray.is_initialized():
            return
        with contextlib.suppress(Exception):  # a shard that has died needs no end
            ray.get([actor.close.remote() for actor in self._actors.values()], timeout=60)
        ray.shutdown()

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws; a row a shard."""
        numbers = super().snapshot()
        for board in numbers["boards"]:
            board["pid"], board["node"] = self.pids.get(board["name"]), self.nodes.get(board["name"])
        return numbers

    def _times(self, seats: Sequence[Seat]) -> dict[str, Times]:
        times = [self.roster.times(seat) for seat in seats]
        models = dict.fromkeys(model for of_seat in times for model in of_seat)
        return {model: Times.of_many([of_seat[model] for of_seat in times if model in of_seat]) for model in models}

    def _duties(self, seats: Sequence[Seat]) -> dict[str, Duty]:
        """Add up what the boards of a shard have to do."""
        duties: dict[str, Duty] = {}
        for seat in seats:
            for model, duty in seat.duties.items():
                before = duties.get(model, Duty(batch=0, weight=0.0))
                duties[model] = Duty(
                    batch=before.batch + duty.batch,
                    weight=before.weight + duty.weight / len(seats),
                    rate_per_s=before.rate_per_s + duty.rate_per_s,
                    criteria=duty.criteria,
                )
        return duties


def cut(seats: Sequence[Seat], most: int) -> dict[str, tuple[Seat, ...]]:
    """Cut boards into shards of at most `most`, as even as can be, in order; names are `shard-0`,
    `shard-1`, ...
    """
    count = -(-len(seats) // most)
    ends = [len(seats) * place // count for place in range(count + 1)]
    return {f"shard-{place}": tuple(seats[ends[place] : ends[place + 1]]) for place in range(count)}


def _signals_again() -> None:
    """Take SIGTERM and SIGINT back from Ray, whose handlers end the process without draining."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)
            signal.siginterrupt(number, False)


def _cause(error: BaseException) -> HostError | ValueError:
    """Return the error of ours inside one of Ray's, or a BoardError that says it."""
    inner = getattr(error, "cause", None)
    if isinstance(inner, HostError | ValueError):
        return inner
    return BoardError(f"a shard must start, and it does not: {_line(error)}")


def _line(error: BaseException) -> str:
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
