"""A sheet to draw on: boxes, words and arrows as SVG that is legible on light and on dark paper.

Colours are CSS variables: alone, a picture follows the reader's system; inside a page of the site, the page.
The same calls give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

INK, SOFT, PAPER, LINE = "var(--pic-ink)", "var(--pic-soft)", "var(--pic-paper)", "var(--pic-line)"
BLUE, ORANGE, GREEN, RED, GREY = (f"var(--pic-{name})" for name in ("blue", "orange", "green", "red", "grey"))
LIGHT = {
    "ink": "#1f2933",
    "soft": "#52606d",
    "paper": "#ffffff",
    "line": "#9aa5b1",
    "blue": "#9fcbe6",
    "orange": "#f6cf86",
    "green": "#9ddcc3",
    "red": "#f0ab8a",
    "grey": "#e4e8ec",
}
DARK = {
    "ink": "#e6ebf0",
    "soft": "#a9b4c0",
    "paper": "#1e2129",
    "line": "#7b8794",
    "blue": "#1f5f86",
    "orange": "#8a5f0c",
    "green": "#17694c",
    "red": "#8c4423",
    "grey": "#3a424d",
}


def variables(colours: dict[str, str]) -> str:
    """Give the colours as declarations of CSS.

    >>> variables({"ink": "#000"})
    '--pic-ink: #000;'
    """
    return " ".join(f"--pic-{name}: {value};" for name, value in colours.items())


STYLE = (
    f"svg.picture {{ {variables(LIGHT)} font-family: system-ui, 'Segoe UI', Roboto, sans-serif; }} "
    f"@media (prefers-color-scheme: dark) {{ svg.picture {{ {variables(DARK)} }} }}"
)


@dataclass
class Sheet:
    """A picture of some width and height in pixels; y grows downwards."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str = PAPER,
        *,
        edge: str = LINE,
        round: float = 3,
        dash: str = "",
    ) -> None:
        """Draw a rectangle with its upper left corner at (x, y)."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{round:g}" fill="{fill}" stroke="{edge}"{dashes}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        at: str = "middle",
        ink: str = INK,
        bold: bool = False,
    ) -> None:
        """Write one line; `at` is the part of it that stands at x: start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{at}" fill="{ink}"{weight}>{escape(words)}</text>'
        )

    def label(self, x: float, y: float, w: float, h: float, words: str, fill: str = PAPER, **how: float) -> None:
        """Draw a box with words in its middle, a line of them for each line of text."""
        self.box(x, y, w, h, fill)
        lines, size = words.split("\n"), how.get("size", 13)
        for number, line in enumerate(lines):
            middle = y + h / 2 + size * 0.36 + (number - (len(lines) - 1) / 2) * size * 1.3
            self.text(x + w / 2, middle, line, size=size)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        arrow: bool = False,
        ink: str = SOFT,
        dash: str = "",
        wide: float = 1.5,
    ) -> None:
        """Draw a line, with a head at its end where it is an arrow."""
        head = ' marker-end="url(#pic-head)"' if arrow else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{ink}" stroke-width="{wide:g}"{dashes}{head}/>'
        )

    def path(self, points: list[tuple[float, float]], *, ink: str = INK, wide: float = 2) -> None:
        """Draw a line through points."""
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{steps}" fill="none" stroke="{ink}" stroke-width="{wide:g}"/>')

    def dot(self, x: float, y: float, r: float = 4, fill: str = INK) -> None:
        """Draw a filled circle around (x, y)."""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{fill}" stroke="{INK}" stroke-width="0.8"/>'
        )

    def svg(self) -> str:
        """Give the whole picture as text."""
        head = (
            '<marker id="pic-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{SOFT}"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {self.width:g} {self.height:g}" '
                f'width="{self.width:g}" role="img" aria-label="{escape(self.title)}">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                f"<defs>{head}</defs>",
                *self.parts,
                "</svg>",
                "",
            ]
        )
