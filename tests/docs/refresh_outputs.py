"""Write what commands and notebooks print into the pages that show it.

    python tests/docs/refresh_outputs.py [FILE...]

A command's output is replaced where the page shows all of it, that is without `...`; a line `?` asks for it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from docs_notebooks import NOTEBOOKS, executed, read_notebook
from docs_pages import PAGES, Block, Page, Session, read_page
from docs_setups import Setups


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
                    text = text.replace(block.text, with_outputs(block, session), 1)
        finally:
            session.stop()
            os.chdir("/")
    return text


def with_outputs(block: Block, session: Session) -> str:
    """Run a block and give its text with the outputs that it shows in full."""
    session.printed = []
    session.run(block)
    text = block.text
    for shown, printed in session.printed:
        if shown and "..." not in shown:
            now = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
            text = text.replace(shown, now, 1)
    return text


def main() -> None:
    """Refresh the named files, or all of them."""
    wanted = [Path(name).resolve() for name in sys.argv[1:]] or [*PAGES, *NOTEBOOKS]
    with tempfile.TemporaryDirectory() as name:
        setups = Setups(Path(name))
        for path in wanted:
            if path in NOTEBOOKS:
                nbformat.write(executed(read_notebook(path), Path(name)), path)  # type: ignore[no-untyped-call]
                continue
            page = read_page(path)
            old, new = path.read_text(encoding="utf-8"), refreshed(page, setups)
            if new != old:
                path.write_text(new, encoding="utf-8")
                print(f"refreshed {page.name}")


if __name__ == "__main__":
    main()
