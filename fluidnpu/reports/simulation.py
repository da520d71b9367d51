"""HTML page of one comparison (`simulate --report`): table, latency distribution, batch sizes, batches over time, decisions and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from fluidnpu.scheduler import (
    Interval,
    Lazy,
    Run,
    Schedule,
    Serving,
    Source,
    StreamComparison,
    Wait,
    innermost,
    make_policy,
    merge_metrics,
    serve,
)
from fluidnpu.studies.drawing.charts import batch_bars, latency_distribution, looks

from .. import show
from .demo import template
from .figures import Bar, SampleRow, batch_timeline

TIMELINE_SAMPLES = 14
EXCERPT = 14  # decisions


@dataclass(frozen=True, kw_only=True)
class Said:
    """One decision for a reader: when (in ms after the excerpt's first), what, on which requests, why."""

    at_ms: float
    what: str
    who: str
    why: str


def render_simulation(
    serving: Serving, source: Source, found: StreamComparison, policies: Sequence[str], remarks: Sequence[str]
) -> str:
    """One comparison as a page; distributions, timelines and decisions are those of the first seed."""
    c, look = found.comparison, looks(policies)
    schedules = first_schedules(serving, source, policies)
    first = interesting(schedules)
    steady = {name: done for name, done in schedules.items() if not c.unstable(name)}
    latencies = {name: [r.latency_ns / 1e6 for r in done.records] for name, done in steady.items()}
    batches = {name: np.sum([m.batches for m in c.metrics[name]], axis=0) for name in c.metrics}
    exits = tuple(f"exit {k}" for k in range(1, serving.latency.stages + 1))
    return template("simulation.html.j2").render(
        c=c,
        found=found,
        remarks=remarks,
        pm=pm,
        rows=[(name, merge_metrics(c.metrics[name]), c.unstable(name)) for name in c.metrics],
        distribution=Markup(latency_distribution(latencies, c.slo_ns / 1e6, look)) if latencies else "",
        batches=Markup(batch_bars({n: list(100 * b / max(b.sum(), 1)) for n, b in batches.items()}, look)),
        timelines=[(name, Markup(timeline(done, first, exits))) for name, done in schedules.items()],
        excerpts=[(name, excerpt(done, first)) for name, done in schedules.items()],
    )


def pm(value: Interval, digits: int | None = None) -> Markup:
    """Mean and half-width, the latter in the page's lighter ink."""
    mean, _, half = show.plus_minus(value, digits).partition(" ± ")
    return Markup('{} <span class="pm">± {}</span>').format(mean, half) if half else Markup.escape(mean)


def first_schedules(serving: Serving, source: Source, policies: Sequence[str]) -> dict[str, Schedule]:
    """What each policy does with the first seed's stream; LazyBatching, which runs by layers, is left out."""
    drawn, setting = source.draw(serving, 0), serving.setting(source.rate_per_s, source.slo_ns)
    made = [make_policy(name, setting) for name in policies]
    return {
        policy.name: serve(serving, policy, drawn.requests, drawn.exits, source.truth)
        for policy in made
        if not isinstance(innermost(policy), Lazy)
    }


def interesting(schedules: Mapping[str, Schedule]) -> int:
    """Index of the request from which on most differs: two before the first merge of a halted batch with newer samples; 0 when nothing merges."""
    for schedule in schedules.values():
        position = {r.id: i for i, r in enumerate(schedule.requests)}
        begun: dict[int, int] = {}
        for number, run in enumerate(schedule.runs):
            if run.stage == 0:
                begun.update(dict.fromkeys(run.ids, number))
            elif len(run.ids) > 2 and len({begun[key] for key in run.ids}) > 1:
                return max(0, min(position[key] for key in run.ids) - 2)
    return 0


def timeline(schedule: Schedule, first: int, exits: tuple[str, ...], samples: int = TIMELINE_SAMPLES) -> str:
    """Who ran when (the paper's Fig. 6), for a stretch of requests."""
    window = {r.id: row for row, r in enumerate(schedule.requests[first : first + samples])}
    rows = [
        SampleRow(
            label=f"request {r.request.id}",
            arrival_us=r.request.arrival_ns / 1e3,
            end_us=r.end_ns / 1e3,
            exit=max(r.exit, 0),
        )
        for r in schedule.records
        if r.request.id in window
    ]
    bars = [
        Bar(row=window[key], start_us=run.start_ns / 1e3, end_us=run.end_ns / 1e3, stage=run.stage, batch=len(run.ids))
        for run in schedule.runs
        for key in run.ids
        if key in window
    ]
    return batch_timeline(rows, bars, exits)


def excerpt(schedule: Schedule, first: int, count: int = EXCERPT) -> list[Said]:
    """The decisions from the arrival of request `first` on, in words."""
    begin = schedule.requests[first].arrival_ns
    chosen = [(at, action) for at, action in schedule.log if at >= begin][:count]
    out = []
    for at, action in chosen:
        who = "" if isinstance(action, Wait) else ", ".join(str(r.id) for r in action.requests)
        if isinstance(action, Run):
            what = f"run stage {action.stage + 1}"
        elif isinstance(action, Wait):
            what = "wait" if action.until_ns is None else f"wait, at most {(action.until_ns - at) / 1e6:.1f} ms"
        else:
            what = type(action).__name__.lower()
        out.append(Said(at_ms=(at - chosen[0][0]) / 1e6, what=what, who=who, why=action.reason))
    return out
