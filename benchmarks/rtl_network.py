"""Cycles of a network on the RTL by layer, with ideal memory and the DRAM model, beside the `paper` model.

    python benchmarks/rtl_network.py [MODEL.onnx] [--board zc706] [--memory pl] [--batches 1,4] [--sets 1024]

Every exit is compared with golden first. Cycles with the DRAM model are simulated: its latency and refresh
are assumptions (`rtl_tb.DramModel`). "beats" are cycles in which the core took input: no schedule of this
array does the layer in fewer. "m0" and "m1" are the port words read for weights and inputs: one a cycle at
best.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, Point, explore
from fluidnpu.dse.paper import layer_ticks, pool_cycles
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver
from fluidnpu.host.devices import RtlDevice
from fluidnpu.models import QuantisedNetwork, golden, quantise, read_onnx, shipped_file
from fluidnpu.rtl_tb import DramModel, LayerRun, NpuModel, RtlNpu

SHIPPED = "resnet8_fashion_mnist.onnx"


def paper_cycles(design: Design, board: Board, index: int, batch: int) -> float:
    """Cycles of a layer in the `paper` model, at the k of the design's plan."""
    layer, words = design.layers[index], board.paper_words_per_cycle
    point = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    gemm = layer_ticks(layer, point, batch, words, design.plans[index][batch - 1].k) / words
    return gemm + batch * pool_cycles(layer, design.input_words)


def measure(
    qnet: QuantisedNetwork, design: Design, npu: RtlNpu, batches: list[int]
) -> tuple[dict[int, list[LayerRun]], float]:
    """Runs of every layer for each batch size, stage after stage, and simulated cycles a second.

    Raises RuntimeError where a bit differs.
    """
    program = compile_program(qnet, design)
    driver = Driver(RtlDevice(npu, design.clock_hz), program, design, patience=100)
    driver.load()
    shape = qnet.network.tensors[qnet.network.input]
    images = np.random.default_rng(0).integers(0, 256, (max(batches), *shape), dtype=np.uint8)
    runs: dict[int, list[LayerRun]] = {}
    first, started = npu.cycle, time.monotonic()
    for batch in batches:
        for slot in range(batch):
            driver.write_sample(slot, images[slot])
        driver.activate(range(batch))
        npu.take_layers()
        runs[batch] = []
        for stage in range(design.stages):
            driver.run_stage(stage)
            runs[batch] += npu.take_layers()
    speed = (npu.cycle - first) / (time.monotonic() - started)
    for exit_index, expected in enumerate(golden.run(qnet, images[: batches[-1]])):
        if not np.array_equal(driver.stored_logits(range(batches[-1]), exit_index), expected):
            raise RuntimeError(f"exit {exit_index} must equal golden, and it does not")
    return runs, speed


def table(design: Design, board: Board, batch: int, ideal: list[LayerRun], dram: list[LayerRun]) -> None:
    print(f"\nB = {batch}: cycles")
    print(
        f"  {'layer':22} {'<R, P, C>':>16} {'mode':9} {'paper':>9} {'ideal':>9} {'DRAM':>9} {'beats':>8} {'m0':>7} {'m1':>7}"
    )
    for stage in range(design.stages):
        totals = np.zeros(4)
        for index in design.stage_layers(stage):
            layer, a, b = design.layers[index], ideal[index], dram[index]
            paper = paper_cycles(design, board, index, batch)
            totals += (paper, a.cycles, b.cycles, a.input_beats)
            size = f"{layer.r}, {layer.p}, {layer.c}"
            print(f"  {layer.name:22} {size:>16} {design.mode(index, batch).name.lower():9} {paper:9.0f} {a.cycles:9} "
                  f"{b.cycles:9} {a.input_beats:8} {a.read_beats[0]:7} {a.read_beats[1]:7}")  # fmt: skip
        macs = batch * sum(design.layers[i].macs for i in design.stage_layers(stage))
        share = ", ".join(f"{100 * macs / design.macs_per_cycle / cycles:.1f} %" for cycles in totals[:3])
        print(
            f"  {'stage ' + design.exits[stage]:49} {totals[0]:9.0f} {totals[1]:9.0f} {totals[2]:9.0f} {totals[3]:8.0f}   of peak: {share}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--board", default="zc706")
    parser.add_argument("--memory")
    parser.add_argument("--batches", default="1,4")
    wanted = parser.parse_args()
    with shipped_file(SHIPPED) as path:
        qnet = quantise(read_onnx(wanted.model or path))
    board = load_board(wanted.board)
    design = explore(qnet.network.workload, board, memory=wanted.memory, model="paper", core="rtl").design
    batches = [int(batch) for batch in wanted.batches.split(",")]
    model = NpuModel.of(design)
    model.build()
    memory = DramModel.of(board, wanted.memory, clock_hz=design.clock_hz)
    print(f"{qnet.network.name} on {board.name}: <{design.t_r}, {design.t_p}, {design.t_c}>, {design.clock_hz / 1e6:g} MHz, "
          f"{design.port_bits}-bit ports, input buffer of {design.buffer_words} words")  # fmt: skip
    print(f"DRAM model: latency {memory.latency_cycles} cycles, {memory.outstanding} bursts a master, {memory.total_words:.1f} words a cycle in all, "
          f"{memory.refresh_cycles} cycles of refresh every {memory.refresh_interval_cycles}")  # fmt: skip
    ideal, speed = measure(qnet, design, RtlNpu(model), batches)
    dram, _ = measure(qnet, design, RtlNpu(model, dram=memory), batches)
    for batch in batches:
        table(design, board, batch, ideal[batch], dram[batch])
    print(f"\nall exits equal golden at B = {batches[-1]}; {speed / 1e3:.0f} thousand simulated cycles a second")


if __name__ == "__main__":
    main()
