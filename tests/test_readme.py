"""The Python of the README and of docs/api.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import fluidnpu
from fluidnpu.cli import main
from fluidnpu.models import shipped_file

ROOT = Path(__file__).parent.parent


def blocks(page: str) -> list[str]:
    """The blocks of Python on a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def run(page: str, block: str, names: dict[str, object]) -> None:
    """Run one block; a traceback names the page."""
    exec(compile(block, page, "exec"), names)


def test_exploring(capsys: pytest.CaptureFixture[str]) -> None:
    run("README.md", blocks("README.md")[0], {})
    assert "<" in capsys.readouterr().out


def test_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ["build", str(model), "--board", "zc706", "--model", "paper", "--out", "out/demo/zc706"]
        assert CliRunner().invoke(main, words).exit_code == 0
    found = blocks("README.md")
    run("README.md", found[1], {})
    assert capsys.readouterr().out.count(",") == 19
    assert len(found) == 2


def test_the_api_page_is_one_session_that_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    said = 0
    for block in blocks("docs/api.md"):
        run("docs/api.md", block, names)
        expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
        said += len(expected)
    assert said >= 12


def test_the_api_page_shows_every_name_of_the_door() -> None:
    text = "\n".join(blocks("docs/api.md"))
    missing = [name for name in dir(fluidnpu) if f"fluidnpu.{name}" not in text]
    assert not missing
