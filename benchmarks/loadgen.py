"""MLPerf LoadGen's Server scenario against a served demo bundle on a simulated board in real time.

    python benchmarks/loadgen.py --share 0.9 --seconds 20
    python benchmarks/loadgen.py --find --before CHECKOUT   # the highest valid rate, here and there

LoadGen sends queries one by one at Poisson arrivals; each goes as its own request, over connections that
are kept (HTTP, binary tensors) or over one gRPC stream, and is reported complete when its answer comes.
With `--rows`, queries that wait for a connection go together, so many at most in one request: nothing waits
for company while a connection is idle. The server is a process of its own. Images that the board has seen
before cost it the predicted time, not this machine's arithmetic; each is sent once before the run. A
smaller array makes a slower board. The last line says VALID or INVALID, as LoadGen does, and which share of
the predicted capacity was offered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import mlperf_loadgen as lg
from front_end import cpu_s, demo_bundle

import fluidnpu
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.models import shipped_images

IMAGES = 256


class Connections:
    """HTTP connections to the server, each with one request at a time; a thread of their own drives them."""

    def __init__(self, url: str, model: str, images: Any, count: int = 128, rows: int = 1) -> None:
        self._place, self._model, self._rows = url.removeprefix("http://"), model, rows
        self._shape, self._images = images.shape[1:], [image.tobytes() for image in images]
        self._heads = [self._head(number) for number in range(1, rows + 1)]
        self._waiting: deque[Any] = deque()
        self._idle: list[_Connection] = []
        self.errors = self.answers = self.requests = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(count), self._loop).result()

    def _head(self, rows: int) -> bytes:
        size = rows * len(self._images[0])
        tensor: dict[str, Any] = {"name": "image", "datatype": "UINT8", "shape": [rows, *self._shape]}
        tensor["parameters"] = {"binary_data_size": size}
        wanted = [{"name": "label", "parameters": {"binary_data": True}}]
        head = json.dumps({"inputs": [tensor], "outputs": wanted}).encode()
        lines = [f"POST /v2/models/{self._model}/infer HTTP/1.1", f"Host: {self._place}"]
        lines += [f"Inference-Header-Content-Length: {len(head)}", f"Content-Length: {len(head) + size}"]
        return "\r\n".join([*lines, "", ""]).encode() + head

    async def _open(self, count: int) -> None:
        host, _, port = self._place.rpartition(":")
        for _ in range(count):
            _, one = await self._loop.create_connection(lambda: _Connection(self._done), host, int(port))
            self._idle.append(one)

    def issue(self, samples: list[Any]) -> None:
        asked = [(sample.id, sample.index) for sample in samples]  # LoadGen takes its list back
        self._loop.call_soon_threadsafe(self._ask, asked)

    def _ask(self, asked: list[tuple[int, int]]) -> None:
        self._waiting.extend(asked)
        while self._waiting and self._idle:
            self._send(self._idle.pop())

    def _send(self, one: _Connection) -> None:
        asked = [self._waiting.popleft() for _ in range(min(self._rows, len(self._waiting)))]
        self.requests += 1
        one.send([id for id, _ in asked], b"".join([self._heads[len(asked) - 1], *(self._images[k] for _, k in asked)]))

    def _done(self, one: _Connection, ids: list[int], good: bool) -> None:
        self.answers += len(ids)
        self.errors += 0 if good else len(ids)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(id, 0, 0) for id in ids])
        if self._waiting:
            self._send(one)
        else:
            self._idle.append(one)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class _Connection(asyncio.Protocol):
    """One connection; it reads no more of an answer than its status and length."""

    def __init__(self, done: Callable[[_Connection, list[int], bool], None]) -> None:
        self._done, self._said, self._ids = done, b"", list[int]()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self, ids: list[int], asked: bytes) -> None:
        self._ids = ids
        self._transport.write(asked)

    def data_received(self, data: bytes) -> None:
        self._said += data
        head, end, body = self._said.partition(b"\r\n\r\n")
        if end:
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            if len(body) >= size:
                self._said = b""
                self._done(self, self._ids, head.startswith(b"HTTP/1.1 200"))


class Stream:
    """One gRPC stream to the server; answers complete LoadGen's queries by their ids."""

    def __init__(self, place: str, model: str, images: Any) -> None:
        self._channel = grpc.insecure_channel(place)
        self._asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._messages = [self._message(model, image) for image in images]
        self.errors = self.answers = self.requests = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _message(self, model: str, image: Any) -> bytes:
        asked = message("ModelInferRequest")(model_name=model)
        asked.inputs.add(name="image", datatype="UINT8", shape=(1, *image.shape))
        asked.outputs.add(name="label")
        asked.raw_input_contents.append(image.tobytes())
        return bytes(asked.SerializeToString())

    def issue(self, samples: list[Any]) -> None:
        for sample in samples:
            id = str(sample.id).encode()
            self.requests += 1
            self._asked.put(self._messages[sample.index] + b"\x1a" + bytes([len(id)]) + id)  # field 3 is the id

    def _send(self) -> Iterator[bytes]:
        while (one := self._asked.get()) is not None:
            yield one

    def _read(self) -> None:
        answer = message("ModelStreamInferResponse")
        for raw in self._channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(self._send()):
            said = answer.FromString(raw)
            self.errors += bool(said.error_message)
            self.answers += 1
            lg.QuerySamplesComplete([lg.QuerySampleResponse(int(said.infer_response.id), 0, 0)])

    def close(self) -> None:
        self._asked.put(None)
        self._reader.join(10)
        self._channel.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--array", metavar="T_P,T_C", help="of the board's design  [default: the best one for it]")
    parser.add_argument("--share", type=float, default=0.9, help="of the predicted capacity")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--latency-ms", type=float, default=20.0, help="target of the 99th percentile")
    parser.add_argument("--policy", default="fluid")
    parser.add_argument("--transport", choices=["http", "grpc"], default="http")
    parser.add_argument("--rows", type=int, default=1, help="images in one request at most (http)  [default: 1]")
    parser.add_argument("--connections", type=int, default=128, help="(http)  [default: 128]")
    parser.add_argument("--find", action="store_true", help="halve the shares from 0 to --share five times")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="run each share on this tree, too")
    given = parser.parse_args()
    if given.transport == "grpc" and given.rows > 1:
        parser.error("--rows is for --transport http")
    trees = [Path(fluidnpu.__file__).parent.parent, *([given.before] if given.before else [])]
    with tempfile.TemporaryDirectory() as scratch:
        t_p, _, t_c = (given.array or "").partition(",")
        bundle = demo_bundle(Path(scratch) / "bundle", (int(t_p), int(t_c)) if given.array else None)
        if not given.find:
            return max(run(tree, bundle, given.share, given, Path(scratch)) for tree in trees)
        for tree in trees:
            low, high = 0.0, given.share
            for _ in range(5):
                share = (low + high) / 2
                valid = not run(tree, bundle, share, given, Path(scratch))
                low, high = (share, high) if valid else (low, share)
            print(f"{tree}: the highest valid share found is {low:.0%}; {high:.0%} was not valid", flush=True)
    return 0


def run(tree: Path, bundle: Path, share: float, given: argparse.Namespace, scratch: Path) -> int:
    """Serve by a tree's code and run LoadGen once; 1 where it says INVALID."""
    command = [sys.executable, "-c", "from fluidnpu.cli import main; main()", "serve", f"demo={bundle}"]
    command += ["--http", "0", "--grpc", "0", "--json", "--policy", given.policy, "--slo", f"{given.latency_ms}ms"]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    with subprocess.Popen(
        [*command, "--max-queue", "20000"], stdout=subprocess.PIPE, text=True, env=environment, cwd=tree
    ) as server:
        assert server.stdout is not None
        try:
            return drive(json.loads(server.stdout.readline()), server.pid, tree, share, given, scratch)
        finally:
            server.terminate()


def drive(said: dict[str, Any], pid: int, tree: Path, share: float, given: argparse.Namespace, scratch: Path) -> int:
    capacity, images = said["models"][0]["capacity_per_s"], shipped_images(IMAGES).images
    with fluidnpu.connect(said["urls"]["http"]) as npu:
        for image in images:  # computed once; for every batch an image is recalled on its own
            npu.infer(image)
    url = said["urls"][given.transport]
    kinds: dict[str, Callable[[], Connections | Stream]] = {
        "http": lambda: Connections(url, "demo", images, given.connections, given.rows),
        "grpc": lambda: Stream(url, "demo", images),
    }
    under_test = kinds[given.transport]()
    before = cpu_s(pid)
    summary = loadgen(under_test, share * capacity, given, scratch)
    spent = cpu_s(pid) - before
    under_test.close()
    for line in summary.splitlines():
        if any(
            word in line for word in ("Result is", "Completed samples", "99.00 percentile", "Performance constraints")
        ):
            print(line.strip())
    verdict = "VALID" if "Result is : VALID" in summary and not under_test.errors else "INVALID"
    print(
        f"{verdict}: {share:.1%} of {capacity:.0f}/s offered over {given.transport}, p99 target "
        f"{given.latency_ms:g} ms, {under_test.answers} answers to {under_test.requests} requests, "
        f"{under_test.errors} errors, "
        f"{1e3 * spent / max(1, under_test.answers):.3f} CPU ms an answer in the server of {tree}, the simulated "
        f"board included; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return int(verdict != "VALID")


def loadgen(under_test: Connections | Stream, rate_per_s: float, given: argparse.Namespace, scratch: Path) -> str:
    """Run LoadGen's Server scenario and return its summary."""
    settings = lg.TestSettings()
    settings.scenario, settings.mode = lg.TestScenario.Server, lg.TestMode.PerformanceOnly
    settings.server_target_qps = rate_per_s
    settings.server_target_latency_ns = int(given.latency_ms * 1e6)
    settings.server_target_latency_percentile = 0.99
    settings.min_duration_ms = int(1e3 * given.seconds)
    settings.max_duration_ms = int(3e3 * given.seconds)
    settings.min_query_count = 1
    output = lg.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(scratch), False
    log = lg.LogSettings()
    log.log_output = output
    sut = lg.ConstructSUT(under_test.issue, lambda: None)
    qsl = lg.ConstructQSL(IMAGES, IMAGES, lambda indices: None, lambda indices: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, log)
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)
    return (scratch / "mlperf_log_summary.txt").read_text()


if __name__ == "__main__":
    raise SystemExit(main())
