"""The list of computed parts names files that exist; a row is put in place whole, or not at all."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, ROOT


@pytest.fixture(scope="module")
def refresh() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return importlib.import_module("refresh")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "reference" / "data.md").write_text("| `x.bin` | `cp page.md x.bin` | 0, 2026-11-01 |\n")
    (tmp_path / "page.md").write_text("# Page\n\n<!-- computed -->\n\n| 1 |\n<!-- end -->\n\nWords.\n")
    return tmp_path


def test_rows_have_files_and_names_of_their_own(refresh: Any) -> None:
    rows = list(refresh.rows())
    assert len({row.name for row in rows}) == len(rows) > 80
    assert [row.name for row in rows if not row.files(ROOT)] == []
    for row in rows:
        if row.part:
            assert refresh.spliced((ROOT / row.page).read_text("utf-8"), row, "", "0")


def test_a_part_is_put_in_its_place_with_what_made_it(refresh: Any, tree: Path) -> None:
    row = refresh.Row(name="x", command="echo '| 2 |'", page="page.md", part="computed")
    assert refresh.refresh([row], tree) == {}
    made = re.sub(r"on the tree [^.]*\.", "on the tree T.", (tree / "page.md").read_text())
    part = "<!-- computed -->\n\n| 2 |\n\nMade by `echo '| 2 |'` on the tree T.\n<!-- end -->"
    assert made == f"# Page\n\n{part}\n\nWords.\n"


def test_data_have_their_tree_in_the_table(refresh: Any, tree: Path) -> None:
    assert refresh.refresh([refresh.Row(name="x", command="cp page.md x.bin", writes="x.bin")], tree) == {}
    assert "2026-11-01" not in (tree / "docs" / "reference" / "data.md").read_text()


def test_a_row_that_fails_leaves_its_files(refresh: Any, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "page.md").read_text()
    bad = refresh.Row(name="bad", command="ls no-such-file", page="page.md")
    other = refresh.Row(name="other", command="echo y", page="page.md", part="elsewhere")
    good = refresh.Row(name="good", command="cp page.md copy.md", writes="copy.md", leaf=True)
    failed = refresh.refresh([bad, other, good], tree)
    assert list(failed) == ["bad", "other"]
    assert "no-such-file" in failed["bad"]
    assert "must have a part <!-- elsewhere -->" in failed["other"]
    assert (tree / "page.md").read_text() == (tree / "copy.md").read_text() == before
    assert capsys.readouterr().out.count("FAILED") == 2


def test_a_name_that_is_no_row_is_refused(refresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["refresh.py", "no-such-row"])
    with pytest.raises(SystemExit, match="2"):
        refresh.main()
