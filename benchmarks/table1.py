"""Table I of Fluid Batching beside our search, and each point once RAM primitives are counted.

    python benchmarks/table1.py [folder with layers_resnet50.json and layers_inception_v3.json]

Then the speed of the search: the vectorised model against the plain one, on one core of this machine.
"""

import random
import sys
import time
from pathlib import Path

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Exploration, explore, search
from fluidnpu.dse.paper import total_ticks
from fluidnpu.models import Workload, read_layer_table
from fluidnpu.studies.fluid_batching.hardware import FILES
from fluidnpu.studies.fluid_batching.paper import TABLE_1, PrintedDesign

DEFAULT = Path(__file__).resolve().parent.parent / "models" / "data"
SAMPLE_POINTS = 200
REPEATS = 5
B_MAX = 8


def compare(row: PrintedDesign, exploration: Exploration) -> None:
    ours = exploration.published
    same = (ours.t_r, ours.t_p, ours.t_c) == row.point
    resources = exploration.published_resources
    dsp, memory = resources["dsp"]["percent"], resources["memory_bits"]["percent"]
    printed = "<{}, {}, {}>".format(*row.point)
    verdict = "same" if same else "differs"
    unique = "unique optimum" if exploration.ranking.unique else "optimum, tied"
    print(f"{row.network} on {row.board}: {verdict}; {unique} of {len(exploration.ranking)} designs")
    print(f"  printed {printed:17} DSP {row.dsp_pct:6.2f} %  memory {row.memory_pct:6.2f} %")
    print(f"  ours    {ours!s:17} DSP {dsp:6.2f} %  memory {memory:6.2f} %")
    if not same:
        explain(row, exploration)
    design, worst = exploration.design, min(exploration.difference_pct)
    used = ", ".join(f"{name} {x['used']} of {x['available']}" for name, x in exploration.fitted_resources.items())
    print(f"  fits as <{design.t_r}, {design.t_p}, {design.t_c}>: {used}; modelled GOP/s at worst {worst:+.2f} %")


def explain(row: PrintedDesign, exploration: Exploration) -> None:
    _, t_p, t_c = row.point
    value = {(p.t_r, p.t_p, p.t_c): gops for p, gops in exploration.ranking.top(len(exploration.ranking))}
    loss = 100 * (value[row.point] / exploration.ranking.top(1)[0][1] - 1)
    share = 100 * t_p * t_c / exploration.board.dsp
    print(
        f"  the printed row contradicts itself: {t_p} * {t_c} DSPs are {share:.2f} % of {exploration.board.dsp}, not {row.dsp_pct} %;"
    )
    print(
        f"  it repeats the row of another network and would be {loss:+.1f} % in objective; we take it for a copying slip"
    )


def gops_table(exploration: Exploration) -> None:
    peak = 2 * exploration.published.dsp * exploration.board.clock_hz / 1e9
    shares = "  ".join(f"{100 * x / peak:5.1f}" for x in exploration.published_gops)
    print(f"  share of peak at B = 1..{exploration.b_max}, %: {shares}")


def speed(workload: Workload, board: Board) -> None:
    seconds = []
    for _ in range(REPEATS):  # the best of a few: other work on the machine only ever slows a run down
        start = time.perf_counter()
        ranking = search(workload, board, b_max=B_MAX)
        seconds.append(time.perf_counter() - start)
    vectorised = len(ranking) / min(seconds)
    sample = random.Random(1).sample(range(len(ranking)), SAMPLE_POINTS)
    chosen = [ranking.space[i] for i in sample]
    start = time.perf_counter()
    for point in chosen:
        for batch in range(1, B_MAX + 1):
            total_ticks(workload.layers, point, batch, board.paper_words_per_cycle)
    plain = SAMPLE_POINTS / (time.perf_counter() - start)
    print(
        f"{workload.name} on {board.name}: vectorised {vectorised:,.0f} design points/s, plain {plain:,.0f}, "
        f"ratio {vectorised / plain:.0f} ({len(ranking)} and {SAMPLE_POINTS} points, batches 1..{B_MAX})"
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    work = {name: read_layer_table(folder / file) for name, file in FILES.items()}
    print("Table I, `paper` model\n")
    for row in TABLE_1:
        exploration = explore(
            work[row.network], load_board(row.board), b_max=B_MAX, memory="ps", model="paper", core="rtl"
        )
        compare(row, exploration)
        gops_table(exploration)
    print("\nSpeed of the search")
    for row in TABLE_1:
        speed(work[row.network], load_board(row.board))


if __name__ == "__main__":
    main()
