"""Branch and bound over all buildable arrays: a lower bound orders them, the exact model evaluates the best.

Evaluation continues until no array can improve on the best, small batches before large ones; that of an array
stops once it cannot win. If the budget of evaluations runs out first, `gap_pct` bounds how far the result is
from the optimum. Where tensors lie is not known before a network is compiled; here each layer reads and
writes tensors of its own.
"""

from __future__ import annotations

import heapq
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from math import inf
from typing import TypeVar, cast

import numpy as np

from fluidnpu.models import LayerShape
from fluidnpu.models.graph import Filtering

from ..design import BatchPlan, LatencyTable, Plans
from ..errors import DesignError, FitError, TooLongError
from ..hardware.activation import USES, pieces, too_many_pieces
from ..hardware.array import Array, Floats, ceil_div
from ..hardware.dram import DramModel
from ..hardware.filtering import filter_rows, filterings
from ..hardware.pooling import pooled_beats
from ..hardware.space import DesignSpace, Point
from ..question import Progress, Question
from ..resources.buildable import buildable, least_point, target_space
from ..resources.fit import Fit, fit
from .bound import LEAST_PLAN_CYCLES, Candidates, block_sizes, lower_bound, moving_bound
from .estimate import PLAN_CYCLES, RankedPlan, estimated_plan, ranked_plans
from .mapping import LayerMapping, joinable, joins, layer_key, mappings
from .model import LayerCost, LayerJob, Machine, layer_cost
from .sharing import check_windows, share_memory

_log = logging.getLogger(__name__)
TRIES = 6  # plans of a layer's best mapping that are evaluated behind the first
JOINS = 3  # numbers of joined groups that are evaluated, those of the best estimates
NEAR = 0.99  # a plan whose bound promises less than a hundredth more is not evaluated
SLACK = 64  # cycles by which the leads of two plans of a layer may differ
POINTS = 256  # arrays that are bounded at a time
_ALIGNMENT = 4096
_WEIGHTS, _DESCRIPTORS, _SLOTS = 1 << 30, 1 << 31, 1 << 32
_T = TypeVar("_T")


def synthetic_job(
    layer: LayerShape, mapping: LayerMapping, block: int, array: Array[int]
) -> tuple[LayerJob, list[int]]:
    """A layer with tensors of its own on an array, and the addresses of the samples' slots.

    Raises DesignError without a window.

    >>> from fluidnpu.dse import Mode
    >>> array = Array(t_r=64, t_p=4, t_c=8, weight_slots=1, in_words=8)
    >>> from fluidnpu.models import Window
    >>> window = Window(kernel=(1, 1), out=(4, 4), channels=8)
    >>> layer = LayerShape(name="conv", r=16, p=8, c=8, window=window)
    >>> synthetic_job(layer, LayerMapping(mode=Mode.NORMAL, batch=2, b_r=2), block=16, array=array)[1]
    [4294967296, 4294971392]
    """
    window = layer.window
    if window is None:
        raise DesignError(f"the exact model needs the window of every layer, and '{layer.name}' has none")
    high, wide = (
        (window.out[i] - 1) * window.stride[i] + (window.kernel[i] - 1) * window.dilation[i] + 1 for i in (0, 1)
    )
    word = array.word_bytes
    pixel, outputs = word * window.channels, word * layer.c * layer.groups
    across = window.out[1] if layer.behind is None else layer.behind.out[1]
    (rise, apart), pitch = window.out_step, outputs * across * window.out_step[1]
    # A residual of one word a pixel is a map of one channel.
    beside = (
        (word * across * window.out_step[1] * rise, word * apart)
        if layer.residual_spread
        else (pitch * rise, outputs * apart)
    )
    size = ceil_div(high * wide * pixel, 64) * 64
    out = ceil_div(layer.r * rise * apart * outputs, 64) * 64
    job = LayerJob(
        mode=mapping.mode,
        batch=mapping.batch,
        b_r=mapping.b_r,
        row_lanes=mapping.row_lanes,
        block=block,
        in_offset=0,
        in_row_bytes=wide * pixel,
        in_pixel_bytes=pixel,
        kernel_h=window.kernel[0],
        kernel_w=window.kernel[1],
        stride_h=window.stride[0],
        stride_w=window.stride[1],
        dilation_h=window.dilation[0],
        dilation_w=window.dilation[1],
        out_h=window.out[0],
        out_w=window.out[1],
        group_words=layer.c if mapping.pool else layer.p // (window.kernel[0] * window.kernel[1]),
        groups=layer.groups,
        columns=layer.c,
        out_offset=size,
        out_row_bytes=pitch * rise,
        out_pixel_bytes=outputs * apart,
        **_behind(layer, array),
        has_residual=int(layer.residual),
        residual_offset=size + out,
        residual_row_bytes=0 if layer.residual_fixed else beside[0],
        residual_pixel_bytes=0 if layer.residual_fixed else beside[1],
        residual_spread=int(layer.residual_spread),
        activation=USES.index(layer.activation),
        pieces=pieces(layer, array),
        weights=_WEIGHTS,
        descriptor=_DESCRIPTORS,
    )
    slot = ceil_div(size + 2 * out, _ALIGNMENT) * _ALIGNMENT
    return job, [_SLOTS + index * slot for index in range(mapping.batch)]


def _behind(layer: LayerShape, array: Array[int]) -> dict[str, int]:
    """The fields of a job that say what its outputs pass, a pool or a filter; none for neither."""
    if layer.merged:
        return {"merged": 1}
    if layer.behind is None:
        return {}
    (top, left), beats = layer.behind.padded, pooled_beats(layer.c, array)
    if layer.filtering is None:
        return {"pool_kernel": layer.behind.kernel, "pool_top": top, "pool_left": left, "pool_pitch": beats}
    assert layer.window is not None
    high, wide = layer.filtering.walk(layer.window.out)
    return {
        "filter_kernel": layer.filtering.kernel,
        "filter_stride": layer.filtering.stride,
        "filter_top": top,
        "filter_left": left,
        "filter_table": int(bool(layer.filtering.activation)),
        "filter_rows": filter_rows(layer, array),
        "walk_h": high,
        "walk_w": wide,
        "pool_pitch": beats,
    }


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One array as it fits, with the plan and the exact cycles of every layer at some batch sizes.

    `layers`: those of the workload, some merged by a filter. `plans[layer key][batch]`; `costs` alike.
    `joins[layer key]`: groups that the array computes as one, at every batch size.
    """

    fit: Fit
    layers: tuple[LayerShape, ...]
    plans: dict[LayerShape, dict[int, BatchPlan]]
    costs: dict[LayerShape, dict[int, LayerCost]]
    joins: dict[LayerShape, int]

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that were evaluated."""
        return tuple(sorted(next(iter(self.costs.values()))))

    def total(self, layers: Sequence[LayerShape], batch: int) -> int:
        """Cycles of all layers at a batch size, one job a stage."""
        return sum(self._each(layers, batch))

    def _each(self, layers: Sequence[LayerShape], batch: int) -> list[int]:
        return cycles_of_jobs(layers, self._costs(layers, batch))

    def _costs(self, layers: Sequence[LayerShape], batch: int) -> list[LayerCost]:
        return [self.costs[layer_key(layer)][batch] for layer in layers]

    def latency(self, layers: Sequence[LayerShape], clock_hz: int) -> LatencyTable:
        """Nanoseconds of every stage and batch size, as `latency_of` has them."""
        return latency_of(layers, [self._costs(layers, batch) for batch in self.batches], clock_hz)

    def layer_cycles(self, layers: Sequence[LayerShape]) -> tuple[tuple[int, ...], ...]:
        """Cycles of each layer at each batch size."""
        return tuple(zip(*(self._each(layers, batch) for batch in self.batches), strict=True))

    def fbcb(self, layers: Sequence[LayerShape]) -> Plans:
        """The plan of each layer at each batch size."""
        return tuple(tuple(self.plans[layer_key(layer)][batch] for batch in self.batches) for layer in layers)

    def layer_joins(self, layers: Sequence[LayerShape]) -> tuple[int, ...]:
        """Joined groups of each layer."""
        return tuple(self.joins[layer_key(layer)] for layer in layers)


def cycles_of_jobs(layers: Sequence[LayerShape], costs: Sequence[LayerCost]) -> list[int]:
    """Cycles of each layer: the first of a stage begins a job, the others come behind one of it."""
    cycles = [costs[0].lead + costs[0].run]
    for (before, layer), (ahead, cost) in zip(pairwise(layers), pairwise(costs), strict=True):
        cycles.append(cost.behind(ahead) if layer.stage == before.stage else cost.lead + cost.run)
    return cycles


def latency_of(layers: Sequence[LayerShape], costs: Sequence[Sequence[LayerCost]], clock_hz: int) -> LatencyTable:
    """Nanoseconds, rounded up, of every stage and batch size, never falling as the batch grows.

    `costs`: for each batch size those of each layer.
    """
    rows = []
    for stage in range(max(layer.stage for layer in layers) + 1):
        members = [index for index, layer in enumerate(layers) if layer.stage == stage]
        of_stage = [layers[index] for index in members]
        cycles = (sum(cycles_of_jobs(of_stage, [row[index] for index in members])) for row in costs)
        rows.append(tuple(ceil_div(n * 10**9, clock_hz) for n in accumulate(cycles, max)))
    return LatencyTable(ns=tuple(rows))


def merge_batches(first: Evaluation, second: Evaluation) -> Evaluation:
    """One array's evaluation at the batch sizes of both."""

    def merged(
        a: dict[LayerShape, dict[int, _T]], b: dict[LayerShape, dict[int, _T]]
    ) -> dict[LayerShape, dict[int, _T]]:
        return {key: a[key] | b[key] for key in a}

    return replace(first, plans=merged(first.plans, second.plans), costs=merged(first.costs, second.costs))


@lru_cache(maxsize=1 << 14)
def best_plan(
    layer: LayerShape, batch: int, machine: Machine, dram: DramModel, *, tries: int = TRIES, near: float = NEAR
) -> tuple[BatchPlan, LayerCost]:
    """The plan of fewest cycles among those of the best estimates, and its cost.

    First the best plan of each mapping, since the estimate errs more between two mappings than between two
    blocks; then `tries` more of the mapping that was best. `near`: a plan is let go if its lower bound is
    above that share of the best cycles. Raises DesignError where no row fits the buffer.
    """
    on = Candidates.of(machine, dram)
    ranked = ranked_plans(layer, machine, dram, batch)
    if ranked[0].cycles == inf:
        raise DesignError(
            too_many_pieces(layer, machine.array)
            or f"the windows of a row of layer '{layer.name}' must fit an input buffer of {machine.buffer_words} words"
        )

    firsts: dict[LayerMapping, RankedPlan] = {}
    for plan in ranked:
        firsts.setdefault(plan.mapping, plan)
    best, cost = ranked[0], _cost_of(ranked[0], layer, machine, dram)

    def race(plans: Iterable[RankedPlan]) -> None:
        nonlocal best, cost
        for plan in plans:
            bound = float(np.min(lower_bound(layer, plan.mapping, np.array(float(plan.block)), on)))
            if bound < near * cost.run:
                try:
                    other = _cost_of(plan, layer, machine, dram, limit=cost.lead + cost.run + SLACK)
                except TooLongError:
                    continue
                if other.run < cost.run:
                    best, cost = plan, other

    race(plan for mapping, plan in firsts.items() if mapping != ranked[0].mapping)
    race([plan for plan in ranked if plan.mapping == best.mapping][1 : tries + 1])
    return best.plan, cost


def _cost_of(plan: RankedPlan, layer: LayerShape, machine: Machine, dram: DramModel, limit: int = 1 << 40) -> LayerCost:
    """The exact cost of a plan. Raises TooLongError beyond `limit` cycles."""
    job, slots = synthetic_job(layer, plan.mapping, plan.block, machine.array)
    return layer_cost(job, slots, machine, dram, limit=limit)


@lru_cache(maxsize=1 << 14)
def best_join(layer: LayerShape, batch: int, machine: Machine, dram: DramModel) -> int:
    """The number of a layer's groups that takes the fewest cycles computed as one, at a batch size.

    The estimate chooses `JOINS` numbers, the exact model one of them. A descriptor holds one number for all
    batch sizes, so a search asks for the smallest that it weighs.
    """
    counts = joins(layer, machine.array)
    if len(counts) == 1:
        return counts[0]
    ranked = sorted(counts, key=lambda count: estimated_plan(layer.joined(count), machine, dram, batch)[0])
    fitting = [n for n in ranked if estimated_plan(layer.joined(n), machine, dram, batch)[0] < inf][:JOINS] or [1]
    return min(fitting, key=lambda count: best_plan(layer.joined(count), batch, machine, dram)[1].run)


def merged_pairs(question: Question, machine: Machine) -> tuple[int, ...]:
    """The producers of the pairs that take fewer cycles merged than one layer after another.

    A pair is merged at every batch size or at none, so cycles of batch b count w_b / b times.
    """
    weights = tuple((batch, question.batch_weights[batch - 1] / batch) for batch in question.batches)
    layers, chosen = question.workload.layers, []
    for pair in question.pairs:
        merged = layer_key(replace(layers[pair.producer], filtering=pair.filtering))
        apart = layer_key(layers[pair.producer]), layer_key(layers[pair.depthwise])
        if _pays(merged, apart, weights, machine, question.dram):
            chosen.append(pair.producer)
    return tuple(chosen)


@lru_cache(maxsize=1 << 12)
def _pays(
    merged: LayerShape,
    apart: tuple[LayerShape, LayerShape],
    weights: tuple[tuple[int, float], ...],
    machine: Machine,
    dram: DramModel,
) -> bool:
    """Tell if a pair takes fewer cycles merged: those of the exact model at the smallest batch size, from
    which the estimate leads to others.

    The layers on their own are counted only where their lower bound does not decide.
    """
    least = min(batch for batch, _ in weights)

    def weighed(layer: LayerShape) -> float:
        joined = layer.joined(best_join(layer, least, machine, dram))
        estimates = {batch: estimated_plan(joined, machine, dram, batch)[0] for batch, _ in weights}
        if inf in estimates.values():
            return inf
        counted = best_plan(joined, least, machine, dram)[1].run
        return sum(weight * counted * estimates[batch] / estimates[least] for batch, weight in weights)

    # Behind a merged layer, which takes no time, the next one's plan hides nowhere.
    together = weighed(merged) + sum(weight * PLAN_CYCLES for _, weight in weights)
    if together == inf:
        return False
    on, batches = Candidates.of(machine, dram), [batch for batch, _ in weights]
    least_apart = np.sum([_bounds_of_layer(layer, on, batches, near=True)[:, 0] for layer in apart], axis=0)
    if sum(weight * bound for (_, weight), bound in zip(weights, least_apart, strict=True)) >= together:
        return True
    return together < sum(map(weighed, apart))


def evaluate_array(question: Question, fitted: Fit, batches: Sequence[int]) -> Evaluation:
    """The best plan of every layer at each of `batches` on one array, by the exact model, in two threads.

    Pairs of layers are merged where that pays.
    """
    machine = Machine.on(question.target, fitted.array, fitted.buffer_words)
    layers = question.workload.filtered(merged_pairs(question, machine))
    keys = list(dict.fromkeys(layer_key(layer) for layer in layers))
    least = min(question.batches)
    joined = {key: best_join(key, least, machine, question.dram) for key in keys}
    tasks = [(key, batch) for batch in sorted(batches, reverse=True) for key in keys]

    def solve(task: tuple[LayerShape, int]) -> tuple[BatchPlan, LayerCost]:
        key, batch = task
        return best_plan(key.joined(joined[key]), batch, machine, question.dram)

    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        solved = dict(zip(tasks, pool.map(solve, tasks), strict=True))
    return Evaluation(
        fit=fitted,
        layers=layers,
        plans={key: {batch: solved[key, batch][0] for batch in batches} for key in keys},
        costs={key: {batch: solved[key, batch][1] for batch in batches} for key in keys},
        joins=joined,
    )


def lower_bounds(
    question: Question,
    space: DesignSpace,
    batches: Sequence[int],
    progress: Progress | None = None,
    *,
    near: bool = True,
) -> Floats:
    """Lower bound of the cycles of all layers, shape (batches, points): each layer at its best plan.

    Without `near` no bound is greater than with it, and all take a tenth of the time: a layer then has one
    bound for blocks of any size.
    """
    points_at_once = POINTS if near else max(1, len(space))
    parts = -(-len(space) // points_at_once)
    rows = []
    for part in range(parts):

        def step(done: int, total: int, part: int = part) -> None:
            if progress is not None:
                progress(part * total + done, parts * total)

        points = space.only(np.arange(part * points_at_once, min(len(space), (part + 1) * points_at_once)))
        rows.append(_bounds_of_some(question, points, batches, step, near))
    return np.concatenate(rows, axis=1) if rows else np.zeros((len(batches), 0))


def _bounds_of_some(
    question: Question, space: DesignSpace, batches: Sequence[int], progress: Progress, near: bool
) -> Floats:
    """The bounds of one chunk of points, small enough for the processor's cache."""
    target = question.target
    t_r, t_p, t_c = (axis.astype(np.float64) for axis in (space.t_r, space.t_p, space.t_c))
    on = Candidates(
        array=Array.on(
            target.board,
            target.memory,
            t_r=t_r,
            t_p=t_p,
            t_c=t_c,
            lanes=target.lanes,
            word_bits=target.word_bits,
        ),
        port_words=target.ports.port_bits // target.word_bits,
        stripes=target.ports.stripes,
        hls=target.core == "hls",
        dram=question.dram,
    )
    per_layer = [_Choice(layer_key(layer)) for layer in question.workload.layers]
    for pair in question.pairs:
        apart = per_layer[pair.depthwise].layer
        per_layer[pair.producer] = replace(per_layer[pair.producer], filtering=pair.filtering, depthwise=apart)
    behind = {pair.depthwise for pair in question.pairs}
    standing = [None if index in behind else choice for index, choice in enumerate(per_layer)]
    return question.weighed(lambda choices: _bounds_of(choices, on, batches, progress, near), standing)


@dataclass(frozen=True)
class _Choice:
    """A layer, or a pair of layers that may be merged."""

    layer: LayerShape
    filtering: Filtering | None = None
    depthwise: LayerShape | None = None

    def bounds(self, on: Candidates, batches: Sequence[int], near: bool) -> Floats:
        """Lower bound of the cycles, shape (batches, points).

        The bound of a depthwise layer on its own takes most of the time, and it is seldom the better choice.
        So it is a loose one, or where all are loose only of what moves, and of arrays where it has a chance.
        """
        bounds = _bounds_of_layer(self.layer, on, batches, near)
        if self.depthwise is None:
            return bounds
        merged = _bounds_of_layer(replace(self.layer, filtering=self.filtering), on, batches, near) + LEAST_PLAN_CYCLES
        open_ = np.any(bounds < merged, axis=0)
        if open_.any():
            if near:
                opened = replace(on, array=cast(Array[Floats], on.array.only(open_)))
                bounds[:, open_] += _bounds_of_layer(self.depthwise, opened, batches, near=False)
            else:
                bounds += np.array([[moving_bound(self.depthwise, batch, on)] for batch in batches])
        return np.asarray(np.minimum(bounds, merged))


def _bounds_of(
    choices: Sequence[_Choice | None], on: Candidates, batches: Sequence[int], progress: Progress, near: bool
) -> Floats:
    """Lower bound of the cycles of some layers, shape (batches, points); None stands behind its producer."""
    counts: dict[_Choice, int] = {}
    for choice in choices:
        if choice is not None:
            counts[choice] = counts.get(choice, 0) + 1
    total = np.zeros((len(batches), len(on.array.t_p)))
    for done, (choice, times) in enumerate(counts.items()):
        total += times * choice.bounds(on, batches, near)
        progress(done + 1, len(counts))
    return total


def _bounds_of_layer(layer: LayerShape, on: Candidates, batches: Sequence[int], near: bool) -> Floats:
    """Lower bound of the cycles of a layer with any of its groups joined, shape (batches, points)."""
    lowest = np.full((len(batches), len(on.array.t_p)), inf)
    for count in joins(layer, on.array):
        able = joinable(layer, on.array, count)
        chosen = on if able.all() else replace(on, array=cast(Array[Floats], on.array.only(able)))
        joined = layer.joined(count)
        for row, batch in enumerate(batches):
            bounds = [_bound_of(joined, mapping, chosen, near) for mapping in mappings(joined, batch)]
            lowest[row, able] = np.minimum(lowest[row, able], np.min(bounds, axis=0))
    return lowest


def _bound_of(layer: LayerShape, mapping: LayerMapping, on: Candidates, near: bool) -> Floats:
    """Lower bound of a layer's cycles under one mapping in any block, for every array."""
    sizes: Floats = np.array(block_sizes(layer, mapping), float)
    sizes = sizes if near else sizes[-1:]
    least: Floats = np.concatenate([[1.0], sizes[:-1] + 1])
    bounds = lower_bound(layer, mapping, sizes[:, None], on, least[:, None])
    return np.asarray(bounds.min(axis=0)) if bounds.ndim == 2 else bounds


def by_bound(
    question: Question, space: DesignSpace, progress: Progress | None = None
) -> Iterator[tuple[int, Floats, float]]:
    """Points of a space with their bounds (batches, 1) and what these allow at most, the best first.

    Tight bounds are computed as they are needed: a point is yielded once its tight bound beats every loose
    bound left. So the order is that of all tight bounds.
    """
    for _, index, bounds, value in all_by_bound([(question, space)], progress):
        yield index, bounds, value


def all_by_bound(
    grounds: Sequence[tuple[Question, DesignSpace]], progress: Progress | None = None
) -> Iterator[tuple[int, int, Floats, float]]:
    """As `by_bound`, over the spaces of several questions of one objective: which of them comes first.

    Bounds are (batches, 1).
    """
    objectives = [objective_of(question) for question, _ in grounds]
    loose = np.concatenate(
        [
            objective(lower_bounds(question, space, question.batches, progress, near=False))
            for objective, (question, space) in zip(objectives, grounds, strict=True)
        ]
    )
    if progress is not None:
        progress(0, _race_steps(grounds[0][0]))  # the near bounds and the first array take long
    ground = np.repeat(np.arange(len(grounds)), [len(space) for _, space in grounds])
    within = np.concatenate([np.arange(len(space)) for _, space in grounds])
    waiting: list[tuple[float, int, int, Floats]] = []
    order = np.argsort(-loose, kind="stable")
    for begin in range(0, len(order), POINTS):
        chunk = order[begin : begin + POINTS]
        while waiting and -waiting[0][0] > loose[chunk[0]]:
            yield _best_of(waiting)
        for which in np.unique(ground[chunk]).tolist():
            (question, space), points = grounds[which], within[chunk[ground[chunk] == which]]
            bounds = lower_bounds(question, space.only(points), question.batches)
            for column, (index, value) in enumerate(zip(points, objectives[which](bounds), strict=True)):
                heapq.heappush(waiting, (-float(value), which, int(index), bounds[:, [column]]))
    while waiting:
        yield _best_of(waiting)


def _best_of(waiting: list[tuple[float, int, int, Floats]]) -> tuple[int, int, Floats, float]:
    value, which, index, bounds = heapq.heappop(waiting)
    return which, index, bounds, -value


@dataclass(frozen=True, kw_only=True)
class ExactRanking:
    """The best array of a search, its distance from the optimum, and the number of arrays looked at.

    `objective`: GOP/s weighted over batch sizes, or milliseconds at b = 1 when latency was asked for.
    `gap_pct`: per cent by which the optimum can be better at most. `trace`: of each array in turn its bound
    and its result. `question`: that of the winner's number of lanes.
    """

    question: Question
    best: Evaluation
    objective: float
    bounded: int
    evaluated: int
    gap_pct: float
    trace: tuple[tuple[Point, float, float], ...] = field(repr=False, default=())


def search_exact(question: Question, progress: Progress | None = None) -> ExactRanking:
    """The array of most throughput, or of least latency at b = 1, under the exact model.

    Throughput is the sum over b of w_b GOP/s. Every batch size of the winner is evaluated, also those that
    weigh nothing. `progress` goes over the layers that are bounded, then from 0 over the batch sizes of the
    arrays that are counted. Raises FitError where nothing can be built.
    """
    grounds = _grounds(question)
    total = sum(len(space) for _, space in grounds)
    race = _Race(question, objective_of(question), progress)
    for rank, (which, index, bounds, value) in enumerate(all_by_bound(grounds, progress)):
        if not rank:
            _log.info("%d arrays can be built; none can be better than %.4g", total, value)
        if not race.open_to(value):
            break
        asked, space = grounds[which]
        race.enter(asked, space[index], bounds, value)
    return race.ranking(total)


def _race_steps(question: Question) -> int:
    """Batch sizes of all arrays that the budget allows to count."""
    return question.most_evaluations * len(question.batches)


def _grounds(question: Question) -> list[tuple[Question, DesignSpace]]:
    """The arrays that can be built with every number of lanes; raises where none can with the first."""
    first, *others = question.of_lanes
    grounds = [(first, _buildable_space(first))]
    for other in others:
        space = buildable(target_space(other.target), other.target).space
        if len(space):
            grounds.append((other, space))
    return grounds


def _buildable_space(question: Question) -> DesignSpace:
    least = least_point(question.target)
    space = buildable(target_space(question.target), question.target).space
    if not len(space):
        fit(least, question.target)  # raises, naming what even the smallest design lacks
    check_windows(question, least)
    return space


class _Race:
    """Arrays in the order of their bounds, and the best of those evaluated so far."""

    def __init__(self, question: Question, objective: Callable[[Floats], Floats], progress: Progress | None) -> None:
        self.question, self.objective, self.progress = question, objective, progress
        self.best: Evaluation | None = None
        self.winner = question  # with the lanes of the best
        self.value, self.unseen = -inf, -inf  # of the best, and the bound of the first array that was not evaluated
        self.trace: list[tuple[Point, float, float]] = []
        self.why_not: FitError | None = None

    def open_to(self, bound: float) -> bool:
        """True while an array of that bound may win and the budget is not spent."""
        if bound <= self.value:
            return False
        if len(self.trace) == self.question.most_evaluations:
            self.unseen = bound
            return False
        return True

    def enter(self, asked: Question, point: Point, bounds: Floats, bound: float) -> None:
        """Evaluate an array batch by batch, until it cannot win even with bounds for all larger batches."""
        try:
            fitted = share_memory(asked, point).fit
        except FitError as error:
            self.why_not = self.why_not or error
            return
        cycles, evaluation, value = bounds.copy(), None, bound
        for row, batch in enumerate(asked.batches):
            more = evaluate_array(asked, fitted, [batch])
            evaluation = more if evaluation is None else merge_batches(evaluation, more)
            cycles[row] = asked.weighed(partial(evaluation.total, batch=batch), evaluation.layers)
            value = float(self.objective(cycles)[0])
            if value <= self.value:
                break
            self._report(len(self.trace) * len(asked.batches) + row + 1)
        self.trace.append((replace(point, t_r=fitted.t_r), bound, value))
        _log.info("array %d: %s reaches %.4g of at most %.4g", len(self.trace), self.trace[-1][0], value, bound)
        self._report(len(self.trace) * len(asked.batches))
        if value > self.value:
            self.best, self.value, self.winner = evaluation, value, asked

    def _report(self, steps: int) -> None:
        if self.progress is not None:
            self.progress(steps, _race_steps(self.question))

    def ranking(self, bounded: int) -> ExactRanking:
        """The winner; raises the first FitError when no array had a share of RAM that serves the workload."""
        if self.best is None:
            assert self.why_not is not None
            raise self.why_not
        rest = [b for b in range(1, self.question.b_max + 1) if b not in self.best.batches]
        best = merge_batches(self.best, evaluate_array(self.winner, self.best.fit, rest)) if rest else self.best
        return ExactRanking(
            question=self.winner,
            best=_with_own_room(self.winner, best),
            objective=abs(self.value),
            bounded=bounded,
            evaluated=len(self.trace),
            gap_pct=self._gap_pct(),
            trace=tuple((point, abs(bound), abs(value)) for point, bound, value in self.trace),
        )

    def _gap_pct(self) -> float:
        if self.unseen == -inf:
            return 0.0
        latency = self.question.objective == "latency"
        return 100 * (self.value / self.unseen if latency else self.unseen / self.value) - 100


def _with_own_room(question: Question, best: Evaluation) -> Evaluation:
    """The evaluation with the primitives of its own filter, or of none.

    Arrays are fitted with room for all pairs, and an NPU has room for those that are merged.
    """
    target = replace(question.target, filterings=filterings(best.layers))
    if target == question.target:
        return best
    fitted = fit(best.fit.point, target, buffer_words=best.fit.buffer_words)
    return replace(best, fit=replace(fitted, array=best.fit.array))  # whose chains may be in pieces that are counted


def objective_of(question: Question) -> Callable[[Floats], Floats]:
    """The number to maximise, of cycles (batches, points): GOP/s over batch sizes, or time at b = 1."""
    clock_hz, macs, weights = question.board.clock_hz, question.macs, question.batch_weights
    if question.objective == "latency":
        return lambda cycles: -1e3 * cycles[0] / clock_hz

    def gops(cycles: Floats) -> Floats:
        rows = zip(question.batches, cycles, strict=True)
        return np.asarray(sum(weights[b - 1] * 2e-9 * b * macs * clock_hz / row for b, row in rows))

    return gops
