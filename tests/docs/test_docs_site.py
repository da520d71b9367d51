"""The site builds without a warning, leads nowhere that is not there, and asks nothing of the network."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from docs_pages import DOCS, ROOT

from fluidnpu.cli import COMMANDS

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}  # what a browser fetches

TAGS = (  # of HTML and SVG, as our pages have them; `<t_p,` is none
    "a|article|aside|b|body|br|button|circle|code|dd|defs|details|div|dl|dt|em|footer|form|g|h[1-6]|head|header|hr|html|"
    "img|input|label|li|line|link|main|marker|meta|nav|ol|p|path|polyline|pre|rect|script|small|span|strong|style|sub|"
    "summary|sup|svg|table|tbody|td|template|text|th|thead|title|tr|ul"
)


@pytest.fixture(scope="module")
def hooks() -> Any:
    """The module that MkDocs calls."""
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    return of_docs("site_hooks")


def of_docs(name: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return importlib.import_module(name)


@dataclass
class Html(HTMLParser):
    """A page of the site: its anchors, its links, and what a browser would load with it."""

    tags: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        said = {key: value or "" for key, value in attrs}
        self.ids |= {said[key] for key in ("id", "name") if key in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in LOADED and LOADED[tag] in said:
            self.loads.append(said[LOADED[tag]])


@pytest.fixture(scope="module")
def site(hooks: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Html]:
    """Pages of the site, as `make docs` builds it, by their resolved paths."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {}
    for path in set(out.rglob("*.html")) - {out / "404.html"}:  # whose links begin at the root of a server
        pages[path.resolve()] = page = Html()
        page.feed(path.read_text(encoding="utf-8"))
    return pages


@pytest.mark.cpu(15, "the site is built here, once for all tests of it")
def test_every_link_leads_to_a_page_and_an_anchor(site: dict[Path, Html]) -> None:
    wrong = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{path.name}: no page {link}")
            elif parts.fragment and target in site and unquote(parts.fragment) not in site[target].ids:
                wrong.append(f"{path.name}: no anchor {link}")
    assert not wrong, "\n".join(sorted(set(wrong)))
    assert sum(len(page.links) for page in site.values()) > 1000


def test_no_word_in_brackets_is_taken_for_a_tag(site: dict[Path, Html]) -> None:
    odd = {f"{path.name}: <{tag}>" for path, page in site.items() for tag in page.tags if not re.fullmatch(TAGS, tag)}
    assert not odd


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Html]) -> None:
    foreign = {load for page in site.values() for load in page.loads if urlsplit(load).netloc}
    assert not foreign


def test_all_commands_and_all_public_names_are_there(site: dict[Path, Html], hooks: Any) -> None:
    ids = {path.name: page.ids for path, page in site.items() if path.parent.name in ("reference", "python")}
    assert {f"fluidnpu-{name}" for name in COMMANDS} <= ids["commands.html"]
    for room in hooks.ROOMS:
        for stub in (ROOT / room).rglob("__init__.pyi"):
            missing = [name for name, module in hooks.exported(stub) if f"{module}.{name}" not in ids[f"{room}.html"]]
            assert not missing, f"{room}.html lacks {', '.join(missing)}"


def test_every_error_is_on_the_page(site: dict[Path, Html], hooks: Any) -> None:
    page = next(path for path in site if path.parts[-2:] == ("reference", "errors.html")).read_text(encoding="utf-8")
    for room in hooks.ROOMS:
        source = ROOT / room / "errors.py"
        for name in re.findall(r"^class (\w+)\(", source.read_text(encoding="utf-8"), re.M) if source.is_file() else ():
            assert f"<code>{name}</code>" in page


def test_pictures_are_in_the_page_and_have_their_colours(site: dict[Path, Html]) -> None:
    page = next(path for path in site if path.parts[-2:] == ("concepts", "npu.html"))
    text = page.read_text(encoding="utf-8")
    assert text.count('<svg xmlns="http://www.w3.org/2000/svg" class="picture"') == 2
    assert '[data-md-color-scheme="slate"] svg.picture' in text


def test_every_picture_is_the_one_that_is_drawn() -> None:
    """After a change: python docs/make_pictures.py."""
    pictures = of_docs("concept_pictures").PICTURES
    stored = {name: (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") for name in pictures}
    assert not [name for name, draw in pictures.items() if draw().svg() != stored[name]]


def test_links_of_files_at_the_root_are_moved(hooks: Any) -> None:
    text = "[a](docs/adr/0013-doors.md#x) [b](boards) [c](https://example.org) ![d](docs/pictures/demo.svg)"
    moved = hooks.moved(text, "README.md", "explanation/x.md")
    assert moved == "[a](../adr/0013-doors.md#x) b [c](https://example.org) ![d](docs/pictures/demo.svg)"
