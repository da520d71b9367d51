"""A front whose plan follows the traffic: it counts exits, asks the plan's keeper, and changes duties live.

`Follower` (scheduler/placement) decides, here as in the twin; this module tells it what is seen and does what
it says. No request is lost by a change: boards change one after another, each when it has answered what it
has. A board is taken from a part of the network only when another has that part; where none has, requests
wait at the front until the change is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fluidnpu.scheduler import SchedulerError, placement

from ...errors import DriverUsageError, ExpiredError, HostError
from ...oip.admission.limits import Limits
from ...oip.observing.metric_table import Row
from ...oip.wire.calls import Call, ModelAnswer, Wishes
from ..boards.leaf import Leaf
from ..boards.processes import Process
from ..reference import Reference
from ..roster import FleetFile, Roster, Seat, read_plan
from .front import FleetFront, FleetOptions, expected_of

_log = logging.getLogger("fluidnpu.fleet")
_LOOK_S = 0.01  # between looks at a board that ends its work, or begins anew
_EXIT = "exit"


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """The circumstances of a plan that follows. Raises DriverUsageError.

    `slo_ns`: the objective that plans keep (None: that of the plan which is given); `window_s` and `forecast`
    as `Follower` has them; `switch_s`: time that a board serves nothing while it changes.
    """

    slo_ns: int | None = None
    window_s: float = 120.0
    forecast: str = "ewma"
    switch_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0.1 <= self.window_s <= 1e6:
            raise DriverUsageError(f"a window must last 0.1 to 1e6 s, not {self.window_s:g} s")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A fleet file, the keeper of its plan, and the roster that the plan begins with."""

    file: FleetFile
    follower: placement.Follower
    roster: Roster

    @classmethod
    def read(cls, path: Path | str, plan: Path | str | None, options: FollowOptions) -> Followed:
        """Read a fleet file, and begin with the plan of a file or with the best one.

        Raises FleetError, BundleError and PlacementError, and DriverUsageError for a fleet whose plan cannot
        follow its traffic.
        """
        file = FleetFile.read(path)
        fleet, given = file.fleet, None if plan is None else read_plan(plan)
        if len(fleet.networks) != 1 or fleet.ensembles:
            raise DriverUsageError(
                f"a plan that follows the traffic must be of one network, and '{fleet.name}' has "
                f"{', '.join((*fleet.networks, *fleet.ensembles))}"
            )
        if fleet.sources:
            raise DriverUsageError(
                f"a plan that follows the traffic must know its boards, and those of '{fleet.name}' are found while it serves"
            )
        slo_ns = options.slo_ns or (given.slo_ns if given is not None else None)
        if slo_ns is None:
            raise DriverUsageError("a plan that follows the traffic must have an objective or a plan to begin with")
        (network,) = fleet.networks
        if given is None and fleet.networks[network].exit_rates is None:
            fleet = placement.fleet_with_rates(fleet, file.exit_rates(network))
        reached = [device.name for device in fleet.devices if device.address]
        replanner = placement.Replanner(
            fleet,
            slo_ns,
            switch_ns=round(1e9 * options.switch_s),
            ramps=("on",),  # an exit that is not run is not counted
            forms=("data parallel",) if reached else ("data parallel", "serial", "pipeline", "mix"),
        )
        follower = placement.Follower(replanner, window_ns=round(1e9 * options.window_s), forecast=options.forecast)
        decision = follower.start(0, given)
        roster = file.roster(decision.plan, decision.fleet)
        if reached and (cut := [seat.name for seat in roster.seats if any(map(_is_part, seat.duties.values()))]):
            raise DriverUsageError(
                f"boards with an address keep what they serve, so a plan that follows must give each the whole network, and "
                f"'{cut[0]}' has a part or parts in turns"
            )
        if hidden := [seat.name for seat in roster.seats for duty in seat.duties.values() if duty.criteria is not None]:
            raise DriverUsageError(
                f"a plan that follows must run every exit to count who leaves there, and '{hidden[0]}' runs none"
            )
        return cls(file=file, follower=follower, roster=roster)


def _is_part(duty: Any) -> bool:
    return duty.stages is not None or bool(duty.splits)


@dataclass
class _Seen:
    """What the front has seen since the last tick: exits, whether samples left there, and times of boards."""

    exits: Counter[tuple[int, int, bool]] = field(default_factory=Counter)
    times: list[tuple[str, int, int]] = field(default_factory=list)

    def tell(self, follower: placement.Follower) -> None:
        """Hand it on."""
        for (first, exit, went), samples in self.exits.items():
            (follower.left if went else follower.passed)(exit, samples, first)
        for board, measured_ns, predicted_ns in self.times:
            follower.took(board, measured_ns, predicted_ns)


class FollowingFront(FleetFront):
    """A front that plans again while it serves."""

    def __init__(self, followed: Followed, options: FleetOptions, limits: Limits, version: str) -> None:
        super().__init__(followed.roster, options, limits, version)
        self.file, self.follower = followed.file, followed.follower
        self.decided: Counter[tuple[str, bool]] = Counter()  # decisions by reason, and whether the plan changed
        self.trouble = ""  # why the latest change was not done
        self._seats = {seat.name: seat for seat in followed.roster.seats}  # as boards serve, or did last
        self._seen, self._gate = _Seen(), asyncio.Event()
        self._under_way: Counter[int] = Counter()  # requests by generation of the roster
        self._generation = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start as every front, then follow. Raises as `FleetFront.start`."""
        self._watch(self.roster)
        await super().start()
        self._gate.set()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """End as every front."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await super().close()

    # -- what is seen ----------------------------------------------------------------------------------------

    def _leaf(self, seat: Seat, roster: Roster) -> Leaf:
        leaf = super()._leaf(seat, roster)
        leaf.timed = self._note_time
        return leaf

    def _seat(self, name: str) -> Seat:
        return self._seats[name]  # also of boards that the plan leaves out

    def _note_time(self, leaf: Leaf, model: str, answer: ModelAnswer) -> None:
        """Keep the time that a board's NPU worked for an answer, beside that of the stages up to its exit."""
        bundle, parameters = self._seats[leaf.name].bundles.get(model), answer.parameters
        if bundle is None or "npu_us" not in parameters:
            return
        batch = min(int(parameters["batch"]), bundle.design.b_max)
        predicted = sum(row[batch - 1] for row in bundle.design.latency.ns[: int(parameters["exit"]) + 1])
        self._seen.times.append((leaf.name, 1000 * int(parameters["npu_us"]), predicted))

    def _watch(self, roster: Roster) -> None:
        """Take a roster, whose relays tell what they see."""
        relays = {name: replace(relay, seen=self._saw) for name, relay in roster.relays.items()}
        self.roster = replace(roster, relays=relays)

    def _saw(self, first: int, exit: int, went: bool) -> None:
        self._seen.exits[first, exit, went] += 1

    async def _serve(self, call: Call, wishes: Wishes) -> ModelAnswer:
        """Answer a call, and count the exits of its samples, which nobody need have asked for."""
        async with self._entered(wishes) as (wishes, relayed):
            hidden = bool(call.outputs) and _EXIT not in call.outputs and not relayed
            asked = replace(call, outputs=(*call.outputs, _EXIT)) if hidden else call
            answer = await super()._serve(asked, wishes)
        if not relayed:
            went = answer.parameters["outcome"] == _EXIT  # else somebody's time was up
            for exit in answer.outputs[_EXIT].tolist():
                self._saw(0, int(exit), went)
        if hidden:
            answer = replace(answer, outputs={name: answer.outputs[name] for name in call.outputs})
        return answer

    @contextlib.asynccontextmanager
    async def _entered(self, wishes: Wishes) -> AsyncIterator[tuple[Wishes, bool]]:
        """Wait while no part of the network may be asked, and count the request as under way."""
        if not self._gate.is_set():
            wishes = await self._wait_for_plan(wishes)
        generation = self._generation
        self._under_way[generation] += 1
        try:
            yield wishes, bool(self.roster.relays)
        finally:
            self._under_way[generation] -= 1

    async def _wait_for_plan(self, wishes: Wishes) -> Wishes:
        """Wait, and return what is left of a request's time. Raises ExpiredError."""
        loop = asyncio.get_running_loop()
        began, limit_ns = loop.time(), wishes.timeout_ns
        try:
            await asyncio.wait_for(self._gate.wait(), None if limit_ns is None else limit_ns / 1e9)
        except asyncio.TimeoutError:
            waited_ns = round(1e9 * (loop.time() - began))
            raise ExpiredError(
                f"the time that the request allowed passed while boards changed duties: {waited_ns / 1e6:.1f} ms",
                waited_ns,
            ) from None
        if limit_ns is None:
            return wishes
        return replace(wishes, timeout_ns=max(1, limit_ns - round(1e9 * (loop.time() - began))))

    # -- what is decided -------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Ask at every tick, and do what is decided."""
        loop = asyncio.get_running_loop()
        began, tick_s = loop.time(), self.follower.window_ns / 1e9 / placement.TICKS
        while True:
            await asyncio.sleep(tick_s)
            seen, self._seen = self._seen, _Seen()
            away = {leaf.name for leaf in self.dispatcher.leaves if not leaf.ready}
            now_ns = round(1e9 * (loop.time() - began))
            try:
                decision = await loop.run_in_executor(None, self._step, seen, now_ns, away)
                if decision is None:
                    continue
                self.decided[decision.reason, decision.changed] += 1
                level = logging.WARNING if decision.changed else logging.INFO
                facts = {"reason": decision.reason, "plan": decision.plan.digest[:12], "form": decision.plan.form}
                verb = "changes" if decision.changed else "stays"
                _log.log(level, "the plan %s (%s): %s", verb, decision.reason, decision.why, extra=facts)
                if decision.changed:
                    roster = await loop.run_in_executor(None, self.file.roster, decision.plan, decision.fleet)
                    await self._change(roster)
                    self.trouble = ""
            except Exception as error:  # whatever it is, requests are served on
                self.trouble = str(error)
                self._gate.set()
                expected = isinstance(error, HostError | SchedulerError)
                _log.error("the plan could not be followed: %s", error, exc_info=not expected)

    def _step(self, seen: _Seen, now_ns: int, away: set[str]) -> placement.Decision | None:
        seen.tell(self.follower)
        return self.follower.step(now_ns, away)

    # -- what is done ----------------------------------------------------------------------------------------

    async def _change(self, roster: Roster) -> None:
        """Give every board the duties of another roster, without losing a request. Raises BoardError."""
        dispatcher, seats = self.dispatcher, {seat.name: seat for seat in roster.seats}
        dispatcher.judge_by(
            {model: Reference(next(iter(bundles.values()))) for model, bundles in roster.bundles.items()},
            {
                seat.name: {model: expected_of(bundle) for model, bundle in seat.bundles.items()}
                for seat in roster.seats
            },
        )
        moving = [seat for seat in roster.seats if self._differs(seat)]
        for leaf in dispatcher.leaves:
            seat = seats.get(leaf.name)
            if seat is None:  # a spare, or one that is away: asked where no other can be
                spare = {model: replace(duty, rate_per_s=0.0) for model, duty in leaf.duties.items()}
                dispatcher.assign(leaf, leaf.times, spare)
            elif seat not in moving:
                dispatcher.assign(leaf, roster.times(seat), seat.duties)
                self._seats[seat.name] = seat
        handed = self._hand_over(roster)
        while moving:
            seat = next((mover for mover in moving if not self._alone(mover)), moving[0])
            moving.remove(seat)
            if self._closes(seat):
                self._gate.clear()
                await self._until(lambda: not +self._under_way)
            elif self._alone(seat):  # requests of plans before may still be on their way to it
                await self._until(lambda: not any(self._under_way[k] for k in range(self._generation)))
            await self._move(seat, roster)
            handed = handed or self._hand_over(roster)
        if not handed:
            self._take(roster)
        self._gate.set()

    def _differs(self, seat: Seat) -> bool:
        """Tell if a board must begin anew for a seat: other programs, or another policy."""
        now = self._seats.get(seat.name)
        return now is None or self._job(now) != self._job(seat)

    def _job(self, seat: Seat) -> tuple[Any, ...]:
        programs = {model: bundle.program.digest for model, bundle in seat.bundles.items()}
        return programs, seat.address or self._board_options(seat).words()

    def _alone(self, seat: Seat) -> set[str]:
        """Return the models that no other board would serve while this one changes."""
        now = self._seats.get(seat.name)
        return {
            model for model in (() if now is None else now.bundles) if not self._has_ready_board(model, but=seat.name)
        }

    def _closes(self, seat: Seat) -> bool:
        """Tell if new requests need a model that no other board would serve while this one changes."""
        return bool(self._alone(seat) & {model for name in self.roster.models for model in self._networks(name)})

    def _has_ready_board(self, model: str, but: str = "") -> bool:
        return any(leaf.ready and leaf.name != but for leaf in self.dispatcher.boards_of(model))

    def _hand_over(self, roster: Roster) -> bool:
        """Give new requests to a roster, if every model of it has a board."""
        if all(map(self._has_ready_board, roster.bundles)):
            self._take(roster)
            self._gate.set()
            return True
        return False

    def _take(self, roster: Roster) -> None:
        self._generation += 1
        self._watch(roster)

    async def _move(self, seat: Seat, roster: Roster) -> None:
        """Let a board end its work, start it anew for other duties, and take it back. Raises BoardError."""
        dispatcher = self.dispatcher
        leaves = [leaf for leaf in dispatcher.leaves if leaf.name == seat.name]
        for leaf in leaves:
            dispatcher.drain(leaf.name)
            await self._until(lambda leaf=leaf: not leaf.attempts)  # type: ignore[misc]
            dispatcher.assign(leaf, roster.times(seat), seat.duties)
        try:
            await self._begin(seat)
        finally:  # where it did not begin, it is away, and the next plan goes without it
            self._seats[seat.name] = seat
            for leaf in leaves:
                dispatcher.restore(leaf.name)
        leaf = leaves[0] if leaves else self._leaf(seat, roster)
        if not leaves:
            dispatcher.join(leaf)
        await self._until(lambda: leaf.ready)

    async def _begin(self, seat: Seat) -> None:
        """Start the process of a board anew. Raises BoardError."""
        loop = asyncio.get_running_loop()
        before = self.processes.get(seat.name)
        if before is not None:
            await loop.run_in_executor(None, before.close)
        process = Process(seat.name, await loop.run_in_executor(None, self._folders, seat), self._board_options(seat))
        self.processes[seat.name] = process
        port = 0 if before is None else int(before.address.rpartition(":")[2])
        await loop.run_in_executor(None, process.start, port)

    async def _until(self, done: Callable[[], bool]) -> None:
        """Wait until something holds, but not for ever: a board that is silent is somebody else's matter."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self.options.dispatch.hold_s
        while not done() and loop.time() < end_s:
            await asyncio.sleep(_LOOK_S)

    # -- pages -----------------------------------------------------------------------------------------------

    def metrics(self) -> Iterator[Row]:
        """Yield the rows of the table of metrics, with those of the plan."""
        yield from super().metrics()
        yield from self._plan_rows()

    def _plan_rows(self) -> Iterable[Row]:
        plan, decision = self.follower.plan, self.follower.decision
        yield "fleet_plan", (plan.digest[:12], plan.form, "" if decision is None else decision.reason), 1
        yield "fleet_plan_rate", (), plan.rate_per_s
        for (reason, changed), count in sorted(self.decided.items()):
            yield "fleet_plan_decisions", (reason, "changed" if changed else "kept"), count
        for exit, rate in enumerate(self.follower.rates):
            yield "fleet_exit_rate", (self.follower.network, exit), rate
        for device, straggler in self.follower.stragglers.items():
            yield "board_slow_ratio", (device,), straggler.ratio

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws, with those of the plan."""
        plan, decision = self.follower.plan, self.follower.decision
        record = {
            "digest": plan.digest[:12],
            "form": plan.form,
            "rate_per_s": plan.rate_per_s,
            "exit_rates": list(self.follower.rates),
            "reason": "" if decision is None else decision.reason,
            "why": self.trouble or ("" if decision is None else decision.why),
            "changes": sum(count for (_, changed), count in self.decided.items() if changed),
        }
        return {**super().snapshot(), "plan": record}
