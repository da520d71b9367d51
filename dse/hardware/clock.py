"""The clock that designs are counted at: the board's, or the predicted one where that is lower.

`make timing` predicts the clock of the shipped designs and keeps it in `dse/resources/clocks.json`. A board
is as fast as the slowest of them on its part; nothing is known of a part that none was predicted for.

>>> from fluidnpu.boards import load_board
>>> board = load_board("zc706")
>>> at_predicted_clock(board).clock_hz <= board.clock_hz
True
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from fluidnpu.boards import Board


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A predicted clock in MHz with its interval, and the design and module whose path it is."""

    mhz: float
    low_mhz: float
    high_mhz: float
    design: str
    module: str


@cache
def clocks() -> dict[str, Any]:
    """Return `clocks.json`: the digest of the RTL that was timed, and the clock of each shipped design."""
    body: dict[str, Any] = json.loads((resources.files("fluidnpu.dse") / "resources" / "clocks.json").read_text())
    return body


def predicted_clock(board: Board) -> Prediction | None:
    """Return the slowest prediction for a board's part, None without one."""
    names = ("mhz", "low_mhz", "high_mhz", "module")
    readings = [
        Prediction(design=name, **{key: row[key] for key in names})
        for name, row in clocks()["designs"].items()
        if row["part"] == board.part
    ]
    return min(readings, key=lambda clock: clock.mhz, default=None)


def at_predicted_clock(board: Board) -> Board:
    """Return the board with the smaller of its own clock and the predicted one."""
    predicted = predicted_clock(board)
    if predicted is None or 1e6 * predicted.mhz >= board.clock_hz:
        return board
    return replace(board, clock_hz=int(1e6 * predicted.mhz))


def told_clock(board: Board, whole: Board | None = None) -> str:
    """Say a board's clock, and in brackets if it is the board file's, one that a built design has met, or
    predicted, with the interval.

    `whole`: the board as its file has it, where `board` may be what a built design leaves of it.

    >>> from fluidnpu.boards import load_board
    >>> told_clock(load_board("zc706")).partition(" (")[0].endswith(" MHz")
    True
    """
    clock, predicted = f"{board.clock_hz / 1e6:g} MHz", predicted_clock(board)
    if whole is not None and board.clock_hz < whole.clock_hz and board != at_predicted_clock(whole):
        return f"{clock} (met by a built design; the board file's clock is {whole.clock_hz / 1e6:g} MHz)"
    if predicted is None:
        return f"{clock} (the board file's clock, not yet timed)"
    interval = f"{predicted.low_mhz:.0f} to {predicted.high_mhz:.0f}"
    if board.clock_hz == int(1e6 * predicted.mhz):
        return f"{clock} (predicted, {interval})"
    return f"{clock} (the board file's clock; {predicted.mhz:.0f} predicted, {interval})"
