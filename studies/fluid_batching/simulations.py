"""Tasks about serving.

Each answers in plain JSON types; an interval is `[mean, low, high]`, 95 % over seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Policy, Serving, make_policy
from fluidnpu.scheduler.comparison import Comparison, Source, Truth, compare_streams
from fluidnpu.scheduler.simulation import Interval, interval, least_violations, merge_metrics

from ..running.study import Size
from ..writing import mean_low_high, significant
from .comparison import RequestLoad, compare_at, paired_differences, policy_cells
from .hardware import BatchingHardware, hardware, record_images
from .paper import PaperRow, Sweep
from .settings import (
    ADAPTIVE,
    ANYTIME,
    BASELINES,
    DRIFT,
    LAYER_COSTS_US,
    MAP_SLOS,
    MAPPED,
    ON_FLUID_HARDWARE,
    OURS,
    SOLVED_ONCE,
    YARDSTICKS,
)

FIG_1_PER_S = 25
BOUND_SEEDS = 5  # the clairvoyant bound is slow
ACCURACY_POLICIES = ("fluid", "fluid:anytime=3%", "credit", "credit:anytime=3%")
Answer = dict[str, Any]


def at_own_load(row: PaperRow, policies: Sequence[str], size: Size) -> Answer:
    """Serve policies at a row's own rate and objective."""
    return policy_cells(compare_at(RequestLoad.of_row(row, size), row.serving, policies))


def table2(row: PaperRow, size: Size) -> Answer:
    """Serve a row of Table II: all policies, differences to `fluid` on the same streams, the clairvoyant
    bound.
    """
    names = (*BASELINES, f"lazy:layers={row.layers}", *OURS, *ANYTIME)
    comparison = compare_at(RequestLoad.of_row(row, size), row.serving, names)
    return {
        "rate_per_s": row.rate_per_s,
        "slo_ms": row.slo_ms,
        "paper": {
            "lazy": {"average_ms": row.lazy_average_ms, "violations_pct": row.lazy_violations_pct},
            "fluid": {"average_ms": row.fluid_average_ms, "violations_pct": row.fluid_violations_pct},
        },
        "policies": policy_cells(comparison),
        "minus_fluid": {name: paired_differences(comparison, name, "fluid") for name in (*OURS, *ANYTIME)},
        "minus_half_of_fluid": {name: paired_differences(comparison, name, "fluid", 0.5) for name in ANYTIME},
        "bound_pct": mean_low_high(violations_bound(row, size)),
    }


def violations_bound(row: PaperRow, size: Size) -> Interval:
    """Bound the violations (%) from below as if all arrivals and exits were known, over a few seeds."""
    source, bounds = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=size.requests), []
    for seed in range(min(size.seeds, BOUND_SEEDS)):
        drawn = source.draw(row.serving, seed)
        bounds.append(100 * least_violations(drawn.requests, drawn.exits, row.serving.latency) / size.requests)
    return interval(bounds)


def lazy(row: PaperRow, size: Size) -> Answer:
    """Serve LazyBatching by the cost of a layer, and find the cost at which its average is the paper's."""
    names = [
        f"lazy:layers={row.layers}:cost={cost}us" if cost else f"lazy:layers={row.layers}" for cost in LAYER_COSTS_US
    ]
    sweep = RequestLoad.of_sweep(row.rate_per_s, row.slo_ns, size)
    comparison = compare_at(sweep, row.serving, ("fluid", *names))
    merged = {name: merge_metrics(comparison.metrics[name]) for name in ("fluid", *names)}
    averages = [math.inf if comparison.unstable(name) else merged[name]["average_ms"].mean for name in names]
    fitted_cost = crossing(LAYER_COSTS_US, averages, row.lazy_average_ms)
    fitted = None
    if fitted_cost is not None:
        name = f"lazy:layers={row.layers}:cost={max(fitted_cost, 1)}us"
        fitted = at_own_load(row, (name,), size)[name]
    calls, lazy_calls = (merged[name]["decisions"].mean for name in ("fluid", names[0]))
    return {
        "costs_us": list(LAYER_COSTS_US),
        "policies": policy_cells(comparison),
        "fitted_cost_us": fitted_cost,
        "fitted": fitted,
        "calls_over_fluid": significant(lazy_calls / calls),
    }


def crossing(xs: Sequence[float], ys: Sequence[float], level: float) -> int | None:
    """Find the x, to a whole number, at which rising values first reach a level; lines between points are
    straight.

    >>> crossing((0, 100, 200), (10, 20, 40), 30)
    150
    >>> crossing((0, 100), (10, 20), 30), crossing((0, 100), (10, 20), 5)
    (None, 0)
    """
    if ys[0] >= level:
        return round(xs[0])
    for (x0, y0), (x1, y1) in pairwise(zip(xs, ys, strict=True)):
        if y0 < level <= y1 and math.isfinite(y1):
            return round(x0 + (level - y0) / (y1 - y0) * (x1 - x0))
    return None


def drift(row: PaperRow, truth: Truth, size: Size) -> Answer:
    """Serve in a world that is not as told, and give ratios to `fluid` on the same streams."""
    comparison = compare_at(RequestLoad.of_row(row, size), row.serving, DRIFT, truth)
    merged = {name: merge_metrics(comparison.metrics[name]) for name in DRIFT}

    def ratio(name: str, key: str) -> float | None:
        base = merged["fluid"][key].mean
        if comparison.unstable(name) or comparison.unstable("fluid") or not base:
            return None
        return significant(merged[name][key].mean / base)

    ratios = {name: {key: ratio(name, key) for key in YARDSTICKS} for name in DRIFT}
    return {"policies": policy_cells(comparison), "over_fluid": ratios}


def sweep_point(sweep: Sweep, rate_per_s: float, slo_ms: float, size: Size) -> Answer:
    """Serve every line of Figs. 7 to 9 at one rate and objective.

    Adaptive batching runs on FC-only and R hardware, the rest on fluid hardware. `credit` and `guarded` are
    solved once, for the rate of the row in Table II: at other rates they do what a shipped table does.
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
        comparison = compare_at(RequestLoad.of_sweep(rate_per_s, slo_ns, size), kinds[kind].serving, names)
        for name, cells in policy_cells(comparison).items():
            out[name if kind == "fluid" else name.replace("adaptive", kind)] = cells
    return {"rate_per_s": rate_per_s, "slo_ms": slo_ms, "lines": out, "least_load": least_loads(kinds, rate_per_s)}


def fig1a(row: PaperRow, slo_ms: int, size: Size) -> Answer:
    """Serve ResNet-50 with and without its early exits at 25/s: single samples, and adaptive batching on R.

    Busy MAC efficiency alone is of interest: at that rate a ZC706 keeps up with neither.
    """
    serving = hardware(row)["R"].serving
    none = dataclasses.replace(serving, exit_rates=(0.0,) * (serving.latency.stages - 1) + (1.0,))
    load = RequestLoad.of_sweep(FIG_1_PER_S, slo_ms * 10**6, size)
    out: Answer = {}
    for name, table in (("with exits", serving), ("without", none)):
        merged = {
            policy: merge_metrics(runs)
            for policy, runs in compare_at(load, table, ("serial", *ADAPTIVE)).metrics.items()
        }
        out[name] = {
            policy: {key: mean_low_high(metrics[key]) for key in ("busy_mac_efficiency_pct", "mean_batch")}
            for policy, metrics in merged.items()
        }
    return out


def least_loads(kinds: Mapping[str, BatchingHardware], rate_per_s: float) -> dict[str, float | None]:
    """Give the share of time that each kind of hardware is busy at best; `SERIAL` is fluid hardware with
    single samples.
    """
    fluid = kinds["fluid"].serving
    single = dataclasses.replace(fluid, latency=LatencyTable(ns=tuple(row[:1] for row in fluid.latency.ns)))
    servings = {kind: kind_.serving for kind, kind_ in kinds.items()} | {"SERIAL": single}
    return {kind: significant(serving_.least_load(rate_per_s)) for kind, serving_ in servings.items()}


def map_column(row: PaperRow, load: float, size: Size) -> Answer:
    """Serve one load of the map: for each objective and yardstick the best policy, and those not told apart
    from it.
    """
    rate = load / row.serving.least_load(1.0)
    alone = one_sample_ns(row.serving)
    objectives: Answer = {}
    for multiple in MAP_SLOS:
        comparison = compare_at(RequestLoad.of_sweep(rate, round(multiple * alone), size), row.serving, MAPPED)
        steady = [name for name in MAPPED if not comparison.unstable(name)]
        objectives[f"{multiple:g}"] = {key: _best(comparison, steady, key) for key in YARDSTICKS}
    return {"rate_per_s": significant(rate), "alone_ms": significant(alone / 1e6), "objectives": objectives}


def _best(comparison: Comparison, steady: Sequence[str], key: str) -> Answer:
    if not steady:
        return {"best": None, "value": None, "equal": []}
    means = {name: merge_metrics(comparison.metrics[name])[key].mean for name in steady}
    best = min(means, key=lambda name: means[name])
    gaps = {name: paired_differences(comparison, name, best)[key] for name in steady if name != best}
    equal = [name for name, gap in gaps.items() if gap[1] is None or gap[1] <= 0 or gap[0] == 0]
    return {"best": best, "value": significant(means[best]), "equal": equal}


def accuracy(threshold: float, size: Size) -> Answer:
    """Serve the shipped network's real confidences: the accuracy that anytime answers cost."""
    recorded, design = record_images()
    limits = (*[threshold] * (design.stages - 1), 0.0)
    serving = Serving.of(design, recorded.exit_rates(limits))
    rate, slo_ns = 0.75 / serving.least_load(1), 4 * one_sample_ns(serving)
    source = Source(rate_per_s=rate, slo_ns=slo_ns, count=size.sweep_requests, recorded=recorded, thresholds=limits)
    streams = compare_streams(serving, ACCURACY_POLICIES, source, seeds=size.seeds)
    policies = policy_cells(streams.comparison)
    for name, cells in policies.items():
        cells["accuracy_pct"] = mean_low_high(streams.accuracy_pct[name])
        cells["accuracy_lost_points"] = mean_low_high(streams.accuracy_lost_points[name])
    return {
        "exit_rates": [significant(x) for x in serving.exit_rates],
        "rate_per_s": significant(rate),
        "slo_ms": significant(slo_ns / 1e6),
        "policies": policies,
    }


def one_sample_ns(serving: Serving) -> int:
    """Time of one sample alone, through all stages."""
    return serving.latency.between(0, serving.latency.stages - 1, 1)
