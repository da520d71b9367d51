"""MLPerf LoadGen's Server scenario against a served demo bundle on a simulated board in real time.

    python benchmarks/loadgen.py --share 0.9 --seconds 20

LoadGen sends queries one by one at Poisson arrivals; each goes as its own request over one gRPC stream and is
reported complete when its answer comes. The server is a process of its own. Images that the board has
seen before cost it the predicted time, not this machine's arithmetic; each is sent once before the run. The
last line says VALID or INVALID, as LoadGen does, and which share of the predicted capacity was offered.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import mlperf_loadgen as lg
from front_end import cpu_s, demo_bundle

import fluidnpu
from fluidnpu.host.oip.messages import SERVICE, message
from fluidnpu.models import shipped_images

IMAGES = 256


class Stream:
    """One gRPC stream to the server; answers complete LoadGen's queries by their ids."""

    def __init__(self, place: str, model: str, images: Any) -> None:
        self._channel = grpc.insecure_channel(place)
        self._asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._messages = [self._message(model, image) for image in images]
        self.errors = self.answers = 0
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
    parser.add_argument("--share", type=float, default=0.9, help="of the predicted capacity")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--latency-ms", type=float, default=20.0, help="target of the 99th percentile")
    parser.add_argument("--policy", default="fluid")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bundle = demo_bundle(Path(scratch) / "bundle")
        command = [sys.executable, "-c", "from fluidnpu.cli import main; main()", "serve", f"demo={bundle}"]
        command += ["--http", "0", "--grpc", "0", "--json", "--policy", given.policy, "--slo", f"{given.latency_ms}ms"]
        server = subprocess.Popen([*command, "--max-queue", "20000"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            said = json.loads(server.stdout.readline())
            return run(said, server.pid, given, Path(scratch))
        finally:
            server.terminate()
            server.wait(60)


def run(said: dict[str, Any], pid: int, given: argparse.Namespace, scratch: Path) -> int:
    capacity, images = said["models"][0]["capacity_per_s"], shipped_images(IMAGES).images
    with fluidnpu.connect(said["urls"]["http"]) as npu:
        for image in images:  # computed once; for every batch an image is recalled on its own
            npu.infer(image)
    stream = Stream(said["urls"]["grpc"], "demo", images)
    settings = lg.TestSettings()
    settings.scenario, settings.mode = lg.TestScenario.Server, lg.TestMode.PerformanceOnly
    settings.server_target_qps = given.share * capacity
    settings.server_target_latency_ns = int(given.latency_ms * 1e6)
    settings.server_target_latency_percentile = 0.99
    settings.min_duration_ms = int(1e3 * given.seconds)
    settings.max_duration_ms = int(3e3 * given.seconds)
    settings.min_query_count = 1
    output = lg.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(scratch), False
    log = lg.LogSettings()
    log.log_output = output
    before = cpu_s(pid)
    sut = lg.ConstructSUT(stream.issue, lambda: None)
    qsl = lg.ConstructQSL(IMAGES, IMAGES, lambda indices: None, lambda indices: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, log)
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)
    spent = cpu_s(pid) - before
    stream.close()
    summary = (scratch / "mlperf_log_summary.txt").read_text()
    for line in summary.splitlines():
        if any(
            word in line for word in ("Result is", "Completed samples", "99.00 percentile", "Performance constraints")
        ):
            print(line.strip())
    verdict = "VALID" if "Result is : VALID" in summary else "INVALID"
    print(
        f"{verdict}: {given.share:.0%} of {capacity:.0f}/s offered, p99 target {given.latency_ms:g} ms, "
        f"{stream.answers} answers, {stream.errors} errors, {1e3 * spent / max(1, stream.answers):.3f} CPU ms a request "
        "in the server, the simulated board included"
    )
    return int(verdict != "VALID")


if __name__ == "__main__":
    raise SystemExit(main())
