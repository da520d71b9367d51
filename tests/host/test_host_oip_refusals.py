"""Malformed requests: one sentence, the right status, and a server that goes on."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from campaigns.malformed import send_malformed
from host_worlds import PATIENCE_S, eventually
from hypothesis import given, settings
from hypothesis import strategies as st
from oip_worlds import NAME, Served, patient, served

from fluidnpu.host.oip.admission.limits import OTHER_BYTES
from fluidnpu.host.oip.interface import input_of
from fluidnpu.host.oip.wire.calls import Bounds, Call, ModelAnswer, read_wishes
from fluidnpu.host.oip.wire.http_body import read_call, write_answer
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import DTYPES, from_bytes, from_contents, from_list
from fluidnpu.host.serving import ProtocolError, TooLargeError

INFER = f"/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = patient(batch=4)
    with served(tmp_path_factory.mktemp("refusals"), limits=limits) as one:
        yield one


def still_serves(s: Served) -> None:
    image = s.w.images(1)[0]
    status, said = s.call("POST", INFER, s.request(image))
    assert status == 200
    assert said["outputs"][0]["data"] == s.golden(image[None])[1]


def changed(s: Served, **change: Any) -> bytes:
    """A good request with one part of its tensor, or of itself, changed."""
    raw = json.loads(s.request(s.w.images(1)[0]))
    for key, value in change.items():
        (raw["inputs"][0] if key in ("name", "datatype", "shape", "data") else raw)[key] = value
    return json.dumps(raw).encode()


CASES: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "nobody"}, 400, "must have the input"),
    ({"name": ""}, 400, "must have a name"),
    ({"name": 7}, 400, "must have a name"),
    ({"datatype": "FP99"}, 400, "datatype of UINT8, FP16, BF16, FP32 or FP64"),
    ({"datatype": "BYTES"}, 400, "datatype of UINT8, FP16, BF16, FP32 or FP64"),
    ({"datatype": None}, 400, "datatype of UINT8, FP16, BF16, FP32 or FP64"),
    ({"datatype": "INT32"}, 400, "datatype of UINT8, FP16, BF16, FP32 or FP64, not 'INT32'"),
    ({"datatype": "INT16"}, 400, "not 'INT16'"),
    ({"datatype": "BOOL"}, 400, "not 'BOOL'"),
    ({"datatype": ["UINT8"]}, 400, "datatype of UINT8"),
    ({"data": [300]}, 400, "elements for shape"),
    ({"shape": [1, 2]}, 400, "elements for shape [1, 2]"),
    ({"shape": []}, 400, "1 to 8 dimensions"),
    ({"shape": [-1, 6, 6, 1]}, 400, "whole numbers from 0"),
    ({"shape": [1.0, 6, 6, 1]}, 400, "whole numbers from 0"),
    ({"shape": "big"}, 400, "dimensions"),
    ({"shape": [10**9, 10**9]}, 413, "at most"),
    ({"shape": [10**19]}, 413, "at most"),
    ({"data": None}, 400, "as a list"),
    ({"data": [[1, 2], [3]]}, 400, "regular list"),
    ({"data": ["a"]}, 400, "numbers in a regular list"),
    ({"data": [{"a": 1}]}, 400, "numbers in a regular list"),
    ({"data": [10**30]}, 400, "tensor"),
    ({"inputs": []}, 400, "must have inputs"),
    ({"inputs": {}}, 400, "list of objects"),
    ({"inputs": [1]}, 400, "list of objects"),
    ({"outputs": [{"name": "nothing"}]}, 400, "an output must be one of label"),
    ({"outputs": [{"name": []}]}, 400, "must have a name"),
    ({"outputs": [{"name": "label", "parameters": {"classification": 3}}]}, 400, "must be of the output 'logits'"),
    ({"outputs": [{"name": "logits", "parameters": {"classification": 0}}]}, 400, "a number of classes from 1, not 0"),
    ({"outputs": [{"name": "logits", "parameters": {"classification": True}}]}, 400, "a number of classes from 1"),
    ({"outputs": [{"name": "label", "parameters": {"binary_data": 1}}]}, 400, "true or false"),
    ({"parameters": []}, 400, "'parameters' must be an object"),
    ({"parameters": {"slo_ms": -3}}, 400, "'slo_ms' must be"),
    ({"parameters": {"slo_ms": 0}}, 400, "'slo_ms' must be"),
    ({"parameters": {"slo_ms": 1e300}}, 400, "'slo_ms' must be"),
    ({"parameters": {"slo_ms": True}}, 400, "'slo_ms' must be"),
    ({"parameters": {"slo_ms": "20"}}, 400, "'slo_ms' must be"),
    ({"parameters": {"slo_msec": 20}}, 400, "did you mean 'slo_ms'"),
    ({"parameters": {"sequence_id": [1]}}, 400, "'sequence_id' must be true, false, a number"),
    ({"parameters": {"sequence_id": None}}, 400, "'sequence_id' must be true, false, a number"),
    ({"parameters": {"sequence_id": 1 << 63}}, 400, "of 64 bits"),
    ({"parameters": {"note": "\ud800"}}, 400, ""),
    ({"parameters": {"note": "x" * 4097}}, 400, "at most 4096 characters"),
    ({"parameters": {"a\nb": 1}}, 400, "a parameter must be one of"),
    ({"parameters": {"timeout": 1.5}}, 400, "'timeout' must be"),
    ({"parameters": {"timeout": -1}}, 400, "'timeout' must be"),
    ({"parameters": {"priority": 9}}, 400, "'priority' must be"),
    ({"parameters": {"priority": -1}}, 400, "'priority' must be"),
    ({"parameters": {"anytime": "yes"}}, 400, "'anytime' must be"),
    ({"id": 5}, 400, "an id must be"),
    ({"id": "x" * 300}, 400, "an id must be"),
    ({"id": "a\nb"}, 400, "an id must be"),
]


@pytest.mark.parametrize(("change", "status", "said"), CASES, ids=lambda value: str(value)[:40])
def test_a_wrong_request_is_refused_in_one_sentence(s: Served, change: dict[str, Any], status: int, said: str) -> None:
    found, body = s.call("POST", INFER, changed(s, **change))
    assert (found, set(body)) == (status, {"error", "type"}), body
    assert said in body["error"]
    assert "\n" not in body["error"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"", {}, 400, "must have inputs"),
        (b"{", {}, 400, "must be a JSON object"),
        (b"[1]", {}, 400, "must be a JSON object, not list"),
        (b'{"inputs": NaN}', {}, 400, "must be a JSON object"),
        (b'{"inputs": ' + b"[" * 4000, {}, 400, "must be a JSON object"),
        (b"\xff\xfe", {}, 400, "must be a JSON object"),
        (b"1" * 5000, {}, 400, "must be a JSON object"),
        (b"x" * 200_001, {}, 413, "a body must have at most"),
        (b"{}", {"Content_Encoding": "br"}, 400, "gzip, deflate or identity, not 'br'"),
        (b"{}", {"Content_Encoding": "gzip"}, 400, "the body must be gzip"),
        (gzip.compress(b"{}", mtime=0)[:-1], {"Content_Encoding": "gzip"}, 400, "its end is missing"),
        (zlib.compress(b"{}") + b"x", {"Content_Encoding": "deflate"}, 400, "more came behind it"),
        (gzip.compress(bytes(20 << 20), mtime=0), {"Content_Encoding": "gzip"}, 413, "this one opens to more"),
        (b"{}", {"Inference_Header_Content_Length": "3"}, 400, "must lie in the body of 2 bytes"),
        (b"{}", {"Inference_Header_Content_Length": "-3"}, 400, "whole number"),
        (b"{}", {"Inference_Header_Content_Length": "9" * 400}, 400, "whole number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_body_is_refused(s: Served, body: bytes, headers: dict[str, str], status: int, said: str) -> None:
    found, answer = s.call("POST", INFER, body, **headers)
    assert found == status
    assert said in answer["error"]


def test_binary_tensors_must_fill_the_body(s: Served) -> None:
    image = s.w.images(1)
    good = image.tobytes()
    tensor = {"name": s.input, "datatype": "UINT8", "shape": list(image.shape)}

    def send(size: Any, raw: bytes, **more: Any) -> tuple[int, Any]:
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": size}, **more}]}).encode()
        return s.call("POST", INFER, head + raw, Inference_Header_Content_Length=str(len(head)))

    assert send(len(good), good)[0] == 200
    for size, data, said in (
        (len(good), good[:-1], "the bytes that came"),
        (len(good) - 1, good[:-1], "must hold"),
        (len(good), good + b"x", "left over"),
        (-1, good, "binary_data_size"),
        ("all", good, "binary_data_size"),
        (True, good, "binary_data_size"),
    ):
        status, answer = send(size, data)
        assert status == 400
        assert said in answer["error"]
    assert "it has both" in send(len(good), good, data=[1])[1]["error"]


def test_floats_that_are_no_numbers_are_refused(s: Served) -> None:
    image = s.w.images(1).astype(np.float32) / 255
    for worst in (np.nan, np.inf):
        image[0, 0, 0, 0] = worst
        data = image.tobytes()
        tensor = {
            "name": s.input,
            "datatype": "FP32",
            "shape": list(image.shape),
            "parameters": {"binary_data_size": len(data)},
        }
        head = json.dumps({"inputs": [tensor]}).encode()
        status, answer = s.call("POST", INFER, head + data, Inference_Header_Content_Length=str(len(head)))
        assert status == 400
        assert answer["type"] == "DriverUsageError"


def test_too_many_samples_in_one_request(s: Served) -> None:
    images = s.w.images(5)
    tensor = {"name": s.input, "datatype": "UINT8", "shape": list(images.shape), "data": images.ravel().tolist()}
    status, answer = s.call("POST", INFER, json.dumps({"inputs": [tensor]}).encode())
    assert (status, answer["type"]) == (413, "TooLargeError")
    tensor |= {"shape": [0, *images.shape[1:]], "data": []}
    assert "at least one sample" in s.call("POST", INFER, json.dumps({"inputs": [tensor]}).encode())[1]["error"]


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/v2/models/nope", 404),
        ("GET", f"/v2/models/{NAME}/versions/2", 404),
        ("POST", f"/v2/models/{NAME}/versions/2/infer", 404),
        ("GET", "/v2/models/nope/ready", 404),
        ("GET", "/v2/models/nope/stats", 404),
        ("GET", "/nothing", 404),
        ("GET", "/v2/", 404),
        ("GET", INFER, 405),
        ("DELETE", "/v2", 405),
        ("POST", f"/v2/repository/models/{NAME}/unload", 403),
        ("GET", "/%ff%fe/..%2f..%2fetc/passwd", 404),
    ],
)
def test_other_paths_and_methods(s: Served, verb: str, path: str, status: int) -> None:
    found, body = s.call(verb, path)
    assert found == status
    assert isinstance(body["error"], str)


def test_the_index_wants_an_object(s: Served) -> None:
    assert s.call("POST", "/v2/repository/index", b'{"ready": true}')[1][0]["name"] == NAME
    assert s.call("POST", "/v2/repository/index", b'{"ready": "yes"}')[0] == 400
    assert s.call("POST", "/v2/repository/index", b"[]")[0] == 400


# -- slow and broken clients ---------------------------------------------------------------------------------


def talk(s: Served, *parts: bytes, close: bool = False) -> bytes:
    """Send bytes on a connection of one's own and read until the server closes it."""
    with socket.create_connection(("127.0.0.1", s.server.ports["http"]), timeout=PATIENCE_S) as one:
        for part in parts:
            one.sendall(part)
        if close:
            one.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while part := one.recv(65_536):
                said += part
        except ConnectionResetError:
            pass
        return said


def test_slow_clients_are_let_go(tmp_path: Path) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n".encode()
    ended = head + b"Connection: close\r\n\r\n"
    with served(tmp_path, limits=patient(head_s=0.1), surfaces={"grpc": None}) as s:
        assert talk(s) == b""  # says nothing
        assert talk(s, head) == b""  # never ends its head
    with served(tmp_path, limits=patient(body_s=0.1), surfaces={"grpc": None}) as s:
        said = talk(s, ended, b"{")  # never ends its body
        assert said.startswith(b"HTTP/1.1 408")
        assert b"within 0.1 s" in said
        body = s.request(s.w.images(1)[0])
        good = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        eventually(lambda: talk(s, good + body).startswith(b"HTTP/1.1 200"))  # all of it at once is quick


def test_a_head_without_end_is_cut(s: Served) -> None:
    assert b"200 OK" not in talk(s, b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 18))
    still_serves(s)


def test_half_open_and_killed_clients(s: Served) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode()
    for parts in ((head,), (head, b"{}"), (b"",), (b"\0" * 40,), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",)):
        talk(s, *parts, close=True)
    body = s.request(s.w.images(1)[0])
    whole = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    for _ in range(5):  # gone before the answer
        with socket.create_connection(("127.0.0.1", s.server.ports["http"]), timeout=PATIENCE_S) as one:
            one.sendall(whole)
    still_serves(s)


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_broken_requests(s: Served, count: int) -> None:
    """The module's own command sends 100,000."""
    found = send_malformed(s.server, NAME, input_of(s.model.bundle.program), count)
    assert (found.crashes, found.stuck, found.good) == (0, 0, count // 100)
    assert sum(found.http.values()) + sum(found.grpc.values()) == count
    assert found.http["400"] > 10
    assert found.grpc["INVALID_ARGUMENT"] > 10
    still_serves(s)


def test_a_message_above_the_limit(s: Served) -> None:
    with grpc.insecure_channel(s.grpc_place) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{SERVICE}/ModelInfer")(bytes(OTHER_BYTES + 1), timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    still_serves(s)


BOUNDS = Bounds(elements=100, json_bytes=1000, body_bytes=1000)

# -- the pure parts ------------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.integers(-(10**20), 10**20), st.floats(), st.booleans())
TREES = st.recursive(st.one_of(NUMBERS, st.text(max_size=3), st.none()), lambda inner: st.lists(inner, max_size=4))


@settings(max_examples=60, deadline=None)
@given(datatype=st.sampled_from([*DTYPES, "BYTES", ""]), shape=st.lists(st.integers(-2, 5), max_size=4), data=TREES)
def test_lists_become_what_they_say_or_are_refused(datatype: str, shape: list[int], data: Any) -> None:
    try:
        array = from_list("x", datatype, shape, data)
    except ProtocolError:
        return
    assert array.dtype == DTYPES[datatype]
    assert list(array.shape) == shape
    if array.dtype.kind in "iu":
        assert array.ravel().tolist() == np.array(data).ravel().tolist()


@settings(max_examples=60, deadline=None)
@given(body=st.binary(max_size=300), head=st.none() | st.integers(-3, 400))
def test_any_bytes_are_a_call_or_refused(body: bytes, head: int | None) -> None:
    try:
        read_call("m", "", body, head, BOUNDS)
    except ProtocolError:
        return


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["slo_ms", "timeout", "priority", "anytime", "x"]), TREES, max_size=3))
def test_any_parameters_are_wishes_or_refused(parameters: dict[str, Any]) -> None:
    try:
        wishes = read_wishes(parameters)
    except ProtocolError:
        return
    assert wishes.slo_ns is None or wishes.slo_ns >= 1
    assert wishes.timeout_ns is None or wishes.timeout_ns >= 1_000


@pytest.mark.parametrize("datatype", DTYPES)
def test_bytes_and_contents_round_trip(datatype: str) -> None:
    array = np.array([[0, 1], [1, 0]], DTYPES[datatype])
    assert (from_bytes("x", datatype, [2, 2], array.tobytes()) == array).all()
    assert (from_list("x", datatype, [2, 2], array.tolist()) == array).all()
    contents = message("InferTensorContents")()
    if datatype == "FP16":
        with pytest.raises(ProtocolError, match="raw bytes"):
            from_contents("x", datatype, (2, 2), contents)
        return
    fields = {"BOOL": "bool", "FP32": "fp32", "FP64": "fp64", "INT64": "int64", "UINT64": "uint64"}
    kind = fields.get(datatype, "uint" if datatype.startswith("U") else "int")
    getattr(contents, f"{kind}_contents").extend(array.ravel().tolist())
    assert (from_contents("x", datatype, (2, 2), contents) == array).all()


def test_huge_shapes_cost_nothing() -> None:
    with pytest.raises(TooLargeError):
        from_bytes("x", "FP64", [1 << 20, 1 << 20], b"")


def test_what_json_cannot_say_of_a_number_is_null() -> None:
    """An output that a sample lacks is NaN, which no strict reader of JSON takes."""
    answer = ModelAnswer("m", "1", "", {"boxes": np.array([[1.5, np.nan], [np.inf, 2]], np.float32)}, {})
    text, _ = write_answer(answer, Call("m"))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert json.loads(text, parse_constant=refuse)["outputs"][0]["data"] == [1.5, None, None, 2]


def test_an_answer_is_json_or_binary() -> None:
    answer = ModelAnswer("m", "1", "", {"a": np.array([1.5], np.float32), "b": np.array([2], np.int32)}, {"exit": 0})
    text, head = write_answer(answer, Call("m"))
    assert (head, [one["data"] for one in json.loads(text)["outputs"]]) == (None, [[1.5], [2]])
    mixed, head = write_answer(answer, Call("m", binary={"b": True}))
    assert head is not None
    assert mixed[head:] == np.array([2], np.int32).tobytes()
