"""What the site makes of a page of the root; `make docs` builds it, and refuses a link that leads nowhere."""

from __future__ import annotations

import importlib

import pytest
from docs_pages import DOCS


def test_links_of_files_at_the_root_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    monkeypatch.syspath_prepend(DOCS)
    text = "[a](docs/adr/0013-doors.md#x) [b](boards) [c](https://example.org) ![d](docs/pictures/demo.svg)"
    moved = importlib.import_module("site_hooks").moved(text, "README.md", "explanation/x.md")
    assert moved == "[a](../adr/0013-doors.md#x) b [c](https://example.org) ![d](docs/pictures/demo.svg)"
