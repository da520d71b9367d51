"""Reasons why nothing can notice some changes of the RTL, which no test of it can kill.

`explained.toml` is the list; each was found by reading the survivors of `mutation`.

>>> reason("core_gather.sv", ["assign choice[AccBits*k+:AccBits] = '1;"])
'words that hold nothing are masked in core_finish'
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, kw_only=True)
class Reason:
    """The reason why nothing can see a line of `file` that holds one of `lines` after a change.

    A text of several lines is looked for in the changed line, its last, and those before it. Runs of spaces
    count as one.
    """

    file: str
    lines: tuple[str, ...]
    why: str

    def covers(self, file: str, lines: Sequence[str]) -> bool:
        """Tell if it is about the last of these lines, which was changed."""
        return self.file == file and any(_ends(lines, text) for text in self.lines)


def _ends(lines: Sequence[str], text: str) -> bool:
    """Tell if the last lines hold a text."""
    tail = "\n".join(_plain(line) for line in lines[-(text.count("\n") + 1) :])
    return text in tail


def _plain(line: str) -> str:
    """A line without its comment and its indentation."""
    return " ".join(line.split("//")[0].split())


def _read() -> tuple[Reason, ...]:
    raw = files("fluidnpu.rtl_tb").joinpath("proving").joinpath("explained.toml").read_text()
    return tuple(
        Reason(file=entry["file"], lines=tuple(entry["lines"]), why=entry["why"])
        for entry in tomllib.loads(raw)["reason"]
    )


REASONS: tuple[Reason, ...] = _read()


def reason(file: str, lines: Sequence[str]) -> str:
    """Return why nothing can see the change of the last of these lines, behind the others, or ""."""
    return next((entry.why for entry in REASONS if entry.covers(file, lines)), "")
