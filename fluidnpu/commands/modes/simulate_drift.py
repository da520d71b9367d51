"""`fluidnpu simulate --adapt PLAN.npz`: a load that changes, with fixed exits and with adaptation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import fmean

from fluidnpu import scheduler
from fluidnpu.scheduler import exits, tuning

from ... import show
from ...errors import UsageError
from ..helpers.circumstances import Circumstances

LOADED_HALF = 0.5  # of what the selected exits can serve: the load where no rate is named
SLO_OVER_LATENCY = 5


def drift_simulated(
    options: Circumstances,
    plan_file: Path,
    drift: str,
    policy: str,
    *,
    certify: str | None = None,
    seeds: int,
    as_json: bool,
) -> None:
    """Serve the plan's samples, a third of them of hard or easy classes alone, and print what happened.

    Raises UsageError for a table of times.
    """
    if options.table is not None:
        raise UsageError("a plan has the times of its selection, so --adapt takes no DESIGN or TABLE.json")
    out = show.console(as_json)
    promise = None if certify is None else exits.Promise.of(certify)
    plan = tuning.AdaptationPlan.read(plan_file)
    times = plan.part_times
    latency = times.latency(plan.exits)
    least = scheduler.Serving(latency=latency, exit_rates=plan.rates).least_load(1.0)
    rate = LOADED_HALF / least if options.rate is None else options.rate
    if options.slo is None:
        slo_ns = SLO_OVER_LATENCY * latency.between(0, latency.stages - 1, 1)
    else:
        slo_ns = scheduler.parse_duration_ns(options.slo, "--slo")
    with show.progress(out, "simulating a drift") as step:
        streams = []
        for seed in range(seeds):
            step(seed, seeds)
            streams.append(
                tuning.simulate_drift(
                    plan,
                    drift,
                    rate_per_s=rate,
                    slo_ns=slo_ns,
                    requests=options.requests,
                    policy=policy,
                    promise=promise,
                    seed=seed,
                )
            )
    if as_json:
        streamed = [dataclasses.asdict(stream) for stream in streams]
        show.emit({"rate_per_s": rate, "slo_ms": slo_ns / 1e6, "streams": streamed}, sort=False)
        return
    rows = []
    ways = {"fixed": [stream.fixed for stream in streams], "adapting": [stream.adapted for stream in streams]}
    ways |= {name: [stream.others[name] for stream in streams] for name in streams[0].others}
    for name, phases in ways.items():
        for same in zip(*phases, strict=True):
            rows.append(
                (
                    name if same[0].name == "before" else "",
                    same[0].name,
                    f"{100 * fmean(stream.early for stream in same):.1f} %",
                    f"{100 * fmean(stream.kept for stream in same):.2f} %",
                    f"{100 * fmean(stream.same for stream in same):.2f} %",
                    f"{fmean(stream.average_ms for stream in same):.3f}",
                    f"{fmean(stream.p99_ms for stream in same):.3f}",
                )
            )
    first, third = streams[0], options.requests // 3
    classes = ", ".join(map(str, first.classes))
    title = (
        f"{options.requests} requests at {rate:.0f}/s, the middle third of classes {classes}; means of {seeds} streams "
        "(simulated)"
    )
    out.print(
        show.table(
            title,
            ("exits", "load", "left early", "precision kept", "as the last exit", "average ms", "p99 ms"),
            rows,
            left=2,
        )
    )
    out.print("adaptation in the first stream:")
    for event in first.events:
        out.print(f"  request {event.requests}, {event.kind}: {event.why}; [dim]{event.exits}[/]")
    early = sum(event.kind == "alarm" and event.requests <= third for stream in streams for event in stream.events)
    out.print(f"alarms before the change: {early} in {seeds * third} requests")
    if drift != "none":
        noticed = [stream.noticed for stream in streams if stream.noticed is not None]
        sentence = (
            f"after {min(noticed)} to {max(noticed)} requests, {fmean(noticed):.0f} on average" if noticed else "never"
        )
        missed = f"; in {seeds - len(noticed)} streams never" if 0 < len(noticed) < seeds else ""
        out.print(f"the change was noticed {sentence}{missed}")
    shadows = fmean(stream.shadow_pct for stream in streams)
    out.print(f"samples that ran on took {shadows:.1f} % more NPU time")
    if promise is not None:
        reports = [stream.certificate for stream in streams]
        kept = [report["whole"]["kept_at_least"] for report in reports]
        out.print(
            f"certified at the end: at least {100 * min(kept):.2f} to {100 * max(kept):.2f} % of the answers are the last "
            f"exit's, where {100 * promise.eta:g} % are promised; {fmean(report['shadows'] for report in reports):.0f} samples ran "
            f"on, {fmean(report['resets'] for report in reports):g} resets"
        )
    out.print("[dim]samples are drawn from the plan's own, so before and after are in-sample[/]")
