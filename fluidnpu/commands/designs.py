"""Designs that the command line names: searched, or read from a file with which network and options agree."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fluidnpu import boards, dse, models
from fluidnpu.hls import program as hls_program

from .. import show
from ..errors import UsageError
from ..options import numbers
from .networks import with_rates_of

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_B_MAX = 8
MOST_WEIGHT = 1e100


@dataclass(frozen=True, kw_only=True)
class Search:
    """The options of a search; `weights` as they were typed, `b_max` None for the default."""

    b_max: int | None = None
    memory: str | None = None
    cycle_model: str = "paper"
    weights: str | None = None
    objective: str = "throughput"
    core: str = "rtl"
    evaluations: int = 24


def explored(out: Console, work: models.Workload, board: boards.Board, search: Search) -> dse.Exploration:
    """Search the designs of a board, with progress on the screen.

    Raises UsageError and the errors of `dse`.
    """
    if search.cycle_model == "exact" and importlib.util.find_spec("numba") is None:
        raise UsageError(
            "the exact model must have Numba, which is not installed: add the extra 'fast', or say --model paper"
        )
    question = dse.Question(
        workload=work,
        board=board,
        b_max=DEFAULT_B_MAX if search.b_max is None else search.b_max,
        model=search.cycle_model,
        memory=search.memory,
        weights=_weights(search.weights),
        objective=search.objective,
        core=search.core,
        evaluations=search.evaluations,
    )
    with show.progress(out, f"searching designs for {board.name}") as step:
        return dse.answer(question, step)


def _weights(text: str | None) -> tuple[float, ...] | None:
    """Read weights of batch sizes, small enough to be summed and multiplied."""
    values = numbers("--weights", text)
    if values is not None and not 0 <= min(values) <= max(values) <= MOST_WEIGHT:
        raise UsageError(f"--weights must be numbers of 0..{MOST_WEIGHT:g}, not '{text}'")
    return values


def chosen_design(
    out: Console, network: models.Network, board: boards.Board, search: Search, design_file: Path | None
) -> dse.Design:
    """Read the design of a file, with which network and options must agree, or search one where there is no
    file.

    Exit rates are no part of that: those of the network replace the file's.
    """
    if design_file is None:
        return explored(out, network.workload, board, search).design
    design = dse.Design.loads(models.read_text(design_file, "a design"), str(design_file))
    if design.board != board.name:
        raise UsageError(f"'{design_file}' must be a design for {board.name}, not for {design.board}")
    if search.b_max not in (None, design.b_max):
        raise UsageError(f"'{design_file}' must be a design for batches up to {search.b_max}, not up to {design.b_max}")
    if search.memory not in (None, design.memory):
        raise UsageError(f"'{design_file}' must be a design for memory '{search.memory}', not for '{design.memory}'")
    hls_program.check_made_for(design, network)
    rates = with_rates_of(design.exit_rates, network)
    return design if rates == design.exit_rates else replace(design, exit_rates=rates)
