"""Boards that are drained, loaded anew and changed, from any of two fronts over the same processes."""

import asyncio
import json
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from fleet_worlds import FLEET, NAME, slow_world
from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, eventually
from oip_worlds import bundle_of
from test_host_oip_trials import eager

import fluidnpu
from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetFront, FleetOptions, Roster
from fluidnpu.host.fleet.boards.leaf import BoardState
from fluidnpu.host.fleet.boards.processes import Process
from fluidnpu.host.oip import NetworkServer, ServeOptions, in_background
from fluidnpu.host.oip.wire.statuses import status_of
from fluidnpu.models import golden


class Fronts:
    """Two fronts over two boards; `folder` has a copy of the bundle for fronts, and one a board."""

    def __init__(self, folder: Path, servers: list[NetworkServer], fronts: list[FleetFront]) -> None:
        self.folder, self.servers, self.fronts = folder, servers, fronts
        self.more: Callable[[], None]

    def write(self, w: HostWorld, *folders: str) -> None:
        for name in folders:
            bundle_of(w, self.folder / name)

    def ask(self, verb: str, path: str, body: Any = None, front: int = 0) -> tuple[int, Any]:
        """Exchange with a front's admin surface."""
        with closing(HTTPConnection("127.0.0.1", self.servers[front].ports["admin"], timeout=PATIENCE_S)) as one:
            one.request(verb, path, json.dumps(body or {}), {"Content-Type": "application/json"})
            answer = one.getresponse()
            return answer.status, json.loads(answer.read())

    def exits(self, images: Any, front: int = 0) -> list[int]:
        with fluidnpu.connect(self.servers[front].url(), NAME) as npu:
            found: list[int] = npu.infer(images).outputs["exit"].tolist()
            return found

    def states(self) -> list[list[BoardState]]:
        return [[leaf.state for leaf in front.dispatcher.leaves] for front in self.fronts]

    def are(self, *states: BoardState) -> None:
        eventually(lambda: self.states() == [list(states)] * len(self.fronts))


@contextmanager
def two_fronts(folder: Path, w: HostWorld, *, lying: float = 0.0, **options: Any) -> Iterator[Fronts]:
    boards = ("board-0", "board-1")
    for name in (*boards, "bundle"):
        bundle_of(w, folder / name)
    with ExitStack() as stack:
        rows = ""
        for name in boards:
            wrong = lying if name == boards[-1] else 0.0
            process = Process(name, {NAME: folder / name}, BoardOptions(slo_ns=10**9, wrong_bits=wrong))
            stack.callback(process.close)
            address = process.start()
            rows += f'[[devices]]\ntype = "board"\nname = "{name}"\naddresses = ["{address}"]\nadmin = ["{process.admin}"]\n'
        (folder / "fleet.toml").write_text(FLEET + rows)
        fronts, loops = list[FleetFront](), list[asyncio.AbstractEventLoop]()
        dispatch = {"absent": True, "slo_ns": HOUR_NS, "allowance_s": PATIENCE_S, "hold_s": PATIENCE_S, **options}

        def opened(limits: Any, version: str) -> FleetFront:
            loops.append(asyncio.get_running_loop())
            roster = Roster.read(folder / "fleet.toml")
            given = FleetOptions(dispatch=DispatchOptions(**dispatch), guard_s=0.0)
            fronts.append(FleetFront(roster, given, limits, version))
            return fronts[-1]

        surfaces = ServeOptions(http=0, grpc=None, admin=0)
        first = stack.enter_context(in_background(opened, surfaces))
        second = NetworkServer(opened, surfaces)  # on the same loop: gRPC has one queue a process

        def done(work: Coroutine[Any, Any, None]) -> None:
            asyncio.run_coroutine_threadsafe(work, loops[0]).result(PATIENCE_S)

        def more(server: NetworkServer) -> NetworkServer:
            done(server.start())
            stack.callback(lambda: done(server.stop()))
            return server

        site = Fronts(folder, [first, more(second)], fronts)
        site.more = lambda: site.servers.append(more(NetworkServer(opened, surfaces)))
        yield site


def test_boards_are_steered_from_any_front(tmp_path: Path) -> None:
    """One start of two processes for all of it."""
    w = slow_world()
    images = w.images(8)
    right = golden.early_exit(w.qnet, images)[0].tolist()
    assert max(right) > 0
    with two_fronts(tmp_path, w) as s:
        both = BoardState.READY, BoardState.READY
        assert s.ask("POST", "/v2/boards/board-0/drain") == (
            200,
            {"board": "board-0", "state": "STARTING", "reason": ""},
        )
        s.are(BoardState.AWAY, BoardState.READY)
        assert "unloaded" in s.fronts[1].dispatcher.leaves[0].reason, "the other front sees why"
        assert s.exits(images, front=1) == right
        assert s.ask("POST", "/v2/boards/board-1/drain", front=1)[0] == 409, "it is the last"
        assert s.ask("POST", f"/v2/repository/models/{NAME}/load")[0] == 409, "all must be there"
        s.write(eager(w), "board-0")
        assert s.ask("POST", "/v2/boards/board-0/restore", front=1)[0] == 503, "it has not the bundle of its front"
        s.are(BoardState.AWAY, BoardState.READY)
        s.write(w, "board-0")
        assert s.ask("POST", "/v2/boards/board-0/restore", front=1)[0] == 200
        s.are(*both)

        _thresholds(s, images, right)

        s.write(eager(w), "bundle", "board-0", "board-1")
        assert s.ask("POST", f"/v2/repository/models/{NAME}/load", {"parameters": {"guard_ms": 1}}, front=1) == (
            200,
            {},
        )
        s.are(*both)
        assert [s.exits(images, front) for front in (0, 1)] == [[0] * 8] * 2, "the other front followed"

        s.write(w, "board-0")  # a board that has other files than its front
        status, said = s.ask("POST", f"/v2/repository/models/{NAME}/load")
        assert status == 400
        assert "must load the bundle of its front's folder" in said["error"]
        s.write(w, "bundle")  # the second has others, so that the first, which has passed, goes back
        status, said = s.ask("POST", f"/v2/repository/models/{NAME}/load")
        assert status == 400
        assert "is served as before ('board-0')" in said["error"]
        s.are(*both)
        assert [s.exits(images, front) for front in (0, 1)] == [[0] * 8] * 2
        _a_front_in_the_midst(s, w, images, right)
        assert s.ask("POST", "/v2/boards/board-7/drain")[0] == 404
        assert s.ask("POST", "/v2/boards/board-0/paint")[0] == 501
        assert s.ask("POST", f"/v2/repository/models/{NAME}/unload")[0] == 501
        assert s.ask("POST", f"/v2/repository/models/{NAME}/load", {"parameters": {"guard_ms": -1}})[0] == 400
        s.fronts[0].dispatcher.leaves[0].admin = None
        for path in (f"/v2/repository/models/{NAME}/load", "/v2/boards/board-0/drain"):
            status, said = s.ask("POST", path)
            assert (status, "must have an admin surface" in said["error"]) == (501, True)
        with urllib.request.urlopen(s.servers[0].url("admin") + "/openapi.json") as answer:
            assert "/v2/boards/{name}/{act}" in json.load(answer)["paths"]


def _a_front_in_the_midst(s: Fronts, w: HostWorld, images: Any, right: list[int]) -> None:
    """It knows the new files only, takes no board with another program, and may load them all."""
    s.write(w, "board-0", "board-1", "bundle")
    s.more()
    assert [leaf.state for leaf in s.fronts[2].dispatcher.leaves] == [BoardState.FOREIGN] * 2
    assert s.ask("POST", f"/v2/repository/models/{NAME}/load", front=2) == (200, {})
    s.are(BoardState.READY, BoardState.READY)
    assert [s.exits(images, front) for front in (0, 1, 2)] == [right] * 3


def _thresholds(s: Fronts, images: Any, right: list[int]) -> None:
    """Of one board, of all boards; what one board refuses changes none."""
    place = f"/v2/models/{NAME}/exits"
    names = [row["name"] for row in s.ask("GET", place)[1]["exits"]]
    early = {"thresholds": dict.fromkeys(names[:-1], 0.0)} if len(names) > 1 else {"thresholds": {names[0]: 0.0}}
    status, said = s.ask("POST", place, early | {"board": "board-0"}, front=1)
    assert (status, list(said["boards"])) == (200, ["board-0"])
    assert {row["threshold"] for row in s.ask("GET", place)[1]["boards"]["board-1"]["exits"]} != {0.0}
    before = s.ask("GET", place)[1]["boards"]
    assert s.ask("POST", place, {"thresholds": {"nowhere": 0.5}})[0] == 400
    after = s.ask("GET", place)[1]["boards"]
    assert [one["exits"] for one in after.values()] == [one["exits"] for one in before.values()]
    assert s.ask("POST", place, early)[0] == 200
    assert s.exits(images) == [0] * len(right)
    for board in ("board-0", "board-1"):
        assert s.ask("POST", f"/v2/boards/{board}/reload", front=1)[0] == 200, "which undoes it"
    assert s.exits(images) == right


def test_a_lying_board_is_put_out_for_every_front_and_a_reload_finds_it(tmp_path: Path) -> None:
    w = slow_world()
    images = w.images(4)
    with two_fronts(tmp_path, w, lying=1.0, audit_every=0) as s:
        status, said = s.ask("POST", f"/v2/repository/models/{NAME}/load", {"parameters": {"guard_ms": 0}})
        assert status == 400
        assert "'board-1' gave wrong bits on trial" in said["error"]
        s.are(BoardState.READY, BoardState.READY)
        for front in s.fronts:
            front.dispatcher.options = replace(front.dispatcher.options, audit_every=2)
        with fluidnpu.connect(s.servers[0].url(), NAME) as npu:
            eventually(lambda: npu.infer(images[0]) is not None and s.states()[0][1] is BoardState.SICK)
        eventually(lambda: s.states()[1][1] is BoardState.AWAY)
        with fluidnpu.connect(s.servers[1].url(), NAME) as npu:
            logits = npu.infer(images).outputs["logits"]
        exits = golden.early_exit(w.qnet, images)[0]
        stored = golden.run(w.qnet, images)
        for row, exit in enumerate(exits):
            assert np.array_equal(logits[row], np.float32(w.qnet.logits(exit, stored[exit])[row]))


def test_a_board_that_cannot_be_steered_now_may_be_later() -> None:
    said = status_of(BoardError("its admin surface must answer, and it does not"))
    assert (said.http, said.grpc, said.retry) == (503, "UNAVAILABLE", True)
