"""One row of the table of computed texts: which files, made by which command, from which sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """Committed files, or parts of them, that one command makes.

    `files`: patterns below the root. `command`: a line that runs at the root, without a shell. `roots`:
    Python files whose imports decide the content; `data`: patterns of other inputs; `ignore`: patterns of
    inputs that are none, such as a fit that the row itself makes.
    """

    name: str
    files: tuple[str, ...]
    command: str
    roots: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    prints: bool = False  # standard output is the content
    part: str = ""  # expression for the part of a page that is computed; its first group is what is printed
    copies: Mapping[str, str] = field(default_factory=dict)  # a committed file, and the file of the run it is
    hours: str = ""  # cost of a row that `make refresh` leaves
    text: str = ""  # of a page: the blocks that are run, instead of the whole file

    @property
    def leaf(self) -> bool:
        """Tell whether nothing is made of what this makes: a page or a notebook."""
        return bool(self.text) or self.name.endswith(".ipynb")

    def paths(self, root: Path) -> list[Path]:
        """List the files that exist."""
        return sorted({path for pattern in self.files for path in root.glob(pattern) if path.is_file()})

    def made(self, path: Path) -> bytes:
        """Give what of a file was computed."""
        content = path.read_bytes()
        if not self.part:
            return content
        parts = re.finditer(self.part, content.decode(), re.DOTALL | re.MULTILINE)
        return "\n".join(match_[0] for match_ in parts).encode()

    def spliced(self, page: str, printed: str) -> str:
        """Put what was printed into a page, in the place of the first group of `part`.

        A ValueError says that the page has no such part.
        """
        match_ = re.search(self.part, page, re.DOTALL | re.MULTILINE)
        if match_ is None:
            raise ValueError(f"{self.files[0]} must have the part /{self.part}/ that '{self.name}' makes")
        return page[: match_.start(1)] + printed + page[match_.end(1) :]
