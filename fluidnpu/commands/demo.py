"""`fluidnpu demo`: a trained early-exit network designed for, verified on and served by the simulated NPU."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from fluidnpu import models
from fluidnpu.models import files

from .. import show
from ..errors import UsageError
from ..options import FOLDER_OUT, JSON, takes


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The command line of `fluidnpu demo`."""

    out: Path
    requests: int
    seed: int
    as_json: bool


@click.command("demo")
@click.option(
    "--out",
    default="out/demo",
    show_default=True,
    type=FOLDER_OUT,
    help="folder for report, trace and projects",
)
@click.option(
    "--requests", default=1000, show_default=True, help="images to serve, at most those that come with fluidnpu"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the Poisson arrivals")
@JSON
@takes(DemoOptions)
def command(options: DemoOptions) -> None:
    """The whole chain on the shipped network: designs, C simulation, 1,000 real images served, a report."""
    run_demo(options)


def run_demo(options: DemoOptions) -> None:
    """Run every step, print its outcome, leave report, trace and projects in a folder.

    Raises UsageError for more images than there are.
    """
    started = time.monotonic()
    out, screen = options.out, show.console(options.as_json)
    images = models.shipped_images()
    if not 1 <= options.requests <= len(images):
        raise UsageError(
            f"--requests must lie in 1..{len(images)}, the images that come with fluidnpu, not {options.requests}"
        )
    screen.print("[bold]fluidnpu demo[/]: a network with early exits on two boards, simulated\n")
    from ..reports.demo import render_report
    from ..reports.trace import trace
    from .modes.demo_screen import print_result
    from .modes.demo_steps import run_steps

    report, timeline = out / "report.html", out / "trace.json"
    with files.one_writer(out):
        result = run_steps(screen, images[: options.requests], out, options.seed)
        files.write_files(
            {timeline: trace(result.schedules, result.designs[0].design.exits), report: render_report(result)}
        )
    print_result(screen, result)
    screen.print(f"\nreport [bold]{report}[/]; for Perfetto [bold]{timeline}[/]")
    screen.print(f"projects [bold]{out}/zc706[/], [bold]{out}/zcu104[/]; {time.monotonic() - started:.0f} s in all")
    if options.as_json:
        show.emit(result.to_json())
