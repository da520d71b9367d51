"""The Python of the tutorial on YOLOv8, run without its file: suppression of boxes, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs_pages import DOCS, read_page

FILES = {block.file: block.text for block in read_page(DOCS / "tutorial" / "yolov8.md").blocks if block.file}
NAMES = ["FACE_A", "OTHER", "FACE_B"]


def names_of(file: str) -> dict[str, Any]:
    """Return what a file of the page defines."""
    names: dict[str, Any] = {"__name__": file}
    exec(compile(FILES[file], file, "exec"), names)
    return names


def output(*places: tuple[float, float, float, float, float, float, float]) -> np.ndarray[Any, Any]:
    """Return the rows of a detector: centre, size and a score of each of three classes by place."""
    return np.array(places).T


def test_a_box_that_overlaps_a_better_one_is_dropped() -> None:
    found = names_of("boxes.py")["faces"](
        output(
            (50, 50, 20, 20, 0.3, 0.0, 0.6),
            (52, 50, 20, 20, 0.9, 0.0, 0.1),  # shares 18 / 22 with the first
            (70, 50, 20, 20, 0.5, 0.0, 0.0),  # shares 2 / 38 with the second
            (90, 90, 20, 20, 0.2, 0.9, 0.2),  # no face
            (10, 10, 20, 20, 0.25, 0.0, 0.0),  # not above the least score
        ),
        NAMES,
    )
    assert found[0].tolist() == [[42, 40, 62, 60], [60, 40, 80, 60]]
    assert found[1].tolist() == [0.9, 0.5]


def test_no_place_above_the_least_score_gives_no_box() -> None:
    boxes, scores = names_of("boxes.py")["faces"](output((50, 50, 20, 20, 0.1, 0.9, 0.1)), NAMES)
    assert boxes.shape == (0, 4)
    assert scores.shape == (0,)


def test_pictures_are_square_and_those_of_calibration_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("skimage")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    padded = names_of("pictures.py")["padded"]
    ranges, kept = np.load("calibrate.npz")["images"], np.load("test.npz")["images"]
    assert ranges.shape == (40, 320, 320, 3)
    assert kept.shape == (4, 320, 320, 3)
    assert len(np.unique(ranges, axis=0)) == 40
    assert not (ranges[:, None] == kept).all(axis=(2, 3, 4)).any()
    wide = padded(np.full((100, 200), 200, np.uint8))
    assert wide[:150].min() == 200
    assert wide[170:].max() == 0
