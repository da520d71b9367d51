"""Sustained efficiency of the input DMA, layer by layer.

    python -m fluidnpu.rtl_tb.npu.efficiency [--model-only]

The whole NPU runs ResNet-50 at batch 1, at full size, on ZC706 with the memory of its programmable logic,
which answers after 100 cycles; shown are the layers with 1x1 and 3x3 kernels of stride 1, each shape once.
Figures are simulated (`DramModel`). `--model-only` asks the exact cycle model, which is equal to the RTL,
instead of the RTL.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DramModel, Point, build_design
from fluidnpu.dse.exact import LayerCycles
from fluidnpu.hls import Program, compile_program
from fluidnpu.models import Kind, LayerShape, quantise
from fluidnpu.models.zoo import random_full_size

from ..common.command import ended
from .device import LayerRun
from .job import BareNpu, modelled

GOAL = 0.95  # useful input words for each word that the port carried
BOARD, MEMORY, POINT, LATENCY = "zc706", "pl", Point(t_r=8192, t_p=14, t_c=64), 100


@dataclass(frozen=True, kw_only=True)
class PortUse:
    """Use of the input port by one layer: words that reached the core, words that the port carried, and its
    run.
    """

    layer: LayerShape
    delivered: int
    carried: int
    run: LayerCycles

    @property
    def name(self) -> str:
        """Kernel, channels and size of the layer."""
        window = self.layer.window
        assert window is not None
        kernel, out = "x".join(map(str, window.kernel)), "x".join(map(str, window.out))
        return f"{kernel} {window.channels} -> {self.layer.c} at {out}{' + residual' if self.layer.residual else ''}"

    @property
    def words_used(self) -> float:
        """Input words delivered to the core for each word the port carried; above 1 where windows or tiles
        share words, 0 where nothing was read.
        """
        return self.delivered / self.carried if self.carried else 0.0

    @property
    def beats_per_cycle(self) -> float:
        """Input beats for each cycle of the layer, start and end included; 1 when the core never waits."""
        return self.run.input_beats / self.run.cycles

    @property
    def busiest(self) -> str:
        """The bottleneck of the layer: the stream or port with the most beats, each at most one a cycle."""
        beats = {
            "input stream": self.run.input_beats,
            "port m1 (inputs)": self.run.read_beats[1],
            "port m0 (weights)": self.run.read_beats[0],
            "weight stream": self.run.weight_beats,
            "output stream": self.run.output_beats,
            "port m2 (outputs)": self.run.write_beats,
            "port m2 (residuals)": self.run.read_beats[2],
        }
        name = max(beats, key=lambda key: beats[key])
        return f"{name} {100 * beats[name] / self.run.cycles:.0f} %"


def delivered_words(design: Design, index: int, batch: int) -> int:
    """Input words of a layer that reach the core, guard words left out.

    More than are read where windows or column tiles share words.
    """
    layer, columns = design.lowered(index), design.tile(design.mode(index, batch))[1]
    if layer.kind is Kind.GEMM:
        return batch * layer.r * layer.groups * layer.p * -(-layer.c // columns)
    return batch * layer.r * layer.p * layer.c


def uses(design: Design, runs: Sequence[LayerCycles], batch: int) -> list[PortUse]:
    """The use of the input port by every layer."""
    return [
        PortUse(
            layer=layer,
            delivered=delivered_words(design, index, batch),
            carried=run.read_beats[1] * design.port_bits // 16,
            run=run,
        )
        for index, (layer, run) in enumerate(zip(design.layers, runs, strict=True))
    ]


@cache
def _network() -> tuple[Design, Program]:
    qnet = quantise(random_full_size("resnet50"))
    design = build_design(qnet.network.workload, load_board(BOARD), POINT, memory=MEMORY, core="rtl", b_max=1)
    return design, compile_program(qnet, design)


def on_rtl(latency: int = LATENCY) -> list[LayerRun]:
    """Run every layer of the network on the RTL."""
    design, program = _network()
    return BareNpu.of(design, _memory(latency)).run(program, 1)


def by_model(latency: int = LATENCY, *, first_cycle: int = 0) -> Sequence[LayerCycles]:
    """Compute every layer of the network by the exact model; `first_cycle` as `dse.job_cycles` takes it."""
    design, program = _network()
    return modelled(program, design, _memory(latency), 1, first_cycle=first_cycle)


def _memory(latency: int) -> DramModel:
    return replace(DramModel.of(load_board(BOARD), MEMORY), latency_cycles=latency)


def measure(*, model_only: bool = False, latency: int = LATENCY) -> list[PortUse]:
    """Run the network and return the use of the port by each distinct 1x1 and 3x3 layer of stride 1."""
    design, _ = _network()
    runs: Sequence[LayerCycles] = by_model(latency) if model_only else on_rtl(latency)
    distinct: dict[str, PortUse] = {}
    for use in uses(design, runs, 1):
        window = use.layer.window
        if use.layer.kind is not Kind.GEMM or window is None or window.out == (1, 1):
            continue
        if window.stride == (1, 1) and window.kernel in ((1, 1), (3, 3)):
            distinct.setdefault(use.name, use)
    return list(distinct.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and name the worst layer; 1 when a layer misses the goal."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.npu.efficiency", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model-only", action="store_true")
    results = measure(model_only=parser.parse_args(arguments).model_only)
    print(
        f"{'layer':36} {'cycles':>7} {'input beats':>11} {'port beats':>10} {'used of a port word':>19} {'beats a cycle':>13}  busiest"
    )
    for use in results:
        print(f"{use.name:36} {use.run.cycles:7} {use.run.input_beats:11} {use.run.read_beats[1]:10} {use.words_used:19.3f} "
              f"{use.beats_per_cycle:13.3f}  {use.busiest}")  # fmt: skip
    worst, slowest = min(results, key=lambda use: use.words_used), min(results, key=lambda use: use.beats_per_cycle)
    print(
        f"worst use of the port: {worst.name} ({worst.words_used:.3f}): the ends of its rows share port words with nothing"
    )
    print(f"fewest input beats a cycle: {slowest.name} ({slowest.beats_per_cycle:.3f}): busiest is {slowest.busiest}")
    low = [use.name for use in results if use.words_used < GOAL]
    print(
        f"useful words are at least {GOAL:.0%} of what the port carried on {len(results) - len(low)} of {len(results)} layers"
    )
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.npu.efficiency"))
