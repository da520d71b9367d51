"""What chains in pieces cost whole networks: the table of `docs/explanation/chains.md`.

    python benchmarks/chains.py [--batches 1,8]

The arrays of `networks.py` whose chains of DSP slices break to fit the columns of a board, by the exact model
(simulated), beside the same arrays as if whole chains fitted.
"""

from __future__ import annotations

import argparse

from networks import CASES, PLACES, fitted_to

from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exploration.placing import pieces, with_whole_chains


def main() -> None:
    """Print the table."""
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


if __name__ == "__main__":
    main()
