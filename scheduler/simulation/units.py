"""Durations as people write them. Pure text to integer nanoseconds and back."""

from __future__ import annotations

import re

from ..errors import SchedulerError

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
LONGEST_NS = 10**18  # 32 years: neither floats of it nor waits of a thread overflow
_FORM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ns|us|ms|s)")


def parse_duration_ns(text: str, what: str = "a duration") -> int:
    """Return the nanoseconds of text like `200ms`, `1.5s`, `18us`; must be above zero. Raises SchedulerError.

    >>> parse_duration_ns("200ms"), parse_duration_ns("1.5 s")
    (200000000, 1500000000)
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise SchedulerError(
            f"{what} must be a positive number with a unit (ns, us, ms or s) such as 200ms, not {text!r}"
        )
    value = float(match[1]) * _UNITS_NS[match[2]]
    if not 0.5 < value <= LONGEST_NS:
        raise SchedulerError(f"{what} must be at least 1 ns and at most {LONGEST_NS / 1e9:g} s, not {text!r:.60}")
    return round(value)


def format_ms(ns: float) -> str:
    """Return milliseconds with one decimal, for reasons and tables.

    >>> format_ms(83_149_000)
    '83.1 ms'
    """
    return f"{ns / 1e6:.1f} ms"
