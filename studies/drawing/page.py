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


def inline_figure(svg: str, title: str) -> Markup:
    """Return a figure for a page, in the page's own ink, grid and paper, named for who cannot see it.

    A narrow page scrolls it sideways.

    >>> print(inline_figure('<svg><path style="stroke: #1f2933"/></svg>', "A roof").partition("0")[2])
    "><svg role="img" aria-label="A roof"><path style="stroke: var(--ink)"/></svg></figure>
    """
    return Markup('<figure class="chart wide" tabindex="0">{}</figure>').format(_named(svg, title))


def inline_panels(figures: Mapping[str, str]) -> Markup:
    """Return small figures, SVG by title, side by side; on a narrow page one below another."""
    panels = (Markup("<figure>{}</figure>").format(_named(svg, title)) for title, svg in figures.items())
    return Markup('<div class="panels">{}</div>').format(Markup("").join(panels))


def _named(svg: str, title: str) -> Markup:
    """Return a figure with its name, in the colours of the page's theme."""
    themed = re.sub("|".join(map(re.escape, _THEMED)), lambda match: _THEMED[match[0]], svg)
    return Markup(themed.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))


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
    facts: Mapping[str, Any],
    command: str,
    verdicts: Sequence[Verdict],
    figures: Mapping[str, str],
    tables: Sequence[Any],
    stretches: Sequence[Any] = (),
) -> str:
    """Render a study's page: statements, figures (SVG texts by name), tables, stretches of schedules."""
    return page_template(SHELL, "statements.html.j2").render(
        facts=facts,
        command=command,
        verdicts=verdicts,
        tally=tally(verdicts),
        figures={name: inline_figure(svg, name) for name, svg in figures.items()},
        tables=tables,
        stretches=stretches,
    )
