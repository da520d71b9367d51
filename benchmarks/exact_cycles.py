"""Cycles of every layer of a full-size network, the exact model beside the RTL on Verilator, as Markdown.

    python benchmarks/exact_cycles.py [--network resnet50] [--board zc706] [--memory pl] [--core hls]
                                      [--ideal] [--latency N] [--batches 1,2,4,8] [--point T_P,T_C | --search]
                                      [--runs rtl] [--model-only] [--losses]

`--memory`: of the board, its first by default (`DramModel.of`; simulated: efficiency, latency and refresh are
assumptions). `--core`: the one that must fit and place, and that a search counts; `--runs`: the one that the
table counts and Verilator runs. `--ideal`: a memory that never lets the ports wait stands behind them
instead. The array is the `paper` model's best that fits, the one named, or that of `search_exact`.
`--model-only` leaves the RTL out, which takes minutes a batch size. Last comes the share of busy multipliers
beside three references: the device's DSPs, the roofline of device and memory, and the `paper` model's
dataflow on the same array. `--losses` says where the rest of the time went. What took how long goes to
standard error. Exit code 1 when a layer differs. `make tables` makes the pages of docs/explanation/cycles.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import CORES, Design, DramModel, Point, build_design, explore
from fluidnpu.dse.exact import LayerCycles
from fluidnpu.dse.hardware import roofline_cycles
from fluidnpu.dse.paper import total_ticks
from fluidnpu.hls import compile_program
from fluidnpu.models import Kind, LayerShape, Workload, quantise
from fluidnpu.models.zoo import FULL_SIZE, random_full_size
from fluidnpu.rtl_tb import LayerRun
from fluidnpu.rtl_tb.npu.efficiency import uses
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled

DEEPEST = 8192  # rows of a bank, before RAM is shared


def multiplied(layer: LayerShape) -> int:
    """Multiply-accumulates of a sample that the array does; a filter does those of a merged layer."""
    return 0 if layer.merged else layer.macs


def table(design: Design, batch: int, found: Sequence[LayerCycles], runs: Sequence[LayerRun] | None) -> int:
    """Prints one; how many layers differ, in cycles or in any count of beats and bursts."""
    columns = (
        "layer",
        "`<R, P, C>`",
        "mode",
        "b_r",
        "block",
        "exact",
        "RTL",
        "difference",
        "busy MACs",
        "beats a cycle",
        "words used of a port word",
    )
    print(f"\nB = {batch}\n\n| {' | '.join(columns)} |\n|---|---|---|{8 * '---:|'}")
    wrong = 0
    for index, (use, cycles) in enumerate(zip(uses(design, found, batch), found, strict=True)):
        layer = use.layer
        plan = design.plans[index][batch - 1]
        share = 100 * batch * multiplied(layer) / design.macs_per_cycle / cycles.cycles
        rtl, gap = ("-", "-")
        if runs is not None:
            wrong += bool(differences(runs[index], cycles))
            rtl, gap = str(runs[index].cycles), str(cycles.cycles - runs[index].cycles)
        mode = design.mode(index, batch).name.lower() + (" (rows)" if plan.row_lanes else "")
        behind = ", pooled" if layer.pooling else ", filtered" if layer.filtering else ""
        mode = "merged" if layer.merged else mode + behind
        print(f"| {layer.name} | {layer.r}, {layer.p}, {layer.c} | {mode} | {plan.b_r} | {plan.block or 'bank'} "
              f"| {cycles.cycles} | {rtl} | {gap} | {share:.1f} % | {use.beats_per_cycle:.2f} "
              f"| {use.words_used:.2f} |")  # fmt: skip
    total, macs = sum(cycles.cycles for cycles in found), batch * sum(map(multiplied, design.layers))
    rtl = "-" if runs is None else str(sum(run.cycles for run in runs))
    gap = "-" if runs is None else str(total - int(rtl))
    print(f"| all | | | | | {total} | {rtl} | {gap} | {100 * macs / design.macs_per_cycle / total:.1f} % | | |")
    return wrong


def efficiency(design: Design, board: Board, dram: DramModel, batches: Sequence[int], totals: Sequence[int]) -> None:
    """Prints the share of busy multipliers at each batch size beside its bounds; pools keep none busy."""
    words, point = dram.awake_words(), Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    print(
        "\n| B | of the array | of the device's DSPs | roofline of device and memory | reached of it | `paper` dataflow, same array |"
    )
    print("|---:|---:|---:|---:|---:|---:|")
    for batch, total in zip(batches, totals, strict=True):
        macs = batch * sum(map(multiplied, design.layers))
        bound = sum(
            roofline_cycles(layer, batch=batch, macs_per_cycle=board.dsp, words_per_cycle=words)
            for layer in design.layers
        )
        paper = total_ticks(design.layers, point, batch, design.out_words) / design.out_words
        array, device = macs / design.macs_per_cycle, macs / board.dsp
        shares = (array / total, device / total, device / bound, bound / total, array / paper)
        print(f"| {batch} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")


def losses(design: Design, dram: DramModel, batches: Sequence[int], found: Sequence[Sequence[LayerCycles]]) -> None:
    """Prints shares of the time in which no multiplier is busy: memory, tiles that do not divide, waiting."""
    words = dram.awake_words()
    print("\n| B | layers | memory | beats | waiting |\n|---:|---|---:|---:|---:|")
    for batch, cycles in zip(batches, found, strict=True):
        total = sum(cycle.cycles for cycle in cycles)
        for kinds, what in (((Kind.GEMM,), "products"), ((Kind.MAX_POOL, Kind.SUM_POOL), "pools")):
            memory = beats = waiting = 0.0
            for layer, one in zip(design.layers, cycles, strict=True):
                if layer.kind in kinds:
                    busy = batch * multiplied(layer) / design.macs_per_cycle
                    bound = roofline_cycles(
                        layer, batch=batch, macs_per_cycle=design.macs_per_cycle, words_per_cycle=words
                    )
                    memory += bound - busy
                    beats += max(0.0, one.input_beats - bound)
                    waiting += one.cycles - max(bound, one.input_beats)
            shares = (memory, beats, waiting)
            print(f"| {batch} | {what} | " + " | ".join(f"{100 * share / total:.2f} %" for share in shares) + " |")


def design_of(work: Workload, board: Board, wanted: argparse.Namespace, batches: Sequence[int]) -> Design:
    """The design that the arguments ask for."""
    b_max = max(batches)
    if wanted.point:
        t_p, t_c = (int(number) for number in wanted.point.split(","))
        point = Point(t_r=DEEPEST, t_p=t_p, t_c=t_c)
        return build_design(work, board, point, memory=wanted.memory, core=wanted.core, b_max=b_max)
    asked = [float(b in batches) for b in range(1, b_max + 1)]
    model = "exact" if wanted.search else "paper"
    return explore(work, board, b_max=b_max, weights=asked, model=model, memory=wanted.memory, core=wanted.core).design


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", choices=FULL_SIZE, default="resnet50")
    parser.add_argument("--board", default="zc706")
    parser.add_argument("--memory")
    parser.add_argument("--core", choices=CORES, default="hls")
    parser.add_argument("--runs", choices=CORES, default="rtl")
    parser.add_argument("--ideal", action="store_true")
    parser.add_argument("--latency", type=int, help="cycles of the memory's latency, there and back")
    parser.add_argument("--batches", default="1,2,4,8")
    parser.add_argument("--point", metavar="T_P,T_C")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--model-only", action="store_true")
    parser.add_argument("--losses", action="store_true")
    wanted = parser.parse_args()
    batches = [int(batch) for batch in wanted.batches.split(",")]
    board = load_board(wanted.board)
    dram = DramModel.IDEAL if wanted.ideal else DramModel.of(board, wanted.memory)
    if wanted.latency:
        dram = replace(dram, latency_cycles=wanted.latency)
    qnet = quantise(random_full_size(wanted.network))
    began = time.monotonic()
    design = design_of(qnet.network.workload, board, wanted, batches)
    memory = "ideal memory" if wanted.ideal else f"memory '{design.memory}'"
    print(f"# {wanted.network} on {board.name}, {memory}\n")
    command = f"python benchmarks/exact_cycles.py {shlex.join(sys.argv[1:])}"
    print(
        f"Generated by\n`{command}`\n(simulated). Columns `exact` and `RTL`: cycles of a layer by the exact model and in Verilator.\n\n"
        f"The design: <{design.t_r}, {design.t_p}, {design.t_c}>, {design.port_bits}-bit ports, an input buffer of {design.buffer_words} words."
    )
    print(f"designed in {time.monotonic() - began:.1f} s", file=sys.stderr)
    program = compile_program(qnet, design)
    rtl = None if wanted.model_only else BareNpu.of(design, dram, wanted.runs)
    wrong, spent, every = 0, [0.0, 0.0], []
    for batch in batches:
        started = time.process_time()
        runs = None
        if rtl is not None:
            runs = rtl.run(program, batch)
            spent[1] += time.process_time() - started
        started = time.process_time()
        first = 0 if runs is None else runs[0].start_cycle
        found = modelled(program, design, dram, batch, core=wanted.runs, first_cycle=first)
        spent[0] += time.process_time() - started
        every.append(found)
        wrong += table(design, batch, found, runs)
        sys.stdout.flush()
    totals = [sum(layer.cycles for layer in found) for found in every]
    efficiency(design, board, dram, batches, totals)
    if wanted.losses:
        losses(design, dram, batches, every)
    print(f"\nlayers that differ in cycles, beats or bursts: {'not compared' if rtl is None else wrong}")
    print(f"model: {sum(totals) / spent[0] / 1e6:.1f} million cycles a second of processor time"
          + ("" if rtl is None else f"; RTL: {sum(totals) / spent[1] / 1e3:.0f} thousand"), file=sys.stderr)  # fmt: skip
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
