"""The record that a policy's file keeps for each of its names, and parsers of shared parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import SchedulerError

Parser = Callable[[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """The factory of a policy, a sentence for listings, and a parser for each of its parameters.

    A parser gets key and text and returns arguments of the factory. `solved`: the factory takes a `Setting`
    first, since the policy is solved or tuned for it. `tuned`: the factory also takes `anytime`, since its
    weights differ with anytime answers. `drains`: it works off a long queue (`drain.py`) unless `drain=0`;
    `within`: the factory takes `drain` for that, since the policy learns from every decision.
    """

    make: Callable[..., Any]
    about: str
    parameters: Mapping[str, Parser] = field(default_factory=dict)
    solved: bool = False
    tuned: bool = False
    drains: bool = False
    within: bool = False


def parse_count(key: str, text: str) -> dict[str, Any]:
    """Return a whole number of at least 1. Raises SchedulerError."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise SchedulerError(f"{key} must be a whole number of at least 1, not {text!r}")
    return {key: int(text)}


def parse_flag(key: str, text: str) -> dict[str, Any]:
    """Return True for 1 and False for 0. Raises SchedulerError."""
    if text not in ("0", "1"):
        raise SchedulerError(f"{key} must be 0 or 1, not {text!r}")
    return {key: text == "1"}


def parse_percent(key: str, text: str) -> float:
    """Return a share of text like `3%` or `0.03`. Raises SchedulerError."""
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise SchedulerError(f"{key} must be a share such as 3% or 0.03, not {text!r}") from None


def parse_share(key: str, text: str) -> dict[str, Any]:
    """Return a share from 0 to 100 %. Raises SchedulerError."""
    share = parse_percent(key, text)
    if not 0 <= share <= 1:
        raise SchedulerError(f"{key} must be a share from 0 to 100 %, not {text!r}")
    return {key: share}


def parse_bounded(key: str, text: str, holds: Callable[[float], bool], must: str) -> dict[str, Any]:
    """Return a number for which `holds`. Raises SchedulerError: the number `must`."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not holds(value):
        raise SchedulerError(f"{key} must {must}, not {text!r}")
    return {key: value}
