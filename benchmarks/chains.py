"""What chains in pieces cost networks, and which arrays need them: tables of `docs/explanation/chains.md`.

    python benchmarks/chains.py [--batches 1,8]

The arrays of `networks.py` whose chains of DSP slices break to fit the columns of a board, by the exact model
(simulated), beside the same arrays as if whole chains fitted. Then, for every shipped board, all arrays that
its slices would make.
"""

from __future__ import annotations

import argparse

from networks import CASES, PLACES, fitted_to

from fluidnpu.boards import Board, list_boards, load_board
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exploration.placing import pieces, with_whole_chains
from fluidnpu.dse.resources.columns import WHOLE, chains, fewest_breaks

LENGTHS = range(4, 97)  # words of a chain


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
    print(
        "| board | columns, height x number | arrays | whole | in pieces | no way | more would be whole in even columns |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in list_boards():
        print(shapes_of(load_board(name)), flush=True)


def shapes_of(board: Board) -> str:
    """Give a row of the second table. Even columns: all as high as the highest, but for a rest."""
    columns = board.dsp_columns
    high = max(height for height, _ in columns)
    even = [(high, board.dsp // high), (board.dsp % high, 1)]
    arrays = [(words, number) for words in LENGTHS for number in range(1, board.dsp // words + 1)]
    cuts = [fewest_breaks(columns, *array) for array in arrays]
    whole, none = cuts.count(WHOLE), cuts.count(None)
    more = sum(chains(even, words) >= number > chains(columns, words) for words, number in arrays)
    listed = ", ".join(f"{height} x {count}" for height, count in columns)
    return (
        f"| {board.name} | {listed} | {len(arrays):,} | {whole:,} | {len(arrays) - whole - none:,} | {none} | {more} |"
    )


if __name__ == "__main__":
    main()
