"""Ways through a network within the objective, generated one by one: a bound on every plan, and a plan.

The linear programme has a column a way: the device time that a sample of the network takes of each kind.
Its rows are the kinds, the head's link and the budget, so few that it is solved in a moment; the dearest
part, finding the best new way at the prices of the rows, is a shortest path with a limit on its length, on a
grid of latencies. Grid steps are rounded down, so the bound holds for every plan; a plan's own latency is
checked exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .options import Floats, Option, Space

STEPS = 160  # of the grid of latencies
MOST_WAYS = 400
MOVES = (0.7, 0.9, 1.1, 1.4)  # factors of a price, for ways beside the best
_EPS = 1e-7

Cell = tuple[int, int, int]  # kind, first, end
Piece = tuple[int, int, int, int]  # the same with the place of an option in `Space.pieces`
Way = tuple[tuple[Cell, int], ...]  # cells with the place of the option in `Space.pieces`


@dataclass(frozen=True, kw_only=True)
class PathQuestion:
    """Most rate, or with `rate` least cost; `budget_micros` bounds the cost of what is used."""

    space: Space
    rate: float | None = None
    budget_micros: int | None = None

    @property
    def no_bound(self) -> float:
        """A bound that says nothing."""
        return inf if self.rate is None else 0.0

    def sharper(self, value: float, other: float) -> float:
        """The sharper of two bounds."""
        return min(value, other) if self.rate is None else max(value, other)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Devices by kind, (kinds,)."""
        return np.array([kind.count for kind in self.space.kinds], np.int64)

    @cached_property
    def costs(self) -> Floats:
        """Cost an hour of a device, by kind, (kinds,), in millionths."""
        return np.array([kind.cost_micros for kind in self.space.kinds], float)

    @property
    def most(self) -> int:
        """Devices of the largest kind."""
        return int(self.counts.max())

    @property
    def devices(self) -> int:
        """Devices of all kinds."""
        return int(self.counts.sum())


@dataclass
class Paths:
    """The programme of one question, with latencies as in pools of `pools` devices."""

    asked: PathQuestion
    pools: int
    ways: list[Way] = field(default_factory=list)

    def __post_init__(self) -> None:
        space = self.asked.space
        self.cells = list(space.pieces)
        rows = [(c, o, option) for c, cell in enumerate(self.cells) for o, option in enumerate(space.pieces[cell])]
        self.cell = np.array([c for c, _, _ in rows])
        self.choice = np.array([o for _, o, _ in rows])
        self.kind = np.array([self.cells[c][0] for c, _, _ in rows])
        self.time = np.array([1 / option.rate for _, _, option in rows])
        pools = np.minimum(self.pools, self.asked.counts[self.kind])
        latency = np.array([o.base_ns for _, _, o in rows]) + np.array([o.fill_ns for _, _, o in rows]) / pools
        step = space.slo_ns / STEPS
        self.steps = np.floor(latency / step + 1e-9).astype(int)
        arcs = sorted({cell[1:] for cell in self.cells}, key=lambda arc: (arc[1], arc[0]))
        self.arcs = arcs
        number = {arc: k for k, arc in enumerate(arcs)}
        arc_of = np.array([number[cell[1:]] for cell in self.cells])
        self.bucket = arc_of[self.cell] * (STEPS + 1) + np.minimum(self.steps, STEPS)
        self.within = self.steps <= STEPS
        self.seen: set[Way] = set()

    def generate(self) -> float | None:
        """Generate ways until none can improve; give the bound, None where no way keeps the objective."""
        asked = self.asked
        prices = np.where(asked.counts > 0, 1.0 / asked.counts, inf)
        first = self._cheapest(prices)
        if first is None:
            return None
        self._add(first)
        best = asked.no_bound
        for _ in range(MOST_WAYS):
            answer, prices, worth = self._master()
            way = self._cheapest(prices)
            if way is None:
                return best
            cost = float(sum(prices[cell[0]] / self._option(cell, k).rate for cell, k in way))
            best = asked.sharper(best, self._bound(answer, prices, worth, cost))
            if cost >= worth * (1 - _EPS) or way in self.seen:
                return asked.sharper(best, answer) if cost >= worth * (1 - _EPS) else best
            self._add(way)
        return best

    def widen(self, rates: Mapping[tuple[Piece, ...], float], options: Mapping[Piece, Option]) -> None:
        """Add ways of a known plan, and the best at moved prices, for whole numbers to choose among."""
        for way in rates:
            steps = [(piece[:3], self._place(piece[:3], options[piece])) for piece in way]
            if all(k >= 0 for _, k in steps):
                self._add(tuple(steps))
        _, prices, _ = self._master()
        for kind in range(len(prices)):
            for factor in MOVES:
                moved = np.maximum(prices, prices.max(initial=1e-12) * 1e-3)
                moved[kind] *= factor
                beside = self._cheapest(moved)
                if beside is not None:
                    self._add(beside)

    def _place(self, cell: Cell, option: Option) -> int:
        options_here = self.asked.space.pieces.get(cell, ())
        return options_here.index(option) if option in options_here else -1

    def _option(self, cell: Cell, choice: int) -> Option:
        return self.asked.space.pieces[cell][choice]

    def _add(self, way: Way) -> None:
        if way not in self.seen:
            self.ways.append(way)
            self.seen.add(way)

    def _usage(self, way: Way) -> Floats:
        """Device seconds of each kind that a sample takes."""
        counts = np.zeros(len(self.asked.counts))
        for cell, choice in way:
            counts[cell[0]] += 1 / self._option(cell, choice).rate
        return counts

    def _master(self) -> tuple[float, Floats, float]:
        """Solve over the known ways: value, price of a device second by kind, worth of a sample."""
        from scipy.optimize import linprog

        asked = self.asked
        usage = np.array([self._usage(way) for way in self.ways]).T
        spent = asked.costs @ usage
        rows, limits = [*usage], [*asked.counts.astype(float)]
        rows.append(np.ones(len(self.ways)))
        head = min(asked.space.head_rate, 1e15)
        if asked.rate is None:
            limits.append(head)
            aim = -np.ones(len(self.ways))
            if asked.budget_micros is not None:
                rows.append(spent)
                limits.append(float(asked.budget_micros))
        else:
            rows[-1] = -rows[-1]
            limits.append(-asked.rate)
            aim = spent
            rows.append(np.zeros(len(self.ways)))
            limits.append(1.0)
            # What cannot be carried yet is bought at a price that no way has.
            dear = 10 * float(spent.max(initial=1.0) + 1.0)
            rows = [np.r_[row, -1.0 if k == len(asked.counts) else 0.0] for k, row in enumerate(rows)]
            aim = np.r_[aim, dear]
        scale = self._scales(rows)
        answer: Any = linprog(aim, A_ub=np.array(rows) / scale[:, None], b_ub=np.array(limits) / scale, method="highs")
        duals = -answer.ineqlin.marginals / scale
        devices = duals[: len(asked.counts)]
        if asked.rate is None:
            beta = duals[len(asked.counts) + 1] if asked.budget_micros is not None else 0.0
            return -float(answer.fun), devices + beta * asked.costs, 1.0 - float(duals[len(asked.counts)])
        return float(answer.fun), devices + asked.costs, float(duals[len(asked.counts)])

    @staticmethod
    def _scales(rows: list[Floats]) -> Floats:
        return np.array([max(float(np.abs(row).max()), 1e-30) for row in rows])

    def _bound(self, answer: float, prices: Floats, worth: float, cost: float) -> float:
        """A bound from prices at which the cheapest way costs `cost`: scaled, they are feasible for all
        ways.
        """
        asked = self.asked
        if asked.rate is not None:
            # Prices of devices above their cost stay; a sample is worth no more than its cheapest way.
            return asked.rate * min(worth, cost) - float((prices - asked.costs) @ asked.counts)
        if asked.budget_micros is not None or cost <= 0:
            return inf
        head = asked.space.head_rate
        rest = max(0.0, 1.0 - worth)  # what the head's link takes of a sample's worth
        scale = max(1.0, (1.0 - rest) / cost)
        return scale * float(prices @ asked.counts) + (rest * head if rest and head < inf else 0.0)

    def _cheapest(self, prices: Floats) -> Way | None:
        """The way of least price within the objective, on the grid; None where there is none."""
        price = np.where(self.within, prices[self.kind] * self.time, inf)
        order = np.lexsort((price, self.bucket))
        buckets, first = np.unique(self.bucket[order], return_index=True)
        table = np.full(len(self.arcs) * (STEPS + 1), inf)
        table[buckets] = price[order[first]]
        winner = np.full(len(table), -1)
        winner[buckets] = order[first]
        table = table.reshape(len(self.arcs), STEPS + 1)
        blocks = self.asked.space.blocks
        least = np.full((blocks + 1, STEPS + 1), inf)
        least[0] = 0.0
        for k, (begin, end) in enumerate(self.arcs):
            row = np.flatnonzero(np.isfinite(table[k]))
            for step in row:
                np.minimum(least[end, step:], least[begin, : STEPS + 1 - step] + table[k, step], out=least[end, step:])
        if not np.isfinite(least[blocks, STEPS]):
            return None
        way: list[tuple[Cell, int]] = []
        at, room = blocks, STEPS
        while at:
            at, room, bucket = self._before(table, least, at, room)
            index = winner[bucket]
            way.insert(0, (self.cells[self.cell[index]], int(self.choice[index])))
        return tuple(way)

    def _before(self, table: Floats, least: Floats, at: int, room: int) -> tuple[int, int, int]:
        for k, (begin, end) in enumerate(self.arcs):
            if end != at:
                continue
            steps = np.arange(room + 1)
            total = least[begin, room - steps] + table[k, : room + 1]
            hit = np.flatnonzero(total == least[at, room])
            if len(hit):
                step = int(hit[0])
                return begin, room - step, k * (STEPS + 1) + step
        raise AssertionError("a least price has no piece that gave it")

    def whole(self, gap: float, nodes: int) -> dict[Piece, tuple[Option, int]] | None:
        """Whole numbers of devices on the pieces of the ways; None for none."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        asked = self.asked
        pieces = sorted({piece for way in self.ways for piece in way})
        options = [self._option(cell, k) for cell, k in pieces]
        n, w = len(pieces), len(self.ways)
        unit = max(option.rate for option in options)
        through: dict[tuple[Cell, int], dict[int, float]] = {piece: {} for piece in pieces}
        for number, way in enumerate(self.ways):
            for piece in way:
                through[piece][n + number] = 1.0
        rows = [{k: -options[k].rate / unit, **through[piece]} for k, piece in enumerate(pieces)]
        high = [0.0] * n
        for kind, count in enumerate(asked.counts):
            rows.append({k: 1.0 for k, (cell, _) in enumerate(pieces) if cell[0] == kind})
            high.append(float(count))
        costs = np.array([asked.costs[cell[0]] for cell, _ in pieces])
        if asked.budget_micros is not None:
            rows.append(dict(enumerate(costs)))
            high.append(float(asked.budget_micros))
        low = [-inf] * len(rows)
        rows.append({n + number: 1.0 for number in range(w)})
        low.append(0.0 if asked.rate is None else asked.rate / unit)
        high.append(asked.space.head_rate / unit)
        most = np.r_[[float(asked.counts[cell[0]]) for cell, _ in pieces], np.full(w, inf)]
        answer: Any = milp(
            np.r_[np.zeros(n), -np.ones(w)] if asked.rate is None else np.r_[costs, np.zeros(w)],
            constraints=LinearConstraint(sparse(rows, n + w), low, high),
            integrality=np.r_[np.ones(n), np.zeros(w)],
            bounds=Bounds(0, most),
            options=solver_options(gap, nodes),
        )
        if answer.x is None:
            return None
        counts = np.round(answer.x[:n]).astype(int)
        return {(*cell, k): (options[i], int(counts[i])) for i, (cell, k) in enumerate(pieces) if counts[i]}


def solver_options(gap: float, nodes: int) -> dict[str, float]:
    """Settings of HiGHS: it stops at a gap or a number of nodes, not at a time, so that answers repeat."""
    return {"mip_rel_gap": gap, "node_limit": nodes}


def sparse(rows: list[dict[int, float]], width: int) -> Any:
    """Make a sparse matrix of rows that are {column: value}."""
    from scipy.sparse import csr_array

    data = [(value, r, c) for r, row in enumerate(rows) for c, value in row.items()]
    values, at, columns = zip(*data, strict=True)
    return csr_array((values, (at, columns)), shape=(len(rows), width))
