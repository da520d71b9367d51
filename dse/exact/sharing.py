"""How the RAM of a board is shared between the accumulators of an array and its input buffer, and the FBCB that goes with it. Pure arithmetic.

Deep accumulators send weights less often, a large input buffer reads inputs once and keeps large row blocks; both are bits of the same RAM.

>>> from fluidnpu.boards import load_board
>>> from fluidnpu.models import Window
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64, window=Window(kernel=(3, 3), out=(56, 56), channels=64))
>>> found, plans = share_memory(Workload(name="one", layers=(layer,)), load_board("zc706"), Point(t_r=4096, t_p=7, t_c=128), b_max=1)
>>> found.t_r, found.buffer_words, plans[0][0].block
(1024, 262144, 336)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from fluidnpu.boards import Board
from fluidnpu.models import LayerShape, Workload

from ..design import BatchPlan, input_words, line_words
from ..hardware.dram import DramModel
from ..hardware.row_buffer import WORD_BYTES, needed_bytes
from ..paper.model import Point
from ..paper.plans import buildable_plan, plan_all
from ..resources.fit import CORES, Fit, FitError, fit, fits, stream_words, weight_slots_for
from ..resources.primitives import BUFFER_WORDS
from .estimate import Path, estimated_plan, layer_key
from .model import Machine

Plans = tuple[tuple[BatchPlan, ...], ...]


def machine_on(board: Board, memory: str | None, point: Point, buffer_words: int = BUFFER_WORDS) -> Machine:
    """The NPU with an array of `point` and ports to a memory of a board.

    >>> from fluidnpu.boards import load_board
    >>> machine_on(load_board("zcu104"), "ps_striped", Point(t_r=512, t_p=27, t_c=64)).weight_slots
    2
    """
    found = board.memory(memory)
    words = input_words(point.t_p, found.port_bits)
    return Machine(
        t_p=point.t_p, t_c=point.t_c, weight_slots=weight_slots_for(point.t_p, found.port_bits), input_words=words,
        out_words=stream_words(board, memory), port_bytes=found.port_bits // 8, stripes=found.stripes, line_words=line_words(words),
        buffer_words=buffer_words,
    )  # fmt: skip


def estimated_plans(workload: Workload, path: Path, b_max: int) -> tuple[float, Plans]:
    """The FBCB of fewest estimated cycles, and their sum over layers and batch sizes; infinite when a layer's rows do not fit the input buffer."""
    known: dict[LayerShape, list[tuple[float, BatchPlan]]] = {}
    for layer in workload.layers:
        assert layer.window is not None
        if (key := layer_key(layer)) not in known:
            known[key] = [estimated_plan(layer, layer.window, path, batch) for batch in range(1, b_max + 1)]
    rows = [known[layer_key(layer)] for layer in workload.layers]
    total = sum(cycles / batch for row in rows for batch, (cycles, _) in enumerate(row, 1))
    return total, tuple(tuple(plan for _, plan in row) for row in rows)


def share_memory(
    workload: Workload,
    board: Board,
    point: Point,
    *,
    b_max: int,
    memory: str | None = None,
    acc_bits: int = 48,
    core: str = CORES[0],
) -> tuple[Fit, Plans]:
    """How deep accumulators and how large an input buffer serve a workload best on one array, and the FBCB then. Raises FitError.

    Where the network's windows are not known accumulators are as deep as can be, and plans those of the `paper` model.
    """
    given: Mapping[str, Any] = {
        "fbcb_words": len(workload.layers) * b_max,
        "b_max": b_max,
        "acc_bits": acc_bits,
        "memory": memory,
        "core": core,
    }
    if any(layer.window is None for layer in workload.layers):
        found = fit(point, board, **given)
        fitted = replace(point, t_r=found.t_r)
        return found, plan_all(workload.layers, fitted, b_max, stream_words(board, memory), buildable_plan)
    every = []
    for found in fits(point, board, most_buffer_words=_most_buffer_words(workload, b_max), **given):
        path = Path.of(machine_on(board, memory, point, found.buffer_words), found.t_r, DramModel.of(board, memory))
        every.append((*estimated_plans(workload, path, b_max), found))
    total, plans, best = min(every, key=lambda one: one[0])
    if total == inf:
        least, layer = max((_least_buffer_bytes(layer), layer.name) for layer in workload.layers)
        raise FitError(
            f"board '{board.name}' is too small: the windows of one row of layer '{layer}' need an input buffer of {least} bytes, "
            f"and beside {point.t_p} x {point.t_c} PEs there is room for {2 * best.buffer_words}",
            resource="buffer_bytes",
            needed=least,
            available=2 * best.buffer_words,
        )
    return best, plans


def _least_buffer_bytes(layer: LayerShape) -> int:
    assert layer.window is not None
    return needed_bytes(layer, batch=1, block=layer.window.out[1])


def _most_buffer_words(workload: Workload, b_max: int) -> int:
    """Words of an input buffer, a power of two, in which a whole batch of any layer fits."""
    most = max(needed_bytes(layer, batch=b_max, block=b_max * layer.r) for layer in workload.layers)
    return max(BUFFER_WORDS, 1 << (most // WORD_BYTES - 1).bit_length())
