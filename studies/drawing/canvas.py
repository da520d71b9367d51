"""The ground of every figure: colours, empty axes, and SVG text that is the same for the same numbers."""

from __future__ import annotations

import io
from typing import Any

# Okabe and Ito's palette: distinguished with any kind of colour vision, in this order.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
INK, GRID, PAPER = "#1f2933", "#d9dee4", "#ffffff"  # a page may have others at night (page.py)
ON_COLOUR = "#16202a"  # ink on a coloured ground, the same by day and by night
WIDTH = 11.2  # inches of a figure as wide as a page: its 8 points are 11 pixels there
HALF = (4.8, 3.3)  # inches of a figure of which two stand side by side
YELLOW = PALETTE[6]  # too light for white letters
GREY = "#7a869a"  # for what has no colour of its own


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """Make a matplotlib figure in this house's looks. Returns it and its axes, row by row."""
    # The object-oriented interface: no global state, no display, nothing to close.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    figure.patch.set_alpha(0)  # the page's ground shows through
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.patch.set_alpha(0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(GRID)
        axis.tick_params(colors=INK, labelsize=9)
        axis.grid(True, color=GRID, linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def logarithmic(ruler: Any) -> None:
    """Make a ruler of a figure logarithmic, with plain numbers at 1, 2 and 5: a short one has some, too."""
    from matplotlib.ticker import LogLocator

    ruler.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ruler.set_major_formatter("{x:g}")
    ruler.set_minor_formatter("")


def to_svg(figure: Any) -> str:
    """Give the figure as an `<svg>` element; the same numbers give the same bytes."""
    import matplotlib

    out = io.StringIO()
    # Fixed salt and no date.
    with matplotlib.rc_context({"svg.hashsalt": "fluidnpu", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
