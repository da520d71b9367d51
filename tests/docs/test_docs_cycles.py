"""The index of the pages of every layer repeats what the pages say, and no page has a layer that differs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "explanation" / "cycles"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem not in ("index", "networks"))
NUMBER = r"([\d.]+ %)"


def test_every_page_is_in_the_index() -> None:
    linked = re.findall(r"\]\(([^)/]+)\.md\)", (FOLDER / "index.md").read_text())
    assert sorted(set(linked) - {"networks"}) == [path.stem for path in PAGES] != []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_index_gives_the_figures_of_a_page(page: Path) -> None:
    text = page.read_text()
    assert "layers that differ in cycles, beats or bursts: 0" in text
    design = re.search(r"The design: <\d+, (\d+, \d+)>", text)
    rows = re.findall(rf"^\| ([1248]) \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER} \| {NUMBER} \|$", text, re.M)
    assert design is not None
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    line = next(line for line in (FOLDER / "index.md").read_text().splitlines() if f"({page.name})" in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2] == f"[<{design[1]}>]({page.name})"
    assert cells[3:] == [row[1] for row in rows] + [rows[-1][4]]
