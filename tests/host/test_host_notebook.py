"""The board's notebook is delivered as PYNQ delivers notebooks, and its cells run on the simulated NPU."""

import json
import sys
from pathlib import Path

import pytest

from fluidnpu.host import notebooks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(notebooks.__file__).parent


def cells(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import matplotlib as mpl
    from click.testing import CliRunner

    from fluidnpu.cli import main
    from fluidnpu.models import shipped_file

    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ["build", str(model), "--board", "zcu104", "--model", "paper", "--out", "project"]
        assert CliRunner().invoke(main, words).exit_code == 0
    (tmp_path / "project" / "bundle").rename(tmp_path / "bundle")
    names: dict[str, object] = {}
    try:
        for cell in cells(FOLDER / "serving.ipynb"):
            exec(compile(cell, "serving.ipynb", "exec"), names)
    finally:
        names["running"].close()  # type: ignore[attr-defined]
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(" True")
    assert "exit" in said[1]
    right, of = (int(word) for word in said[6].split(" right")[0].split(" of "))
    assert right > 0.8 * of == 0.8 * 64
    assert said[-1] == "69 answers"


def test_pynq_delivers_it(tmp_path: Path) -> None:
    delivery = pytest.importorskip("pynqutils.setup_utils")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pynq.notebooks"]
    assert points == {"fluidnpu": notebooks.__name__}
    source = delivery.ExtensionsManager.extension_path(notebooks.__name__)
    delivery.deliver_notebooks("zcu104", source, str(tmp_path), "fluidnpu", folder=True)
    assert (tmp_path / "fluidnpu" / "serving.ipynb").read_text() == (FOLDER / "serving.ipynb").read_text()
