"""What chains in pieces cost networks, and which arrays need them: tables of `docs/explanation/chains.md`.

    python benchmarks/chains.py [--batches 1,8]

The arrays of `networks.py` whose chains of DSP slices break to fit the columns of a board, by the exact model
(simulated), beside the same arrays as if whole chains fitted. Then, for every shipped board, all arrays that
its slices would make.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import median

from networks import CASES, DEEPEST, PLACES, fitted_to

from fluidnpu.boards import Board, list_boards, load_board
from fluidnpu.dse import FitError, Point, Question
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.exploration.placing import pieces, with_whole_chains
from fluidnpu.dse.resources.columns import WHOLE, chains, fewest_breaks
from fluidnpu.models import Workload, read_onnx, shipped_file

LENGTHS = range(4, 97)  # words of a chain
SHAPES = (
    "board", "columns, height x number", "arrays", "whole", "in pieces", "no way", "more would be whole in even columns",
    "of them built for ResNet-8", "cycles more at B = 1: median, most",
)  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", default="1,8")
    batches = [int(batch) for batch in parser.parse_args().batches.split(",")]
    print("| network | board, memory | array | chains in pieces | B | cycles | price |")
    print("|---|---|---|---|---:|---:|---:|")
    for network, arrays in CASES.items():
        for (board, memory), array in zip(PLACES, arrays, strict=True):
            question, fitted = fitted_to(network, board, memory, array, max(batches), core="rtl")
            if not fitted.array.broken:
                continue
            told = f"{fitted.array.broken} of {array[1]}, in {' and '.join(map(str, pieces(fitted.array)))}"
            ours, theirs = (evaluate_array(question, one, batches) for one in (fitted, with_whole_chains(fitted)))
            for batch in batches:
                cycles, least = (one.total(question.workload.layers, batch) for one in (ours, theirs))
                print(
                    f"| {network} | {board}, `{memory}` | <{array[0]}, {array[1]}> | {told} | {batch} "
                    f"| {cycles:,} | {cycles - least:,} ({100 * (cycles / least - 1):.3f} %) |",
                    flush=True,
                )
    print("\nAnd all arrays of 4 to 96 words a chain that the slices of a board would make:\n")
    print(f"| {' | '.join(SHAPES)} |")
    print("|---|---|" + "---:|" * (len(SHAPES) - 2))
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        workload = read_onnx(path).workload
    for name in list_boards():
        print(shapes_of(load_board(name), workload), flush=True)


def shapes_of(board: Board, workload: Workload) -> str:
    """Give a row of the second table. Even columns: all as high as the highest, but for a rest."""
    columns = board.dsp_columns
    high = max(height for height, _ in columns)
    even = [(high, board.dsp // high), (board.dsp % high, 1)]
    arrays = [(words, number) for words in LENGTHS for number in range(1, board.dsp // words + 1)]
    cuts = [fewest_breaks(columns, *array) for array in arrays]
    whole, none = cuts.count(WHOLE), cuts.count(None)
    lost = [(words, number) for words, number in arrays if chains(even, words) >= number > chains(columns, words)]
    prices = sorted(prices_of(board, workload, lost))
    cells = (
        board.name,
        ", ".join(f"{height} x {count}" for height, count in columns),
        *(f"{count:,}" for count in (len(arrays), whole, len(arrays) - whole - none, none, len(lost), len(prices))),
        f"{median(prices):,.0f}, {prices[-1]:,}" if prices else "",
    )
    return f"| {' | '.join(cells)} |"


def prices_of(board: Board, workload: Workload, arrays: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Give the price in cycles, at a batch of one, of each of some arrays that can be built."""
    question = Question(workload=workload, board=board, b_max=1, model="exact", core="rtl")
    for words, number in arrays:
        try:
            fitted = share_memory(question, Point(t_r=DEEPEST, t_p=words, t_c=number)).fit
        except FitError:
            continue
        both = (evaluate_array(question, each, [1]) for each in (fitted, with_whole_chains(fitted)))
        cycles, least = (each.total(workload.layers, 1) for each in both)
        yield cycles - least


if __name__ == "__main__":
    main()
