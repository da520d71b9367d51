"""Rooms are used through their doors, and opening one loads nothing behind it (`make lint` holds the
arrows).
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies")


def imports(path: Path) -> Iterator[list[str]]:
    """The parts of the names of the modules that a file imports absolutely."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")


def test_rooms_know_each_other_by_their_doors() -> None:
    """A door is a folder with an `__init__.pyi`; `testing` is one for tests."""
    wrong = []
    for path in (path for room in (*ROOMS, "fluidnpu") for path in (ROOT / room).rglob("*.py")):
        here = path.relative_to(ROOT)
        for package, *rest in imports(path):
            foreign = package == "fluidnpu" and rest[:1] != [here.parts[0]] and {*ROOMS} & {*rest[:1]}
            if foreign and rest[1:] != ["testing"] and not ROOT.joinpath(*rest, "__init__.pyi").is_file():
                wrong.append(f"{here} imports fluidnpu.{'.'.join(rest)}, which is no door")
    assert not wrong, "\n".join(wrong)


def test_no_file_is_imported_as_a_second_module() -> None:
    """At the root `import dse` would load all of `fluidnpu.dse` again, with other classes."""
    second = re.compile(
        rf"^ *(from|import) ({'|'.join(ROOMS)})\b(?!, host)", re.MULTILINE
    )  # a script imports a user's own
    folders = (*ROOMS, "fluidnpu", "tests", "benchmarks", "docs")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert [path.relative_to(ROOT) for path in files if second.search(path.read_text(encoding="utf-8"))] == []


def loaded(code: str) -> set[str]:
    """The modules beside Python's own that a fresh interpreter loads for this code."""
    show = "print(*(m for m in set(sys.modules) - old if m.partition('.')[0] not in sys.stdlib_module_names))"
    words = [sys.executable, "-c", f"import sys; old = set(sys.modules)\n{code}\n{show}"]
    return set(subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True).stdout.split())


def test_a_checkout_is_no_package_of_itself() -> None:
    with pytest.raises(ImportError, match="by its own name, not as"):
        import_module("fluidnpu.fluidnpu")


@pytest.mark.parametrize("room", ROOMS)
def test_importing_a_room_loads_its_door_only(room: str) -> None:
    assert loaded(f"import fluidnpu.{room}") == {"fluidnpu", f"fluidnpu.{room}", "lazy_loader"}
