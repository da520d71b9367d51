"""Tables of confidences read back, or are refused by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fluidnpu.scheduler import (
    SchedulerError,
)
from fluidnpu.scheduler.exits import Recorded, read_confidence_file
from fluidnpu.scheduler.exits.confidences import read_confidences


def table(count: int = 200) -> Recorded:
    rng = np.random.default_rng(3)
    sure = np.sort(rng.random((count, 4)), axis=1)
    return Recorded(confidences=sure, correct=rng.random((count, 4)) < sure)


def test_confidence_files_read_back(tmp_path: Path) -> None:
    recorded = table(20)
    sure, right = np.asarray(recorded.confidences), np.asarray(recorded.correct)
    head = ",".join(f"{kind}_{k}" for k in range(1, 5) for kind in ("correct", "confidence"))
    lines = [
        ",".join(f"{int(r)},{c!r}" for c, r in zip(map(float, cs), rs, strict=True))
        for cs, rs in zip(sure, right, strict=True)
    ]
    (tmp_path / "c.csv").write_text("\n".join([head, *lines]))
    np.savez(tmp_path / "c.npz", confidences=sure, correct=right)
    for name in ("c.csv", "c.npz"):
        found = read_confidence_file(tmp_path / name)
        assert np.array_equal(np.asarray(found.confidences), sure)
        assert np.array_equal(np.asarray(found.correct), right)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1 must name confidence_k"),
        ("confidence_1,correct_2\n", "line 1 must name confidence_k"),
        ("confidence_1,correct_1\n", "at least one sample"),
        ("confidence_1,correct_1\n0.5,1\n1.5,1\n", "line 3 must hold"),
        ("confidence_1,correct_1\n0.5,yes\n", "line 2 must hold"),
        ("confidence_1,correct_1\nnan,1\n", "line 2 must hold"),
        ("confidence_1,correct_1\n0.5\n", "line 2 must hold"),
    ],
)
def test_confidence_text_is_refused_by_line(text: str, says: str) -> None:
    with pytest.raises(SchedulerError, match=says):
        read_confidences(text)


def test_confidence_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.npz").write_bytes(b"not a zip")
    np.savez(tmp_path / "d.npz", confidences=np.zeros((2, 2)))
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("c.npz", "d.npz", "e.csv"):
        with pytest.raises(SchedulerError, match=name):
            read_confidence_file(tmp_path / name)
