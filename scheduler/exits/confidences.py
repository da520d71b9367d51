r"""Readers of recorded confidences of labelled samples at every exit: CSV text or NumPy's npz.

CSV: a header with `confidence_1,correct_1,confidence_2,correct_2,...` (any order, exits counted from 1),
one line a sample, `correct` 0 or 1. npz: arrays `confidences` and `correct`, both samples x exits.

>>> text = "confidence_1,confidence_2,correct_1,correct_2\n0.9,0.99,1,1\n0.4,0.7,0,1\n"
>>> read_confidences(text).exit_rates([0.8, 0])
(0.5, 0.5)
"""

from __future__ import annotations

import csv
import io
import math
import re
import zipfile
from pathlib import Path

import numpy as np

from ..errors import SchedulerError
from .recorded import Recorded

_COLUMN = re.compile(r"(confidence|correct)_([1-9][0-9]*)")


def read_confidence_file(path: Path) -> Recorded:
    """Read a file: npz by its name, anything else as CSV. Raises SchedulerError and OSError."""
    if path.suffix != ".npz":
        try:
            return read_confidences(path.read_text(encoding="utf-8"), str(path))
        except UnicodeDecodeError:
            raise SchedulerError(f"{path} must be a CSV text, or end in .npz") from None
    try:
        with np.load(path) as arrays:
            return Recorded(confidences=arrays["confidences"], correct=arrays["correct"])
    except (KeyError, zipfile.BadZipFile, ValueError) as error:
        if isinstance(error, SchedulerError):
            raise
        raise SchedulerError(f"{path} must hold arrays 'confidences' and 'correct', samples x exits: {error}") from None


def read_confidences(text: str, source: str = "confidences") -> Recorded:
    """Read CSV text. Raises SchedulerError naming the line."""
    rows = csv.DictReader(io.StringIO(text))
    names = rows.fieldnames or []
    columns = [match for name in names if (match := _COLUMN.fullmatch(name))]
    exits = max((int(match[2]) for match in columns), default=0)
    wanted = {f"{kind}_{k}" for kind in ("confidence", "correct") for k in range(1, exits + 1)}
    if not wanted or not wanted <= set(names):
        raise SchedulerError(
            f"{source} line 1 must name confidence_k and correct_k for every exit k = 1, 2, ..., not {','.join(names)!r}"
        )
    confidences, correct = [], []
    for row in rows:
        try:
            sure = [float(row[f"confidence_{k}"]) for k in range(1, exits + 1)]
            right = [{"0": False, "1": True}[row[f"correct_{k}"].strip()] for k in range(1, exits + 1)]
        except (AttributeError, KeyError, TypeError, ValueError):
            sure, right = [math.nan], []
        if not all(0 <= value <= 1 for value in sure):
            raise SchedulerError(
                f"{source} line {rows.line_num} must hold confidences in 0..1 and 0 or 1 for correct, not {list(row.values())}"
            )
        confidences.append(sure)
        correct.append(right)
    if not confidences:
        raise SchedulerError(f"{source} must hold at least one sample")
    return Recorded(confidences=confidences, correct=correct)
