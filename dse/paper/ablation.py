"""The ablation of Fig. 10 of Fluid Batching: each way of batching on its best design, by the `paper` model.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import LayerShape, Workload
>>> work = Workload(name="one", layers=(LayerShape(name="conv", r=49, p=512, c=48),))
>>> [row.name for row in ablation(work, load_board("zc706"), b_max=2)]
['R', 'P', 'fluid', 'fluid + stackable']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.boards import Board
from fluidnpu.models import Workload

from ..hardware.space import Point
from .model import Batching
from .search import search

STRATEGIES = (
    ("R", Batching.R, False),
    ("P", Batching.P, False),
    ("fluid", Batching.FLUID, False),
    ("fluid + stackable", Batching.FLUID, True),
)


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """One way of batching, the best design for it, and that design's GOP/s at each batch size."""

    name: str
    point: Point
    gops: tuple[float, ...]
    peak_gops: float


def ablation(
    workload: Workload, board: Board, *, b_max: int = 8, weights: Sequence[float] | None = None
) -> tuple[AblationRow, ...]:
    """One row for each strategy, each searched over the whole space for itself. Raises DesignError.

    R and P are Eq. 1 with B_R = b and B_R = 1; "fluid" is the `paper` model, in which idle PEs take any row
    or sample. Traffic is the same in all rows: strategies differ in where samples are computed, not in what
    is moved.
    """
    rows = []
    for name, batching, stackable in STRATEGIES:
        ranking = search(workload, board, b_max=b_max, weights=weights, batching=batching, stackable=stackable)
        best = int(ranking.order[0])
        rows.append(
            AblationRow(
                name=name,
                point=ranking.best,
                gops=tuple(float(x) for x in ranking.gops[:, best]),
                peak_gops=2 * ranking.best.dsp * board.clock_hz / 1e9,
            )
        )
    return tuple(rows)
