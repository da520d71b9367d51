"""Goodput of a fleet of simulated boards over loopback, predicted and served, and the CPU time of a request.

    python benchmarks/fleet.py --boards 1,2,4 --per-board 25 --seconds 20

The demo's network runs on its design with every time multiplied, so that a board serves about `--per-board`
images a second and this machine has time for the protocol. Predicted: the largest Poisson rate at which the
twin of the fleet, with the boards' policy, answers 99 % within five latencies of a lone image. Served: the
share within that at shares of this rate, with real processes, the real protocol and an open-loop client. The
last columns are CPU milliseconds a request.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import numpy as np
import numpy.typing as npt
from front_end import cpu_s, demo_bundle

from fluidnpu.dse import Design, LatencyTable
from fluidnpu.host import Bundle, Driver, SimulatedNpu
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.models import shipped_images
from fluidnpu.scheduler import Serving, make_policy, placement

IMAGES, GOOD = 256, 0.99
FLEET = """schema = 1
name = "{count} boards"
[networks.demo]
exit_rates = {rates}
[links.loopback]
bytes_per_s = 117_700_000
latency = "{delay}ns"
[types.board]
memory_bytes = 1_073_741_824
networks.demo.bundle = "slowed"
[[devices]]
type = "board"
count = {count}
"""


def slowed(bundle: Bundle, per_board: float, images: int = IMAGES) -> Bundle:
    """Multiply every time of the bundle's design, and have it know its exit rates on the first images."""
    driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
    driver.load()
    rates = driver.measure_exit_rates(list(shipped_images(images).images))
    factor = per_board * Serving.of(bundle.design, rates).least_load(1.0)
    rows = tuple(tuple(round(ns / factor) for ns in row) for row in bundle.design.latency.ns)
    design = replace(bundle.design, exit_rates=rates, latency=LatencyTable(ns=rows))
    return Bundle(design=design, program=replace(bundle.program, design_digest=design.digest))


def predicted(folder: Path, design: Design, count: int, slo_ns: int) -> float:
    """The largest rate at which the twin of the fleet, with the boards' policy, answers 99 % in time."""
    (folder / "fleet.toml").write_text(FLEET.format(count=count, rates=list(design.exit_rates or ()), delay=1))
    fleet = placement.read_fleet(folder / "fleet.toml", bundle=lambda place: Bundle.read(place).profile)
    serving = Serving.of(design)
    capacity = 1 / serving.least_load(1.0)
    plan = whole_plan(fleet, design, count * capacity, slo_ns)
    policy = make_policy("fluid", serving.setting(0.7 * capacity, slo_ns))
    return placement.goodput(fleet, plan, in_time=GOOD, policy=policy, steps=8)


def whole_plan(fleet: placement.Fleet, design: Design, rate: float, slo_ns: int) -> placement.Plan:
    """The plan by which every board serves the whole network."""
    whole = placement.Job(network="demo", first=0, last=design.stages - 1, batch=design.b_max)
    pool = placement.Pool(type="board", devices=tuple(device.name for device in fleet.devices), jobs=(whole,))
    route = placement.Route(network="demo", pools=(0,), rate_per_s=rate)
    return placement.Plan(
        fleet=fleet.digest, objective="goodput", slo_ns=slo_ns, pools=(pool,), routes=(route,), rate_per_s=rate
    )


def offered(
    place: str,
    rate: float,
    seconds: float,
    slo_s: float,
    seed: int = 1,
    *,
    gaps: npt.NDArray[np.float64] | None = None,
    chosen: npt.NDArray[np.int64] | None = None,
) -> tuple[float, int, int]:
    """Send a Poisson stream; return the share answered in time, the requests and the errors.

    `gaps` between arrivals, of mean 1, and the places of the images: drawn where they are not given.
    """
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, max(50, int(rate * seconds))) if gaps is None else gaps
    places = rng.integers(IMAGES, size=len(gaps)) if chosen is None else chosen
    took = latencies(place, np.cumsum(gaps / rate), places)
    return float((took <= slo_s).mean()), len(took), int(np.isnan(took).sum())


def latencies(place: str, at: npt.NDArray[np.float64], places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Send images at these seconds; return the seconds until each answer, nan for an error.

    They count from the planned moment: a client that is late is late.
    """
    images, took = shipped_images(IMAGES).images, np.full(len(at), np.nan)
    asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    requests = []
    for number, image in enumerate(images[places]):
        made = message("ModelInferRequest")(model_name="demo", id=str(number))
        made.inputs.add(name="image", datatype="UINT8", shape=(1, *image.shape))
        made.raw_input_contents.append(image.tobytes())
        requests.append(made.SerializeToString())
    with grpc.insecure_channel(place) as channel:
        grpc.channel_ready_future(channel).result(60)
        said = message("ModelStreamInferResponse")
        answers = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(iter(asked.get, None))
        began = time.perf_counter()

        def send() -> None:
            for moment, request in zip(at, requests, strict=True):
                time.sleep(max(0.0, began + moment - time.perf_counter()))
                asked.put(request)
            asked.put(None)

        threading.Thread(target=send, daemon=True).start()
        for raw in answers:
            now, answer = time.perf_counter(), said.FromString(raw)
            if not answer.error_message:
                number = int(answer.infer_response.id)
                took[number] = now - began - at[number]
    return took


def served(folder: Path, count: int, goodput: float, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a share of the predicted goodput."""
    design = Bundle.read(folder / "slowed").design
    slo_ns = 5 * design.latency.between(0, design.stages - 1, 1)
    with front_of(folder, count, goodput, slo_ns) as (front, urls):
        for share in map(float, given.shares.split(",")):
            with urlopen(urls["http"] + "/live.json") as answer:
                pids = [one["pid"] for one in json.load(answer)["boards"]]
            before = cpu_s(front.pid), sum(map(cpu_s, pids))
            good, requests, errors = offered(urls["grpc"], share * goodput, given.seconds, slo_ns / 1e9)
            boards_s = sum(map(cpu_s, pids)) - before[1]
            front_s = cpu_s(front.pid) - before[0] - boards_s
            with urlopen(urls["http"] + "/live.json") as answer:
                resent = json.load(answer)["counts"]["resent"]
            yield {
                "boards": count,
                "share": share,
                "rate_per_s": round(share * goodput, 1),
                "in_time_pct": round(100 * good, 2),
                "errors": errors,
                "resent": resent,
                "front_cpu_ms": round(1e3 * front_s / requests, 2),
                "boards_cpu_ms": round(1e3 * boards_s / requests, 2),
            }


@contextmanager
def front_of(
    folder: Path, count: int, rate: float, slo_ns: int, *more: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Serve the folder's fleet, made for a rate; yield its process and the addresses of its surfaces."""
    command = [sys.executable, "-c", "from fluidnpu.cli import main; main()", "fleet", "fleet.toml"]
    command += ["--http", "0", "--grpc", "0", "--json", "--max-queue", "20000", "--rate", str(rate), *more]
    front = subprocess.Popen([*command, "--slo", f"{slo_ns}ns"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert front.stdout is not None
    try:
        urls = json.loads(front.stdout.readline())["urls"]
        with urlopen(urls["http"] + "/live.json") as answer:
            addresses = [one["address"] for one in json.load(answer)["boards"]]
        every = np.arange(IMAGES)
        with ThreadPoolExecutor(count) as pool:  # so that boards recall, and compute nothing while they are measured
            list(pool.map(lambda address: latencies(address, np.zeros(IMAGES), every), addresses))
        yield front, urls
    finally:
        front.terminate()
        front.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--boards", default="1,2,4")
    parser.add_argument("--per-board", type=float, default=25.0, help="images a second that a board can serve")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each stream")
    parser.add_argument("--shares", default="0.5,0.7,0.9,1.0", help="of the predicted goodput")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        bundle = slowed(Bundle.read(demo_bundle(folder / "bundle")), given.per_board)
        bundle.write(folder / "slowed")
        slo_ns = 5 * bundle.design.latency.between(0, bundle.design.stages - 1, 1)
        for count in map(int, given.boards.split(",")):
            goodput = predicted(folder, bundle.design, count, slo_ns)
            print(f"{count} boards: predicted {goodput:.1f}/s within {slo_ns / 1e6:.0f} ms, 99 %", flush=True)
            for row in served(folder, count, goodput, given):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
