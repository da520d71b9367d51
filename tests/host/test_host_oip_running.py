"""The life of a server: start, tokens, TLS, limits, admin, metrics, page, reload under load, drain."""

import json
import logging
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from host_worlds import PATIENCE_S, eventually, world
from oip_worlds import NAME, Served, bundle_of, patient, served
from prometheus_client.parser import text_string_to_metric_families
from tritonclient import grpc as triton_grpc

import fluidnpu
from fluidnpu.host import DriverUsageError, QueueFullError, SimulatedNpu, WallClock
from fluidnpu.host.oip import ServeOptions, configure_logging, in_background
from fluidnpu.host.oip.observing.logs import JsonLines
from fluidnpu.host.serving import AccessError, ModelOptions, Models, ModelUnavailableError, named_folders
from fluidnpu.host.serving.model import Model

INFER = f"/v2/models/{NAME}/infer"
ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(world(3, loaded=False), tmp_path_factory.mktemp("bundle"))


def adaptive(tmp_path: Path, **options: Any) -> Any:
    """A server whose policy waits for company: requests stay unanswered for as long as a test wants."""
    return served(tmp_path, policy="adaptive:timeout=3600s", **options)


def in_threads(calls: list[Any]) -> list[Any]:
    def run(call: Any) -> Any:
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


# -- health, metrics, page -----------------------------------------------------------------------------------


def test_metrics_count_what_was_served(tmp_path: Path) -> None:
    with served(tmp_path) as s, fluidnpu.connect(s.url) as npu:
        for image in s.w.images(12):
            npu.infer(image)
        text = s.exchange("GET", "/metrics")[1].decode()
        found = {
            (one.name, tuple(sorted(one.labels.items()))): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        }
        exits = s.golden(s.w.images(12))[0]

        def value(name: str, **labels: str) -> float:
            return found[name, tuple(sorted({"model": NAME, **labels}.items()))]

        assert value("fluidnpu_requests_total", outcome="exit") == 12
        for exit in (0, 1):
            assert value("fluidnpu_latency_seconds_count", exit=str(exit)) == exits.count(exit)
            assert value("fluidnpu_latency_seconds_bucket", exit=str(exit), le="+Inf") == exits.count(exit)
        runs = [v for (name, _), v in found.items() if name == "fluidnpu_runs_total"]
        assert sum(runs) >= 12
        assert 0 < value("fluidnpu_busy_share") <= 1
        assert value("fluidnpu_queue_requests") == value("fluidnpu_slots_held") == 0
        assert any(name == "fluidnpu_latency_drift_ratio" for name, _ in found)
        page = s.call("GET", "/live.json")[1]["models"][0]
        assert page["answered"] == 12
        assert sum(page["by_exit"]) == 12
        assert len(page["recent"]) == 12
        assert page["recent_us"]["p50"] > 0


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    with served(tmp_path, surfaces={"grpc": None}) as s:
        status, content, headers = s.exchange("GET", "/")
        assert status == 200
        assert headers["content-security-policy"].startswith("default-src 'self'")
        text = content.decode().replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
        assert not re.search(r"""(?:src|href)=["']|https?://|@import|url\(""", text)
        assert "live.json" in text
        document = s.call("GET", "/openapi.json")[1]
        assert document["openapi"] == "3.1.0"
        assert f"{'/v2/models/{name}/infer'}" in document["paths"]


def test_a_hung_device_is_not_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class Hanging(SimulatedNpu):
        def wait_interrupt(self, deadline_ns: int) -> bool:
            assert released.wait(PATIENCE_S)
            return super().wait_interrupt(deadline_ns)

    monkeypatch.setattr(Model, "_longest_s", lambda self: 0.1)
    with served(tmp_path, warm=False, opened=lambda bundle: Hanging(bundle.design, clock=WallClock())) as s:
        assert s.call("GET", "/v2/health/live")[0] == 200
        thread = threading.Thread(target=s.call, args=("POST", INFER, s.request(s.w.images(1)[0])))
        thread.start()
        eventually(lambda: s.call("GET", "/v2/health/live")[0] == 503)
        assert s.call("GET", "/v2/health/live") == (503, {"live": False})
        assert s.call("GET", "/v2/health/ready")[0] == 503
        assert s.call("GET", f"/v2/models/{NAME}/ready")[0] == 503
        released.set()
        thread.join(PATIENCE_S)
        assert s.call("GET", "/v2/health/live")[0] == 200


# -- limits --------------------------------------------------------------------------------------------------


def test_a_full_queue_says_when_to_come_again(tmp_path: Path) -> None:
    with adaptive(tmp_path, queue=2, limits=patient(queue=2)) as s:
        image = s.w.images(1)[0]
        with fluidnpu.connect(s.url) as npu:
            background = [threading.Thread(target=npu.infer, args=(image,), daemon=True) for _ in range(2)]
            for thread in background:
                thread.start()
            eventually(lambda: s.model.server.waiting == 2)
            status, _, headers = s.exchange("POST", INFER, s.request(image))
            assert (status, headers["retry-after"]) == (429, "1")
            with pytest.raises(QueueFullError, match="2 requests wait"):
                npu.infer(image)
            one = triton_grpc.InferInput(s.input, (1, *image.shape), "UINT8")
            one.set_data_from_numpy(image[None])
            with (
                triton_grpc.InferenceServerClient(s.grpc_place) as client,
                pytest.raises(triton_grpc.InferenceServerException, match="2 requests") as caught,
            ):
                client.infer(NAME, [one])
            assert "RESOURCE_EXHAUSTED" in str(caught.value.status())
            s.model.server.close()
            for thread in background:
                thread.join(PATIENCE_S)


def test_connections_are_bounded(tmp_path: Path) -> None:
    with served(tmp_path, limits=patient(connections=3), surfaces={"grpc": None}) as s:
        place = ("127.0.0.1", s.server.ports["http"])
        held = [HTTPConnection(*place, timeout=PATIENCE_S) for _ in range(4)]
        for one in held:
            one.request("GET", "/v2/health/live")
            assert json.loads(one.getresponse().read()) == {"live": True}
        places = [one.sock for one in held]
        assert select.select(places, [], [], PATIENCE_S)[0] == places[:1], "the fourth has the place of an idle one"
        assert places[0].recv(10) == b""
        assert s.server._arriving[0].held == 3
        for one in held:
            one.close()


def test_a_client_that_goes_takes_its_queued_request_along(tmp_path: Path) -> None:
    with served(tmp_path, opened=lambda b: SimulatedNpu(b.design, clock=WallClock())) as s:
        server = s.model.server
        body = s.request(s.w.images(1)[0])
        head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", s.server.ports["http"]), timeout=PATIENCE_S) as one:
                one.sendall(head + body)
        eventually(lambda: server.waiting == 0)


# -- access --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    words += [
        "-keyout",
        str(key),
        "-out",
        str(cert),
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run(words, check=True, capture_output=True)
    return cert, key


def test_tokens_over_tls(tmp_path: Path, certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    cert, key = certificate
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    surfaces = {"certificate": cert, "key": key, "token_file": tmp_path / "token"}
    with served(tmp_path, surfaces=surfaces) as s:
        assert s.url.startswith("https://")
        image = s.w.images(1)
        with fluidnpu.connect(s.url, token=TOKEN, ca_file=cert) as npu:
            assert npu.infer(image[0]).prediction == s.golden(image)[1][0]
        with pytest.raises(AccessError, match="must carry this server's token"):
            fluidnpu.connect(s.url, token="wrong", ca_file=cert)
        context = ssl.create_default_context(cafile=cert)
        plain = socket.create_connection(("127.0.0.1", s.server.ports["http"]))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as one:
            one.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")  # a probe needs none
            assert one.recv(65_536).startswith(b"HTTP/1.1 200")
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(s.grpc_place, credentials) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ServerMetadata")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
            with pytest.raises(grpc.RpcError, match="must carry this server's token"):
                next(stream(iter(()), timeout=PATIENCE_S))
            lines = [record.message for record in caplog.records if record.name.endswith(".access")]
            assert [line.split()[0] for line in lines[-2:]] == ["ServerMetadata", "ModelStreamInfer"]
            assert b"fluidnpu" in call(b"", timeout=PATIENCE_S, metadata=(("authorization", f"Bearer {TOKEN}"),))
            assert channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=PATIENCE_S)


def test_a_token_must_be_hard_to_guess(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    options = ServeOptions(http=0, grpc=None, token_file=tmp_path / "token")
    with pytest.raises(DriverUsageError, match="at least 16"), in_background(one_model(bundle), options):
        pass


def one_model(bundle: Path, **options: Any) -> Models:
    return Models({NAME: bundle}, ModelOptions(**options))


def test_ports_in_use(bundle: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for surface in ("http", "grpc"):
            options = ServeOptions(**{"http": None, "grpc": None, surface: port})
            with pytest.raises(DriverUsageError, match="port must be free"), in_background(one_model(bundle), options):
                pass
    with (
        pytest.raises(DriverUsageError, match="UNIX sockets, and it has none"),
        in_background(one_model(bundle), ServeOptions(http=None, grpc=None)),
    ):
        pass
    elsewhere = ServeOptions(host="no.such.host.invalid", http=0, grpc=None)
    with pytest.raises(DriverUsageError, match="address of this machine"), in_background(one_model(bundle), elsewhere):
        pass


def test_the_admin_surface_loads_and_unloads(tmp_path: Path) -> None:
    with served(tmp_path, surfaces={"admin": 0, "grpc": None}) as s:
        image = s.w.images(1)[0]
        with fluidnpu.connect(s.server.url("admin")) as admin, fluidnpu.connect(s.url) as npu:
            admin.unload()
            assert not npu.ready()
            with pytest.raises(ModelUnavailableError, match="unloaded"):
                npu.infer(image)
            assert s.call("POST", "/v2/repository/index")[1][0]["state"] == "UNAVAILABLE"
            admin.load()
            assert npu.infer(image).prediction == s.golden(image[None])[1][0]
            with pytest.raises(AccessError, match="admin surface"):
                npu.load()
        body = b'{"parameters": {"config": "{}"}}'
        assert s.exchange("POST", f"/v2/repository/models/{NAME}/load", body, "admin")[0] == 501
        (s.model.folder / "program.bin").write_bytes(b"?")
        status, content, _ = s.exchange("POST", f"/v2/repository/models/{NAME}/load", b"{}", "admin")
        assert status == 400
        assert "digest" in json.loads(content)["error"]
        assert s.call("POST", INFER, s.request(image))[0] == 200


# -- reload, drain, stop -------------------------------------------------------------------------------------


def test_a_reload_over_the_network_loses_nothing(tmp_path: Path) -> None:
    with served(tmp_path, surfaces={"admin": 0, "grpc": None}) as s:
        images = s.w.images(20)
        _, classes = s.golden(images)

        answered, reloaded = list[int](), threading.Event()

        def client(start: int) -> None:
            with fluidnpu.connect(s.url) as npu:
                while not reloaded.is_set():
                    at = (start + len(answered)) % 20
                    assert npu.infer(images[at]).prediction == classes[at]
                    answered.append(at)

        def reload() -> None:
            try:
                with fluidnpu.connect(s.server.url("admin")) as admin:
                    for count in range(15, 90, 15):
                        eventually(lambda count=count: len(answered) >= count)  # type: ignore[misc]
                        admin.load()
            finally:
                reloaded.set()

        assert in_threads([lambda: client(0), lambda: client(7), reload]) == [None] * 3
        assert s.model.loads == 6


def test_stopping_answers_what_was_taken(tmp_path: Path) -> None:
    released = threading.Event()

    class Held(SimulatedNpu):
        def wait_interrupt(self, deadline_ns: int) -> bool:
            assert released.wait(PATIENCE_S)
            return super().wait_interrupt(deadline_ns)

    def opened(bundle: Any) -> SimulatedNpu:
        return Held(bundle.design, clock=WallClock())

    with served(tmp_path, warm=False, opened=opened) as s:
        images = s.w.images(3)
        _, classes = s.golden(images)
        found: dict[int, int] = {}

        def client(i: int) -> None:
            with fluidnpu.connect(s.url) as npu:
                found[i] = npu.infer(images[i]).prediction

        threads = [threading.Thread(target=client, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        eventually(lambda: s.model.server.waiting == 3)
        inference = s.server.inference

        def release() -> None:
            eventually(lambda: inference is not None and inference.draining)
            released.set()

        threads.append(threading.Thread(target=release))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [found[i] for i in range(3)] == classes


def started(bundle: Path, *words: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """`fluidnpu serve` in a process of its own, and what it said at its start."""
    command = [
        sys.executable,
        "-c",
        "from fluidnpu.cli import main; main()",
        "serve",
        f"{NAME}={bundle}",
        "--json",
        *words,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return process, json.loads(line)


def test_the_command_serves_until_sigterm(bundle: Path, tmp_path: Path) -> None:
    words = ("--http", "0", "--grpc", "0", "--decisions", str(tmp_path / "log"), "--log-requests", "--slo", "3600s")
    process, said = started(bundle, *words)
    try:
        assert said["models"][0]["name"] == NAME
        with fluidnpu.connect(said["urls"]["http"]) as npu:
            images = world(3, loaded=False).images(6)
            labels = [npu.infer(image, id=f"r{i}").prediction for i, image in enumerate(images)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == {"stopped": True, "answered": {NAME: 6}}
    lines = [json.loads(line) for line in err.splitlines()]
    requests = [one for one in lines if one["message"] == "request"]
    assert [one["request_id"] for one in requests] == [f"r{i}" for i in range(6)]
    for one in requests:
        assert (one["outcome"], one["met"], one["tenant"], one["batch"]) == ("exit", True, "", 1)
        assert one["exit"] in (0, 1)
        assert one["npu_us"] >= 0
        assert one["queue_us"] >= 0
    assert len(labels) == 6
    replayed = subprocess.run(
        [
            sys.executable,
            "-c",
            "from fluidnpu.cli import main; main()",
            "simulate",
            "--json",
            "--replay",
            str(tmp_path / "log" / f"{NAME}.jsonl"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert json.loads(replayed.stdout)["requests"] == 6


def test_a_server_killed_in_the_middle_can_be_started_again(bundle: Path) -> None:
    process, said = started(bundle, "--http", "0", "--policy", "adaptive:timeout=3600s")
    with fluidnpu.connect(said["urls"]["http"], timeout_s=PATIENCE_S) as npu:
        errors: list[BaseException] = []

        def client() -> None:
            try:
                npu.infer(world(3, loaded=False).images(1)[0])
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=client)
        thread.start()
        eventually(lambda: 'fluidnpu_queue_requests{model="small"} 1' in metrics(said))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        thread.join(PATIENCE_S)
        assert "no answer came" in str(errors[0])


def metrics(said: dict[str, Any]) -> str:
    from urllib.request import urlopen

    with urlopen(said["urls"]["http"] + "/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read(), "utf-8")


# -- the rest ------------------------------------------------------------------------------------------------


@pytest.fixture
def loggers() -> Iterator[None]:
    names = ("fluidnpu", "fluidnpu.requests", "uvicorn.error", "asyncio", "opentelemetry")
    before = {
        n: (list(logging.getLogger(n).handlers), logging.getLogger(n).level, logging.getLogger(n).propagate)
        for n in names
    }
    yield
    for name, (handlers, level, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_logs_are_json_lines(loggers: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", requests=True)
    logging.getLogger("fluidnpu.host").warning("a device said %s", "no")
    try:
        raise ValueError("x")
    except ValueError:
        logging.getLogger("fluidnpu.host").exception("it failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"], first["logger"]) == ("warning", "a device said no", "fluidnpu.host")
    assert "ValueError: x" in second["exception"]
    configure_logging()
    assert not logging.getLogger("fluidnpu.requests").isEnabledFor(logging.INFO)
    assert isinstance(logging.getLogger("fluidnpu").handlers[0].formatter, JsonLines)


def test_bundles_are_named_after_folders(tmp_path: Path) -> None:
    (tmp_path / "project" / "bundle").mkdir(parents=True)
    inside = tmp_path / "project" / "bundle"
    assert named_folders([str(tmp_path / "project")]) == {"project": inside}
    assert named_folders([str(inside)]) == {"project": inside}
    assert named_folders([f"other={tmp_path}/project"]) == {"other": inside}
    with pytest.raises(DriverUsageError, match="comes twice"):
        named_folders([str(inside), str(tmp_path / "project")])


def test_several_models_have_an_npu_each(tmp_path: Path) -> None:
    first, second = (bundle_of(world(seed, loaded=False), tmp_path / str(seed)) for seed in (3, 5))
    with in_background(Models({"a": first, "b": second}, ModelOptions(slo_ns=10**9))) as server:
        for name, seed in (("a", 3), ("b", 5)):
            s = Served(world(seed, loaded=False), server)
            images = s.w.images(6)
            with fluidnpu.connect(server.url(), name) as npu:
                assert npu.infer(images).outputs["label"].tolist() == s.golden(images)[1]
        with pytest.raises(DriverUsageError, match="several models"):
            fluidnpu.connect(server.url())
