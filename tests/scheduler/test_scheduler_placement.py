"""The planner: exact against enumeration, bounded, never below data parallel, right about time and links."""

import dataclasses
import importlib.util
from math import comb

import numpy as np
import pytest
from placement_worlds import best_mix_of_all, best_of_all, cheapest_of_all

from fluidnpu.scheduler.errors import FleetError, PlacementError
from fluidnpu.scheduler.placement import Fleet, Link, Plan, place
from fluidnpu.scheduler.placement.dynamic import best_pipeline, cheapest_pipeline
from fluidnpu.scheduler.placement.integer import best_mix
from fluidnpu.scheduler.placement.options import Option, Space, shrunk
from fluidnpu.scheduler.placement.planner import NARROW
from fluidnpu.scheduler.placement.testing import random_fleet, toy_fleet

needs_scipy = pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="needs scipy")
MS = 10**6


def drawn(seed: int) -> tuple[Space, np.random.Generator]:
    """A small instance: 2 to 4 blocks, 1 to 3 types, tight or loose objectives, both ways with transfers."""
    rng = np.random.default_rng(seed)
    blocks, types = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    counts = [int(n) for n in rng.integers(1, 3 if types > 1 else 5, types)]
    fleet = random_fleet(rng, blocks=blocks, counts=counts, b_max=int(rng.integers(1, 4)))
    slo = int(rng.choice([15, 40, 120, 1000])) * MS
    space = Space.of(fleet, "net", slo, overlap=bool(rng.integers(2)), serial=bool(rng.integers(2)))
    return space, rng


def agrees_with_enumeration(seed: int) -> None:
    space, rng = drawn(seed)
    try:
        pieces = space.pieces
    except PlacementError:
        return
    assert pieces
    budget = None if rng.integers(2) else int(rng.integers(1, 40)) * 100_000
    found, best = best_pipeline(space, budget_micros=budget), best_of_all(space, budget)
    if best is None:
        assert found is None, seed
    else:
        assert found is not None, seed
        assert found.used == best.used, seed
        assert found.rate == pytest.approx(best.rate, rel=1e-12), seed
        assert found.latency_ns == pytest.approx(best.latency_ns, rel=1e-12), seed
    rate = float(rng.uniform(0.2, 1.1)) * (best.rate if best is not None else 100.0)
    cheap, least = cheapest_pipeline(space, rate), cheapest_of_all(space, rate)
    cost = None if cheap is None else sum(space.kinds[s.kind].cost_micros * s.devices for s in cheap.stages)
    assert cost == least, seed


def test_the_programme_finds_what_enumeration_finds() -> None:
    for seed in range(40):
        agrees_with_enumeration(seed)


@pytest.mark.long
def test_the_programme_finds_what_enumeration_finds_a_thousand_times() -> None:
    for seed in range(40, 1040):
        agrees_with_enumeration(seed)


def mix_is_between(seed: int) -> None:
    """A mix is a plan, so it is not above the best of all; its bound is not below it."""
    rng = np.random.default_rng(seed)
    counts = [int(n) for n in rng.integers(1, 3, 2)]
    fleet = random_fleet(rng, blocks=3, counts=counts, b_max=2)
    space = Space.of(fleet, "net", 10**12, serial=bool(rng.integers(2)))
    found, best = best_mix(space, gap=1e-9), best_mix_of_all(space)
    assert found is not None
    assert found.rate == pytest.approx(best, rel=1e-6), seed
    assert found.bound >= best * (1 - 1e-6), seed
    line = best_of_all(space)
    assert line is not None
    assert found.rate >= line.rate * (1 - 1e-9), seed


@needs_scipy
def test_a_mix_is_the_best_of_all_where_latency_does_not_matter() -> None:
    for seed in range(12):
        mix_is_between(seed)


@needs_scipy
@pytest.mark.long
def test_a_mix_is_the_best_of_all_a_thousand_times() -> None:
    for seed in range(12, 1012):
        mix_is_between(seed)


@needs_scipy
def test_a_bound_holds_and_a_path_keeps_the_objective_where_latency_matters() -> None:
    for seed in range(30):
        space, _ = drawn(seed)
        try:
            found = best_mix(space)
        except PlacementError:
            continue
        best = best_of_all(space)
        if best is not None:
            assert found is None or found.bound >= best.rate * (1 - 1e-6), seed
        if found is not None:
            assert found.bound >= found.rate * (1 - 1e-9)
            for way in found.routes:
                assert sum(found.placed[p][0].latency_ns(found.placed[p][1]) for p in way) <= space.slo_ns * (1 + 1e-9)
            for piece, (option, count) in found.placed.items():
                carried = sum(rate for way, rate in found.routes.items() if piece in way)
                assert carried <= option.rate * count * (1 + 1e-6)


def test_time_of_a_split_is_an_expectation_over_who_stays() -> None:
    fleet = toy_fleet(1)
    space = Space.of(fleet, "toy", 10**10, serial=False)
    kind = space.kinds[0]
    option = next(o for o in space.pieces[0, 0, 4] if o.chain[0].batch == 3 and o.chain[0].ramps == "on")
    ns = [block.ns for block in kind.profile.blocks]
    expected = float(ns[0][2] + ns[1][2] + 100_000)
    for stay in range(1, 4):
        share = comb(3, stay) * 0.6**stay * 0.4 ** (3 - stay)
        expected += share * (ns[2][stay - 1] + ns[3][stay - 1] + 100_000)
    assert 1e9 / option.rate == pytest.approx(expected / 3)
    moves = 3 * kind.link.transfer_ns(10_000) + 3 * kind.link.transfer_ns(100) + 2 * kind.link.latency_ns
    assert option.base_ns == pytest.approx(expected + moves)
    assert option.fill_ns == pytest.approx(expected * 2 / 3)
    assert shrunk(0.6, 4)[3].sum() == pytest.approx(1)


def test_a_pipeline_carries_what_its_narrowest_stage_or_link_carries() -> None:
    fleet = toy_fleet(2, bytes_per_s=10**6)
    space = Space.of(fleet, "toy", 10**10)
    last = [o for (_, first, end), some in space.pieces.items() if (first, end) == (2, 4) for o in some]
    assert {o.rate for o in last} == {1e6 / (0.6 * 100_000)}, "60 kB a sample of the network enter over 1 MB/s"
    waits = Space.of(fleet, "toy", 10**10, overlap=False)
    slow = [o for (_, first, end), some in waits.pieces.items() if (first, end) == (2, 4) for o in some]
    assert max(o.rate for o in slow) < min(o.rate for o in last)


def test_the_head_is_a_wall() -> None:
    fleet = toy_fleet(8)
    links = {**fleet.links, "thin": Link(name="thin", bytes_per_s=2_000_000)}
    walled = dataclasses.replace(fleet, links=links, head="thin")
    plan = place(walled, slo_ns=200 * MS, headroom=0.0).plan
    assert plan.rate_per_s == pytest.approx(200)
    assert any("the head's link is the wall: it carries 200 samples a second" in note for note in plan.notes)
    assert place(fleet, slo_ns=200 * MS, headroom=0.0).plan.rate_per_s > 900


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_never_below_data_parallel_and_says_what_splitting_brings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = random_fleet(rng, blocks=4, counts=[2, 3])
    found = place(fleet, slo_ns=500 * MS)
    assert found.plan.rate_per_s >= max(form.rate_per_s for form in found.forms) * (1 - NARROW)
    assert found.plan.bound_per_s >= found.plan.rate_per_s
    assert found.form("serial").rate_per_s >= found.form("data parallel").rate_per_s >= found.form("stock").rate_per_s
    found.plan.check(fleet)
    assert Plan.loads(found.plan.dumps()) == found.plan
    for index, pool in enumerate(found.plan.pools):
        entering = sum(route.rate_per_s for route in found.plan.routes if index in route.pools)
        assert pool.jobs[0].rate_per_s <= entering * (1 + 1e-9)
        assert sum(job.weight for job in pool.jobs) == pytest.approx(1)
    carried = sum(route.rate_per_s for route in found.plan.routes)
    assert carried == pytest.approx(found.plan.rate_per_s)


def test_least_cost_carries_the_rate_for_no_more_than_the_bound_allows() -> None:
    rng = np.random.default_rng(3)
    fleet = random_fleet(rng, blocks=4, counts=[4, 4])
    most = place(fleet, slo_ns=500 * MS).plan
    cheap = place(fleet, slo_ns=500 * MS, rate_per_s=most.rate_per_s / 3).plan
    assert cheap.objective == "cost"
    assert cheap.rate_per_s >= most.rate_per_s / 3 * (1 - 1e-6)
    assert 0 < cheap.bound_micros <= cheap.cost_micros < fleet.cost_micros
    with pytest.raises(PlacementError, match=r"must carry .*/s of 'net' within 450 ms .* and none does"):
        place(fleet, slo_ns=500 * MS, rate_per_s=most.rate_per_s * 3)
    budget = place(fleet, slo_ns=500 * MS, budget_micros=cheap.cost_micros).plan
    assert budget.cost_micros <= cheap.cost_micros
    assert budget.rate_per_s >= cheap.rate_per_s * (1 - 1e-6)


def test_a_question_that_cannot_be_is_refused() -> None:
    fleet = toy_fleet(1)
    with pytest.raises(FleetError, match="network must be one of toy, not 'cat'"):
        place(fleet, "cat", slo_ns=MS)
    with pytest.raises(FleetError, match="slack must be a share"):
        place(fleet, slo_ns=MS, slack=1.0)
    with pytest.raises(FleetError, match=r"forms must be among .* not magic"):
        place(fleet, slo_ns=MS, forms=["magic"])
    with pytest.raises(PlacementError, match="must fit a device and the objective"):
        place(fleet, slo_ns=MS)
    kind = dataclasses.replace(fleet.types["board"], memory_bytes=1000)
    small = dataclasses.replace(fleet, types={"board": kind})
    with pytest.raises(PlacementError, match="on 'board' it needs 4200000 bytes and there are 1000"):
        place(small, slo_ns=10**10)
    half = dataclasses.replace(kind, memory_bytes=3_000_000)
    parts = place(dataclasses.replace(toy_fleet(2), types={"board": half}), slo_ns=10**10)
    for form in ("stock", "data parallel", "serial"):
        assert parts.form(form).why == "on 'board' it needs 4200000 bytes and there are 3000000", "it is not the time"
    late = place(toy_fleet(2), slo_ns=10**10, ramps=("on",))
    assert late.form("stock").why == "the plan must run every exit"
    unsaid = dataclasses.replace(fleet, networks={"toy": dataclasses.replace(fleet.networks["toy"], exit_rates=None)})
    with pytest.raises(FleetError, match="network 'toy' has 2 exits, so exit_rates must be given"):
        place(unsaid, slo_ns=10**10)


def test_a_pool_of_more_devices_fills_its_batch_sooner() -> None:
    option = Option(rate=100.0, base_ns=50.0, fill_ns=30.0, chain=())
    assert (option.latency_ns(1), option.latency_ns(3)) == (80.0, 60.0)


def reach_of(fleet: Fleet) -> tuple[float, ...]:
    return Space.of(fleet, "toy", 10**9).reach


def test_reach_is_the_share_that_passed_every_exit_before() -> None:
    assert reach_of(toy_fleet(1)) == (1.0, 1.0, 0.6, 0.6, 0.0)
