"""The price of columns: arrays that the cascades of the reference core keep off a board, and what the best of
them would reach.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..exact.search import evaluate_array, lower_bounds, objective_of
from ..exact.sharing import share_memory
from ..paper.model import Point
from ..paper.search import Space, legal_space
from ..question import Question
from ..resources.buildable import buildable
from ..resources.columns import fewest_pieces


def price_of_columns(question: Question, reached: float) -> str:
    """Say how many arrays the DSP columns leave out, and what the most promising would reach.

    `reached`: GOP/s weighted over batch sizes (or minus milliseconds) of the design found, as the search
    weighs it. The array is counted exactly. Takes as long as bounding the arrays and counting one.
    """
    board = question.board
    if not board.dsp_columns:
        return f"the file of board '{board.name}' says nothing of its columns of DSP slices"
    if question.core == "hls":
        return "the HLS core asks nothing of the columns of DSP slices; the reference core does (--core rtl)"
    free = replace(question, board=replace(board, dsp_columns=(), sources={}))
    left = _left_out(question, free)
    if not len(left):
        return "the columns of DSP slices leave out no array"
    bounds = lower_bounds(free, left, free.batches)
    values = objective_of(free)(bounds)
    best = int(np.argmax(values))
    if values[best] <= reached:
        return f"the columns of DSP slices leave out {len(left)} arrays, none of which could be better"
    point = left[best]
    shared = share_memory(free, point).fit
    batches = sorted({1, question.b_max})
    counted = evaluate_array(free, shared, batches)
    cycles = {b: question.weighed(partial(counted.total, batch=b)) for b in batches}
    rates = " and ".join(f"{b * board.clock_hz / cycles[b]:.1f} at batch {b}" for b in batches)
    return (
        f"the columns of DSP slices leave out {len(left)} arrays; the most promising, <{shared.t_r}, {point.t_p}, {point.t_c}>, "
        f"would give {rates} frames/s, and its chains would have to break into {_pieces(question, point)} pieces each"
    )


def _left_out(question: Question, free: Question) -> Space:
    """Arrays that could be built if columns did not matter."""
    every = buildable(legal_space(free.board), free.target).space
    placed = buildable(legal_space(question.board), question.target).space
    pairs = set(zip(placed.t_p.tolist(), placed.t_c.tolist(), strict=True))
    pe = zip(every.t_p.tolist(), every.t_c.tolist(), strict=True)
    return every.only(np.array([pair not in pairs for pair in pe], dtype=bool))


def _pieces(question: Question, point: Point) -> int:
    found = fewest_pieces(question.board.dsp_columns, point.t_p, point.t_c)
    assert found is not None, "an array within the DSPs of the device has room in pieces of one slice"
    return found
