"""The best mix of pieces by mixed-integer programming: any types and several pipelines side by side.

Two programmes share the work. Paths (`paths.py`) are whole ways through the network that keep the objective;
generating them column by column gives a bound on every plan, and a whole-number choice among them a plan.
Flows over the cuts between blocks know no paths, only pieces; their whole-number bound is sharper on small
fleets. Both are solved by HiGHS through SciPy (`pip install "fluidnpu[fleet]"`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from ..errors import FleetError
from .options import Option, Space
from .paths import Cell, PathQuestion, Paths, Piece, solver_options, sparse

GAP = 1e-3  # relative distance at which a solution is good enough
NODES = 60  # of branch and bound in one integer programme
HALVINGS = 4  # of the sizes of pools that latencies are planned for
MOST_FLOW_DEVICES = 200  # fleets above it have whole numbers so large that the paths' bound is sharp enough
MOST_ROUTES = 5000
_EPS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Devices on pieces, the rate that they carry together, and the bound that was proven.

    `placed`: option and number of devices by piece (kind, first, end, place of the option). `routes`:
    samples a second over each way. `bound`: no mix carries more (or, for least cost, costs less).
    """

    placed: Mapping[Piece, tuple[Option, int]]
    routes: Mapping[tuple[Piece, ...], float]
    rate: float
    cost_micros: int
    bound: float
    latency_ns: float

    @property
    def used(self) -> int:
        """Number of devices."""
        return sum(count for _, count in self.placed.values())


def has_solver() -> bool:
    """Return whether SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


def best_mix(
    space: Space,
    *,
    rate: float | None = None,
    budget_micros: int | None = None,
    start: Mix | None = None,
    gap: float = GAP,
    nodes: int = NODES,
) -> Mix | None:
    """The mix of most rate, or with `rate` given the one of least cost that carries it; None for none.

    `start`: a plan that is known, which the answer is never below. Raises FleetError without SciPy.
    """
    if not has_solver():
        raise FleetError("mixes of pieces need SciPy, which is not installed: pip install 'fluidnpu[fleet]'")
    asked = PathQuestion(space=space, rate=rate, budget_micros=budget_micros)
    if rate is not None and rate > space.head_rate * (1 + _EPS):
        return None
    best, bound = start, asked.no_bound
    for pools in dict.fromkeys(max(1, asked.most >> shift) for shift in range(HALVINGS)):
        paths = Paths(asked, pools)
        limit = paths.generate()
        if limit is None:
            break
        if pools == asked.most:
            bound = limit
        if best is not None:
            paths.widen(best.routes, {piece: option for piece, (option, _) in best.placed.items()})
        best = _better(asked, best, _settle(asked, paths.whole(gap / 2, nodes)))
        if best is not None and _gap(asked, best, bound) <= gap:
            break
    if best is not None and _gap(asked, best, bound) > gap and asked.devices <= MOST_FLOW_DEVICES:
        free, limit = _flows(asked, gap, nodes)
        bound = asked.sharper(bound, limit)
        best = _better(asked, best, free)
    return None if best is None else replace(best, bound=_not_below(asked, best, bound))


def _value(asked: PathQuestion, mix: Mix) -> float:
    return mix.rate if asked.rate is None else float(mix.cost_micros)


def _gap(asked: PathQuestion, mix: Mix, bound: float) -> float:
    value = _value(asked, mix)
    if asked.rate is None:
        return bound / value - 1
    return value / bound - 1 if bound > 0 else (0.0 if value == 0 else inf)


def _not_below(asked: PathQuestion, mix: Mix, bound: float) -> float:
    """A bound that rounding has put on the wrong side of the value is the value."""
    return max(bound, mix.rate) if asked.rate is None else min(bound, float(mix.cost_micros))


def _better(asked: PathQuestion, first: Mix | None, other: Mix | None) -> Mix | None:
    if first is None or other is None:
        return other if first is None else first
    if asked.rate is None:
        return other if other.rate > first.rate * (1 + _EPS) else first
    return other if (other.cost_micros, other.used) < (first.cost_micros, first.used) else first


def _flows(asked: PathQuestion, gap: float, nodes: int) -> tuple[Mix | None, float]:
    """Solve the flow over cuts, and give its mix (None where a path is too long) and its bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    space = asked.space
    columns = {cell: options[0] for cell, options in space.pieces.items()}
    cells = list(columns)
    arcs = sorted({cell[1:] for cell in cells})
    n, unit = len(cells), max(option.rate for option in columns.values())
    place = {arc: n + k for k, arc in enumerate(arcs)}
    rows, low, high = _rows(space, columns, cells, place, unit)
    starting = {place[arc]: 1.0 for arc in arcs if arc[0] == 0}
    cost = np.array([space.kinds[cell[0]].cost_micros for cell in cells], float)
    if asked.budget_micros is not None:
        rows.append({k: cost[k] for k in range(n)})
        low.append(-inf)
        high.append(float(asked.budget_micros))
    rows.append(starting)
    low.append(0.0 if asked.rate is None else asked.rate / unit)
    high.append(space.head_rate / unit)
    aim = np.zeros(n + len(arcs))
    if asked.rate is None:
        aim[list(starting)] = -1.0
    else:
        aim[:n] = cost
    counts = np.array([space.kinds[cell[0]].count for cell in cells], float)
    answer: Any = milp(
        aim,
        constraints=LinearConstraint(sparse(rows, n + len(arcs)), low, high),
        integrality=np.r_[np.ones(n), np.zeros(len(arcs))],
        bounds=Bounds(0, np.r_[counts, np.full(len(arcs), inf)]),
        options=solver_options(gap, nodes),
    )
    if answer.x is None or answer.mip_dual_bound is None:
        return None, asked.no_bound
    devices = np.round(answer.x[:n]).astype(int)
    placed = {(*cell, 0): (columns[cell], int(devices[k])) for k, cell in enumerate(cells) if devices[k]}
    bound = -answer.mip_dual_bound * unit if asked.rate is None else answer.mip_dual_bound
    return _settle(asked, placed), float(bound)


def _rows(
    space: Space, columns: Mapping[Cell, Option], cells: list[Cell], place: Mapping[tuple[int, int], int], unit: float
) -> tuple[list[dict[int, float]], list[float], list[float]]:
    """Capacity of each arc, conservation at each inner cut, devices of each kind."""
    rows: list[dict[int, float]] = []
    low: list[float] = []
    high: list[float] = []
    for arc, flow in place.items():
        rows.append({flow: 1.0, **{k: -columns[c].rate / unit for k, c in enumerate(cells) if c[1:] == arc}})
        low.append(-inf)
        high.append(0.0)
    for cut in range(1, space.blocks):
        row = {flow: float((arc[1] == cut) - (arc[0] == cut)) for arc, flow in place.items() if cut in arc}
        if row and space.reach[cut] > 0:
            rows.append(row)
            low.append(0.0)
            high.append(0.0)
    for index, kind in enumerate(space.kinds):
        rows.append({k: 1.0 for k, cell in enumerate(cells) if cell[0] == index})
        low.append(0.0)
        high.append(float(kind.count))
    return rows, low, high


def _settle(asked: PathQuestion, placed: Mapping[Piece, tuple[Option, int]] | None) -> Mix | None:
    """Send samples over the ways through whole devices that keep the objective; give back idle devices.

    None where nothing flows, or less than the rate asked.
    """
    placed = placed or {}
    for _ in range(8):
        if not placed:
            return None
        routes = _route(asked, placed)
        loads = {piece: sum(flow for way, flow in routes.items() if piece in way) for piece in placed}
        needed = {
            piece: (option, min(count, int(np.ceil(loads[piece] / option.rate * (1 - _EPS)))))
            for piece, (option, count) in placed.items()
            if loads[piece] > 0
        }
        if needed == placed:
            break
        placed = needed
    total = sum(routes.values())
    if total <= 0 or (asked.rate is not None and total < asked.rate * (1 - 1e-6)):
        return None
    cost = sum(asked.space.kinds[piece[0]].cost_micros * count for piece, (_, count) in placed.items())
    took = {piece: option.latency_ns(count) for piece, (option, count) in placed.items()}
    latency = max(sum(took[piece] for piece in way) for way in routes)
    return Mix(placed=placed, routes=routes, rate=total, cost_micros=cost, bound=inf, latency_ns=latency)


def _route(asked: PathQuestion, placed: Mapping[Piece, tuple[Option, int]]) -> dict[tuple[Piece, ...], float]:
    """The most samples over the ways through these pieces, by way."""
    from scipy.optimize import linprog

    space = asked.space
    ways = list(_ways(space, {piece: option.latency_ns(count) for piece, (option, count) in placed.items()}))
    if not ways:
        return {}
    pieces = list(placed)
    unit = max(option.rate for option, _ in placed.values())
    rows = [{w: 1.0 for w, way in enumerate(ways) if piece in way} for piece in pieces]
    limits = [placed[piece][0].rate * placed[piece][1] / unit for piece in pieces]
    most = space.head_rate if asked.rate is None else min(space.head_rate, asked.rate)
    if most < inf:
        rows.append(dict.fromkeys(range(len(ways)), 1.0))
        limits.append(most / unit)
    answer: Any = linprog(-np.ones(len(ways)), A_ub=sparse(rows, len(ways)), b_ub=limits, method="highs")
    return {way: float(y) * unit for way, y in zip(ways, answer.x, strict=True) if y > _EPS}


def _ways(space: Space, latency: Mapping[Piece, float]) -> Iterator[tuple[Piece, ...]]:
    """Yield the ways through pieces that keep the objective, at most `MOST_ROUTES`."""
    after: dict[int, list[Piece]] = {}
    for piece in sorted(latency):
        after.setdefault(piece[1], []).append(piece)
    waiting: list[tuple[tuple[Piece, ...], float]] = [((), 0.0)]
    columns = 0
    while waiting and columns < MOST_ROUTES:
        way, spent = waiting.pop()
        for piece in after.get(way[-1][2] if way else 0, ()):
            total = spent + latency[piece]
            if total > space.slo_ns * (1 + _EPS):
                continue
            if piece[2] == space.blocks:
                columns += 1
                yield (*way, piece)
            else:
                waiting.append(((*way, piece), total))
