"""Hooks of the site: patterns in the navigation, and pages made of the files at the root."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CHANGELOG.md": "explanation/changelog.md",
    "CONTRIBUTING.md": "how-to/contribute.md",
    "rtl_tb/README.md": "reference/rtl.md",
}  # files outside docs/ that the site shows, and their place in it


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that a pattern such as `adr/*` matches in its place; those that are named stay where
    they are.
    """
    nav: list[Any] = config["nav"]
    named = set(_named(nav))
    config["nav"] = _expanded(nav, named)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside docs/."""
    for source, place in PAGES.items():
        if (ROOT / source).is_file():
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=moved(text, source, place)))
    return files


def moved(text: str, source: str, place: str) -> str:
    """Rewrite the relative links of a file for its place in the site; what the site does not have becomes
    plain text.

    >>> moved("[a](docs/adr/0013-doors.md) [b](boards)", "README.md", "explanation/x.md")
    '[a](../adr/0013-doors.md) b'
    """

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found["label"], found["target"], found["anchor"] or ""
        if "://" in target or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (ROOT / path / "index.md").is_file():
            path += "/index.md"
        inside = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if inside is None:
            return label
        return f"[{label}]({posixpath.relpath(inside, posixpath.dirname(place))}{anchor})"

    return re.sub(r"(?<!!)\[(?P<label>[^]]+)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)]*)?\)", link, text)


def _named(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [] if nav.endswith("*") else [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert not isinstance(parts, str)
    return [name for part in parts for name in _named(part)]  # type: ignore[attr-defined]


def _expanded(nav: list[Any], named: set[str]) -> list[Any]:
    out: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            out.append(
                {key: _expanded(value, named) if isinstance(value, list) else value for key, value in item.items()}
            )
        elif item.endswith("*"):
            found = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob(f"{item}.md")))
            out += [path for path in found if path not in named]
        else:
            out.append(item)
    return out
