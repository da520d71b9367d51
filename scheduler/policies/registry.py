"""Policies by name: `make_policy("adaptive:timeout=18ms")`. Parameters follow the name, separated by colons; `anytime=3%` and `shed=1`
fit every policy.

>>> make_policy("greedy:b_max=4").b_max
4
>>> make_policy("fluid:anytime=3%").share
0.03
>>> make_policy("lifo")
Traceback (most recent call last):
fluidnpu.scheduler.errors.SchedulerError: policy must be one of adaptive, ..., staged, not 'lifo'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import SchedulerError
from ..policy import Policy
from ..units import parse_duration_ns
from .baselines import PATIENCE, Adaptive, Greedy, Serial
from .credit import Credit
from .fluid import Fluid
from .guarded import GIVE_UP, PATIENT, Guarded
from .optimal import Optimal
from .peers import Lazy, Staged
from .setting import Setting
from .weights import load_weights
from .wrappers.anytime import Anytime
from .wrappers.shedding import Shedding

Parser = Callable[[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """How one policy is made from text: its factory, a sentence for listings, and what its parameters mean.

    `solved`: the factory takes a Setting first, since the policy is solved or tuned for it.
    """

    make: Callable[..., Any]
    about: str
    parameters: Mapping[str, Parser] = field(default_factory=dict)
    solved: bool = False


def _count(key: str, text: str) -> dict[str, Any]:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise SchedulerError(f"{key} must be a whole number of at least 1, not {text!r}")
    return {key: int(text)}


def _percent(key: str, text: str) -> float:
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise SchedulerError(f"{key} must be a share such as 3% or 0.03, not {text!r}") from None


def _timeout(key: str, text: str) -> dict[str, Any]:
    if not text.endswith("%"):
        return {"timeout_ns": parse_duration_ns(text, key)}
    try:
        return {"share": float(text[:-1]) / 100}
    except ValueError:
        raise SchedulerError(f"{key} must be a duration or a percentage such as 5%, not {text!r}") from None


def _cost(key: str, text: str) -> dict[str, Any]:
    return {"cost_ns": 0 if text == "0" else parse_duration_ns(text, key)}


def _flag(key: str, text: str) -> dict[str, Any]:
    if text not in ("0", "1"):
        raise SchedulerError(f"{key} must be 0 or 1, not {text!r}")
    return {key: text == "1"}


def _dial(key: str, text: str) -> dict[str, Any]:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:
        raise SchedulerError(
            f"{key} must lie between 0 (late answers are worthless), 1 (balanced) and 2 (p99 is the contract), not {text!r}"
        )
    return {key: value}


def _patience(key: str, text: str) -> dict[str, Any]:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= PATIENCE:
        raise SchedulerError(f"{key} must lie above 0 and up to {PATIENCE} objectives, not {text!r}")
    return {key: value}


def _credit(
    setting: Setting,
    *,
    name: str,
    dial: float = 1.0,
    robust: bool = False,
    anytime: bool = False,
    patience: float = PATIENCE,
) -> Credit:
    if robust and dial != 1.0:
        raise SchedulerError(f"robust weights are tuned for dial=1 only, not {dial:g}")
    weights, source = load_weights(setting, dial, anytime, robust)
    policy = Credit(setting, weights, name=name, patience=patience)
    policy.weights_from = source
    return policy


def _guarded(
    setting: Setting,
    *,
    name: str,
    dial: float = 1.0,
    anytime: bool = False,
    patience: float = PATIENT,
    give_up: float = GIVE_UP,
) -> Guarded:
    credit = _credit(setting, name=name, dial=dial, anytime=anytime)
    return Guarded(setting, credit, patience=patience, give_up=give_up, name=name)


def _share(key: str, text: str) -> dict[str, Any]:
    share = _percent(key, text)
    if not 0 <= share <= 1:
        raise SchedulerError(f"{key} must be a share from 0 to 100 %, not {text!r}")
    return {key: share}


REGISTRY: dict[str, Entry] = {
    "serial": Entry(Serial, "one sample at a time through the whole network"),
    "greedy": Entry(Greedy, "start with whatever waits, no preemption", {"b_max": _count}),
    "adaptive": Entry(Adaptive, "wait for a full batch or a timeout", {"timeout": _timeout, "b_max": _count}),
    "adaptive-s": Entry(partial(Adaptive, share=0.05), "adaptive, timeout 5 % of the objective", {"b_max": _count}),
    "adaptive-m": Entry(partial(Adaptive, share=0.45), "adaptive, timeout 45 % of the objective", {"b_max": _count}),
    "adaptive-l": Entry(partial(Adaptive, share=0.95), "adaptive, timeout 95 % of the objective", {"b_max": _count}),
    "fluid": Entry(Fluid, "Algorithm 1 with the literal Eqs. 3-4"),
    "fluid-repaired": Entry(partial(Fluid, repaired=True), "Algorithm 1; samples that are late anyway block nothing"),
    "lazy": Entry(
        Lazy, "LazyBatching: layer by layer, exit-unaware", {"cost": _cost, "layers": _count, "exit_aware": _flag}
    ),
    "staged": Entry(Staged, "PAME's stages with parallel batches", {"tau_b": _count}),
    "optimal": Entry(Optimal, "smallest mean latency: decision process on counts", solved=True),
    "credit": Entry(
        _credit,
        "the same, with credit for answers in time",
        {"dial": _dial, "robust": _flag, "patience": _patience},
        solved=True,
    ),
    "guarded": Entry(
        _guarded,
        "the same within bounds: few are given up, and the tail is worked off when many are late",
        {"dial": _dial, "patience": _patience, "give_up": _share},
        solved=True,
    ),
}


def make_policy(text: str, setting: Setting | None = None) -> Policy:
    """A policy from `name` or `name:key=value:key=value`; its `name` is the text. Raises SchedulerError in one sentence.

    `setting` is needed by the policies that are solved beforehand (`optimal`, `credit`).
    """
    name, *settings = text.strip().split(":")
    if name not in REGISTRY:
        raise SchedulerError(f"policy must be one of {', '.join(sorted(REGISTRY))}, not {name!r}")
    entry = REGISTRY[name]
    arguments: dict[str, Any] = {}
    share, shed = None, False
    for part in settings:
        key, equals, value = part.partition("=")
        if equals and key == "anytime":
            share = _percent(key, value)
            continue
        if equals and key == "shed":
            shed = _flag(key, value)[key]
            continue
        if not equals or key not in entry.parameters:
            known = ", ".join(sorted({*entry.parameters, "anytime", "shed"}))
            raise SchedulerError(
                f"parameters of policy '{name}' must be key=value with a key among: {known}; not {part!r}"
            )
        arguments |= entry.parameters[key](key, value)
    if entry.make in (_credit, _guarded):
        arguments["anytime"] = share is not None
    if entry.solved:
        if setting is None:
            raise SchedulerError(f"policy '{name}' is solved for a rate and an objective, so it needs both")
        policy = entry.make(setting, **arguments, name=text.strip())
    else:
        policy = entry.make(**arguments, name=text.strip())
    if share is not None:
        policy = Anytime(policy, share, name=text.strip())
    return Shedding(policy, name=text.strip()) if shed else policy
