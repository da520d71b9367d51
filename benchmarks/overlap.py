"""NPU time that waits for the host: scheduling and serving that nothing overlaps, at the rates of Table II.

    python benchmarks/overlap.py --requests 1500

Fluid Batching claims at most 0.05 %. The owner's work is real: the policy's decision, images of 224 x 224 x 3
into slots, registers, logits of 1000 classes, exits, replies, statistics. The NPU is a table: a job takes the
row's latency on a virtual clock, and samples leave at the row's rates. Counted is the CPU time of the owner
from the end of a job, or from an arrival that ends a pause, to the next START, as a share of the time that
the NPU works. Reading images and writing answers of the network are not in it: other threads do that while
the NPU works.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

import numpy as np
from null_npu import NullNpu

from fluidnpu.dse import Design, LatencyTable
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, compile_program, register
from fluidnpu.host import Driver, VirtualClock, serve_requests
from fluidnpu.models import Exit, quantise
from fluidnpu.models.graph import Builder
from fluidnpu.models.zoo import with_random_weights
from fluidnpu.scheduler import Action, Policy, View, make_policy, poisson
from fluidnpu.scheduler.exits import Seen
from fluidnpu.studies.fluid_batching.paper import table2_rows

CLAIM_PCT = 0.05
POLICIES = ("fluid", "guarded")
_CTRL, _MASK, _FIRST = (register(name).offset for name in ("CTRL", "SLOT_MASK", "FIRST_LAYER"))
_START = register("CTRL").field("START").mask
_MERGE, _EXIT = (register("CTRL").field(name).mask for name in ("MERGE", "EXIT"))


class Stopwatch(VirtualClock):
    """A virtual clock that knows since when the host has been at work while the NPU is idle."""

    def __init__(self) -> None:
        super().__init__()
        self.since_ns = time.thread_time_ns()
        self.gaps_ns: list[int] = []
        self.busy_ns = 0

    def started(self) -> None:
        """Take note of a START."""
        self.gaps_ns.append(time.thread_time_ns() - self.since_ns)

    def sleep_until(self, time_ns: int) -> None:
        """Jump; what was done before the pause kept nobody waiting."""
        super().sleep_until(time_ns)
        self.since_ns = time.thread_time_ns()


class TableNpu(NullNpu):
    """An NPU whose jobs take the times of its design's table."""

    def __init__(self, design: Design, program: Program, clock: Stopwatch) -> None:
        super().__init__(design)
        self._clock, self._watch, self._design = clock, clock, design
        self._stages = {first: stage for stage, (first, _) in enumerate(program.stages)}
        self._active = 0

    def write(self, offset: int, value: int) -> None:
        super().write(offset, value)
        if offset != _CTRL:
            return
        mask = self._words.get(_MASK, 0)
        if value == _MERGE:
            self._active |= mask
        elif value == _EXIT:
            self._active &= ~mask
        elif value == _START:
            self._watch.started()

    def wait_interrupt(self, deadline_ns: int) -> bool:
        stage = self._stages[self._words.get(_FIRST, 0)]
        took_ns = self._design.latency.ns[stage][self._active.bit_count() - 1]
        self._watch.busy_ns += took_ns
        self._watch.sleep_until(self._watch.now_ns() + took_ns)
        return True


class Drawn:
    """Samples leave at exits by chance, at given rates."""

    def __init__(self, rates: tuple[float, ...]) -> None:
        left = 1 - np.cumsum([0.0, *rates])
        self._of_those_there = [rate / there for rate, there in zip(rates, left, strict=False)]
        self._rng = np.random.default_rng(0)

    def leaves(self, seen: Seen) -> bool:
        return bool(self._rng.random() < self._of_those_there[seen.exit])


class Timed:
    """A policy with a stopwatch."""

    def __init__(self, inner: Policy) -> None:
        self.inner, self.name, self.spent_ns = inner, inner.name, list[int]()

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, view: View) -> Action:
        begin = time.thread_time_ns()
        action = self.inner.decide(view)
        self.spent_ns.append(time.thread_time_ns() - begin)
        return action


def served(stages: int, latency: LatencyTable) -> tuple[Design, Program]:
    """A network with the input, stages and classes of the paper's, and few layers; its design has the row's
    table.
    """
    net, exits, tensor = Builder({"image": (224, 224, 3)}), [], "image"
    for stage in range(stages):
        net.stage = stage
        tensor = net.conv(f"conv{stage}", tensor, 8, 3, 4 if stage == 0 else 2)
        logits = net.classifier((f"pool{stage}", f"fc{stage}"), tensor, 1000, f"logits{stage}")
        exits.append(Exit(name=f"exit{stage}", logits=logits, threshold=0.5 if stage < stages - 1 else None))
    quantised = quantise(with_random_weights(net.network("thin", exits), 0))
    design = design_for(quantised.network.workload, b_max=len(latency.ns[0]))
    design = replace(design, latency=latency)
    return design, compile_program(quantised, design)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500)
    given = parser.parse_args()
    worst = 0.0
    print(f"{'row of Table II':36s} {'policy':8s} decision  host while the NPU waits, us a job      share of NPU time")
    for row in table2_rows():
        what = row.serving
        design, program = served(what.latency.stages, what.latency)
        for name in POLICIES:
            clock = Stopwatch()
            driver = Driver(TableNpu(design, program, clock), program, design)
            driver.load()
            image = driver.encode(np.zeros((224, 224, 3), np.uint8))  # as clients' threads do
            requests = poisson(row.rate_per_s, given.requests, slo_ns=row.slo_ns, rng=np.random.default_rng(0))
            policy = Timed(make_policy(name, what.setting(row.rate_per_s, row.slo_ns)))
            serve_requests(
                requests,
                [image] * len(requests),
                policy,
                driver,
                exit_rates=what.exit_rates,
                rule=Drawn(what.exit_rates),
            )
            gaps_us = np.array(clock.gaps_ns) / 1e3
            share = 100 * gaps_us.sum() * 1e3 / clock.busy_ns
            worst = max(worst, share)
            print(
                f"{what.name + f', {row.rate_per_s:g}/s':36s} {name:8s} {np.mean(policy.spent_ns) / 1e3:5.1f} us  "
                f"mean {gaps_us.mean():6.1f}  median {np.median(gaps_us):6.1f}  p99 {np.percentile(gaps_us, 99):7.1f}"
                f"   {share:.3f} %  (decisions alone {100 * sum(policy.spent_ns) / clock.busy_ns:.3f} %)",
                flush=True,
            )
    verdict = "holds" if worst <= CLAIM_PCT else "does not hold"
    print(f"at most {CLAIM_PCT} %: {verdict}, the most is {worst:.3f} %; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
