"""The reference names every field of every file, every error and every word that tables print."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs_pages import DOCS, ROOT

from fluidnpu.boards.fields import (
    DRAM_FIELDS,
    DRAM_OPTIONAL,
    FIELDS,
    OPTIONAL,
    POWER_FIELDS,
    SENSOR_FIELDS,
    SENSOR_OPTIONAL,
)
from fluidnpu.cli import main
from fluidnpu.models import shipped_file
from fluidnpu.words import ALIASES, WORDS

REFERENCE = DOCS / "reference"
NAMED_BY_USERS = {"facts", "tensors", "files", "causes"}  # objects whose keys are names and no fields


def rows(page: str, heading: str | None = None) -> list[list[str]]:
    """Cells of the tables of a page, or of the part below one heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    if heading is not None:
        text = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def fields(value: object, path: str = "") -> Iterator[str]:
    """Dotted names of all fields of a JSON object, `[]` for a list and `*` for names that users give."""
    if isinstance(value, dict) and value:
        names = ["*"] if path.strip(".") in NAMED_BY_USERS else list(value)
        for name, inner in zip(names, value.values(), strict=False):
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


def test_every_field_of_a_file_has_its_row(project: Path) -> None:
    wrong = []
    for file, page, heading in (
        ("bundle/design.json", "design.md", None),
        ("bundle/program.json", "bundle.md", "program.json"),
        ("bundle/registers.json", "bundle.md", "registers.json"),
        ("bundle/int16.json", "bundle.md", "int16.json"),
        ("manifest.json", "bundle.md", "manifest.json"),
    ):
        there = set(fields(json.loads((project / file).read_text())))
        told = {row[0].strip("`").removesuffix("[]") for row in rows(page, heading)}
        wrong += [f"{page} lacks {field} of {file}" for field in sorted(there - told)]
        wrong += [f"{page} has {field}, which {file} lacks" for field in sorted(told - there)]
    assert not wrong, "\n".join(wrong)


def test_every_field_of_a_board_file_has_its_row() -> None:
    def expected(meanings: dict[str, str], optional: tuple[str, ...]) -> list[list[str]]:
        return [[f"`{key}`", "no" if key in optional else "yes", value] for key, value in meanings.items()]

    assert rows("board.md") == [
        *expected(FIELDS, OPTIONAL),
        *expected(DRAM_FIELDS, DRAM_OPTIONAL),
        *expected(POWER_FIELDS, ()),
        *expected(SENSOR_FIELDS, SENSOR_OPTIONAL),
    ]


# -- the glossary


def plain(words: str) -> str:
    """A header without its unit, as the glossary has it."""
    words = re.sub(r"\s*\((ms|Mbit|GOP/s|\$?µs)\)|, estimated$|,? (at )?B( = .*)?$", "", words)
    words = re.sub(r"(%| ms|/s| /s)$", "", words) if not words.endswith(("GOP/s", "GB/s")) else words
    return words.strip().lower()


def glossary() -> set[str]:
    text = (REFERENCE / "glossary.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("**")]
    assert "<!-- words -->" in text
    terms = [term for line in lines for term in re.findall(r"\*\*(.+?)\*\*", line)]
    return {plain(term) for term in (*terms, *WORDS, *ALIASES)}


def printed_headers() -> Iterator[tuple[str, str]]:
    """Headers of tables, each with its place: what `table` is given, and `<th>` of templates."""
    for path in sorted((ROOT / "fluidnpu").glob("*.py")) + sorted((ROOT / "fluidnpu" / "commands").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            found: list[ast.expr] = []
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "table":
                found = list(node.args[1:2])
            elif isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "columns" for t in node.targets):
                found = [node.value]
            for value in found:
                for one in value.elts if isinstance(value, ast.Tuple | ast.List) else []:
                    if isinstance(one, ast.Constant) and one.value:
                        yield str(one.value), path.name
                    elif isinstance(one, ast.JoinedStr) and isinstance(one.values[0], ast.Constant):
                        yield str(one.values[0].value), path.name
    for path in [*ROOT.glob("fluidnpu/reports/templates/*.j2"), *ROOT.glob("studies/*/templates/*.j2")]:
        for header in re.findall(r"<th[^>]*>(.*?)</th>", path.read_text(encoding="utf-8")):
            words = re.sub(r"(at )?B = \{\{.*?\}\}", "B", header)
            words = re.sub(r"\{%.*?%\}.*?\{%.*?%\}|\{\{.*?\}\}|<.*?>", "", words)
            if words.strip(" ()="):
                yield words, path.name


def test_the_glossary_has_every_header_of_a_table() -> None:
    headers = list(printed_headers())
    assert len(headers) > 60
    known = glossary()
    missing = sorted({f"{header!r} ({where})" for header, where in headers if plain(header) not in known})
    assert not missing, "\n".join(missing)


def test_a_word_stands_once() -> None:
    """The words of `--explain` are shown by the site at the head of the glossary."""
    text = (REFERENCE / "glossary.md").read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if line.startswith("**")]
    terms = Counter(term for line in entries for term in re.findall(r"\*\*(.+?)\*\*", line.partition(" : ")[0]))
    assert len(terms) > 60
    assert not [term for term, times in terms.items() if times > 1]
    assert not sorted(terms.keys() & {*WORDS, *ALIASES})


def test_units_are_left_out() -> None:
    headers = ("violations %", "latency at B = 1 (ms)", "goodput /s")
    assert [plain(header) for header in headers] == ["violations", "latency", "goodput"]
