"""`fluidnpu serve BUNDLE... --http PORT --grpc PORT`: bundles behind the Open Inference Protocol."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import scheduler
from fluidnpu.host import oip, serving
from fluidnpu.scheduler import comparison, exits, tuning

from .. import show
from ..errors import UsageError
from ..options import PATH, Decorated
from .tenants import read_recorded, read_tenancy

if TYPE_CHECKING:
    from rich.console import Console


PORT = click.IntRange(0, 65535)
_SURFACES = (
    click.option("--http", type=PORT, metavar="PORT", help="serve REST here (0: any free port), with a live page at /"),
    click.option("--grpc", type=PORT, metavar="PORT", help="serve gRPC here"),
    click.option(
        "--admin",
        type=PORT,
        metavar="PORT",
        help="REST here may also load and unload models; off the loopback it wants --token-file  [default: none may]",
    ),
    click.option("--admin-grpc", type=PORT, metavar="PORT", help="the same for gRPC"),
    click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on; 0.0.0.0 is every one"),
    click.option(
        "--max-queue",
        type=click.IntRange(1, 1 << 20),
        default=1024,
        show_default=True,
        help="requests without an answer",
    ),
    click.option(
        "--max-batch", type=click.IntRange(1, 4096), default=64, show_default=True, help="images in one request"
    ),
    click.option("--token-file", type=PATH, metavar="FILE", help="requests must carry the bearer token in this file"),
    click.option("--tls-cert", type=PATH, metavar="FILE.pem", help="certificate: all surfaces speak TLS"),
    click.option("--tls-key", type=PATH, metavar="FILE.pem", help="its key"),
    click.option("--decisions", type=PATH, metavar="FOLDER", help="log every decision, for simulate --replay"),
    click.option("--guarded", is_flag=True, help="check program, registers and results after every job"),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="warning",
        show_default=True,
        help="of the JSON lines on standard error",
    ),
    click.option("--log-requests", is_flag=True, help="log a line a request, too"),
)


def surfaces(command: Decorated) -> Decorated:
    """Add the options of `NetworkOptions` to a command, in the order that its help shows."""
    for option in reversed(_SURFACES):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The surfaces of the server, as text and numbers."""

    http: int | None
    grpc: int | None
    admin: int | None
    admin_grpc: int | None
    host: str
    max_queue: int
    max_batch: int
    token_file: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    decisions: Path | None
    guarded: bool
    log_level: str
    log_requests: bool

    @property
    def wanted(self) -> bool:
        """True when any surface is asked for."""
        return any(port is not None for port in (self.http, self.grpc, self.admin, self.admin_grpc))

    @property
    def surfaces(self) -> oip.ServeOptions:
        """The same as the server takes it."""
        return oip.ServeOptions(
            host=self.host,
            http=self.http,
            grpc=self.grpc,
            admin=self.admin,
            admin_grpc=self.admin_grpc,
            token_file=self.token_file,
            certificate=self.tls_cert,
            key=self.tls_key,
            limits=dataclasses.replace(oip.Limits(), queue=self.max_queue, batch=self.max_batch),
        )


def serve_network(
    bundles: tuple[str, ...],
    network: NetworkOptions,
    *,
    device: str,
    policy: str,
    rate_per_s: float | None,
    slo: str | None,
    criteria: str | None,
    tenants: Path | None,
    power: exits.PowerModel | None,
    adapt: Path | None,
    watching: tuning.Watching,
    registers: int | None,
    reserved: tuple[int, int] | None,
    as_json: bool,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain; all that was taken is answered."""
    if device in ("rtl", "cosim"):
        raise UsageError(
            f"--device {device} keeps its own time, so it cannot serve a network: use simulated, pynq or devmem"
        )
    out = show.console(as_json)
    tenancy = None if tenants is None else read_tenancy(tenants)
    recorded = {} if tenancy is None or tenants is None else read_recorded(tenancy, tenants)
    model_options = serving.ModelOptions(
        device=device,
        policy=policy,
        rate_per_s=rate_per_s,
        slo_ns=None if slo is None else scheduler.parse_duration_ns(slo, "--slo"),
        queue=network.max_queue,
        guarded=network.guarded,
        registers=registers,
        reserved=reserved,
        decisions=network.decisions,
        criteria=criteria,
        tenancy=tenancy,
        recorded=recorded,
        power=power,
        adapt=None if adapt is None else tuning.AdaptationPlan.read(adapt),
        watching=watching,
    )
    models = serving.Models(serving.named_folders(bundles), model_options)
    oip.configure_logging(network.log_level, requests=network.log_requests)
    oip.run_server(models, network.surfaces, lambda server: _started(out, server, as_json))
    counts = {model.name: model.statistics.answered if model.statistics else 0 for model in models}
    if as_json:
        show.emit({"stopped": True, "answered": counts})
    else:
        out.print(f"drained: {sum(counts.values())} requests were answered")


def _started(out: Console, server: oip.NetworkServer, as_json: bool) -> None:
    """Say where the server listens and what it serves, in one object or a few lines."""
    urls = {surface: server.url(surface) for surface in server.ports}
    served = [_described(model) for model in server.models]
    if as_json:
        show.emit({"urls": urls, "models": served})
        import sys

        sys.stdout.flush()
        return
    for model in served:
        out.print(
            f"[bold]{model['name']}[/]: {model['network']} on {model['board']} ({model['device']}), {model['policy']}, "
            f"objective {model['slo_ms']:g} ms unless a request names one, predicted capacity {model['capacity_per_s']:.0f}/s"
        )
    for surface, url in urls.items():
        out.print(f"{surface.replace('_', ' ')}: {url}")
    if "http" in urls:
        out.print("[dim]the page at / shows it live, /metrics is for Prometheus; SIGTERM drains[/]")


def _described(model: serving.Model) -> dict[str, Any]:
    design = model.bundle.design
    rates = design.exit_rates or (1 / design.stages,) * design.stages
    return {
        "name": model.name,
        "network": design.network,
        "board": design.board,
        "device": model.options.device,
        "policy": model.options.policy,
        "slo_ms": model.slo_ns / 1e6,
        "capacity_per_s": comparison.predicted_capacity(
            scheduler.Serving.of(design, rates), model.options.policy, model.slo_ns
        ),
    }
