"""`fluidnpu simulate --tenants FILE.toml`: tenants that share an NPU, and what each of them gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fluidnpu import models, scheduler
from fluidnpu.scheduler import exits, tenants

from .. import show
from ..errors import UsageError
from .circumstances import Circumstances, record_network

NAMELESS = "(others)"


def read_recorded(tenancy: tenants.Tenancy, path: Path) -> dict[str, exits.Recorded]:
    """Read the recorded confidences that a file of tenants names, beside it, by network.

    A network that it names is run on its images. Raises FileError and SchedulerError.
    """
    found = {}
    for name, text in tenancy.confidences.items():
        file = path.parent / text
        if file.suffix == ".onnx":
            found[name] = record_network(file, None)[0]
        else:
            found[name] = exits.read_confidence_file(models.regular_file(file))
    return found


def read_tenancy(path: Path) -> tenants.Tenancy:
    """Read a file of tenants. Raises SchedulerError and FileError in one sentence."""
    return tenants.parse_tenants(models.read_text(path, "tenants in TOML"), str(path))


def simulate_tenants(
    options: Circumstances, path: Path, policies: Sequence[str], *, seeds: int, explain: bool, as_json: bool
) -> None:
    """Serve all tenants together over seeds, and print a row a tenant."""
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
    with show.progress(out, "simulating tenants") as step:
        found = tenants.compare_tenants(
            hosted,
            tenancy,
            policy,
            requests=options.requests,
            seeds=seeds,
            slo_ns=slo_ns,
            progress=step,
        )
    network = tenants.network_of_tenants(tenancy, [one.name for one in hosted])
    profiles = [exits.ExitProfile.of_stages(one.serving.latency, one.serving.macs) for one in hosted]
    warnings = [text for one in tenancy.tenants for text in warned(one, profiles[network[one.name]])]
    if as_json:
        show.emit(found.to_dict() | ({"warnings": warnings} if warnings else {}), sort=False)
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
    columns += ["accuracy %"] if any(one.recorded is not None for one in hosted) else []
    rows = []
    for name, runs in found.tenants.items():
        one = next(tenant for tenant in tenancy.all if tenant.name == name)
        cells = [one.network] if len(hosted) > 1 else []
        cells += [f"{100 * one.share:.0f}", show.plus_minus(found.interval(name, "npu_pct"), 1)]
        cells += [show.plus_minus(found.interval(name, "violations_pct"), 1)]
        cells += [show.plus_minus(found.interval(name, key)) for key in ("average_ms", "p99_ms")]
        cells += [show.number(found.interval(name, "shed_pct").mean, ".1f")]
        if runs[0].accuracy_pct is not None:
            cells.append(show.plus_minus(found.interval(name, "accuracy_pct"), 2))
        rows.append((name or NAMELESS, *cells))
    out.print(show.table(f"{found.name}: {len(rows)} tenants of {policy} (simulated)", columns, rows))
    out.print(
        f"[dim]Jain's index of NPU time over share {found.jain.mean:.3f}; NPU busy {found.busy_pct.mean:.1f} %; "
        f"{found.mixed_pct.mean:.1f} % of the runs with samples of several tenants[/]"
    )
    for name, text in found.criteria.items():
        out.print(f"[dim]{name or NAMELESS} leaves where: {escape(text)}[/]")
    if explain:
        show.explain(out, columns)


def read_hosted(options: Circumstances, tenancy: tenants.Tenancy, path: Path) -> list[tenants.Hosted]:
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
        return [tenants.Hosted(serving=serving, name=name, recorded=given, usual=usual)]
    if options.confidences is not None or options.exit_rates is not None:
        raise UsageError(
            "--confidences and --exit-rates are of one network: name those of several in the tenants' file, as "
            "confidences in the table [network.NAME]"
        )
    usual = None if options.criteria is None else exits.parse_criterion(options.criteria)
    hosted = []
    for index, part in enumerate(design.parts):
        own = recorded.get(part.network)
        rates = None if own is None else (1 / part.stages,) * part.stages
        serving = scheduler.Serving.of(design.part(index), part.exit_rates or rates)
        hosted.append(tenants.Hosted(serving=serving, name=part.network, recorded=own, usual=usual))
    return hosted


def warned(one: tenants.Tenant, profile: exits.ExitProfile) -> list[str]:
    """Give the warnings about the criterion of a tenant."""
    if one.criterion is None:
        return []
    return [f"tenant '{one.name}': {warning}" for warning in exits.warnings_of(one.criterion, profile)]
