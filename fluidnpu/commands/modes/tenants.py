"""`fluidnpu simulate --tenants FILE.toml`: tenants that share an NPU, and what each of them gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fluidnpu import models, scheduler
from fluidnpu.scheduler import comparison, exits, tenants

from ... import show
from ...errors import UsageError
from ...options import numbers, read_power
from ..helpers.circumstances import Circumstances, record_network

if TYPE_CHECKING:
    from rich.console import Console

NAMELESS = "(others)"


def read_recorded(tenancy: tenants.Tenancy, path: Path) -> dict[str, exits.Recorded]:
    """Read the recorded confidences that a file of tenants names, beside it, by network.

    A network that it names is run on its images. Raises FileError and SchedulerError.
    """
    results = {}
    for name, text in tenancy.confidences.items():
        file = path.parent / text
        if file.suffix == ".onnx":
            results[name] = record_network(file, None)[0]
        else:
            results[name] = exits.read_confidence_file(models.regular_file(file))
    return results


def read_tenancy(path: Path) -> tenants.Tenancy:
    """Read a file of tenants. Raises SchedulerError and FileError in one sentence."""
    return tenants.parse_tenants(models.read_text(path, "tenants in TOML"), str(path))


def simulate_tenants(
    options: Circumstances,
    path: Path,
    policies: Sequence[str],
    *,
    budgets: str | None,
    seeds: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Serve all tenants together over seeds, and print a row a tenant, or with `budgets` a row a budget.

    Raises UsageError for options that do not fit.
    """
    if options.rate is not None:
        raise UsageError("--rate does not fit --tenants: each tenant has a rate of its own")
    if options.traffic != "poisson":
        raise UsageError(f"--traffic must be poisson with --tenants, each at its own rate, not {options.traffic}")
    if len(policies) != 1:
        raise UsageError(f"--policy must be one policy with --tenants, that of each tenant, not {len(policies)}")
    out, policy = show.console(as_json), policies[0]
    tenancy = read_tenancy(path)
    hosted = read_hosted(options, tenancy, path)
    slo_ns = None if options.slo is None else scheduler.parse_duration_ns(options.slo, "--slo")
    power = read_power(options.power) or hosted[0].serving.power

    def compared(of: tenants.Tenancy, step: show.ProgressStep) -> comparison.TenantComparison:
        return comparison.compare_tenants(
            hosted,
            of,
            policy,
            requests=options.requests,
            seeds=seeds,
            slo_ns=slo_ns,
            power=power,
            progress=step,
        )

    if budgets is not None:
        over_idle = numbers("--budgets", budgets) or ()
        if tenancy.energy is None:
            raise UsageError(f"--budgets needs the table [energy] in '{path}', whose battery they fill")
        tenancies = [
            dataclasses.replace(tenancy, energy=dataclasses.replace(tenancy.energy, over_idle=x)) for x in over_idle
        ]
        with show.progress(out, "simulating budgets") as step:
            _print_budgets(out, [compared(tenancy_, step) for tenancy_ in tenancies], tenancies, as_json=as_json)
        return
    with show.progress(out, "simulating tenants") as step:
        results = compared(tenancy, step)
    network = tenants.network_of_tenants(tenancy, [part.name for part in hosted])
    profiles = [exits.ExitProfile.of_stages(part.serving.latency, part.serving.macs) for part in hosted]
    warnings = [text for tenant in tenancy.tenants for text in list_warnings(tenant, profiles[network[tenant.name]])]
    warnings += [
        f"tenant '{tenant.name}': its target accuracy of {tenant.accuracy:g} is infeasible, so its share alone decides"
        for tenant in tenancy.tenants
        if tenant.name in results.infeasible
    ]
    if as_json:
        show.emit(results.to_dict() | ({"warnings": warnings} if warnings else {}), sort=False)
        return
    from rich.markup import escape

    for warning in warnings:
        out.print(f"[yellow]warning[/]: {escape(warning)}")
    columns = [
        "tenant",
        *(["network"] if len(hosted) > 1 else []),
        "share %",
        "NPU %",
        "violations %",
        "average ms",
        "p99 ms",
        "shed %",
    ]
    columns += ["accuracy %"] if any(part.recorded is not None for part in hosted) else []
    rows = []
    for name, runs in results.tenants.items():
        owner = next(tenant for tenant in tenancy.all if tenant.name == name)
        cells = [owner.network] if len(hosted) > 1 else []
        cells += [f"{100 * owner.share:.0f}", show.plus_minus(results.interval(name, "npu_pct"), 1)]
        cells += [show.plus_minus(results.interval(name, "violations_pct"), 1)]
        cells += [show.plus_minus(results.interval(name, key)) for key in ("average_ms", "p99_ms")]
        cells += [show.number(results.interval(name, "shed_pct").mean, ".1f")]
        if runs[0].accuracy_pct is not None:
            cells.append(show.plus_minus(results.interval(name, "accuracy_pct"), 2))
        rows.append((name or NAMELESS, *cells))
    out.print(show.table(f"{results.name}: {len(rows)} tenants of {policy} (simulated)", columns, rows))
    out.print(
        f"[dim]Jain's index of NPU time over share {results.jain.mean:.3f}; NPU busy {results.busy_pct.mean:.1f} %; "
        f"{results.mixed_pct.mean:.1f} % of the runs with samples of several tenants[/]"
    )
    if tenancy.energy is not None and results.power_over_idle is not None:
        out.print(
            f"[dim]mean power over the idle one {results.power_over_idle.mean:.3f} of {tenancy.energy.over_idle:g} that "
            "the budget allows (modelled)[/]"
        )
    for name, text in results.criteria.items():
        out.print(f"[dim]{name or NAMELESS} leaves where: {escape(text)}[/]")
    if explain:
        show.explain(out, columns)


def _print_budgets(
    out: Console, results: Sequence[comparison.TenantComparison], tenancies: Sequence[tenants.Tenancy], *, as_json: bool
) -> None:
    """Print a row a budget: what was spent over the idle power, and what it bought."""
    rows, body = [], []
    for result, tenancy in zip(results, tenancies, strict=True):
        assert result.power_over_idle is not None
        assert tenancy.energy is not None
        row = result.over_all()
        body.append({"over_idle": tenancy.energy.over_idle, **result.to_dict()})
        rows.append(
            (
                f"{tenancy.energy.over_idle:g}",
                f"{result.power_over_idle.mean:.3f}",
                f"{result.busy_pct.mean:.1f}",
                f"{row['violations_pct']:.1f}",
                f"{row['p99_ms']:.3g}",
                *([f"{row['accuracy_pct']:.2f}"] if "accuracy_pct" in row else []),
            )
        )
    if as_json:
        show.emit({"budgets": body}, sort=False)
        return
    columns = ["budget over idle", "spent over idle", "NPU busy %", "violations %", "worst p99 ms", "accuracy %"]
    out.print(show.table("energy budgets (modelled power, simulated time)", columns[: len(rows[0])], rows))


def read_hosted(options: Circumstances, tenancy: tenants.Tenancy, path: Path) -> list[comparison.Hosted]:
    """Read the networks that serve the tenants: that of a table, or those of a design for several.

    Raises UsageError, SchedulerError and FileError.
    """
    recorded = read_recorded(tenancy, path)
    design = options.read_parts()
    if design is None:
        serving, given, usual = options.read_table()
        name = tenancy.networks[0] if len(tenancy.networks) == 1 else ""
        if len(tenancy.networks) > 1:
            raise UsageError(f"'{path}' names {len(tenancy.networks)} networks, and '{options.table}' is for one")
        given = next(iter(recorded.values()), None) if given is None else given
        return [comparison.Hosted(serving=serving, name=name, recorded=given, usual=usual)]
    if options.confidences is not None or options.exit_rates is not None:
        raise UsageError(
            "--confidences and --exit-rates are of one network: name those of several in the tenants' file, as "
            "confidences in the table [network.NAME]"
        )
    usual = None if options.criteria is None else exits.parse_criterion(options.criteria)
    hosted = []
    for index, part in enumerate(design.parts):
        own = recorded.get(part.network)
        of_part = [tenant for tenant in tenancy.tenants if tenant.network == part.network]
        ruled = own is not None or usual is not None or all(tenant.criterion is not None for tenant in of_part)
        rates = tenancy.exit_rates.get(part.network, part.exit_rates)
        if rates is None and ruled:  # believed until criteria show others
            rates = (1 / part.stages,) * part.stages
        if rates is None:
            raise UsageError(
                f"how many samples of '{part.network}' leave at each exit is not known: say it in '{path}', as "
                f"exit_rates or confidences in the table [network.{part.network}], or give its tenants criteria"
            )
        serving = scheduler.Serving.of(design.part(index), rates)
        hosted.append(comparison.Hosted(serving=serving, name=part.network, recorded=own, usual=usual))
    return hosted


def list_warnings(tenant: tenants.Tenant, profile: exits.ExitProfile) -> list[str]:
    """Give the warnings about the criterion of a tenant."""
    if tenant.criterion is None:
        return []
    return [f"tenant '{tenant.name}': {warning}" for warning in exits.warnings_of(tenant.criterion, profile)]
