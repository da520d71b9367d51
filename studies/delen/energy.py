"""Energy under accuracy constraints: Figs. 8 to 10, and how often a constraint holds on unseen samples.

Energy is modelled: power that work adds, times the time of a lone sample up to its exit. It is given over
that of the whole network, so that the watts cancel; lifetimes over idle power are a curve, never hours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidnpu.scheduler.exits import NEVER, Bound, Criterion, Recorded, choose
from fluidnpu.scheduler.exits.fronts import first_exit_within, halves, oracle_exits

from ..writing import significant
from .settings import ACTIVE_OVER_IDLE_W, IDLE_W, LEVELS, RATES, profile, samples

RELATIVE = 0.99  # of the last exit's accuracy
POLICIES = ("full", "per-workload", "Pareto", "Pareto guarded", "oracle")
SPLITS = 40


def constrained(network: str, relative: float = RELATIVE) -> dict[str, Any]:
    """Return energy over the whole network's and accuracy on unseen samples, for each policy."""
    select, test, profiled = samples(network, "select"), samples(network, "test"), profile(network)
    target, unseen = relative * select.accuracy[-1], relative * test.accuracy[-1]
    body: dict[str, Any] = {"relative": relative, "last_pct": significant(100 * test.accuracy[-1])}
    for policy in POLICIES:
        said = ""
        if policy == "oracle":
            exits = oracle_exits(test)
        else:
            if policy == "per-workload":
                criterion = first_exit_within(profiled.accuracy or (), target)
            elif policy == "full":
                criterion = NEVER
            else:
                choice = choose(select, profiled, relative=relative, guarded=policy == "Pareto guarded")
                criterion, said = choice.criterion, "" if choice.feasible else "infeasible"
            exits = exits_of(criterion, test)
        accuracy = test.accuracy_pct_at(exits, np.arange(test.samples)) / 100
        body[policy] = {
            "energy": significant(mean_energy(exits) / mean_energy(np.full(1, profiled.exits - 1))),
            "accuracy_pct": significant(100 * accuracy),
            "met": bool(accuracy >= unseen),
            "said": said,
        }
    return body


def exits_of(criterion: Criterion, recorded: Recorded) -> np.ndarray[Any, Any]:
    """Return the exit of each sample under a criterion that does not depend on time."""
    columns = {"confidence": np.asarray(recorded.confidences)}
    return Bound(criterion, profile("img1")).exits_alone(columns)


def mean_energy(exits: np.ndarray[Any, Any]) -> float:
    """Return the mean modelled energy of samples that leave at these exits, in nJ."""
    energy = profile("img1").energy_nj
    assert energy is not None
    return float(np.asarray(energy)[exits].mean())


def battery_level(network: str, level: str) -> dict[str, Any]:
    """Return what the guarded choice does when the battery's level asks for this much accuracy."""
    found = constrained(network, LEVELS[level])
    return {key: found["Pareto guarded"][key] for key in ("energy", "accuracy_pct", "met")}


def lifetimes() -> dict[str, Any]:
    """Return for each rate and idle power how much longer a battery lasts than under the whole network."""
    found = constrained("img1")
    body: dict[str, Any] = {}
    for rate in RATES[:2]:
        busy = rate * mean_energy(np.full(1, 3)) / 1e9  # watts of work under the whole network
        body[f"{rate:g}/s"] = {
            policy: [significant((idle + busy) / (idle + busy * found[policy]["energy"])) for idle in IDLE_W]
            for policy in ("per-workload", "Pareto", "Pareto guarded")
        }
    return {"idle_w": list(IDLE_W), "active_over_idle_w": ACTIVE_OVER_IDLE_W, "ratios": body}


def guarantee(network: str) -> dict[str, Any]:
    """Return how often a choice misses its constraint on the other half of the samples."""
    test, profiled = samples(network, "test"), profile(network)
    body: dict[str, Any] = {"splits": SPLITS, "relative": RELATIVE}
    for name, guarded in (("naive", False), ("guarded", True)):
        missed, energies = 0, []
        for split in range(SPLITS):
            selects, judges = halves(test, 1000 + split)
            choice = choose(selects, profiled, relative=RELATIVE, guarded=guarded, seed=split)
            exits = exits_of(choice.criterion, judges)
            accuracy = judges.accuracy_pct_at(exits, np.arange(judges.samples)) / 100
            missed += bool(accuracy < RELATIVE * judges.accuracy[-1])
            energies.append(mean_energy(exits) / mean_energy(np.full(1, 3)))
        body[name] = {"missed": missed, "energy": significant(float(np.mean(energies)))}
    return body
