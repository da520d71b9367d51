"""Examples in docstrings are executed: those of the rooms, of the front door and of the tests' helpers."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)


def module_name(path: Path) -> str:
    """Name a file of a room as the import system does; a helper of tests is imported by its stem."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] in ("tests", "docs"):
        return path.stem
    return ".".join(parts if parts[0] == "fluidnpu" else ("fluidnpu", *parts)).removesuffix(".__init__")


FILES = sorted(
    path
    for folder in (*ROOMS, ROOT / "tests", ROOT / "docs")
    for path in folder.rglob("*.py")
    if path != Path(__file__) and EXAMPLE.search(path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_a_file_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if not (path.parent / "__init__.py").is_file():
        monkeypatch.syspath_prepend(str(path.parent))
    module = importlib.import_module(module_name(path))
    assert module.__file__ == str(path), "a file must be one module"
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
        runner.run(example, out=printed.append)
    assert not runner.failures, "".join(printed)
    assert runner.tries, f"{module.__name__} has lines like examples, and none is one"
