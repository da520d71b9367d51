"""Every block of code on every page is executed in order, or says why it is not."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from docs_pages import PAGES, ROOT, Page, Session, alike, commands, mended, read_page, rewritten
from docs_setups import Setups

import fluidnpu

READ = [read_page(path) for path in PAGES]
SHORT = [page for page in READ if any(block.kind in ("run", "file") for block in page.blocks)]
LONG = [page for page in READ if any(block.kind == "long" for block in page.blocks)]


@pytest.fixture(scope="session")
def setups(tmp_path_factory: pytest.TempPathFactory) -> Setups:
    return Setups(tmp_path_factory.mktemp("setups"))


def run(page: Page, kinds: set[str], folder: Path, setups: Setups) -> None:
    """Run the blocks of some kinds, in the order of the page."""
    for name in page.setups:
        setups.begin(name, folder)
    session = Session(folder)
    wanted = [block for block in page.blocks if block.kind in kinds]
    for tool in ("curl", "haproxy"):
        asked = any(f"{tool} " in block.text for block in wanted if block.language == "console")
        if asked and shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    try:
        for block in wanted:
            session.run(block)
    finally:
        session.stop()
    assert session.ran == len(wanted)


@pytest.mark.cpu(10, "a page is one session, from top to bottom")
@pytest.mark.parametrize("page", SHORT, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setups: Setups) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {"run", "file"}, tmp_path, setups)


@pytest.mark.long
@pytest.mark.parametrize("page", LONG, ids=lambda page: page.name)
def test_all_blocks_of_a_page_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setups: Setups) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {"run", "file", "long"}, tmp_path, setups)


def test_every_block_is_run_or_says_why_not(record_property: Callable[[str, object], None]) -> None:
    blocks = [block for page in READ for block in page.blocks]
    counts = Counter(block.kind for block in blocks)
    record_property("blocks", dict(counts))
    unknown = [f"{block.where} ({block.language or 'no language'})" for block in blocks if block.kind == "unknown"]
    assert not unknown, f"{dict(counts)}; nothing runs or excuses\n" + "\n".join(unknown)
    short = [
        f"{b.where}: {b.exempt or b.long}" for b in blocks if len((b.exempt or b.long or "a good reason").split()) < 3
    ]
    assert not short, "a reason is a sentence:\n" + "\n".join(short)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    assert counts["run"] + counts["file"] > 3 * counts["exempt"]


def test_the_page_on_python_shows_every_name_of_the_door() -> None:
    text = (ROOT / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
    missing = [name for name in dir(fluidnpu) if f"fluidnpu.{name}" not in text]
    assert not missing


def test_no_two_pages_listen_at_one_port() -> None:
    """Pages run side by side where tests do."""
    pages: dict[str, set[str]] = {}
    for page in READ:
        for block in page.blocks:
            if block.kind in ("run", "long"):
                for port in re.findall(r"--(?:http|grpc|admin|admin-grpc)[ =](\d+)", block.text):
                    pages.setdefault(port, set()).add(page.name)
    assert len(pages) > 5
    assert not {port: sorted(names) for port, names in pages.items() if len(names) > 1 and port != "0"}


# -- the runner itself


def page_of(text: str, folder: Path) -> Page:
    path = folder / "page.md"
    path.write_text(text)
    return read_page(path)


def test_a_block_is_what_its_comment_says(tmp_path: Path) -> None:
    text = (
        "<!-- long: it takes minutes -->\n```console\n$ a\n```\n\n```console\n$ b\n```\n\n"
        '!!! note\n    ```toml title="x.toml"\n    a = 1\n\n    ```\n\n```toml\nb = 1\n```\n'
    )
    page = page_of(text, tmp_path)
    assert [block.kind for block in page.blocks] == ["long", "run", "file", "unknown"]
    assert [(block.text, block.line) for block in page.blocks[1:3]] == [("$ b\n", 6), ("a = 1\n\n", 11)]


def test_a_session_tells_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("docs_pages.ROOT", tmp_path)
    text = (
        '```sh title="say.sh"\necho one $((1 + 1))\n```\n```console\n$ bash say.sh  # says it\none 3\n```\n'
        "```console\n$ bash say.sh\nthree\n```\n```python\nprint('a 1')  # a 2\n```\n"
        "```python\nprint('a')  # b\n```\n```console\n$ fluidnpu check nothing.onnx\n```\n"
    )
    file, good, bad, right, wrong, refused = page_of(text, tmp_path).blocks
    session = Session(tmp_path)
    for block in (file, good, right):
        session.run(block)
    for block, message in ((bad, r"prints\n *one 2"), (wrong, r"prints\n *a"), (refused, "ends with 2")):
        with pytest.raises(AssertionError, match=message):
            session.run(block)
    assert session.ran == 3


def test_outputs_are_compared_by_shape() -> None:
    assert alike("a ... c\n", "a b  c\n")
    assert not alike("a ... c\n", "a b d\n")
    assert alike("build id ed22a91d, 5.1 %\n", "build id 0013, -4 %\n")
    assert alike("x  ab\n----\n1  2\n", "x  ab\n---------\n1  2\n30  4,000\n")
    assert list(commands("$ x  # why\n$ y --flag '# no'\n")) == [("x", ""), ("y --flag '# no'", "")]


def test_a_page_takes_the_outputs_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docs_pages.ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (
        "Made.\n\n!!! note\n    ```console\n    $ echo a 12; echo b\n    a 7\n    b\n    ```\n\n"
        "```python\nprint(2)  # 1\nprint(\n    3\n)  # 4\n```\n"
    )
    fresh = rewritten(page_of(text, tmp_path), tmp_path)
    assert fresh == text.replace("a 7", "a 12").replace("# 1", "# 2").replace("# 4", "# 3")
    with pytest.raises(AssertionError, match="by hand"):
        mended("a 1 ...\n", "b 2\n")
