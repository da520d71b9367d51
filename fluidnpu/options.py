"""What the text of an option means. Every refusal is one sentence that names the option."""

from __future__ import annotations

import math

from .errors import UsageError


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Finite numbers with commas between them; None where the option is absent. Raises UsageError.

    >>> numbers("--exit-rates", "0.25,0.75")
    (0.25, 0.75)
    """
    if text is None:
        return None
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(map(math.isfinite, found)):
        raise UsageError(f"{option} must be finite numbers with commas between them, not '{text}'")
    return found
