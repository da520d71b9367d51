"""`fluidnpu simulate --adapt PLAN.npz`: a load that changes, with fixed exits and with adaptation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fluidnpu import scheduler
from fluidnpu.scheduler import tuning

from .. import show
from ..errors import UsageError
from .circumstances import Circumstances

LOADED_HALF = 0.5  # of what the selected exits can serve: the load where no rate is named
SLO_OVER_LATENCY = 5


def drift_simulated(options: Circumstances, plan_file: Path, drift: str, policy: str, *, seed: int, as_json: bool) -> None:
    """Serve the plan's samples, a third of them of hard or easy classes alone, and print what happened."""
    if options.table is not None:
        raise UsageError("a plan has the times of its selection, so --adapt takes no DESIGN or TABLE.json")
    out = show.console(as_json)
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
        step(0, 1)
        found = tuning.simulate_drift(
            plan, drift, rate_per_s=rate, slo_ns=slo_ns, requests=options.requests, policy=policy, seed=seed
        )
        step(1, 1)
    if as_json:
        show.emit({"rate_per_s": rate, "slo_ms": slo_ns / 1e6, **dataclasses.asdict(found)}, sort=False)
        return
    rows = []
    for name, phases in (("fixed", found.fixed), ("adapting", found.adapted)):
        for phase in phases:
            rows.append(
                (
                    name if phase is phases[0] else "",
                    phase.name,
                    f"{100 * phase.early:.1f} %",
                    f"{100 * phase.kept:.2f} %",
                    f"{phase.average_ms:.3f}",
                    f"{phase.p99_ms:.3f}",
                )
            )
    classes = ", ".join(map(str, found.classes))
    title = f"{options.requests} requests at {rate:.0f}/s, the middle third of classes {classes} (simulated)"
    out.print(show.table(title, ("exits", "load", "left early", "precision kept", "average ms", "p99 ms"), rows, left=2))
    for event in found.events:
        out.print(f"request {event.requests}, {event.kind}: {event.why}")
        out.print(f"  [dim]{event.exits}[/]")
    if drift != "none":
        said = "was not noticed" if found.noticed is None else f"was noticed after {found.noticed} requests"
        out.print(f"the change of the load {said}; samples that ran on took {found.shadow_pct:.1f} % more NPU time")
    out.print("[dim]samples are drawn from the plan's own, so before and after are in-sample[/]")
