"""Designs that the command line names: searched, or read from a file with which network and options agree."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluidnpu import boards, dse, models
from fluidnpu.hls import program as hls_program

from .. import show
from ..errors import UsageError, add_note
from ..options import numbers
from .networks import with_rates_of

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_B_MAX = 8
MOST_WEIGHT = 1e100
# The same question gets the same answer from `dse` and `build`.
DEFAULT_CYCLES, DEFAULT_CORE = "exact", "hls"
# A quick search counts as many arrays as have this many multiply-accumulates to count, batches 1..b_max each.
QUICK_MACS, QUICK_MOST, LONG = 4_000_000_000, 8, 24
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Search:
    """The options of a search; `weights` as they were typed, `b_max` None for the default."""

    b_max: int | None = None
    memory: str | None = None
    cycle_model: str = "paper"
    weights: str | None = None
    objective: str = "throughput"
    core: str = "rtl"
    evaluations: int | None = None


def default_cycles() -> str:
    """Give the cycle model of a command that cannot be asked for one: the exact one, where Numba is there."""
    return "paper" if importlib.util.find_spec("numba") is None else DEFAULT_CYCLES


def explored(
    out: Console,
    work: models.Workload,
    board: boards.Board,
    search: Search,
    mix: tuple[tuple[models.Workload, float], ...] = (),
) -> dse.Exploration:
    """Search the designs of a board, with progress on the screen; of a `mix` for several networks at once.

    Raises UsageError and the errors of `dse`.
    """
    if search.cycle_model == "exact" and importlib.util.find_spec("numba") is None:
        raise UsageError(
            "counting cycles exactly needs Numba, which is not installed (without it a search would take days): "
            "pip install 'fluidnpu[fast]', or ask for the publication's model with --cycles paper"
        )
    b_max = DEFAULT_B_MAX if search.b_max is None else search.b_max
    works = [one for one, _ in mix] or [work]
    asked: dict[str, Any] = {
        "board": board,
        "b_max": b_max,
        "model": search.cycle_model,
        "memory": search.memory,
        "weights": _weights(search.weights),
        "objective": search.objective,
        "core": search.core,
        "evaluations": quick_evaluations(works, b_max) if search.evaluations is None else search.evaluations,
    }
    try:
        question = dse.Question.of_mix(mix, **asked) if mix else dse.Question(workload=work, **asked)
    except dse.DesignError as error:
        if search.cycle_model == "exact" and any(layer.window is None for one in works for layer in one.layers):
            add_note(error, "or ask for the publication's model, which needs no windows, with --cycles paper")
        raise
    name = question.workload.name
    log.info("searching designs for %s on %s by the %s model", name, board.name, search.cycle_model)
    label = "bounding" if search.cycle_model == "exact" else "ranking"
    with show.progress(out, f"{label} arrays for {board.name}") as step:
        found = dse.answer(question, _relabelled(step, question, board.name))
    log.info("chose %s: %d of %d arrays counted", show.point(found.design), found.evaluated, found.arrays)
    return found


def quick_evaluations(works: Sequence[models.Workload], b_max: int) -> int:
    """Give the number of arrays that a quick search counts: the more, the smaller the networks.

    It depends on nothing but the question, so that the answer does not depend on the machine.
    """
    counted = max(1, sum(work.macs for work in works) * b_max * (b_max + 1) // 2)
    return max(1, min(QUICK_MOST, QUICK_MACS // counted))


def _relabelled(step: show.Step, question: dse.Question, board: str) -> show.Step:
    """Tell bounding, which goes over layers, from counting, which goes over arrays."""

    def report(done: int, total: int, say: str = "") -> None:
        counting = question.model == "exact" and total == question.evaluations and done <= total
        step(done, total, f"counting arrays for {board}" if counting else say)

    return report


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
    part = design.part_for(network.workload)
    if part is None and design.parts:
        made_for = ", ".join(f"'{one.network}'" for one in design.parts)
        raise UsageError(f"'{design_file}' is a design for {made_for}, and '{network.name}' has other layers or exits")
    design = design if part is None else part
    hls_program.check_made_for(design, network)
    return with_rates_of(design, network)
