"""Every committed datum is made by a row of the table or given, and the rows stand in an order that holds."""

from __future__ import annotations

import fnmatch
import subprocess

from checkouts import ROOT

from workshop.outputs import GIVEN, LONG, QUICK, outputs
from workshop.sources import Tree

DATA = (".json", ".npz", ".svg", ".onnx", ".diff", ".protoset", ".bin", ".ipynb")
ELSEWHERE = ("host/notebooks/*", "tests/*")  # of a board, and small inputs of tests


def test_every_committed_datum_is_made_or_given() -> None:
    rows = outputs(Tree())
    made = {path.relative_to(ROOT).as_posix() for row in rows for path in row.paths(ROOT)}
    named = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    unknown = [
        name
        for name in named.splitlines()
        if name.endswith(DATA)
        and (ROOT / name).is_file()
        and name not in made
        and not any(fnmatch.fnmatch(name, pattern) for pattern in (*GIVEN, *ELSEWHERE))
    ]
    assert not unknown, f"a row of workshop/outputs.py must make, or GIVEN must explain, {', '.join(unknown)}"


def test_every_row_names_files_that_exist_and_a_name_of_its_own() -> None:
    rows = outputs(Tree())
    assert len({row.name for row in rows}) == len(rows)
    assert [row.name for row in rows if not row.paths(ROOT)] == []
    assert [root for row in rows for root in row.roots if not (ROOT / root).is_file()] == []
    assert [pattern for pattern in GIVEN if not list(ROOT.glob(pattern))] == []


def test_a_part_of_a_page_is_found_on_it() -> None:
    for row in QUICK:
        if row.part:
            assert all(row.made(path) for path in row.paths(ROOT)), row.name


def test_what_a_row_reads_is_made_before_it() -> None:
    tree, later = Tree(), set[str]()
    wrong = []
    for row in reversed(QUICK):
        read = {path.relative_to(ROOT).as_posix() for path in tree.inputs(ROOT / root for root in row.roots)}
        wrong += [f"{row.name} reads {name}" for name in sorted(read & later)]
        later |= {path.relative_to(ROOT).as_posix() for path in row.paths(ROOT)}
    assert not wrong
    assert all(row.hours for row in LONG)
