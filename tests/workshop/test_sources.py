"""What decides a computed text: imports through doors, also late ones, and the data of the rooms met."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest
from checkouts import ROOT, small

from workshop.pages import executed, imported, page_files
from workshop.sources import BY_NAME, ROOMS, Tree, meaning

sys.path.insert(0, str(ROOT / "tests" / "docs"))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("one", {"beside", "model", "late", "table"}),
        ("front", {"model", "late", "table"}),
        ("dotted", {"other"}),
    ],
)
def test_a_script_depends_on_the_modules_of_the_names_that_it_uses(
    tmp_path: Path, script: str, expected: set[str]
) -> None:
    tree = Tree(small(tmp_path))
    found = tree.inputs([tree.root / "benchmarks" / f"{script}.py"])
    assert {path.stem for path in found if path.suffix == ".py"} - {"__init__"} == expected | {script}
    assert tree.root / "dse" / "data.json" in found
    assert not [path for path in found if tree.room(path) == "host"]


def test_the_snippets_of_a_page_are_one_session(tmp_path: Path) -> None:
    tree = Tree(small(tmp_path))
    found = imported(tree, ["import fluidnpu\n", "$ not Python\n", "print(fluidnpu.cost())\n!ls\n"])
    assert tree.root / "dse" / "model.py" in found


def test_data_of_a_study_count_for_that_study_alone(tmp_path: Path) -> None:
    tree = Tree(small(tmp_path))
    for name in ("pame", "delen"):
        (tmp_path / "studies" / name / "data").mkdir(parents=True)
        (tmp_path / "studies" / name / "study.py").write_text("STUDY = 1\n")
        (tmp_path / "studies" / name / "data" / "recorded.npz").write_text("numbers")
    found = tree.inputs([tree.root / "studies" / "pame" / "study.py"])
    assert {path.parent.parent.name for path in found if path.suffix == ".npz"} == {"pame"}


@pytest.mark.parametrize(
    ("now", "same"),
    [
        ("ROWS = (1, 2)\n", True),
        ('"""It says."""\n\nROWS = (1, 2)  # another\n\n# and one more\n', True),
        ("ROWS = (1, 3)  # a comment\n", False),
        ('ROWS = (1, 2)\nTEXT = "# no comment"\n', False),
    ],
)
def test_a_comment_changes_no_digest_and_a_constant_does(tmp_path: Path, now: str, same: bool) -> None:
    table = small(tmp_path) / "dse" / "inner" / "table.py"
    before = Tree(tmp_path).digest(table)
    table.write_text(now)
    assert (Tree(tmp_path).digest(table) == before) is same


def test_what_a_run_leaves_behind_is_no_input(tmp_path: Path) -> None:
    tree = Tree(small(tmp_path))
    before = tree.inputs([tree.root / "benchmarks" / "one.py"])
    for left in ("dse/__pycache__/loop.nbi", "dse/inner/__pycache__/deep/loop.nbc", "dse/.lock"):
        (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / left).write_text("compiled")
    assert Tree(tmp_path).inputs([tree.root / "benchmarks" / "one.py"]) == before


def test_help_texts_count_where_a_command_prints_them() -> None:
    source = 'def run():\n    """Serve."""\n    return 1\n'
    assert meaning(source) != meaning(source, docstrings=True)
    assert meaning('"""A."""\n' + source) == meaning('"""B."""\n' + source)


def test_every_file_that_loads_modules_by_name_is_known() -> None:
    loads = {
        path.relative_to(ROOT).as_posix()
        for room in (*ROOMS, "fluidnpu/commands", "fluidnpu/reports", "fluidnpu")
        for path in ((ROOT / room).glob("*.py") if room == "fluidnpu" else (ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
    }
    assert loads == set(BY_NAME)


def test_a_command_that_serves_nothing_depends_on_no_host() -> None:
    tree = Tree()
    found = {tree.room(path) for path in tree.inputs([ROOT / "fluidnpu" / "commands" / "dse.py"])}
    assert {"dse", "models", "boards"} <= found
    assert not found & {"host", "rtl_tb"}


def test_the_blocks_of_pages_are_those_that_are_run() -> None:
    pages = importlib.import_module("docs_pages")
    assert page_files(ROOT) == pages.PAGES
    for path in pages.PAGES:
        expected = [b for b in pages.read_page(path).blocks if b.kind in ("run", "file", "long")]
        ours = [block.partition("\n")[2] for block in executed(path.read_text(encoding="utf-8"))]
        assert [text.strip() for text in ours] == [block.text.strip() for block in expected], path
