"""Policies by name: `make_policy("adaptive:timeout=18ms")`. Parameters follow the name, separated by colons.

>>> make_policy("greedy:b_max=4").b_max
4
>>> make_policy("lifo")
Traceback (most recent call last):
scheduler.errors.SchedulerError: policy must be one of adaptive, ..., serial, not 'lifo'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import SchedulerError
from ..units import parse_duration_ns
from .basic import Adaptive, Greedy, Serial
from .fluid import Fluid

Parser = Callable[[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """How one policy is made from text: its factory, what its parameters mean, and a sentence for listings."""

    make: Callable[..., Any]
    about: str
    parameters: Mapping[str, Parser] = field(default_factory=dict)


def _count(key: str, text: str) -> dict[str, Any]:
    if not text.isdigit() or int(text) < 1:
        raise SchedulerError(f"{key} must be a whole number of at least 1, not {text!r}")
    return {key: int(text)}


def _timeout(key: str, text: str) -> dict[str, Any]:
    if not text.endswith("%"):
        return {"timeout_ns": parse_duration_ns(text, key)}
    try:
        return {"share": float(text[:-1]) / 100}
    except ValueError:
        raise SchedulerError(f"{key} must be a duration or a percentage such as 5%, not {text!r}") from None


REGISTRY: dict[str, Entry] = {
    "serial": Entry(Serial, "one sample at a time through the whole network"),
    "greedy": Entry(Greedy, "start with whatever waits, no preemption", {"b_max": _count}),
    "adaptive": Entry(Adaptive, "wait for a full batch or a timeout", {"timeout": _timeout, "b_max": _count}),
    "adaptive-s": Entry(partial(Adaptive, share=0.05), "adaptive, timeout 5 % of the objective", {"b_max": _count}),
    "adaptive-m": Entry(partial(Adaptive, share=0.45), "adaptive, timeout 45 % of the objective", {"b_max": _count}),
    "adaptive-l": Entry(partial(Adaptive, share=0.95), "adaptive, timeout 95 % of the objective", {"b_max": _count}),
    "fluid": Entry(Fluid, "Algorithm 1 with the literal Eqs. 3-4"),
    "fluid-repaired": Entry(partial(Fluid, repaired=True), "Algorithm 1; samples that are late anyway block nothing"),
}


def make_policy(text: str) -> Any:
    """A policy from `name` or `name:key=value:key=value`; its `name` is the text. Raises SchedulerError in one sentence."""
    name, *settings = text.strip().split(":")
    if name not in REGISTRY:
        raise SchedulerError(f"policy must be one of {', '.join(sorted(REGISTRY))}, not {name!r}")
    entry = REGISTRY[name]
    arguments: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in entry.parameters:
            known = ", ".join(sorted(entry.parameters)) or "none"
            raise SchedulerError(
                f"parameters of policy '{name}' must be key=value with a key among: {known}; not {setting!r}"
            )
        arguments |= entry.parameters[key](key, value)
    return entry.make(**arguments, name=text.strip())
