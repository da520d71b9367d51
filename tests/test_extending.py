"""The page on extending runs as it stands, block after block, and prints what it says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    policy, criterion, board, field = capsys.readouterr().out.splitlines()
    assert policy == "[(0, 0), (3, 1), (2, 0), (1, 1)]"
    assert criterion == "[0, 1, 0, 0]"
    assert int(board.split()[0]) > 0
    assert int(board.split()[1]) == 280
    assert field == "5"
