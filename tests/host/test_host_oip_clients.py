"""Standard clients of the protocol against a served network: tritonclient over HTTP and gRPC, curl, and
ours.
"""

import asyncio
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from host_worlds import PATIENCE_S
from oip_worlds import NAME, Served, served
from tritonclient import grpc as triton_grpc
from tritonclient import http as triton_http
from tritonclient.grpc import aio as triton_grpc_aio

import fluidnpu
from fluidnpu.host.oip.wire import messages
from fluidnpu.host.serving import ExpiredError, ProtocolError, RemoteError

PROTO = Path(messages.__file__).with_name("inference.proto")


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), surfaces={"admin": 0, "admin_grpc": 0}) as one:
        yield one


def http_input(s: Served, images: Any, *, binary: bool = True) -> Any:
    made = triton_http.InferInput(s.input, images.shape, "UINT8")
    made.set_data_from_numpy(images, binary_data=binary)
    return made


def grpc_input(s: Served, images: Any) -> Any:
    made = triton_grpc.InferInput(s.input, images.shape, "UINT8")
    made.set_data_from_numpy(images)
    return made


def check_arrays(s: Served, images: Any, result: Any) -> None:
    exits, classes = s.golden(images)
    assert result.as_numpy("label").tolist() == classes
    assert result.as_numpy("exit").tolist() == exits
    assert (result.as_numpy("logits").argmax(axis=1) == classes).all()


# -- tritonclient over HTTP ----------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_triton_http(s: Served, binary: bool) -> None:
    images = s.w.images(5)
    with triton_http.InferenceServerClient(s.place) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(NAME)
        assert client.is_model_ready(NAME, "1")
        assert client.get_server_metadata()["name"] == "fluidnpu"
        assert client.get_model_metadata(NAME)["inputs"][0]["shape"] == [-1, *images.shape[1:]]
        outputs = [triton_http.InferRequestedOutput(n, binary_data=binary) for n in ("label", "exit", "logits")]
        result = client.infer(
            NAME, [http_input(s, images, binary=binary)], outputs=outputs, request_id="a-7", timeout=3_600_000_000
        )
        check_arrays(s, images, result)
        said = result.get_response()
        assert said["id"] == "a-7"
        assert said["parameters"]["outcome"] == "exit"
        assert said["parameters"]["exit"] == max(s.golden(images)[0])
        ns = s.w.design.latency.ns  # one by one and out at the first exit, or all at once to the end
        assert ns[0][0] // 1000 <= said["parameters"]["npu_us"] <= sum(row[-1] for row in ns) // 1000
        check_arrays(s, images, client.infer(NAME, [http_input(s, images)], parameters={"slo_ms": 500.0}, priority=1))
        counted = client.get_inference_statistics(NAME)["model_stats"][0]
        assert counted["inference_count"] >= 10
        assert counted["execution_count"] == sum(row["compute_infer"]["count"] for row in counted["batch_stats"])


def test_statistics_count_requests_where_triton_does(s: Served) -> None:
    def counted() -> tuple[int, ...]:
        row = s.call("GET", f"/v2/models/{NAME}/stats")[1]["model_stats"][0]
        stats = row["inference_stats"]
        assert stats["queue"]["count"] == stats["compute_infer"]["count"] == stats["success"]["count"]
        return row["inference_count"], stats["success"]["count"], stats["fail"]["count"], stats["success"]["ns"]

    before = counted()
    with fluidnpu.connect(s.url, NAME) as npu:
        npu.infer(s.w.images(5))
        with pytest.raises(ProtocolError):
            npu.infer(s.w.images(1)[:, :2])
    assert s.call("POST", f"/v2/models/{NAME}/infer", b"{")[0] == 400
    assert s.call("POST", "/v2/models/other/infer", b"{")[0] == 404
    after = counted()
    assert [b - a for a, b in zip(before, after, strict=True)][:3] == [5, 1, 2]
    assert after[3] > before[3]


def test_triton_http_async(s: Served) -> None:
    images = s.w.images(24)
    with triton_http.InferenceServerClient(s.place, concurrency=8) as client:
        asked = [client.async_infer(NAME, [http_input(s, images[i : i + 1])]) for i in range(24)]
        for i, one in enumerate(asked):
            check_arrays(s, images[i : i + 1], one.get_result())


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_triton_http_compressed(s: Served, coding: str) -> None:
    images = s.w.images(5)
    with triton_http.InferenceServerClient(s.place) as client:
        for binary in (True, False):
            asked = [http_input(s, images, binary=binary)]
            check_arrays(s, images, client.infer(NAME, asked, request_compression_algorithm=coding))


def test_parameters_of_others_are_passed_by(s: Served) -> None:
    images, others = s.w.images(2), {"mine": "x" * 4096, "weight": -1.5, "flag": True}
    with triton_http.InferenceServerClient(s.place) as client:
        asked = client.infer(NAME, [http_input(s, images)], sequence_id=7, sequence_start=True, parameters=others)
        check_arrays(s, images, asked)
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        asked = client.infer(NAME, [grpc_input(s, images)], sequence_id="seven", sequence_end=True, parameters=others)
        check_arrays(s, images, asked)


def test_triton_http_errors_are_sentences(s: Served) -> None:
    images = s.w.images(1)
    with triton_http.InferenceServerClient(s.place) as client:
        with pytest.raises(Exception, match="a model of this server must be one of small, not 'nope'"):
            client.infer("nope", [http_input(s, images)])
        with pytest.raises(Exception, match="must have the shape"):
            client.infer(NAME, [http_input(s, images[:, :-1])])
        with pytest.raises(Exception, match="admin surface"):
            client.load_model(NAME)
    with triton_http.InferenceServerClient(s.server.url("admin").removeprefix("http://")) as admin:
        assert [one["state"] for one in admin.get_model_repository_index()] == ["READY"]
        admin.load_model(NAME)
        check_arrays(s, images, admin.infer(NAME, [http_input(s, images)]))


# -- tritonclient over gRPC ----------------------------------------------------------------------------------


def test_triton_grpc(s: Served) -> None:
    images = s.w.images(6)
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(NAME)
        assert client.get_server_metadata().name == "fluidnpu"
        assert list(client.get_model_metadata(NAME).inputs[0].shape) == [-1, *images.shape[1:]]
        result = client.infer(NAME, [grpc_input(s, images)], request_id="g", priority=2, parameters={"slo_ms": 300})
        check_arrays(s, images, result)
        response = result.get_response()
        assert response.id == "g"
        assert response.parameters["outcome"].string_param == "exit"
        assert response.parameters["batch"].int64_param >= 1
        only = client.infer(NAME, [grpc_input(s, images)], outputs=[triton_grpc.InferRequestedOutput("label")])
        assert [one.name for one in only.get_response().outputs] == ["label"]
        assert client.get_inference_statistics(NAME).model_stats[0].inference_count >= 12
        assert client.get_model_repository_index().models[0].state == "READY"
        with pytest.raises(triton_grpc.InferenceServerException, match="must be one of small, not 'nope'") as caught:
            client.infer("nope", [grpc_input(s, images)])
        assert "NOT_FOUND" in str(caught.value.status())
        with pytest.raises(triton_grpc.InferenceServerException, match="admin surface") as caught:
            client.unload_model(NAME)
        assert "PERMISSION_DENIED" in str(caught.value.status())
        with pytest.raises(triton_grpc.InferenceServerException) as caught:
            client.get_log_settings()
        assert "UNIMPLEMENTED" in str(caught.value.status())


def test_triton_grpc_streams_by_id(s: Served) -> None:
    """Answers come in the order in which their exits are decided; the id says whose each is."""
    images, answers = s.w.images(40), queue.Queue[Any]()
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for i in range(40):
            client.async_stream_infer(NAME, [grpc_input(s, images[i : i + 1])], request_id=str(i))
        client.async_stream_infer("nope", [grpc_input(s, images[:1])], request_id="wrong")
        found: dict[str, Any] = {}
        failed = []
        for _ in range(41):
            result, error = answers.get(timeout=PATIENCE_S)
            if error is not None:
                failed.append(str(error))
            else:
                found[result.get_response().id] = result
        client.stop_stream()
    assert len(failed) == 1
    assert "UnknownModelError" in failed[0]
    assert sorted(found, key=int) == [str(i) for i in range(40)]
    for i in range(40):
        check_arrays(s, images[i : i + 1], found[str(i)])


def test_triton_grpc_async(s: Served) -> None:
    images, done = s.w.images(12), queue.Queue[Any]()
    with triton_grpc.InferenceServerClient(s.grpc_place) as client:
        for i in range(12):
            client.async_infer(
                NAME,
                [grpc_input(s, images[i : i + 1])],
                callback=lambda result, error: done.put((result, error)),
                request_id=str(i),
            )
        for _ in range(12):
            result, error = done.get(timeout=PATIENCE_S)
            assert error is None
            i = int(result.get_response().id)
            check_arrays(s, images[i : i + 1], result)


def test_triton_grpc_aio(s: Served) -> None:
    images = s.w.images(8)

    async def all_at_once() -> list[Any]:
        async with triton_grpc_aio.InferenceServerClient(s.grpc_place) as client:
            return await asyncio.gather(
                *(client.infer(NAME, [grpc_input(s, images[i : i + 1])]) for i in range(len(images)))
            )

    for i, result in enumerate(asyncio.run(all_at_once())):
        check_arrays(s, images[i : i + 1], result)


# -- the protocol's own description --------------------------------------------------------------------------


def test_the_compiled_file_is_that_of_the_proto(tmp_path: Path) -> None:
    from grpc_tools import protoc

    out = tmp_path / "protoset"
    assert protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", PROTO.name]) == 0
    assert out.read_bytes() == PROTO.with_suffix(".protoset").read_bytes()


def test_every_message_is_tritons() -> None:
    """Names, numbers, types and labels of all our fields are those of the descriptors that tritonclient
    ships.
    """
    theirs = descriptor_pool.Default()
    files = descriptor_pb2.FileDescriptorSet.FromString(PROTO.with_suffix(".protoset").read_bytes())
    (file,) = files.file
    compared = 0

    def compare(ours: Any, prefix: str) -> None:
        nonlocal compared
        other = theirs.FindMessageTypeByName(f"{prefix}.{ours.name}")
        for field in ours.field:
            found = other.fields_by_name[field.name]
            assert (found.number, found.type, found.label) == (field.number, field.type, field.label), field.name
            oneof = found.containing_oneof.name if found.containing_oneof is not None else None
            assert oneof == (ours.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None)
            if field.type_name:
                assert (found.message_type or found.enum_type).full_name == field.type_name.removeprefix(".")
            compared += 1
        for inner in ours.nested_type:
            compare(inner, f"{prefix}.{ours.name}")

    for one in file.message_type:
        compare(one, file.package)
    for kind in file.enum_type:
        values = theirs.FindEnumTypeByName(f"{file.package}.{kind.name}").values_by_name
        assert {value.name: value.number for value in kind.value} == {name: values[name].number for name in values}
    assert compared > 100
    service = theirs.FindServiceByName(messages.SERVICE)
    for method in file.service[0].method:
        found = service.methods_by_name[method.name]
        assert found.input_type.full_name == method.input_type.removeprefix(".")
        assert found.output_type.full_name == method.output_type.removeprefix(".")


def test_one_process_may_hold_both_descriptors() -> None:
    ours = messages.message("ModelInferRequest")(model_name="m")
    assert triton_grpc.service_pb2.ModelInferRequest.FromString(ours.SerializeToString()).model_name == "m"


def test_tritons_configuration_over_both_transports(s: Served) -> None:
    """perf_analyzer asks for it, and sends nothing to a server that has none."""
    with triton_http.InferenceServerClient(s.place) as client:
        http = client.get_model_config(NAME)
    grpc = triton_grpc.InferenceServerClient(s.grpc_place).get_model_config(NAME, as_json=True)["config"]
    shape = list(s.w.images(1).shape[1:])
    assert http["input"] == [{"name": s.input, "data_type": "TYPE_UINT8", "dims": shape}]
    assert http["max_batch_size"] == grpc["max_batch_size"] == s.server.options.limits.batch
    assert [one["name"] for one in http["output"]] == [one["name"] for one in grpc["output"]]
    assert [int(size) for size in grpc["input"][0]["dims"]] == shape
    metadata = s.call("GET", f"/v2/models/{NAME}")[1]
    assert [[-1, *one["dims"]] for one in http["output"]] == [one["shape"] for one in metadata["outputs"]]
    assert s.call("GET", "/v2/models/nobody/config")[0] == 404


# -- curl and raw HTTP ---------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(s: Served, tmp_path: Path) -> None:
    image = s.w.images(1)[0]
    (tmp_path / "request.json").write_bytes(s.request(image, id="c", outputs=[{"name": "label"}]))
    words = ["curl", "-s", "-X", "POST", "-d", f"@{tmp_path}/request.json", f"{s.url}/v2/models/{NAME}/infer"]
    said = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=PATIENCE_S).stdout)
    assert said["id"] == "c"
    assert [(one["name"], one["data"]) for one in said["outputs"]] == [("label", s.golden(image[None])[1])]


def test_a_trace_goes_through(s: Served) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body, path = s.request(s.w.images(1)[0]), f"/v2/models/{NAME}/infer"
    assert s.exchange("POST", path, body, traceparent=trace)[2]["traceparent"] == trace
    assert "traceparent" not in s.exchange("POST", path, body, traceparent="x" * 55)[2]
    call = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub
    with grpc.insecure_channel(s.grpc_place) as channel:
        asked = triton_grpc.service_pb2.ModelInferRequest(model_name=NAME)
        one = asked.inputs.add(name=s.input, datatype="UINT8", shape=s.w.images(1).shape)
        one.contents.uint_contents.extend(s.w.images(1).ravel().tolist())
        answer, done = call(channel).ModelInfer.with_call(asked, metadata=(("traceparent", trace),))
    assert answer.outputs[0].name == "label"
    assert dict(done.trailing_metadata())["traceparent"] == trace


# -- our client ----------------------------------------------------------------------------------------------


def test_three_lines(s: Served) -> None:
    images = s.w.images(4)
    exits, classes = s.golden(images)
    with fluidnpu.connect(s.url) as npu:
        answer = npu.infer(images[0], slo_ms=200, id="mine")
        assert (answer.prediction, answer.exit, answer.id) == (classes[0], exits[0], "mine")
        assert answer.confidence == pytest.approx(answer.parameters["confidence"])
        assert npu.infer(images).outputs["label"].tolist() == classes
        assert npu.ready()
        assert npu.statistics()["name"] == NAME


def test_threads_share_a_client(s: Served) -> None:
    images = s.w.images(60)
    _, classes = s.golden(images)
    with fluidnpu.connect(s.url, NAME) as npu, ThreadPoolExecutor(6) as pool:
        assert [one.prediction for one in pool.map(npu.infer, images)] == classes


def test_errors_come_back_as_their_classes(s: Served) -> None:
    image = s.w.images(1)[0]
    with fluidnpu.connect(s.url) as npu:
        with pytest.raises(ProtocolError, match="'slo_ms' must be"):
            npu.infer(image, slo_ms=-1)
        with pytest.raises(ProtocolError, match="must have the shape"):
            npu.infer(image[:-1])
        with pytest.raises(ExpiredError, match="passed in the queue"):
            npu.infer(np.stack([image] * 30), timeout_ms=0.001)
    with pytest.raises(RemoteError, match="no answer came from"):
        fluidnpu.connect("http://127.0.0.1:9")
    with pytest.raises(ValueError, match="must be named as"):
        fluidnpu.connect("ftp://here")


def test_a_client_survives_a_closed_connection(s: Served) -> None:
    with fluidnpu.connect(s.url) as npu:
        npu.ready()
        connection = npu._local.connection
        connection.sock.shutdown(2)
        assert npu.ready()


def test_many_clients_of_both_kinds_get_one_answer_each(s: Served) -> None:
    images = s.w.images(60)
    _, classes = s.golden(images)
    found: dict[int, int] = {}

    def over_http(start: int) -> None:
        with fluidnpu.connect(s.url) as npu:
            for i in range(start, start + 15):
                found[i] = npu.infer(images[i]).prediction

    def over_grpc(start: int) -> None:
        with triton_grpc.InferenceServerClient(s.grpc_place) as client:
            for i in range(start, start + 15):
                found[i] = int(client.infer(NAME, [grpc_input(s, images[i : i + 1])]).as_numpy("label")[0])

    threads = [
        threading.Thread(target=kind, args=(start,))
        for start, kind in ((0, over_http), (15, over_grpc), (30, over_http))
    ]
    threads.append(threading.Thread(target=over_grpc, args=(45,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [found[i] for i in range(60)] == classes
