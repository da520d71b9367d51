"""Boards that are found while a fleet is served: by files in a folder, or by the addresses of a name.

The fleet file says where to look. A file `NAME.toml` is a board, with its `address` and perhaps its `admin`
surface; it leaves when the file does. Every address of a name is a board. What cannot be read or resolved
changes nothing: boards leave when they are known to be gone, and not when nobody knows.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fluidnpu.scheduler import SchedulerError, placement

from ...errors import DriverUsageError
from ...oip.admission.limits import Limits
from ...oip.repeats import Repeats
from ..boards.editions import expected_of
from ..boards.leaf import Leaf
from ..reference import Reference
from ..roster import FleetFile, Roster, Seat
from .counts import ModelCounts
from .front import FleetFront, FleetOptions

if sys.version_info >= (3, 11):
    import tomllib
else:  # a board's image may have Python 3.10
    import tomli as tomllib

_log = logging.getLogger("fluidnpu.fleet")
LOOK_S = 1.0  # between two looks
Resolve = Callable[..., Iterable[Any]]  # as `socket.getaddrinfo`


class Discovery:
    """The sources of a fleet file, and what was found there last. It blocks, so a front asks in a thread."""

    def __init__(self, file: FleetFile, resolve: Resolve = socket.getaddrinfo) -> None:
        self.file, self._resolve = file, resolve
        self._known: dict[str, placement.FleetDevice] = {}  # by path of a file
        self._resolved: dict[str, list[placement.FleetDevice]] = {}  # by source
        self._said: dict[str, str] = {}  # the trouble of each place

    def roster(self) -> Roster:
        """Return the boards that there are now. Raises DriverUsageError for none, and SchedulerError."""
        fleet = self.file.fleet
        devices = [device for source in fleet.sources for device in self._of(source)]
        if not devices and not fleet.devices:
            places = ", ".join(source.files or source.dns for source in fleet.sources)
            raise DriverUsageError(f"a fleet must find at least one board to begin with, and there is none at {places}")
        return self.file.roster(fleet=replace(fleet, devices=(*fleet.devices, *devices), sources=()))

    def _of(self, source: placement.DeviceSource) -> list[placement.FleetDevice]:
        return list(self._files(source)) if source.files else self._addresses(source)

    def _files(self, source: placement.DeviceSource) -> Iterator[placement.FleetDevice]:
        """Yield the board of each file; one that cannot be read is as it was."""
        folder = self.file.folder / source.files
        try:
            paths = sorted(folder.glob("*.toml"))
            next(folder.iterdir(), None)  # a folder that cannot be read is no empty one
        except OSError as error:
            self._trouble(str(folder), f"the folder of boards '{folder}' cannot be read: {error}")
            yield from [device for path, device in self._known.items() if Path(path).parent == folder]
            return
        for gone in set(self._known) - set(map(str, paths)):
            if Path(gone).parent == folder:
                del self._known[gone]
        for path in paths:
            try:
                self._known[str(path)] = _board(path, source)
                self._trouble(str(path), "")
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, SchedulerError) as error:
                self._trouble(str(path), f"the file of a board '{path}' cannot be used: {error}")
            if str(path) in self._known:
                yield self._known[str(path)]

    def _addresses(self, source: placement.DeviceSource) -> list[placement.FleetDevice]:
        """Return a board for each address of a name; where it cannot be resolved those of the last time."""
        name, _, port = source.dns.rpartition(":")
        try:
            rows = self._resolve(name, int(port), type=socket.SOCK_STREAM)
            hosts = sorted({str(row[4][0]) for row in rows})
            self._trouble(source.dns, "")
        except OSError as error:
            self._trouble(source.dns, f"the name '{name}' cannot be resolved: {error}")
            return self._resolved.get(source.name, [])
        self._resolved[source.name] = [
            _device(
                source,
                f"{source.name}-{re.sub('[^A-Za-z0-9.]', '-', host)}",
                _join_address(host, int(port)),
                _join_address(host, source.admin_port) if source.admin_port else "",
            )
            for host in hosts
        ]
        return self._resolved[source.name]

    def _trouble(self, place: str, text: str) -> None:
        """Say a trouble once, and again when it is another."""
        if text and self._said.get(place) != text:
            _log.warning("%s", text)
        self._said[place] = text


def _device(source: placement.DeviceSource, name: str, address: str, admin: str) -> placement.FleetDevice:
    return placement.FleetDevice(
        name=name, type=source.type, link=source.link, address=address, admin=admin, **source.access
    )


def _join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _board(path: Path, source: placement.DeviceSource) -> placement.FleetDevice:
    """Read the file of a board. Raises SchedulerError, OSError and what a text and TOML raise."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    if odd := sorted(set(raw) - {"address", "admin"}):
        raise SchedulerError(f"it may have address and admin, not {', '.join(odd)}")
    for key in ("address", *(["admin"] if "admin" in raw else [])):
        if not isinstance(raw.get(key), str) or not placement.is_address(raw[key]):
            raise SchedulerError(f"{key} must be HOST:PORT, not {raw.get(key)!r}")
    return _device(source, path.stem, raw["address"], raw.get("admin", ""))


class DiscoveringFront(FleetFront):
    """A front whose boards come and go as its sources say."""

    def __init__(self, discovery: Discovery, options: FleetOptions, limits: Limits, version: str) -> None:
        super().__init__(discovery.roster(), options, limits, version)
        self._discovery = discovery
        self._looking: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start as every front, then look. Raises as `FleetFront.start`."""
        await super().start()
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """End as every front."""
        tasks = [*([self._looking] if self._looking else []), *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

    async def _look(self) -> None:
        loop, trouble = asyncio.get_running_loop(), ""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                roster = await loop.run_in_executor(None, self._discovery.roster)
                trouble = ""
            except (DriverUsageError, SchedulerError) as error:  # none is left, or two have one address
                if str(error) != trouble:
                    trouble = str(error)
                    _log.warning("boards stay as they are: %s", trouble)
                continue
            self._take(roster)

    def _take(self, roster: Roster) -> None:
        """Let boards join and leave, so that they are those of a roster."""
        before = {_place(seat): seat for seat in self.roster.seats}
        now = {_place(seat): seat for seat in roster.seats}
        leaves = {leaf.name: leaf for leaf in self.dispatcher.leaves}
        self.roster = roster if now.keys() != before.keys() else self.roster
        for place in before.keys() - now.keys():
            task = asyncio.get_running_loop().create_task(self._leave(leaves[before[place].name]))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        for place in now.keys() - before.keys():
            self._join(now[place], roster)

    def _join(self, seat: Seat, roster: Roster) -> None:
        _log.info("board '%s' at %s joins", seat.name, seat.address, extra={"board": seat.name})
        new = {model: bundle for model, bundle in seat.bundles.items() if model not in self.dispatcher.models}
        shown = {model: expected_of(bundle) for model, bundle in seat.bundles.items()}
        self.dispatcher.judge_by({model: Reference(bundle) for model, bundle in new.items()}, {seat.name: shown})
        self.dispatcher.join(self._leaf(seat, roster))
        for model in new:
            self.counts[model], self.repeats[model] = ModelCounts(), Repeats()
            self.counts[model].slo_ns = self.dispatcher.default_slo_ns(model)

    async def _leave(self, leaf: Leaf) -> None:
        _log.info("board '%s' at %s leaves", leaf.name, leaf.address, extra={"board": leaf.name})
        await self.dispatcher.leave(leaf)


def _place(seat: Seat) -> tuple[str, str, str]:
    return seat.name, seat.address, seat.admin
