"""Speed of the exact cycle model: simulated cycles a second, compile time, and the cost of a short job.

    python benchmarks/exact_model.py [--network resnet50] [--board zc706] [--memory pl] [--ideal] [--batch 1]
                                     [--repeats 5] [--cold]

The best of the repeats counts, in processor time. `--cold` compiles into an empty cache first, which takes
ten seconds or more; without it the first call loads the cache, or compiles if the twin's files have changed.
The short job is the network's shortest layer.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DramModel, explore, has_numba
from fluidnpu.dse.exact import LayerCycles, LayerJob, Machine, job_cycles
from fluidnpu.hls import compile_program
from fluidnpu.hls.program import layer_jobs
from fluidnpu.models import quantise
from fluidnpu.models.zoo import FULL_SIZE, random_full_size

SLOTS = 0x2000_0000


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Processor time of the fastest call."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def network(name: str, board: str, memory: str, batch: int) -> tuple[Design, tuple[LayerJob, ...], list[int]]:
    """A network on the `paper` model's best array of a board: design, layers and slots of its job."""
    qnet = quantise(random_full_size(name))
    design = explore(qnet.network.workload, load_board(board), b_max=batch, memory=memory).design
    program = compile_program(qnet, design)
    slots = [SLOTS + index * program.slot_bytes for index in range(batch)]
    return design, layer_jobs(program, design, batch), slots


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", choices=FULL_SIZE, default=FULL_SIZE[0])
    parser.add_argument("--board", default="zc706")
    parser.add_argument("--memory", default="pl")
    parser.add_argument("--ideal", action="store_true", help="a memory that never lets the ports wait")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="compile first, into an empty cache")
    wanted = parser.parse_args()
    design, jobs, slots = network(wanted.network, wanted.board, wanted.memory, wanted.batch)
    dram = DramModel.IDEAL if wanted.ideal else DramModel.of(load_board(wanted.board), wanted.memory)
    machine = Machine.of(design)

    def run(layers: Sequence[LayerJob]) -> tuple[LayerCycles, ...]:
        return job_cycles(layers, slots, machine, dram)

    with tempfile.TemporaryDirectory() as folder:
        if wanted.cold:
            os.environ["NUMBA_CACHE_DIR"] = folder
        first = seconds(lambda: run(jobs[-1:]), 1)
    counts = run(jobs)
    cycles = sum(layer.cycles for layer in counts)
    whole = seconds(lambda: run(jobs), wanted.repeats)
    shortest = min(range(len(jobs)), key=lambda index: counts[index].cycles)
    short = seconds(lambda: [run(jobs[shortest:][:1]) for _ in range(100)], wanted.repeats) / 100
    short_cycles = run(jobs[shortest:][:1])[0].cycles
    how = "compiled" if has_numba() else "plain Python"
    print(f"{wanted.network} on {wanted.board}, memory {wanted.memory}, B = {wanted.batch}, {how}:")
    print(f"  {cycles / whole / 1e6:.2f} million cycles a second ({cycles} in {whole:.3f} s)")
    print(f"  {1e6 * short:.0f} us for a job of {short_cycles} cycles")
    print(f"  {first:.1f} s for the first call{', compiled' if wanted.cold else ''}")


if __name__ == "__main__":
    main()
