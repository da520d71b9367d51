"""Cycles of each layer of ResNet-50 on both boards by the exact model, as the studies of placement read them.

    python benchmarks/network_cycles.py > studies/running/data/resnet50_cycles.json

The arrays are those of `benchmarks/networks.py`, with RAM shared for batches up to the largest. Simulated:
cycles of our RTL at the clock of the board file. A minute of one core.
"""

from __future__ import annotations

import json

from networks import CASES, PLACES, fitted_to

from fluidnpu.dse.exact.search import evaluate_array

NETWORK, BATCHES = "resnet50", (1, 2, 4, 8)
CHOSEN = (("zc706", "pl"), ("zcu104", "ps_striped"))  # the memory of each board that the studies take


def cycles(board: str, memory: str) -> dict[str, object]:
    """Count every layer at all batch sizes on the array that a search found for board and memory."""
    array = CASES[NETWORK][PLACES.index((board, memory))]
    question, fit = fitted_to(NETWORK, board, memory, array, max(BATCHES))
    layers = question.workload.layers
    counted = evaluate_array(question, fit, BATCHES).layer_cycles(layers)
    return {
        "memory": memory,
        "array": [fit.t_r, *array],
        "clock_hz": question.board.clock_hz,
        "cycles": {
            str(batch): {layer.name: int(one[index]) for layer, one in zip(layers, counted, strict=True)}
            for index, batch in enumerate(BATCHES)
        },
    }


def main() -> None:
    """Print the table."""
    body = {
        "schema": 1,
        "network": NETWORK,
        "made_by": "python benchmarks/network_cycles.py",
        "note": "Cycles of the exact model, which equal those of the RTL on Verilator (simulated).",
        "boards": {board: cycles(board, memory) for board, memory in CHOSEN},
    }
    print(json.dumps(body, indent=1))


if __name__ == "__main__":
    main()
