"""The front end alone: requests a second, latencies and CPU time, with an NPU that computes nothing.

    python benchmarks/front_end.py                                    # ours: REST, gRPC, the owner thread
    python benchmarks/front_end.py --peer mlserver=/tmp/peers/bin/python --peer kserve=/tmp/other/bin/python

Each peer runs in an environment of its own (`pip install mlserver`, `pip install kserve`) with a model that
returns a constant; the same client sends the same JSON to all, over the same number of connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from null_npu import NullNpu

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, build_design, explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, Driver, Reply, Server
from fluidnpu.models import quantise, read_onnx, shipped_file
from fluidnpu.scheduler import Serving, make_policy
from fluidnpu.scheduler.simulation import Terms

SHAPE = (1, 28, 28, 1)
MLSERVER = """
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
class Constant(MLModel):
    async def load(self): return True
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        label = ResponseOutput(name="label", shape=[1], datatype="INT32", data=[9])
        return InferenceResponse(id=payload.id, model_name=self.name, outputs=[label])
"""
KSERVE = """
import sys
from kserve import InferOutput, InferResponse, Model, ModelServer
class Constant(Model):
    def __init__(self, name): super().__init__(name); self.ready = True
    async def predict(self, payload, headers=None, response_headers=None):
        output = InferOutput("label", [1], "INT32", data=[9])
        return InferResponse(payload.id or "x", self.name, [output])
ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start([Constant("demo")])
"""


def demo_bundle(folder: Path, array: tuple[int, int] | None = None) -> Path:
    """Write the demo's bundle for a ZC706, on the array (T_P, T_C) that is found best or on a given one."""
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    board = load_board("zc706")
    if array is None:
        design = explore(network.workload, board, model="paper", core="rtl").design
    else:
        point = Point(t_r=2048, t_p=array[0], t_c=array[1])
        design = build_design(network.workload, board, point, core="rtl", b_max=8)
    Bundle(design=design, program=compile_program(quantise(network), design)).write(folder)
    return folder


def request_body() -> bytes:
    tensor: dict[str, Any] = {"name": "image", "datatype": "UINT8", "shape": list(SHAPE)}
    tensor["data"] = np.arange(784, dtype=np.uint8).tolist()
    return json.dumps({"id": "7", "inputs": [tensor], "outputs": [{"name": "label"}]}).encode()


async def hammer(port: int, connections: int, seconds: float) -> tuple[int, list[float]]:
    """Send the request over and over on every connection; return the number of answers and all latencies."""
    body = request_body()
    head = "POST /v2/models/demo/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    message = (head + f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    until, latencies = time.perf_counter() + seconds, []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < until:
            writer.write(message)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            size = next(int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n") if b"content-length" in line)
            await reader.readexactly(size)
            latencies.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return len(latencies), latencies


def cpu_s(pid: int) -> float:
    """User and system seconds of a process and its children so far."""
    total = 0.0
    for path in [Path(f"/proc/{pid}/stat"), *(Path(f"/proc/{child}/stat") for child in children(pid))]:
        fields = path.read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def children(pid: int) -> list[int]:
    found = [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]
    return found + [grandchild for child in found for grandchild in children(child)]


def measure(name: str, pid: int, port: int, connections: int, seconds: float) -> None:
    asyncio.run(hammer(port, connections, 1.0))  # warm
    before = cpu_s(pid)
    count, latencies = asyncio.run(hammer(port, connections, seconds))
    spent = cpu_s(pid) - before
    p50, p99 = (1e3 * float(np.percentile(latencies, q)) for q in (50, 99))
    print(
        f"{name:24s} {count / seconds:8.0f}/s  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  {1e3 * spent / count:6.3f} CPU ms a request"
    )


def ours(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from null_npu import NullNpu\n"
        "from fluidnpu.host.oip import ServeOptions, run_server\n"
        "from fluidnpu.host.serving import ModelOptions, Models\n"
        "models = Models({'demo': sys.argv[1]}, ModelOptions(opened=lambda b: NullNpu(b.design)))\n"
        "run_server(models, ServeOptions(http=0, grpc=None), lambda s: print(s.ports['http'], flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(Path(__file__).parent)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def peer(kind: str, python: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    port = 18900 + len(kind)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if kind == "mlserver":
        (folder / "constant.py").write_text(MLSERVER)
        settings = {
            "http_port": port,
            "grpc_port": port + 20,
            "metrics_port": port + 40,
            "parallel_workers": 0,
            "host": "127.0.0.1",
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        (folder / "model-settings.json").write_text(json.dumps({"name": "demo", "implementation": "constant.Constant"}))
        words = [str(Path(python).with_name("mlserver")), "start", str(folder)]
        environment["PYTHONPATH"] = str(folder)
    else:
        (folder / "server.py").write_text(KSERVE)
        words = [python, str(folder / "server.py"), str(port)]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
    for _ in range(1200):
        time.sleep(0.5)
        try:
            asyncio.run(hammer(port, 1, 0.05))
        except (OSError, AssertionError, asyncio.IncompleteReadError):
            continue
        return process, port
    raise SystemExit(f"{kind} did not start: {(folder / 'log').read_text()[-2000:]}")


def owner_thread(folder: Path, seconds: float) -> None:
    """The owner thread without a network: CPU time a request, and the rate at which it keeps up."""
    bundle = Bundle.read(folder)
    image = np.zeros(SHAPE[1:], np.uint8)
    for rate in (3000, 0):
        driver = Driver(NullNpu(bundle.design), bundle.program, bundle.design)
        driver.load()
        policy = make_policy("fluid", Serving.of(bundle.design).setting(3000, 2_000_000))
        count = 0
        futures: list[Future[Reply]] = []
        with Server(driver, policy) as server:
            began, cpu = time.perf_counter(), time.process_time()
            while (now := time.perf_counter() - began) < seconds:
                if (rate and count < now * rate) or (not rate and server.waiting < 64):
                    futures.append(server.submit(image, Terms(slo_ns=2_000_000)))
                    count += 1
                else:
                    time.sleep(0.0002)
        took, spent = time.perf_counter() - began, time.process_time() - cpu
        p99 = float(np.percentile([future.result().latency_ns for future in futures], 99)) / 1e6
        asked = f"{rate}/s asked" if rate else "as fast as it goes"
        spent_ms = 1e3 * spent / count
        print(f"owner thread, {asked:20s} {count / took:8.0f}/s  p99 {p99:7.2f} ms  {spent_ms:6.3f} CPU ms a request")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = demo_bundle(Path(scratch) / "bundle")
        owner_thread(folder, given.seconds)
        starts: list[tuple[str, Callable[[], tuple[subprocess.Popen[bytes], int]]]] = [
            ("fluidnpu", partial(ours, folder))
        ]
        for word in given.peer:
            name, _, python = word.partition("=")
            starts.append((name, partial(peer, name, python, Path(scratch) / name)))
        for name, start in starts:
            process, port = start()
            try:
                measure(name, process.pid, port, given.connections, given.seconds)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


if __name__ == "__main__":
    main()
