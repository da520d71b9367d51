"""Energy under accuracy constraints: Figs. 8 to 10, and how often a constraint holds on unseen samples.

Energy is modelled: power that work adds, times the time of a lone sample up to its exit. It is given over
that of the whole network, so that the watts cancel; lifetimes over idle power are a curve, never hours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidnpu.scheduler.exits import (
    NEVER,
    Bound,
    Criterion,
    CriterionError,
    Recorded,
    choose,
    first_exit_within,
    halves,
    oracle_exits,
    parse_criterion,
)
from fluidnpu.scheduler.simulation import interval

from ..writing import mean_low_high, share_interval, significant
from .settings import ACTIVE_OVER_IDLE_W, IDLE_W, LEVELS, RATES, profile, samples

RELATIVE = 0.99  # of the last exit's accuracy
POLICIES = ("full", "per-workload", "Pareto", "Pareto guarded", "oracle")
SPLIT_POLICIES = ("per-workload", "Pareto", "Pareto guarded")
SPLITS = 40
TABLE_1 = (
    "response_time > 20ms",
    "confidence > 0.7",
    "accuracy > 0.7",
    "energy_used > 100mJ",
    "flops_used > 1GMAC",
    "exit_number == 2",
    "false",
    "response_time > 20ms or confidence > 0.7",
)


def compare_constrained(network: str, relative: float = RELATIVE) -> dict[str, Any]:
    """Return energy over the whole network's and accuracy on unseen samples, for each policy."""
    select, test, profiled = samples(network, "select"), samples(network, "test"), profile(network)
    target, unseen = relative * select.accuracy[-1], relative * test.accuracy[-1]
    body: dict[str, Any] = {"relative": relative, "last_pct": significant(100 * test.accuracy[-1])}
    for policy in POLICIES:
        advice = ""
        if policy == "oracle":
            exits = oracle_exits(test)
        else:
            if policy == "per-workload":
                criterion = first_exit_within(profiled.accuracy or (), target)
            elif policy == "full":
                criterion = NEVER
            else:
                choice = choose(select, profiled, relative=relative, guarded=policy == "Pareto guarded")
                criterion, advice = choice.criterion, "" if choice.feasible else "infeasible"
            exits = exits_of(criterion, test)
        accuracy = test.accuracy_pct_at(exits, np.arange(test.samples)) / 100
        body[policy] = {
            "energy": significant(mean_energy(exits) / mean_energy(np.full(1, profiled.exits - 1))),
            "accuracy_pct": significant(100 * accuracy),
            "met": bool(accuracy >= unseen),
            "said": advice,
        }
    return body


def exits_of(criterion: Criterion, recorded: Recorded) -> np.ndarray[Any, Any]:
    """Return the exit (samples,) of each sample under a criterion that does not depend on time."""
    columns = {"confidence": np.asarray(recorded.confidences)}
    return Bound(criterion, profile("img1")).exits_alone(columns)


def mean_energy(exits: np.ndarray[Any, Any]) -> float:
    """Return the mean modelled energy of samples that leave at these exits (samples,), in nJ."""
    energy = profile("img1").energy_nj
    assert energy is not None
    return float(np.asarray(energy)[exits].mean())


def battery_level(network: str, level: str) -> dict[str, Any]:
    """Return what the guarded choice does when the battery's level asks for this much accuracy."""
    solved = compare_constrained(network, LEVELS[level])
    return {key: solved["Pareto guarded"][key] for key in ("energy", "accuracy_pct", "met")}


def lifetimes() -> dict[str, Any]:
    """Return for each rate and idle power how much longer a battery lasts than under the whole network."""
    free = compare_constrained("img1")
    body: dict[str, Any] = {}
    for rate in RATES[:2]:
        busy = rate * mean_energy(np.full(1, 3)) / 1e9  # watts of work under the whole network
        body[f"{rate:g}/s"] = {
            policy: [significant((idle + busy) / (idle + busy * free[policy]["energy"])) for idle in IDLE_W]
            for policy in ("per-workload", "Pareto", "Pareto guarded")
        }
    return {"idle_w": list(IDLE_W), "active_over_idle_w": ACTIVE_OVER_IDLE_W, "ratios": body}


def guarantee(network: str) -> dict[str, Any]:
    """Return how often a policy misses its constraint on the other half of the samples, and its energy.

    Energy is over the whole network's, with its interval over splits.
    """
    test, profiled = samples(network, "test"), profile(network)
    whole = mean_energy(np.full(1, profiled.exits - 1))
    missed, energies = dict.fromkeys(SPLIT_POLICIES, 0), {policy: list[float]() for policy in SPLIT_POLICIES}
    for split in range(SPLITS):
        selects, judges = halves(test, 1000 + split)
        for policy in SPLIT_POLICIES:
            if policy == "per-workload":
                criterion = first_exit_within(selects.accuracy, RELATIVE * selects.accuracy[-1])
            else:
                guarded = policy == "Pareto guarded"
                criterion = choose(selects, profiled, relative=RELATIVE, guarded=guarded, seed=split).criterion
            exits = exits_of(criterion, judges)
            accuracy = judges.accuracy_pct_at(exits, np.arange(judges.samples)) / 100
            missed[policy] += bool(accuracy < RELATIVE * judges.accuracy[-1])
            energies[policy].append(mean_energy(exits) / whole)
    rows = {
        policy: {"missed": missed[policy], "energy": mean_low_high(interval(energies[policy]))}
        for policy in SPLIT_POLICIES
    }
    return {"splits": SPLITS, "relative": RELATIVE, **rows}


def by_exit(network: str) -> dict[str, Any]:
    """Return the accuracy of every exit on unseen samples, with its interval (Fig. 3)."""
    test = samples(network, "test")
    rows = []
    for share in test.accuracy:
        low, high = share_interval(round(share * test.samples), test.samples)
        rows.append([significant(100 * x) for x in (share, low, high)])
    return {"samples": test.samples, "accuracy_pct": rows}


def criteria() -> dict[str, bool]:
    """Return for each kind of criterion of Table 1 if our language has it."""
    read = {}
    for text in TABLE_1:
        try:
            parse_criterion(text)
        except CriterionError:
            read[text] = False
        else:
            read[text] = True
    return read
