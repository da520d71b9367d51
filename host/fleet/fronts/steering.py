"""Boards steered from a front: drained, loaded anew one at a time, their exits changed. State is at boards.

A board that is drained or on trial says so itself to whoever asks, so every front sees it, and any front may
undo it. What a board has loaded is compared with the bundle's own arithmetic before it answers anybody; then
it is watched for a while. Where either fails, all boards that were loaded go back to what they served before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fluidnpu.scheduler.exits import Promise, joined

from ...errors import (
    BoardError,
    BundleError,
    ConflictError,
    HostError,
    ModelUnavailableError,
    ProtocolError,
    UnsupportedError,
)
from ...oip.operations import ACTS
from ...oip.trials import TRIAL
from ...oip.wire.bodies import ExitsChange
from ...oip.wire.calls import Parameter
from ...oip.wire.grpc_body import write_request
from ...oip.wire.tensors import Array
from ..boards.admin import LOAD_S, AdminLink
from ..boards.editions import Edition, Editions
from ..boards.leaf import BoardState, Leaf
from ..dispatcher import Dispatcher
from ..duties import NEVER
from ..roster import Seat

_log = logging.getLogger("fluidnpu.fleet")
PROBES = 8  # random images of a trial
RETURN_S = 30.0  # until a board that was loaded takes requests again
SEEN_S = 2.0  # until every front has seen that a board has returned
_LOOK_S = 0.02
_THERE = (BoardState.READY, BoardState.FOREIGN)


class Steering:
    """Acts on boards through their admin surfaces, one after another. `seat_of`: a board's seat by its name.

    `guard_s`: how long a board that was loaded is watched.
    """

    def __init__(self, dispatcher: Dispatcher, seat_of: Callable[[str], Seat], editions: Editions, guard_s: float):
        self._dispatcher, self._seat_of, self._editions, self.guard_s = dispatcher, seat_of, editions, guard_s
        self._one = asyncio.Lock()

    async def act(self, name: str, act: str) -> dict[str, Any]:
        """Drain a board, or load it anew, which also restores one that was drained.

        Raises UnknownModelError, UnsupportedError without an admin surface, ConflictError for the last board
        of a model, and what the board refuses.
        """
        leaf = self._dispatcher.find(name)
        admin = _admin(leaf)
        async with self._one:
            if act == "drain":
                await self._drain(leaf, admin)
            elif act in ACTS:
                await self._load(leaf, admin, list(leaf.times))
            else:
                raise UnsupportedError(f"an act on a board must be one of {', '.join(ACTS)}, not '{act:.60}'")
        return {"board": name, "state": leaf.state.name, "reason": leaf.reason}

    async def roll(self, model: str, guard_s: float | None = None) -> None:
        """Load a model anew on all its boards, one at a time; none changes where one fails.

        Raises ConflictError where a board is away, and ProtocolError where one fails.
        """
        boards = await self._all(model)
        boards.sort(key=lambda leaf: leaf.ready)  # those with another program first: none else is missed
        async with self._one:
            loaded: list[Leaf] = []
            try:
                await self._editions.newest(self._seat_of(boards[0].name), model)
                for leaf in boards:
                    await self._together(model, leaf)
                    await self._load(leaf, _admin(leaf), [model])
                    loaded.append(leaf)
                    await self._guard(leaf, self.guard_s if guard_s is None else guard_s)
            except (HostError, ValueError) as error:
                left = [leaf.name for leaf in reversed(loaded) if not await self._back(leaf, model)]
                names = ", ".join(f"'{leaf.name}'" for leaf in loaded) or "none was loaded"
                stuck = f"; to be looked after: {', '.join(left)}" if left else ""
                raise ProtocolError(f"'{model}' is served as before ({names}{stuck}), since {error}") from error

    async def exits(self, model: str) -> dict[str, Any]:
        """Return the active exits of all boards that answer. Raises HostErrors, as boards do."""
        leaves = [leaf for leaf in self._steerable(model) if leaf.ready]
        answers = await asyncio.gather(*(_admin(leaf).exits(model) for leaf in leaves))
        return _of_all(leaves, answers)

    async def change_exits(self, model: str, change: ExitsChange) -> dict[str, Any]:
        """Change exits of the board that the change names, or of all of them or none.

        Raises ConflictError where a board is away, and what one refuses.
        """
        leaves = await self._all(model) if change.board is None else [self._dispatcher.find(change.board)]
        done: list[tuple[Leaf, dict[str, Any]]] = []
        async with self._one:
            try:
                answers = []
                for leaf in leaves:
                    before = await _admin(leaf).exits(model)
                    answers.append(await _admin(leaf).change_exits(model, change.thresholds, change.why))
                    done.append((leaf, before))
            except HostError:
                for leaf, before in done:
                    with contextlib.suppress(HostError):
                        old = {row["name"]: row["threshold"] for row in before["exits"]}
                        await _admin(leaf).change_exits(model, old, "another board refused")
                raise
        return _of_all(leaves, answers)

    def _steerable(self, model: str) -> list[Leaf]:
        """Return the boards of a model. Raises UnsupportedError where one cannot be steered."""
        leaves = list(self._dispatcher.boards_of(model))
        if not leaves:
            raise UnsupportedError(
                f"'{model}' is answered by several networks, each of which is loaded by its own name"
            )
        for leaf in leaves:
            _admin(leaf)
        return leaves

    async def _all(self, model: str) -> list[Leaf]:
        """Return the boards of a model, which all answer. Raises UnsupportedError, ConflictError."""
        leaves = self._steerable(model)
        if (away := await self._away(leaves)) is not None:
            raise ConflictError(f"every board of '{model}' must take requests, and '{away.name}' {away.state.value}")
        return leaves

    async def _together(self, model: str, leaf: Leaf) -> None:
        """Raise BoardError where another board is away: one at a time, whoever takes them out."""
        others = [other for other in self._dispatcher.boards_of(model) if other is not leaf]
        if (away := await self._away(others)) is not None:
            raise BoardError(f"one board is taken out at a time, and '{away.name}' {away.state.value}")

    async def _away(self, leaves: Sequence[Leaf]) -> Leaf | None:
        """Return a board that is away, and has not come back in the time in which that is seen.

        One with another program is not: it may have been loaded before this front was started, and a load
        makes it like the others.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + SEEN_S
        while (away := next((leaf for leaf in leaves if leaf.state not in _THERE), None)) is not None:
            if loop.time() > until:
                break
            await asyncio.sleep(_LOOK_S)
        return away

    async def _drain(self, leaf: Leaf, admin: AdminLink) -> None:
        for model in leaf.times:
            if not any(other.ready for other in self._dispatcher.boards_of(model) if other is not leaf):
                raise ConflictError(f"a board that is drained must leave another for '{model}', and there is none")
        async with self._resting(leaf):
            for model in leaf.times:
                await admin.unload(model)

    @contextlib.asynccontextmanager
    async def _resting(self, leaf: Leaf) -> Any:
        """Give a board no requests from here for the length of a block, which begins when it has none."""
        self._dispatcher.drain(leaf.name)
        try:
            while leaf.attempts:
                await asyncio.sleep(_LOOK_S)
            yield
        finally:
            self._dispatcher.restore(leaf.name)

    async def _load(self, leaf: Leaf, admin: AdminLink, models: Sequence[str]) -> None:
        tried: list[str] = []
        failed: HostError | None = None
        before = leaf.state if leaf.state in (*_THERE, BoardState.AWAY) else BoardState.READY
        async with self._resting(leaf):
            try:
                for model in models:
                    await admin.load(model, "try")
                    tried.append(model)
                    await self._audit(leaf, admin, model)
                for model in models:
                    await admin.load(model, "keep")
            except HostError as error:
                failed = error
                for model in reversed(tried):
                    with contextlib.suppress(HostError):  # a trial that nobody ends goes back by itself
                        await (admin.unload(model) if before is BoardState.AWAY else admin.load(model, "back"))
        try:
            await self._wait_for_return(leaf, BoardState.READY if failed is None else before)
        finally:
            if failed is not None:
                raise failed

    async def _back(self, leaf: Leaf, model: str) -> bool:
        try:
            async with self._resting(leaf):
                await _admin(leaf).load(model, "back")
            await self._wait_for_return(leaf, BoardState.FOREIGN)  # or READY: this front may not know what it has now
        except HostError as error:
            _log.warning("board '%s' could not go back: %s", leaf.name, error, extra={"board": leaf.name})
            return False
        return True

    async def _wait_for_return(self, leaf: Leaf, state: BoardState = BoardState.READY) -> None:
        """Wait until a board is as it was. Raises BoardError."""
        until = asyncio.get_running_loop().time() + RETURN_S
        while not leaf.ready and leaf.state is not state:
            if asyncio.get_running_loop().time() > until:
                raise BoardError(f"board '{leaf.name}' {leaf.state.value} after its load: {leaf.reason}")
            await asyncio.sleep(_LOOK_S)

    async def _guard(self, leaf: Leaf, seconds: float) -> None:
        """Watch a board that serves. Raises BoardError when it falls."""
        loop, falls = asyncio.get_running_loop(), _falls(leaf)
        until = loop.time() + seconds
        while loop.time() < until:
            await asyncio.sleep(min(_LOOK_S, max(0.0, until - loop.time())))
            if not leaf.ready or _falls(leaf) > falls:
                raise BoardError(f"board '{leaf.name}' {leaf.state.value} while it was watched: {leaf.reason}")

    async def _audit(self, leaf: Leaf, admin: AdminLink, model: str) -> None:
        """Compare answers on trial with the bundle's own. Raises BoardError."""
        _, facts = await admin.identity(model, LOAD_S)
        try:
            edition = await self._editions.newest(self._seat_of(leaf.name), model)
        except BundleError as error:
            raise BoardError(f"this front must have the bundle that it judges by: {error}") from None
        if not edition.is_shown_by(facts):
            shown = facts.get("program", "an unknown one")[:12]
            raise BoardError(f"board '{leaf.name}' must load the bundle of its front's folder, not the program {shown}")
        for asked, parameters in _probes(edition, model):
            try:
                answer = await admin.infer(
                    write_request(model, TRIAL, asked, edition.reference.judged, parameters), LOAD_S
                )
            except ProtocolError as error:
                if "criteria" in parameters:
                    continue  # exits that take none
                raise BoardError(f"board '{leaf.name}' must answer on trial, and it refuses: {error}") from None
            (images,) = asked.values()
            judge = edition.reference.objection
            if objection := await asyncio.get_running_loop().run_in_executor(None, judge, images, answer.outputs):
                raise BoardError(f"board '{leaf.name}' gave wrong bits on trial: {objection}")


def _probes(edition: Edition, model: str) -> Iterator[tuple[Mapping[str, Array], dict[str, Parameter]]]:
    """Yield requests of random samples: as everybody asks, and through all exits."""
    program, rng = edition.bundle.program, np.random.default_rng(0)
    images = program.random_samples(rng, PROBES)
    asked: dict[str, Parameter] = {TRIAL: True, "slo_ms": 1e6}
    yield {program.input: images}, asked
    yield {program.input: images}, {**asked, "criteria": NEVER}


def _admin(leaf: Leaf) -> AdminLink:
    if leaf.admin is None:
        raise UnsupportedError(
            f"board '{leaf.name}' must have an admin surface to be steered from here (admin in the fleet file), and it "
            "has none"
        )
    return leaf.admin


def _falls(leaf: Leaf) -> int:
    return sum(count for name, count in leaf.counts.items() if name.startswith("became_") and name != "became_ready")


def _of_all(leaves: Sequence[Leaf], answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the first board says, with what each of them does."""
    if not leaves:
        raise ModelUnavailableError("a board must take requests for its exits to be read, and none does")
    joint = {**answers[0], "boards": {leaf.name: answer for leaf, answer in zip(leaves, answers, strict=True)}}
    if (certificates := [answer["certificate"] for answer in answers if "certificate" in answer]) and (
        together := _together_certified(certificates)
    ):
        joint["certificate"] = together
    return joint


def _together_certified(certificates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the boards' certificates say together; nothing where they promise different things."""
    promises = {Promise(**{key: certificate[key] for key in ("eta", "risk", "share")}) for certificate in certificates}
    if len(promises) > 1:
        return {}
    (promise,) = promises
    sums: dict[str, Any] = asdict(promise)
    for key in ("whole", "stretch"):
        sums[key] = joined([certificate[key] for certificate in certificates], promise)
    return sums
