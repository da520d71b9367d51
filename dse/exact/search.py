"""Search with the exact model: bound every array that can be built from below, count the cycles of those that may still win, plans chosen on the way.

The bound (`exact_bound`) is cheap and taken for the whole space; arrays are counted best bound first, small batches before large ones, each until it
cannot win any more, and until none is left that could, or `evaluations` are spent: then `gap_pct` says how much better than the one found the best of
the others could be at most. Where tensors lie is not known before a network is compiled; here each layer reads and writes tensors of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import Board
from fluidnpu.models import LayerShape, Workload

from ..design import BatchPlan, DesignError, LatencyTable, Mode
from ..hardware.dram import DramModel
from ..hardware.row_buffer import WORD_BYTES, needed_bytes
from ..paper.model import Point
from ..paper.search import Progress, Space, check_b_max, check_weights, legal_space
from ..resources.buildable import buildable
from ..resources.fit import CORES, MIN_T_C, MIN_T_P, Fit, FitError, fit, weight_slots_for
from .bound import Arrays, Floats, Way, block_sizes, floor_cycles, ways
from .estimate import Path, estimated_plan, layer_key
from .model import LayerJob, Machine, TooLongError, job_cycles
from .sharing import machine_on, share_memory

TRIES = 3  # plans of a layer that are counted, best bound first
NEAR = 0.99  # a plan whose bound promises less than a hundredth more is not counted
EVALUATIONS = 24  # arrays that are counted, at the most: seconds each for a large network, unless a few batch sizes show that it cannot win
_ALIGNMENT = 4096
_WEIGHTS, _DESCRIPTORS, _SLOTS = 1 << 30, 1 << 31, 1 << 32
JOB_CYCLES = 32  # set-up of a job: one a stage


def placed_job(layer: LayerShape, plan: BatchPlan, mode: Mode, batch: int, block: int) -> tuple[LayerJob, list[int]]:
    """A layer with tensors of its own, and the addresses of the samples' slots. DesignError without a window.

    >>> from fluidnpu.models import Window
    >>> window = Window(kernel=(1, 1), out=(4, 4), channels=8)
    >>> layer = LayerShape(name="conv", r=16, p=8, c=8, window=window)
    >>> placed_job(layer, BatchPlan(b_r=2), Mode.NORMAL, 2, 16)[1]
    [4294967296, 4294971392]
    """
    window = layer.window
    if window is None:
        raise DesignError(f"the exact model needs the window of every layer, and '{layer.name}' has none")
    high, wide = (
        (window.out[i] - 1) * window.stride[i] + (window.kernel[i] - 1) * window.dilation[i] + 1 for i in (0, 1)
    )
    pixel, outputs = 2 * window.channels, 2 * layer.c * layer.groups
    pool = mode >= Mode.MAX_POOL
    size = -(-high * wide * pixel // 64) * 64
    out = -(-layer.r * outputs // 64) * 64
    job = LayerJob(
        mode=mode, batch=batch, b_r=plan.b_r, row_lanes=plan.row_lanes, block=block, in_offset=0, in_row_bytes=wide * pixel,
        in_pixel_bytes=pixel, kernel_h=window.kernel[0], kernel_w=window.kernel[1], stride_h=window.stride[0],
        stride_w=window.stride[1], dilation_h=window.dilation[0], dilation_w=window.dilation[1], out_h=window.out[0],
        out_w=window.out[1], group_words=window.channels if pool else layer.p // (window.kernel[0] * window.kernel[1]),
        groups=layer.groups, columns=layer.c, out_offset=size, out_row_bytes=outputs * window.out[1], out_pixel_bytes=outputs,
        has_residual=int(layer.residual), residual_offset=size + out, residual_row_bytes=outputs * window.out[1],
        residual_pixel_bytes=outputs, weights=_WEIGHTS, descriptor=_DESCRIPTORS,
    )  # fmt: skip
    slot = -(-(size + 2 * out) // _ALIGNMENT) * _ALIGNMENT
    return job, [_SLOTS + index * slot for index in range(batch)]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One array as it fits, with its plans and cycles. `plans[layer key][batch - 1]`; `cycles` alike, without the set-up of a job."""

    point: Point
    fit: Fit
    machine: Machine
    plans: dict[LayerShape, tuple[BatchPlan, ...]]
    cycles: dict[LayerShape, tuple[int, ...]]

    def total(self, layers: Sequence[LayerShape], batch: int) -> int:
        """Cycles of all layers at a batch size, one job a stage."""
        stages = len({layer.stage for layer in layers})
        return stages * JOB_CYCLES + sum(self.cycles[layer_key(layer)][batch - 1] for layer in layers)

    def joined(self, other: Counted) -> Counted:
        """With the batch sizes that the other one counted."""

        def merge(mine: tuple[Any, ...], theirs: tuple[Any, ...], told: tuple[int, ...]) -> tuple[Any, ...]:
            size = max(len(mine), len(theirs))
            return tuple(mine[i] if i < len(told) and told[i] else theirs[i] for i in range(size))

        return replace(
            self,
            plans={key: merge(self.plans[key], other.plans[key], self.cycles[key]) for key in self.plans},
            cycles={key: merge(self.cycles[key], other.cycles[key], self.cycles[key]) for key in self.cycles},
        )

    def latency(self, layers: Sequence[LayerShape], clock_hz: int) -> LatencyTable:
        """Nanoseconds, rounded up, of every stage and batch size, never falling as the batch grows."""
        rows = []
        for stage in range(max(layer.stage for layer in layers) + 1):
            own = [layer for layer in layers if layer.stage == stage]
            cycles = [self.total(own, b + 1) for b in range(len(self.cycles[layer_key(own[0])]))]
            rows.append(tuple(-(-n * 10**9 // clock_hz) for n in accumulate(cycles, max)))
        return LatencyTable(ns=tuple(rows))


def best_cycles(
    layer: LayerShape,
    batch: int,
    machine: Machine,
    t_r: int,
    dram: DramModel,
    tries: int = TRIES,
    near: float = NEAR,
) -> tuple[BatchPlan, int]:
    """The plan of fewest cycles among those of the best bounds, and its cycles. `near`: a bound above that share of the best cycles is let go."""
    on = _arrays(
        np.array([t_r]),
        np.array([machine.t_p]),
        np.array([machine.t_c]),
        np.array([machine.weight_slots]),
        machine,
        dram,
    )
    found: list[tuple[float, int, Way, int]] = []
    for order, way in enumerate(ways(layer, batch)):
        sizes = [
            size
            for size in block_sizes(layer, way, batch)
            if size <= t_r and _held(layer, way, batch, size) <= WORD_BYTES * machine.buffer_words
        ]
        floors = floor_cycles(layer, batch, way, np.array(sizes, float), on)
        found += [(float(f), order, way, size) for f, size in zip(floors + np.zeros(len(sizes)), sizes, strict=True)]
    found.sort(key=lambda one: (one[0], one[1], one[3]))
    best: tuple[BatchPlan, int] | None = None
    for floor, _, way, block in _estimated(layer, batch, machine, t_r, dram) + found[:tries]:
        plan = way.plan(block)
        if best is not None and (floor >= near * best[1] or plan == best[0]):
            continue
        job, slots = placed_job(layer, plan, way.mode, batch, block)
        limit = 1 << 40 if best is None else best[1] + JOB_CYCLES - 1  # a tie changes nothing
        try:
            best = plan, job_cycles([job], slots, machine, dram, limit=limit)[0].cycles - JOB_CYCLES
        except TooLongError:
            continue
    if best is None:
        raise DesignError(
            f"the windows of a row of layer '{layer.name}' must fit an input buffer of {machine.buffer_words} words"
        )
    return best


def _held(layer: LayerShape, way: Way, batch: int, block: int) -> int:
    return needed_bytes(layer, batch=batch, block=block, row_lanes=way.row_lanes, b_r=way.b_r)


def _estimated(
    layer: LayerShape, batch: int, machine: Machine, t_r: int, dram: DramModel
) -> list[tuple[float, int, Way, int]]:
    """The plan that `blocks` estimates to be the fastest, to begin with."""
    assert layer.window is not None
    path = Path.of(machine, t_r, dram)
    cycles, plan = estimated_plan(layer, layer.window, path, batch)
    return (
        []
        if cycles == inf
        else [(0.0, 0, way, plan.block) for way in ways(layer, batch) if way.plan(plan.block) == plan]
    )


def count(
    workload: Workload, fitted: Fit, machine: Machine, dram: DramModel, batches: Sequence[int], tries: int = TRIES
) -> Counted:
    """Plans and cycles of every layer at 1..b_max (zero where a batch size is not asked for); two layers at a time on two cores."""
    keys = list(dict.fromkeys(layer_key(layer) for layer in workload.layers))
    tasks = [(key, batch) for batch in sorted(batches, reverse=True) for key in keys]

    def one(task: tuple[LayerShape, int]) -> tuple[BatchPlan, int]:
        return best_cycles(task[0], task[1], machine, fitted.t_r, dram, tries)

    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        found = dict(zip(tasks, pool.map(one, tasks), strict=True))
    every = range(1, max(batches) + 1)
    nothing = BatchPlan(), 0
    return Counted(
        point=Point(t_r=fitted.t_r, t_p=machine.t_p, t_c=machine.t_c),
        fit=fitted,
        machine=machine,
        plans={key: tuple(found.get((key, b), nothing)[0] for b in every) for key in keys},
        cycles={key: tuple(found.get((key, b), nothing)[1] for b in every) for key in keys},
    )


def _arrays(
    t_r: npt.ArrayLike, t_p: npt.ArrayLike, t_c: npt.ArrayLike, slots: npt.ArrayLike, machine: Machine, dram: DramModel
) -> Arrays:
    numbers = {
        name: np.asarray(value, float)
        for name, value in (("t_r", t_r), ("t_p", t_p), ("t_c", t_c), ("weight_slots", slots))
    }
    return Arrays(
        **numbers, out_words=machine.out_words, port_words=machine.port_words, stripes=machine.stripes, dram=dram
    )


def floors(
    workload: Workload,
    space: Space,
    machine: Machine,
    dram: DramModel,
    batches: Sequence[int],
    progress: Progress | None = None,
) -> Floats:
    """Floor under the cycles of all layers, shape (batches, points): for each layer the least over modes and blocks."""
    slots = np.array([weight_slots_for(int(t_p), 8 * machine.port_bytes) for t_p in space.t_p])
    on = _arrays(space.t_r, space.t_p, space.t_c, slots, machine, dram)
    counts: dict[LayerShape, int] = {}
    for layer in workload.layers:
        counts[layer_key(layer)] = counts.get(layer_key(layer), 0) + 1
    total = np.full((len(batches), len(space)), float(JOB_CYCLES))
    for done, (layer, times) in enumerate(counts.items()):
        for row, batch in enumerate(batches):
            lowest = np.full(len(space), inf)
            for way in ways(layer, batch):
                for least, most in pairwise((0, *block_sizes(layer, way, batch))):
                    found = floor_cycles(layer, batch, way, np.array(float(most)), on, np.array(least + 1.0))
                    np.minimum(lowest, found, out=lowest)
            total[row] += times * lowest
        if progress is not None:
            progress(done + 1, len(counts))
    return total


@dataclass(frozen=True, kw_only=True)
class ExactRanking:
    """What a search found: the best array, how many were bounded and counted, and how far from the optimum it can be at most.

    `objective`: GOP/s weighted over batch sizes, or milliseconds at b = 1 when `latency` was asked for.
    `trace`: of each array in turn its bound and what counting left of it.
    """

    best: Counted
    objective: float
    bounded: int
    evaluated: int
    gap_pct: float
    trace: tuple[tuple[Point, float, float], ...] = field(repr=False, default=())


def search_exact(
    workload: Workload,
    board: Board,
    *,
    b_max: int = 8,
    weights: Sequence[float] | None = None,
    latency: bool = False,
    memory: str | None = None,
    core: str = CORES[0],
    dram: DramModel | None = None,
    evaluations: int = EVALUATIONS,
    progress: Progress | None = None,
) -> ExactRanking:
    """The array of most throughput (sum over b of w_b GOP/s), or of least latency at b = 1, under the exact model.

    `memory`: the board's first by default; `core`: whose accumulators must fit; `dram`: what stands behind the ports, if not what `DramModel.of`
    says. Raises DesignError where a layer has no window, FitError where nothing can be built.
    """
    check_b_max(b_max)
    w = check_weights(weights, b_max)
    check_windows(workload)
    if evaluations < 1:
        raise DesignError(f"evaluations must be at least 1, not {evaluations}")
    dram = DramModel.of(board, memory) if dram is None else dram
    on: dict[str, Any] = {"b_max": b_max, "memory": memory, "core": core}
    fbcb_words = len(workload.layers) * b_max
    space = buildable(legal_space(board), board, fbcb_words=fbcb_words, **on).space
    if not len(space):  # raises, naming what even the smallest design lacks
        fit(Point(t_r=2, t_p=MIN_T_P, t_c=MIN_T_C), board, fbcb_words=fbcb_words, **on)
    machine = machine_on(board, memory, Point(t_r=2, t_p=MIN_T_P, t_c=MIN_T_C))
    batches = [1] if latency else [b for b in range(1, b_max + 1) if w[b - 1]]
    bound = floors(workload, space, machine, dram, batches, progress)
    worth = _objective(workload, board, batches, w, latency)
    values = worth(bound)
    best: Counted | None = None
    why_not: FitError | None = None
    best_value, left = -inf, -inf
    trace: list[tuple[Point, float, float]] = []
    for index in np.argsort(-values, kind="stable"):
        if values[index] <= best_value:
            break
        if len(trace) == evaluations:
            left = float(values[index])
            break
        point = space[int(index)]
        try:
            fitted, _ = share_memory(workload, board, point, **on)
        except FitError as error:
            why_not = why_not or error
            continue
        own = machine_on(board, memory, point, fitted.buffer_words)
        cycles, counted = bound[:, [index]].copy(), None
        for row, batch in enumerate(batches):
            one = count(workload, fitted, own, dram, [batch])
            counted = one if counted is None else counted.joined(one)
            cycles[row] = counted.total(workload.layers, batch)
            if (value := float(worth(cycles)[0])) <= best_value:
                break  # not even if all larger batches took no longer than their bound
        trace.append((replace(point, t_r=fitted.t_r), float(values[index]), value))
        if progress is not None:
            progress(len(trace), evaluations)
        if value > best_value:
            best, best_value = counted, value
    if best is None:
        assert why_not is not None
        raise why_not
    gap = 0.0 if left == -inf else 100 * (best_value / left if latency else left / best_value) - 100
    return ExactRanking(
        best=best, objective=abs(best_value), bounded=len(space), evaluated=len(trace), gap_pct=gap,
        trace=tuple((point, abs(a), abs(b)) for point, a, b in trace),
    )  # fmt: skip


def check_windows(workload: Workload) -> None:
    """Raises DesignError unless the window of every layer is known: a layer table has none."""
    lost = next((layer.name for layer in workload.layers if layer.window is None), None)
    if lost is not None:
        raise DesignError(
            f"the exact model needs the window of every layer, and '{lost}' has none: give the network as ONNX"
        )
    if not workload.macs:
        raise DesignError(f"'{workload.name}' must have at least one GEMM layer to search for, and it has none")


def _objective(
    workload: Workload, board: Board, batches: Sequence[int], weights: Sequence[float], latency: bool
) -> Callable[[Floats], Floats]:
    """From cycles (batches, points) to what is to be large: GOP/s over batch sizes, or less time at b = 1."""
    if latency:
        return lambda cycles: -1e3 * cycles[0] / board.clock_hz

    def gops(cycles: Floats) -> Floats:
        return np.asarray(
            sum(
                weights[b - 1] * 2e-9 * b * workload.macs * board.clock_hz / row
                for b, row in zip(batches, cycles, strict=True)
            )
        )

    return gops
