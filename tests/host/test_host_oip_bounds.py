"""Hostile bodies and clients: little work, little memory, no failure, and others are served on."""

import json
import resource
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from host_worlds import PATIENCE_S, eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oip_worlds import NAME, Served, patient, served

import fluidnpu
from fluidnpu.host.oip.admission import limits
from fluidnpu.host.oip.admission.budget import Budget, Holder
from fluidnpu.host.oip.admission.limits import PARSED_BYTES
from fluidnpu.host.oip.edges import grpc_edge, rest
from fluidnpu.host.oip.wire import http_body
from fluidnpu.host.oip.wire.calls import Bounds
from fluidnpu.host.oip.wire.http_body import check_json, read_call
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.parameters import PARAMETERS
from fluidnpu.host.serving import ProtocolError
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.tenants import changed, described
from fluidnpu.scheduler.tenants.tenant import KEYS

INFER = f"/v2/models/{NAME}/infer"
M = 1 << 20


def hostile(size: int) -> dict[str, bytes]:
    """Bodies of about `size` bytes each that cost a careless reader far more."""
    head = b'{"inputs":[{"name":"image","datatype":"UINT8","shape":[1,6,6,1],"data":'
    return {
        "one long string among short ones": head + b'["' + b"a" * size + b'"' + b',""' * 299 + b"]}]}",
        "empty lists": head + b"[" + b"[]," * (size // 3) + b"[]]}]}",
        "nested empty lists": head + b"[" * 400 + b"]" * 400 + b"," * size + b"}]}",
        "empty objects as inputs": b'{"inputs":[' + b"{}," * (size // 3) + b"{}]}",
        "floats": head + b"[" + b"1.5," * (size // 4) + b"1]}]}",
        "small ints": head + b"[" + b"1," * (size // 2) + b"1]}]}",
        "one giant int": head + b"[" + b"9" * size + b"]}]}",
        "giant ints": head + b"[" + (b"9" * 4000 + b",") * (size // 4000) + b"1]}]}",
        "one giant exponent": head + b"[1e" + b"9" * size + b"]}]}",
        "a giant shape": b'{"inputs":[{"name":"image","datatype":"FP64","shape":[' + b"9" * 4000 + b'],"data":[1]}]}',
        "long name echoed": json.dumps({"inputs": [{"name": "n" * size, "datatype": "UINT8", "shape": [2]}]}).encode(),
        "long datatype echoed": head.replace(b"UINT8", b"U" * size) + b"[1]}]}",
        "long output echoed": head + b'[1]}],"outputs":[{"name":"' + b"o" * size + b'"}]}',
        "long parameter echoed": b'{"inputs":[{}],"parameters":{"' + b"p" * size + b'":1}}',
        "many parameters": b'{"parameters":{'
        + b",".join(b'"p%d":0' % i for i in range(size // 12))
        + b'},"inputs":[]}',
        "many outputs": head
        + b'[1]}],"outputs":['
        + b",".join(b'{"name":"o%d"}' % i for i in range(size // 18))
        + b"]}",
        "a surrogate": head + b'["\\ud800"]}],"id":"\\ud800"}',
    }


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("bounds"), limits=patient(batch=4), surfaces={"admin": 0}) as one:
        yield one


def still_serves(s: Served) -> None:
    image = s.w.images(1)[0]
    status, said = s.call("POST", INFER, s.request(image))
    assert (status, said["outputs"][0]["data"]) == (200, s.golden(image[None])[1])


# -- bodies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", hostile(1))
def test_hostile_bodies_are_refused_in_one_short_sentence(s: Served, what: str) -> None:
    for size in (2_000, 60_000, 400_000):
        status, content, _ = s.exchange("POST", INFER, hostile(size)[what])
        assert status in (400, 413), content
        assert len(content) < 600
    still_serves(s)


def read(body: bytes, bounds: Bounds) -> None:
    """Read a body as the edge does."""
    check_json(body, None, bounds)
    read_call("m", "", body, None, bounds)


@pytest.mark.parametrize("what", hostile(1))
def test_hostile_bodies_take_no_more_memory_than_a_request_may(what: str) -> None:
    bounds = Bounds(elements=50_000, json_bytes=1_400_000, body_bytes=1_400_000)
    body = hostile(1_200_000)[what]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with pytest.raises(ProtocolError):
            read(body, bounds)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= 2 * (bounds.body_bytes + PARSED_BYTES * bounds.json_items)


def test_the_largest_good_request_passes_in_any_form(s: Served) -> None:
    images = np.random.default_rng(0).random(s.w.images(4).shape) / 3
    tensor = {"name": s.input, "datatype": "FP64", "shape": list(images.shape)}
    for data in (images.ravel().tolist(), images.tolist()):
        spaced = json.dumps({"inputs": [{**tensor, "data": data}]}, separators=(", \n", ": ")).encode()
        assert s.call("POST", INFER, spaced)[0] == 200
    eventually(lambda: s.server._held.held == 0)


def test_json_is_read_alike_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [json.dumps({"data": [0.5, 7, "a", None] * count}).encode() for count in (1, 10_000)]
    read_before = [http_body.read_json(body) for body in bodies]
    monkeypatch.setattr(http_body, "_loads", http_body._plainly)
    assert [http_body.read_json(body) for body in bodies] == read_before
    for wrong in (b"[NaN]", b'{"a": NaN}', b'{"a": ' + b"9" * 5000 + b"}", b"[" * 100_000, b"\xff"):
        with pytest.raises(ProtocolError, match="the body must be a JSON object"):
            http_body.read_json(wrong)


def test_a_good_body_may_be_longer_than_what_is_thrown_away(s: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "THROWN_BYTES", 16)
    body = s.request(s.w.images(1)[0])
    assert s.call("POST", INFER, body)[0] == 200
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:20], body[20:]))
    with connected(s, head + chunks + b"0\r\n\r\n") as one:
        assert one.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_body_without_a_length_is_bounded_too(s: Served) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    chunk = b"%x\r\n%s\r\n" % (60_000, b" " * 60_000)
    with connected(s, head + 4 * chunk + b"0\r\n\r\n") as one:
        said = b""
        while part := one.recv(65_536):
            said += part
    assert said.startswith(b"HTTP/1.1 413")
    assert b"bytes, not more" in said


@pytest.mark.parametrize("size", [2_000, 60_000])
def test_hostile_messages_are_refused(s: Served, size: int) -> None:
    def asked(datatype: str = "UINT8", **contents: Any) -> bytes:
        one = message("ModelInferRequest")(model_name=NAME)
        tensor = one.inputs.add(name=s.input, datatype=datatype, shape=(1, 6, 6, 1))
        for name, values in contents.items():
            getattr(tensor.contents, name).extend(values)
        return bytes(one.SerializeToString())

    many = message("ModelInferRequest")(model_name=NAME)
    for number in range(size // 40):
        many.inputs.add(name=f"n{number}", datatype="UINT8", shape=(1,))
    wide = message("ModelInferRequest")(model_name=NAME)
    wide.inputs.add(name=s.input, datatype="UINT8", shape=[2**62] * 8)
    named = message("ModelInferRequest")(model_name="m" * size)
    bad = (
        asked("BOOL", bool_contents=[True] * size),
        asked("UINT8", uint_contents=range(size)),
        asked("FP64", fp64_contents=[0.5] * (size // 8)),
        asked("UINT64", uint64_contents=[2**64 - 1] * (size // 10)),
        many.SerializeToString(),
        wide.SerializeToString(),
        named.SerializeToString(),
    )
    with grpc.insecure_channel(s.grpc_place) as channel:
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        for data in bad:
            with pytest.raises(grpc.RpcError) as caught:
                call(data, timeout=PATIENCE_S)
            assert caught.value.code().name in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "NOT_FOUND")
            assert len(caught.value.details()) < 600
    still_serves(s)


# -- any value in any parameter ------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(),
    st.integers(1, 400).map(lambda digits: 10**digits),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 5e-324, 1e308, 2**63, 2**64, -(10**400), True]),
)
EXPONENTS = st.tuples(st.sampled_from(["1e", "-1e", "-0e", "9" * 400 + "e"]), st.integers(-(10**20), 10**20))
CRITERIA = st.builds(
    lambda name, sign, number, unit: f"{name} {sign} {number[0]}{number[1]}{unit}",
    st.sampled_from(["slack", "confidence", "response_time", "exit_number", "energy"]),
    st.sampled_from(["<", ">", "=="]),
    EXPONENTS,
    st.sampled_from(["ns", "s", "%", "", "mJ"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, st.text(max_size=8), CRITERIA),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    max_leaves=6,
)
DRAWN = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(DRAWN, max_examples=3000)


def over_http(s: Served, values: dict[str, Any], **more: Any) -> None:
    status, content, _ = s.exchange("POST", INFER, s.request(s.w.images(1)[0], parameters=values, **more))
    assert status in (200, 400, 413, 503, 504), content
    assert len(content) < 2_000


PARAMETER = st.dictionaries(st.sampled_from([*PARAMETERS, "x"]), VALUES, min_size=1, max_size=2)


@DRAWN
@given(values=PARAMETER, id=VALUES)
def test_any_json_value_may_be_any_parameter(s: Served, values: dict[str, Any], id: Any) -> None:
    over_http(s, values)
    over_http(s, {}, id=id)


@pytest.mark.long
@LONG
@given(values=PARAMETER, id=VALUES)
def test_any_json_value_may_be_any_parameter_often(s: Served, values: dict[str, Any], id: Any) -> None:
    over_http(s, values)
    over_http(s, {}, id=id)


@pytest.mark.parametrize(
    "values",
    [
        {"slo_ms": 10**400},
        {"timeout": 10**400},
        {"timeout": -(10**400)},
        {"priority": 10**400},
        {"criteria": "slack < 1e-99999999999999999999ns"},
        {"criteria": "slack < -1e-99999999999999999999ns"},
        {"criteria": f"slack < {'9' * 400}ns"},
        {"tenant": ["a"] * 1000},
        {"anytime": {"a": {}}},
    ],
)
def test_numbers_of_any_size_are_no_failure(s: Served, values: dict[str, Any]) -> None:
    over_http(s, values)


def test_a_negative_zero_is_a_zero(s: Served) -> None:
    zero, negative = (s.model.criterion(f"slack < {sign}0ms") for sign in ("", "-"))
    assert (zero, zero.text) == (negative, negative.text)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "bool_param": st.booleans(),
    "int64_param": st.integers(-(2**63), 2**63 - 1),
}
FIELDS |= {"uint64_param": st.integers(0, 2**64 - 1), "double_param": st.floats(), "string_param": st.text(max_size=30)}
FIELD = st.sampled_from(list(FIELDS)).flatmap(lambda name: st.tuples(st.just(name), FIELDS[name]))


@DRAWN
@given(values=st.dictionaries(st.sampled_from([*PARAMETERS, "x"]), FIELD | st.none(), max_size=2))
def test_any_value_may_be_any_parameter_over_grpc(s: Served, values: dict[str, Any]) -> None:
    one = message("ModelInferRequest")(model_name=NAME)
    image = s.w.images(1)
    one.inputs.add(name=s.input, datatype="UINT8", shape=image.shape)
    one.raw_input_contents.append(image.tobytes())
    for name, value in values.items():
        if value is None:
            one.parameters[name].SetInParent()
        else:
            setattr(one.parameters[name], *value)
    with grpc.insecure_channel(s.grpc_place) as channel:
        try:
            channel.unary_unary(f"/{SERVICE}/ModelInfer")(one.SerializeToString(), timeout=PATIENCE_S)
        except grpc.RpcError as error:
            assert error.code().name in ("INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "UNAVAILABLE"), error  # noqa: PT017


CHANGES = {"exits": ("thresholds", "why"), "tenants": ("criteria", "tenants"), "feedback": ("truths",)}


@DRAWN
@given(data=st.data(), what=st.sampled_from([*CHANGES, "index"]))
def test_any_json_value_may_be_any_change(s: Served, data: st.DataObject, what: str) -> None:
    early = s.model.bundle.program.exits[0].name
    inner = st.one_of(
        VALUES,
        st.dictionaries(st.sampled_from([early, "x"]), VALUES, max_size=2),
        st.lists(st.fixed_dictionaries({"request": NUMBERS, "label": NUMBERS}), max_size=2),
    )
    keys = st.sampled_from([*CHANGES.get(what, ("ready",)), "x"])
    body = data.draw(st.one_of(st.dictionaries(keys, inner, max_size=2), VALUES))
    path = "/v2/repository/index" if what == "index" else f"/v2/models/{NAME}/{what}"
    status, content, _ = s.exchange("POST", path, json.dumps(body).encode(), "admin")
    assert status in (200, 400, 409), content
    assert len(content) < 2_000


@settings(max_examples=200, deadline=None)
@given(row=st.dictionaries(st.sampled_from([*KEYS, "x"]), VALUES | st.from_regex(r"[0-9]{1,400}(ms|s)"), max_size=3))
def test_any_json_value_may_be_any_key_of_a_tenant(row: dict[str, Any]) -> None:
    try:
        tenant = changed("doors", {"share": 0.5, **row})
    except SchedulerError as error:
        assert "tenant 'doors'" in str(error)  # noqa: PT017  -- most are refused, and some are not
        return
    described(tenant)


# -- budgets -------------------------------------------------------------------------------------------------


class Client(Holder):
    def __init__(self, address: str, *, idle: bool) -> None:
        super().__init__(address)
        self._idle, self.gone = idle, False

    @property
    def idle(self) -> bool:
        return self._idle

    def evict(self) -> None:
        assert self._idle
        self.gone = True


STEP = st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(1, 6), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_a_budget_is_kept_and_takes_from_those_with_most(steps: list[tuple[str, bool, int, bool]]) -> None:
    budget, clients = Budget("places", lambda: 10), list[tuple[Client, int]]()

    def sums() -> dict[str, int]:
        return {name: sum(n for one, n in clients if one.address == name and not one.gone) for name in "abc"}

    for address, idle, amount, leave in steps:
        if leave and clients:
            budget.drop(clients.pop(0)[0])
        before, client = sums(), Client(address, idle=idle)
        taken = budget.take(client, amount)
        lost = [one for one, _ in clients if one.gone]
        assert all(one.address == address or before[one.address] >= sums()[address] + amount for one in lost)
        clients = [(one, n) for one, n in clients if not one.gone]
        if taken:
            clients.append((client, amount))
        assert budget.held == sum(n for _, n in clients) <= 10
    for one, _ in clients:
        budget.drop(one)
    assert (budget.held, budget.holders()) == (0, [])


# -- slow clients --------------------------------------------------------------------------------------------


def connected(s: Served, data: bytes, surface: str = "http", source: str = "127.0.0.1") -> socket.socket:
    place = ("127.0.0.1", s.server.ports[surface])
    one = socket.create_connection(place, PATIENCE_S, (source, 0))
    one.sendall(data)
    return one


def from_another(s: Served) -> int:
    """The status of a good request from another address."""
    connection = HTTPConnection("127.0.0.1", s.server.ports["http"], PATIENCE_S, ("127.0.0.2", 0))
    connection.request("POST", INFER, s.request(s.w.images(1)[0]))
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def half(size: int, sent: int) -> bytes:
    return f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b" " * sent


@pytest.mark.parametrize(
    "data", [b"", b"GET /v2 HTTP/1.1\r\n", half(1000, 1)], ids=["idle", "half a head", "half a body"]
)
def test_many_connections_of_an_address_shut_nobody_out(tmp_path: Path, data: bytes) -> None:
    bounds = patient(connections=6)
    with served(tmp_path, limits=bounds, surfaces={"grpc": None}) as s, ExitStack() as kept:
        mine = kept.enter_context(fluidnpu.connect(s.url, NAME))
        mine.infer(s.w.images(1))
        for _ in range(20):
            kept.enter_context(connected(s, data))
        assert from_another(s) == 200
        open_now = s.server._arriving[0]
        eventually(lambda: open_now.held <= 6)
        assert open_now.evicted >= 14


def test_unfinished_bodies_hold_a_bounded_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEAST_HELD_BYTES", 0)
    with served(tmp_path, surfaces={"grpc": None}) as s, ExitStack() as kept:
        inference, held = s.server.inference, s.server._held
        assert inference is not None
        size = inference.bounds(NAME).body_bytes
        for _ in range(12):
            kept.enter_context(connected(s, half(size, size - 1)))
        eventually(lambda: held.evicted + held.refused >= 8)
        assert held.held <= limits.held_bytes(inference.bounds()) == 4 * size
        assert from_another(s) == 200
        said = kept.enter_context(connected(s, half(size, size - 1)))
        for _ in range(4):
            kept.enter_context(connected(s, half(size, size - 1)))
        assert said.recv(100).startswith(b"HTTP/1.1 429")


def stalled(channel: Any, release: threading.Event) -> Any:
    """A call whose message does not come before the release."""

    def nothing() -> Iterator[bytes]:
        release.wait(PATIENCE_S)
        yield from ()

    return channel.stream_unary(f"/{SERVICE}/ModelInfer").future(nothing(), timeout=PATIENCE_S)


def test_messages_that_stall_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_edge, "STALLED_S", 0.05)
    release = threading.Event()
    with served(tmp_path, limits=patient(reading=2)) as s, grpc.insecure_channel(s.grpc_place) as channel:
        calls = [stalled(channel, release) for _ in range(2)]
        reading = s.server._arriving[0]
        eventually(lambda: reading.held == 2)
        channel.unary_unary(f"/{SERVICE}/ServerLive")(b"", timeout=PATIENCE_S)
        eventually(lambda: any(call.done() for call in calls))
        ended = next(call for call in calls if call.done())
        assert ended.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        release.set()


def test_stopping_waits_for_no_half_sent_request(tmp_path: Path) -> None:
    release, began = threading.Event(), time.monotonic()
    with ExitStack() as kept:
        with served(tmp_path) as s:
            channel = kept.enter_context(grpc.insecure_channel(s.grpc_place))
            for data in (b"GET /v2 HTTP/1.1\r\n", half(1000, 1), half(1000, 0)):
                kept.enter_context(connected(s, data))
            call = stalled(channel, release)
            eventually(lambda: s.server._arriving[-1].held == 3)
            eventually(lambda: s.server._arriving[0].held == 1)
        assert time.monotonic() - began < PATIENCE_S / 2, "nobody waited for what does not come"
        release.set()
        assert call.code() in (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.CANCELLED,
        )


# -- long: what a process feels ------------------------------------------------------------------------------


@pytest.mark.long
def test_hostile_bodies_of_megabytes_cost_a_process_little(tmp_path: Path) -> None:
    with served(tmp_path, surfaces={"grpc": None}) as s:
        worst, ended = [0.0], threading.Event()

        def neighbour() -> None:
            while not ended.wait(0.02):
                began = time.monotonic()
                assert s.call("GET", "/v2/health/live")[0] == 200
                worst[0] = max(worst[0], time.monotonic() - began)

        bodies = hostile(8 * M)
        watching = threading.Thread(target=neighbour)
        watching.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for body in bodies.values():
            assert s.exchange("POST", INFER, body)[0] in (400, 413)
        ended.set()
        watching.join(PATIENCE_S)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
        assert worst[0] < PATIENCE_S / 10
