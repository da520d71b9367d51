"""gRPC's own services beside the protocol's: health, which probes ask, and reflection, which grpcurl asks."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from host_worlds import PATIENCE_S
from oip_worlds import NAME, Served, served

from fluidnpu.host.oip.edges import health
from fluidnpu.host.oip.edges.grpc_edge import HEALTH, REFLECTING
from fluidnpu.host.oip.wire.messages import SERVICE

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "token").write_text(TOKEN)
    with served(folder, surfaces={"token_file": folder / "token"}) as one:
        yield one


@pytest.fixture
def channel(s: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(s.grpc_place) as made:
        yield made


def bytes_of(made: Any) -> bytes:
    return bytes(made.SerializeToString())


def checked(channel: grpc.Channel, service: str) -> str:
    """The status of a service, asked as grpc_health_probe and Kubernetes do: without a token."""
    kind = health_pb2.HealthCheckResponse
    call = channel.unary_unary(f"/{HEALTH}/Check", bytes_of, kind.FromString)
    said = call(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
    return str(kind.ServingStatus.Name(said.status))


def watch(channel: grpc.Channel, service: str) -> tuple[Any, Callable[[], str]]:
    """A call that watches, and what gives its next status."""
    kind = health_pb2.HealthCheckResponse
    call = channel.unary_stream(f"/{HEALTH}/Watch", bytes_of, kind.FromString)
    said = call(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
    return said, lambda: str(kind.ServingStatus.Name(next(said).status))


@pytest.mark.parametrize("service", ["", SERVICE, NAME])
def test_a_probe_asks_for_the_server_or_a_model(channel: grpc.Channel, service: str) -> None:
    assert checked(channel, service) == "SERVING"


def test_a_probe_of_an_unknown_model_is_refused(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError, match="must be one of small, not 'nobody'") as caught:
        checked(channel, "nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_watcher_hears_of_every_change(s: Served, channel: grpc.Channel) -> None:
    one, status = watch(channel, NAME)
    other, unknown = watch(channel, "nobody")
    assert (status(), unknown()) == ("SERVING", "SERVICE_UNKNOWN")
    s.model.unload()
    assert status() == checked(channel, NAME) == "NOT_SERVING"
    assert checked(channel, "") == "SERVING", "what was unloaded by hand is not waited for"
    s.model.load()
    assert status() == "SERVING"
    one.cancel()
    other.cancel()


def test_a_stop_tells_watchers_and_does_not_wait_for_them(tmp_path: Path) -> None:
    with served(tmp_path) as s, grpc.insecure_channel(s.grpc_place) as channel:
        watching, status = watch(channel, "")
        assert status() == "SERVING"
        heard: list[str] = []
        listener = threading.Thread(
            target=lambda: heard.extend(
                health_pb2.HealthCheckResponse.ServingStatus.Name(each.status) for each in watching
            )
        )
        listener.start()
        assert s.server.inference is not None
        s.server.inference.draining = True
        listener.join(PATIENCE_S)
        assert (heard, watching.code()) == (["NOT_SERVING"], grpc.StatusCode.OK)


def test_a_newer_watcher_has_the_place_of_an_idle_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluidnpu.host.oip.edges.grpc_edge.WATCHERS", 1)
    monkeypatch.setattr("fluidnpu.host.oip.edges.grpc_edge.STALLED_S", 0.0)
    with served(tmp_path) as s, grpc.insecure_channel(s.grpc_place) as channel:
        old, status = watch(channel, "")
        assert status() == "SERVING"
        new, newer = watch(channel, "")
        assert newer() == "SERVING"
        with pytest.raises(grpc.RpcError, match="a newer one has this place"):
            list(old)
        assert old.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        new.cancel()
    assert health.WATCHERS > 1


def reflect(channel: grpc.Channel, service: str, *asked: dict[str, str], token: str = TOKEN) -> list[Any]:
    response = reflection_pb2.ServerReflectionResponse
    call = channel.stream_stream(f"/{service}/ServerReflectionInfo", bytes_of, response.FromString)
    requests = iter([reflection_pb2.ServerReflectionRequest(**one) for one in asked])
    return list(call(requests, timeout=PATIENCE_S, metadata=(("authorization", f"Bearer {token}"),)))


@pytest.mark.parametrize("service", REFLECTING)
def test_reflection_describes_every_service_and_message(channel: grpc.Channel, service: str) -> None:
    (said,) = reflect(channel, service, {"list_services": "*"})
    names = [each.name for each in said.list_services_response.service]
    assert set(names) == {SERVICE, HEALTH, REFLECTING[0]}
    symbols = [*names, f"{SERVICE}.ModelInfer", "inference.ModelInferRequest.InferInputTensor"]
    for symbol, answer in zip(
        symbols, reflect(channel, service, *({"file_containing_symbol": each} for each in symbols)), strict=True
    ):
        (file,) = map(
            descriptor_pb2.FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto
        )
        assert symbol.startswith(file.package)
        (again,) = reflect(channel, service, {"file_by_filename": file.name})
        assert again.file_descriptor_response == answer.file_descriptor_response


@pytest.mark.parametrize(
    "asked",
    [
        {"file_containing_symbol": "no.Such"},
        {"file_by_filename": "none.proto"},
        {"all_extension_numbers_of_type": "x"},
        {},
    ],
)
def test_what_reflection_does_not_know_is_an_error_inside_the_stream(
    channel: grpc.Channel, asked: dict[str, str]
) -> None:
    wrong, right = reflect(channel, REFLECTING[0], asked, {"list_services": ""})
    code = grpc.StatusCode.NOT_FOUND if asked else grpc.StatusCode.INVALID_ARGUMENT
    assert wrong.error_response.error_code == code.value[0]
    assert right.list_services_response.service


def test_reflection_wants_the_token(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError, match="must carry this server's token"):
        reflect(channel, REFLECTING[0], {"list_services": ""}, token="wrong")
