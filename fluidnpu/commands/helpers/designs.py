"""Designs that the command line names: searched, or read from a file with which network and options agree."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluidnpu import boards, dse, models
from fluidnpu.hls import program as hls_program

from ... import show
from ...errors import UsageError, add_note
from ...options import is_default, numbers
from .networks import with_rates_of

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_B_MAX = 8
MOST_WEIGHT = 1e100
# The same question gets the same answer from `dse` and `build`.
DEFAULT_CYCLES, DEFAULT_CORE = "exact", "hls"
CHOOSE_NOTHING = {"digest", "title", "sources", "power"}  # of a board's facts
LONG = 24  # arrays that a longer search than the quick one counts
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Search:
    """The options of a search; `weights` as they were typed, `b_max` None for the default."""

    b_max: int | None = None
    memory: str | None = None
    cycle_model: str = "exact"
    weights: str | None = None
    objective: str = "throughput"
    core: str = "hls"
    evaluations: int | None = None
    lanes: int | None = None
    bits: int = 16

    @property
    def largest_batch(self) -> int:
        """The largest batch of the designs that are searched."""
        return DEFAULT_B_MAX if self.b_max is None else self.b_max


def default_cycles() -> str:
    """Give the cycle model of a command that cannot be asked for one: the exact one, where Numba is there."""
    return DEFAULT_CYCLES if dse.has_numba() else "paper"


def explore_designs(
    out: Console,
    work: models.Workload,
    board: boards.Board,
    search: Search,
    mix: tuple[tuple[models.Workload, float], ...] = (),
) -> dse.Exploration:
    """Search the designs of a board, with progress on the screen; of a `mix` for several networks at once.

    Raises UsageError and the errors of `dse`.
    """
    try:
        question = question_of(work, board, search, mix)
        exploration = _answered(out, question, board.name)
    except dse.DesignError as error:
        windows = all(layer.window is not None for network, _ in mix or [(work, 1)] for layer in network.layers)
        if search.cycle_model == "exact" and not (windows and dse.has_numba()):
            add_note(error, "that is --cycles paper")
        raise
    for caution in exploration.cautions:
        out.print(f"[yellow]{caution}[/]")
    log.info(
        "chose %s: %d of %d arrays counted", show.point(exploration.design), exploration.evaluated, exploration.arrays
    )
    return exploration


def question_of(
    work: models.Workload,
    board: boards.Board,
    search: Search,
    mix: tuple[tuple[models.Workload, float], ...] = (),
) -> dse.Question:
    """Give the question that the options of a search ask. Raises UsageError and DesignError."""
    asked: dict[str, Any] = {
        "board": board,
        "b_max": search.largest_batch,
        "model": search.cycle_model,
        "memory": search.memory,
        "weights": _weights(search.weights),
        "objective": search.objective,
        "core": search.core,
        "evaluations": search.evaluations,
        "lanes": search.lanes,
        "bits": search.bits,
    }
    return dse.Question.of_mix(mix, **asked) if mix else dse.Question(workload=work, **asked)


def is_published(exploration: dse.Exploration) -> bool:
    """Tell if Table I of Fluid Batching has a design for this network and board, which ours compares with."""
    from fluidnpu.studies import TABLE_1

    asked = (exploration.workload.name.replace("_", ""), exploration.board.name)
    return any((row.network, row.board) == asked for row in TABLE_1)


def _answered(out: Console, question: dse.Question, board: str) -> dse.Exploration:
    log.info("searching designs for %s on %s by the %s model", question.workload.name, board, question.model)
    label = "bounding" if question.model == "exact" else "ranking"
    with show.progress(out, f"{label} arrays for {board}") as step:
        counting = False

        def report(done: int, total: int) -> None:
            nonlocal counting
            counting = counting or done == 0  # only the second part of an exact search begins with no step done
            step(done, total, f"counting cycles for {board}" if counting else "")

        return dse.answer(question, report)


def _weights(text: str | None) -> tuple[float, ...] | None:
    """Read weights of batch sizes, small enough to be summed and multiplied."""
    values = numbers("--weights", text)
    if values is not None and not 0 <= min(values) <= max(values) <= MOST_WEIGHT:
        raise UsageError(f"--weights must be numbers of 0..{MOST_WEIGHT:g}, not '{text}'")
    return values


def _with_facts(design: dse.Design, board: boards.Board, file: Path) -> dse.Design:
    """Return the design with the board as it is now.

    Raises UsageError where a search could choose otherwise.
    """
    if design.facts is not None:
        old, new = design.facts.to_dict(), board.to_dict()
        odd = sorted(name for name in {*old, *new} - CHOOSE_NOTHING if old.get(name) != new.get(name))
        if odd:
            raise UsageError(
                f"'{file}' must be a design for {board.name} as it is now, and it was made for other {', '.join(odd)}: "
                "explore again"
            )
    return dataclasses.replace(design, facts=board) if design.facts_digest == board.digest else design.on(board)


def bits_of(search: Search, design_file: Path | None) -> int:
    """Return the bits of the words of the design of a file, or of the one that is searched.

    Raises UsageError where the file's has others than `--bits` asks for, which the command must have.
    """
    if design_file is None:
        return search.bits
    bits = dse.Design.loads(models.read_text(design_file, "a design"), str(design_file)).word_bits
    if not is_default("bits") and bits != search.bits:
        raise UsageError(f"'{design_file}' must be a design with words of {search.bits} bits, not of {bits}")
    return bits


def choose_design(
    out: Console, network: models.Network, board: boards.Board, search: Search, design_file: Path | None
) -> dse.Design:
    """Read the design of a file, with which network and options must agree, or search one where there is no
    file.

    Exit rates are no part of that: those of the network replace the file's. Raises UsageError where they do
    not agree.
    """
    if design_file is None:
        return explore_designs(out, network.workload, board, search).design
    design = dse.Design.loads(models.read_text(design_file, "a design"), str(design_file))
    if design.board != board.name:
        raise UsageError(f"'{design_file}' must be a design for {board.name}, not for {design.board}")
    design = _with_facts(design, board, design_file)
    if search.b_max not in (None, design.b_max):
        raise UsageError(f"'{design_file}' must be a design for batches up to {search.b_max}, not up to {design.b_max}")
    if search.memory not in (None, design.memory):
        raise UsageError(f"'{design_file}' must be a design for memory '{search.memory}', not for '{design.memory}'")
    part = design.part_for(network.workload)
    if part is None and design.parts:
        made_for = ", ".join(f"'{part.network}'" for part in design.parts)
        raise UsageError(f"'{design_file}' is a design for {made_for}, and '{network.name}' has other layers or exits")
    design = design if part is None else part
    hls_program.check_made_for(design, network)
    return with_rates_of(design, network)
