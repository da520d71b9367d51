"""Depthwise layers as if a pool had weights: what a mode of the core would gain that is not built (ADR 29).

    python benchmarks/weighted_pool.py

A weighted pool would take a tap of a beat of channels a cycle, as a sum pool does, or two, as a max pool
does. So the exact model counts each depthwise layer as such a pool of the same window, on arrays without the
columns whose multipliers the pool would need: a beat has 2 * T_P words. Its weights would come on top. The
better of two arrays counts, for each batch size. Simulated, B = 1 and 8.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace

from fluidnpu.boards import load_board
from fluidnpu.dse import Point, Question
from fluidnpu.dse.exact.search import evaluate_array
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.models import Kind, LayerShape, Workload
from fluidnpu.models.zoo import full_size

BATCHES = (1, 8)
DEEPEST = 8192  # rows of a bank, before RAM is shared
NETWORKS = ("mobilenet_v2", "efficientnet_lite0")
PLACES = {
    ("zc706", "ps_striped"): ((28, 32), (18, 50)),
    ("zc706", "pl"): ((28, 32), (18, 50)),
    ("zcu104", "ps_striped"): ((54, 32), (24, 64)),
}
FORMS = {  # what a depthwise layer is counted as, and the columns of multipliers that it takes from the array
    "joined groups, as built": (None, 0),
    "pool of a tap a cycle": (Kind.SUM_POOL, 2),
    "pool of two taps a cycle": (Kind.MAX_POOL, 4),
}


def as_pool(layer: LayerShape, kind: Kind | None) -> LayerShape:
    """The layer, if depthwise, as a pool of the same window."""
    depthwise = layer.kind is Kind.GEMM and layer.c == 1 and layer.groups > 1
    return replace(layer, kind=kind, c=layer.groups, groups=1) if depthwise and kind else layer


def frames(work: Workload, place: tuple[str, str], arrays: Iterable[tuple[int, int]]) -> list[float]:
    """Frames a second of each batch size, on the best of the arrays for each."""
    board, memory = load_board(place[0]), place[1]
    question = Question(workload=work, board=board, b_max=min(BATCHES), model="exact", memory=memory, core="hls")
    rates = []
    for t_p, t_c in arrays:
        fitted = share_memory(question, Point(t_r=DEEPEST, t_p=t_p, t_c=t_c)).fit
        counted = evaluate_array(question, fitted, BATCHES)
        rates.append([batch * board.clock_hz / counted.total(work.layers, batch) for batch in BATCHES])
    return [max(of_batch) for of_batch in zip(*rates, strict=True)]


def main() -> None:
    """Print a table of frames a second."""
    print("| network | board, memory | depthwise layers as | B = 1 | B = 8 |\n|---|---|---|---:|---:|")
    for network in NETWORKS:
        work = full_size(network).workload
        for place, arrays in PLACES.items():
            built: list[float] = []
            for form, (kind, columns) in FORMS.items():
                asked = replace(work, layers=tuple(as_pool(layer, kind) for layer in work.layers))
                rates = frames(asked, place, [(t_p, t_c - columns) for t_p, t_c in arrays])
                built = built or rates
                cells = [f"{rate:.1f} ({rate / was - 1:+.0%})" for rate, was in zip(rates, built, strict=True)]
                print(f"| {network} | {place[0]}, `{place[1]}` | {form} | {' | '.join(cells)} |")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
