"""Tables on narrow screens, and words with a meaning."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fluidnpu import show, words

CELL = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=12)


def drawn(rows: Sequence[tuple[str, ...]], columns: tuple[str, ...], width: int, left: int = 1) -> str:
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    screen.print(show.table("title", columns, rows, left=left))
    file = screen.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@given(st.data(), st.integers(40, 120))
def test_every_cell_is_on_one_line_and_no_line_is_too_long(data: st.DataObject, width: int) -> None:
    count = data.draw(st.integers(2, 9))
    columns = tuple(f"c{index}" for index in range(count))
    rows = data.draw(st.lists(st.tuples(*(CELL for _ in columns)), min_size=1, max_size=4))
    text = drawn(rows, columns, width)
    assert max(map(len, text.splitlines())) <= width
    for row in rows:
        for cell in row:
            assert any(cell in line.split() for line in text.splitlines())


def test_a_wide_table_goes_on_below_with_its_names() -> None:
    rows = [("serial", "12.3 ± 0.4", "0.846 ± 0.022"), ("fluid", "11.0 ± 0.3", "0.712 ± 0.018")]
    wide, narrow = (drawn(rows, ("policy", "violations %", "average ms"), width) for width in (80, 24))
    assert len(wide.splitlines()) == 4
    assert [line.split()[0] for line in narrow.splitlines() if line.strip()] == [
        "title", "policy", "serial", "fluid", "policy", "serial", "fluid",
    ]  # fmt: skip
    assert "0.846 ± 0.022" in narrow


def test_piped_output_honours_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert show.console().width == show.PIPE_COLUMNS
    monkeypatch.setenv("COLUMNS", "72")
    assert show.console().width == 72


def test_a_head_with_a_unit_has_the_meaning_of_its_word() -> None:
    assert set(words.ALIASES.values()) <= set(words.WORDS)
    assert words.meaning("violations %") == words.meaning("SLO missed")
    with pytest.raises(KeyError):
        words.explain_words(["nosuch"])


def test_the_clock_of_a_bar_runs_behind_the_last_step() -> None:
    """Work without steps may follow, such as what is done with the last array."""
    now = [0.0]
    file = io.StringIO()
    screen = Console(file=file, width=80, force_terminal=True, force_interactive=True, get_time=lambda: now[0])
    with show.progress(screen, "counting") as step:
        step(21, 21)
        now[0] = 75.0
    assert "21/21" in file.getvalue()
    assert "0:01:15" in file.getvalue()
