"""The study as one self-contained HTML page, and its excerpt for documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.page import inline_figure, page_template
from ..statements import tally
from .modes import MODES
from .settings import FULL_MS, RATE
from .tables import tables
from .verdicts import verdicts

Body = Mapping[str, Any]


def render_study(study: Body, command: str, figures: Mapping[str, str]) -> str:
    """Render the page; `command` is the one that made the study, `figures` are SVG text."""
    judgements = verdicts(study)
    return page_template(__package__, "study.html.j2").render(
        study=study,
        command=command,
        verdicts=judgements,
        tally=tally(judgements),
        tables=tables(study),
        modes=MODES,
        full_ms=FULL_MS,
        figures={name: inline_figure(svg, name) for name, svg in figures.items()},
    )


def study_excerpt(study: Body) -> dict[str, Any]:
    """Give the part that documents quote: the modes at the usual rate, isolation, constraints."""
    parts = study["parts"]
    return {
        "modes": {name: entry for name, entry in parts["modes"].items() if name.endswith(f", {RATE:g}")},
        "isolation": parts["isolation"],
        "guarantee": parts["guarantee"],
    }
