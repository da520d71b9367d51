"""The study of Fluid Batching: every table and figure about serving, run again here and set beside the paper's numbers.

One list of tasks, each deterministic in its seeds, run in any order on any number of processes; the result is one plain dictionary that
says nothing about when or how fast it was made, so two runs can be diffed. An interval is `[mean, low, high]`, 95 % over seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from fluidnpu.dse import LatencyTable, explore
from fluidnpu.dse.paper import ablation
from fluidnpu.scheduler import (
    Comparison,
    Interval,
    PaperRow,
    Policy,
    Serving,
    Source,
    Sweep,
    Truth,
    available,
    compare,
    compare_streams,
    draw_stream,
    halve_early_exits,
    interval,
    least_violations,
    make_policy,
    merge_metrics,
    sweeps,
    table2_rows,
)

from .study_hardware import Hardware, boards_of_fig10, hardware, recorded_images, workload_of

SCHEMA = 1
BASELINES = ("serial", "greedy", "adaptive-s", "adaptive-m", "adaptive-l", "staged:tau_b=4", "fluid", "fluid-repaired")
OURS = ("optimal", "credit:dial=0", "credit", "credit:dial=2", "guarded")
ANYTIME = ("fluid:anytime=3%", "credit:anytime=3%", "guarded:anytime=3%")
ON_FLUID_HARDWARE = ("serial", "greedy", "fluid")
ADAPTIVE = ("adaptive-s", "adaptive-m", "adaptive-l")
DIALS = tuple(f"credit:dial={d / 4:g}" for d in range(9))
DRIFT = ("fluid", "optimal", "credit", "credit:robust=1", "guarded", *ANYTIME)
SOLVED_ONCE = ("credit", "guarded")  # in sweeps: for the rate of Table II
MAPPED = ("serial", "greedy", "adaptive-s", "fluid", "optimal", "credit", "guarded")
MAP_LOADS = (0.2, 0.4, 0.6, 0.7, 0.8)  # solving takes ever longer towards 1
MAP_SLOS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # over the latency of one sample alone
LAYER_COSTS_US = (0, 50, 100, 200, 300, 400, 600, 800)
THRESHOLDS = (0.65, 0.9, 0.97)
METRICS = (
    "violations_pct",
    "average_ms",
    "p99_ms",
    "goodput_per_s",
    "busy_pct",
    "mean_batch",
    "decisions",
    "anytime_pct",
)
YARDSTICKS = ("violations_pct", "average_ms", "p99_ms")

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is simulated. Sweeps over many circumstances take a quarter of the requests in each."""

    seeds: int = 30
    requests: int = 20_000

    @property
    def sweep_requests(self) -> int:
        """Requests per seed in sweeps."""
        return max(200, self.requests // 4)


@dataclass(frozen=True)
class Task:
    """One piece of work and where its answer goes."""

    part: str
    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        """Do it."""
        return self.function(*self.arguments)


def run_study(size: Size, processes: int, progress: Callable[[int, int], None]) -> Body:
    """Everything, as plain JSON types."""
    tasks = study_tasks(size)
    answers: dict[int, Any] = {}
    progress(0, len(tasks))
    if processes > 1:
        with ProcessPoolExecutor(processes, get_context("fork")) as pool, ExitStack() as stack:
            stack.callback(pool.shutdown, cancel_futures=True)  # stopped in the middle, no further task begins
            waiting = {pool.submit(task): index for index, task in enumerate(tasks)}
            for done in as_completed(waiting):
                answers[waiting[done]] = done.result()
                progress(len(answers), len(tasks))
    else:
        for index, task in enumerate(tasks):
            answers[index] = task()
            progress(len(answers), len(tasks))
    parts: dict[str, Body] = {}
    for index, task in enumerate(tasks):
        parts.setdefault(task.part, {})[task.key] = answers[index]
    return {
        "schema": SCHEMA,
        "study": "fluid-batching",
        "seeds": size.seeds,
        "requests": size.requests,
        "sweep_requests": size.sweep_requests,
        "interval": "[mean, low, high], 95 % over seeds",
        "simulated": True,
        "parts": parts,
    }


def study_tasks(size: Size) -> list[Task]:
    """Every piece of the study, the longest first."""
    tasks: list[Task] = []
    for row in table2_rows():
        tasks.append(Task("table2", row.name, table2, (row, size)))
        tasks.append(Task("lazy", row.name, lazy, (row, size)))
        tasks.append(Task("frontier", row.name, points, (row, ("fluid", "optimal", *DIALS), size)))
        for label, truth in worlds(row).items():
            tasks.append(Task("drift", f"{row.name}: {label}", drift, (row, truth, size)))
        tasks.append(Task("codesign", row.name, codesign, (row, size)))
    for sweep in sweeps():
        for x in sweep.rates_per_s:
            tasks.append(Task(sweep.figures[0], f"{x:g}", sweep_point, (sweep, x, sweep.slo_ms, size)))
        for x in sweep.slos_ms:
            tasks.append(Task(sweep.figures[1], f"{x:g}", sweep_point, (sweep, sweep.rate_per_s, x, size)))
        for load in MAP_LOADS:
            tasks.append(Task(f"map, {sweep.row.name}", f"{load:g}", map_column, (sweep.row, load, size)))
    for threshold in THRESHOLDS:
        tasks.append(Task("accuracy", f"{threshold:g}", accuracy, (threshold, size)))
    tasks.append(Task("fig10", "share of peak", fig10, ()))
    tasks.append(Task("fig10", "batch 16", batch_16, ()))
    return tasks


def worlds(row: PaperRow) -> dict[str, Truth]:
    """Worlds that are not as the policies were told."""
    return {
        "bursts": Truth(traffic="bursty:burst=2:share=0.2:dwell=1s"),
        "early exits halved": Truth(exit_rates=halve_early_exits(row.serving.exit_rates)),
        "10 % slower": Truth(latency_factor=1.1),
        "10 % faster": Truth(latency_factor=0.9),
    }


# -- the tasks -----------------------------------------------------------------------------------------------------


def points(row: PaperRow, policies: Sequence[str], size: Size, truth: Truth | None = None) -> Body:
    """Policies at a row's own rate and objective."""
    return body(run(row.serving, policies, row.rate_per_s, row.slo_ns, size.seeds, size.requests, truth))


def table2(row: PaperRow, size: Size) -> Body:
    """A row of Table II: all policies, differences to `fluid` on the same streams, the clairvoyant bound."""
    names = (*BASELINES, f"lazy:layers={row.layers}", *OURS, *ANYTIME)
    found = run(row.serving, names, row.rate_per_s, row.slo_ns, size.seeds, size.requests)
    return {
        "rate_per_s": row.rate_per_s,
        "slo_ms": row.slo_ms,
        "paper": {
            "lazy": {"average_ms": row.lazy_average_ms, "violations_pct": row.lazy_violations_pct},
            "fluid": {"average_ms": row.fluid_average_ms, "violations_pct": row.fluid_violations_pct},
        },
        "policies": body(found),
        "minus_fluid": {name: minus(found, name, "fluid") for name in (*OURS, *ANYTIME)},
        "minus_half_of_fluid": {name: minus(found, name, "fluid", 0.5) for name in ANYTIME},
        "bound_pct": three(bound(row, size)),
    }


def bound(row: PaperRow, size: Size) -> Interval:
    """The clairvoyant lower bound on violations, over at most five seeds: it is slow."""
    found = []
    for seed in range(min(size.seeds, 5)):
        stream, exits = draw_stream(row.serving, Truth(), row.rate_per_s, row.slo_ns, size.requests, seed)
        found.append(100 * least_violations(stream, exits, row.serving.latency) / size.requests)
    return interval(found)


def lazy(row: PaperRow, size: Size) -> Body:
    """LazyBatching by the cost of a layer; the cost at which its average is the paper's; what follows for violations and calls."""
    names = [
        f"lazy:layers={row.layers}:cost={cost}us" if cost else f"lazy:layers={row.layers}" for cost in LAYER_COSTS_US
    ]
    found = run(row.serving, ("fluid", *names), row.rate_per_s, row.slo_ns, size.seeds, size.sweep_requests)
    averages = [math.inf if found.unstable(n) else merge_metrics(found.metrics[n])["average_ms"].mean for n in names]
    fitted = crossing(LAYER_COSTS_US, averages, row.lazy_average_ms)
    out: Body = {"costs_us": list(LAYER_COSTS_US), "policies": body(found), "fitted_cost_us": fitted, "fitted": None}
    if fitted is not None:
        name = f"lazy:layers={row.layers}:cost={max(fitted, 1)}us"
        again = run(row.serving, (name,), row.rate_per_s, row.slo_ns, size.seeds, size.requests)
        out["fitted"] = body(again)[name]
    calls = [merge_metrics(found.metrics[n])["decisions"].mean for n in ("fluid", names[0])]
    return out | {"calls_over_fluid": significant(calls[1] / calls[0])}


def crossing(xs: Sequence[float], ys: Sequence[float], level: float) -> int | None:
    """The x, to a whole number, at which rising values first reach a level, on straight lines between points; None if they never do.

    >>> crossing((0, 100, 200), (10, 20, 40), 30), crossing((0, 100), (10, 20), 30), crossing((0, 100), (10, 20), 5)
    (150, None, 0)
    """
    if ys[0] >= level:
        return round(xs[0])
    for (x0, y0), (x1, y1) in zip(zip(xs, ys, strict=True), zip(xs[1:], ys[1:], strict=True), strict=False):
        if y0 < level <= y1 and math.isfinite(y1):
            return round(x0 + (level - y0) / (y1 - y0) * (x1 - x0))
    return None


def drift(row: PaperRow, truth: Truth, size: Size) -> Body:
    """Policies in a world that is not as told, and their ratios to `fluid` on the same streams."""
    found = run(row.serving, DRIFT, row.rate_per_s, row.slo_ns, size.seeds, size.requests, truth)
    base = merge_metrics(found.metrics["fluid"])
    ratios = {
        name: {
            key: None if found.unstable(name) or found.unstable("fluid") or not base[key].mean
            else significant(merge_metrics(found.metrics[name])[key].mean / base[key].mean)
            for key in YARDSTICKS
        }
        for name in DRIFT
    }  # fmt: skip
    return {"policies": body(found), "over_fluid": ratios}


def sweep_point(sweep: Sweep, rate_per_s: float, slo_ms: float, size: Size) -> Body:
    """Every line of Figs. 7 to 9 at one rate and objective: adaptive batching on FC-only and R hardware, the rest on fluid hardware.

    `credit` and `guarded` are solved once, for the rate of the row in Table II: what they do at other rates is what a shipped table does.
    """
    kinds, out = hardware(sweep.row), {}
    slo_ns = round(slo_ms * 1e6)
    setting = kinds["fluid"].serving.setting(sweep.row.rate_per_s, slo_ns)
    solved: list[str | Policy] = [make_policy(name, setting) for name in SOLVED_ONCE]
    lines: Sequence[tuple[str, Sequence[str | Policy]]] = (
        ("fluid", (*ON_FLUID_HARDWARE, *solved)),
        ("FC", ADAPTIVE),
        ("R", ADAPTIVE),
    )
    for kind, names in lines:
        found = run(kinds[kind].serving, names, rate_per_s, slo_ns, size.seeds, size.sweep_requests)
        for name, value in body(found).items():
            out[name if kind == "fluid" else name.replace("adaptive", kind)] = value
    return {"rate_per_s": rate_per_s, "slo_ms": slo_ms, "lines": out, "least_load": least_loads(kinds, rate_per_s)}


def least_loads(kinds: Mapping[str, Hardware], rate_per_s: float) -> dict[str, float]:
    """How busy each kind of hardware would be at best; `SERIAL` is fluid hardware that only runs single samples."""
    fluid = kinds["fluid"].serving
    single = dataclasses.replace(fluid, latency=LatencyTable(ns=tuple(row[:1] for row in fluid.latency.ns)))
    servings = {kind: one.serving for kind, one in kinds.items()} | {"SERIAL": single}
    return {kind: significant(one.least_load(rate_per_s)) for kind, one in servings.items()}


def map_column(row: PaperRow, load: float, size: Size) -> Body:
    """One load of the map: for each objective and yardstick who is best, and who is not told apart from the best."""
    rate = load / row.serving.least_load(1.0)
    alone = row.serving.latency.between(0, row.serving.latency.stages - 1, 1)
    out: Body = {}
    for multiple in MAP_SLOS:
        found = run(row.serving, MAPPED, rate, round(multiple * alone), size.seeds, size.sweep_requests)
        steady = [name for name in MAPPED if not found.unstable(name)]
        out[f"{multiple:g}"] = {key: _best(found, steady, key) for key in YARDSTICKS}
    return {"rate_per_s": significant(rate), "alone_ms": significant(alone / 1e6), "objectives": out}


def _best(found: Comparison, steady: Sequence[str], key: str) -> Body:
    if not steady:
        return {"best": None, "value": None, "equal": []}
    means = {name: merge_metrics(found.metrics[name])[key].mean for name in steady}
    best = min(means, key=lambda name: means[name])
    gaps = {name: minus(found, name, best)[key] for name in steady if name != best}
    equal = [name for name, gap in gaps.items() if gap[1] is None or gap[1] <= 0 or gap[0] == 0]
    return {"best": best, "value": significant(means[best]), "equal": equal}


def accuracy(threshold: float, size: Size) -> Body:
    """What anytime answers cost in accuracy, on the shipped network's real confidences."""
    recorded, design = recorded_images()
    limits = (*[threshold] * (design.stages - 1), 0.0)
    what = Serving.of(design, recorded.exit_rates(limits))
    rate = 0.75 / what.least_load(1)
    slo_ns = 4 * what.latency.between(0, what.latency.stages - 1, 1)
    source = Source(rate_per_s=rate, slo_ns=slo_ns, count=size.sweep_requests, recorded=recorded, thresholds=limits)
    found = compare_streams(
        what, ("fluid", "fluid:anytime=3%", "credit", "credit:anytime=3%"), source, seeds=size.seeds
    )
    policies = body(found.comparison)
    for name, one in policies.items():
        one["accuracy_pct"] = three(found.accuracy_pct[name])
        one["accuracy_lost_points"] = three(found.accuracy_lost_points[name])
    rates = [significant(x) for x in what.exit_rates]
    return {
        "exit_rates": rates,
        "rate_per_s": significant(rate),
        "slo_ms": significant(slo_ns / 1e6),
        "policies": policies,
    }


def codesign(row: PaperRow, size: Size) -> Body:
    """The batch histogram under the expected traffic becomes the search's weights w_b, until the design stays the same."""
    work, board = workload_of(row)
    weights: list[float] | None = None
    seen: list[list[int]] = []
    steps, rate = [], 0.0
    for _ in range(6):
        design = explore(work, board, weights=weights).design
        what = Serving.of(design)
        if not rate:  # the paper model is faster than the row's table: keep the load, and the objective in proportion
            rate = row.rate_per_s * row.serving.least_load(1) / what.least_load(1)
            slo_ns = round(row.slo_ns * row.rate_per_s / rate)
        found = run(what, ("fluid",), rate, slo_ns, size.seeds, size.sweep_requests)
        runs = np.sum([m.batches for m in found.metrics["fluid"]], axis=0)
        shares = [max(float(x), 1e-6) for x in runs / runs.sum()]
        steps.append(
            {
                "point": [design.t_r, design.t_p, design.t_c],
                "weights": None if weights is None else [significant(w) for w in weights],
                "batch_shares": [significant(x) for x in shares],
                **{key: body(found)["fluid"][key] for key in YARDSTICKS},
            }
        )
        if steps[-1]["point"] in seen:
            break
        seen.append(steps[-1]["point"])
        weights = shares
    return {"rate_per_s": significant(rate), "slo_ms": significant(slo_ns / 1e6), "steps": steps}


def fig10() -> Body:
    """Share of the device's peak by batch size for each way of batching on its own best design (the paper's Fig. 10)."""
    out: Body = {}
    for name, work, board in boards_of_fig10():
        peak = 2 * board.dsp * board.clock_hz / 1e9
        out[name] = {
            row.name: {
                "point": [row.point.t_r, row.point.t_p, row.point.t_c],
                "share_pct": [significant(100 * g / peak) for g in row.gops],
            }
            for row in ablation(work, board)
        }
    return out


def batch_16() -> Body:
    """ResNet-50 on ZCU104 at B = 16: the row's table, continued by what the `paper` model says of B = 16 over B = 8."""
    row = table2_rows()[1]
    one = hardware(row, b_max=16)["fluid"].model.ns
    eight = row.serving.latency.between(0, row.serving.latency.stages - 1, 8)
    growth = sum(stage[15] for stage in one) / sum(stage[7] for stage in one)
    return {"batch_8_ms": significant(eight / 1e6), "batch_16_ms": significant(eight * growth / 1e6)}


# -- how results are written ---------------------------------------------------------------------------------------


def run(
    what: Serving,
    policies: Sequence[str | Policy],
    rate_per_s: float,
    slo_ns: int,
    seeds: int,
    requests: int,
    truth: Truth | None = None,
) -> Comparison:
    """`compare` with the study's habits: many short comparisons in one process pay for starting the compiled loop once."""
    return compare(
        what,
        policies,
        rate_per_s=rate_per_s,
        slo_ns=slo_ns,
        seeds=seeds,
        requests=requests,
        truth=truth,
        compiled=available(),
    )


def body(found: Comparison) -> Body:
    """Each policy's metrics as `[mean, low, high]`; latencies and violations are None where the load is unstable."""
    out: Body = {}
    for name, runs in found.metrics.items():
        merged, unstable = merge_metrics(runs), found.unstable(name)
        cells: Body = {key: three(merged[key]) for key in METRICS}
        if "busy_mac_efficiency_pct" in merged:
            cells["busy_mac_efficiency_pct"] = three(merged["busy_mac_efficiency_pct"])
        if unstable:
            cells |= dict.fromkeys((*YARDSTICKS, "goodput_per_s"))
        out[name] = cells | {"unstable": unstable}
    return out


def minus(found: Comparison, name: str, other: str, share: float = 1.0) -> Body:
    """Paired differences over seeds, violations less `share` of the other's."""
    pairs = list(zip(found.metrics[name], found.metrics[other], strict=True))
    return {
        "violations_pct": three(interval([a.violations_pct - share * b.violations_pct for a, b in pairs])),
        "average_ms": three(interval([a.average_ms - b.average_ms for a, b in pairs])),
        "p99_ms": three(interval([a.p99_ms - b.p99_ms for a, b in pairs])),
    }


def three(value: Interval) -> list[float | None]:
    """`[mean, low, high]`, None for what is not finite."""
    return [significant(x) for x in (value.mean, value.mean - value.half, value.mean + value.half)]


def significant(value: float) -> Any:
    """Five significant digits: enough to read, few enough to diff; None for what is not finite.

    >>> significant(123.4567891), significant(float("inf"))
    (123.46, None)
    """
    return float(f"{value:.5g}") if math.isfinite(value) else None


def dumps(result: Mapping[str, Any]) -> str:
    """Canonical JSON, an interval a line."""
    import json
    import re

    text = json.dumps(result, indent=1, sort_keys=True, allow_nan=False)
    flat = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")
    return flat.sub(lambda m: "[" + re.sub(r"\s*\n\s*", " ", m[1]) + "]", text) + "\n"


def replaced(size: Size, seeds: int | None, requests: int | None) -> Size:
    """The size with what the user asked for."""
    return dataclasses.replace(size, **{k: v for k, v in (("seeds", seeds), ("requests", requests)) if v is not None})
