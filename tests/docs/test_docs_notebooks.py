"""Every notebook runs from top to bottom and prints what is stored in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_notebooks import NOTEBOOKS, executed, read_notebook, texts


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    """After a change: python tests/docs/refresh_outputs.py docs/notebooks/NAME.ipynb."""
    stored = read_notebook(path)
    assert texts(executed(stored, tmp_path)) == texts(stored)


def test_there_is_one_for_each_road() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["exits", "exploration", "serving", "tutorial"]
