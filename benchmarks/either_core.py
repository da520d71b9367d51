"""Print what the HLS core costs beside the core in SystemVerilog, in cycles of the exact model.

    python benchmarks/either_core.py > docs/explanation/cycles/cores.md

The same array with the same plans, counted with either core: ResNet-8 layer by layer on the designs that
`fluidnpu dse` finds, then whole networks on the arrays of the page of every layer. Simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, Design, Point, build_design, explore
from fluidnpu.dse.exact import Machine
from fluidnpu.dse.exact.search import cycles_of_jobs
from fluidnpu.dse.exploration.recount import layer_costs
from fluidnpu.dse.hardware.array import ceil_div
from fluidnpu.models import Kind, read_onnx, shipped_file
from fluidnpu.models.zoo import full_size

SHIPPED = "resnet8_fashion_mnist.onnx"
BOARDS = ("zc706", "zcu104")
BATCHES = (1, 8)
FULL_SIZE = (
    ("resnet50", "zc706", "pl", Point(t_r=1024, t_p=7, t_c=128)),
    ("resnet50", "zcu104", "ps_striped", Point(t_r=2560, t_p=27, t_c=64)),
    ("inception_v3", "zc706", "pl", Point(t_r=2048, t_p=28, t_c=32)),
    ("inception_v3", "zcu104", "ps_striped", Point(t_r=1536, t_p=54, t_c=32)),
    ("mobilenet_v2", "zc706", "pl", Point(t_r=1024, t_p=18, t_c=50)),
    ("efficientnet_lite0", "zcu104", "ps_striped", Point(t_r=2048, t_p=24, t_c=64)),
)
HEAD = """# Either core, layer by layer

`make refresh` makes this page (`python benchmarks/either_core.py`; simulated). It counts the same array with
the same plans twice, with the HLS core and with the core in SystemVerilog. The exact model counts both, and
each equals its core in Verilator in every layer: the C++ takes the core's place there, a call a cycle.

A P-tile of fewer rows than a core's *wait* keeps the array idle until its sums can be read again. The wait of
the core in SystemVerilog is the length of its chains, T_P + 4 cycles. That of the HLS core is `RowDistance`,
10 and twice the depth of its adder trees, and 4 more where accumulators lie in UltraRAM. So the HLS core is
slower where rows are few and T_P is small, and faster where T_P is large. A pool has no wait in the core in
SystemVerilog; in the HLS core its rows pass the accumulators. The search, `build` and the latency table count
the core that is built (`core` of a [design](../../reference/design.md), [ADR
62](../../adr/0062-exact-for-either-core.md)).
"""


def cycles(design: Design, core: str, batches: Sequence[int]) -> list[list[int]]:
    """For each batch size the cycles of each layer, a stage a job."""
    return [cycles_of_jobs(design.layers, costs) for costs in layer_costs(design, core, batches)]


def waits(design: Design) -> str:
    """Say how many cycles lie between two P-tiles at least, in the order of CORES."""
    hls, rtl = (Machine.of(design, core) for core in CORES)
    return f"{hls.row_distance} with the HLS core, {rtl.array.late} with the one in SystemVerilog"


def more(hls: int, rtl: int) -> str:
    """Say by how much the first is more than the second."""
    return f"{100 * (hls / rtl - 1):+.2f} %"


def layer_by_layer(board: str) -> Iterator[str]:
    """Give the section of ResNet-8 on one board."""
    with shipped_file(SHIPPED) as path:
        design = explore(read_onnx(path).workload, load_board(board), b_max=max(BATCHES)).design
    both = [cycles(design, core, BATCHES) for core in CORES]
    yield f"\n## ResNet-8 on {board}, <{design.t_r}, {design.t_p}, {design.t_c}>\n"
    yield f"The wait: {waits(design)}.\n"
    yield (
        "| layer | rows of a sample | P-tiles at B = 1, or taps "
        + "".join(f"| B = {b}: HLS | RTL | more " for b in BATCHES)
        + "|"
    )
    yield "|---|---:|---:|" + 3 * len(BATCHES) * "---:|"
    for index, layer in enumerate(design.layers):
        gemm = layer.kind is Kind.GEMM
        tiles = ceil_div(layer.p, design.tile(design.mode(index, 1))[0]) if gemm else layer.p
        pairs = ((both[0][row][index], both[1][row][index]) for row in range(len(BATCHES)))
        cells = "".join(f" {hls} | {rtl} | {more(hls, rtl)} |" for hls, rtl in pairs)
        yield f"| {layer.name} | {layer.r} | {tiles} |{cells}"
    sums = [(sum(both[0][row]), sum(both[1][row])) for row in range(len(BATCHES))]
    yield "| all | | |" + "".join(f" {hls} | {rtl} | {more(hls, rtl)} |" for hls, rtl in sums)


def whole_networks() -> Iterator[str]:
    """Give the section of networks at full size."""
    yield "\n## Whole networks\n\nThe worst layer is the one with the largest share more at B = 1.\n"
    yield "| network | board, memory | array | wait, HLS and RTL | B = 1 | B = 8 | worst layer |"
    yield "|---|---|---|---:|---:|---:|---|"
    for network, board, memory, point in FULL_SIZE:
        work = full_size(network).workload
        design = build_design(work, load_board(board), point, memory=memory, b_max=max(BATCHES))
        hls, rtl = (cycles(design, core, BATCHES) for core in CORES)
        totals = " | ".join(more(sum(a), sum(b)) for a, b in zip(hls, rtl, strict=True))
        share, name = max((a / b, layer.name) for a, b, layer in zip(hls[0], rtl[0], design.layers, strict=True))
        machine = Machine.of(design, "hls")
        yield (
            f"| {network} | {board}, `{memory}` | <{design.t_p}, {design.t_c}> | {machine.row_distance}, {design.array.late} "
            f"| {totals} | {name} {100 * (share - 1):+.1f} % |"
        )


def main() -> None:
    """Print the page."""
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    print(HEAD, end="")
    for board in BOARDS:
        for line in layer_by_layer(board):
            print(line)
    for line in whole_networks():
        print(line)


if __name__ == "__main__":
    main()
