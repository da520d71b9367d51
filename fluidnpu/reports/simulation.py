"""The page of one comparison (`simulate --report`): table, latencies, batch sizes, batches over time,
decisions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from fluidnpu.scheduler import Serving
from fluidnpu.scheduler.comparison import Source, StreamComparison
from fluidnpu.scheduler.simulation import Interval, merge_metrics
from fluidnpu.studies.drawing import (
    decisions_from,
    first_merge,
    first_schedules,
    inline_figure,
    inline_panels,
    looks,
    page_template,
    schedule_timeline,
)

from .. import show, words
from .remarks import remarks
from .scheduling_figures import batch_bars, latency_distribution

WORDS = (
    "policy",
    "violations %",
    "average ms",
    "p99 ms",
    "goodput",
    "mean batch",
    "NPU busy %",
    "busy MAC eff. %",
    "anytime",
    "shed %",
    "accuracy %",
    "points lost",
    "unstable",
)


def render_simulation(serving: Serving, source: Source, streams: StreamComparison, policies: Sequence[str]) -> str:
    """Render one comparison; distributions, timelines and decisions are those of the first seed."""
    comparison, look = streams.comparison, looks(policies)
    schedules = first_schedules(serving, source, policies)
    merges = (first_merge(schedule, at_least=3) for schedule in schedules.values())
    first = next((index for index in merges if index is not None), 0)
    steady = {name: schedule for name, schedule in schedules.items() if not comparison.unstable(name)}
    latencies = {name: [r.latency_ns / 1e6 for r in schedule.records] for name, schedule in steady.items()}
    batches = {name: np.sum([m.batches for m in runs], axis=0) for name, runs in comparison.metrics.items()}
    shares = {name: list(100 * b / max(b.sum(), 1)) for name, b in batches.items()}
    exits = tuple(f"exit {k}" for k in range(1, serving.latency.stages + 1))
    slo_ms = comparison.slo_ns / 1e6
    return page_template(__package__, "simulation.html.j2").render(
        c=comparison,
        streams=streams,
        remarks=remarks(comparison),
        pm=plus_minus,
        rows=[(name, merge_metrics(runs), comparison.unstable(name)) for name, runs in comparison.metrics.items()],
        distributions=inline_panels(
            {
                **({"Latency by policy": latency_distribution(latencies, slo_ms, look)} if latencies else {}),
                "Batch sizes by policy": batch_bars(shares, look),
            }
        ),
        words=words.explain_words(WORDS),
        timelines=[
            (name, inline_figure(schedule_timeline(done, first, exits), f"Batches over time, {name}"))
            for name, done in schedules.items()
        ],
        excerpts=[(name, decisions_from(done, first)) for name, done in schedules.items()],
    )


def plus_minus(value: Interval, digits: int | None = None) -> Markup:
    """Write mean and half-width, the latter in the page's lighter ink."""
    mean, _, half = show.plus_minus(value, digits).partition(" ± ")
    return Markup('{} <span class="pm">± {}</span>').format(mean, half) if half else Markup.escape(mean)
