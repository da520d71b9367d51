"""Shorten the SVG that matplotlib writes, for figures in the tree: the same picture in a third of the bytes.

    python docs/compact_svg.py FILE...

Coordinates keep a tenth of a point, styles that repeat become classes, and what draws nothing goes.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from string import ascii_letters

NOTHING = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<path [^>]*opacity: 0\"/>", re.DOTALL
)
FONTS = re.compile(r"'DejaVu Sans'[^;\"]*sans-serif")  # the list of matplotlib
NUMBER = re.compile(r"-?\d*\.\d+")
COLUMNS = 150


def compact(svg: str) -> str:
    r"""Give an SVG of the same looks, in lines of at most about 150 columns.

    >>> print(compact('<svg><g id="a"><path d="M 0.123 4 \nL 1 2.96" style="fill: none"/></g></svg>'), end="")
    <svg><style>.a{fill:none}</style><path d="M.1 4L1 3" class="a"/></svg>
    """
    svg = FONTS.sub("DejaVu Sans,sans-serif", NOTHING.sub("", svg))
    svg = re.sub(r" (?:d|x|y|transform|points)=\"[^\"]*", lambda at: NUMBER.sub(lambda n: short(n[0]), at[0]), svg)
    svg = re.sub(r" transform=\"rotate\(-?0 [^)]*\)\"", "", svg)
    used = {name: f"{i:x}" for i, name in enumerate(dict.fromkeys(re.findall(r"#([a-zA-Z]\w+)(?=[\")])", svg)))}
    svg = re.sub(r" id=\"([\w.]+)\"", lambda found: f' id="i{used[found[1]]}"' if found[1] in used else "", svg)
    svg = re.sub(r"#([a-zA-Z]\w+)(?=[\")])", lambda found: f"#i{used[found[1]]}", svg)
    svg = re.sub(r"(?<=[\" ])([a-z-]+): ", r"\1:", svg).replace("; ", ";")
    svg = re.sub(r"(?<= d=\")[^\"]*", lambda path: re.sub(r"\s*([A-Zz]|\Z)\s*", r"\1", path[0]), svg)
    svg = re.sub(r">\s+<", "><", svg).replace("xlink:href", "href")
    while (plain := re.sub(r"<g>((?:(?!<g\b|</g>).)*)</g>", r"\1", svg, flags=re.DOTALL)) != svg:
        svg = plain
    styles = {style: name_of(i) for i, style in enumerate(dict.fromkeys(re.findall(r" style=\"([^\"]*)\"", svg)))}
    svg = re.sub(r" style=\"([^\"]*)\"", lambda found: f' class="{styles[found[1]]}"', svg)
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    svg = re.sub(r"(<svg[^>]*>)", rf"\1<style>{rules}</style>", svg, count=1)
    return textwrap.fill(svg, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def short(number: str) -> str:
    """Round to a tenth.

    >>> short("0.123"), short("-12.04"), short("2.96"), short("-0.01")
    ('.1', '-12', '3', '0')
    """
    text = f"{float(number):.1f}".removesuffix(".0")
    return re.sub(r"^(-?)0\.", r"\1.", text).replace("-0", "0") if text != "-0" else "0"


def name_of(number: int) -> str:
    """Give the short name of a class."""
    return ascii_letters[number % 52] + (str(number // 52) if number >= 52 else "")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(compact(path.read_text("utf-8")), "utf-8")
