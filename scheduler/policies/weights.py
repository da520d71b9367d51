"""The tuned weights of `Credit` that ship with the package, and which of them a setting gets.

Each file was written by `benchmarks/table2_tune.py` for one latency table, objective and goal; a setting with exactly that table and
objective gets it. Any other setting gets the mean of all files of the goal: weights are in units of the objective, so they carry over, though
not as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from ..errors import SchedulerError
from .credit import KNOTS, Weights
from .setting import Setting

GOALS = ("on-time", "balanced", "tail")  # the dial's 0, 1 and 2


def fingerprint(setting: Setting) -> str:
    """What a weights file was tuned for: table, exit rates and objective (not the rate)."""
    key = (setting.latency.ns, setting.exit_rates, setting.slo_ns)
    return hashlib.sha256(repr(key).encode()).hexdigest()[:16]


def load_weights(setting: Setting, dial: float, anytime: bool, robust: bool = False) -> tuple[Weights, str]:
    """The weights for a place of the dial (0..2), or those tuned also in worlds that are not as told, and where they come from."""
    if robust:
        return _goal(setting, "balanced-robust", anytime)
    low = int(dial)
    weights, source = _goal(setting, GOALS[low], anytime)
    if dial == low:
        return weights, source
    other, other_source = _goal(setting, GOALS[low + 1], anytime)
    return weights.mixed(other, dial - low), f"{source}, {other_source}"


def _goal(setting: Setting, goal: str, anytime: bool) -> tuple[Weights, str]:
    suffix = "-anytime" if anytime else ""
    found = _files(goal + suffix) or _files(goal)
    stages = setting.latency.stages
    fitting = {name: w for name, _, w in found if len(w.v) == stages}
    exact = [(w, name) for name, mark, w in found if mark == fingerprint(setting)]
    if exact:
        return exact[0]
    if not fitting:
        return _stretched([w for _, _, w in found], stages), f"mean of {len(found)} {goal}{suffix} weights, stretched"
    return mean(list(fitting.values())), f"mean of {len(fitting)} {goal}{suffix} weights"


@lru_cache
def _files(goal: str) -> tuple[tuple[str, str, Weights], ...]:
    out = []
    for file in sorted(resources.files(__package__).joinpath("tuned").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".json"):
            continue
        raw = json.loads(file.read_text())
        if raw["goal"] == goal:
            out.append((file.name.removesuffix(".json"), raw["fingerprint"], read_weights(raw, file.name)))
    return tuple(out)


def read_weights(raw: Mapping[str, Any], source: str) -> Weights:
    """Weights from JSON. Raises SchedulerError naming the file."""
    if raw.get("knots") != list(KNOTS):
        raise SchedulerError(f"weights in {source} must have the knots {KNOTS}; tune them again")
    return Weights(v=tuple(map(tuple, raw["v"])), done=tuple(raw["done"]), on_time=raw["on_time"])


def mean(many: Sequence[Weights]) -> Weights:
    """The mean of weights for equally many stages. Raises SchedulerError when there are none."""
    if not many:
        raise SchedulerError("there must be tuned weights to take the mean of")
    total = many[0]
    for k, other in enumerate(many[1:], 2):
        total = total.mixed(other, 1 / k)
    return total


def _stretched(many: Sequence[Weights], stages: int) -> Weights:
    """The mean, with its stages spread over another number of them by nearest relative place (first to first, last to last)."""
    base = mean([w for w in many if len(w.v) == len(many[0].v)])
    have = len(base.v)
    pick = [round(s * (have - 1) / max(stages - 1, 1)) for s in range(stages)]
    return Weights(v=tuple(base.v[k] for k in pick), done=base.done, on_time=base.on_time)
