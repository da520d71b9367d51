"""HTML pages: one self-contained file each, figures inline, no script and no font from elsewhere.

A page follows the reader's choice of a light or a dark ground (`prefers-color-scheme`), its figures too; it
is printed on a light one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from ..statements import Verdict, slug, tally
from .canvas import GRID, INK, PAPER

SHELL = "fluidnpu.studies.drawing"  # its templates hold `page.html.j2`, which every page extends, and the style

_THEMED = {
    f"fill: {INK}": "fill: var(--ink)",
    f"stroke: {INK}": "stroke: var(--ink)",
    "stroke: #000000": "stroke: var(--ink)",
    f"fill: {GRID}": "fill: var(--grid)",
    f"stroke: {GRID}": "stroke: var(--grid)",
    f"stroke: {PAPER}": "stroke: var(--paper)",  # edges of bars and dots; white letters stay white
}


def inline_figure(svg: str) -> Markup:
    """Give a figure for a page, in the page's own ink, grid and paper.

    >>> inline_figure('<svg><path style="stroke: #1f2933; fill: #0072b2"/></svg>')
    Markup('<svg><path style="stroke: var(--ink); fill: #0072b2"/></svg>')
    """
    return Markup(re.sub("|".join(map(re.escape, _THEMED)), lambda found: _THEMED[found[0]], svg))


def coded(text: str) -> Markup:
    """Give a sentence for a page, with what stands between backquotes as code.

    >>> coded("`a < b` holds")
    Markup('<code>a &lt; b</code> holds')
    """
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def page_template(package: str, name: str) -> Template:
    """Load a page from the `templates` of a package.

    An unknown name inside a page is an error, not an empty string.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHELL)]),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"coded": coded, "slug": slug}
    return environment.get_template(name)


def statements_page(
    *,
    title: str,
    lead: str,
    caution: str,
    command: str,
    verdicts: Sequence[Verdict],
    figures: Mapping[str, str],
    tables: Mapping[str, Any],
) -> str:
    """Render a page of statements, figures (SVG texts by name) and tables (rows by name)."""
    return page_template(SHELL, "statements.html.j2").render(
        title=title,
        lead=lead,
        caution=caution,
        command=command,
        verdicts=verdicts,
        tally=tally(verdicts),
        figures={name: inline_figure(svg) for name, svg in figures.items()},
        tables=tables,
    )
