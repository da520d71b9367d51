"""`fluidnpu import-reports` and the `--calibration` of `dse`: the tools' reports on a built project."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import boards, dse, models
from fluidnpu.hls import project as hls_project
from fluidnpu.models import files

from .. import show
from ..errors import UsageError
from ..options import FILE_OUT, JSON, PATH, takes
from ..outputs import check_output

if TYPE_CHECKING:
    from rich.console import Console

WRITES = "what `fluidnpu import-reports` writes"


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The command line of `fluidnpu import-reports`."""

    project: Path
    board: str | None
    out: Path | None
    missed_timing: bool
    as_json: bool


@click.command("import-reports")
@click.argument("project", type=PATH)
@click.option("--board", metavar="NAME|FILE.toml", help="the project's board, where its design carries none")
@click.option(
    "--out",
    type=FILE_OUT,
    metavar="FILE.json",
    help="where to write the record  [default: PROJECT/calibration.json]",
)
@click.option(
    "--missed-timing", is_flag=True, help="take a build that missed its clock as one of the lower clock that it met"
)
@JSON
@takes(ImportOptions)
def command(options: ImportOptions) -> None:
    """After `make bitstream`: what Vivado HLS and Vivado reported of PROJECT beside what was predicted, as a
    record for `dse`. PROJECT may also be the archive that `make first-run` has packed.
    """
    import_project(options)


def import_project(options: ImportOptions) -> None:
    """Write the record beside the project and print predicted against reported.

    Raises UsageError for a project that is not whole.
    """
    if not hls_project.is_whole(options.project):
        raise UsageError(f"'{options.project}' must be a whole project, and its writing was stopped: build it again")
    target = _beside(options.project) if options.out is None else options.out
    check_output("--out", target)
    with hls_project.reports_folder(options.project) as folder:
        file = folder / "bundle" / "design.json"
        design = dse.Design.loads(models.read_text(file, "a design"), str(file))
        if options.board is not None:
            design = design.on(boards.load_board(options.board))
        record = hls_project.import_reports(folder, design, design.known_facts, missed_timing=options.missed_timing)
        columns = hls_project.compare_columns(folder, design.known_facts)
    files.write_file(target, record.dumps())
    if options.as_json:
        print(json.dumps(json.loads(record.dumps()), sort_keys=True))
        return
    rows = [
        (m.stage, m.quantity, _text(m.predicted), _text(m.reported), "-" if m.ratio is None else f"{m.ratio:.3f}")
        for m in record.measures
    ]
    title = f"{design.network} on {design.board}, <{design.t_r}, {design.t_p}, {design.t_c}>: predicted and reported"
    console = show.console()
    console.print(show.table(title, ("stage", "quantity", "predicted", "reported", "ratio"), rows, left=2))
    if columns:
        console.print(columns)
    if record.missed_timing:
        console.print(f"[yellow]{record.missed_timing}[/]")
    console.print(f"record written to [bold]{target}[/]")


def _beside(project: Path) -> Path:
    """Give the place of the record: in the project's folder, or beside the archive of its first run."""
    if project.is_file():
        return project.with_name(f"{project.name.partition('.')[0]}-calibration.json")
    return project / "calibration.json"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value % 1 else f"{value:.0f}"


def read_record(file: Path) -> dse.Calibration:
    """Read the record of `fluidnpu import-reports`."""
    return dse.Calibration.loads(models.read_text(file, WRITES), f"'{file}'")


def scale_design(record: dse.Calibration, exploration: dse.Exploration, board: boards.Board) -> dse.Calibrated:
    """Scale an exploration's design by the factors of a record, beside the whole board.

    The exploration may know of a smaller board (`dse.calibrated_board`).
    """
    estimates = {name: exploration.fitted_resources[name]["used"] for name in ("lut", "ff")}
    return dse.apply_calibration(record, board, estimates)


def print_scaled(out: Console, calibrated: dse.Calibrated) -> None:
    """Print the LUTs and flip-flops that one built design lets expect."""
    shares = [f"{r['used']:.0f} {name.upper()} ({r['percent']:.1f} %)" for name, r in calibrated.resources.items()]
    out.print(f"calibrated by one built design: {', '.join(shares) or 'no LUTs or flip-flops'}")
    for note in calibrated.notes:
        out.print(f"  [dim]{note}[/]")
