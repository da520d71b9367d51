"""Fence the examples of docstrings for the Python reference, so that they show as code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Rewrite each docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Fence each example, from its first `>>>` to the next empty line; `<` of prose begins no tag of HTML.

    >>> fenced("<R, P> and `<C>`")
    '&lt;R, P> and `<C>`'
    >>> fenced("Adds.\n\n>>> 1 + 1\n2\n\nSee also.")
    'Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nSee also.'
    """
    words = re.split(r"(`[^`]*`|^(?:>>>| {4}).*$)", text, flags=re.M)  # code stands at odd places
    words[::2] = [re.sub(r"<(?=[A-Za-z])", "&lt;", part) for part in words[::2]]
    text = "".join(words)
    return re.sub(r"^>>> .*?(?=\n\s*\n|\Z)", lambda found: f"```pycon\n{found[0]}\n```", text, flags=re.M | re.S)
