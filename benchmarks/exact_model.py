"""Speed of the exact model: simulated cycles a second, first with compilation, then the best of several
runs.

    python benchmarks/exact_model.py [--network resnet50] [--board zc706] [--memory pl] [--batch 1] [--runs 5]

To compare two states of the sources, run it in two checkouts in turn in one session: machines are noisy.
Compilation is cached by the digest of the sources (`dse/jit.py`), so it counts in the first run after an
edit only.
"""

from __future__ import annotations

import argparse
import time

from fluidnpu.boards import load_board
from fluidnpu.dse import DramModel, explore
from fluidnpu.dse.exact import Machine, job_cycles
from fluidnpu.hls import compile_program
from fluidnpu.hls.program import layer_jobs
from fluidnpu.models import quantise
from fluidnpu.models.zoo import FULL_SIZE, random_full_size


def main() -> None:
    """Print cycles, seconds and cycles a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=FULL_SIZE, default="resnet50")
    parser.add_argument("--board", default="zc706")
    parser.add_argument("--memory", default="pl")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    wanted = parser.parse_args()
    board = load_board(wanted.board)
    qnet = quantise(random_full_size(wanted.network))
    design = explore(
        qnet.network.workload, board, b_max=wanted.batch, memory=wanted.memory, model="paper", core="rtl"
    ).design
    program = compile_program(qnet, design)
    jobs = layer_jobs(program, design, wanted.batch)
    slots = [(1 << 30) + index * program.slot_bytes for index in range(wanted.batch)]
    dram = DramModel.of(board, wanted.memory, clock_hz=design.clock_hz)
    seconds = []
    for _ in range(wanted.runs + 1):
        began = time.process_time()
        layers = job_cycles(jobs, slots, Machine.of(design), dram)
        seconds.append(time.process_time() - began)
    cycles = sum(layer.cycles for layer in layers)
    print(
        f"{wanted.network} on {board.name}, memory '{wanted.memory}', B = {wanted.batch}: {cycles} cycles (simulated)"
    )
    print(f"first run, with loading or compiling the loop: {seconds[0]:.2f} s of processor time")
    print(f"best of {wanted.runs}: {min(seconds[1:]):.3f} s, {cycles / min(seconds[1:]) / 1e6:.2f} M cycles a second")


if __name__ == "__main__":
    main()
