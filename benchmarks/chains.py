"""What chains in pieces cost whole networks: the table of `docs/explanation/chains.md`.

    python benchmarks/chains.py [--batches 1,8]

The arrays of `networks.py` whose chains of DSP slices break to fit the columns of a board, by the exact model
(simulated), beside the same arrays as if whole chains fitted.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from networks import CASES, DEEPEST, PLACES

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, Question
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.hardware.array import Array
from fluidnpu.models.zoo import full_size


def pieces(array: Array[int]) -> str:
    """The chains that break, and into what, in a cell of the table."""
    parts = [str(min(array.piece, array.t_p - at)) for at in range(0, array.t_p, array.piece)]
    return f"{array.broken} of {array.t_c}, in {' and '.join(parts)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", default="1,8")
    batches = [int(batch) for batch in parser.parse_args().batches.split(",")]
    print("| network | board, memory | array | chains in pieces | B | cycles | price |")
    print("|---|---|---|---|---:|---:|---:|")
    for network, arrays in CASES.items():
        work = full_size(network).workload
        for (board, memory), (t_p, t_c) in zip(PLACES, arrays, strict=True):
            question = Question(
                workload=work, board=load_board(board), b_max=max(batches), model="exact", memory=memory, core="rtl"
            )
            fitted = share_memory(question, Point(t_r=DEEPEST, t_p=t_p, t_c=t_c)).fit
            if not fitted.array.broken:
                continue
            whole = replace(fitted, array=replace(fitted.array, piece=0, broken=0))
            ours, theirs = (evaluate_array(question, one, batches) for one in (fitted, whole))
            for batch in batches:
                cycles, least = ours.total(work.layers, batch), theirs.total(work.layers, batch)
                print(
                    f"| {network} | {board}, `{memory}` | <{t_p}, {t_c}> | {pieces(fitted.array)} "
                    f"| {batch} | {cycles:,} | {cycles - least:,} ({100 * (cycles / least - 1):.3f} %) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
