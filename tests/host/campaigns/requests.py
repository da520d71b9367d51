"""A campaign of injected failures through the network: nothing may be wrong, nothing without an end.

    PYTHONPATH=tests/host python -m campaigns.requests out/demo/zc706/bundle --faults 10000
    PYTHONPATH=tests/host python -m campaigns.requests out/demo/zc706/bundle --faults 20 --device rtl

The bundle is served on a `FaultyDevice`, with its guard. A simulated NPU works in real time, while clients of
both transports ask for answers that are known, and others are slow, half-open or gone; the RTL keeps its own
time and serves no network. Every answer is compared with that of an NPU without failures.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fluidnpu.host.bundle import Bundle
from fluidnpu.host.devices.device import WallClock
from fluidnpu.host.devices.opening import open_device
from fluidnpu.host.devices.simulated import SimulatedNpu
from fluidnpu.host.driver import PATIENCE, Driver
from fluidnpu.host.errors import DeviceError, GaveUpError, HostError, RemoteError
from fluidnpu.host.oip.client import connect
from fluidnpu.host.oip.running import ServeOptions, in_background
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.statuses import error_named
from fluidnpu.host.serving.models import Models
from fluidnpu.host.serving.options import ModelOptions
from fluidnpu.host.serving.replies import Image, Reply
from fluidnpu.host.serving.runtime import Runtime
from fluidnpu.host.serving.stream import serve_requests
from fluidnpu.models import shipped_images
from fluidnpu.scheduler import Request, Serving, Wait, make_policy

from .faulty import FaultyDevice, Mishap, random_mishaps

NAME = "campaign"
ENDURED = 16  # images that `endure` serves after the last mishap
REOPENED = 50  # attempts at a device that fails when it is loaded or recovered
LONGEST_S = 600.0  # a request without an answer by then has none


@dataclass(kw_only=True)
class Findings:
    """The answers and errors that the clients saw. `recovered_ms`: from each failure to the next right
    answer.
    """

    right: int = 0
    wrong: int = 0
    unanswered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    recovered_ms: list[float] = field(default_factory=list)
    reopened: int = 0
    took_s: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Return counts and the distribution of recovery times."""
        times = np.array(self.recovered_ms or [np.nan])
        return {
            "faults": sum(self.struck.values()),
            "requests": self.right + self.wrong + self.unanswered + sum(self.errors.values()),
            "right": self.right,
            "wrong": self.wrong,
            "unanswered": self.unanswered,
            "errors": dict(self.errors.most_common()),
            "struck": dict(sorted(self.struck.items())),
            "recovery_ms": {f"p{q}": round(float(np.percentile(times, q)), 2) for q in (50, 90, 99, 100)},
            "devices_opened_again": self.reopened,
            "seconds": round(self.took_s, 1),
        }


def run_campaign(
    folder: Path | str,
    images: Sequence[Image] | Image,
    faults: int,
    *,
    seed: int = 0,
    clients: int = 6,
    nuisance: bool = True,
) -> Findings:
    """Inject `faults` failures while clients ask about images (H, W, C), and return what they saw."""
    bundle, rng = Bundle.read(folder), random.Random(seed)
    expected = [(reply.exit, reply.prediction) for reply in answers_of(bundle, images)]
    npus: list[FaultyDevice] = []

    def opened(made: Bundle) -> FaultyDevice:
        npus.append(FaultyDevice(SimulatedNpu(made.design, clock=WallClock()), random_mishaps(faults, rng)))
        return npus[-1]

    options = ModelOptions(guarded=True, opened=opened, slo_ns=10**9, attempts=3, warm=False)
    findings, began = Findings(), time.monotonic()
    with in_background(Models({NAME: Path(folder)}, options), ServeOptions(http=0, grpc=0)) as server:
        npu, stop = npus[0], threading.Event()
        watch = _Watch(npu)
        asking = [
            _Asking(
                index,
                server.url("grpc" if index % 3 == 2 else "http"),
                images,
                expected,
                bundle.program.input,
                stop,
                watch,
            )
            for index in range(clients)
        ]
        threads = [threading.Thread(target=client.run, daemon=True) for client in asking]
        if nuisance:
            threads.append(threading.Thread(target=_nuisance, args=(server.ports["http"], stop, seed), daemon=True))
        for thread in threads:
            thread.start()
        while len(npu.struck) < faults and any(thread.is_alive() for thread in threads):
            time.sleep(0.05)
        answered, until = _answered(asking), time.monotonic() + LONGEST_S
        while _answered(asking) <= answered + clients and time.monotonic() < until:  # one at least began after the last
            time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join(2 * LONGEST_S)
        findings.reopened = len(server.models.find(NAME).npu.recoveries)
    for client in asking:
        findings.right += client.found.right
        findings.wrong += client.found.wrong
        findings.unanswered += client.found.unanswered
        findings.errors += client.found.errors
    findings.struck = Counter(fault.kind.name.lower() for fault in npu.struck)
    findings.recovered_ms = watch.recovered_ms
    findings.took_s = time.monotonic() - began
    return findings


def endure(
    npu: FaultyDevice,
    bundle: Bundle,
    images: Sequence[Image] | Image,
    expected: Sequence[Reply],
    *,
    patience: float = PATIENCE,
) -> Findings:
    """Serve images (H, W, C) on a device with its own time, until all its mishaps have struck and ended.

    `expected`: the answer to each image, of which exit and logits must come. Times of recovery are on the
    device's clock. Raises DeviceError for a device that does not come back.
    """
    began, findings, slo_ns = time.monotonic(), Findings(), 10**12
    driver = Driver(npu, bundle.program, bundle.design, guarded=True, patience=patience)
    _until_it_answers(npu, driver.load)
    rates = (1 / bundle.design.stages,) * bundle.design.stages
    policy = make_policy("fluid", Serving.of(bundle.design, rates).setting(1.0, slo_ns))
    runtime = Runtime(driver, policy, record=False)
    asked: dict[int, int] = {}  # images by request
    ids, since, struck, least = itertools.count(), list[int](), 0, ENDURED
    while npu.due or least > 0 or asked:
        least = ENDURED if npu.due else least
        while len(asked) < bundle.design.b_max and least > 0:
            id, now = next(ids), runtime.now_ns
            asked[id], least = id % len(images), least - 1
            runtime.admit(Request(id, now, now + slo_ns), images[asked[id]])
        try:
            fates = runtime.step(closed=True)
        except GaveUpError as error:
            findings.errors["GaveUpError"] += len(error.request_ids)
            for id in error.request_ids:
                del asked[id]
            _until_it_answers(npu, driver.recover)
            fates = []
        since += [npu.clock.now_ns()] * (len(npu.struck) - struck)
        struck = len(npu.struck)
        if isinstance(fates, Wait):
            assert fates.until_ns is not None  # nothing else will come, and the policy was told so
            runtime.sleep_until(fates.until_ns)
            continue
        for fate in fates:
            assert isinstance(fate, Reply)  # no policy here sheds
            right = expected[asked.pop(fate.request_id)]
            assert fate.logits is not None
            assert right.logits is not None
            if fate.exit == right.exit and np.array_equal(fate.logits, right.logits):
                findings.right += 1
                findings.recovered_ms += [(npu.clock.now_ns() - at) / 1e6 for at in since]
                since.clear()
            else:
                findings.wrong += 1
    findings.struck = Counter(fault.kind.name.lower() for fault in npu.struck)
    findings.took_s = time.monotonic() - began
    return findings


def _until_it_answers(npu: FaultyDevice, work: Callable[[], None]) -> None:
    """Do the work; where the device fails, again after a pause on its clock, `REOPENED` times at most."""
    for attempt in itertools.count(1):
        try:
            work()
            return
        except DeviceError:
            if attempt == REOPENED:
                raise
            npu.clock.sleep_until(npu.clock.now_ns() + 10_000_000)


def answers_of(bundle: Bundle, images: Sequence[Image] | Image) -> tuple[Reply, ...]:
    """Return the answer to every image (H, W, C) of an NPU without failures."""
    driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
    driver.load()
    requests = [Request(i, i, 10**15) for i in range(len(images))]
    return serve_requests(requests, images, make_policy("serial"), driver).answers


def _answered(asking: Sequence[_Asking]) -> int:
    return sum(client.found.right + client.found.wrong for client in asking)


class _Watch:
    """Notes the time from each failure to the next right answer."""

    def __init__(self, npu: FaultyDevice) -> None:
        self._npu, self._seen, self._lock = npu, 0, threading.Lock()
        self._since: list[int] = []
        self.recovered_ms: list[float] = []
        strike = npu._strike

        def note(mishap: Mishap) -> None:
            with self._lock:
                self._since.append(time.monotonic_ns())
            strike(mishap)

        npu._strike = note  # type: ignore[method-assign]

    def right(self) -> None:
        """Take a right answer: it ends the recovery from all failures before it."""
        now = time.monotonic_ns()
        with self._lock:
            self.recovered_ms += [(now - since) / 1e6 for since in self._since]
            self._since.clear()


class _Asking:
    """One client that asks until it is stopped."""

    def __init__(
        self,
        index: int,
        url: str,
        images: Sequence[Image] | Image,
        expected: Sequence[tuple[int, int]],
        input: str,
        stop: threading.Event,
        watch: _Watch,
    ) -> None:
        self._index, self._url, self._images, self._expected = index, url, images, expected
        self._input, self._stop, self._watch, self.found = input, stop, watch, Findings()

    def run(self) -> None:
        """Ask for one image after another, over the transport that the address names."""
        if "//" in self._url:
            with connect(self._url, NAME, timeout_s=LONGEST_S) as client:
                self._ask(lambda image: _of_http(client.infer(image)))
        else:
            with grpc.insecure_channel(self._url) as channel:
                call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
                self._ask(lambda image: _over_grpc(call, self._input, image))

    def _ask(self, infer: Any) -> None:
        for turn in itertools.count(self._index):
            if self._stop.is_set():
                return
            index = turn * 7 % len(self._images)
            try:
                answer = infer(self._images[index])
            except RemoteError as error:
                self.found.unanswered += "must answer within" in str(error)
                self.found.errors[type(error).__name__] += "must answer within" not in str(error)
            except HostError as error:
                self.found.errors[type(error).__name__] += 1
                time.sleep(0.002)
            else:
                if answer == self._expected[index]:
                    self.found.right += 1
                    self._watch.right()
                else:
                    self.found.wrong += 1


def _of_http(answer: Any) -> tuple[int, int]:
    return answer.exit, answer.prediction


def _over_grpc(call: Any, input: str, image: Image) -> tuple[int, int]:
    asked = message("ModelInferRequest")(model_name=NAME)
    asked.inputs.add(name=input, datatype="UINT8", shape=(1, *image.shape))
    asked.raw_input_contents.append(image.tobytes())
    try:
        response = message("ModelInferResponse").FromString(call(asked.SerializeToString(), timeout=LONGEST_S))
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise RemoteError(f"the server must answer within {LONGEST_S} s") from None
        kind = dict(error.trailing_metadata() or ()).get("error-type", "")
        raise error_named(str(kind), str(error.details())) from None
    rows = dict(zip((output.name for output in response.outputs), response.raw_output_contents, strict=True))
    return int(np.frombuffer(rows["exit"], np.int32)[0]), int(np.frombuffer(rows["label"], np.int32)[0])


def _nuisance(port: int, stop: threading.Event, seed: int) -> None:
    """Open connections as bad clients do: half a head, half a body, a whole request and gone."""
    rng = random.Random(seed)
    head = f"POST /v2/models/{NAME}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n"
    kept: list[socket.socket] = []
    while not stop.wait(0.02):
        with contextlib.suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            connection.sendall((head + rng.choice(["", "\r\n", "\r\n{", "\r\n" + "x" * 200])).encode())
            if rng.random() < 0.5:  # gone, with a reset in place of a farewell
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            else:
                kept.append(connection)
        while len(kept) > 20:
            kept.pop(0).close()
    for connection in kept:
        connection.close()


def main(words: Sequence[str] | None = None) -> int:
    """Run a campaign from the command line; 1 when an answer was wrong or missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["simulated", "rtl", "cosim"], default="simulated")
    given = parser.parse_args(words)
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)  # thousands of failures are meant
    images = shipped_images(64).images
    if given.device == "simulated":
        findings = run_campaign(given.bundle, images, given.faults, seed=given.seed)
    else:  # it keeps its own time, which no client shares
        bundle, mishaps = Bundle.read(given.bundle), random_mishaps(given.faults, random.Random(given.seed))
        with open_device(given.device, bundle, given.bundle) as device:
            findings = endure(FaultyDevice(device, mishaps), bundle, images, answers_of(bundle, images))
    print(json.dumps(findings.summary(), indent=1))
    return int(bool(findings.wrong or findings.unanswered))


if __name__ == "__main__":
    raise SystemExit(main())
