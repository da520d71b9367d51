"""Whole networks by the exact model on both boards, beside published results, as a page of Markdown.

    python benchmarks/networks.py [--batches 1,8] [--network NAME]... > docs/explanation/cycles/networks.md

Each network runs on one array a board and memory, every layer with the plan that the exact model finds best.
The arrays are those that searches found; `CASES` names them. Their RAM is shared between accumulators and
input buffer for batches up to the largest of them. Figures are simulated: cycles of our RTL at the
clock of the board file, of the NPU alone. What took how long goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, Question
from fluidnpu.dse.exact.search import Evaluation, evaluate_array
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.hardware import roofline_cycles
from fluidnpu.dse.resources.fit import Fit
from fluidnpu.models import LayerShape, Workload
from fluidnpu.models.zoo import full_size

DEEPEST = 8192  # rows of a bank, before RAM is shared
CORE = "hls"  # which asks nothing of columns
WORST = 5  # layers that are named
PLACES = (("zc706", "ps_striped"), ("zc706", "pl"), ("zcu104", "ps_striped"))
CASES = {
    "resnet50": ((14, 64), (7, 128), (27, 64)),
    "inception_v3": ((28, 32), (28, 32), (54, 32)),
    "mobilenet_v2": ((28, 32), (18, 50), (24, 64)),
    "efficientnet_lite0": ((28, 32), (18, 50), (24, 64)),
}
HEAD = """
`make refresh` makes this page (`python benchmarks/networks.py`; simulated): cycles of the exact model, which
equal those of the RTL, at 16 bits. The clock is that of the board file, 150 MHz (ZC706) and 200 MHz (ZCU104),
which no tool has confirmed. The NPU alone, without the processor's share. The roofline is that of all DSPs of
the device and of what the memory sustains ([ADR 28](../../adr/0028-memory-as-it-is.md)). Depthwise layers are
lowered as [ADR 29](../../adr/0029-depthwise.md) says; their zeros do not count as work. Both
mobile networks are more than twice as fast [with a filter](filters.md) on the way out of the layers before.
Both batch sizes run on one design, whose RAM is shared for batches up to the largest.
""".lstrip()
PUBLISHED = """
| system | device or board | network | bits | clock, MHz | frames/s | source |
|---|---|---|---:|---:|---:|---|
| DPU, 2 x B4096, one thread / all | ZCU104 | ResNet-50 | 8 | 300, DSPs 600 | 83.6 / 157.2 | (a) |
| the same | ZCU104 | Inception-v3 | 8 | 300, DSPs 600 | 63.5 / 122.1 | (a) |
| the same | ZCU104 | MobileNet-v2 | 8 | 300, DSPs 600 | 284 / 609 | (a) |
| the same | ZCU104 | MobileNet-v1 | 8 | 300, DSPs 600 | 345 / 784 | (a) |
| the same | ZCU104 | VGG-16 | 8 | 300, DSPs 600 | 21.5 / 37.1 | (a) |
| Snowflake | XC7Z045 | ResNet-50 | 16 | 250 | 17 (122 GOP/s) | Gokhale et al., arXiv 1708.02579 |
| University of Calabria | XC7Z045 | VGG-16 | 8 | not found | 11.8 | Spagnolo et al., J. Low Power Electron. Appl. 10 (2020) 1 |
| DNNBuilder | ZC706 | VGG-16 | 16 / 8 | 200 | 262 / 524 GOP/s | Zhang et al., ICCAD 2018; from memory, not looked up |

(a) README of model_zoo in github.com/Xilinx/Vitis-AI, version 2.5: end to end, with the processor's pre- and
post-processing. Ours [with words of 8 bits](int8.md).
""".strip()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network on an array, counted at some batch sizes."""

    network: str
    workload: Workload
    question: Question
    counted: Evaluation

    @property
    def array(self) -> str:
        """The array, as tables write it."""
        fit = self.counted.fit
        return f"<{fit.t_r}, {fit.array.t_p}, {fit.array.t_c}>"

    def cells(self, batch: int) -> tuple[str, ...]:
        """Frames a second, milliseconds, busy multipliers of the array, the roofline, and the share of it."""
        board, work = self.question.board, self.workload
        cycles = self.counted.total(work.layers, batch)
        roof = sum(
            roofline_cycles(
                layer, batch=batch, macs_per_cycle=board.dsp, words_per_cycle=self.question.dram.awake_words()
            )
            for layer in work.layers
        )
        macs = batch * work.macs
        busy, bound = macs / self.counted.fit.array.macs / cycles, macs / board.dsp / roof
        return (
            f"{batch * board.clock_hz / cycles:.1f}",
            f"{1e3 * cycles / board.clock_hz:.2f}",
            f"{100 * busy:.1f} %",
            f"{100 * bound:.1f} %",
            f"{100 * roof / cycles:.1f} %",
        )

    def lost(self, batch: int) -> list[tuple[float, LayerShape]]:
        """The layers that lose most: their share of all cycles in which the array is not busy."""
        total = self.counted.total(self.workload.layers, batch)
        counts = [
            layer_cycle[self.counted.batches.index(batch)]
            for layer_cycle in self.counted.layer_cycles(self.workload.layers)
        ]
        idle = [
            (cycles - batch * layer.macs / self.counted.fit.array.macs, layer)
            for cycles, layer in zip(counts, self.workload.layers, strict=True)
        ]
        return sorted(((cycles / total, layer) for cycles, layer in idle), key=lambda pair: -pair[0])[:WORST]


def fitted_to(
    network: str, board: str, memory: str, array: tuple[int, int], b_max: int, core: str = CORE
) -> tuple[Question, Fit]:
    """The question of one array for a network, and the array as it fits, for batches up to `b_max`."""
    workload = full_size(network).workload
    question = Question(
        workload=workload, board=load_board(board), b_max=b_max, model="exact", memory=memory, core=core, lanes=0
    )
    return question, share_memory(question, Point(t_r=DEEPEST, t_p=array[0], t_c=array[1])).fit


def count(network: str, board: str, memory: str, array: tuple[int, int], batches: Sequence[int]) -> Row:
    """Count a network on an array."""
    began = time.process_time()
    question, fitted = fitted_to(network, board, memory, array, max(batches))
    counted = evaluate_array(question, fitted, batches)
    row = Row(network=network, workload=question.workload, question=question, counted=counted)
    told = "; ".join(f"B = {batch}: {' '.join(row.cells(batch))}" for batch in batches)
    seconds = time.process_time() - began
    print(f"{network} on {board} {memory} {row.array}: {told} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--network", action="append", choices=tuple(CASES), default=[])
    wanted = parser.parse_args()
    batches = [int(batch) for batch in wanted.batches.split(",")]
    rows = [
        count(network, *place, array, batches)
        for network in wanted.network or CASES
        for place, array in zip(PLACES, CASES[network], strict=True)
    ]
    print(f"# Four networks on both boards\n\n{HEAD}")
    print(
        "| network | board, memory | array | B | frames/s | ms a batch | busy multipliers | roofline | reached of it |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        for batch in batches:
            place = f"{row.question.board.name}, `{row.question.target.ports.name}`"
            print(f"| {row.network} | {place} | {row.array} | {batch} | {' | '.join(row.cells(batch))} |")
    print("\n## Published results on the same devices\n")
    print("These ran on boards; ours are simulated.\n")
    print(PUBLISHED)
    print(
        f"\n## What is left\n\nThe {WORST} layers that lose most, and their share of all cycles in which the array waits or"
    )
    print(f"multiplies by zeros, at B = {batches[-1]}:\n\n| network | board, memory | layers |\n|---|---|---|")
    for row in rows:
        named = ", ".join(f"{layer.name} {100 * share:.1f} %" for share, layer in row.lost(batches[-1]))
        print(f"| {row.network} | {row.question.board.name}, `{row.question.target.ports.name}` | {named} |")


if __name__ == "__main__":
    main()
