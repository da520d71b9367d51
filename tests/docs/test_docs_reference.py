"""The reference names every field of the files that users write and read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs_pages import DOCS

from fluidnpu.boards.fields import DRAM_FIELDS, FIELDS, POWER_FIELDS, SENSOR_FIELDS
from fluidnpu.cli import main
from fluidnpu.models import shipped_file

NAMED_BY_USERS = {"facts", "tensors", "files", "causes"}  # objects whose keys are names and no fields


def named(page: str) -> set[str]:
    """Fields that have a row on a page of the reference."""
    rows = re.findall(r"^\| `([^`]+)`", (DOCS / "reference" / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {row.removesuffix("[]") for row in rows}


def fields(value: object, path: str = "") -> Iterator[str]:
    """Dotted names of all fields of a JSON object, `[]` for a list and `*` for names that users give."""
    if isinstance(value, dict) and value:
        for name, inner in [("*", next(iter(value.values())))] if path in NAMED_BY_USERS else value.items():
            yield from fields(inner, f"{path}.{name}".strip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from fields(value[0], f"{path}[]")
    else:
        yield path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reference") / "project"
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        words = ["build", str(model), "--board", "zc706", "--cycles", "paper", "--out", str(out)]
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.parametrize(
    ("file", "page"),
    [("bundle/design.json", "design.md"), ("manifest.json", "bundle.md")]
    + [(f"bundle/{name}.json", "bundle.md") for name in ("program", "registers", "int16")],
)
def test_every_field_of_a_file_has_its_row(project: Path, file: str, page: str) -> None:
    assert set(fields(json.loads((project / file).read_text()))) - named(page) == set()


def test_every_field_of_a_board_file_has_its_row() -> None:
    assert {*FIELDS, *DRAM_FIELDS, *POWER_FIELDS, *SENSOR_FIELDS} - named("board.md") == set()
