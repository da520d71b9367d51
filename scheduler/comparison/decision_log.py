"""A decision log that stands alone: beliefs, requests with their fates, decisions with their reasons.

JSON lines: one header, one line per request in order of arrival, one line per decision. `replay` lets the
engine repeat the decisions and compares the fate of every request; it also asks the policy again and
compares every decision.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10, 15), (10, 15))), exit_rates=(0.5, 0.5))
>>> two = [Request(0, 0, 100), Request(1, 5, 105)]
>>> log, _ = record(what, "greedy", two, [0, 1], rate_per_s=1000, slo_ns=100)
>>> print(replay(log.splitlines()).decisions)
3
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError, SchedulerError
from ..policies.registry import make_policy
from ..policy import Action, Policy, Request, Run, Wait, traits_of
from ..simulation.schedule import Outcome, Replay, Schedule, read_log
from ..simulation.world import LiveExits
from .serving import Serving, Truth, serve_stream

KIND = "fluidnpu decisions"
SCHEMA = 1
_FATE = ("id", "arrival_ns", "deadline_ns", "exit", "end_ns", "left", "outcome")


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """The facts about a log that replays: its policy's name, and the numbers of requests and decisions."""

    policy: str
    requests: int
    decisions: int


def record(
    serving: Serving,
    policy: str,
    requests: Sequence[Request],
    exits: Sequence[int] | LiveExits,
    *,
    rate_per_s: float,
    slo_ns: int,
    truth: Truth | None = None,
    criteria: str = "",
) -> tuple[str, Schedule]:
    """Serve the requests under the named policy; return the log as text, and the schedule.

    Where `criteria` decide the exits, each request's line says for which clause it left. Raises
    SchedulerError.
    """
    made = make_policy(policy, serving.setting(rate_per_s, slo_ns))
    done = serve_stream(serving, made, requests, exits, truth)
    header = {
        "log": KIND,
        "schema": SCHEMA,
        "policy": policy,
        "name": serving.name,
        "latency_ns": [list(row) for row in serving.latency.ns],
        "exit_rates": list(serving.exit_rates),
        "rate_per_s": rate_per_s,
        "slo_ns": slo_ns,
        "latency_factor": truth.latency_factor if truth else 1.0,
        "requests": len(done.requests),
        **({"criteria": criteria} if criteria else {}),
    }
    rows = zip(done.requests, _drawn(exits, done), done.end_ns, done.exit, done.outcome, strict=True)
    fates: list[dict[str, object]] = [
        dict(zip(_FATE, (r.id, r.arrival_ns, r.deadline_ns, e, end, left, int(outcome)), strict=True))
        for r, e, end, left, outcome in rows
    ]
    for fate, because in zip(fates, done.because, strict=False):
        fate["because"] = because
    lines = [*(json.dumps(line, allow_nan=False) for line in (header, *fates)), *done.log_lines()]
    return "\n".join(lines) + "\n", done


def _drawn(exits: Sequence[int] | LiveExits, done: Schedule) -> Sequence[int]:
    """Return the exits that repeat the schedule; of one that did not get as far as its exit, the last."""
    if not isinstance(exits, LiveExits):
        return exits
    last = done.stages - 1
    return [left if o == Outcome.EXIT else last for left, o in zip(done.exit, done.outcome, strict=True)]


def replay(lines: Iterable[str], latency: LatencyTable | None = None) -> Replayed:
    """Check that a log repeats to the same schedule, on another table if one is given.

    Raises SchedulerError for a malformed log, naming the line, and PolicyError at the first thing that
    comes out differently.
    """
    text = list(lines)
    head = _header(text[0] if text else "")
    if latency is not None:
        head = dataclasses.replace(head, serving=dataclasses.replace(head.serving, latency=latency))
    rows = [_fate(line, number) for number, line in enumerate(text[1 : head.requests + 1], 2)]
    if len(rows) != head.requests:
        raise SchedulerError(f"the decision log must hold {head.requests} requests, not {len(rows)}")
    requests = [Request(row["id"], row["arrival_ns"], row["deadline_ns"]) for row in rows]
    exits = [row["exit"] for row in rows]
    log = read_log(text[head.requests + 1 :], requests, first_line=head.requests + 2)
    policy = head.make()
    done = serve_stream(head.serving, Replay(log, traits=traits_of(policy)), requests, exits, head.truth)
    if done.decisions != len(log):
        raise PolicyError(f"the log holds {len(log)} decisions, and its requests are served after {done.decisions}")
    for row, end, left, outcome in zip(rows, done.end_ns, done.exit, done.outcome, strict=True):
        if (row["end_ns"], row["left"], row["outcome"]) != (end, left, outcome):
            raise PolicyError(
                f"request {row['id']} left at exit {row['left']} and {row['end_ns']} ns by the log, "
                f"at exit {left} and {end} ns in the replay"
            )
    again = serve_stream(head.serving, policy, requests, exits, head.truth)
    for number, (old, new) in enumerate(zip(log, again.log, strict=False)):
        if old != new:
            raise PolicyError(
                f"decision {number} was {_said(old)} by the log, and '{head.policy}', asked again, says {_said(new)}"
            )
    return Replayed(policy=head.policy, requests=len(rows), decisions=len(log))


@dataclass(frozen=True, kw_only=True)
class _Header:
    """The first line, understood."""

    policy: str
    serving: Serving
    rate_per_s: float
    slo_ns: int
    truth: Truth
    requests: int

    def make(self) -> Policy:
        """Return the policy, to be asked again."""
        return make_policy(self.policy, self.serving.setting(self.rate_per_s, self.slo_ns))


def _header(line: str) -> _Header:
    try:
        raw = json.loads(line)
        if raw["log"] != KIND or raw["schema"] != SCHEMA:
            raise ValueError(f"it must say {KIND!r} and schema {SCHEMA}")
        return _Header(
            policy=str(raw["policy"]),
            serving=Serving.loads(line, "the decision log's header"),
            rate_per_s=float(raw["rate_per_s"]),
            slo_ns=int(raw["slo_ns"]),
            truth=Truth(latency_factor=float(raw["latency_factor"])),
            requests=int(raw["requests"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchedulerError(f"line 1 of the decision log must be the header that --log writes: {error}") from None


def _fate(line: str, number: int) -> dict[str, int]:
    try:
        raw = json.loads(line)
        row = {key: raw[key] for key in _FATE}
        if not all(type(value) is int for value in row.values()):
            raise ValueError("all of them whole numbers")
        return row
    except (KeyError, TypeError, ValueError):
        raise SchedulerError(
            f"line {number} of the decision log must be a request with {', '.join(_FATE)}, all whole numbers"
        ) from None


def _said(entry: tuple[int, Action]) -> str:
    at, action = entry
    ids = [] if isinstance(action, Wait) else [r.id for r in action.requests]
    what = type(action).__name__.lower() + (f" stage {action.stage}" if isinstance(action, Run) else "")
    return f"'{what} of {ids}' at {at} ns ({action.reason})"
