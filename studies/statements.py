"""Statements of a paper with the verdicts of its study, and the page that lists them.

A verdict follows from `holds`, what the rule beside the statement found part by part, and from nothing else:

agrees    every part holds
partly    some parts hold, or all that can be tested here; `why` says which
differs   none holds; `why` gives the reason we know, or says that we know none
fitted    every part holds, but our data was made so, so it is no evidence
untested  it cannot be tested here; `why` says what would be needed

>>> world = Verdict(where="Fig. 1", statement="b is above a", paper="yes", ours="2", holds=[2 > 1], why="")
>>> from dataclasses import replace
>>> world.verdict, replace(world, holds=[1 > 2]).verdict, replace(world, holds=[]).verdict
('agrees', 'differs', 'untested')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .writing import table_head, table_row

AGREES, PARTLY, DIFFERS, FITTED, UNTESTED = "agrees", "partly", "differs", "fitted", "untested"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One statement of the paper and the outcome here.

    `fitted`: our data was made so that it holds. `in_part`: a part of the statement is beyond what is tested
    here, so that it holds in part at best. `shown`: title of the table or figure that has its numbers.
    """

    where: str
    statement: str
    paper: str
    ours: str
    holds: Sequence[bool]
    why: str
    fitted: bool = False
    in_part: bool = False
    shown: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        if not self.holds:
            return UNTESTED
        if all(self.holds):
            return FITTED if self.fitted else PARTLY if self.in_part else AGREES
        return PARTLY if any(self.holds) else DIFFERS

    def to_dict(self) -> dict[str, str]:
        """Give the words of it."""
        return {key: getattr(self, key) for key in ("where", "statement", "paper", "ours", "verdict", "why", "shown")}


def tally(verdicts: Sequence[Verdict]) -> Counter[str]:
    """Count the verdicts."""
    return Counter(verdict.verdict for verdict in verdicts)


def tally_text(counts: dict[str, int]) -> str:
    """Write a tally in one line.

    >>> tally_text({"differs": 1, "agrees": 3})
    '3 agrees, 1 differs'
    """
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def slug(title: str) -> str:
    """Give the anchor of a heading, as the site makes it.

    >>> slug("Figs. 9, 10: 6 V100, by largest batch")
    'figs-9-10-6-v100-by-largest-batch'
    """
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def statements_markdown(title: str, verdicts: Sequence[Verdict], command: str, figures: Collection[str] = ()) -> str:
    """Write the statements as Markdown, for documentation: generated, so never edited.

    What is shown is one of the `figures`, which lie in a folder beside the page, or a table of `tables.md`.
    """

    def place(shown: str) -> str:
        return f"figures/{slug(shown)}.svg" if shown in figures else f"tables.md#{slug(shown)}"

    lines = [
        f"# {title}",
        "",
        f"Written by `{command}`; do not edit. Simulated.\n{len(verdicts)} statements: {tally_text(tally(verdicts))}; "
        "*fitted* is no evidence.",
        "",
        "| | where | statement | paper | here | why |",
        "|---|---|---|---|---|---|",
    ]
    for v in verdicts:
        where = f"[{v.where}]({place(v.shown)})" if v.shown else v.where
        cells = (f"**{v.verdict}**", where, v.statement, v.paper, v.ours, v.why)
        lines.append(table_row([cell.replace("|", "/") for cell in cells]))
    return "\n".join(lines) + "\n"


def tables_markdown(facts: Mapping[str, Any], command: str, tables: Iterable[Any]) -> str:
    """Write the tables of a study as Markdown, for documentation: generated, so never edited."""
    blocks = [f"# {facts['tables']}\n\nWritten by `{command}`; do not edit.\n{facts['caution']}"]
    for table in tables:
        lines = [*table_head(table.head), *map(table_row, table.rows)]
        note = [table.note, ""] if table.note else []
        blocks.append("\n".join([f"## {table.title}", "", *note, *lines]))
    return "\n\n".join(blocks) + "\n"
