"""`fluidnpu fleet FILE.toml --http PORT --grpc PORT`: many boards as one server."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import scheduler
from fluidnpu.host import fleet, oip
from fluidnpu.scheduler import exits

from .. import show
from ..errors import UsageError
from ..options import JSON, PATH, takes
from ..quantities import plain
from .helpers.configuration import config_option, place_errors
from .helpers.surfaces import (
    CERTIFY,
    CRITERIA,
    POLICIES,
    PORT,
    RATE,
    SLO,
    TENANTS,
    NetworkOptions,
    Sectioned,
    bounds,
    listening,
    records,
)

if TYPE_CHECKING:
    from rich.console import Console


FORECASTS = ("last", "ewma", "arima")  # as the follower of a plan has them


@dataclass(frozen=True, kw_only=True)
class FleetCommandOptions(NetworkOptions):
    """The command line of `fluidnpu fleet`, as text and numbers."""

    fleet: Path
    plan: Path | None
    replan: bool
    window: str
    forecast: str
    engine: str
    shard: int
    ray_address: str | None
    patience: float
    audit: int
    certify: str | None
    allow_absent: bool
    admin: int | None
    decisions: Path | None
    board_token_file: Path | None


@click.command(
    "fleet",
    cls=Sectioned,
    examples={
        "fluidnpu fleet lab.toml --http 8000": "all networks on all boards",
        "fluidnpu fleet lab.toml --plan p.json --http 8000": "as `fluidnpu place` says",
        "fluidnpu fleet lab.toml --replan --slo 1s --http 0": "as the traffic changes",
        "fluidnpu fleet lab.toml --http 8000 --admin 8002": "boards may be drained",
        "fluidnpu fleet --config front.toml": "options of a file",
    },
    sections={
        "plan": "Which boards do what",
        "http": "Where the front listens",
        "token_file": "Who may ask, and how much",
        "policy": "How it answers",
        "patience": "When a board is given up",
        "engine": "Dispatchers in Ray",
        "decisions": "What it checks and reports",
    },
)
@click.argument("fleet", type=PATH, metavar="FILE.toml")
@config_option
@click.option(
    "--plan",
    type=PATH,
    metavar="PLAN.json",
    help="what runs where, as `place --out` wrote it  [default: every board serves all its networks]",
)
@click.option("--replan", is_flag=True, help="plan again as the traffic changes, live")
@click.option("--window", default="120s", show_default=True, metavar="120s", help="replan: what a forecast counts")
@click.option(
    "--forecast",
    type=click.Choice(FORECASTS),
    default="ewma",
    show_default=True,
    metavar="NAME",
    help=f"replan: {', '.join(FORECASTS)}",
)
@click.option(
    "--allow-absent", is_flag=True, help="start although boards do not answer; each is used as soon as it does"
)
@click.option(
    "--board-token-file", type=PATH, metavar="FILE", help="boards with an address ask for the token in this file"
)
@listening
@click.option(
    "--admin", type=PORT, metavar="PORT", help="REST here may also drain boards, load them anew and change their exits"
)
@bounds
@click.option("--policy", metavar="P[:KEY=VALUE...]", help=f"{POLICIES}  [default: the plan's, else fluid:drain=1]")
@RATE
@SLO
@CRITERIA
@TENANTS
@CERTIFY
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=4.0,
    show_default=True,
    metavar="BATCHES",
    help="predicted batch times of silence after which a board is hung",
)
@click.option(
    "--audit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="one request in N of each board is asked of another, too, to compare the bits; 0: none",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="one dispatcher here, or one a shard of boards, in actors that Ray places and restarts",
)
@click.option(
    "--shard",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="BOARDS",
    help="ray: most boards of one actor",
)
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="ray: of a cluster whose nodes have the resource npu_boards  [default: this machine alone]",
)
@click.option("--decisions", type=PATH, metavar="FOLDER", help="log every decision of each simulated board")
@records
@JSON
@takes(FleetCommandOptions)
def command(options: FleetCommandOptions) -> None:
    """Serve the boards of a fleet file as one server over the Open Inference Protocol v2.

    Boards with an address are reached there, the others are simulated here. SIGTERM drains: all that was
    taken is answered, and simulated boards end. --rate is that of the whole fleet.

    Exit code: 0 drained; 1 a board does not answer; 2 bad input.
    """
    with place_errors():
        surfaces, followed, served = prepare_fleet(options)
    out = show.console(options.as_json)
    oip.configure_logging(options.log_level, requests=options.log_requests)
    fronts: list[fleet.FleetFront] = []

    def opened(limits: oip.Limits, version: str) -> fleet.FleetFront:
        if isinstance(followed, fleet.Followed):
            fronts.append(fleet.FollowingFront(followed, served, limits, version))
        elif isinstance(followed, fleet.Discovery):
            fronts.append(fleet.DiscoveringFront(followed, served, limits, version))
        elif options.engine == "local":
            fronts.append(fleet.FleetFront(followed, served, limits, version))
        else:
            shards = fleet.ShardOptions(boards=options.shard, address=options.ray_address or "")
            file, plan = options.fleet, options.plan
            fronts.append(fleet.ShardedFront(followed, served, limits, version, file=file, plan=plan, shards=shards))
        return fronts[-1]

    oip.run_server(opened, surfaces, lambda server: _started(out, server, fronts[0], options.as_json))
    counts = {model: count.samples for model, count in fronts[0].counts.items()}
    if options.as_json:
        show.emit({"stopped": True, "answered": counts})
    else:
        out.print(f"drained: {sum(counts.values())} samples were answered")


def prepare_fleet(
    options: FleetCommandOptions,
) -> tuple[oip.ServeOptions, fleet.Roster | fleet.Followed | fleet.Discovery, fleet.FleetOptions]:
    """Read everything that the options name. Raises UsageError for options that do not fit, and ValueErrors
    of the rooms.
    """
    surfaces = options.surfaces(admin=options.admin)
    if options.engine == "local" and options.ray_address is not None:
        raise UsageError("--ray-address is for --engine ray")
    followed = _followed(options) if options.replan else None
    roster, discovery = (followed.roster, None) if followed is not None else _roster(options)
    for name, given in (
        ("--criteria", options.criteria),
        ("--tenants", options.tenants),
        ("--certify", options.certify),
    ):
        if given is not None and roster.relays:
            raise UsageError(
                f"{name} is for boards with whole networks, and the plan cuts {', '.join(roster.relays)}: samples leave a "
                f"part by its program's thresholds"
            )
    if options.tenants is not None:
        fleet.shared_by(options.tenants, len(roster.seats))  # refused here, in one sentence
        if reached := [seat.name for seat in roster.seats if seat.address]:
            raise UsageError(
                f"tenants of a board with an address, such as '{reached[0]}', must be named where it is served (serve --tenants)"
            )
    if options.certify is not None:
        _check_certified(options, roster)
    if options.decisions is not None and all(seat.address for seat in roster.seats):
        raise UsageError("boards with an address log their decisions where they are served (serve --decisions)")
    slo_ns = None if options.slo is None else scheduler.parse_duration_ns(options.slo, "--slo")
    boards = fleet.BoardOptions(
        policy=options.policy,
        slo_ns=slo_ns,
        rate_per_s=None if options.rate is None else options.rate / len(roster.seats),
        criteria=options.criteria,
        certify=options.certify,
        tenants=None if options.tenants is None else options.tenants.resolve(),
        boards=len(roster.seats),
        queue=options.max_queue,
        guarded=options.guarded,
        decisions=None if options.decisions is None else options.decisions.resolve(),
    )
    dispatch = fleet.DispatchOptions(
        patience=options.patience,
        audit_every=options.audit,
        queue=options.max_queue,
        absent=options.allow_absent,
        slo_ns=slo_ns,
    )
    token = oip.read_token(options.board_token_file)
    return surfaces, followed or discovery or roster, fleet.FleetOptions(dispatch=dispatch, boards=boards, token=token)


def _check_certified(options: FleetCommandOptions, roster: fleet.Roster) -> None:
    """Refuse a certificate of boards that are served elsewhere, or whose exits something else decides."""
    exits.Promise.of(options.certify or "")
    if options.criteria is not None:
        raise UsageError("--certify sets thresholds, so no --criteria fits it")
    if reached := [seat.name for seat in roster.seats if seat.address]:
        raise UsageError(
            f"a board with an address, such as '{reached[0]}', must be certified where it is served (serve --certify)"
        )
    if through := [s.name for s in roster.seats if any(duty.criteria is not None for duty in s.duties.values())]:
        raise UsageError(f"--certify needs exits, and the plan lets everybody run through on '{through[0]}'")


def _roster(options: FleetCommandOptions) -> tuple[fleet.Roster, fleet.Discovery | None]:
    """Read a fleet and its plan, or find its boards. Raises UsageError, and ValueErrors of the rooms."""
    file = fleet.FleetFile.read(options.fleet)
    if not file.fleet.sources or options.plan is not None:
        return file.roster(None if options.plan is None else fleet.read_plan(options.plan)), None
    if options.engine != "local":
        raise UsageError("boards are found while a fleet is served by --engine local: shards keep theirs")
    discovery = fleet.Discovery(file)
    return discovery.roster(), discovery


def _followed(options: FleetCommandOptions) -> fleet.Followed:
    """Read a fleet whose plan follows the traffic. Raises UsageError, and ValueErrors of the rooms."""
    if options.engine != "local":
        raise UsageError("--replan is for --engine local: shards keep their boards")
    if options.slo is None and options.plan is None:
        raise UsageError("--replan must have an objective that plans keep (--slo), or a plan with one (--plan)")
    for name in ("policy", "criteria", "tenants", "certify"):
        if getattr(options, name) is not None:
            raise UsageError(f"--replan gives each board what its plan says, so it goes without --{name}")
    asked = fleet.FollowOptions(
        slo_ns=None if options.slo is None else scheduler.parse_duration_ns(options.slo, "--slo"),
        window_s=scheduler.parse_duration_ns(options.window, "--window") / 1e9,
        forecast=options.forecast,
    )
    return fleet.Followed.read(options.fleet, options.plan, asked)


def check(options: FleetCommandOptions) -> None:
    """Start nothing, but read the fleet with its bundles and its plan. Raises ValueErrors of the rooms."""
    prepare_fleet(options)


def _started(out: Console, server: oip.NetworkServer, front: fleet.FleetFront, as_json: bool) -> None:
    """Say which boards serve what, and where the front listens."""
    urls = server.urls
    leaves = front.dispatcher.leaves
    boards = [
        {
            "name": leaf.name,
            "address": leaf.address,
            "models": list(leaf.times),
            "started": leaf.name in front.processes,
            "duties": {model: asdict(duty) for model, duty in leaf.duties.items()},
        }
        for leaf in leaves
    ]
    if as_json:
        ways = {name: [asdict(way) for way in relay.ways] for name, relay in front.roster.relays.items()}
        show.emit({"urls": urls, "boards": boards, "capacity_per_s": front.capacity_per_s, "ways": ways})
        sys.stdout.flush()
        return
    for leaf in leaves:
        kind = "simulated here" if leaf.name in front.processes else "an actor of Ray" if leaf.shard else "reached"
        out.print(
            f"[bold]{leaf.name}[/] at {leaf.address} ({kind}): {', '.join(map(partial(_served, leaf), leaf.times))}"
        )
    if (plan := front.roster.plan) is not None:
        out.print(
            f"plan {plan.digest[:12]}: {plan.form}, {plain(plan.rate_per_s, 4)} planned requests/s, at most {plan.gap_pct:.1f} % below the best"
        )
    for name, relay in front.roster.relays.items():
        for way in relay.ways:
            out.print(f"[bold]{name}[/]: {plain(way.rate_per_s, 4)}/s by way of {', then '.join(way.models)}")
    for name, ensemble in front.roster.ensembles.items():
        rule = ensemble.rule
        until = f" within {1e3 * ensemble.wait_s:g} ms, or of those that came" if ensemble.wait_s else ""
        out.print(f"[bold]{name}[/]: {rule.name} of {', '.join(rule.networks)}{until}")
    for model, capacity in front.capacity_per_s.items():
        slo_ms = front.counts[model].slo_ns / 1e6
        out.print(
            f"{model}: predicted capacity {plain(capacity, 4)} requests/s, objective {slo_ms:g} ms unless a request "
            "names one"
        )
    for surface, url in urls.items():
        out.print(f"{surface}: {url}")
    if "http" in urls:
        out.print("[dim]the page at / shows it live, /metrics is for Prometheus; SIGTERM drains[/]")


def _served(leaf: fleet.Leaf, model: str) -> str:
    """Name a model with what the plan gives it, where there is one."""
    duty = leaf.duties.get(model)
    if duty is None:
        return model
    from fluidnpu.scheduler.policies import splits_text

    turns = f", parts in turns {splits_text(duty.splits)}" if duty.splits else ""
    return f"{model} (batch {duty.batch}, {100 * duty.weight:.3g} % of its time{turns})"
