"""Every notebook runs from top to bottom, and its outputs have the shape of those that are stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_notebooks import NOTEBOOKS, executed, read_notebook, texts

SHORT = ("exploration",)  # the others train for a minute, or search every batch size
CASES = [pytest.param(path, id=path.stem, marks=[] if path.stem in SHORT else [pytest.mark.long]) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", CASES)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    stored = read_notebook(path)
    assert texts(executed(stored, tmp_path)) == texts(stored)


def test_there_is_one_for_each_road() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["exits", "exploration", "serving", "tutorial"]
