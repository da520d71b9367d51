"""`fluidnpu simulate --tenants FILE.toml`: tenants that share an NPU, and what each of them gets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fluidnpu import models, scheduler
from fluidnpu.scheduler import exits, tenants

from .. import show
from ..errors import UsageError

if TYPE_CHECKING:
    from .simulate import SimulateOptions

NAMELESS = "(others)"


def read_tenancy(path: Path) -> tenants.Tenancy:
    """Read a file of tenants. Raises SchedulerError and FileError in one sentence."""
    return tenants.parse_tenants(models.read_text(path, "tenants in TOML"), str(path))


def simulate_tenants(options: SimulateOptions) -> None:
    """Serve all tenants together over seeds, and print a row a tenant."""
    assert options.tenants is not None
    for option, given in (("--log", options.log), ("--report", options.report), ("--rate", options.rate)):
        if given is not None:
            raise UsageError(f"{option} does not fit --tenants: {_REASONS[option]}")
    if options.traffic != "poisson":
        raise UsageError(f"--traffic must be poisson with --tenants, each at its own rate, not {options.traffic}")
    out = show.console(options.as_json)
    tenancy = read_tenancy(options.tenants)
    names = options.names if options.policies != "serial,greedy,fluid" else ["fluid"]
    if len(names) != 1:
        raise UsageError(f"--policy must be one policy with --tenants, that of each tenant, not {len(names)}")
    serving, recorded, criterion = options.read_table()
    slo_ns = None if options.slo is None else scheduler.parse_duration_ns(options.slo, "--slo")
    with show.progress(out, "simulating tenants") as step:
        found = tenants.compare_tenants(
            serving,
            tenancy,
            names[0],
            requests=options.requests,
            seeds=options.seeds,
            slo_ns=slo_ns,
            recorded=recorded,
            usual=criterion,
            progress=step,
        )
    warnings = warned(tenancy, exits.ExitProfile.of_stages(serving.latency, serving.macs))
    if options.as_json:
        show.emit(found.to_dict() | ({"warnings": warnings} if warnings else {}), sort=False)
        return
    from rich.markup import escape

    for warning in warnings:
        out.print(f"[yellow]warning[/]: {escape(warning)}")
    columns = ["tenant", "share %", "NPU %", "violations %", "average ms", "p99 ms", "shed %"]
    columns += ["accuracy %"] if recorded is not None else []
    rows = []
    for name, runs in found.tenants.items():
        one = next(tenant for tenant in tenancy.all if tenant.name == name)
        cells = [f"{100 * one.share:.0f}", show.plus_minus(found.interval(name, "npu_pct"), 1)]
        cells += [show.plus_minus(found.interval(name, "violations_pct"), 1)]
        cells += [show.plus_minus(found.interval(name, key)) for key in ("average_ms", "p99_ms")]
        cells += [show.number(found.interval(name, "shed_pct").mean, ".1f")]
        if runs[0].accuracy_pct is not None:
            cells.append(show.plus_minus(found.interval(name, "accuracy_pct"), 2))
        rows.append((name or NAMELESS, *cells))
    out.print(show.table(f"{serving.name}: {len(rows)} tenants of {names[0]} (simulated)", columns, rows))
    out.print(
        f"[dim]Jain's index of NPU time over share {found.jain.mean:.3f}; NPU busy {found.busy_pct.mean:.1f} %; "
        f"{found.mixed_pct.mean:.1f} % of the runs with samples of several tenants[/]"
    )
    for name, text in found.criteria.items():
        out.print(f"[dim]{name or NAMELESS} leaves where: {escape(text)}[/]")
    if options.explain:
        show.explain(out, columns)


def warned(tenancy: tenants.Tenancy, profile: exits.ExitProfile) -> list[str]:
    """Give the warnings about the criteria of tenants, each with its tenant."""
    return [
        f"tenant '{one.name}': {warning}"
        for one in tenancy.tenants
        if one.criterion is not None
        for warning in exits.warnings_of(one.criterion, profile)
    ]


_REASONS = {
    "--log": "a decision log is of one policy that is asked again",
    "--report": "its page is of policies side by side",
    "--rate": "each tenant has a rate of its own",
}
