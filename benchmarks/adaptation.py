"""Prints how soon a change of the active exits takes effect, and how soon a drift is noticed.

    python benchmarks/adaptation.py

Served on the simulated device in real time, on the shipped network. A decision is taken either between two
batches, by whoever watches the runs, or at any time from another thread; then it waits for the batch under
way. Times are of this process, so other work on the machine counts. The drift is simulated, on the recorded
answers of the study.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, Server, SimulatedNpu
from fluidnpu.host.devices.device import WallClock
from fluidnpu.host.devices.recall import Recall
from fluidnpu.host.serving import active_exits, criteria_of
from fluidnpu.models import quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.scheduler import Request, make_policy
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, InForce
from fluidnpu.scheduler.tuning import AdaptationPlan, Goal, Watching, greedy, simulate_drift
from fluidnpu.studies.pame.networks import table_of
from fluidnpu.studies.pame.recorded import shuffled

CHANGES = 200
STREAMS = 10
BATCH = 16


class Changing:
    """A watcher that moves the exits after every run, at most CHANGES times."""

    def __init__(self, active: ActiveExits) -> None:
        self.active, self.left = active, CHANGES

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
    ) -> frozenset[int]:
        """Change the set."""
        if self.left:
            self.left -= 1
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
    print(f"from the decision to the next batch, us {'median':>20} {'p99':>9} {'most':>10}")
    for name in ("decided between two batches", "from another thread"):
        device = SimulatedNpu(design, clock=WallClock(), recall=Recall(64 << 20))
        driver = Driver(device, program, design)
        driver.load()
        criteria = criteria_of(driver, None)
        active = active_exits(driver, criteria)
        watch = Changing(active) if name.startswith("decided") else None
        with Server(driver, make_policy("fluid"), rule=criteria, active=active, watch=watch) as server:
            stop = threading.Event()

            def ask(server: Server = server, stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    for done in [server.submit(image, slo_ns=10**9) for image in images]:
                        done.result()

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
    longest_us = max(map(max, design.latency.ns)) / 1e3
    print(f"the longest batch takes {longest_us:.0f} us; a change from another thread waits for the one under way")
    found, table = shuffled("fashion"), table_of("fashion")
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
        noticed = [one.noticed for one in streams if one.noticed is not None]
        early = sum(event.requests <= 2000 for one in streams for event in one.events if event.kind == "alarm")
        print(
            f"false alarms at least {distance} requests apart: drift to hard classes noticed after "
            f"{np.mean(noticed):.0f} requests ({min(noticed)} to {max(noticed)}, {len(noticed)} of {STREAMS} streams); "
            f"{early} alarms in {2000 * STREAMS} requests before it"
        )


if __name__ == "__main__":
    main()
