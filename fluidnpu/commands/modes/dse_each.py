"""`fluidnpu dse --each`: a search for every model on every board, spread over processes or a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluidnpu import boards, dse, models
from fluidnpu.models import files
from fluidnpu.scheduler import comparison

from ... import quantities, show
from ...errors import NegativeAnswerError, UsageError
from ..helpers.designs import Search, question_of
from ..helpers.networks import read_model_or_name, work_of

if TYPE_CHECKING:
    from rich.console import Console


def search_each(
    words: Sequence[str],
    on: Sequence[boards.Board],
    search: Search,
    engine: comparison.Engine,
    folder: Path,
    *,
    as_json: bool,
) -> None:
    """Search a design for every model on every board, write those that fit, and print a table of all.

    Raises UsageError, what reading them raises, and NegativeAnswerError where a network fits no board.
    """
    out = show.console(as_json)
    works: dict[str, models.Workload] = {}
    for word in words:
        work = work_of(read_model_or_name(Path(word)), search.bits)
        if works.setdefault(work.name, work) is not work:
            raise UsageError(f"models of --each must have names of their own, and '{work.name}' comes twice")
    pairs = [(work, board) for work in works.values() for board in on]
    jobs = [partial(_searched, question_of(work, board, search)) for work, board in pairs]
    with show.progress(out, "searching designs") as step:
        rows = comparison.in_order(engine, jobs, step)
    reports = []
    for (work, board), (text, facts) in zip(pairs, rows, strict=True):
        path = folder / f"{work.name}-{board.name}.json"
        if text:
            files.write_file(path, text)
        reports.append({"network": work.name, "board": board.name, **facts, **({"design": str(path)} if text else {})})
    if as_json:
        show.emit({"designs": reports})
    else:
        _print_each(out, reports)
    if lost := sorted(set(works) - {str(row["network"]) for row in reports if "design" in row}):
        raise NegativeAnswerError(f"no board of these fits {', '.join(lost)}")


def _searched(question: dse.Question) -> tuple[str, dict[str, Any]]:
    """Answer one question: the text of the design, and what it reaches; where none fits, nothing and the
    reason.
    """
    try:
        exploration = dse.answer(question)
    except dse.FitError as error:
        return "", {"why": str(error)}
    walls = exploration.walls(1)
    return exploration.design.dumps(), {
        "array": show.point(exploration.design),
        "frames_per_second": [exploration.frames_per_second[0], exploration.frames_per_second[-1]],
        "capacity_per_s": comparison.design_capacity(exploration.design),
        "batch": exploration.b_max,
        "limited_by": "" if walls is None else walls.first,
        "gap_pct": exploration.gap_pct,
    }


def _print_each(out: Console, reports: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for report in reports:
        if "design" not in report:
            rows.append((report["network"], report["board"], "-", "-", "-", report["why"]))
            continue
        alone, full = report["frames_per_second"]
        capacity = "-" if report["capacity_per_s"] is None else quantities.plain(report["capacity_per_s"], 4)
        rows.append(
            (
                report["network"],
                report["board"],
                report["array"],
                f"{alone:.1f} to {full:.1f}",
                capacity,
                report["limited_by"],
            )
        )
    columns = ("network", "board", "array", "frames/s", "requests/s", "limited by")
    out.print(
        show.table("A design for each model and board (simulated; frames/s alone to full batch)", columns, rows, left=3)
    )
