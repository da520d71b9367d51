"""The best single pipeline by dynamic programming over used devices: exact for its space.

A pipeline is a chain of pieces, each on m devices of one kind. For a wanted rate, `best[j][used]` is the
least latency in which blocks 0..j can be passed with a given number of devices of each kind used; the
wanted rate is searched over the finite set of rates that a piece or a link can have. Ties go to fewer
devices, then to less latency. This is the space of TETRIS, with serial splits and plain replicas added.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from .options import Floats, Option, Space

MOST_STATES = 60_000
_EPS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One piece of a pipeline: an option on a number of devices of a kind."""

    kind: int
    devices: int
    option: Option


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A chain of stages, the rate that it carries and its longest latency."""

    stages: tuple[Stage, ...]
    rate: float
    latency_ns: float

    @property
    def used(self) -> int:
        """Number of devices."""
        return sum(stage.devices for stage in self.stages)


def pipeline_of(stages: tuple[Stage, ...], head_rate: float = inf) -> Pipeline:
    """Rate and latency of a chain of stages."""
    rate = min(head_rate, *(stage.devices * stage.option.rate for stage in stages))
    return Pipeline(
        stages=stages, rate=rate, latency_ns=sum(stage.option.latency_ns(stage.devices) for stage in stages)
    )


def states(space: Space) -> int:
    """Number of states of the programme."""
    return prod(kind.count + 1 for kind in space.kinds)


def best_pipeline(space: Space, *, budget_micros: int | None = None) -> Pipeline | None:
    """The pipeline of most rate within counts, budget and objective; None where there is none."""
    programme = _Programme(space, budget_micros)
    rates = programme.rates
    low = programme.last_feasible(rates, 0, len(rates), programme.quick)
    if low + 1 < len(rates) and programme.hopeful(float(rates[low + 1])):
        high = programme.last_feasible(rates, low + 2, len(rates), programme.hopeful, last=low + 1)
        low = programme.last_feasible(rates, low + 1, high + 1, programme.exact, last=low)
    return None if low < 0 else programme.plan(rates[low])


def cheapest_pipeline(space: Space, rate: float) -> Pipeline | None:
    """The pipeline of least cost that carries a rate; ties go to fewer devices. None where there is none."""
    if rate > space.head_rate * (1 + _EPS):
        return None
    return _Programme(space, None).plan(rate, cheapest=True)


class _Programme:
    """Tables of one space; a probe asks whether a rate can be had."""

    def __init__(self, space: Space, budget_micros: int | None) -> None:
        self.space = space
        self.shape = tuple(kind.count + 1 for kind in space.kinds)
        self.most = max(kind.count for kind in space.kinds)
        self.keys = list(space.pieces)
        options = [space.pieces[key] for key in self.keys]
        self.first = np.cumsum([0, *(len(option) for option in options)])[:-1]
        self.rate = np.array([o.rate for option in options for o in option])
        self.base = np.array([o.base_ns for option in options for o in option])
        self.fill = np.array([o.fill_ns for option in options for o in option])
        m = np.arange(1, self.most + 1)
        self.capacity = self.rate[:, None] * m
        self.latency = self.base[:, None] + self.fill[:, None] / m
        counts = np.array([space.kinds[kind].count for kind, _, _ in self.keys])
        self.allowed = m[None, :] <= counts[:, None]
        used = np.indices(self.shape)
        self.devices = used.sum(axis=0)
        costs = np.array([kind.cost_micros for kind in space.kinds], np.int64)
        self.cost = np.tensordot(costs, used, axes=1)
        self.affordable = np.ones(self.shape, bool) if budget_micros is None else self.cost <= budget_micros

    @property
    def rates(self) -> Floats:
        """Every rate that a plan can have, ascending."""
        counts = np.repeat(
            [self.space.kinds[kind].count for kind, _, _ in self.keys], np.diff([*self.first, len(self.rate)])
        )
        capacities = self.capacity[np.arange(1, self.most + 1)[None, :] <= counts[:, None]]
        head = self.space.head_rate
        return np.asarray(
            np.unique(np.concatenate([capacities[capacities <= head], [head] if head < inf else []])), float
        )

    def table(self, rate: float) -> Floats:
        """Least latency of each piece by number of devices; infinite where they do not carry the rate."""
        able = np.where(self.capacity >= rate * (1 - _EPS), self.latency, inf)
        least = np.minimum.reduceat(able, self.first, axis=0)
        return np.where(self.allowed, least, inf)

    def last_feasible(self, rates: Floats, low: int, high: int, probe: object, last: int = -1) -> int:
        """The last index in [low, high) whose rate the probe has, -1 (or `found`) for none."""
        while low < high:
            middle = (low + high) // 2
            if probe(float(rates[middle])):  # type: ignore[operator]
                last, low = middle, middle + 1
            else:
                high = middle
        return last

    def quick(self, rate: float) -> bool:
        """Return whether a plan exists in which every piece has the fewest devices."""
        table = self.table(rate)
        return self._reaches(self._relax(_fewest(table)))

    def hopeful(self, rate: float) -> bool:
        """Return whether a plan exists when latency does not count; False is proof that none does."""
        table = np.where(np.isfinite(self.table(rate)), 0.0, inf)
        return self._reaches(self._relax(_fewest(table)))

    def exact(self, rate: float) -> bool:
        """Return whether a plan exists."""
        return self._reaches(self._relax(_useful(self.table(rate))))

    def _reaches(self, best: list[Floats]) -> bool:
        return bool((best[-1][self.affordable] <= self.space.slo_ns).any())

    def _relax(self, table: Floats) -> list[Floats]:
        """Least latency by used devices at every cut."""
        slo = self.space.slo_ns
        best = [np.full(self.shape, inf) for _ in range(self.space.blocks + 1)]
        best[0][(0,) * len(self.shape)] = 0.0
        axes = len(self.shape)
        order = sorted(range(len(self.keys)), key=lambda k: (self.keys[k][1], self.keys[k][2]))
        for index in order:
            kind, first, end = self.keys[index]
            row = table[index]
            for column in np.flatnonzero(row <= slo):
                m = int(column) + 1
                to: list[slice] = [slice(None)] * axes
                source = list(to)
                to[kind], source[kind] = slice(m, None), slice(None, self.shape[kind] - m)
                target = best[end][tuple(to)]
                np.minimum(target, best[first][tuple(source)] + row[column], out=target)
        return best

    def plan(self, rate: float, *, cheapest: bool = False) -> Pipeline | None:
        """The plan of a rate: fewest devices (or least cost), then least latency."""
        table = _useful(self.table(rate))
        best = self._relax(table)
        within = self.affordable & (best[-1] <= self.space.slo_ns)
        if not within.any():
            return None
        price = self.cost if cheapest else np.zeros(self.shape, np.int64)
        places: NDArray[np.int64] = np.argwhere(within)
        ranked = min(map(tuple, places.tolist()), key=lambda at: (price[at], self.devices[at], best[-1][at]))
        return pipeline_of(tuple(self._trace(best, table, rate, ranked)), self.space.head_rate)

    def _trace(self, best: list[Floats], table: Floats, rate: float, at: tuple[int, ...]) -> list[Stage]:
        stages: list[Stage] = []
        end = self.space.blocks
        while end:
            stage = self._last(best, table, rate, at, end)
            stages.insert(0, stage)
            at = tuple(n - stage.devices * (axis == stage.kind) for axis, n in enumerate(at))
            end = stage.option.chain[0].first
        return stages

    def _last(self, best: list[Floats], table: Floats, rate: float, at: tuple[int, ...], end: int) -> Stage:
        """The piece that ends at a cut with these devices used."""
        value = best[end][at]
        for index, (kind, first, here) in enumerate(self.keys):
            if here != end:
                continue
            for column in np.flatnonzero(np.isfinite(table[index])):
                m = int(column) + 1
                before = tuple(n - m * (axis == kind) for axis, n in enumerate(at))
                if min(before) >= 0 and best[first][before] + table[index, column] == value:
                    options = self.space.pieces[self.keys[index]]
                    able = [o for o in options if o.rate * m >= rate * (1 - _EPS)]
                    return Stage(kind=kind, devices=m, option=min(able, key=lambda o: (o.latency_ns(m), -o.rate)))
        raise AssertionError("a value of the programme has no piece that gave it")


def _fewest(table: Floats) -> Floats:
    """Keep of each piece the least number of devices alone."""
    able = np.isfinite(table)
    first = able & (np.cumsum(able, axis=1) == 1)
    return np.where(first, table, inf)


def _useful(table: Floats) -> Floats:
    """Keep numbers of devices that bring a shorter latency than fewer of them."""
    before = np.minimum.accumulate(table, axis=1)
    better = np.ones(table.shape, bool)
    better[:, 1:] = table[:, 1:] < before[:, :-1]
    return np.where(better, table, inf)
