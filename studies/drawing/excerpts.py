"""Excerpts of schedules for readers: the first seed's schedules, the stretch worth a look, its decisions in
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.scheduler import Run, Schedule, Serving, Wait, make_policy, traits_of
from fluidnpu.scheduler.comparison import Source, serve_stream

DECISIONS = 14  # in an excerpt


@dataclass(frozen=True, kw_only=True)
class DecisionExcerpt:
    """One decision for a reader; `at_ms` counts from the first of its excerpt."""

    at_ms: float
    what: str
    who: str  # the requests
    why: str


def first_schedules(serving: Serving, source: Source, policies: Sequence[str]) -> dict[str, Schedule]:
    """Serve the first seed's stream under each policy; policies that run by layers are left out."""
    drawn, setting = source.draw(serving, 0), serving.setting(source.rate_per_s, source.slo_ns)
    made = [make_policy(name, setting) for name in policies]
    return {
        policy.name: serve_stream(serving, policy, drawn.requests, drawn.leave, source.truth)
        for policy in made
        if not traits_of(policy).layers
    }


def first_merge(schedule: Schedule, *, at_least: int = 2) -> int | None:
    """Find where a halted batch first merges with newer samples, in a batch of `at_least` samples.

    Returns the index of the request two before those that merge, so that a stretch from there shows it; None
    without merge.
    """
    position = {r.id: i for i, r in enumerate(schedule.requests)}
    begun: dict[int, int] = {}
    for number, run in enumerate(schedule.runs):
        if run.stage == 0:
            begun.update(dict.fromkeys(run.ids, number))
        elif len(run.ids) >= at_least and len({begun[key] for key in run.ids}) > 1:
            return max(0, min(position[key] for key in run.ids) - 2)
    return None


def decisions_from(schedule: Schedule, first: int) -> list[DecisionExcerpt]:
    """Give the next `DECISIONS` decisions from the arrival of the request at index `first` on, in words."""
    begin = schedule.requests[first].arrival_ns
    chosen = [(at, action) for at, action in schedule.log if at >= begin][:DECISIONS]
    decisions = []
    for at, action in chosen:
        who = "" if isinstance(action, Wait) else ", ".join(str(r.id) for r in action.requests)
        if isinstance(action, Run):
            what = f"run stage {action.stage + 1}"
        elif isinstance(action, Wait):
            what = "wait" if action.until_ns is None else f"wait, at most {(action.until_ns - at) / 1e6:.1f} ms"
        else:
            what = type(action).__name__.lower()
        decisions.append(DecisionExcerpt(at_ms=(at - chosen[0][0]) / 1e6, what=what, who=who, why=action.reason))
    return decisions
