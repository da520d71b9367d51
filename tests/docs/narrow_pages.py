"""A check of a page that any reader may open: on a telephone, or by ear."""

import re
from html.parser import HTMLParser

FITTING = re.compile(r"\b(wide|bars|panels|said)\b|max-width")  # scrolls, or shrinks with the page


class Boxes(HTMLParser):
    """The classes around every table and picture of a page, and the names of its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.around: list[tuple[str, str]] = []
        self.names: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("table", "svg"):
            own = given.get("class") or given.get("style") or ""
            self.around.append((tag, " ".join([own, *(kind for _, kind in self.open)])))
        if tag == "svg":
            self.names.append(given.get("aria-label") if given.get("role") == "img" else None)
        if tag in ("div", "figure", "table"):
            self.open.append((tag, given.get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()


def check_narrow(text: str) -> None:
    """Assert that every table and picture of a page scrolls or shrinks, and that every picture has a name."""
    boxes = Boxes(text)
    for tag, classes in boxes.around:
        assert FITTING.search(classes), f"<{tag}> in '{classes}'"
    assert all(boxes.names)
    assert len(set(boxes.names)) == len(boxes.names)
    assert boxes.names
