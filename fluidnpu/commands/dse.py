"""`fluidnpu dse`: search the designs of a board, print the published point and the design that fits, write
the design.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import boards, dse, models
from fluidnpu.models import files
from fluidnpu.models import images as model_images

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..options import (
    BOARD,
    DATA,
    EXIT_RATES,
    FILE_OUT,
    JSON,
    MEMORY,
    PATH,
    core_option,
    cycle_model,
    numbers,
    takes,
)
from .designs import DEFAULT_B_MAX, Search, explored
from .exits import parse_places, with_exits
from .import_reports import print_scaled, read_record, scaled
from .networks import read_model_or_name, with_measured_rates
from .prepare import MOST_IMAGES, spread

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class DseOptions(Search):
    """The command line of `fluidnpu dse`."""

    model: Path
    board: str
    exits: str | None
    exit_rates: str | None
    data: Path | None
    out: Path | None
    report: Path | None
    calibration: Path | None
    as_json: bool


@click.command("dse")
@click.argument("model", type=PATH)
@BOARD
@click.option("--b-max", default=DEFAULT_B_MAX, show_default=True, metavar="N", help="largest batch, 1 to 16")
@MEMORY
@cycle_model("paper")
@core_option("rtl", "whose accumulators must fit: those of the SystemVerilog or of the HLS core")
@click.option(
    "--objective",
    default="throughput",
    show_default=True,
    type=click.Choice(["throughput", "latency"]),
    help="throughput over batch sizes, or the latency of a single sample",
)
@click.option(
    "--evaluations",
    default=24,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="arrays that the exact model counts, at the most",
)
@click.option(
    "--weights",
    metavar="W1,W2,...",
    help="how much throughput at each batch size counts, such as the histogram that `simulate` shows  "
    "[default: all the same]",
)
@click.option(
    "--exits",
    metavar="N|at=NAME,NAME",
    help="more exits, at equal MACs or at named tensors: heads in a network, cuts free of charge in a layer table",
)
@EXIT_RATES
@DATA
@click.option("--out", type=FILE_OUT, metavar="design.json", help="where to write the fitted design")
@click.option("--report", type=FILE_OUT, metavar="FILE.html", help="where to write the design report")
@click.option(
    "--calibration",
    type=PATH,
    metavar="calibration.json",
    help="search and scale by what `import-reports` read of a built project",
)
@JSON
@takes(DseOptions)
def command(options: DseOptions) -> None:
    """Search the whole design space of a board for MODEL: ONNX, a layer table, resnet50 or inception_v3."""
    search_design(options)


def search_design(options: DseOptions) -> None:
    """Search the whole space; print the published point and the design that fits; write the design."""
    work = workload_of(options)
    out = show.console(options.as_json)
    board = boards.load_board(options.board)
    record = None if options.calibration is None else read_record(options.calibration)
    smaller, reasons = (board, ()) if record is None else dse.calibrated_board(record, board)
    try:
        exploration = explored(out, work, smaller, options)
    except dse.FitError as error:
        raise NegativeAnswerError("; ".join((str(error), *reasons))) from None
    exploration = dataclasses.replace(exploration, notes=(*reasons, *exploration.notes))
    calibrated = None if record is None else scaled(record, exploration, board)
    if options.out is not None:
        files.write_file(options.out, exploration.design.dumps())
    if options.report is not None:
        from ..reports.design import render_design_report

        files.write_file(options.report, render_design_report(exploration))
    if options.as_json:
        show.emit(exploration.to_json() | ({} if calibrated is None else {"calibrated": calibrated.to_json()}))
        return
    _print(out, exploration)
    if options.report is not None:
        front = exploration.front
        out.print(f"  [dim]{front.candidates} designs can be built, {len(front)} on the Pareto front[/]")
    if calibrated is not None:
        print_scaled(out, calibrated)
    for path, what in ((options.out, "design"), (options.report, "report")):
        if path is not None:
            out.print(f"{what} written to [bold]{path}[/]")


def workload_of(options: DseOptions) -> models.Workload:
    """Give the layers of a model, with further exits and exit rates where asked. Raises UsageError."""
    model = read_model_or_name(options.model)
    if options.exits is not None:
        model = with_exits(model, parse_places(options.exits))
    rates = numbers("--exit-rates", options.exit_rates)
    if options.data is not None and rates is None:
        if isinstance(model, models.Workload) or not model.parameters:
            raise UsageError(f"--data measures a network with weights (ONNX), and '{options.model}' has none")
        images = spread(model_images.read_images(options.data, model.intake), MOST_IMAGES)
        model = with_measured_rates(model, images)
    work = model if isinstance(model, models.Workload) else model.workload
    if rates is None:
        return work
    if len(rates) != len(work.exits) or min(rates) < 0 or abs(sum(rates) - 1) > 1e-6:
        raise UsageError(f"--exit-rates must be {len(work.exits)} shares that sum to 1, not '{options.exit_rates}'")
    return dataclasses.replace(work, exit_rates=rates)


def _print(out: Console, exploration: dse.Exploration) -> None:
    out.print(show.design_table([exploration]))
    peak = exploration.design.peak_gops
    by_batch = zip(exploration.published_gops, exploration.fitted_gops, exploration.difference_pct, strict=True)
    rows = [
        (str(b), f"{published:.1f}", f"{fitted:.1f}", f"{100 * fitted / peak:.1f} %", f"{difference:+.2f} %")
        for b, (published, fitted, difference) in enumerate(by_batch, 1)
    ]
    title = f"Throughput of {exploration.workload.name} by batch size (GOP/s, simulated)"
    out.print(show.table(title, ("batch", "published", "built", "busy MAC eff.", "difference"), rows))
    for note in exploration.notes:
        out.print(f"  [dim]{note}[/]")
    out.print(f"  [dim]{len(exploration.ranking)} points of the paper model searched[/]")
