"""The price of columns of DSP slices: chains of the reference core that break for them, and arrays that they
keep off a board.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..exact.search import Evaluation, evaluate_array
from ..hardware.array import Array
from ..hardware.space import DesignSpace
from ..question import Question
from ..resources.buildable import buildable, target_space
from ..resources.columns import MOST_BREAKS
from ..resources.fit import Fit


def price_of_columns(question: Question, fitted: Fit) -> str:
    """Say which chains of an array break for the DSP columns, what that costs, and what arrays are left out.

    The cost is counted by the exact model, beside the same array with whole chains: it takes as long as
    counting two arrays.
    """
    board, array = question.board, fitted.array
    if not board.dsp_columns:
        return f"the file of board '{board.name}' says nothing of its columns of DSP slices"
    if question.core == "hls":
        return "the HLS core asks nothing of the columns of DSP slices; the reference core does (--core rtl)"
    left = _left_out(question)
    out = f"; {left} arrays are left out, whose chains would need more than {MOST_BREAKS} breaks" if left else ""
    if not array.broken:
        return f"each of the {array.chains} chains of {array.t_p} lies whole in a column of DSP slices{out}"
    batches = sorted({1, question.b_max})
    ours, theirs = (
        evaluate_array(question, fitted_array, batches) for fitted_array in (fitted, with_whole_chains(fitted))
    )
    return f"{chains_in_pieces(array)}, which costs {_cost(question, ours, theirs, batches)}{out}"


def unknown_columns(question: Question) -> tuple[str, ...]:
    """Give the note of a design with the reference core whose chains no file holds against columns."""
    if question.core == "hls" or question.board.dsp_columns:
        return ()
    return (
        f"the file of board '{question.board.name}' says nothing of its columns of DSP slices (dsp_columns), so the "
        "chains of the reference core were not checked against them",
    )


def with_whole_chains(fitted: Fit) -> Fit:
    """Give the same array as if all its chains fitted the columns: what pieces are compared with."""
    return replace(fitted, array=replace(fitted.array, piece=0, broken=0))


def pieces(array: Array[int]) -> list[int]:
    """Give the words of each piece of a chain that breaks.

    >>> pieces(Array(t_r=64, t_p=27, t_c=64, weight_slots=1, in_words=54, piece=24, broken=24))
    [24, 3]
    """
    return [min(array.piece, array.t_p - at) for at in range(0, array.t_p, array.piece)]


def chains_in_pieces(array: Array[int]) -> str:
    """Say which chains of an array break, and into what.

    >>> chains_in_pieces(Array(t_r=64, t_p=27, t_c=64, weight_slots=1, in_words=54, piece=24, broken=24))
    '24 of 64 chains of 27 break into pieces of 24 and 3 to fit the columns of DSP slices'
    """
    *first, last = map(str, pieces(array))
    listed = " and ".join((", ".join(first), last))
    return f"{array.broken} of {array.chains} chains of {array.t_p} break into pieces of {listed} to fit the columns of DSP slices"


def _cost(question: Question, ours: Evaluation, theirs: Evaluation, batches: list[int]) -> str:
    costs = []
    for batch in batches:
        of, with_breaks = (
            question.weighed(partial(evaluation.total, batch=batch), evaluation.layers) for evaluation in (theirs, ours)
        )
        more = with_breaks - of
        costs.append(f"{more:,.0f} of {of:,.0f} cycles ({100 * more / of:.3f} %) at batch {batch}")
    return " and ".join(costs)


def _left_out(question: Question) -> int:
    """The number of arrays that could be built if columns did not matter."""
    free = replace(question, board=replace(question.board, dsp_columns=(), sources={}))
    return _pairs(buildable(target_space(free.target), free.target).space) - _pairs(
        buildable(target_space(question.target), question.target).space
    )


def _pairs(space: DesignSpace) -> int:
    return len(set(zip(space.t_p.tolist(), space.t_c.tolist(), strict=True)))
