"""A processor as a worker of a fleet: its times are measured, and stand in a bundle of its own.

    python -m fluidnpu.host.fleet.boards.worker project/bundle --seconds 0.5

A worker has one thread, so a machine has as many workers as processors. The program is measured in a process
of its own, as it is served: driver, registers and arithmetic, one thread. It prints the times as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import median

import numpy as np

from fluidnpu.dse import LatencyTable
from fluidnpu.models.onnx import processor_name

from ...bundle import Bundle
from ...devices.processor import ProcessorNpu
from ...driver import Driver
from ...errors import DeviceError
from .children import environment

LEAST_RUNS = 5
Progress = Callable[[int, int], None]


def worker_bundle(bundle: Bundle, times: LatencyTable, where: str) -> Bundle:
    """Return the same program with the times of a processor in its design; `where` names the processor.

    A worker shares no NPU with other networks, so its design is one of its own.
    """
    design = replace(bundle.design, latency=times, model="measured", core=None, board=where, hardware=None, facts=None)
    return Bundle(design=design, program=replace(bundle.program, design_digest=design.digest))


def stage_times(bundle: Bundle, seconds: float, progress: Progress = lambda done, of: None) -> LatencyTable:
    """Time every stage at every batch size in this thread: medians of at least five runs of random samples.

    Counted is the thread's own processor time, so what else the machine does is left out. `seconds`: at
    least, a stage and batch size. Where a larger batch was faster it has the smaller one's time.
    """
    design = bundle.design
    driver = Driver(ProcessorNpu(design), bundle.program, design)
    driver.load()
    for slot, sample in enumerate(bundle.program.random_samples(np.random.default_rng(0), design.b_max)):
        driver.write_sample(slot, sample)
    rows: list[list[int]] = [[] for _ in range(design.stages)]
    for batch in range(1, design.b_max + 1):
        driver.activate(range(batch))
        took: list[list[int]] = []
        until = time.perf_counter() + seconds * design.stages
        while len(took) <= LEAST_RUNS or time.perf_counter() < until:
            took.append([_time_stages(driver, stage) for stage in range(design.stages)])
        for row, runs in zip(rows, zip(*took[1:], strict=True), strict=True):  # the first run decodes the layers
            row.append(max(1, round(median(runs))))
        progress(batch, design.b_max)
    return LatencyTable(ns=tuple(tuple(accumulate(row, max)) for row in rows))


def _time_stages(driver: Driver, stage: int) -> int:
    began = time.thread_time_ns()
    driver.run_stage(stage)
    return time.thread_time_ns() - began


def measure_worker(folder: Path, seconds: float, progress: Progress = lambda done, of: None) -> Bundle:
    """Measure a bundle's program on one processor of this machine and return the worker's bundle.

    Raises BundleError, and DeviceError where the measuring process fails.
    """
    bundle = Bundle.read(folder)
    words = [sys.executable, "-m", "fluidnpu.host.fleet.boards.worker", str(folder), f"--seconds={seconds}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(one_thread=True)) as process:
        assert process.stdout is not None
        rows = None
        for line in process.stdout:
            report = json.loads(line)
            if "done" in report:
                progress(report["done"], bundle.design.b_max)
            else:
                rows = report["ns"]
    if rows is None:
        raise DeviceError(f"a bundle must be measured in a process of its own, which ended with {process.returncode}")
    times = LatencyTable(ns=tuple(map(tuple, rows)))
    return worker_bundle(bundle, times, f"one thread of {processor_name()}")


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=0.5, help="at least, a stage and batch size")
    given = parser.parse_args(words)

    def report(done: int, of: int) -> None:
        print(json.dumps({"done": done}), flush=True)

    times = stage_times(Bundle.read(given.bundle), given.seconds, report)
    print(json.dumps({"ns": times.ns}))


if __name__ == "__main__":
    main()
