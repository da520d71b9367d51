"""Whether the compiled loop can be had. Asking loads nothing: Numba takes half a second, and a board does not have it."""

from __future__ import annotations

from importlib.util import find_spec


def available() -> bool:
    """Whether Numba is installed, so that `serve_compiled` is compiled."""
    return find_spec("numba") is not None
