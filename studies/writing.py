"""Numbers and tables as a study writes them: five significant digits, intervals of three, canonical JSON,
Markdown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fluidnpu.scheduler.simulation import Interval

_FLAT_LIST = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")


def significant(value: float) -> float | None:
    """Round to five significant digits: enough to read, few enough to diff. None for what is not finite.

    >>> significant(123.4567891), significant(float("inf"))
    (123.46, None)
    """
    return float(f"{value:.5g}") if math.isfinite(value) else None


def mean_low_high(value: Interval) -> list[float | None]:
    """Give an interval as `[mean, low, high]`, with None for what is not finite."""
    return [significant(x) for x in (value.mean, value.low, value.high)]


def plus_minus(value: Sequence[float | None] | None, digits: int = 1, *, unit: str = "", sign: bool = False) -> str:
    """Write `[mean, low, high]` as mean and half-width.

    >>> plus_minus([11.94, 11.61, 12.27]), plus_minus([-3.0, -3.5, -2.5], sign=True), plus_minus(None)
    ('11.9 ± 0.3', '-3.0 ± 0.5', 'unstable')
    >>> plus_minus([12.34, 11.9, 12.8], unit=" ms")
    '12.3 ± 0.5 ms'
    """
    if value is None or value[0] is None:
        return "unstable"
    mean, high = value[0], value[2]
    text = f"{mean:+.{digits}f}" if sign else f"{mean:.{digits}f}"
    half = "" if high is None else f" ± {high - mean:.{digits}f}"
    return f"{text}{half}{unit}"


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Give the 95 % interval of a share, Wilson's: the values that a test at 5 % does not refuse.

    >>> [round(x, 3) for x in share_interval(13, 40)], [round(x, 3) for x in share_interval(0, 40)]
    ([0.201, 0.48], [0.0, 0.088])
    """
    z2 = 1.959963984540054**2
    middle = (count + z2 / 2) / (of + z2)
    half = math.sqrt(z2 * (count * (of - count) / of + z2 / 4)) / (of + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def share_text(count: int, of: int) -> str:
    """Write a share with its interval.

    >>> share_text(13, 40)
    '32 % of 40 (20 to 48 %)'
    """
    low, high = share_interval(count, of)
    return f"{100 * count / of:.0f} % of {of} ({100 * low:.0f} to {100 * high:.0f} %)"


def dumps(body: Mapping[str, Any]) -> str:
    """Write canonical JSON, an interval a line."""
    text = json.dumps(body, indent=1, sort_keys=True, allow_nan=False)
    return _FLAT_LIST.sub(lambda match: "[" + re.sub(r"\s*\n\s*", " ", match[1]) + "]", text) + "\n"


def by_number(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put keys that are numbers into their order; others stay as they are.

    >>> list(by_number({"16": 0, "2": 0})), list(by_number({"b": 0, "a": 0}))
    (['2', '16'], ['b', 'a'])
    """
    try:
        return {key: mapping[key] for key in sorted(mapping, key=float)}
    except ValueError:
        return mapping


def table_head(cells: Sequence[str]) -> list[str]:
    """Give the first two lines of a Markdown table."""
    return [table_row(cells), table_row(["---"] * len(cells))]


def table_row(cells: Sequence[str]) -> str:
    """Give one line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"
