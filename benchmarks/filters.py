"""Mobile networks with and without a filter on the way out, and what its lanes cost, as a part of a page.

    python benchmarks/filters.py [--folder build/coverage] [--network NAME]... > PART

The second two networks are files of the scoreboard, as `coverage_zoo.py` lays them into FOLDER/zoo. Each is
searched for the fewest cycles of one sample, without a filter and with one; arrays of the best bounds are
counted, `EVALUATIONS` of them. The last table has one array a number of lanes, that of the best bound for
ResNet-50 beside a few requests of MobileNet-v2. Figures are simulated: cycles of the exact model, which equal
those of the RTL, of the NPU alone. What took how long goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fluidnpu.boards import load_board
from fluidnpu.dse import Question
from fluidnpu.dse.exact.search import ExactRanking, search_exact
from fluidnpu.dse.hardware import roofline_cycles
from fluidnpu.models import Workload, read_onnx
from fluidnpu.models.zoo import full_size

EVALUATIONS = 4
PLACES = (("zcu104", "ps_striped"), ("zc706", "pl"), ("zc706", "ps_striped"))
GENERATED = ("mobilenet_v2", "efficientnet_lite0")  # networks of `models.zoo`
READ = ("mobilenetv3_large_100", "efficientnet_b0")  # files of the scoreboard
PRICED = "resnet50"
PRICES = (0, 16, 32)  # lanes
RARE = 0.01  # share of the requests that the filter is for


def workload_of(name: str, folder: Path) -> Workload:
    """Give the layers of a network, which is generated or read."""
    return full_size(name).workload if name in GENERATED else read_onnx(folder / "zoo" / f"{name}.onnx").workload


def quickest(workload: Workload, board: str, memory: str, lanes: int | None) -> ExactRanking:
    """Search for the fewest cycles of one sample, with any number of lanes where `lanes` is None."""
    return search_exact(
        Question(
            workload=workload,
            board=load_board(board),
            memory=memory,
            b_max=1,
            objective="latency",
            evaluations=EVALUATIONS,
            lanes=lanes,
        )
    )


def array_of(found: ExactRanking) -> str:
    """Write the array that a search found."""
    fit = found.best.fit
    return f"<{fit.t_r}, {fit.array.t_p}, {fit.array.t_c}>"


def frames(found: ExactRanking) -> float:
    """Frames a second of the array that a search found, one by one."""
    return found.question.board.clock_hz / found.best.total(found.best.layers, 1)


def roofline(found: ExactRanking) -> float:
    """Frames a second that all DSPs of the device and the memory allow, with every pair merged."""
    question = found.question
    work = question.workload
    layers = work.filtered([pair.producer for pair in work.filters])
    rates = {"macs_per_cycle": question.board.dsp, "words_per_cycle": question.dram.awake_words()}
    return question.board.clock_hz / sum(roofline_cycles(layer, batch=1, **rates) for layer in layers)


def row(name: str, workload: Workload, board: str, memory: str) -> str:
    """Return the row of a network on a board: without a filter, and with one."""
    began = time.process_time()
    before, after = (quickest(workload, board, memory, lanes) for lanes in (0, None))
    now, roof, fit = frames(after), roofline(after), after.best.fit
    merged = sum(layer.filtering is not None for layer in after.best.layers)
    cells = [name, f"{board}, `{memory}`", array_of(before), f"{frames(before):.1f}"]
    cells += [array_of(after), f"{fit.lanes}", f"{merged} of {len(workload.filters)}", f"{now:.1f}"]
    cells += [f"{now / frames(before):.2f}", f"{roof:.0f}", f"{100 * now / roof:.0f} %"]
    told(" ".join(cells), began)
    return f"| {' | '.join(cells)} |"


def price(board: str, memory: str, lanes: int) -> str:
    """Return the row of a number of lanes: what they take, and how fast two networks are beside them."""
    began = time.process_time()
    works = [full_size(name).workload for name in (PRICED, GENERATED[0])]
    mix = [(work, share) for work, share in zip(works, (1 - RARE, RARE), strict=True)]
    question = Question.of_mix(
        mix, load_board(board), memory=memory, b_max=1, objective="latency", evaluations=EVALUATIONS, lanes=lanes
    )
    found = search_exact(question)
    layers, first = found.best.layers, len(works[0].layers)
    rates = [question.board.clock_hz / found.best.total(some, 1) for some in (layers[:first], layers[first:])]
    cells = [
        f"{board}, `{memory}`",
        str(lanes),
        str(9 * found.best.fit.lanes),
        str(found.best.fit.parts.get("filter", 0)),
    ]
    cells += [array_of(found), *(f"{rate:.1f}" for rate in rates)]
    told(" ".join(cells), began)
    return f"| {' | '.join(cells)} |"


def told(what: str, began: float) -> None:
    """Say on standard error what is done, and what it took."""
    print(f"{what} ({time.process_time() - began:.0f} s CPU)", file=sys.stderr, flush=True)


def main() -> None:
    """Print the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="where the files are kept")
    parser.add_argument("--network", action="append", choices=(*GENERATED, *READ, PRICED), default=[])
    given = parser.parse_args()
    wanted = given.network or [*GENERATED, *READ, PRICED]
    print(
        "| network | board, memory | without: array | frames/s | with: array | lanes | merged | frames/s | times as fast "
        "| roofline | reached of it |\n|---|---|---|---:|---|---:|---:|---:|---:|---:|---:|"
    )
    for name in wanted:
        if name != PRICED:
            workload = workload_of(name, given.folder)
            for place in PLACES:
                print(row(name, workload, *place), flush=True)
    if PRICED in wanted:
        print(
            "\n| board, memory | lanes | their DSPs | RAMB18 of the filter | array | ResNet-50, frames/s | MobileNet-v2, "
            "frames/s |\n|---|---:|---:|---:|---|---:|---:|"
        )
        for place in PLACES[:2]:
            for lanes in PRICES:
                print(price(*place, lanes), flush=True)


if __name__ == "__main__":
    main()
