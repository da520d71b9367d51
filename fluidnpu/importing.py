"""`fluidnpu import-reports` and the `--calibration` of `fluidnpu dse`: what the tools reported of a built project."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Design, Exploration
from fluidnpu.dse.resources import Calibrated, Calibration, apply_calibration
from fluidnpu.hls import import_reports
from fluidnpu.models import read_text

from . import show


def import_project(project: Path, board_name: str | None, out: Path | None, as_json: bool) -> None:
    """Write the record beside the project and print predicted against reported."""
    file = project / "bundle" / "design.json"
    design = Design.loads(read_text(file, "a design"), str(file))
    record = import_reports(project, design, load_board(board_name or design.board))
    target = project / "calibration.json" if out is None else out
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(record.dumps(), encoding="utf-8")
    if as_json:
        print(record.dumps(), end="")
        return
    rows = [
        (m.stage, m.quantity, _text(m.predicted), _text(m.reported), "-" if m.ratio is None else f"{m.ratio:.3f}")
        for m in record.measures
    ]
    title = f"{design.network} on {design.board}, <{design.t_r}, {design.t_p}, {design.t_c}>: predicted and reported"
    console = show.console()
    console.print(show.table(title, ("stage", "quantity", "predicted", "reported", "ratio"), rows, left=2))
    console.print(f"record written to [bold]{target}[/]")


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value % 1 else f"{value:.0f}"


def read_record(file: Path) -> Calibration:
    """What `fluidnpu import-reports` wrote."""
    return Calibration.loads(read_text(file, "what `fluidnpu import-reports` writes"), f"'{file}'")


def scaled(record: Calibration, found: Exploration, board: Board) -> Calibrated:
    """An exploration's design by the factors of a record, beside the whole board (`found` may know of less: `calibrated_board`)."""
    estimates = {name: found.fitted_resources[name]["used"] for name in ("lut", "ff")}
    return apply_calibration(record, found.design, board, found.fitted_gops, estimates)


def print_scaled(out: Console, one: Calibrated) -> None:
    """LUTs, flip-flops and throughput as one built design lets expect."""
    shares = [f"{r['used']:.0f} {name.upper()} ({r['percent']:.1f} %)" for name, r in one.resources.items()]
    first, last = one.gops_by_batch[0], one.gops_by_batch[-1]
    shares.append(f"{first:.1f} .. {last:.1f} GOP/s at {one.clock_hz / 1e6:g} MHz")
    out.print(f"calibrated by one built design: {', '.join(shares)}")
    for note in one.notes:
        out.print(f"  [dim]{note}[/]")
