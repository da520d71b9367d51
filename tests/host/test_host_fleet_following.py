"""Plans that follow the traffic, served: the front counts, boards change, and nothing is lost."""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import virtual_time
from fleet_worlds import slow_world
from host_worlds import HOUR_NS, PATIENCE_S, design_of, network
from oip_worlds import bundle_of

import fluidnpu
from fluidnpu.dse import LatencyTable
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, DriverUsageError
from fluidnpu.host.errors import BoardError, ExpiredError, HostError, UnknownModelError
from fluidnpu.host.fleet import (
    BoardOptions,
    DispatchOptions,
    FleetFront,
    FleetOptions,
    Followed,
    FollowingFront,
    FollowOptions,
    Leaf,
)
from fluidnpu.host.fleet.fronts.front import expected_of
from fluidnpu.host.fleet.roster import Roster, Seat
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.host.oip.admission.limits import Limits
from fluidnpu.host.oip.interface import input_of, outputs_of
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer
from fluidnpu.host.oip.wire.tensors import from_bytes
from fluidnpu.models import golden
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.placement import fleet_with_rates, place

MS = 1_000_000
EASY, HARD = 0.8, 0.2  # of all samples leave at the first exit
SLO_S, WINDOW_S, STARTS_S = 0.5, 2.0, 0.2
FLEET = """
schema = 1
name = "four boards"
[networks.small]
exit_rates = [0.8, 0.2]
input_bytes = 64
answer_bytes = 8
[links.lan]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = {memory}
networks.small.bundle = "bundle"
[[devices]]
type = "board"
count = {boards}
{more}
"""
HALF = 7_900  # bytes: none has room for the whole network
WHOLE = 1_000_000


@cache
def bundle() -> Bundle:
    """A network of two exits on a board that takes 15 ms a sample and stage, and a little more."""
    qnet = network(3, 2, False)
    design = design_of(qnet)
    row = tuple(MS + 15 * MS * batch for batch in range(1, design.b_max + 1))
    design = replace(design, latency=LatencyTable(ns=(row, row)))
    return Bundle(design=design, program=compile_program(qnet, design))


def fleet_file(folder: Path, *, memory: int = HALF, boards: int = 4, more: str = "") -> Path:
    bundle().write(folder / "bundle")
    path = folder / "fleet.toml"
    path.write_text(FLEET.format(memory=memory, boards=boards, more=more))
    return path


@dataclass(eq=False)
class Board:
    """A board in virtual time: one message queue, batches as the design has them, an exit as the pixel says.

    It drops what can no longer be in time, as the server of a board does. `slow`: times of its batches.
    """

    name: str
    seat: Seat
    slow: float = 1.0
    up: bool = True
    process: int = 0
    seated: list[str] = field(default_factory=list)
    queue: list[tuple[Any, asyncio.Future[ModelAnswer], float]] = field(default_factory=list)
    work: asyncio.Task[None] | None = None

    async def identity(self, model: str, timeout_s: float) -> tuple[bool, dict[str, str]]:
        if not self.up:
            raise BoardError("nothing there")
        if model not in self.seat.bundles:
            raise UnknownModelError(model)
        return True, {"instance": f"{self.name}.{self.process}", **expected_of(self.seat.bundles[model])}

    async def infer(self, request: Any, timeout_s: float, trace: str = "") -> ModelAnswer:
        if not self.up:
            raise BoardError("nothing there")
        if request.model_name not in self.seat.bundles:
            raise UnknownModelError(request.model_name)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ModelAnswer] = loop.create_future()
        until = loop.time() + request.parameters["timeout"].int64_param / 1e6
        self.queue.append((request, future, until))
        if self.work is None:
            self.work = loop.create_task(self.serve())
        return await asyncio.wait_for(future, timeout_s)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self.queue:
            bundle = self.seat.bundles[self.queue[0][0].model_name]
            alone_s = bundle.design.latency.ns[0][0] / 1e9
            batch, samples = [], 0
            while self.queue and samples < bundle.design.b_max:
                request, future, until = self.queue.pop(0)
                if until < loop.time() + alone_s and not future.done():
                    future.set_exception(ExpiredError("late"))
                elif not future.done():
                    batch.append((request, future))
                    samples += request.inputs[0].shape[0]
            stay, took_ns = batch, 0
            for row in bundle.design.latency.ns if batch else ():
                took_ns += round(self.slow * row[max(1, len(stay)) - 1])
                stay = [one for one in stay if exit_of(one[0]) > 0]
            await asyncio.sleep(took_ns / 1e9)
            for request, future in batch:
                if not future.done():
                    future.set_result(answered(request, bundle, len(batch), took_ns))
        self.work = None

    async def close(self) -> None:
        if self.work is not None:
            self.work.cancel()


def exit_of(request: Any) -> int:
    tensor = request.inputs[0]
    return int(from_bytes(tensor.name, tensor.datatype, tuple(tensor.shape), request.raw_input_contents[0]).flat[0])


def answered(request: Any, bundle: Bundle, batch: int, took_ns: int) -> ModelAnswer:
    """Answer one sample, whose first number is the exit at which it leaves the network."""
    exit, cut, stages = exit_of(request), bundle.program.cut, len(bundle.program.exits)
    here = min(max(0, exit - (cut.first if cut is not None else 0)), stages - 1)
    goes_on = bool(bundle.program.onward) and cut is not None and exit > cut.exits[-1]
    outputs: dict[str, Any] = {}
    for face in outputs_of(bundle.program):
        kind = {"INT32": np.int32, "BOOL": np.bool_}.get(face.datatype, np.float32)
        outputs[face.name] = np.zeros((1, *face.shape[1:]), np.int16 if face.datatype == "INT16" else kind)
    outputs["exit"][0] = here
    if "goes_on" in outputs:
        outputs["goes_on"] = np.array([goes_on])
        outputs["onward"].flat[0] = exit
    wanted = tuple(one.name for one in request.outputs) or tuple(outputs)
    parameters: dict[str, Any] = {"exit": here, "confidence": 1.0, "outcome": "exit", "met": True, "queue_us": 0}
    parameters |= {"npu_us": took_ns // 1000, "batch": batch, "left_because": "last exit"}
    return ModelAnswer(request.model_name, "1", request.id, {name: outputs[name] for name in wanted}, parameters)


class Virtual(FollowingFront):
    """A front whose boards are in virtual time; a board that begins anew takes `STARTS_S`."""

    follow = True

    async def _open(self) -> list[Leaf]:
        self.boards = {seat.name: Board(seat.name, seat) for seat in self.roster.seats}
        return [self._leaf(seat, self.roster) for seat in self.roster.seats]

    def _leaf(self, seat: Seat, roster: Roster) -> Leaf:
        board = self.boards.setdefault(seat.name, Board(seat.name, seat))
        leaf = Leaf(name=seat.name, address=seat.name, link=board, times=roster.times(seat), duties=seat.duties)  # type: ignore[arg-type]
        leaf.timed = self._note_time
        return leaf

    async def _begin(self, seat: Seat) -> None:
        board = self.boards.setdefault(seat.name, Board(seat.name, seat))
        assert not board.queue, "it has answered what it had"
        board.up = False
        await asyncio.sleep(STARTS_S)
        board.seat, board.up, board.process = seat, True, board.process + 1
        board.seated.append(next(iter(seat.bundles)))

    async def _follow(self) -> None:
        if self.follow:
            await super()._follow()


class Still(Virtual):
    """The same without anybody who follows."""

    follow = False


@dataclass
class Client:
    """Sends samples one by one, and keeps when each was answered, or what it was told."""

    front: FleetFront
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    good: list[float] = field(default_factory=list)
    errors: list[HostError] = field(default_factory=list)
    wrong: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def send(self, rate: float, until_s: float, easy: float, **more: Any) -> None:
        """Send Poisson arrivals until a time of the loop."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            self.tasks.append(loop.create_task(self.ask(int(self.rng.random() >= easy), **more)))
            await asyncio.sleep(self.rng.expovariate(rate))

    async def ask(self, exit: int, **more: Any) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await self.front.infer(call_of(exit, **more))
        except HostError as error:
            self.errors.append(error)
            return
        self.wrong += answer.outputs["exit"].tolist() != [exit]
        if loop.time() - began <= SLO_S:
            self.good.append(loop.time())

    def goodput(self, begin_s: float, end_s: float) -> float:
        return sum(begin_s <= at < end_s for at in self.good) / (end_s - begin_s)


def call_of(exit: int, outputs: tuple[str, ...] = (), limit_s: float | None = SLO_S) -> Call:
    """Return a request of one sample, with a limit, or in no hurry."""
    image = np.zeros((1, *input_of(bundle().program).shape[1:]), np.uint8)
    image.flat[0] = exit
    hurry = {"slo_ms": 60_000.0} if limit_s is None else {"slo_ms": 1e3 * SLO_S, "timeout": round(1e6 * limit_s)}
    return Call("small", inputs={bundle().program.input: image}, outputs=outputs, parameters=hurry)


def run(
    path: Path,
    work: Callable[[Virtual], Awaitable[Any]],
    *,
    kind: type[Virtual] = Virtual,
    plan: Path | None = None,
    **dispatch: Any,
) -> Any:
    async def main() -> Any:
        asked = FollowOptions(slo_ns=round(1e9 * SLO_S), window_s=WINDOW_S, forecast="last", switch_s=STARTS_S)
        given = DispatchOptions(**{"audit_every": 0, "slo_ns": round(1e9 * SLO_S), "allowance_s": 5.0, **dispatch})
        front = kind(Followed.read(path, plan, asked), FleetOptions(dispatch=given), Limits(), "0")
        await front.start()
        try:
            return await work(front)
        finally:
            await front.close()

    return virtual_time.run(main())


def kinds(front: FleetFront) -> list[int]:
    """How many boards serve each part of the plan that holds."""
    return [len(pool.devices) for pool in front.roster.plan.pools] if front.roster.plan else []


TURN_S = 2.0


def new_plan_per_s(path: Path) -> float:
    """What the best plan for the hard mix carries."""
    fleet = Followed.read(path, None, FollowOptions(slo_ns=round(1e9 * SLO_S))).file.fleet
    return place(fleet_with_rates(fleet, (HARD, 1 - HARD)), slo_ns=round(1e9 * SLO_S), ramps=("on",)).plan.rate_per_s


@pytest.mark.parametrize("kind", [Virtual, Still])
def test_a_mix_that_turns_is_served_again_within_two_windows_and_else_never(
    tmp_path: Path, kind: type[Virtual]
) -> None:
    path = fleet_file(tmp_path)
    rate = new_plan_per_s(path)

    async def work(front: Virtual) -> None:
        client = Client(front)
        assert kinds(front) == [3, 1]
        await client.send(rate, TURN_S, EASY)
        assert client.goodput(1, TURN_S) > 0.9 * rate
        end_s = TURN_S + 3 * WINDOW_S
        await client.send(rate, end_s, HARD)
        await asyncio.gather(*client.tasks)
        after = client.goodput(TURN_S + WINDOW_S, end_s)
        assert client.wrong == 0
        assert {type(error) for error in client.errors} <= {ExpiredError}, "late is all that a request may be"
        if kind is Still:
            assert kinds(front) == [3, 1]
            assert after < 0.8 * rate
            return
        assert after >= 0.95 * rate
        assert kinds(front) == [2, 2]
        assert [count for (reason, changed), count in front.decided.items() if changed and reason == "drift"] == [1]
        assert sum(board.process for board in front.boards.values()) == 1, "one board has changed its part"

    run(path, work, kind=kind)


def test_boards_are_lost_and_come_back_and_no_request_is(tmp_path: Path) -> None:
    """Requests without a limit wait; each is answered once and rightly while boards change their parts."""

    async def work(front: Virtual) -> None:
        client = Client(front)
        sending = asyncio.ensure_future(client.send(25, 14, EASY, limit_s=None))
        await asyncio.sleep(1)
        front.boards["board-3"].up = False  # the only one of the second part
        await asyncio.sleep(5)
        assert "board-3" not in front.follower.plan.devices
        assert kinds(front) == [2, 1]
        front.boards["board-3"].up = True
        await sending
        await asyncio.gather(*client.tasks)
        assert client.wrong == 0
        assert not client.errors
        assert kinds(front) == [3, 1]
        changed = [reason for (reason, changed), count in front.decided.items() if changed]
        assert changed[:2] == ["lost", "back"]

    run(fleet_file(tmp_path), work)


def test_every_board_changes_its_part_and_no_request_is_lost(tmp_path: Path) -> None:
    """The worst change: two boards exchange their parts, so nobody can be asked meanwhile; requests wait."""

    async def work(front: Virtual) -> None:
        client = Client(front)
        sending = asyncio.ensure_future(client.send(20, 6, 0.5, limit_s=None))
        await asyncio.sleep(1)
        now = {seat.name: seat for seat in front.roster.seats}
        exchanged = replace(
            front.roster,
            seats=(replace(now["board-1"], name="board-0"), replace(now["board-0"], name="board-1")),
        )
        await front._change(exchanged)
        assert {leaf.name: list(leaf.times) for leaf in front.dispatcher.leaves} == {
            "board-0": ["small.1-1"],
            "board-1": ["small.0-0"],
        }
        late = asyncio.ensure_future(front._change(replace(front.roster, seats=tuple(now.values()))))
        await asyncio.sleep(STARTS_S / 2)
        with pytest.raises(ExpiredError, match="while boards changed duties"):
            await front.infer(call_of(0, limit_s=0.01))
        await late
        await sending
        await asyncio.gather(*client.tasks)
        assert client.wrong == 0
        assert not client.errors
        assert len(client.tasks) > 90

    run(fleet_file(tmp_path, boards=2), work, kind=Still)


def test_whole_networks_keep_their_boards_and_a_slow_one_is_left_out(tmp_path: Path) -> None:
    async def work(front: Virtual) -> None:
        client = Client(front)
        front.boards["board-2"].slow = 3.0
        await client.send(60, 5.5 * WINDOW_S, 0.5, outputs=("label", "exit"), limit_s=None)
        await asyncio.gather(*client.tasks)
        assert "board-2" not in front.follower.plan.devices
        assert front.decided["straggler", True] == 1
        assert not any(board.process for board in front.boards.values()), "nothing begins anew for that"
        assert not client.errors
        assert client.wrong == 0
        answer = await front.infer(call_of(1, outputs=("label",)))
        assert list(answer.outputs) == ["label"], "the exit is counted, and is not what was asked"
        rows = {(name, labels): value for name, labels, value in front.metrics()}
        assert rows["fleet_plan_decisions", ("straggler", "changed")] == 1
        assert rows["fleet_exit_rate", ("small", 0)] == pytest.approx(0.5, abs=0.1)
        assert rows["board_slow_ratio", ("board-2",)] > rows["board_slow_ratio", ("board-1",)]
        (plan,) = [labels for name, labels in rows if name == "fleet_plan"]
        assert plan[:2] == (front.follower.plan.digest[:12], front.follower.plan.form)
        assert front.snapshot()["plan"]["changes"] >= 1

    run(fleet_file(tmp_path, memory=WHOLE), work)


def test_a_board_that_cannot_begin_anew_leaves_a_front_that_serves(tmp_path: Path) -> None:
    class Broken(Virtual):
        async def _begin(self, seat: Seat) -> None:
            self.boards[seat.name].up = False
            raise BoardError(f"board '{seat.name}' must start on this machine")

    async def work(front: Virtual) -> None:
        client = Client(front)
        await client.send(60, 3 * WINDOW_S, HARD, limit_s=None)
        await asyncio.gather(*client.tasks)
        assert client.wrong == 0
        assert not client.errors
        (broken,) = [board.name for board in front.boards.values() if not board.up]
        assert front.decided["lost", True] == 1
        assert broken not in front.follower.plan.devices
        assert kinds(front) == [2, 1]

    run(fleet_file(tmp_path), work, kind=Broken)


@pytest.mark.long
def test_processes_change_their_parts_while_clients_ask(tmp_path: Path) -> None:
    w = slow_world()
    path = fleet_file(tmp_path)
    bundle_of(w, tmp_path / "bundle")
    images = w.images(400)
    exits, classes, _ = golden.early_exit(w.qnet, images)
    pools = [np.flatnonzero(exits == exit) for exit in (0, 1)]
    followed = Followed.read(path, None, FollowOptions(slo_ns=10**9, window_s=2.0, switch_s=0.5))
    options = FleetOptions(
        boards=BoardOptions(slo_ns=10**9),
        dispatch=DispatchOptions(slo_ns=HOUR_NS, allowance_s=PATIENCE_S, hold_s=PATIENCE_S),
    )
    fronts: list[FollowingFront] = []
    easy, stop = threading.Event(), threading.Event()
    easy.set()

    def opened(limits: Any, version: str) -> FollowingFront:
        fronts.append(FollowingFront(followed, options, limits, version))
        return fronts[-1]

    answered = [0] * 6

    def ask(url: str, seed: int) -> None:
        rng = random.Random(seed)
        with fluidnpu.connect(url) as npu:
            while not stop.is_set():
                hard = rng.random() < (0.2 if easy.is_set() else 0.8)
                k = int(rng.choice(pools[hard].tolist()))
                answer = npu.infer(images[k])
                assert (answer.exit, answer.prediction) == (exits[k], classes[k])
                answered[seed] += 1

    with in_background(opened, ServeOptions(http=0, grpc=0)) as server, ThreadPoolExecutor(6) as clients:
        (front,) = fronts
        try:
            asked = [clients.submit(ask, server.url(), seed) for seed in range(6)]

            def until(condition: Callable[[], bool]) -> None:
                ends = time.monotonic() + PATIENCE_S
                while not condition() and not any(one.done() for one in asked) and time.monotonic() < ends:
                    time.sleep(0.1)

            assert kinds(front) == [3, 1]
            until(lambda: sum(answered) > 300)
            assert kinds(front) == [3, 1], "a world that stays keeps its plan"
            easy.clear()
            until(lambda: kinds(front) == [2, 2])
            behind = sum(answered) + 100
            until(lambda: sum(answered) > behind)
        finally:
            stop.set()
        for one in asked:
            one.result()
        assert sum(answered) > behind
        assert kinds(front) == [2, 2]
        assert not front.counts["small"].errors
        assert front.trouble == ""


@pytest.mark.parametrize(
    ("more", "memory", "said"),
    [
        (
            '[networks.other]\nexit_rates = [0.5, 0.5]\n[types.board.networks.other]\nbundle = "bundle"',
            WHOLE,
            "one network",
        ),
        (
            '[[devices]]\nname = "far"\ntype = "board"\naddresses = ["127.0.0.1:1"]',
            HALF,
            "on 'board' it needs 8016 bytes and there are 7900",
        ),
    ],
)
def test_fleets_whose_plan_cannot_follow_are_refused(tmp_path: Path, more: str, memory: int, said: str) -> None:
    path = fleet_file(tmp_path, memory=memory, more=more)
    with pytest.raises((DriverUsageError, SchedulerError, RuntimeError), match=said):
        Followed.read(path, None, FollowOptions(slo_ns=round(1e9 * SLO_S)))


def test_boards_with_an_address_keep_what_they_serve(tmp_path: Path) -> None:
    far = '[[devices]]\nname = "far"\ntype = "board"\naddresses = ["127.0.0.1:1"]'
    path = fleet_file(tmp_path, memory=WHOLE, more=far)
    followed = Followed.read(path, None, FollowOptions(slo_ns=round(1e9 * SLO_S)))
    assert followed.follower.plan.form == "data parallel"
    split = place(followed.file.fleet, slo_ns=round(1e9 * SLO_S), forms=("serial",), batches=(4,)).plan
    plan = tmp_path / "plan.json"
    plan.write_text(split.dumps())
    if split.form != "data parallel":
        with pytest.raises(DriverUsageError, match="boards with an address keep what they serve"):
            Followed.read(path, plan, FollowOptions())
    with pytest.raises(DriverUsageError, match="must have an objective or a plan"):
        Followed.read(path, None, FollowOptions())
    with pytest.raises(DriverUsageError, match=r"must last 0\.1 to 1e6 s, not 0 s"):
        FollowOptions(window_s=0)
