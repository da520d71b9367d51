"""Reasons why nothing can notice some changes of the RTL, which no test of it can kill.

`explained.toml` is the list; each was found by reading the survivors of `mutation`.

>>> reason("core_gather.sv", "", "assign choice[AccBits*k+:AccBits] = '1;")
'words that hold nothing are masked in core_finish'
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.resources import files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, kw_only=True)
class Reason:
    """The reason why nothing can see a line of `file` that holds one of `lines` after a change.

    A text of two lines is looked for in the changed line and the one before it. Runs of spaces count as one.
    """

    file: str
    lines: tuple[str, ...]
    why: str

    def covers(self, file: str, before: str, line: str) -> bool:
        """Tell if it is about this changed line, behind `before`."""
        two = f"{_plain(before)}\n{_plain(line)}"
        return self.file == file and any(text in (two if "\n" in text else _plain(line)) for text in self.lines)


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


def reason(file: str, before: str, line: str) -> str:
    """Return why nothing can see a changed line, which stands behind the line `before`, or ""."""
    return next((entry.why for entry in REASONS if entry.covers(file, before, line)), "")
