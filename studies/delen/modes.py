"""The modes of one application, and what each does to the same requests and samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidnpu.scheduler import Request, Serving, make_policy, measure, poisson
from fluidnpu.scheduler.comparison import tally_stream
from fluidnpu.scheduler.exits import (
    NEVER,
    Bound,
    Criteria,
    Criterion,
    RuledExits,
    make_mode,
    oracle_exits,
    parse_criterion,
)
from fluidnpu.scheduler.simulation import interval

from ..running.study import Size
from ..writing import mean_low_high
from .settings import SLO_MS, THRESHOLD, UTILISATION, profile, requests_of, samples, seeds_of, table

LIMIT = f"next_response_time > {SLO_MS}ms"
MODES = {
    "full": "the last exit, always",
    f"response > {SLO_MS} ms": "per request: the first exit after the time",
    f"C > {THRESHOLD}": "per request: the first confident exit",
    "either": "per request: whichever comes first",
    "per-workload": "one exit for all, the deepest that the rate allows",
    "Pareto": "thresholds of least error that the rate allows",
    "Pareto or limit": "ours: Pareto, joined with the request's own limit",
    "oracle": "the first right exit: a bound",
}


def criterion_of(mode: str, rate_per_s: float, network: str = "img1", share: float = 1.0) -> Criterion:
    """Return the criterion of a mode at a request rate; the oracle has none."""
    budget_ns = UTILISATION * share / rate_per_s * 1e9
    fixed = {
        "full": "false",
        f"response > {SLO_MS} ms": f"response_time > {SLO_MS}ms",
        f"C > {THRESHOLD}": f"confidence > {THRESHOLD}",
        "either": f"response_time > {SLO_MS}ms or confidence > {THRESHOLD}",
    }
    if mode in fixed:
        return parse_criterion(fixed[mode])
    if mode == "per-workload":
        return make_mode("per-workload", profile(network), NEVER).criterion(budget_ns)
    limit = parse_criterion(LIMIT) if mode == "Pareto or limit" else NEVER
    return make_mode("pareto", profile(network), limit, samples(network, "select")).criterion(budget_ns)


def serve_mode(mode: str, rate_per_s: float, size: Size) -> dict[str, Any]:
    """Serve Poisson requests one by one under a mode; seeds and samples are the same for every mode.

    `answered_per_s`: answers that left by the time of the last arrival, over that time.
    """
    test, stages = samples("img1", "test"), table().stages
    serving = Serving(latency=table(), exit_rates=(1 / stages,) * stages)
    rows: list[dict[str, float]] = []
    shares = []
    for seed in seeds_of(size):
        count = requests_of(size)
        requests = poisson(rate_per_s, count, slo_ns=SLO_MS * 10**6, rng=np.random.default_rng([76, seed]))
        drawn = test.draw_samples(count, np.random.default_rng([77, seed]))
        tally = tally_stream(serving, make_policy("serial"), requests, _exits(mode, rate_per_s, requests, drawn))
        metrics = measure(tally)
        last = int(tally.arrival_ns[-1])
        rows.append(
            {
                "accuracy_pct": test.accuracy_pct(tally, drawn),
                "average_ms": metrics.average_ms,
                "p99_ms": metrics.p99_ms,
                "answered_per_s": float((tally.end_ns <= last).sum() / last * 1e9),
                "busy_pct": metrics.busy_pct,
            }
        )
        shares.append(metrics.exit_pct)
    body: dict[str, Any] = {key: mean_low_high(interval([row[key] for row in rows])) for key in rows[0]}
    body["exit_pct"] = [round(float(share), 2) for share in np.mean(shares, axis=0)]
    body["criterion"] = "" if mode == "oracle" else criterion_of(mode, rate_per_s).text
    return body


def _exits(mode: str, rate_per_s: float, requests: list[Request], drawn: np.ndarray[Any, Any]) -> Any:
    test = samples("img1", "test")
    if mode == "oracle":
        return oracle_exits(test)[drawn].tolist()
    bound = Bound(criterion_of(mode, rate_per_s), profile("img1"))
    if not bound.timed:
        return bound.exits_alone({"confidence": np.asarray(test.confidences)})[drawn].tolist()
    confidences = dict(enumerate(np.asarray(test.confidences)[drawn].tolist()))
    return RuledExits(rule=Criteria(bound.profile, bound.criterion), confidences=confidences)
