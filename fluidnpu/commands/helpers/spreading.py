"""Options of commands that spread their work: over processes of this machine, or over a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import click

from fluidnpu.scheduler import comparison

from ...errors import UsageError
from ...options import Decorated, Option

LOCAL, RAY = ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The options that choose an engine: processes of this machine, or the nodes of a cluster."""

    processes: int = 1
    engine: str = LOCAL
    ray_address: str | None = None


def spread_over(what: str) -> Option:
    """Make the options of a command, whose work is pieces of `what`."""

    def add(command: Decorated) -> Decorated:
        for option in (
            click.option("--ray-address", metavar="HOST:PORT", help="ray: of the cluster, on whose nodes fluidnpu is"),
            click.option(
                "--engine",
                type=click.Choice(ENGINES),
                default=LOCAL,
                show_default=True,
                help="processes here, or an existing Ray cluster; changes no number",
            ),
            click.option(
                "--processes",
                type=click.IntRange(min=1),
                default=1,
                show_default=True,
                help=f"local: {what} that run at once",
            ),
        ):
            command = option(command)
        return command

    return add


def engine_of(options: Spread) -> comparison.Engine:
    """Give the engine that the options name. Raises UsageError, and DriverUsageError where Ray is missing."""
    if options.engine == LOCAL:
        if options.ray_address is not None:
            raise UsageError("--ray-address is for --engine ray")
        return comparison.Local(processes=options.processes)
    if options.ray_address is None:
        raise UsageError("--engine ray must have the address of a cluster, --ray-address HOST:PORT")
    if options.processes != 1:
        raise UsageError("--processes is for --engine local: a cluster has nodes of its own")
    # Asked for by name, since a search in processes of this machine needs nothing of the host's room.
    engine: comparison.Engine = import_module("fluidnpu.host.fleet").RayEngine(address=options.ray_address)
    return engine
