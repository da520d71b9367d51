"""The share of on-chip RAM between the accumulators of an array and its input buffer, with the FBCB.

Pure arithmetic. Deep accumulators send weights less often, a large input buffer reads inputs once and keeps
large row blocks; both are bits of the same RAM.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import Window
>>> window = Window(kernel=(3, 3), out=(56, 56), channels=64)
>>> work = Workload(name="one", layers=(LayerShape(name="conv", r=3136, p=576, c=64, window=window),))
>>> question = Question(workload=work, board=load_board("zc706"), b_max=1, core="rtl")
>>> shared = share_memory(question, Point(t_r=4096, t_p=7, t_c=128))
>>> shared.fit.t_r, shared.fit.buffer_words, shared.plans[0][0].block
(1024, 262144, 336)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from fluidnpu.models import LayerShape, Workload

from ..design import Plans
from ..errors import FitError
from ..hardware.activation import LANE_PIECES, piece_rows, too_many_pieces
from ..hardware.array import Array
from ..hardware.row_buffer import BUFFER_WORDS, needed_bytes
from ..hardware.space import Point
from ..paper.plans import buildable_plan, plan_all
from ..question import Question
from ..resources.fit import Fit, fit, trade_offs
from .estimate import estimated_plans
from .mapping import joins
from .model import Machine


@dataclass(frozen=True, kw_only=True)
class SharedArray:
    """An array as it fits, with the FBCB and the joined groups of each layer.

    `filtered`: layers whose outputs pass a filter.
    """

    fit: Fit
    plans: Plans
    joins: tuple[int, ...] = ()
    filtered: tuple[int, ...] = ()


def share_memory(question: Question, point: Point) -> SharedArray:
    """The depth of accumulators and the input buffer that serve a workload best on one array, and its FBCB.

    Where the network's windows are not known accumulators are as deep as can be, and plans those of the
    `paper` model. Raises FitError.
    """
    workload, target, b_max = question.workload, question.target, question.b_max
    if any(layer.window is None for layer in workload.layers):
        deepest = fit(point, target)
        plans = plan_all(workload.layers, deepest.point, b_max, target.out_words, buildable_plan)
        return SharedArray(fit=deepest, plans=plans)
    # The paper's model knows no core, so its plans do not depend on one.
    counted = target if question.model == "exact" else replace(target, core="rtl")
    shares = []
    for fitted in trade_offs(point, target, _most_buffer_words(question)):
        machine = Machine.on(counted, fitted.array, fitted.buffer_words)
        estimated = estimated_plans(
            workload, machine, question.dram, b_max, question.layer_shares, pairs=question.pairs
        )
        shares.append((estimated, fitted))
    estimated, best = min(shares, key=lambda share: share[0].total)
    if estimated.total == inf:
        _check_pieces(workload, best.array)
        raise _too_small(question, best.buffer_words, f"beside {point.t_p} x {point.t_c} PEs")
    return SharedArray(fit=best, plans=estimated.plans, joins=estimated.joins, filtered=estimated.filtered)


def check_windows(question: Question, least: Point) -> None:
    """Raise FitError where even the smallest array leaves no room for a row of some layer's windows.

    `least` is that array. It saves a search over thousands of arrays of which none can be built. A filter
    needs more rows of RAM the fewer columns an array has, so the smallest one is asked without.
    """
    workload, target = question.workload, question.target.bare
    if any(layer.window is None for layer in workload.layers):
        return
    shares = trade_offs(least, target, _most_buffer_words(question))
    room = max(fitted.buffer_words for fitted in shares)
    if _least_buffer_bytes(question)[0] > question.word_bytes * room:
        raise _too_small(question, room, "beside the fewest PEs")


def _check_pieces(workload: Workload, array: Array[int]) -> None:
    """Raise FitError where a layer's channels need more pieces than a lane holds, with any groups joined."""
    for layer in workload.layers:
        least = min(
            (layer.joined(count) for count in joins(layer, array)), key=lambda shape: int(piece_rows(shape, array))
        )
        if says := too_many_pieces(least, array):
            raise FitError(says, resource="pieces", needed=int(piece_rows(least, array)), available=LANE_PIECES)


def _too_small(question: Question, buffer_words: int, beside: str) -> FitError:
    """Return the error for a board without room for a row of the windows of some layer."""
    least, layer = _least_buffer_bytes(question)
    room = question.word_bytes * buffer_words
    return FitError(
        f"board '{question.target.board.name}' is too small: the windows of one row of layer '{layer}' need an input buffer "
        f"of {least} bytes, and {beside} there is room for {room}",
        resource="buffer_bytes",
        needed=least,
        available=room,
    )


def _least_buffer_bytes(question: Question) -> tuple[int, str]:
    """Bytes of the buffer that a row of windows needs, of the layer that needs most; and its name."""

    def least(layer: LayerShape) -> int:
        assert layer.window is not None
        return needed_bytes(layer, batch=1, block=layer.window.out[1], word_bytes=question.word_bytes)

    return max((least(layer), layer.name) for layer in question.workload.layers)


def _most_buffer_words(question: Question) -> int:
    """Words of an input buffer, a power of two, in which a whole batch of any layer fits."""
    batch, word_bytes = question.b_max, question.word_bytes
    most = max(
        needed_bytes(layer, batch=batch, block=batch * layer.r, word_bytes=word_bytes)
        for layer in question.workload.layers
    )
    return max(BUFFER_WORDS, 1 << (most // word_bytes - 1).bit_length())
