"""The report of a synthesiser on one built design beside the predictions, for later explorations.

Nothing here is fitted: one record is one point. Another design gets that point scaled, with a
note that says so.

>>> rows = (Measure(stage="route", quantity="lut", predicted=None, reported=60000.0),)
>>> place = {"network": "n", "board": "zc706", "clock_hz": 150_000_000, "t_r": 512, "t_p": 7, "t_c": 128}
>>> record = Calibration(design="0" * 64, measures=rows, **place)
>>> Calibration.loads(record.dumps()) == record
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from fluidnpu.boards import Board

from ..errors import DesignError

SCHEMA = 1
_FACTS = {"dsp": "dsp", "ramb18": "ramb36", "uram288": "uram288", "lut": "lut", "ff": "ff"}  # quantity: fact of a board


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One number of a report.

    `stage` is "hls" (an estimate of the HLS tool) or "route" (after place and route).
    """

    stage: str
    quantity: str
    predicted: float | None
    reported: float

    def __post_init__(self) -> None:
        for name, value in (("predicted", self.predicted), ("reported", self.reported)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf
            ):
                raise DesignError(
                    f"{name} of '{self.quantity}' in a calibration must be a number of at least 0, not {value!r}"
                )

    @property
    def ratio(self) -> float | None:
        """Reported over predicted; None where nothing (or nothing but zero) was predicted."""
        return self.reported / self.predicted if self.predicted else None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The measures of one built design."""

    design: str
    network: str
    board: str
    clock_hz: int
    t_r: int
    t_p: int
    t_c: int
    measures: tuple[Measure, ...]

    @property
    def missed_timing(self) -> str:
        """A sentence on the clock asked, the one met and the slack; empty where the build met its clock."""
        row = next((m for m in self.measures if (m.stage, m.quantity) == ("route", "clock_mhz")), None)
        if row is None or not row.predicted or not 0 < row.reported < row.predicted:
            return ""
        return (
            f"the built design asked for {row.predicted:g} MHz and met {row.reported:.1f}, with a worst setup slack "
            f"of {1e3 / row.predicted - 1e3 / row.reported:.3f} ns"
        )

    def reported(self, quantity: str) -> float | None:
        """A number after place and route."""
        return next((m.reported for m in self.measures if (m.stage, m.quantity) == ("route", quantity)), None)

    def ratio(self, quantity: str) -> float | None:
        """Reported over predicted after place and route; None where one of them is not known."""
        return next((m.ratio for m in self.measures if (m.stage, m.quantity) == ("route", quantity)), None)

    def check_board(self, board: Board) -> None:
        """Raise DesignError for another board."""
        if self.board != board.name:
            raise DesignError(
                f"a calibration must be of the board it is used for, {board.name}, and it is of {self.board}"
            )

    def dumps(self) -> str:
        """Canonical JSON with schema number; the ratios stand in it for readers."""
        rows = [asdict(measure) | {"ratio": measure.ratio} for measure in self.measures]
        text = json.dumps(
            asdict(self) | {"schema": SCHEMA, "measures": rows}, sort_keys=True, indent=1, allow_nan=False
        )
        return text + "\n"

    @classmethod
    def loads(cls, text: str, what: str = "a calibration") -> Calibration:
        """Read `dumps`; raises DesignError."""
        try:
            facts = json.loads(text)
            if not isinstance(facts, dict):
                raise DesignError(f"{what} must be what `fluidnpu import-reports` writes, an object, and it is none")
            if facts["schema"] != SCHEMA:
                raise DesignError(
                    f"{what} must be of schema {SCHEMA}, not {facts['schema']!r}; import the reports again"
                )
            rows = tuple(Measure(**{f.name: row[f.name] for f in fields(Measure)}) for row in facts["measures"])
            record = cls(**{f.name: facts[f.name] for f in fields(cls) if f.name != "measures"}, measures=rows)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, DesignError):
                raise
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise DesignError(
                f"{what} must be what `fluidnpu import-reports` writes, and it is not: {why[:120]}"
            ) from None
        for name in ("clock_hz", "t_r", "t_p", "t_c"):
            value = getattr(record, name)
            if not isinstance(value, int) or value < 1:
                raise DesignError(f"{name} in {what} must be a whole number of at least 1, not {value!r}")
        return record


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The estimates of a design scaled by a calibration: LUTs and flip-flops."""

    resources: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"notes": list(self.notes)}


def apply_calibration(record: Calibration, board: Board, estimates: Mapping[str, float]) -> Calibrated:
    """A design's estimates of "lut" and "ff" by the record's factors.

    Factors: reported over predicted, of a whole bitstream over the NPU alone. Raises DesignError for a record
    of another board.
    """
    record.check_board(board)
    resources, notes = {}, []
    for quantity, available in (("lut", board.lut), ("ff", board.ff)):
        ratio = record.ratio(quantity)
        if ratio is not None and quantity in estimates:
            used = ratio * estimates[quantity]
            resources[quantity] = {"used": used, "available": available, "percent": 100 * used / available}
            built = f"<{record.t_r}, {record.t_p}, {record.t_c}>"
            notes.append(
                f"{quantity.upper()} scaled by {ratio:.3f}, reported over predicted of one built design {built}"
            )
            if used > available:
                notes.append(
                    f"by that factor the design needs {used:.0f} {quantity.upper()}, and {board.name} has {available}"
                )
    if not notes:
        notes.append("the calibration holds no LUTs or flip-flops after place and route, so none are scaled")
    return Calibrated(resources=resources, notes=tuple(notes))


def calibrated_board(record: Calibration, board: Board) -> tuple[Board, tuple[str, ...]]:
    """The board with less of what a built design took more of than predicted, and the clock that it met.

    A design fits this board if it fits the real one with its predictions scaled. A ratio below 1 changes
    nothing, and the clock is never above the board file's: one design may take away, and promise nothing. A
    build that met a lower clock than the file's does not lower it, since its tools were content with that.
    Notes say what has changed. Raises DesignError for a record of another board.

    >>> from fluidnpu.boards import load_board
    >>> row = Measure(stage="route", quantity="ramb18", predicted=400.0, reported=500.0)
    >>> place = {"network": "n", "clock_hz": 150_000_000, "t_r": 512, "t_p": 7, "t_c": 128}
    >>> record = Calibration(design="0" * 64, board="zc706", measures=(row,), **place)
    >>> calibrated_board(record, load_board("zc706"))[1]
    ('the search has 436 of 545 RAMB36, since the built design took 1.250 times the RAMB18 predicted',)
    """
    record.check_board(board)
    room: dict[str, Any] = {}
    notes = []
    met, file_mhz = record.reported("clock_mhz"), board.clock_hz / 1e6
    if met and record.missed_timing and met < file_mhz:
        room["clock_hz"] = int(1e6 * met)
        notes.append(
            f"the search counts at {met:.1f} MHz, not at the board file's {file_mhz:g}: {record.missed_timing}"
        )
    elif met and met < file_mhz:
        notes.append(
            f"the built design asked for {record.clock_hz / 1e6:g} MHz, which says nothing about the board file's {file_mhz:g}"
        )
    for quantity, fact in _FACTS.items():
        ratio, available = record.ratio(quantity), getattr(board, fact)
        if ratio is not None and ratio > 1 and available:
            room[fact] = max(1, math.floor(available / ratio))
            notes.append(
                f"the search has {room[fact]} of {available} {fact.upper()}, since the built design took {ratio:.3f} times the "
                f"{quantity.upper()} predicted"
            )
    return replace(board, **room), tuple(notes)
