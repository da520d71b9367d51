"""The concordance names files, functions, tests and statements that exist, and leaves out no exhibit."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest
from test_verdicts import EXHIBITS, verdicts_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "concordance.md"
TITLES = {  # of the page's sections, by study
    "fluid-batching": "Fluid Batching",
    "pame": "PAME",
    "delen": "Delen",
    "tetris": "TETRIS",
    "ensemble": "Pochelu et al.",
}
PRINTED = {  # numbers of the equations and of the algorithms that have one, and figures that no statement counts
    "fluid-batching": {"Eq.": 4, "Algorithm": 1},
    "pame": {"Eq.": 3},
    "delen": {"Algorithm": 3},
    "tetris": {"Eq.": 2},
    "ensemble": {"Eq.": 2, "Algorithm": 2, "Fig.": 2},
}
NAMED = re.compile(r"`([\w/.]+)`: `([\w.]+)`")
Row = tuple[str, str, str, str, str]


@lru_cache
def rows_of(study: str) -> list[Row]:
    """The rows of a study's section: exhibit, meaning, code, test, statement."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {TITLES[study]}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|") for line in section.splitlines() if line.startswith("|")][2:]
    rows = []
    for line in lines:
        exhibit, meaning, code, test, statement = (cell.strip() for cell in line.split("|"))
        rows.append((exhibit, meaning, code, test, statement))
    return rows


@lru_cache
def defined(path: str) -> set[str]:
    """Functions, classes and methods of a Python file, or modules of a SystemVerilog file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".sv"):
        return set(re.findall(r"^module (\w+)", text, re.MULTILINE))
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            inner = node.body if isinstance(node, ast.ClassDef) else []
            names |= {f"{node.name}.{part.name}" for part in inner if isinstance(part, ast.FunctionDef)}
    return names


def exhibits(rows: list[Row]) -> set[str]:
    """What the rows are about, one by one: `Figs. 7, 8` are two."""
    exhibited = set()
    for exhibit, *_ in rows:
        if numbered := re.fullmatch(r"(Fig|Eq|Table|Algorithm)s?(\.?) ([\dIV]+(?:, [\dIV]+)*)", exhibit):
            kind, dot, numbers = numbered.groups()
            exhibited |= {f"{kind}{dot} {number}" for number in numbers.split(", ")}
    return exhibited


def test_every_study_has_its_section() -> None:
    assert list(TITLES) == list(EXHIBITS) == list(PRINTED)
    assert re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == [
        TITLES[study] for study in ("fluid-batching", "pame", "delen", "tetris", "ensemble")
    ]


@pytest.mark.parametrize("study", TITLES)
def test_code_and_tests_that_are_named_exist(study: str) -> None:
    wrong = []
    for exhibit, _, code, test, _ in rows_of(study):
        for cell in (code, test):
            named = NAMED.fullmatch(cell)
            if named is None:
                if not cell.startswith("none"):
                    wrong.append(f"{exhibit}: {cell!r} is neither `file`: `name` nor none")
            elif not (ROOT / named[1]).is_file() or named[2] not in defined(named[1]):
                wrong.append(f"{exhibit}: {named[1]} has no {named[2]}")
            elif named[1].startswith("tests/") != (cell is test):
                wrong.append(f"{exhibit}: {named[1]} stands in the other column")
        if code.startswith("none") != test.startswith("none") or code == "none":
            wrong.append(f"{exhibit}: code and test are both there or both none, and none has a reason")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("study", TITLES)
def test_statements_that_are_named_are_the_studys(study: str) -> None:
    places = {verdict.where for verdict in verdicts_of(study)}
    wrong = [
        f"{exhibit}: no statement begins with {named!r}"
        for exhibit, *_, statement in rows_of(study)
        for named in statement.split("; ")
        if not named or not any(place.startswith(named) for place in places)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("study", TITLES)
def test_no_exhibit_is_left_out(study: str) -> None:
    figures, tables = EXHIBITS[study]
    wanted = {f"Fig. {number}" for number in figures} | {f"Table {number}" for number in tables}
    wanted |= {f"{kind} {number + 1}" for kind, last in PRINTED[study].items() for number in range(last)}
    assert wanted - exhibits(rows_of(study)) == set()
