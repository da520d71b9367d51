"""The search: from a workload and a board to a published point and a design that can be built.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import LayerShape, Workload
>>> work = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=288, c=64),))
>>> found = explore(work, load_board("zc706"), b_max=2, model="paper")
>>> found.published.dsp <= 900 and found.fit.ramb18 <= 1090
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from fluidnpu.boards import Board
from fluidnpu.models import Kind, LayerShape, Workload

from ..design import CORES, Design, LatencyTable, Part
from ..errors import DesignError, FitError
from ..exact.search import ExactRanking, evaluate_array, search_exact
from ..exact.sharing import SharedArray, share_memory
from ..hardware.space import Point
from ..jit import has_numba
from ..paper.latency import POOL_NOTE, stage_latency
from ..paper.model import gops, total_ticks
from ..paper.plans import plan_all, published_plan
from ..paper.search import Ranking, rank
from ..question import MODELS, OBJECTIVES, Progress, Question
from ..resources.buildable import buildable, least_point
from ..resources.fit import LOGIC_NOTE, Fit, fit
from .memory import in_memory
from .placing import unknown_columns
from .result import Exploration


def explore(
    workload: Workload,
    board: Board,
    *,
    b_max: int = 8,
    weights: Sequence[float] | None = None,
    objective: str = OBJECTIVES[0],
    model: str = MODELS[0],
    memory: str | None = None,
    core: str = CORES[0],
    evaluations: int | None = None,
    lanes: int | None = None,
    bits: int = 16,
    progress: Progress | None = None,
) -> Exploration:
    """Search the arrays that can be built, and make the design of the best that was found.

    The arguments are those of `Question`; by default the search is a quick one, with a bound on what it may
    have missed. Raises DesignError, FitError or BoardFileError.
    """
    question = Question(
        workload=workload,
        board=board,
        b_max=b_max,
        weights=None if weights is None else tuple(weights),
        objective=objective,
        model=model,
        memory=memory,
        core=core,
        evaluations=evaluations,
        lanes=lanes,
        bits=bits,
    )
    return answer(question, progress)


def answer(question: Question, progress: Progress | None = None) -> Exploration:
    """The published optimum of a question and the design to build. Raises DesignError or FitError.

    Where the question names no memory it is answered with the first that an array fits with (`in_memory`).
    The published optimum is the `paper` model's. With the `exact` model the design to build, its plans, its
    GOP/s and its latency table are those that `search_exact` evaluates.
    """
    if question.model == "exact" and not has_numba():
        raise DesignError(
            "counting cycles exactly needs Numba, which is not installed (without it a search would take days): "
            "pip install 'fluidnpu[design]', or ask for the paper's model"
        )
    question, chosen = in_memory(question)
    ranking = rank(question, progress=progress)
    exact = search_exact(question, progress) if question.model == "exact" else None
    exploration = _paper_answer(question, ranking) if exact is None else _exact_answer(ranking, exact)
    cautions = (*chosen, *unknown_columns(question))
    return replace(exploration, cautions=cautions, notes=(*cautions, *exploration.notes))


def _paper_answer(question: Question, ranking: Ranking) -> Exploration:
    clock_hz = question.board.clock_hz
    point, shared, why_not = _first_that_fits(question, ranking)
    design, fitted = _paper_design(question, shared, published_t_r=point.t_r), shared.fit
    words = fitted.array.out_words
    batches = range(1, question.b_max + 1)
    lowered = dict(zip(question.workload.layers, design.lowered_layers, strict=True))

    def ticks(layers: Sequence[LayerShape], batch: int) -> float:
        return total_ticks([lowered[layer] for layer in layers], fitted.point, batch, words)

    return Exploration(
        question=question,
        ranking=ranking,
        fitted_gops=tuple(
            gops(question.macs, b, question.weighed(partial(ticks, batch=b)), clock_hz, words) for b in batches
        ),
        part_gops=_of_parts(question, design, batches, lambda b, ls: ticks(ls, b) / words),
        design=design,
        fit=fitted,
        notes=_notes(question, ranking, point, design, fitted, why_not),
    )


def _exact_answer(ranking: Ranking, exact: ExactRanking) -> Exploration:
    question = exact.question
    clock_hz, best, layers = question.board.clock_hz, exact.best, exact.best.layers
    latency = best.latency(layers, clock_hz)
    shared = SharedArray(
        fit=best.fit,
        plans=best.fbcb(layers),
        joins=best.layer_joins(layers),
        filtered=tuple(index for index, layer in enumerate(layers) if layer.filtering is not None),
    )
    design = _design(question, shared, latency, published_t_r=best.fit.t_r)
    seconds = ((b, question.weighed(partial(best.total, batch=b), layers) / clock_hz) for b in best.batches)
    others = (
        f"none of the others could be more than {exact.gap_pct:.1f} % better"
        if exact.gap_pct
        else "none of the others can be better"
    )
    return Exploration(
        question=question,
        ranking=ranking,
        fitted_gops=tuple(2e-9 * b * question.macs / s for b, s in seconds),
        part_gops=_of_parts(question, design, best.batches, lambda b, ls: best.total(ls, b)),
        design=design,
        fit=best.fit,
        notes=(
            f"{exact.bounded} arrays can be built, {exact.evaluated} were counted, and {others}",
            f"counted with '{design.memory}' memory, {question.dram.words(question.word_bytes):.1f} words a cycle; each layer "
            "has tensors of its own there",
            _memory_note(design),
            *best.fit.unit_note,
            *best.fit.filter_note,
            *_merged_note(design, question),
            LOGIC_NOTE,
        ),
        layer_cycles=best.layer_cycles(layers),
        arrays=exact.bounded,
        evaluated=exact.evaluated,
        gap_pct=exact.gap_pct,
    )


def _merged_note(design: Design, question: Question) -> tuple[str, ...]:
    """A sentence on the depthwise layers that the filter computes; none without one."""
    merged = sum(layer.filtering is not None for layer in design.layers)
    if not question.lanes:
        return ()
    return (
        f"{merged} of {len(question.pairs)} depthwise layers that may be merged are computed on the way out of the layer "
        "before, and take no pass of their own",
    )


def _of_parts(
    question: Question,
    design: Design,
    batches: Sequence[int],
    cycles: Callable[[int, Sequence[LayerShape]], float],
) -> tuple[tuple[float, ...], ...]:
    """GOP/s of each network of a mix at each batch size; nothing for a network alone."""
    rates, at = [], 0
    for work, _ in question.mix:
        layers, at = design.layers[at : at + len(work.layers)], at + len(work.layers)
        rates.append(tuple(2e-9 * b * work.macs * design.clock_hz / cycles(b, layers) for b in batches))
    return tuple(rates)


def _first_that_fits(question: Question, ranking: Ranking) -> tuple[Point, SharedArray, FitError | None]:
    """The highest-ranked point that can be built, as it fits, and the optimum's FitError, if any."""
    try:
        return ranking.best, share_memory(question, ranking.best), None
    except FitError as error:
        why_not = error
    columns = ranking.best.t_c if why_not.resource == "buffer_bytes" else inf
    built = buildable(ranking.space, question.target).space
    pairs = set(zip(built.t_p.tolist(), built.t_c.tolist(), strict=True))
    for index in ranking.order[1:]:
        point = ranking.space[int(index)]
        if point.t_c >= columns or (point.t_p, point.t_c) not in pairs:
            continue
        try:
            return point, share_memory(question, point), why_not
        except FitError as error:  # with so many columns, accumulators leave too little for the input buffer
            columns = point.t_c if error.resource == "buffer_bytes" else columns
    if why_not.resource == "buffer_bytes":
        raise why_not
    # Raises, naming what even the smallest design lacks; else it lacks the bits that the model counts.
    board, least = question.board, least_point(question.target)
    fit(least, question.target)
    raise FitError(
        f"board '{board.name}' is too small: the smallest design that can be built needs {least.memory_bits} bits of on-chip memory, "
        f"and it has {board.paper_memory_bits}",
        resource="memory_bits",
        needed=least.memory_bits,
        available=board.paper_memory_bits,
    )


def _notes(
    question: Question, ranking: Ranking, point: Point, design: Design, fitted: Fit, why_not: FitError | None
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
    layers, shape = design.lowered_layers, Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c)
    published = plan_all(layers, shape, design.b_max, design.out_words, published_plan)
    pairs = [(a, b) for old, new in zip(published, design.plans, strict=True) for a, b in zip(old, new, strict=True)]
    other = sum(a.b_r != b.b_r for a, b in pairs)
    if other:
        notes.append(
            f"{other} of {len(pairs)} FBCB entries hold another B_R than Eq. 1 as printed, since the array has two lanes: B_R is b or half of it"
        )
    if any(layer.kind is not Kind.GEMM for layer in layers):
        notes.append(POOL_NOTE)
    notes += [_memory_note(design), *fitted.unit_note, LOGIC_NOTE]
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
    core: str = CORES[0],
    b_max: int = 8,
    acc_bits: int = 48,
    bits: int = 16,
) -> Design:
    """The design of a point for a workload on a board: T_R as it fits, FBCB for two lanes, latency table.

    A beat carries as many outputs as the memory takes in a cycle (`out_words`) and as many weight slots as it
    delivers (`weight_slots`): wider would wait for memory, narrower would make memory wait. `memory`: the one
    that tensors live in, the board's first by default. `core`: the one that must fit and place. Words have
    16 `bits`, or 8, which the paper's model does not know: the plans are then estimated, and cycles counted.
    Raises DesignError or FitError.
    """
    model = "paper" if bits == 16 else "exact"
    question = Question(
        workload=workload,
        board=board,
        b_max=b_max,
        memory=memory,
        core=core,
        acc_bits=acc_bits,
        model=model,
        lanes=0 if workload.filters and bits != 16 else None,
        bits=bits,
    )
    shared = share_memory(question, point)
    if model == "paper":
        return _paper_design(question, shared, published_t_r=point.t_r)
    best = evaluate_array(question, shared.fit, question.batches)
    layers = question.workload.layers
    planned = SharedArray(fit=shared.fit, plans=best.fbcb(layers), joins=best.layer_joins(layers))
    return _design(question, planned, best.latency(layers, question.board.clock_hz), published_t_r=shared.fit.t_r)


def _paper_design(question: Question, shared: SharedArray, *, published_t_r: int) -> Design:
    """The design with the `paper` model's latency table."""
    layers, fitted = question.workload.layers, shared.fit
    latency = stage_latency(
        tuple(layer.joined(count) for layer, count in zip(layers, shared.joins or (1,) * len(layers), strict=True)),
        fitted.point,
        clock_hz=question.board.clock_hz,
        words_per_cycle=fitted.array.out_words,
        b_max=question.b_max,
        input_words=fitted.array.in_words,
    )
    return _design(question, shared, latency, published_t_r=published_t_r)


def _design(question: Question, shared: SharedArray, latency: LatencyTable, *, published_t_r: int) -> Design:
    workload, ports, fitted = question.workload, question.target.ports, shared.fit
    parts = tuple(
        Part(
            network=work.name,
            workload_digest=work.digest,
            layers=len(work.layers),
            stages=len(work.exits),
            share=share,
            exit_rates=work.exit_rates,
        )
        for work, share in question.mix
    )
    rates = [part.exit_rates for part in parts]
    together = None if None in rates else tuple(rate for row in rates for rate in row or ())
    return Design(
        network=workload.name,
        workload_digest=workload.digest,
        board=question.board.name,
        clock_hz=question.board.clock_hz,
        array=fitted.array,
        b_max=question.b_max,
        layers=workload.filtered(shared.filtered),
        exits=workload.exits,
        exit_rates=together if parts else workload.exit_rates,
        parts=parts,
        plans=shared.plans,
        joins=shared.joins,
        latency=latency,
        model=question.model,
        core=question.core if question.model == "exact" else None,
        published_t_r=published_t_r,
        acc_bits=question.target.acc_bits,
        memory=ports.name,
        port_bits=ports.port_bits,
        stripes=ports.stripes,
        buffer_words=fitted.buffer_words,
        activation=fitted.activation,
        facts=question.facts,
    )
