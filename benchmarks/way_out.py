"""Gated networks on both boards, and pointwise work before and after the activation unit.

    python benchmarks/way_out.py [--folder build/coverage] [--network NAME]... > PART
    python benchmarks/way_out.py --pointwise FILE [--folder build/coverage]

The networks are files of the scoreboard, as `coverage_zoo.py` and `coverage.py` lay them into FOLDER/zoo and
FOLDER/public. The first form prints the computed part of docs/explanation/cycles/way-out.md. The second
writes the pointwise cycles of the tree that `fluidnpu` is imported from. With PYTHONPATH at a checkout of
8bce7153, the last tree without a unit, it made `way_out_before.json`, which the first form reads. Figures
are simulated: cycles of the exact model, which equal those of the RTL, of the NPU alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, Question
from fluidnpu.dse.exact.search import Evaluation, by_bound, evaluate_array, objective_of
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.hardware.space import legal_space
from fluidnpu.dse.resources.buildable import buildable
from fluidnpu.models import Kind, LayerShape, Workload, read_onnx

BEFORE = Path(__file__).with_name("way_out_before.json")
BATCHES = (1, 8)
EVALUATIONS = 1  # arrays that are counted on each board, those of the best bounds
DEEPEST = 8192  # rows of a bank, before RAM is shared
PLACES = (("zc706", "pl"), ("zcu104", "ps_striped"))
SPEED = (
    "mobilenetv3_large_100",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "yolov5n",
    "yolov8n",
    "ghostnet_100",
    "regnety_004",
)
# Frames/s of two B4096 at 300 MHz, 8 bits, on a ZCU104, one thread and all: model zoo of Vitis AI 2.5.
PUBLISHED = {"efficientnet_b0": ("83.8", "146.3"), "mobilenetv3_small_100": ("364", "820")}
POINTWISE = {
    "densenet121": ("zoo", None),
    "cspdarknet53": ("zoo", None),
    "fsrcnn": ("zoo", None),
    "pnet": ("public", (240, 320)),
}  # the folder of each file, and its size where the file leaves it open
POINTWISE_BOARD, POINTWISE_MEMORY, POINTWISE_ARRAY = "zcu104", "ps_striped", (24, 64)

Cycles = dict[str, dict[str, list[int]]]  # by network and batch: cycles of pointwise layers, and of all


def told(what: str, began: float) -> None:
    """Say on standard error what is done, and what it took."""
    print(f"{what} ({time.process_time() - began:.0f} s CPU)", file=sys.stderr, flush=True)


def quickest(workload: Workload, board: str, memory: str) -> tuple[Question, Evaluation]:
    """Count the arrays of the best bounds at both batch sizes, and return the best of them."""
    weights = tuple(float(batch in BATCHES) for batch in range(1, max(BATCHES) + 1))
    question = Question(workload=workload, board=load_board(board), memory=memory, b_max=max(BATCHES), weights=weights)
    space, objective = buildable(legal_space(question.board), question.target).space, objective_of(question)
    counted: list[tuple[float, int, Evaluation]] = []
    for index, bounds, _ in islice(by_bound(question, space), EVALUATIONS):
        evaluation = evaluate_array(question, share_memory(question, space[index]).fit, BATCHES)
        cycles = bounds * 0
        cycles[:, 0] = [evaluation.total(workload.layers, batch) for batch in BATCHES]
        counted.append((float(objective(cycles)[0]), len(counted), evaluation))
    return question, max(counted)[-1]


def speed(folder: Path, name: str) -> list[str]:
    """Return the rows of a network: both boards."""
    workload = read_onnx(folder / "zoo" / f"{name}.onnx").workload
    rows = []
    for board, memory in PLACES:
        began = time.process_time()
        question, best = quickest(workload, board, memory)
        array, clock_hz = best.fit.array, question.board.clock_hz
        cells = [
            f"{name} | {workload.macs / 1e6:.0f} | {board}, `{memory}` | <{best.fit.t_r}, {array.t_p}, {array.t_c}>"
        ]
        for batch in BATCHES:
            cycles = best.total(workload.layers, batch)
            cells += [f"{batch * clock_hz / cycles:.1f}", f"{100 * batch * workload.macs / array.macs / cycles:.0f} %"]
        cells.append(" / ".join(PUBLISHED.get(name, ())) if board == "zcu104" else "")
        rows.append(f"| {' | '.join(cells)} |")
        told(rows[-1], began)
    return rows


def is_pointwise(layer: LayerShape) -> bool:
    """Tell whether a layer computes each word of its outputs from one word of its inputs."""
    if layer.window is None or layer.window.kernel != (1, 1) or layer.p != 1:
        return False
    return layer.kind is Kind.MAX_POOL or layer.groups > 1


def pointwise(folder: Path, name: str) -> dict[str, list[int]]:
    """Return the cycles of pointwise layers and of all layers on one array, by batch size."""
    began = time.process_time()
    place, size = POINTWISE[name]
    workload = read_onnx(folder / place / f"{name}.onnx", size=size).workload
    board, (t_p, t_c) = load_board(POINTWISE_BOARD), POINTWISE_ARRAY
    question = Question(workload=workload, board=board, memory=POINTWISE_MEMORY, b_max=max(BATCHES))
    fitted = share_memory(question, Point(t_r=DEEPEST, t_p=t_p, t_c=t_c)).fit
    counted = evaluate_array(question, fitted, BATCHES).layer_cycles(workload.layers)
    mine = [cycles for layer, cycles in zip(workload.layers, counted, strict=True) if is_pointwise(layer)]
    answer = {
        str(batch): [int(sum(cycles[at] for cycles in some)) for some in (mine, counted)]
        for at, batch in enumerate(BATCHES)
    }
    told(f"{name}: {len(mine)} pointwise layers, {answer}", began)
    return answer


def compared(before: Mapping[str, Mapping[str, Sequence[int]]], after: Cycles) -> list[str]:
    """Return a row for each network and batch size: thousands of cycles before and after."""
    rows = []
    for name, by_batch in after.items():
        for batch, (now, total) in by_batch.items():
            was, whole = before[name][batch]
            share = f"{100 * now / was:.1f} %"
            cells = [name, batch, *(f"{count / 1e3:.0f}" for count in (was, now)), share]
            cells += [*(f"{count / 1e3:.0f}" for count in (whole, total)), f"{whole / total:.2f}"]
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Print the part of the page, or write the pointwise cycles of this tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="where the files are kept")
    parser.add_argument("--network", action="append", choices=(*SPEED, *POINTWISE), default=[], help="only these")
    parser.add_argument("--pointwise", type=Path, metavar="FILE", help="write the pointwise cycles of this tree")
    given = parser.parse_args()
    wanted = given.network or [*SPEED, *POINTWISE]
    if given.pointwise:
        counts = {name: pointwise(given.folder, name) for name in POINTWISE if name in wanted}
        given.pointwise.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        return
    rows = [row for name in SPEED if name in wanted for row in speed(given.folder, name)]
    after = {name: pointwise(given.folder, name) for name in POINTWISE if name in wanted}
    print(
        "| network | MMAC | board, memory | array | frames/s, B = 1 | busy | frames/s, B = 8 | busy | "
        "the vendor's DPU, one thread / all |\n|---|---:|---|---|---:|---:|---:|---:|---:|"
    )
    print("\n".join(rows))
    print(
        "\n| network | B | pointwise before | after | of it | all before | after | times as fast |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    print("\n".join(compared(json.loads(BEFORE.read_text(encoding="utf-8")), after)))


if __name__ == "__main__":
    main()
