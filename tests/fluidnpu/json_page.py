"""The tables of docs/reference/json.md, and what an object of `--json` has beyond them."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
LINK = re.compile(r"\[[\w ]+\]\(#([\w-]+)\)")
INTERVAL = {"mean", "low", "high"}


@cache
def read_page() -> dict[str, set[str]]:
    """The fields of each section by its heading, those of the objects inside it among them."""
    sections: dict[str, dict[str, str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            rows = sections.setdefault(line.lstrip("# ").lower(), {})
        elif line.startswith("| `"):
            field, unit = (cell.strip(" `") for cell in line.split("|")[1:3])
            rows[field] = unit

    def expanded(rows: dict[str, str]) -> Iterator[str]:
        for field, unit in rows.items():
            if link := LINK.fullmatch(unit):
                inner = next(name for name in sections if re.sub(r"[^a-z0-9]+", "-", name) == link[1])
                prefix = "" if field == "*" else field.removesuffix(".*") + "."
                yield from (prefix + one for one in expanded(sections[inner]))
            else:
                yield field

    return {name: set(expanded(rows)) for name, rows in sections.items()}


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


def unknown(report: Any, fields: set[str]) -> list[str]:
    """Paths of an object that no row is about; an object or a list that rows go through may be null."""
    nullable = {field[: cut.start()] for field in fields for cut in re.finditer(r"\[\]|\.", field)} - {""}
    return sorted(
        path
        for path, empty in set(paths(report))
        if not any(pattern(field).fullmatch(path) for field in (fields | nullable if empty else fields))
    )
