"""Every inference request leaves a span and a line that say how it ended, and neither where nobody asks."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_scripts
import grpc
import pytest
import tritonclient.grpc as triton_grpc
from host_worlds import PATIENCE_S, eventually
from oip_worlds import NAME, Served, served

from fluidnpu.host import DriverUsageError
from fluidnpu.host.fleet.boards.link import BoardLink
from fluidnpu.host.oip import spans_to
from fluidnpu.host.oip.observing.journal import Journal, Span
from fluidnpu.host.oip.observing.spans import OpenTelemetry
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer

TRACE_ID, ABOVE = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE = f"00-{TRACE_ID}-{ABOVE}-01"
INFER = f"/v2/models/{NAME}/infer"
TOLD = {"outcome", "exit", "left_because", "met", "batch", "queue_us", "npu_us"}


class Taking:
    """A tracer that keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.closed = 0

    def record(self, span: Span) -> None:
        self.spans.append(span)

    def close(self) -> None:
        self.closed += 1

    def last(self, count: int) -> Span:
        """The last of so many spans: the server notes a request when its answer is on the way."""
        eventually(lambda: len(self.spans) == count)
        return self.spans[-1]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Taking]]:
    taking = Taking()
    with served(tmp_path_factory.mktemp("spans"), surfaces={"spans": lambda: taking}) as s:
        yield s, taking
        assert taking.closed == 0
    assert taking.closed == 1


@pytest.fixture
def s(traced: tuple[Served, Taking]) -> Served:
    traced[1].spans.clear()
    return traced[0]


@pytest.fixture
def taking(traced: tuple[Served, Taking]) -> Taking:
    return traced[1]


def asked_over_grpc(s: Served) -> Any:
    images = s.w.images(1)
    asked = triton_grpc.service_pb2.ModelInferRequest(model_name=NAME, id="g")
    tensor = asked.inputs.add(name=s.input, datatype="UINT8", shape=images.shape)
    tensor.contents.uint_contents.extend(images.ravel().tolist())
    return asked


def test_a_request_over_rest_leaves_a_span(s: Served, taking: Taking) -> None:
    image = s.w.images(1)[0]
    status, answer = s.call("POST", INFER, s.request(image, id="r"), traceparent=TRACE)
    span = taking.last(1)
    assert (status, span.name, span.traceparent, span.failed) == (200, f"infer {NAME}", TRACE, "")
    assert 0 < span.end_ns - span.start_ns < PATIENCE_S * 1e9
    facts = {key.removeprefix("fluidnpu."): value for key, value in span.attributes.items()}
    assert facts == {"model": NAME, "request_id": "r", "tenant": "", "status": 200} | {
        key: answer["parameters"][key] for key in TOLD
    }
    assert facts["exit"] == s.golden(image[None])[0][0]


def test_requests_over_grpc_leave_spans_of_their_call_and_of_their_stream(s: Served, taking: Taking) -> None:
    with grpc.insecure_channel(s.grpc_place) as channel:
        stub = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(asked_over_grpc(s), metadata=(("traceparent", TRACE),))
        span = taking.last(1)
        assert (span.attributes["fluidnpu.status"], span.traceparent) == ("OK", TRACE)
        assert span.attributes["fluidnpu.exit"] == answer.parameters["exit"].int64_param
        stream = stub.ModelStreamInfer(iter([asked_over_grpc(s)]), metadata=(("traceparent", TRACE),))
        assert [answer.error_message for answer in stream] == [""]
        assert taking.last(2).traceparent == TRACE


def test_refusals_are_no_failures_of_the_server_and_bad_traces_are_none(s: Served, taking: Taking) -> None:
    assert s.call("POST", INFER, b"{", traceparent="x" * 55)[0] == 400
    span = taking.last(1)
    assert (span.name, span.attributes["error.type"], span.failed) == ("infer", "ProtocolError", "")
    assert span.traceparent == ""
    body = s.request(s.w.images(1)[0], parameters={"timeout": 1})  # of 1 us, which pass before it can begin
    status, answer = s.call("POST", INFER, body)
    span = taking.last(2)
    assert (status, span.attributes["error.type"], span.failed) == (504, answer["type"], answer["error"])


def test_a_call_that_the_client_withdraws_is_not_called_good(
    s: Served, taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def never(call: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(s.server.inference, "infer", never)
    with grpc.insecure_channel(s.grpc_place) as channel:
        waits = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(asked_over_grpc(s))
        assert begun.wait(PATIENCE_S)
        waits.cancel()
        assert taking.last(1).attributes["fluidnpu.status"] == "CANCELLED"


def test_lines_of_requests_say_the_same(s: Served, taking: Taking, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fluidnpu.requests"):
        s.call("POST", INFER, s.request(s.w.images(1)[0], id="l"), traceparent=TRACE)
        span = taking.last(1)
    (line,) = [vars(record) for record in caplog.records if record.name == "fluidnpu.requests"]
    assert {f"fluidnpu.{key}": line[key] for key in (*TOLD, "model", "request_id", "tenant", "status")} == dict(
        span.attributes
    )
    assert (line["traceparent"], line["ms"] > 0) == (TRACE, True)


def test_the_span_of_a_front_names_tenant_and_board() -> None:
    taking = Taking()
    call, answer = (
        Call(NAME, parameters={"tenant": "lab"}),
        ModelAnswer(NAME, "1", "", {}, {"board": "zc706-0", "odd": 1}),
    )
    Journal(taking).note(call, 200, time.perf_counter(), "", answer)
    facts = {"model": NAME, "request_id": "", "tenant": "lab", "status": 200, "board": "zc706-0"}
    assert taking.spans[0].attributes == {f"fluidnpu.{key}": value for key, value in facts.items()}


def test_a_front_passes_the_trace_on_to_its_boards(s: Served, taking: Taking) -> None:
    boards = [fleet_scripts.Scripted("a"), fleet_scripts.Scripted("b")]

    async def work(dispatcher: Any) -> None:
        asked = fleet_scripts.call(*range(9))
        asked.trace = TRACE
        await fleet_scripts.ask(dispatcher, asked)

    fleet_scripts.run(boards, work)
    assert [trace for board in boards for trace in board.traces] == [TRACE] * 3

    async def over_the_wire() -> None:
        link = BoardLink(s.grpc_place)
        try:
            await link.infer(asked_over_grpc(s), PATIENCE_S, TRACE)
            await link.infer(asked_over_grpc(s), PATIENCE_S)
        finally:
            await link.close()

    asyncio.run(over_the_wire())
    taking.last(2)
    assert [span.traceparent for span in taking.spans] == [TRACE, ""]


def test_nothing_is_noted_where_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = list[Any]()
    monkeypatch.setattr(Journal, "note", lambda self, *words: noted.append(words))
    with served(tmp_path, surfaces={"grpc": None}) as s:
        assert s.call("POST", INFER, s.request(s.w.images(1)[0]))[0] == 200
    assert noted == []


def test_spans_must_have_somewhere_to_go() -> None:
    for url in ("", "localhost:4318", "grpc://x", "http://", "http:// x"):
        with pytest.raises(DriverUsageError, match="spans must go to"):
            spans_to(url)


# -- OpenTelemetry itself, where it is installed -------------------------------------------------------------


def test_opentelemetry_has_the_span_below_the_clients(tmp_path: Path) -> None:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    with served(tmp_path, surfaces={"grpc": None, "spans": lambda: OpenTelemetry(SimpleSpanProcessor(memory))}) as s:
        body = s.request(s.w.images(1)[0])
        status, answer = s.call("POST", INFER, body, traceparent=TRACE)
        assert s.call("POST", INFER, body, traceparent=TRACE[:-1] + "0")[0] == status == 200  # not sampled
        late = json.dumps(json.loads(body) | {"parameters": {"timeout": 1}}).encode()
        assert s.call("POST", INFER, late)[0] == 504
    good, failed = memory.get_finished_spans()
    assert (f"{good.context.trace_id:032x}", f"{good.parent.span_id:016x}") == (TRACE_ID, ABOVE)
    assert (good.kind.name, good.status.status_code.name, failed.status.status_code.name) == (
        "SERVER",
        "UNSET",
        "ERROR",
    )
    assert {key: good.attributes[f"fluidnpu.{key}"] for key in TOLD} == {key: answer["parameters"][key] for key in TOLD}
    assert good.start_time < good.end_time
    assert failed.parent is None
