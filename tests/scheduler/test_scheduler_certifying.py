"""Thresholds under a certificate in the simulator: the promise at every moment, streams made to break it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptation_worlds import BATCH, EARLY, Load, joined, load, times

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Schedule, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, Promise, RuledExits
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, InForce, PartTimes
from fluidnpu.scheduler.tuning import Certifier, Utility

PROMISE = Promise(eta=0.9, share=0.5)


def benchmark() -> Any:
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return __import__("certificate")
    finally:
        sys.path.remove(folder)


def served(
    stream: Load, promise: Promise = PROMISE, *, tenants: Sequence[str] = ("",), own: str = "", seed: int = 0
) -> tuple[Schedule, Any]:
    """Serve a load in order with the benchmark's auditor; the tenant `own` has a criterion of its own."""
    parts, names = times(), [tenants[i % len(tenants)] for i in range(len(stream.classes))]
    requests = [Request(i, i * 2000, i * 2000 + 10**7, tenant=names[i]) for i in range(len(stream.classes))]
    criteria = Criteria(ExitProfile(latency=parts.whole), "false")
    active = ActiveExits(parts, ExitSet((1.0,) * EARLY), (0.0,) * EARLY + (1.0,), criteria.obey)
    if own:
        criteria.set("exit_number == 1", tenant=own)
    told: dict[str, Any] = {
        "classes": dict(enumerate(stream.classes.tolist())),
        "confidences": dict(enumerate(stream.confidence.tolist())),
    }
    watch = benchmark().Audited(active, promise, batch=BATCH, seed=seed, criteria=criteria, **told)
    world = World(
        latency=parts.whole,
        exits=RuledExits(rule=criteria, confidences=told["confidences"]),
        exit_rates=active.now.rates,
        active=active,
        watch=watch,
    )
    return simulate(requests, make_policy("greedy"), world), watch


def kept(stream: Load, schedule: Schedule) -> float:
    rows, exits = np.arange(len(stream.classes)), np.array(schedule.exit)
    return float((stream.classes[rows, exits] == stream.classes[rows, -1]).mean())


def sure(count: int, *, right: bool) -> Load:
    """Samples that every exit is sure of, and where the early ones are right, or never."""
    classes = np.zeros((count, EARLY + 1), np.int64)
    classes[:, :EARLY] = 0 if right else 1
    return Load(np.full((count, EARLY + 1), 0.9995), classes)


@pytest.mark.parametrize("stream", ["none", "slow", "sudden", "harder", "easier"])
def test_bound_and_promise_hold_at_every_moment_of_drawn_runs(stream: str) -> None:
    made = benchmark()
    for seed in (1000, 1001):
        run = made.served("certificate", stream, seed, requests=1200)
        assert run.broken == ()
        assert run.kept >= run.certified >= made.PROMISE.eta


def test_the_auditor_would_see_a_certificate_that_lies() -> None:
    """The last exit is not what it seems to the certificate: shadows find every answer right."""
    stream = sure(1500, right=False)
    honest, watch = served(stream)
    assert watch.broken == set()
    assert kept(stream, honest) >= PROMISE.eta
    lying = Load(stream.confidence, np.zeros_like(stream.classes))
    schedule, watch = served(lying)
    assert kept(lying, schedule) == 1.0
    assert kept(stream, schedule) < 0.5
    watch._classes = dict(enumerate(stream.classes.tolist()))  # the truth, which it was not told
    watch.truth = {"whole": 1000, "stretch": 1000}
    watch.look()
    assert watch.broken == {"bound, whole", "bound, stretch", "promise, whole", "promise, stretch"}


def test_thresholds_fall_and_rise_and_more_leave_when_images_get_easier() -> None:
    stream = joined(load(3000, 0.6, 1), load(3000, 0.1, 2), load(3000, 0.9, 3))
    schedule, watch = served(stream, Promise(eta=0.95, share=0.5))
    kinds = {event.kind for event in watch.events}
    assert {"falls", "rises"} <= kinds
    hard, easy, harder = (
        float(np.mean(np.array(schedule.exit)[part] < EARLY)) for part in np.split(np.arange(9000), 3)
    )
    assert easy > hard + 0.2
    assert harder < easy - 0.2
    assert watch.broken == set()
    assert sum(watch.active.latest.rates) == pytest.approx(1.0)


def test_an_adversary_who_waits_until_all_may_leave_breaks_nothing() -> None:
    """Images that are right until thresholds are low, then sure and wrong: the worst order there is."""
    stream = joined(sure(2500, right=True), sure(2500, right=False), sure(2000, right=True))
    schedule, watch = served(stream, Promise(eta=0.9, share=0.2))
    assert watch.broken == set()
    assert kept(stream, schedule) >= 0.9
    early = np.array(schedule.exit) < EARLY
    assert early[2000:2500].mean() > 0.9
    assert early[3000:5000].mean() < 0.1
    assert watch.certificate.resets >= 1  # and so said
    assert any(event.kind == "reset" and not event.routine for event in watch.events)


@pytest.mark.parametrize("promise", [Promise(eta=0.9, share=1.0), Promise(eta=0.5, share=0.5), Promise(eta=0.99)])
def test_any_promise_is_kept(promise: Promise) -> None:
    stream = load(2500, 0.5, 4)
    schedule, watch = served(stream, promise)
    assert watch.broken == set()
    assert kept(stream, schedule) >= watch.certificate.whole.kept >= promise.eta
    assert (np.array(schedule.exit) < EARLY).any() == (promise.eta < 0.99)  # which takes 36,000 answers first


def test_tenants_with_a_criterion_of_their_own_are_bounded_apart() -> None:
    stream = joined(sure(1500, right=False), sure(1500, right=True))
    _, watch = served(stream, tenants=("doors", "gates"), own="gates")
    certificate = watch.certificate
    assert certificate.whole.answers == certificate.tenants["doors"].answers == 1500
    assert certificate.tenants["gates"].answers == 1500
    assert certificate.tenants["gates"].kept < 0.6  # half of its answers differ, and nothing could be done
    assert certificate.tenants["doors"].kept >= certificate.promise.eta


def test_one_exit_and_an_exit_that_nobody_reaches() -> None:
    alone = ActiveExits(PartTimes(whole=LatencyTable(ns=((10,),)), bare=LatencyTable(ns=((10,),))), ExitSet(()), (1.0,))
    with pytest.raises(SchedulerError, match="must have an early exit to be certified"):
        Certifier(alone, PROMISE, batch=1)
    stream = sure(1500, right=True)
    schedule, watch = served(stream)
    assert set(np.unique(schedule.exit)) == {0, EARLY}  # whoever leaves does so at once
    assert [tally.answers > 0 for tally in watch.certificate.exits] == [True, False, False]
    assert watch.certificate.exits[2].kept == 1.0


def test_a_sample_that_never_arrives_counts_as_lost_and_holds_nothing_up() -> None:
    parts = times()
    active = ActiveExits(parts, ExitSet((1.0,) * EARLY), (0.0,) * EARLY + (1.0,))
    watch = Certifier(active, Promise(eta=0.5, share=1.0), batch=BATCH)
    request = Request(0, 0, 100)
    assert watch.ran(0, active.now, 0, [request], ["left"], [3], [0.9]) == {0}
    watch.gone(0)
    watch.gone(0)
    watch.shadow_ended(5, 0, 3)
    whole = watch.certificate.whole
    assert (whole.differing, whole.lost, whole.unsettled) == (1, 1, 0)
    watch.ran(9, active.now, 0, [Request(1, 0, 100)], [""], [3], [0.9])
    watch.gone(1)  # answered at its deadline, or lost
    assert watch.ended_otherwise == 1
    assert whole.answers == 1


def test_apparates_rules_drop_what_costs_and_come_back() -> None:
    stream, parts = load(3000, 0.3, 6), times(head=0.9)
    requests = [Request(i, i * 2000, i * 2000 + 10**7) for i in range(3000)]
    criteria = Criteria(ExitProfile(latency=parts.whole), "false")
    sets: list[ExitSet] = []

    class Noted(ActiveExits):
        def change(self, exits: ExitSet, why: str, rates: Sequence[float] | None = None) -> InForce:
            sets.append(exits)
            return super().change(exits, why, rates)

    active = Noted(parts, ExitSet((1.0,) * EARLY), (0.0,) * EARLY + (1.0,), criteria.obey)
    confidences = dict(enumerate(stream.confidence.tolist()))
    watch = Utility(active, 0.97, dict(enumerate(stream.classes.tolist())), confidences)
    exits = RuledExits(rule=criteria, confidences=confidences)
    world = World(latency=parts.whole, exits=exits, exit_rates=active.now.rates, active=active, watch=watch)
    schedule = simulate(requests, make_policy("greedy"), world)
    assert watch.changes == len(sets) > 5
    assert any(None in each.thresholds for each in sets)
    assert 0.95 < kept(stream, schedule) < 1
    assert watch.shadows == int((np.array(schedule.exit) < EARLY).sum())
