"""Exhaustive search of the `paper` model's design space: it evaluates every legal point.

Plain iteration in typed stages: `legal_space` lists the points, `evaluate` times them, `rank` orders them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fluidnpu.boards import Board
from fluidnpu.models import LayerShape, Workload

from ..errors import DesignError
from ..hardware.array import Floats, Ints
from ..hardware.space import DesignSpace, Point, legal_space
from ..question import Progress, Question, check_macs
from .model import Batching, distinct, operations_rate

CHUNK_POINTS = 1024  # with eight batch sizes a dozen arrays stay in the second-level cache


def evaluate(
    space: DesignSpace,
    layers: Sequence[LayerShape],
    *,
    b_max: int,
    words_per_cycle: int,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
    progress: Progress | None = None,
) -> Floats:
    """Ticks of all layers, shape (b_max, points): equal to `model.total_ticks` to the last tick.

    Time goes into arithmetic, not into Python: equal shapes are timed once, points are taken by the hundred
    with all batch sizes side by side, and whole numbers ride in float64, whose division is several times
    faster than int64's. Raises DesignError for layers too large for that.
    """
    shapes = distinct(layers)
    _check_exact(shapes, b_max, space, words_per_cycle)
    batches = np.arange(1.0, b_max + 1)[:, None]
    total = np.zeros((b_max, len(space)))
    for start in range(0, len(space), CHUNK_POINTS):
        part = slice(start, start + CHUNK_POINTS)
        t_r, t_p, t_c = (axis[part].astype(np.float64) for axis in (space.t_r, space.t_p, space.t_c))
        single = np.flatnonzero((t_c < 2) | (t_r < 2))  # points with no pair to stack
        for shape, count in shapes.items():
            best = _ticks(shape, t_r, t_p, t_c, batches, words=words_per_cycle, batching=batching)
            if stackable:
                halves = np.floor(t_r / 2), 2 * t_p, np.floor(t_c / 2)
                stacked = _ticks(shape, *halves, batches, words=words_per_cycle, batching=batching)
                stacked[:, single] = np.inf
                np.minimum(best, stacked, out=best)
            best *= count * shape.groups
            total[:, part] += best
        if progress is not None:
            progress(min(start + CHUNK_POINTS, len(space)), len(space))
    return total


def _check_exact(shapes: Counter[LayerShape], b_max: int, space: DesignSpace, words: int) -> None:
    """Refuse sums that might reach 2**52; below it ceil(a / b) of whole numbers in float64 is exact."""
    t_p, t_c = int(space.t_p.max()), int(space.t_c.max())
    bound = sum(
        b_max * x.r * x.groups * max(words * x.p * x.c, (x.p + 2 * t_p) * (x.c + t_c)) * count
        for x, count in shapes.items()
    )
    if bound >= 2**52:
        raise DesignError(
            f"the layers are too large for the paper model: a batch may take up to 2**{bound.bit_length()} ticks, and 2**52 can be counted"
        )


def _ticks(
    layer: LayerShape, t_r: Floats, t_p: Floats, t_c: Floats, batches: Floats, *, words: int, batching: Batching
) -> Floats:
    """Ticks of one group of a layer, shape (batches, points): `model.layer_ticks` at one k, vectorised.

    `batches` is a column of batch sizes. Where a point has no pair to stack (T_R or T_C zero) the result is
    void.
    """
    r, p, c = layer.r, layer.p, layer.c
    t_r, t_c = np.maximum(t_r, 1), np.maximum(t_c, 1)
    tiles = np.ceil(p / t_p)
    padded_p = t_p * tiles
    column_tiles = np.ceil(c / t_c)
    padded_c = t_c * column_tiles
    moved = r * np.maximum(padded_p * column_tiles, padded_c)  # inputs or outputs of one sample
    together = np.ones((1, 1)) if batching is Batching.FC and r > 1 else batches  # samples that are computed together
    time = (together * r) / t_r  # from here on in place: these arrays are where the time goes
    np.ceil(time, out=time)
    time *= padded_p * padded_c
    np.maximum(time, together * moved, out=time)
    cycles = _cycles_of_a_tile(layer, t_c, column_tiles, together, batching)
    cycles *= words * tiles
    np.maximum(time, cycles, out=time)
    return time if together is batches else batches * time


def _cycles_of_a_tile(
    layer: LayerShape, t_c: Floats, column_tiles: Floats, together: Floats, batching: Batching
) -> Floats:
    """Cycles of one P-tile for the samples that are computed together, shape (batches, points)."""
    r, c = layer.r, layer.c
    cycles: Floats
    match batching:
        case Batching.FLUID:
            cycles = (together * (r * c)) / t_c
            np.ceil(cycles, out=cycles)
        case Batching.R | Batching.FC:
            cycles = (together * r) * column_tiles
        case Batching.P:
            cycles = (together * c) / t_c
            np.ceil(cycles, out=cycles)
            cycles *= r
    return cycles


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Every legal point with its figures: `order` has their indices, the optimum's first.

    `objective` is Eq. 2 of Fluid Batching: the sum over b of w_b T(d, b), in GOP/s. `gops` has shape (b_max,
    points). Equal objectives are ordered by lower latency at b = 1, then fewer DSPs, then smaller T_P.
    """

    space: DesignSpace
    objective: Floats
    gops: Floats
    order: Ints
    weights: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.space)

    @property
    def best(self) -> Point:
        """The optimum."""
        return self.space[int(self.order[0])]

    @property
    def unique(self) -> bool:
        """True where no other point reaches the optimum's objective."""
        return len(self) == 1 or bool(self.objective[self.order[0]] > self.objective[self.order[1]])

    def top(self, count: int) -> list[tuple[Point, float]]:
        """The first `count` points with their objective in GOP/s."""
        return [(self.space[int(i)], float(self.objective[i])) for i in self.order[:count]]


def pareto_front(costs: Floats) -> Ints:
    """Indices of the Pareto-optimal rows of `costs` (points, figures; less is better), sorted by figures.

    In that order no row is dominated by a later one, so one pass is enough.

    >>> pareto_front(np.array([[2.0, 4.0], [1.0, 5.0], [2.0, 3.0], [3.0, 3.0]]))
    array([1, 2])
    """
    front, kept = np.empty(costs.T.shape), list[int]()
    for index in np.lexsort(costs.T[::-1]):
        row = costs[index][:, None]
        earlier = front[:, : len(kept)]
        no_worse = (earlier <= row).all(axis=0)
        if no_worse.any() and (earlier[:, no_worse] < row).any():
            continue
        front[:, len(kept)] = costs[index]
        kept.append(int(index))
    return np.array(kept, dtype=np.int64)


def search(
    workload: Workload,
    board: Board,
    *,
    b_max: int = 8,
    weights: Sequence[float] | None = None,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
    progress: Progress | None = None,
) -> Ranking:
    """Rank every legal point of a board for a workload under Eq. 2. Raises DesignError."""
    question = Question(
        workload=workload,
        board=board,
        b_max=b_max,
        weights=None if weights is None else tuple(weights),
        model="paper",
    )
    return rank(question, batching=batching, stackable=stackable, progress=progress)


def rank(
    question: Question,
    *,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
    progress: Progress | None = None,
) -> Ranking:
    """Rank every legal point of a question's board under Eq. 2. Raises DesignError."""
    check_macs(question.workload)
    macs, board = question.macs, question.board
    space = legal_space(board)
    words = board.paper_words_per_cycle
    ticks = question.weighed(
        lambda layers: evaluate(
            space,
            layers,
            b_max=question.b_max,
            words_per_cycle=words,
            batching=batching,
            stackable=stackable,
            progress=progress,
        )
    )
    gops = np.empty_like(ticks)
    objective = np.zeros(len(space))
    for b, weight in enumerate(question.batch_weights):
        gops[b] = operations_rate(macs, b + 1, board.clock_hz, words) / ticks[b]
        objective += weight * gops[b]
    order = np.lexsort((space.t_c, space.t_p, space.dsp, ticks[0], -objective))
    return Ranking(space=space, objective=objective, gops=gops, order=order, weights=question.batch_weights)
