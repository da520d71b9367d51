"""The pictures of the concept pages; numbers come from the shipped network, a search or a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from drawing import BLUE, GREEN, GREY, INK, LINE, ORANGE, PAPER, RED, SOFT, Sheet

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DramModel, LatencyTable, explore
from fluidnpu.dse.hardware import roofline_cycles
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.models.zoo import full_size
from fluidnpu.scheduler import Request, Serving, World, draw_exits, make_policy, poisson, simulate

WIDTH = 720.0
STAGES = (BLUE, ORANGE, GREEN)


def exits() -> Sheet:
    """Three stages of the shipped network, the share of images that leaves at each exit, and its accuracy."""
    sheet = Sheet(WIDTH, 240, "A network with three exits: most images leave at the first")
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    work = network.workload
    sheet.label(10, 40, 80, 60, "image", GREY)
    x = 120.0
    macs = [sum(layer.macs for layer in work.layers if layer.stage <= stage) for stage in range(3)]
    before = 90.0
    for stage, exit in enumerate(network.exits):
        sheet.line(before, 70, x, 70, arrow=True)
        sheet.label(x, 40, 130, 60, f"stage {stage + 1}", STAGES[stage])
        sheet.line(x + 65, 100, x + 65, 136, arrow=True)
        sheet.label(x + 10, 138, 110, 34, exit.name, PAPER)
        assert exit.rate is not None
        assert exit.accuracy is not None
        sheet.text(x + 65, 192, f"{100 * exit.rate:.0f} % of images leave", size=12)
        sheet.text(x + 65, 209, f"after {macs[stage] / 1e6:.1f} MMAC", size=12, ink=SOFT)
        sheet.text(x + 65, 226, f"accuracy of all here {100 * exit.accuracy:.1f} %", size=12, ink=SOFT)
        before = x + 130
        x += 205
    sheet.text(10, 22, "easy images stop early, hard ones go on", at="start", bold=True)
    return sheet


def batches() -> Sheet:
    """Show a load of weights that serves a batch, and a batch that shrinks at exits."""
    sheet = Sheet(WIDTH, 250, "A batch shares the weights, and a batch that loses samples at exits shares less")
    sheet.text(10, 22, "one load of weights serves the whole batch", at="start", bold=True)
    for column, (count, title) in enumerate(((1, "batch of 1"), (4, "batch of 4"))):
        x = 10 + column * 340
        sheet.text(x, 52, title, at="start", size=12, ink=SOFT)
        sheet.label(x, 62, 70, 26, "weights", ORANGE, size=12)
        for sample in range(count):
            sheet.label(x + 74 + sample * 58, 62, 54, 26, f"image {sample + 1}", BLUE, size=11)
    sheet.text(10, 128, "at exits a batch shrinks, and nothing fills the gaps by itself", at="start", bold=True)
    alive = [4, 2, 1]
    for stage in range(3):
        x = 10 + stage * 238
        sheet.text(x, 152, f"stage {stage + 1}", at="start", size=12, ink=SOFT)
        sheet.label(x, 162, 70, 26, "weights", ORANGE, size=12)
        for sample in range(4):
            there = sample < alive[stage]
            sheet.box(x + 74 + sample * 36, 162, 33, 26, BLUE if there else PAPER, dash="" if there else "3 3")
        left = alive[stage] - (alive[stage + 1] if stage < 2 else 0)
        sheet.text(
            x + 74, 208, f"{left} leave{'s' if left == 1 else ''} at exit {stage + 1}", at="start", size=12, ink=SOFT
        )
    sheet.text(10, 238, "dashed: a place in the batch that is paid for and empty", at="start", size=12, ink=SOFT)
    return sheet


def fluid() -> Sheet:
    """A schedule of the policy `fluid` on eight requests, from the simulator."""
    latency = LatencyTable(ns=((100, 130, 155, 180), (100, 130, 155, 180), (100, 130, 155, 180)))
    arrivals = [0, 0, 0, 0, 120, 140, 160, 170]
    taken = [0, 2, 0, 2, 2, 0, 1, 2]
    requests = [Request(id=i, arrival_ns=t, deadline_ns=t + 900) for i, t in enumerate(arrivals)]
    world = World(latency=latency, exits=taken, exit_rates=[0.4, 0.2, 0.4])
    serving = Serving(latency=latency, exit_rates=(0.4, 0.2, 0.4))
    schedule = simulate(requests, make_policy("fluid", serving.setting(5e6, 900)), world)
    schedule.check()
    end = max(run.end_ns for run in schedule.runs)
    scale = (WIDTH - 110) / end
    sheet = Sheet(WIDTH, 300, "Fluid batching: a batch halts at an exit, newer requests catch up, both go on together")
    for row in range(len(requests)):
        y = 40 + row * 27
        sheet.text(80, y + 15, f"request {row + 1}", at="end", size=12)
        sheet.line(90, y + 22, WIDTH - 10, y + 22, ink=GREY, wide=1)
        sheet.line(90 + arrivals[row] * scale, y, 90 + arrivals[row] * scale, y + 22, wide=2)
    for run in schedule.runs:
        for request in run.ids:
            x, w = 90 + run.start_ns * scale, (run.end_ns - run.start_ns) * scale
            sheet.label(x + 1, 40 + request * 27, w - 2, 20, f"stage {run.stage + 1}", STAGES[run.stage], size=11)
    for record in schedule.records:
        sheet.dot(90 + record.end_ns * scale, 50 + record.request.id * 27, 4, RED)
    sheet.text(90, 22, "a vertical stroke: the request arrives", at="start", size=12, ink=SOFT)
    sheet.text(WIDTH - 10, 22, "a dot: it leaves at an exit", at="end", size=12, ink=SOFT)
    sheet.line(90, 264, WIDTH - 10, 264, arrow=True)
    sheet.text(WIDTH - 10, 284, "time", at="end", size=12, ink=SOFT)
    sheet.text(
        90,
        284,
        f"batches one after another: {', '.join(str(len(run.ids)) for run in schedule.runs)}",
        at="start",
        size=12,
    )
    return sheet


def array() -> Sheet:
    """Rows stream past T_C processing elements of T_P multipliers each."""
    sheet = Sheet(WIDTH, 290, "The array: T_C processing elements, each a tree of T_P multipliers")
    sheet.text(
        10,
        22,
        "one row of inputs enters in a cycle; every PE multiplies it with weights of its own",
        at="start",
        bold=True,
    )
    for row in range(4):
        for word in range(4):
            sheet.box(10 + word * 24, 84 + row * 24, 22, 22, BLUE if row else GREEN)
    sheet.text(57, 72, "T_P words", size=12, ink=SOFT)
    sheet.text(57, 200, "rows, one a cycle", size=12, ink=SOFT)
    sheet.line(110, 130, 150, 130, arrow=True)
    for pe in range(4):
        x = 160 + pe * 120
        sheet.box(x, 56, 104, 190, PAPER, round=6)
        sheet.text(x + 52, 76, f"PE {pe + 1}" if pe < 3 else "PE T_C", size=12, bold=True)
        for word in range(4):
            sheet.label(x + 8 + word * 23, 88, 20, 22, "×", ORANGE)
            sheet.line(x + 18 + word * 23, 110, x + 52, 138)
        sheet.label(x + 32, 138, 40, 24, "+", PAPER)
        sheet.line(x + 52, 162, x + 52, 182, arrow=True)
        sheet.label(x + 6, 184, 92, 50, "T_R sums\nof 48 bits", GREY, size=12)
    sheet.text(645, 104, "weights stay", at="start", size=12, ink=SOFT)
    sheet.text(645, 120, "for a tile", at="start", size=12, ink=SOFT)
    sheet.text(645, 206, "accumulator", at="start", size=12, ink=SOFT)
    sheet.text(645, 222, "bank", at="start", size=12, ink=SOFT)
    sheet.text(
        160,
        272,
        "after the last tile: round, add a residual, clip, and send one int16 a sum to memory",
        at="start",
        size=12,
    )
    return sheet


def tiles() -> Sheet:
    """A layer as a matrix product, and the tile that the array holds."""
    sheet = Sheet(WIDTH, 290, "A layer is a product of matrices, cut into tiles")
    sheet.text(
        10, 22, "a layer <R, P, C> is a product of matrices; the array takes it tile by tile", at="start", bold=True
    )

    def matrix(
        x: float, y: float, w: float, h: float, tile: tuple[float, float], fill: str, names: tuple[str, str, str]
    ) -> None:
        sheet.box(x, y, w, h, PAPER)
        across, down = tile
        for i in range(1, math.ceil(w / across)):
            sheet.line(x + i * across, y, x + i * across, y + h, ink=GREY, wide=1)
        for i in range(1, math.ceil(h / down)):
            sheet.line(x, y + i * down, x + w, y + i * down, ink=GREY, wide=1)
        sheet.box(x, y, across, down, fill)
        title, wide, high = names
        sheet.text(x + w / 2, y + h + 20, title, size=12, bold=True)
        sheet.text(x + w / 2, y - 8, wide, size=12, ink=SOFT)
        sheet.text(x - 8, y + h / 2, high, size=12, at="end", ink=SOFT)

    matrix(40, 62, 168, 168, (42, 84), BLUE, ("inputs", "P, in tiles of T_P", "R"))
    sheet.text(61, 108, "T_R", size=12)
    sheet.text(240, 152, "×", size=22)
    matrix(300, 62, 120, 168, (60, 42), ORANGE, ("weights", "C, in tiles of T_C", "P"))
    sheet.text(452, 152, "=", size=22)
    matrix(510, 62, 120, 168, (60, 84), GREEN, ("outputs", "C", "R"))
    sheet.text(540, 108, "sums", size=12)
    sheet.text(
        10,
        280,
        "one tile of weights stays; T_R rows pass it; the sums of a row block wait until all of P is done",
        at="start",
        size=12,
    )
    return sheet


def stacking() -> Sheet:
    """Four PEs in the three ways in which a plan may use them."""
    sheet = Sheet(WIDTH, 300, "Stackable PEs: k = 1, k = 2 and two lanes")
    for column, (title, text) in enumerate(
        (
            ("k = 1", "each PE has a column\nof its own"),
            ("k = 2", "a pair adds up: one PE\ntwice as wide"),
            ("lanes", "half of the PEs takes\nanother row or sample"),
        )
    ):
        x = 10 + column * 240
        sheet.text(x, 24, title, at="start", bold=True)
        for number, words in enumerate(text.split("\n")):
            sheet.text(x, 44 + number * 16, words, at="start", size=12, ink=SOFT)
        for pe in range(4):
            fill = STAGES[0] if title != "lanes" or pe < 2 else STAGES[2]
            y = 84 + pe * 44 if title != "k = 2" else 84 + pe * 44 - (pe % 2) * 8
            sheet.label(x + 78, y, 70, 36, f"PE {pe + 1}", fill, size=12)
        if title == "k = 2":
            for pair in range(2):
                y = 84 + pair * 88
                sheet.line(x + 148, y + 18, x + 168, y + 34)
                sheet.line(x + 148, y + 54, x + 168, y + 38)
                sheet.label(x + 166, y + 22, 28, 28, "+", PAPER)
                sheet.text(x + 72, y + 22, "words 1..T_P", at="end", size=11)
                sheet.text(x + 72, y + 60, "and T_P more", at="end", size=11)
        elif title == "k = 1":
            sheet.text(x + 72, 170, "one row", at="end", size=11)
            sheet.text(x + 160, 106, "column 1", at="start", size=11)
            sheet.text(x + 160, 238, "column 4", at="start", size=11)
        else:
            sheet.text(x + 72, 128, "row 1", at="end", size=11)
            sheet.text(x + 72, 216, "row 2", at="end", size=11)
            sheet.text(x + 160, 106, "columns 1, 2", at="start", size=11)
            sheet.text(x + 160, 194, "columns 1, 2", at="start", size=11)
    sheet.text(
        10,
        284,
        "many columns: k = 1.   Few columns, deep sums: k = 2.   Few columns, many rows or samples: lanes.",
        at="start",
        size=12,
    )
    return sheet


def fbcb() -> Sheet:
    """Plans of five layers of ResNet-50 at four batch sizes, as a search has found them."""
    design = _resnet50_design()
    gemms = [index for index, layer in enumerate(design.layers) if layer.macs]
    in_lanes = [
        i for i in gemms if any(plan.row_lanes or plan.b_r < b for b, plan in enumerate(design.plans[i][:4], 1))
    ]
    picked = sorted({*gemms[:3], *in_lanes[-1:], gemms[-4]})[:5]
    sheet = Sheet(WIDTH, 280, "The FBCB: a plan for every layer at every batch size")
    sheet.text(10, 22, "the FBCB: look up the layer and the batch as it is now, get the plan", at="start", bold=True)
    for column in range(4):
        sheet.text(290 + column * 120, 54, f"batch of {column + 1}", size=12, bold=True)
    for row, index in enumerate(picked):
        y = 66 + row * 38
        layer = design.layers[index]
        sheet.text(10, y + 21, f"{layer.name} <{layer.r}, {layer.p}, {layer.c}>", at="start", size=12)
        for column in range(4):
            plan = design.plans[index][column]
            lanes = plan.row_lanes or plan.b_r < column + 1
            words = f"k = {plan.k}, B_R = {plan.b_r}" + (" lanes" if lanes else "")
            sheet.label(
                234 + column * 120, y, 114, 30, words, GREEN if lanes else ORANGE if plan.k == "2" else BLUE, size=10.5
            )
    sheet.text(
        10,
        272,
        "blue: k = 1.   orange: k = 2.   green: two lanes, of rows or of samples.",
        at="start",
        size=12,
        ink=SOFT,
    )
    return sheet


def slots() -> Sheet:
    """Samples in slots of memory, and the mask that says which belong to the batch."""
    sheet = Sheet(WIDTH, 250, "Samples own slots; the batch is a mask")
    steps = (
        ("run A, B, C to exit 1", "1 1 1 0"),
        ("EXIT B: it is done", "1 0 1 0"),
        ("EXIT A, C; MERGE D", "0 0 0 1"),
        ("MERGE A, C: on together", "1 0 1 1"),
    )
    sheet.text(10, 22, "samples never move: exit, preemption and merge edit a mask of slots", at="start", bold=True)
    for index, name in enumerate(("slot 0: A", "slot 1: B", "slot 2: C", "slot 3: D")):
        sheet.label(10, 50 + index * 44, 120, 36, name, GREY, size=12)
    for column, (title, mask) in enumerate(steps):
        x = 156 + column * 142
        sheet.text(x + 62, 40, title, size=11.5)
        for index, bit in enumerate(mask.split()):
            sheet.label(x + 2, 50 + index * 44, 120, 36, bit, BLUE if bit == "1" else PAPER, size=14)
    sheet.text(
        10, 244, "a 1: the sample of this slot is part of the batch that runs next", at="start", size=12, ink=SOFT
    )
    return sheet


def ports() -> Sheet:
    """Masters of the NPU on ports of the memory: one each, or each spread over four."""
    sheet = Sheet(WIDTH, 260, "Memory ports: one a master, or each master striped over four")
    for column, (title, striped) in enumerate(
        (("one port a master (default)", False), ("striped over four ports", True))
    ):
        x = 10 + column * 365
        sheet.text(x, 22, title, at="start", bold=True)
        for index, name in enumerate(("inputs", "weights", "outputs")):
            sheet.label(x, 44 + index * 56, 90, 40, name, (BLUE, ORANGE, GREEN)[index], size=12)
            for port in range(4) if striped else [index]:
                sheet.line(x + 90, 64 + index * 56, x + 150, 58 + port * 46, wide=1 if striped else 2)
        for port in range(4):
            used = striped or port < 3
            sheet.label(x + 152, 42 + port * 46, 84, 32, f"port {port + 1}", PAPER if used else GREY, size=12)
            sheet.line(x + 236, 58 + port * 46, x + 262, 58 + port * 46, wide=1)
        sheet.label(x + 264, 42, 64, 170, "DRAM", GREY)
    sheet.text(
        10,
        248,
        "a port of 128 bits carries eight 16-bit words a cycle; a master on four ports gets up to 32",
        at="start",
        size=12,
        ink=SOFT,
    )
    return sheet


def roofline() -> Sheet:
    """Layers of ResNet-50 on a ZC706's array at batches of 1 and 8, below memory and compute."""
    board = load_board("zc706")
    design = _resnet50_design()
    macs, words = float(design.array.t_p * design.array.t_c), DramModel.of(board, design.memory).awake_words()
    peak = 2 * macs * board.clock_hz / 1e9
    sheet = Sheet(WIDTH, 320, "The roofline of ResNet-50 on a ZC706")
    left, right, top, bottom = 70.0, WIDTH - 20, 40.0, 270.0
    low_x, high_x, low_y, high_y = 1.0, 2000.0, 2.0, 500.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(y / low_y) / math.log(high_y / low_y)
        return left + across * (right - left), bottom - up * (bottom - top)

    for value in (10, 100, 1000):
        x, _ = at(value, low_y)
        sheet.line(x, top, x, bottom, ink=GREY, wide=1)
        sheet.text(x, bottom + 18, str(value), size=12, ink=SOFT)
    for value in (10, 100):
        _, y = at(low_x, value)
        sheet.line(left, y, right, y, ink=GREY, wide=1)
        sheet.text(left - 8, y + 4, str(value), size=12, at="end", ink=SOFT)
    bandwidth = words * board.clock_hz / 1e9  # 10^9 words a second
    knee = peak / bandwidth
    sheet.path([at(low_x, bandwidth), at(knee, peak), at(high_x, peak)])
    for batch, fill in ((1, BLUE), (8, ORANGE)):
        for layer in design.layers:
            if layer.macs:
                cycles = roofline_cycles(layer, batch=batch, macs_per_cycle=macs, words_per_cycle=words)
                reach = 2 * batch * layer.macs * board.clock_hz / cycles / 1e9
                moved = roofline_cycles(layer, batch=batch, macs_per_cycle=1e18, words_per_cycle=1.0)
                sheet.dot(*at(2 * batch * layer.macs / moved, reach), 4, fill)
    sheet.text(right, top - 6, f"the array at its peak: {peak:.0f} GOP/s", at="end", size=12)
    sheet.text(left + 12, top + 12, "left of the knee, memory is the wall", at="start", size=12, ink=SOFT)
    sheet.text(left, top - 22, "GOP/s that device and memory allow", at="start", size=12, bold=True)
    sheet.text(
        right,
        bottom + 38,
        "operations for each 16-bit word that must cross the memory's pins",
        at="end",
        size=12,
        bold=True,
    )
    sheet.dot(left + 8, bottom + 34, 4, BLUE)
    sheet.text(left + 18, bottom + 38, "batch of 1", at="start", size=12)
    sheet.dot(left + 98, bottom + 34, 4, ORANGE)
    sheet.text(left + 108, bottom + 38, "batch of 8", at="start", size=12)
    return sheet


def arithmetic() -> Sheet:
    """Multiply, add, shift, round and clip: the way of one output."""
    sheet = Sheet(WIDTH, 200, "One output in int16 arithmetic")
    sheet.text(10, 22, "the way of one output: the same bits in Python, C++, RTL and on a board", at="start", bold=True)
    steps = (
        ("int16 × int16", "exact products", BLUE),
        ("add up", "48 bits, cannot wrap", ORANGE),
        ("+ residual", "shifted left", GREEN),
        ("shift right", "round half to even", GREY),
        ("clip", "int16, ReLU", RED),
    )
    for index, (name, how, fill) in enumerate(steps):
        x = 10 + index * 143
        sheet.label(x, 50, 120, 50, name, fill)
        sheet.text(x + 60, 122, how, size=12, ink=SOFT)
        if index < len(steps) - 1:
            sheet.line(x + 120, 75, x + 141, 75, arrow=True)
    sheet.text(
        10,
        158,
        "a number is its int16 over 2 to the number of fraction bits: 0x0180 with 8 of them is 384 / 256 = 1.5",
        at="start",
        size=12,
    )
    sheet.text(
        10,
        180,
        "scales are powers of two, so that changing one is a shift, and a shift is exact",
        at="start",
        size=12,
        ink=SOFT,
    )
    return sheet


def latencies() -> Sheet:
    """Latencies of the shipped network's requests under a load, with average, p99 and objective."""
    slo_ms, rate = 2.0, 3000
    serving = Serving.of(_shipped_design())
    import numpy as np

    rng = np.random.default_rng(0)
    count = 4000
    requests = poisson(rate, count, slo_ns=int(slo_ms * 1e6), rng=rng)
    world = World(
        latency=serving.latency,
        exits=draw_exits(serving.exit_rates, count, rng).tolist(),
        exit_rates=serving.exit_rates,
    )
    schedule = simulate(requests, make_policy("fluid", serving.setting(rate, int(slo_ms * 1e6))), world)
    took = sorted((r.end_ns - r.request.arrival_ns) / 1e6 for r in schedule.records)
    average, p99 = sum(took) / len(took), took[int(0.99 * len(took))]
    late = 100 * sum(t > slo_ms for t in took) / len(took)
    sheet = Sheet(WIDTH, 280, "Latencies of 4,000 requests: average, p99 and objective")
    left, bottom, bins, most = 40.0, 236.0, 48, 4.8
    counts = [sum(most * i / bins <= t < most * (i + 1) / bins for t in took) for i in range(bins)]
    scale, wide = 170 / max(counts), (WIDTH - 60) / bins
    for i, number in enumerate(counts):
        sheet.box(
            left + i * wide,
            bottom - number * scale,
            wide - 1,
            number * scale,
            RED if i * most / bins >= slo_ms else BLUE,
            round=0,
        )
    for value, name, up in (
        (average, f"average {average:.2f} ms", 20),
        (slo_ms, f"objective {slo_ms:g} ms", 40),
        (p99, f"p99 {p99:.2f} ms", 60),
    ):
        x = left + value / most * (WIDTH - 60)
        sheet.line(x, up + 8, x, bottom, ink=INK, wide=1.2, dash="4 3")
        sheet.text(x + 5, up + 12, name, at="start", size=12)
    sheet.line(left, bottom, WIDTH - 15, bottom, ink=LINE)
    for value in range(5):
        sheet.text(left + value / most * (WIDTH - 60), bottom + 18, f"{value}", size=12, ink=SOFT)
    sheet.text(WIDTH - 20, bottom + 36, "latency in ms (simulated)", at="end", size=12)
    sheet.text(left, bottom + 36, f"red: the {late:.1f} % that miss their objective", at="start", size=12)
    return sheet


@cache
def _resnet50_design() -> Design:
    return explore(full_size("resnet50").workload, load_board("zc706"), model="paper", core="rtl").design


@cache
def _shipped_design() -> Design:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return explore(read_onnx(path).workload, load_board("zc706"), model="paper", core="rtl").design


PICTURES: dict[str, Callable[[], Sheet]] = {
    "exits": exits,
    "batches": batches,
    "fluid": fluid,
    "array": array,
    "tiles": tiles,
    "stacking": stacking,
    "fbcb": fbcb,
    "slots": slots,
    "ports": ports,
    "roofline": roofline,
    "arithmetic": arithmetic,
    "latencies": latencies,
}  # name of the file in docs/pictures, and what draws it
