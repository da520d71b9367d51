"""`fluidnpu serve --fleet FILE.toml --http PORT --grpc PORT`: many boards as one server."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fluidnpu import scheduler
from fluidnpu.host import fleet, oip

from .. import show
from ..errors import UsageError
from .serve_network import NetworkOptions

if TYPE_CHECKING:
    from rich.console import Console


def serve_fleet(
    file: Path,
    network: NetworkOptions,
    *,
    plan: Path | None,
    engine: str,
    shard: int,
    ray_address: str | None,
    policy: str | None,
    rate_per_s: float | None,
    slo: str | None,
    criteria: str | None,
    tenants: Path | None,
    patience: float,
    audit: int,
    absent: bool,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain: all that was taken is answered, and simulated boards end.

    `rate_per_s` is that of the whole fleet; each board is told its share.
    """
    if network.admin is not None or network.admin_grpc is not None:
        raise UsageError("models are loaded at the boards of a fleet, so its front has no --admin and no --admin-grpc")
    if engine == "local" and ray_address is not None:
        raise UsageError("--ray-address is for --engine ray")
    out = show.console(as_json)
    roster = fleet.Roster.read(file, plan)
    for name, given in (("--criteria", criteria), ("--tenants", tenants)):
        if given is not None and roster.relays:
            raise UsageError(
                f"{name} is for boards with whole networks, and the plan cuts {', '.join(roster.relays)}: samples leave a "
                f"part by its program's thresholds"
            )
    if tenants is not None:
        fleet.shared_by(tenants, len(roster.seats))  # refused here, in one sentence
        if reached := [seat.name for seat in roster.seats if seat.address]:
            raise UsageError(
                f"tenants of a board with an address, such as '{reached[0]}', must be named where it is served (serve --tenants)"
            )
    slo_ns = None if slo is None else scheduler.parse_duration_ns(slo, "--slo")
    share = None if rate_per_s is None else rate_per_s / len(roster.seats)
    boards = fleet.BoardOptions(
        policy=policy,
        slo_ns=slo_ns,
        rate_per_s=share,
        criteria=criteria,
        tenants=None if tenants is None else tenants.resolve(),
        boards=len(roster.seats),
        queue=network.max_queue,
        guarded=network.guarded,
    )
    dispatch = fleet.DispatchOptions(
        patience=patience, audit_every=audit, queue=network.max_queue, absent=absent, slo_ns=slo_ns
    )
    options = fleet.FleetOptions(dispatch=dispatch, boards=boards, token=oip.read_token(token_file))
    oip.configure_logging(network.log_level, requests=network.log_requests)
    fronts: list[fleet.FleetFront] = []

    def opened(limits: oip.Limits, version: str) -> fleet.FleetFront:
        if engine == "local":
            fronts.append(fleet.FleetFront(roster, options, limits, version))
        else:
            shards = fleet.ShardOptions(boards=shard, address=ray_address or "")
            fronts.append(fleet.ShardedFront(roster, options, limits, version, file=file, plan=plan, shards=shards))
        return fronts[-1]

    oip.run_server(opened, network.surfaces, lambda server: _started(out, server, fronts[0], as_json))
    counts = {model: one.samples for model, one in fronts[0].counts.items()}
    if as_json:
        show.emit({"stopped": True, "answered": counts})
    else:
        out.print(f"drained: {sum(counts.values())} samples were answered")


def _started(out: Console, server: oip.NetworkServer, front: fleet.FleetFront, as_json: bool) -> None:
    """Say which boards serve what, and where the front listens."""
    urls = {surface: server.url(surface) for surface in server.ports}
    leaves = front.dispatcher.leaves
    boards = [
        {
            "name": one.name,
            "address": one.address,
            "models": list(one.times),
            "started": one.name in front.processes,
            "duties": {model: asdict(duty) for model, duty in one.duties.items()},
        }
        for one in leaves
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
            f"plan {plan.digest[:12]}: {plan.form}, {plan.rate_per_s:.4g}/s, at most {plan.gap_pct:.1f} % below the best"
        )
    for name, relay in front.roster.relays.items():
        for way in relay.ways:
            out.print(f"[bold]{name}[/]: {way.rate_per_s:.4g}/s by way of {', then '.join(way.models)}")
    for name, ensemble in front.roster.ensembles.items():
        rule = ensemble.rule
        until = f" within {1e3 * ensemble.wait_s:g} ms, or of those that came" if ensemble.wait_s else ""
        out.print(f"[bold]{name}[/]: {rule.name} of {', '.join(rule.networks)}{until}")
    for model, capacity in front.capacity_per_s.items():
        slo_ms = front.counts[model].slo_ns / 1e6
        out.print(f"{model}: predicted capacity {capacity:.0f}/s, objective {slo_ms:g} ms unless a request names one")
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

    turns = f", splits in turns {splits_text(duty.splits)}" if duty.splits else ""
    return f"{model} (batch {duty.batch}, {100 * duty.weight:.3g} % of its time{turns})"
