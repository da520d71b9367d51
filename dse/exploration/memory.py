"""The memory of a question: the one that was named, or the first of the board's with which an array fits.

A wide memory may leave a small board no room for the logic that its ports take; a narrower one then serves.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import FitError
from ..question import Question
from ..resources.buildable import least_point
from ..resources.fit import fit


def in_memory(question: Question) -> tuple[Question, tuple[str, ...]]:
    """The question with a memory that the smallest array fits with, and a note if that is not the first.

    Raises FitError where none was named and none fits, or where the one that was named does not; the sentence
    then says which does.
    """
    refused, wanted = _refusal(question), question.target.ports
    if refused is None:
        return question, ()
    others = fitting(question)
    if not others:
        raise refused
    if question.memory is None:
        why = f"with '{wanted.name}', the first of board '{question.board.name}', no array fits: {refused}"
        return _with(question, others[0]), (f"memory '{others[0]}' was chosen; {why}",)
    bits = question.board.memory(others[0]).port_bits
    raise FitError(
        f"{refused}; memory '{wanted.name}' gives a master {wanted.port_bits} bits, and with '{others[0]}', which gives "
        f"{bits}, arrays fit",
        resource=refused.resource,
        needed=refused.needed,
        available=refused.available,
    )


def fitting(question: Question) -> list[str]:
    """Names of the board's memories that the smallest array fits with."""
    return [memory.name for memory in question.board.dram if _refusal(_with(question, memory.name)) is None]


def _with(question: Question, memory: str) -> Question:
    return replace(question, board=question.facts, memory=memory)


def _refusal(question: Question) -> FitError | None:
    try:
        fit(least_point(question.target), question.target.bare)
    except FitError as error:
        return error
    return None
