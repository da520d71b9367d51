"""Prints how soon a change of the active exits takes effect, and how soon a drift is noticed.

    python benchmarks/adaptation.py

Served on the simulated device in real time, on the shipped network, with requests waiting at all times. A
decision is taken either between two batches, by whoever watches the runs, or at any time from another thread;
then it waits for the batch under way. Times are of this process, so other work on the machine counts: of the
first kind the CPU time of the deciding thread stands beside, and the delays in which its threads had CPUs as
soon as they could use them. The drift is simulated, on the recorded answers of the study.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, Reply, Server, SimulatedNpu
from fluidnpu.host.devices.device import WallClock
from fluidnpu.host.devices.recall import Recall
from fluidnpu.host.serving import active_exits, criteria_of
from fluidnpu.models import quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.scheduler import Request, make_policy
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, InForce, Terms
from fluidnpu.scheduler.tuning import AdaptationPlan, Goal, Watching, greedy, simulate_drift
from fluidnpu.studies.pame.networks import table_of
from fluidnpu.studies.pame.recorded import shuffle_recording

CHANGES = 1000
STREAMS = 10
BATCH = 16
OUTSTANDING = 64  # requests without an answer, at all times
WANTED_NS = 10**6
SHORT_NS = 10**5  # of waiting for a CPU
SWITCH_S = 0.0005  # as `fluidnpu serve` has it


def queued_ns() -> int:
    """Return how long threads of this process have been ready to run and had no CPU, by Linux's own account.

    One that has none may hold the interpreter's lock, for which all others wait.
    """
    found = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found += int(task.read_text().split()[1])
    return found


@dataclass
class Delays:
    """The delays from decisions to the batches that follow on them."""

    mark: tuple[int, int, int] | None = None  # at a decision: see `now`
    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)
    queued_ns: list[int] = field(default_factory=list)

    def decided(self) -> None:
        """Note a decision: wall time, CPU time of this thread, and the wait of all threads for a CPU."""
        queued = queued_ns()
        self.mark = (time.perf_counter_ns(), time.thread_time_ns(), queued)

    def begun(self) -> None:
        """Note that a batch begins."""
        if self.mark is not None:
            now = (time.perf_counter_ns(), time.thread_time_ns(), queued_ns())
            for kept, after, before in zip((self.wall_ns, self.cpu_ns, self.queued_ns), now, self.mark, strict=True):
                kept.append(after - before)
            self.mark = None


class NotedDriver(Driver):
    """A driver that says when a batch begins."""

    delays = Delays()

    def activate(self, slots: Iterable[int]) -> None:
        """Note it, and activate."""
        self.delays.begun()
        super().activate(slots)


class Changing:
    """A watcher that moves the exits after every run, at most CHANGES times."""

    def __init__(self, active: ActiveExits, delays: Delays) -> None:
        self.active, self.delays, self.left = active, delays, CHANGES

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        """Change the set."""
        if self.left:
            self.left -= 1
            self.delays.decided()
            self.active.change(ExitSet((0.9, None) if self.left % 2 else (None, 0.9)), "benchmark")
        return frozenset()

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Nothing runs on."""

    def gone(self, request_id: int) -> None:
        """Nothing is counted."""


def percentiles(ns: Sequence[int]) -> str:
    """Say median, 99th percentile and most, in us."""
    return "  ".join(f"{np.quantile(ns, q) / 1e3:9.1f}" for q in (0.5, 0.99, 1.0))


def main() -> None:
    """Serve twice, and simulate drifts."""
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    design = explore(network.workload, load_board("zc706"), model="paper", core="rtl").design
    program = compile_program(quantise(network), design)
    images = shipped_images().images[:64]
    sys.setswitchinterval(SWITCH_S)
    print(f"from the decision to the next batch, us {'median':>20} {'p99':>9} {'most':>10}")
    for name in ("decided between two batches", "from another thread"):
        device = SimulatedNpu(design, clock=WallClock(), recall=Recall(64 << 20))
        driver = NotedDriver(device, program, design)
        driver.load()
        criteria = criteria_of(driver, None)
        active = active_exits(driver, criteria)
        driver.delays = delays = Delays()
        watch = Changing(active, delays) if name.startswith("decided") else None
        with Server(driver, make_policy("fluid"), rule=criteria, active=active, watch=watch) as server:
            stop = threading.Event()

            def ask(server: Server = server, stop: threading.Event = stop) -> None:
                waiting: deque[Future[Reply]] = deque()
                while not stop.is_set():
                    while len(waiting) < OUTSTANDING:
                        waiting.append(server.submit(images[len(waiting)], Terms(slo_ns=10**9)))
                    waiting.popleft().result()

            client = threading.Thread(target=ask)
            client.start()
            if watch is None:
                rng = np.random.default_rng(0)
                for count in range(CHANGES):
                    time.sleep(float(rng.uniform(0.002, 0.02)))
                    active.change(ExitSet((0.9, None) if count % 2 else (None, 0.9)), "benchmark")
            else:
                while watch.left:
                    time.sleep(0.01)
            stop.set()
            client.join()
            took = server.adoption_ns
        print(f"{name:30} {len(took):5} changes {percentiles(took)}")
        if watch is not None:
            pairs = list(zip(delays.wall_ns, delays.queued_ns, strict=True))
            free = [wall for wall, queued in pairs if queued < SHORT_NS]
            late = [(wall, queued) for wall, queued in pairs if wall > WANTED_NS]
            waited = sum(wall - queued < WANTED_NS for wall, queued in late)
            print(f"{'  CPU time of that thread':30} {len(delays.cpu_ns):5} changes {percentiles(delays.cpu_ns)}")
            print(f"{'  threads got CPUs at once':30} {len(free):5} changes {percentiles(free)}")
            print(f"  {len(late)} took above 1 ms; {waited} of them would not have, but threads waited for a CPU")
    longest_us = max(map(max, design.latency.ns)) / 1e3
    print(f"the longest batch takes {longest_us:.0f} us; a change from another thread waits for the one under way")
    found, table = shuffle_recording("fashion"), table_of("fashion")
    answers, goal = found.answers(own_last=True), Goal(eta=0.99, batch=BATCH)
    part = slice(0, len(answers) // 2)
    chain, _ = greedy(table, answers[part], goal)
    plan = AdaptationPlan(
        names=table.names,
        goal=goal,
        chain=chain,
        confidence=answers.confidence[part],
        classes=found.classes[part],
        truths=found.labels[part],
        reference=answers.reference[part],
        times=table,
    )
    for distance in (2000, 5000):
        streams = [
            simulate_drift(
                plan,
                "hard",
                rate_per_s=2000,
                slo_ns=10**8,
                requests=6000,
                watching=Watching(distance=distance),
                seed=seed,
            )
            for seed in range(STREAMS)
        ]
        noticed = [stream.noticed for stream in streams if stream.noticed is not None]
        early = sum(event.requests <= 2000 for stream in streams for event in stream.events if event.kind == "alarm")
        print(
            f"false alarms at least {distance} requests apart: drift to hard classes noticed after "
            f"{np.mean(noticed):.0f} requests ({min(noticed)} to {max(noticed)}, {len(noticed)} of {STREAMS} streams); "
            f"{early} alarms in {2000 * STREAMS} requests before it"
        )


if __name__ == "__main__":
    main()
