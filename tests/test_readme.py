"""The README's Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.models import shipped_file

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_exploring(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[0], "README.md", "exec"), {})
    assert "<" in capsys.readouterr().out


def test_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ["build", str(model), "--board", "zc706", "--model", "paper", "--out", "out/demo/zc706"]
        assert CliRunner().invoke(main, words).exit_code == 0
    exec(compile(BLOCKS[1], "README.md", "exec"), {})
    assert capsys.readouterr().out.count(",") == 19
    assert len(BLOCKS) == 2
