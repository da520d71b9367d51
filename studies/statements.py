"""Statements of a paper with the verdicts of its study, and the page that lists them.

agrees    the rule beside the statement holds
partly    it holds in part; `why` says in which
differs   it does not; `why` gives the reason we know, or says that we know none
fitted    our data was made so that it holds, so it is no evidence
untested  it cannot be tested here; `why` says what would be needed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .writing import table_row

AGREES, PARTLY, DIFFERS, FITTED, UNTESTED = "agrees", "partly", "differs", "fitted", "untested"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One statement of the paper and the outcome here."""

    where: str
    statement: str
    paper: str
    ours: str
    verdict: str
    why: str

    def to_dict(self) -> dict[str, str]:
        """Give plain JSON types."""
        return asdict(self)


def judged(*holds: bool) -> str:
    """Give the verdict on a statement of several parts.

    >>> judged(True, True), judged(True, False), judged(False)
    ('agrees', 'partly', 'differs')
    """
    return AGREES if all(holds) else PARTLY if any(holds) else DIFFERS


def tally(verdicts: Sequence[Verdict]) -> Counter[str]:
    """Count the verdicts."""
    return Counter(one.verdict for one in verdicts)


def tally_text(counts: dict[str, int]) -> str:
    """Write a tally in one line.

    >>> tally_text({"differs": 1, "agrees": 3})
    '3 agrees, 1 differs'
    """
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def statements_markdown(title: str, verdicts: Sequence[Verdict], command: str) -> str:
    """Write the statements as Markdown, for documentation: generated, so never edited."""
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
        cells = (f"**{v.verdict}**", v.where, v.statement, v.paper, v.ours, v.why)
        lines.append(table_row([cell.replace("|", "/") for cell in cells]))
    return "\n".join(lines) + "\n"
