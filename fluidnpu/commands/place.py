"""`fluidnpu place`: a plan for a network on many devices, with its bound and the reason."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import scheduler
from fluidnpu.models import files
from fluidnpu.scheduler import placement

from .. import show
from ..errors import UsageError
from ..options import EXPLAIN, FILE_OUT, FOLDER_OUT, JSON, PATH, is_default, takes
from ..quantities import plain
from .helpers.fleets import read_fleet

if TYPE_CHECKING:
    from rich.console import Console

    from fluidnpu.host.fleet import Bench

    from ..reports.placement import Asked

MICROS = 1_000_000
FORMS = ("stock", "data parallel", "serial", "pipeline", "mix")  # as the planner has them


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """The command line of `fluidnpu place`."""

    fleet: Path
    network: str | None
    slo: str
    rate: float | None
    budget: float | None
    slack: str
    headroom: str
    lost: str | None
    wait_for_links: bool
    gap: str
    nodes: int
    forms: str | None
    measure: int | None
    samples: int
    out: Path | None
    parts: Path | None
    report: Path | None
    explain: bool
    as_json: bool


@click.command("place")
@click.argument("fleet", type=PATH, metavar="FLEET.toml")
@click.option("--network", metavar="NAME", help="network to plan  [default: all of the fleet, side by side]")
@click.option("--slo", default="200ms", show_default=True, metavar="200ms", help="latency objective of every request")
@click.option("--rate", type=float, help="least cost for so many requests a second, instead of most goodput")
@click.option("--budget", type=float, metavar="X", help="most goodput for at most this cost an hour")
@click.option("--slack", default="10%", show_default=True, help="share of the objective that no plan may use")
@click.option("--headroom", default="10%", show_default=True, help="share of every device's time that no plan may use")
@click.option("--lost", metavar="NAME[,NAME...]", help="devices that are gone")
@click.option("--wait-for-links", is_flag=True, help="devices do not compute while they send and receive")
@click.option("--gap", default="0.1%", show_default=True, help="distance from the bound at which a plan is good enough")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="most nodes of branch and bound; more of them take longer and bring value and bound together",
)
@click.option(
    "--forms",
    metavar="FORM[,FORM...]",
    help=f"forms of serving to choose from: {', '.join(FORMS)}  [default: all]",
)
@click.option(
    "--measure",
    type=click.IntRange(min=1),
    metavar="N",
    help="of several networks: run N allocations on simulated NPUs, that of the plan first, and say what each carried",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="--measure: samples of the ensemble, whose every network runs them in each allocation",
)
@click.option("--out", type=FILE_OUT, metavar="PLAN.json", help="where to write the plan")
@click.option(
    "--parts",
    type=FOLDER_OUT,
    metavar="FOLDER",
    help="with --out: where to write the bundles of the parts that the plan cuts, for boards with an address",
)
@click.option("--report", type=FILE_OUT, metavar="FILE.html", help="where to write the plan as a picture, with curves")
@EXPLAIN
@JSON
@takes(PlaceOptions)
def command(options: PlaceOptions) -> None:
    """Plan what runs on which device of a fleet: whole networks, parts in turns, pipelines, or a mix.

    A fleet with several networks is an ensemble: each device takes turns among its networks by planned
    shares, and the rate is that of the whole.

    Every form is solved, the narrowest of the best is taken, and its value stands beside a bound that no plan
    of the space can pass. Rates are planned, not measured.

    Exit code: 0 planned; 1 no plan keeps the objective or carries the rate; 2 bad input.
    """
    if options.parts is not None and options.out is None:
        raise UsageError("--parts are those of a plan that is kept, so it needs --out PLAN.json")
    fleet = read_fleet(options.fleet, options.lost)
    bench = bench_of(fleet, options)
    placed = (
        together(fleet, options)
        if options.network is None and len(fleet.networks) > 1
        else plan_network(fleet, options)
    )
    if options.out is not None:
        files.write_file(options.out, placed.plan.dumps())
    parts = write_parts(options)
    scores = [] if bench is None else measure_allocations(bench, placed.plan, options)
    if options.report is not None:
        from ..reports.placement import render_placement

        files.write_file(options.report, render_placement(fleet, placed, make_question(options)))
    if options.as_json:
        report = {"plan": placed.plan.to_dict(), "forms": [asdict(form) for form in placed.forms], **proof(placed.plan)}
        if scores:
            report["measured"] = scores
        show.emit(report if parts is None else {**report, "parts": [str(part) for part in parts]})
        return
    out = show.console()
    columns = print_placement(out, placed)
    if scores:
        columns += print_measured(out, scores, options.samples)
    if options.explain:
        show.explain(out, columns)
    if options.out is not None:
        out.print(f"plan written to [bold]{options.out}[/]")
    for part in parts or ():
        out.print(f"part written to [bold]{part}[/]: serve {part.name}={part} where the plan has it")
    if parts == []:
        out.print("the plan cuts no network, so no part was written")
    if options.report is not None:
        out.print(f"report written to [bold]{options.report}[/]")


def bench_of(fleet: placement.Fleet, options: PlaceOptions) -> Bench | None:
    """Make ready to measure, before anything is planned; None where that was not asked for.

    Raises UsageError and DriverUsageError.
    """
    if options.measure is None:
        if not is_default("samples"):
            raise UsageError("--samples are those of --measure N")
        return None
    if options.network is not None:
        raise UsageError("--measure is for allocations of several networks, and --network names one")
    from fluidnpu.host.fleet import Bench

    bench = Bench(fleet=fleet, folder=options.fleet.parent, samples=options.samples)
    bench.check(options.measure)
    return bench


def measure_allocations(bench: Bench, plan: placement.Plan, options: PlaceOptions) -> list[dict[str, Any]]:
    """Run allocations and say what each carried, the plan's first. Raises DriverUsageError."""
    with show.progress(show.console(options.as_json), "measuring") as step:
        scores = bench.scores(bench.candidates(bench.matrix_of(plan), options.measure or 1), step)
    return [
        {
            "allocation": bench.named(score.matrix),
            "measured_per_s": score.measured_per_s,
            "planned_per_s": score.planned_per_s,
        }
        for score in scores
    ]


def print_measured(out: Console, scores: list[dict[str, Any]], samples: int) -> list[str]:
    """Print a row an allocation; return the heads of the columns."""
    heads = ["allocation", "measured/s", "by shares/s", "device: network x batch"]
    best = max(score["measured_per_s"] for score in scores)
    rows = [
        (
            "plan" if index == 0 else str(index),
            f"[bold]{plain(score['measured_per_s'])}[/]"
            if score["measured_per_s"] == best
            else plain(score["measured_per_s"]),
            plain(score["planned_per_s"]),
            "; ".join(
                f"{device}: {', '.join(f'{name} x {batch}' for name, batch in row.items()) or 'idle'}"
                for device, row in score["allocation"].items()
            ),
        )
        for index, score in enumerate(scores)
    ]
    out.print(show.table(f"Measured on simulated NPUs, {samples} samples of all networks", heads, rows))
    return heads


def write_parts(options: PlaceOptions) -> list[Path] | None:
    """Write the bundles of the plan's parts; None where they were not asked for.

    Raises what reading the fleet to serve it raises.
    """
    if options.parts is None:
        return None
    from fluidnpu.host.fleet import Roster

    return Roster.read(options.fleet, options.out).write_parts(options.parts)


def make_question(options: PlaceOptions) -> Asked:
    """Give the question for the report, which asks it again at other rates. Raises UsageError."""
    from ..reports.placement import Asked

    return Asked(
        network=options.network,
        slo_ns=scheduler.parse_duration_ns(options.slo, "--slo"),
        slack=share("--slack", options.slack),
        headroom=share("--headroom", options.headroom),
        nodes=options.nodes,
        rate_per_s=options.rate,
        budget_micros=None if options.budget is None else round(options.budget * MICROS),
        overlap=not options.wait_for_links,
    )


def together(fleet: placement.Fleet, options: PlaceOptions) -> placement.Placement:
    """Plan all networks of a fleet side by side. Raises UsageError and the errors of `scheduler`."""
    if options.forms is not None:
        raise UsageError("--forms are those of one network; name it with --network")
    if options.rate is not None or options.budget is not None:
        raise UsageError("--rate and --budget are for one network; name it with --network")
    plan = placement.place_together(
        fleet,
        slo_ns=scheduler.parse_duration_ns(options.slo, "--slo"),
        slack=share("--slack", options.slack),
        headroom=share("--headroom", options.headroom),
        nodes=options.nodes,
    )
    return placement.Placement(plan=plan, forms=())


def plan_network(fleet: placement.Fleet, options: PlaceOptions) -> placement.Placement:
    """Plan one network. Raises UsageError and the errors of `scheduler`."""
    if options.rate is not None and options.budget is not None:
        raise UsageError("--rate asks for least cost and --budget for most goodput; give one of them")
    for name, value in (("--rate", options.rate), ("--budget", options.budget)):
        if value is not None and not 0 < value < 1e12:
            raise UsageError(f"{name} must be above zero, not {value:g}")
    return placement.place(
        fleet,
        options.network,
        slo_ns=scheduler.parse_duration_ns(options.slo, "--slo"),
        rate_per_s=options.rate,
        budget_micros=None if options.budget is None else round(options.budget * MICROS),
        slack=share("--slack", options.slack),
        headroom=share("--headroom", options.headroom),
        overlap=not options.wait_for_links,
        gap=max(1e-9, share("--gap", options.gap)),
        nodes=options.nodes,
        forms=FORMS if options.forms is None else tuple(form.strip() for form in options.forms.split(",")),
    )


def share(option: str, text: str) -> float:
    """Read a share in per cent, or as a number below 1. Raises UsageError.

    >>> share("--slack", "10%"), share("--slack", "0.1")
    (0.1, 0.1)
    """
    if not re.fullmatch(r"[0-9]*\.?[0-9]+%?", text.strip()):
        raise UsageError(f"{option} must be a share such as 10%, not '{text}'")
    value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    if not 0 <= value < 1:
        raise UsageError(f"{option} must be a share of 0 to below 100%, not '{text}'")
    return value


def proof(plan: placement.Plan) -> dict[str, Any]:
    """Give value, bound and gap of a plan."""
    goodput = plan.objective != "cost"
    return {
        "value": plan.rate_per_s if goodput else plan.cost_micros / MICROS,
        "bound": plan.bound_per_s if goodput else plan.bound_micros / MICROS,
        "gap_pct": plan.gap_pct,
        "form": plan.form,
    }


def print_placement(out: Console, placed: placement.Placement) -> list[str]:
    """Print the forms, the pools of the plan, value, bound, gap and reasons; return the heads of the
    columns.
    """
    plan = placed.plan
    heads = ["form", "planned requests/s", "cost an hour", "longest ms", "devices"]
    rows = [
        (form.name, "-", "-", "-", form.why)
        if form.why
        else (
            f"[bold]{form.name}[/]" if form.name == plan.method else form.name,
            plain(form.rate_per_s),
            plain(form.cost_micros / MICROS, 4),
            plain(form.latency_ns / 1e6, 4),
            str(form.devices),
        )
        for form in placed.forms
    ]
    if rows:
        out.print(show.table("Forms of serving (planned, on simulated or measured times)", heads, rows))
        out.print()
    columns = ["pool", "type", "devices", "network", "blocks", "batch", "ramps", "time share", "entering/s"]
    out.print(show.table(f"The plan: {plan.form}", columns, list(pool_rows(plan)), left=2))
    value = proof(plan)
    unit = "an hour" if plan.objective == "cost" else "planned requests/s"
    out.print(
        f"\nvalue {plain(value['value'], 6)} {unit}, bound {plain(value['bound'], 6)}, gap {value['gap_pct']:.2f} %: "
        f"no plan of the space can be better by more"
    )
    if plan.objective == "cost":
        out.print(f"carries {plain(plan.rate_per_s, 6)} planned requests/s")
    for note in plan.notes:
        out.print(f"[dim]{note}[/]")
    return [*heads, *columns]


def pool_rows(plan: placement.Plan) -> list[tuple[str, ...]]:
    """Give a row a job."""
    rows: list[tuple[str, ...]] = []
    for index, pool in enumerate(plan.pools):
        for turn, job in enumerate(pool.jobs):
            first = turn == 0
            rows.append(
                (
                    str(index) if first else "",
                    pool.type if first else "",
                    list_names(pool.devices) if first else "in turns",
                    job.network,
                    f"{job.first}..{job.last}",
                    str(job.batch),
                    job.ramps,
                    f"{plain(100 * job.weight, 3)} %",
                    plain(job.rate_per_s, 4),
                )
            )
    return rows


def list_names(devices: tuple[str, ...]) -> str:
    """Write a few names, or how many there are.

    >>> list_names(("a", "b")), list_names(tuple("abcdef"))
    ('a, b', '6: a ... f')
    """
    return ", ".join(devices) if len(devices) <= 3 else f"{len(devices)}: {devices[0]} ... {devices[-1]}"
