"""From a workload and a board to a published point and a design that can be built: the search, the geometry check and the difference between them.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import LayerShape, Workload
>>> work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=288, c=64),))
>>> found = explore(work, load_board("zc706"), b_max=2)
>>> found.published.dsp <= 900 and found.fit.ramb18 <= 1090
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from fluidnpu.boards import Board
from fluidnpu.models import Kind, Workload

from ..design import Design, DesignError, Stack, input_words
from ..exact.estimate import layer_key
from ..exact.search import EVALUATIONS, check_windows, count, search_exact
from ..exact.sharing import Plans, share_memory
from ..hardware.dram import DramModel
from ..hardware.roofline import awake_words, layer_words
from ..paper.latency import POOL_NOTE, stage_latency
from ..paper.model import Point, gops, layer_ticks, memory_words, total_ticks
from ..paper.plans import plan_all, published_plan
from ..paper.search import Progress, Ranking, check_b_max, search
from ..resources.fit import CORES, LOGIC_NOTE, MIN_T_C, MIN_T_P, Fit, FitError, fit, stream_words, weight_slots_for
from .front import Front, front

OBJECTIVES = ("throughput", "latency")  # the sum of w_b GOP/s over batch sizes, or time at b = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """What `fluidnpu dse` answers: the published optimum, and the design it becomes once RAM primitives are counted.

    `published_gops[b - 1]` are GOP/s of the `paper` model at batch b, `fitted_gops` those of the design's own model.
    `layer_cycles`: of every layer at every batch size, where the `exact` model counted them. `objective`: what was searched for, `core`: for which
    core. `notes` are sentences for the reader.
    """

    workload: Workload
    board: Board
    b_max: int
    ranking: Ranking
    published_gops: tuple[float, ...]
    fitted_gops: tuple[float, ...]
    design: Design
    fit: Fit
    notes: tuple[str, ...]
    objective: str = OBJECTIVES[0]
    core: str = CORES[0]
    layer_cycles: tuple[tuple[int, ...], ...] | None = None

    @property
    def published(self) -> Point:
        """The optimum of the `paper` model."""
        return self.ranking.best

    @property
    def difference_pct(self) -> tuple[float, ...]:
        """How far the built design lies from the published point at each batch size, in per cent of its GOP/s; negative is slower."""
        return tuple(100 * (new / old - 1) for new, old in zip(self.fitted_gops, self.published_gops, strict=True))

    @property
    def published_resources(self) -> dict[str, dict[str, float]]:
        """DSPs and memory bits of the published point as Table I counts them: used, available, percent."""
        return {
            "dsp": _share(self.published.dsp, self.board.dsp),
            "memory_bits": _share(self.published.memory_bits, self.board.paper_memory_bits),
        }

    @property
    def fitted_resources(self) -> dict[str, dict[str, float]]:
        """Primitives of the design: used, available, percent; LUTs and flip-flops are estimates and have `low` and `high` too."""
        found = {"dsp": _share(self.fit.dsp, self.board.dsp), "ramb18": _share(self.fit.ramb18, self.board.ramb18)}
        if self.board.uram288:
            found["uram288"] = _share(self.fit.uram288, self.board.uram288)
        for name, need, available in (("lut", self.fit.lut, self.board.lut), ("ff", self.fit.ff, self.board.ff)):
            found[name] = _share(need.value, available) | {"low": need.low, "high": need.high}
        return found

    @property
    def built(self) -> Point:
        """The point that the built design is."""
        return Point(t_r=self.design.t_r, t_p=self.design.t_p, t_c=self.design.t_c)

    def layer_gops(self, layer: int) -> tuple[float, ...]:
        """GOP/s of the built design on one layer at each batch size; 0 for pools."""
        shape, words = self.workload.layers[layer], self.design.out_words
        if not shape.macs:
            return (0.0,) * self.b_max
        if self.layer_cycles is not None:
            every = enumerate(self.layer_cycles[layer], 1)
            return tuple(2e-9 * b * shape.macs * self.board.clock_hz / cycles for b, cycles in every)
        plans = enumerate(self.design.plans[layer], 1)
        ticks = (layer_ticks(shape, self.built, batch, words, plan.k) for batch, plan in plans)
        return tuple(gops(shape.macs, batch, t, self.board.clock_hz, words) for batch, t in enumerate(ticks, 1))

    def layer_efficiency_pct(self, layer: int) -> tuple[float, ...]:
        """Share of the array's peak that the built design reaches on one layer at each batch size, in per cent; 0 for pools."""
        return tuple(100 * value / self.design.peak_gops for value in self.layer_gops(layer))

    def layer_operations_per_word(self, layer: int, batch: int) -> float:
        """Two operations a MAC over words of 16 bits: where a layer stands on the roofline; 0 for pools.

        The words are those on the busiest of the `paper` model's three ports; under the `exact` model those that must cross the memory's pins.
        """
        if self.layer_cycles is not None:
            return 2 * batch * self.workload.layers[layer].macs / layer_words(self.workload.layers[layer], batch)
        shape, plan = self.workload.layers[layer], self.design.plans[layer][batch - 1]
        point = self.built.stacked() if plan.k is Stack.TWO else self.built
        if not shape.macs or point is None:
            return 0.0
        return 2 * batch * shape.macs / (shape.groups * memory_words(shape, point, batch))

    @property
    def words_per_cycle(self) -> float:
        """Words that memory moves in a cycle at its best: the roof over `layer_operations_per_word`."""
        if self.layer_cycles is None:
            return self.design.out_words
        return awake_words(DramModel.of(self.board, self.design.memory))

    @property
    def objective_gops(self) -> float:
        """GOP/s of the design to build, weighted over batch sizes as the search weighted them."""
        return sum(w * value for w, value in zip(self.ranking.weights, self.fitted_gops, strict=True))

    @cached_property
    def front(self) -> Front:
        """What else can be built. Takes a second, under the `exact` model up to half a minute."""
        return front(
            self.workload, self.board, b_max=self.b_max, weights=self.ranking.weights, model=self.design.model,
            memory=self.design.memory, core=self.core,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types. Top-level point, GOP/s and resources are the published ones; `fitted` holds those of the design to build."""
        return {
            "network": self.workload.name,
            "board": self.board.name,
            "model": self.design.model,
            "b_max": self.b_max,
            "objective": self.objective,
            "core": self.core,
            "weights": list(self.ranking.weights),
            "designs_searched": len(self.ranking),
            "t_r": self.published.t_r,
            "t_p": self.published.t_p,
            "t_c": self.published.t_c,
            "peak_gops": 2 * self.published.dsp * self.board.clock_hz / 1e9,
            "gops_by_batch": list(self.published_gops),
            "resources": self.published_resources,
            "fitted": {
                "t_r": self.design.t_r,
                "t_p": self.design.t_p,
                "t_c": self.design.t_c,
                "memory": self.design.memory,
                "port_bits": self.design.port_bits,
                "stripes": self.design.stripes,
                "buffer_words": self.design.buffer_words,
                "peak_gops": self.design.peak_gops,
                "gops_by_batch": list(self.fitted_gops),
                "difference_pct": list(self.difference_pct),
                "resources": self.fitted_resources,
                "ramb18_by_use": dict(self.fit.parts),
                "latency_ns": [list(row) for row in self.design.latency.ns],
                "digest": self.design.digest,
            },
            "pareto_points": len(self.front),
            "pareto": self.front.rows(limit=32),
            "notes": list(self.notes),
        }


def _share(used: int, available: int) -> dict[str, float]:
    return {"used": used, "available": available, "percent": 100 * used / available}


def explore(
    workload: Workload,
    board: Board,
    *,
    b_max: int = 8,
    weights: Sequence[float] | None = None,
    objective: str = OBJECTIVES[0],
    model: str = "paper",
    memory: str | None = None,
    core: str = CORES[0],
    evaluations: int = EVALUATIONS,
    progress: Progress | None = None,
) -> Exploration:
    """Search the whole space, then build the best point that can be built. Raises DesignError, FitError or BoardError.

    With the `exact` model the published optimum is still the `paper` model's; the design to build, its plans, its GOP/s and its latency table are
    what `search_exact` counts, in at most so many `evaluations`. `memory`: the board's memory behind the ports of what is built, its first by
    default. `objective`: "throughput", weighted over batch sizes, or "latency" of a single sample, which is throughput at b = 1 alone. `core`: the
    one whose accumulators must fit, "rtl" or "hls".
    """
    if model not in ("paper", "exact"):
        raise DesignError(f"model must be 'paper' or 'exact', not {model!r}")
    if core not in CORES:
        raise DesignError(f"core must be 'rtl' or 'hls', not {core!r}")
    if objective not in OBJECTIVES:
        raise DesignError(f"objective must be 'throughput' or 'latency', not {objective!r}")
    if objective == "latency":
        if weights is not None:
            raise DesignError(
                "weights of batch sizes must not be given with the objective 'latency', which is that of b = 1 alone"
            )
        check_b_max(b_max)
        weights = (1.0, *(0.0,) * (b_max - 1))
    memory = board.memory(memory).name
    if model == "exact":
        check_windows(workload)
    ranking = search(workload, board, b_max=b_max, weights=weights, progress=progress)
    if model == "exact":
        return _explore_exact(workload, board, b_max, memory, core, ranking, objective, evaluations, progress)
    point, found, plans, why_not = _first_that_fits(ranking, workload, board, b_max, memory, core)
    design = _design(workload, board, point, found, plans, b_max=b_max, memory=memory)
    words, clock = design.out_words, board.clock_hz
    fitted = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    fitted_gops = tuple(
        gops(workload.macs, b, total_ticks(workload.layers, fitted, b, words), clock, words)
        for b in range(1, b_max + 1)
    )
    best = int(ranking.order[0])
    return Exploration(
        workload=workload,
        board=board,
        b_max=b_max,
        ranking=ranking,
        published_gops=tuple(float(x) for x in ranking.gops[:, best]),
        fitted_gops=fitted_gops,
        design=design,
        fit=found,
        notes=_notes(workload, ranking, point, design, why_not),
        objective=objective,
        core=core,
    )


def _explore_exact(
    workload: Workload,
    board: Board,
    b_max: int,
    memory: str,
    core: str,
    ranking: Ranking,
    objective: str,
    evaluations: int,
    progress: Progress | None,
) -> Exploration:
    dram = DramModel.of(board, memory)
    found = search_exact(
        workload, board, b_max=b_max, weights=ranking.weights, latency=objective == "latency", memory=memory, core=core,
        evaluations=evaluations, progress=progress,
    )  # fmt: skip
    counted = found.best
    batches = range(1, b_max + 1)
    missing = [b for b in batches if not ranking.weights[b - 1]]
    if missing:  # the table needs them, the search did not
        counted = counted.joined(count(workload, counted.fit, counted.machine, dram, missing))
    keys = [layer_key(layer) for layer in workload.layers]
    plans = tuple(counted.plans[key] for key in keys)
    design = replace(
        _design(workload, board, counted.point, counted.fit, plans, b_max=b_max, memory=memory),
        latency=counted.latency(workload.layers, board.clock_hz),
        model="exact",
    )
    best = int(ranking.order[0])
    seconds = (counted.total(workload.layers, b) / board.clock_hz for b in batches)
    more = (
        f"counted with '{memory}' memory, {dram.total_words:.1f} words a cycle; each layer has tensors of its own there"
    )
    others = (
        f"none of the others could be more than {found.gap_pct:.1f} % better"
        if found.gap_pct
        else "none of the others can be better"
    )
    bounds = f"{found.bounded} arrays can be built, {found.evaluated} were counted, and {others}"
    return Exploration(
        workload=workload,
        board=board,
        b_max=b_max,
        ranking=ranking,
        published_gops=tuple(float(x) for x in ranking.gops[:, best]),
        fitted_gops=tuple(2e-9 * b * workload.macs / s for b, s in zip(batches, seconds, strict=True)),
        design=design,
        fit=counted.fit,
        notes=(bounds, more, _memory_note(design), LOGIC_NOTE),
        objective=objective,
        core=core,
        layer_cycles=tuple(counted.cycles[key] for key in keys),
    )


def _first_that_fits(
    ranking: Ranking, workload: Workload, board: Board, b_max: int, memory: str, core: str
) -> tuple[Point, Fit, Plans, FitError | None]:
    """The highest-ranked point that can be built, its fit and FBCB, and why the optimum itself could not be (None where it could)."""
    fbcb_words = len(workload.layers) * b_max
    why_not: FitError | None = None
    columns = inf  # with so many, accumulators leave too little for the input buffer
    for index in ranking.order:
        point = ranking.space[int(index)]
        if point.t_c >= columns:
            continue
        try:
            return point, *share_memory(workload, board, point, memory=memory, b_max=b_max, core=core), why_not
        except FitError as error:
            why_not = why_not or error
            columns = point.t_c if error.resource == "buffer_bytes" else columns
    if why_not is not None and why_not.resource == "buffer_bytes":
        raise why_not
    least = Point(t_r=2, t_p=MIN_T_P, t_c=MIN_T_C)
    fit(
        least, board, fbcb_words=fbcb_words, b_max=b_max, memory=memory, core=core
    )  # raises, naming what even the smallest design lacks; else it is the bits that the model counts
    raise FitError(
        f"board '{board.name}' is too small: the smallest design that can be built needs {least.memory_bits} bits of on-chip memory, "
        f"and it has {board.paper_memory_bits}",
        resource="memory_bits",
        needed=least.memory_bits,
        available=board.paper_memory_bits,
    )


def _notes(
    workload: Workload, ranking: Ranking, point: Point, design: Design, why_not: FitError | None
) -> tuple[str, ...]:
    notes = []
    if why_not is not None:
        notes.append(
            f"the published optimum {ranking.best} cannot be built ({why_not}); the best point that can is {point}"
        )
    if design.t_r < point.t_r:
        notes.append(
            f"t_r falls from {point.t_r} to {design.t_r}: accumulators and an input buffer of {design.buffer_words} words share the board's RAM"
        )
    shape = Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    published = plan_all(workload.layers, shape, design.b_max, design.out_words, published_plan)
    pairs = [(a, b) for old, new in zip(published, design.plans, strict=True) for a, b in zip(old, new, strict=True)]
    other = sum(a.b_r != b.b_r for a, b in pairs)
    if other:
        notes.append(
            f"{other} of {len(pairs)} FBCB entries hold another B_R than Eq. 1 as printed, since the array has two lanes: B_R is b or half of it"
        )
    if any(layer.kind is not Kind.GEMM for layer in workload.layers):
        notes.append(POOL_NOTE)
    notes += [_memory_note(design), LOGIC_NOTE]
    return tuple(notes)


def _memory_note(design: Design) -> str:
    ports = f"{design.port_bits} bits" + (f" on {design.stripes} ports each" if design.stripes > 1 else "")
    return f"tensors lie in '{design.memory}' memory behind masters of {ports}; the input buffer holds {design.buffer_words} words"


def build_design(
    workload: Workload,
    board: Board,
    point: Point,
    *,
    memory: str | None = None,
    b_max: int = 8,
    acc_bits: int = 48,
) -> Design:
    """The design of a point for a workload on a board: T_R shrunk to what fits, FBCB for two lanes, latency table. Raises DesignError or FitError.

    A beat carries as many outputs as the memory takes in a cycle (`out_words`) and as many weight slots as it delivers (`weight_slots`): wider would
    wait for memory, narrower would make memory wait. `memory`: the one that tensors live in, the board's first by default.
    """
    check_b_max(b_max)
    found, plans = share_memory(workload, board, point, memory=memory, b_max=b_max, acc_bits=acc_bits)
    return _design(workload, board, point, found, plans, b_max=b_max, memory=memory, acc_bits=acc_bits)


def _design(
    workload: Workload,
    board: Board,
    point: Point,
    found: Fit,
    plans: Plans,
    *,
    b_max: int,
    memory: str | None,
    acc_bits: int = 48,
) -> Design:
    words, dram = stream_words(board, memory), board.memory(memory)
    fitted = Point(t_r=found.t_r, t_p=point.t_p, t_c=point.t_c)
    return Design(
        network=workload.name,
        workload_digest=workload.digest,
        board=board.name,
        clock_hz=board.clock_hz,
        t_r=fitted.t_r,
        t_p=fitted.t_p,
        t_c=fitted.t_c,
        b_max=b_max,
        layers=workload.layers,
        exits=workload.exits,
        exit_rates=workload.exit_rates,
        plans=plans,
        latency=stage_latency(
            workload.layers,
            fitted,
            clock_hz=board.clock_hz,
            words_per_cycle=words,
            b_max=b_max,
            input_words=input_words(fitted.t_p, dram.port_bits),
        ),
        model="paper",
        published_t_r=point.t_r,
        acc_bits=acc_bits,
        weight_slots=weight_slots_for(point.t_p, dram.port_bits),
        out_words=words,
        memory=dram.name,
        port_bits=dram.port_bits,
        stripes=dram.stripes,
        buffer_words=found.buffer_words,
    )
