"""Write what commands and notebooks print into the pages that show it.

    python tests/docs/refresh_outputs.py [FILE...]

An output that a page shows whole is replaced; where `...` stands for a part, the numbers beside it are. What
cannot be mended so is named, its page is left as it is, and the exit code is 1. `make refresh` calls this for
what is stale.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from docs_notebooks import NOTEBOOKS, executed, read_notebook
from docs_pages import PAGES, PRINTED, Block, Page, Session, alike, read_page
from docs_setups import Setups

VARIES = re.compile(r"(\.\.\.)|\b([0-9a-f]*\d[0-9a-f]*(?:[.,]\d[0-9a-f]*)*)|(\s+)")


def refreshed(page: Page, setups: Setups) -> str:
    """Run a page and give its text with the outputs of this run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for setup in page.setups:
            setups.begin(setup, folder)
        os.chdir(folder)
        session = Session(folder, printed=[])
        text = page.path.read_text(encoding="utf-8")
        try:
            for block in page.blocks:
                if block.kind in ("run", "file", "long"):
                    text = replaced(text, block, with_outputs(block, session))
        finally:
            session.stop()
            os.chdir("/")
    return text


def replaced(text: str, block: Block, fresh: str) -> str:
    """Put a block's new text in the place of the old one, which an admonition may have indented."""
    if fresh == block.text:
        return text
    for indent in ("", "    "):
        old, new = ("".join(f"{indent}{line}" for line in t.splitlines(keepends=True)) for t in (block.text, fresh))
        if old in text:
            return text.replace(old, new, 1)
    raise AssertionError(f"{block.where}: its text must stand on the page as it was read")


def with_outputs(block: Block, session: Session) -> str:
    """Run a block and give its text with the outputs that it shows."""
    session.printed = []
    session.run(block)
    text = block.text
    for shown, printed in session.printed:
        if block.language == "python":
            text = with_prints(block, text, printed.splitlines())
        elif shown and not alike(shown, printed, numbers=not block.about):
            text = text.replace(shown, mended(shown, printed, block.where), 1)
    return text


def with_prints(block: Block, text: str, printed: list[str]) -> str:
    """Write the lines that a block of Python prints into the comments beside its `print`s."""
    places = list(PRINTED.finditer(text))
    assert len(places) == len(printed), f"{block.where} shows {len(places)} lines and prints\n" + "\n".join(printed)
    for place, line in reversed(list(zip(places, printed, strict=True))):
        text = text[: place.start(1)] + line + text[place.end(1) :]
    return text


def mended(shown: str, printed: str, where: str) -> str:
    r"""Give what a page shows with the words and numbers of this run.

    Without `...` that is all that was printed. Beside one, each shown line takes its numbers from the next
    printed line that has the same words.

    >>> mended("a 1.5 of ...\n...\nb 2\n", "a 16 of 3 ms\nx\nb 3\n", "page:1")
    'a 16 of ...\n...\nb 3\n'
    """
    if "..." not in shown:
        return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    lines = list(_lines(shown.splitlines(), printed.splitlines()))
    fresh = "\n".join(lines) + "\n"
    assert alike(fresh, printed), f"{where} must be mended by hand, since its words have changed; it prints\n{printed}"
    return fresh


def _lines(shown: list[str], printed: list[str]) -> Iterator[str]:
    """Give each shown line with the numbers of the first printed line, from the last one on, that fits it."""
    begin = 0
    for line in shown:
        pattern, last = "", 0
        for found in VARIES.finditer(line):
            pattern += re.escape(line[last : found.start()])
            pattern += ".*" if found[1] else r"([0-9a-f.,]*\d[0-9a-f.,]*)" if found[2] else r"\s+"
            last = found.end()
        pattern += re.escape(line[last:])
        fits = ((k, re.fullmatch(pattern + r"\s*", printed[k])) for k in range(begin, len(printed)))
        place = next(((k, fit) for k, fit in fits if fit), None)
        if line.strip() in ("", "...") or place is None:
            yield line
            continue
        begin, numbers = place[0] + 1, iter(place[1].groups())
        yield VARIES.sub(lambda found, n=numbers: next(n) if found[2] else found[0], line)  # type: ignore[misc]


def main() -> int:
    """Refresh the named files, or all of them; give 1 where one must be mended by hand."""
    wanted = [Path(name).resolve() for name in sys.argv[1:]] or [*PAGES, *NOTEBOOKS]
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        setups = Setups(Path(name))
        for path in wanted:
            if path in NOTEBOOKS:
                nbformat.write(executed(read_notebook(path), Path(name)), path)  # type: ignore[no-untyped-call]
                continue
            page = read_page(path)
            old = path.read_text(encoding="utf-8")
            try:
                new = refreshed(page, setups)
            except (AssertionError, pytest.skip.Exception) as error:
                print(error, file=sys.stderr)
                wrong = 1
                continue
            if new != old:
                path.write_text(new, encoding="utf-8")
                print(f"refreshed {page.name}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
