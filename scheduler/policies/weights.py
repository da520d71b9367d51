"""The tuned weights of `Credit` that ship with the package, as files and as candidates for a choice.

Each file was written by `benchmarks/table2_tune.py` or `fluidnpu tune` for one latency table, objective and
goal. A setting with exactly that table and objective gets it. For any other setting the files are candidates,
from which `selection.py` chooses in simulation: weights are in units of the objective, so they carry over,
some better and some worse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import SchedulerError
from .setting import Setting

KNOTS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 2.5, 3.0, 5.0)  # ages in objectives
GOALS = ("on-time", "balanced", "tail")  # the dial's 0, 1 and 2
ALL_GOALS = (*GOALS, "balanced-robust", "balanced-anytime")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The tuned part of `Credit`, in units of a quarter of the objective.

    `v[s]` and `done`: credit at the ages KNOTS of a sample at the entry of stage s, and of one that leaves;
    `on_time`: the credit of an answer in time. Raises SchedulerError.
    """

    v: tuple[tuple[float, ...], ...]
    done: tuple[float, ...]
    on_time: float

    def __post_init__(self) -> None:
        for row in (*self.v, self.done):
            if len(row) != len(KNOTS):
                raise SchedulerError(f"each row of weights must have {len(KNOTS)} knots, not {len(row)}")

    def mixed(self, other: Weights, share: float) -> Weights:
        """Return the weights `share` of the way from these to the others."""

        def mix(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
            return tuple(x + share * (y - x) for x, y in zip(a, b, strict=True))

        return Weights(
            v=tuple(mix(a, b) for a, b in zip(self.v, other.v, strict=True)),
            done=mix(self.done, other.done),
            on_time=self.on_time + share * (other.on_time - self.on_time),
        )


def fingerprint(setting: Setting) -> str:
    """Return a digest of all that weights are tuned for: table, exit rates and objective, not the rate."""
    key = (setting.latency.ns, setting.exit_rates, setting.slo_ns)
    return hashlib.sha256(repr(key).encode()).hexdigest()[:16]


def load_weights(setting: Setting, dial: float, anytime: bool, robust: bool = False) -> tuple[Weights, str] | None:
    """Return the weights tuned for exactly this setting and a place of the dial (0..2), and their origin.

    None where there are none. `anytime`: those tuned with anytime answers; `robust`: those tuned also in
    worlds that are not as told.
    """
    if robust:
        return _goal(setting, "balanced-robust", anytime)
    low = int(dial)
    goal = _goal(setting, GOALS[low], anytime)
    if goal is None or dial == low:
        return goal
    other = _goal(setting, GOALS[low + 1], anytime)
    return other and (goal[0].mixed(other[0], dial - low), f"{goal[1]}, {other[1]}")


def _goal(setting: Setting, goal: str, anytime: bool) -> tuple[Weights, str] | None:
    files = (_files(goal + "-anytime") if anytime else ()) or _files(goal)
    return next(((weights, name) for name, mark, weights in files if mark == fingerprint(setting)), None)


def candidates(setting: Setting) -> dict[str, Weights]:
    """Return the shipped weights by name, spread over the setting's stages, and the mean of each goal."""
    stages = setting.latency.stages
    tuned: dict[str, Weights] = {}
    for goal in ALL_GOALS:
        files = _files(goal)
        tuned |= {name: _stretch(weights, stages) for name, _, weights in files}
        if len(files) > 1:
            tuned[f"mean of {goal}"] = mean([_stretch(weights, stages) for _, _, weights in files])
    return tuned


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
    """Read weights from JSON. Raises SchedulerError naming the file."""
    if raw.get("knots") != list(KNOTS):
        raise SchedulerError(f"weights in {source} must have the knots {KNOTS}; tune them again")
    return Weights(v=tuple(map(tuple, raw["v"])), done=tuple(raw["done"]), on_time=raw["on_time"])


def mean(many: Sequence[Weights]) -> Weights:
    """Return the mean of weights for equally many stages. Raises SchedulerError when there are none."""
    if not many:
        raise SchedulerError("there must be tuned weights to take the mean of")
    total = many[0]
    for k, other in enumerate(many[1:], 2):
        total = total.mixed(other, 1 / k)
    return total


def _stretch(weights: Weights, stages: int) -> Weights:
    """Return weights whose stages are spread over another number of them by nearest relative place."""
    have = len(weights.v)
    pick = [round(s * (have - 1) / max(stages - 1, 1)) for s in range(stages)]
    return Weights(v=tuple(weights.v[k] for k in pick), done=weights.done, on_time=weights.on_time)


def read_weight_file(path: Path) -> Weights:
    """Read weights that `fluidnpu tune` wrote. Raises SchedulerError naming the file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return read_weights(raw, str(path))
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, SchedulerError):
            raise
        raise SchedulerError(f"'{path}' must be weights that fluidnpu tune wrote: {error}") from None
