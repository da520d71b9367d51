"""Every request has one fate, whatever is combined: drawn worlds, held to the property of `flight_worlds`."""

from __future__ import annotations

import json
import socket
from collections import Counter
from concurrent.futures import CancelledError, wait
from pathlib import Path

import numpy as np
import pytest
from flight_worlds import FEATURES, Draw, Flown, drawn
from host_worlds import HOUR_NS, PATIENCE_S, HeldClock, eventually, world
from oip_worlds import NAME, bundle_of, served
from tritonclient import grpc as triton_grpc

from fluidnpu.host import QueueFullError, Server, SimulatedNpu, WallClock
from fluidnpu.host.serving import ModelOptions
from fluidnpu.host.serving.model import Model
from fluidnpu.scheduler import make_policy
from fluidnpu.scheduler.simulation import Terms
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant

MS = 10**6
GAPS = tuple(np.random.default_rng(5).integers(0, 2500, 23).tolist())
LATE = ":anytime=50%"


@pytest.mark.parametrize("block", range(4))
def test_drawn_worlds_keep_every_promise(block: int, tmp_path: Path) -> None:
    for seed in range(30 * block, 30 * (block + 1)):
        Flown(drawn(seed), tmp_path).check()


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
def test_five_thousand_drawn_worlds_keep_every_promise(block: int, tmp_path: Path) -> None:
    for seed in range(1000 + 100 * block, 1000 + 100 * (block + 1)):
        Flown(drawn(seed), tmp_path).check()


def test_draws_meet_every_pair_of_features() -> None:
    """The property is only as good as its draws."""
    pairs = Counter[frozenset[str]]()
    for seed in range(1000, 3000):
        on = [name for name in FEATURES if getattr(drawn(seed), name)]
        pairs.update(frozenset((a, b)) for a in on for b in on if a < b)
    alone = {"inactive", "changes", "shadows"}  # of a network that is alone
    for a in FEATURES:
        for b in FEATURES:
            if a < b and not ("networks" in (a, b) and alone & {a, b}):
                assert pairs[frozenset((a, b))] >= 8, (a, b)


@pytest.mark.parametrize(
    "draw",
    [
        Draw(gaps_ns=GAPS, inactive=(0,), anytime=1),
        Draw(gaps_ns=GAPS, inactive=(0,), tenants=True, wrapper=LATE),
        Draw(gaps_ns=GAPS, inactive=(0, 1), wrapper=LATE),
        Draw(gaps_ns=GAPS, inactive=(0, 1, 2), shadows=True, anytime=2, guarded=True, faults=(2, 5, 6)),
    ],
    ids=["no answer to take", "tenants", "the log", "all at once"],
)
def test_inactive_exits_take_nothing_from_anybody(draw: Draw, tmp_path: Path) -> None:
    Flown(draw, tmp_path).check()


# -- who leaves is not served, who hurries is ----------------------------------------------------------------


def test_requests_whose_clients_leave_are_not_computed() -> None:
    """Eight hundred wait, and their 45 clients leave while the first batch is on the NPU."""
    clock = HeldClock()
    w = world(3, clock=clock, millis=True, exits=1)
    images = w.images(8)
    server = Server(w.driver, make_policy("greedy"))
    clients = [[server.submit(images[k % 8], Terms(slo_ns=HOUR_NS)) for k in range(18)] for _ in range(45)]
    with server:
        eventually(lambda: clock.sleeps_until_ns is not None)
        gone = [future for client in clients for future in client if future.cancel()]
        last = server.submit(images[0], Terms(slo_ns=HOUR_NS))
        clock.let_go()
        assert last.result(PATIENCE_S).met
        assert all(future.cancelled() for future in gone)
        with pytest.raises(CancelledError):
            gone[0].result()
        eventually(lambda: server.waiting == 0)
    assert w.npu.jobs == 2, "the batch that ran as they left, and the last one's"
    assert (len(gone), server.answered, server.left) == (810, 1, 810 - w.design.b_max)


def test_answers_are_told_although_all_that_would_follow_have_left() -> None:
    clock = HeldClock()
    w = world(3, clock=clock, millis=True, exits=1)
    server = Server(w.driver, make_policy("greedy"))
    futures = [server.submit(image, Terms(slo_ns=HOUR_NS)) for image in w.images(3 * w.design.b_max)]
    with server:
        eventually(lambda: clock.sleeps_until_ns is not None)  # the first batch runs
        first, later = futures[: w.design.b_max], futures[w.design.b_max :]
        assert all(future.cancel() for future in later)
        clock.let_go()
        assert [future.result(PATIENCE_S).exit for future in first] == [0] * w.design.b_max
    assert (server.answered, server.left) == (len(first), len(later))


def test_an_urgent_request_is_answered_within_two_batches() -> None:
    clock = HeldClock()
    w = world(3, clock=clock, millis=True, exits=1)
    order: list[str] = []
    server = Server(w.driver, make_policy("greedy"))
    image = w.images(1)[0]
    crowd = [server.submit(image, Terms(slo_ns=HOUR_NS)) for _ in range(500)]
    for future in crowd:
        future.add_done_callback(lambda _: order.append("crowd"))
    with server:
        eventually(lambda: clock.sleeps_until_ns is not None)  # the first batch runs
        urgent = server.submit(image, Terms(slo_ns=HOUR_NS, priority=-3))
        urgent.add_done_callback(lambda _: order.append("urgent"))
        clock.let_go()
        assert urgent.result(PATIENCE_S).exit == 0
        for future in crowd:
            future.cancel()
    assert order.index("urgent") < 2 * w.design.b_max


def test_a_tenant_within_its_share_finds_room_beside_a_flood() -> None:
    w = world(3, clock=WallClock(), millis=True, exits=1)
    tenancy = Tenancy(tenants=(Tenant(name="flood", share=0.5), Tenant(name="door", share=0.25)))
    server = Server(w.driver, Shared(tenancy, "greedy"), queue_limit=100)
    image = w.images(1)[0]
    for name, room in (("flood", 50), ("door", 25), ("", 25)):  # those of no tenant have what is left
        terms = Terms(slo_ns=HOUR_NS, tenant=name)
        for _ in range(room):
            server.submit(image, terms)
        with pytest.raises(QueueFullError, match=f"{room} requests of tenant '{name}' wait"):
            server.submit(image, terms)
    assert server.waiting == 100
    server.close()


def test_who_leaves_while_a_model_is_loaded_is_not_served(tmp_path: Path) -> None:
    w = world(3)
    bundle_of(w, tmp_path)
    model = Model("m", tmp_path, ModelOptions())
    model.load()
    server = model.server
    with model._gate:
        model._held = []
    futures = [model.submit(image) for image in w.images(4)]
    assert futures[0].cancel()
    model._let_in()
    done, _ = wait(futures, PATIENCE_S)
    assert len(done) == 4
    assert [future.cancelled() for future in futures] == [True, False, False, False]
    assert server.answered == 3
    model.close()


def test_connections_that_close_and_calls_that_end_take_their_requests_along(tmp_path: Path) -> None:
    """Over HTTP 45 clients ask for 18 images each and leave, over gRPC one takes its call back."""
    clock = HeldClock()
    with served(tmp_path, policy="greedy", warm=False, opened=lambda b: SimulatedNpu(b.design, clock=clock)) as s:
        server, images = s.model.server, s.w.images(18)
        data = images.ravel().tolist()
        tensor = {"name": s.input, "datatype": "UINT8", "shape": list(images.shape), "data": data}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST /v2/models/{NAME}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        place = ("127.0.0.1", s.server.ports["http"])
        clients = [socket.create_connection(place, timeout=PATIENCE_S) for _ in range(45)]
        for client in clients:
            client.sendall(head + body)
        eventually(lambda: server.waiting == 45 * 18)
        asked = triton_grpc.InferInput(s.input, (1, *images[0].shape), "UINT8")
        asked.set_data_from_numpy(images[:1])
        with triton_grpc.InferenceServerClient(s.grpc_place) as caller:
            called = caller.async_infer(NAME, [asked], lambda result, error: None)
            eventually(lambda: server.waiting == 45 * 18 + 1)
            called.cancel()
            eventually(lambda: server._leavers)
        for client in clients:
            client.close()
        eventually(lambda: len(server._leavers) == 45 * 18 + 1)
        clock.let_go()
        eventually(lambda: server.waiting == 0)
        assert s.model.statistics is not None
        assert s.model.statistics.answered <= s.w.design.b_max  # the batch that ran as they left
        assert server.left >= 45 * 18 + 1 - s.w.design.b_max
