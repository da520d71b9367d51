"""The tables of docs/reference/json.md, and what an object of `--json` has beyond them or lacks."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
ROW = re.compile(r"\| `(?P<field>[^`]+)` \|(?P<unit>[^|]*)\|[^|]+\|")
LINK = re.compile(r"\[[\w ]+\]\(#([\w-]+)\)")
INTERVAL = {"mean", "low", "high"}
Rows = dict[str, str]  # a path, and its unit


@cache
def read_rows() -> dict[str, Rows]:
    """The rows of each section of the page by its heading, in small letters."""
    sections: dict[str, Rows] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            rows = sections.setdefault(line.lstrip("# ").lower(), {})
        elif line.startswith("| `"):
            match = ROW.fullmatch(line)
            assert match is not None, f"json.md must have rows of three cells, not {line}"
            rows[match["field"]] = match["unit"].strip()
    return sections


def read_page() -> dict[str, Rows]:
    """The rows of each section, those of the objects inside it among them."""
    sections = read_rows()
    return {name: dict(_expanded(rows, sections)) for name, rows in sections.items()}


def inside(unit: str) -> str | None:
    """The section of the object that a row holds; None for a row of a value."""
    link = LINK.fullmatch(unit)
    return None if link is None else next(name for name in read_rows() if anchor(name) == link[1])


def anchor(heading: str) -> str:
    """The anchor of a heading on the site."""
    return re.sub(r"[^a-z0-9]+", "-", heading)


def _expanded(rows: Rows, sections: dict[str, Rows]) -> Iterator[tuple[str, str]]:
    for field, unit in rows.items():
        section = inside(unit)
        if section is None:
            yield field, unit
            continue
        prefix = "" if field == "*" else field.removesuffix(".*") + "."
        for inner, of in _expanded(sections[section], sections):
            yield prefix + inner, of


def paths(value: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Every leaf of an object by its path, and whether it is null or empty.

    An interval and the content of a file are leaves.
    """
    if isinstance(value, dict) and value and set(value) != INTERVAL and not (path and "schema" in value):
        for key, item in value.items():
            yield from paths(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from paths(item, f"{path}[]")
    else:
        yield path + ("[]" if value in ([], ()) else ""), value is None or value in ([], (), {})


@cache
def pattern(field: str) -> re.Pattern[str]:
    """The paths that a row is about: a name in capitals is any key, and `*` the rest."""
    words = re.findall(r"\[\]|\.|[^.\[\]]+", field)
    return re.compile("".join(".+" if word == "*" or word.isupper() else re.escape(word) for word in words))


def beginnings(field: str) -> Iterator[str]:
    """The objects and lists that a path goes through: each may be null or empty."""
    for match in re.finditer(r"\[\]|\.", field):
        yield field[: match.start()]


def unknown(report: Any, rows: Rows) -> list[str]:
    """Paths of an object that no row is about."""
    nullable = {begin for field in rows for begin in beginnings(field)} - {""}
    return sorted(
        {
            path
            for path, empty in paths(report)
            if not any(pattern(field).fullmatch(path) for field in rows)
            and not (empty and any(pattern(begin).fullmatch(path) for begin in nullable))
        }
    )


def lacking(reports: list[Any], fields: Iterable[str]) -> list[str]:
    """Fields that none of the objects has."""
    there = {path for report in reports for path, _ in paths(report)}
    return sorted(field for field in fields if not any(pattern(field).fullmatch(path) for path in there))
