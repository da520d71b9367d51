"""`fluidnpu serve`: bundles behind the Open Inference Protocol, on simulated NPUs or on this board."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import scheduler
from fluidnpu.host import oip, serving
from fluidnpu.scheduler import comparison, exits, tuning
from fluidnpu.scheduler.policies import SERVING_POLICY

from .. import quantities, show
from ..errors import UsageError
from ..options import JSON, PATH, POWER, read_power, takes
from ..outputs import TextWithPath
from .helpers.addresses import ADDRESSES, physical
from .helpers.configuration import WordsArgument, config_option, place_errors
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
    device_option,
    listening,
    records,
)
from .modes.tenants import read_recorded, read_tenancy

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class ServeCommandOptions(NetworkOptions):
    """The command line of `fluidnpu serve`, as text and numbers."""

    bundles: tuple[str, ...]
    admin: int | None
    admin_grpc: int | None
    device: str
    policy: str
    power: str | None
    adapt: Path | None
    distance: int | None
    shadow: float | None
    certify: str | None
    registers: str | None
    reserved: str | None
    decisions: Path | None
    no_warm_up: bool


@click.command(
    "serve",
    cls=Sectioned,
    examples={
        "fluidnpu serve project --http 8000": "a simulated NPU",
        "fluidnpu serve demo=bundle --device pynq --http 8000": "this board",
        "fluidnpu serve --config serve.toml --log-level info": "options of a file",
        "fluidnpu config check serve.toml": "is the file right?",
    },
    sections={
        "http": "Where it listens",
        "token_file": "Who may ask, and how much",
        "device": "How it answers",
        "adapt": "Exits that adapt",
        "registers": "Addresses of a board without PYNQ",
        "decisions": "What it checks and reports",
    },
)
@click.argument("bundles", nargs=-1, metavar="[NAME=]BUNDLE...", cls=WordsArgument, type=TextWithPath(sign="="))
@config_option
@listening
@click.option(
    "--admin",
    type=PORT,
    metavar="PORT",
    help="REST here may also load and unload models; off the loopback it wants --token-file  [default: none may]",
)
@click.option("--admin-grpc", type=PORT, metavar="PORT", help="the same for gRPC")
@bounds
@device_option(
    help="simulated; this processor, with a bundle of `fluidnpu measure` (cpu); this board with PYNQ, or without"
)
@click.option("--policy", default=SERVING_POLICY, show_default=True, metavar="P[:KEY=VALUE...]", help=POLICIES)
@RATE
@SLO
@CRITERIA
@TENANTS
@POWER
@click.option(
    "--adapt",
    type=PATH,
    metavar="PLAN.npz",
    help="change the active exits when the load changes, by a plan that `fluidnpu exits --select` wrote",
)
@click.option(
    "--distance",
    type=click.IntRange(min=1),
    metavar="N",
    help="requests between two false alarms, at least  [default: 5000]",
)
@click.option(
    "--shadow",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="of those that leave early, the share that runs on while alarmed  [default: 0.25]",
)
@CERTIFY
@ADDRESSES
@click.option("--decisions", type=PATH, metavar="FOLDER", help="log every decision, for simulate --replay")
@click.option("--no-warm-up", is_flag=True, help="call a model ready before it has computed a batch of each size")
@records
@JSON
@takes(ServeCommandOptions)
def command(options: ServeCommandOptions) -> None:
    """Serve BUNDLEs (or the projects around them) over the Open Inference Protocol v2.

    Each bundle has its folder's name or NAME. SIGTERM drains: all that was taken is answered.

    Exit code: 0 drained; 1 the device failed; 2 bad input.
    """
    with place_errors():
        surfaces, models = prepare_serving(options)
    out = show.console(options.as_json)
    oip.configure_logging(options.log_level, requests=options.log_requests)
    oip.run_server(models, surfaces, lambda server: _started(out, server, options.as_json))
    counts = {model.label: model.statistics.answered if model.statistics else 0 for model in models}
    if options.as_json:
        show.emit({"stopped": True, "answered": counts})
    else:
        out.print(f"drained: {sum(counts.values())} requests were answered")


def prepare_serving(options: ServeCommandOptions) -> tuple[oip.ServeOptions, serving.Models]:
    """Read everything that the options name but the bundles. Raises UsageError without a bundle, and
    ValueErrors of the rooms.
    """
    if not options.bundles:
        raise UsageError("serve must be given a bundle, or several, and it has none")
    surfaces = options.surfaces(admin=options.admin, admin_grpc=options.admin_grpc)
    tenancy = None if options.tenants is None else read_tenancy(options.tenants)
    model_options = serving.ModelOptions(
        device=options.device,
        policy=options.policy,
        rate_per_s=options.rate,
        slo_ns=None if options.slo is None else scheduler.parse_duration_ns(options.slo, "--slo"),
        queue=options.max_queue,
        guarded=options.guarded,
        decisions=options.decisions,
        criteria=options.criteria,
        tenancy=tenancy,
        recorded={} if tenancy is None or options.tenants is None else read_recorded(tenancy, options.tenants),
        power=read_power(options.power),
        adapt=None if options.adapt is None else tuning.AdaptationPlan.read(options.adapt),
        watching=_watching(options),
        certify=None if options.certify is None else exits.Promise.of(options.certify),
        warm=not options.no_warm_up,
        **physical(options.registers, options.reserved),
    )
    return surfaces, serving.Models(serving.named_folders(options.bundles), model_options)


def check(options: ServeCommandOptions) -> None:
    """Serve nothing, but load every bundle, on a simulated NPU in a board's place.

    Raises ValueErrors of the rooms.
    """
    device = options.device if options.device == "cpu" else "simulated"
    _, models = prepare_serving(
        dataclasses.replace(options, device=device, registers=None, reserved=None, decisions=None, no_warm_up=True)
    )
    physical(options.registers, options.reserved)
    try:
        for model in models:
            model.load()
    finally:
        models.close()


def _watching(options: ServeCommandOptions) -> tuning.Watching:
    """Return the settings of an adaptation. Raises UsageError where nothing adapts."""
    given = {"distance": options.distance, "shadow": options.shadow}
    stated: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if stated and options.adapt is None:
        raise UsageError(f"--{next(iter(stated))} is about adaptation, so it needs --adapt PLAN.npz")
    return tuning.Watching(**stated)


def _started(out: Console, server: oip.NetworkServer, as_json: bool) -> None:
    """Say where the server listens and what it serves, in one object or a few lines."""
    urls = server.urls
    ready = [model for model in server.models if model.npu.loads]
    served = [_described(model) for model in ready]
    if as_json:
        show.emit({"urls": urls, "models": served})
        import sys

        sys.stdout.flush()
        return
    for network, model in zip(ready, served, strict=True):
        alone = ", if it had the NPU alone" if len(network.npu.names) > 1 else ""
        out.print(
            f"[bold]{model['name']}[/]: {model['network']} on {model['board']} ({model['device']}), {model['policy']}, "
            f"objective {model['slo_ms']:g} ms unless a request names one; predicted capacity "
            f"{quantities.plain(model['capacity_per_s'], 4)} requests/s{alone}"
        )
    for surface, url in urls.items():
        out.print(f"{surface.replace('_', ' ')}: {url}")
    if "http" in urls:
        out.print("[dim]the page at / shows it live, /metrics is for Prometheus; SIGTERM drains[/]")


def _described(model: serving.ServedNetwork) -> dict[str, Any]:
    design = model.bundle.design
    rates = design.exit_rates or (1 / design.stages,) * design.stages
    return {
        "name": model.label,
        "network": design.network,
        "board": design.board,
        "device": model.npu.options.device,
        "policy": model.npu.options.policy,
        "slo_ms": model.slo_ns / 1e6,
        "capacity_per_s": comparison.predicted_capacity(
            scheduler.Serving.of(design, rates), model.npu.options.policy, model.slo_ns
        ),
    }
