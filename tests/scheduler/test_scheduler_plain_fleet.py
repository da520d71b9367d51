"""The plain loop over many boards, and the compiled one held to it event for event over drawn fleets."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_fleets import MS, DrawnFleet, drawn_fleet

from fluidnpu.dse import has_numba
from fluidnpu.scheduler import Action, Policy, Request, Run, View, Wait, World, make_policy, simulate
from fluidnpu.scheduler.errors import FleetError, PolicyError
from fluidnpu.scheduler.placement import Fault, Fleet, Job, Plan, Pool, Route, serve_fleet_stream, serve_plan, twin
from fluidnpu.scheduler.placement.testing import toy_fleet
from fluidnpu.scheduler.placement.twin import Served
from fluidnpu.scheduler.simulation.fleet import FleetPool, FleetSimulator, FrontPlan

COLUMNS = ("end_ns", "exit", "sent", "runs", "passed")
COUNTS = ("events", "decisions", "again", "answered", "free_ns")
needs_numba = pytest.mark.skipif(not has_numba(), reason="there is one loop only")


def served(world: DrawnFleet, seed: int, policy: str, *, compiled: bool) -> Served:
    """Serve a drawn world by a policy; "turns" and "shed" are the plan's own, the second with refusals."""
    own = policy in ("turns", "shed")
    return serve_fleet_stream(
        world.fleet,
        world.plan,
        world.arrival_ns,
        world.exits,
        seed=seed,
        faults=world.faults,
        policy=None if own else make_policy(policy),
        choices=world.choices,
        overhead_ns=world.overhead_ns,
        shed=policy == "shed",
        free_ns=world.free_ns,
        compiled=compiled,
    )


def assert_same(left: Served, right: Served) -> None:
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(left, column), getattr(right, column), err_msg=column)
    for count in COUNTS:
        assert getattr(left, count) == getattr(right, count), count


@needs_numba
@pytest.mark.cpu(15, "the loop of a fleet is compiled once for all")
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(k, marks=pytest.mark.long) for k in range(6, 100))])
@pytest.mark.parametrize(
    "policy",
    [
        "turns",
        "shed",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("greedy", "serial", "adaptive-l", "greedy:anytime=50%")),
    ],
)
def test_the_compiled_loop_serves_as_the_plain_one(seed: int, policy: str) -> None:
    world = drawn_fleet(seed)
    assert_same(*(served(world, seed, policy, compiled=compiled) for compiled in (True, False)))


def test_the_drawn_worlds_hold_what_can_go_wrong() -> None:
    """Otherwise the comparison above would say little."""
    worlds = [drawn_fleet(seed) for seed in range(6)]
    assert any(world.faults for world in worlds)
    assert any(len(route.pools) > 1 for world in worlds for route in world.plan.routes)
    assert any(len(pool.devices) > 1 for world in worlds for pool in world.plan.pools)
    assert any(len(world.plan.routes) > 1 for world in worlds)
    assert any(len(set(world.arrival_ns.tolist())) < len(world.arrival_ns) for world in worlds)
    done = [served(world, seed, "turns", compiled=False) for seed, world in enumerate(worlds)]
    assert any(each.again for each in done)
    assert all(each.answered == len(each.end_ns) for each in done)


@needs_numba
def test_a_loop_without_room_is_begun_anew_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = drawn_fleet(1)
    expected = served(world, 1, "turns", compiled=True)
    monkeypatch.setattr(twin, "_QUEUE", 1)
    monkeypatch.setattr(twin, "_HEAP", 1)
    assert_same(expected, served(world, 1, "turns", compiled=True))


def alone(b_max: int = 4) -> tuple[Fleet, Plan]:
    """One board with the whole network."""
    fleet = toy_fleet(1)
    pool = Pool(type="board", devices=("board-0",), jobs=(Job(network="toy", first=0, last=3, batch=b_max),))
    route = Route(network="toy", pools=(0,), rate_per_s=100.0)
    return fleet, Plan(
        fleet=fleet.digest, objective="goodput", slo_ns=60 * MS, pools=(pool,), routes=(route,), rate_per_s=100.0
    )


class Gathering:
    """Of one's own, without a compiled twin: every third decision waits a millisecond for more."""

    name = "gathering"

    def __init__(self) -> None:
        self.asked = 0

    def reset(self) -> None:
        self.asked = 0

    def decide(self, view: View) -> Action:
        self.asked += 1
        if self.asked % 3 == 0 and not view.closed:
            return Wait(view.now_ns + MS)
        stage = max(s for s, line in enumerate(view.waiting) if line)
        return Run(stage, tuple(view.waiting[stage][: view.b_max if stage else min(view.b_max, 2)]))


@pytest.mark.parametrize("policy", [Gathering(), make_policy("lazy"), make_policy("staged")])
def test_one_board_with_any_policy_is_the_simulator(policy: Policy) -> None:
    fleet, plan = alone()
    pool = FleetPool(
        latency=fleet.types["board"].profiles["toy"].latency,
        slots=8,
        boards=(0,),
        local=(0, 1),
        each_ns=1,
        rates=(0.4, 0.6),
    )
    rng = np.random.default_rng(2)
    arrival = np.cumsum(rng.integers(0, 12 * MS, 200)).tolist()
    exits = rng.integers(0, 2, 200).tolist()
    requests = [Request(k, at, at + plan.slo_ns) for k, at in enumerate(arrival)]
    expected = simulate(requests, policy, World(latency=pool.latency, exits=exits, exit_rates=(0.4, 0.6), slots=8))
    front = FrontPlan(pools=(pool,), routes=((0,),), until=(2**31 - 1,))
    deadline = [at + plan.slo_ns for at in arrival]
    done = FleetSimulator(front, [policy], arrival_ns=arrival, deadline_ns=deadline, exits=exits).serve()
    assert [r.answered_ns for r in done.requests] == list(expected.end_ns)
    assert [r.left for r in done.requests] == list(expected.exit)
    assert sum(done.runs.values()) == len(expected.runs)


def test_boards_share_no_memory_of_a_policy() -> None:
    """Every board has a copy, and the policy that was given is not asked."""
    fleet = toy_fleet(2)
    pool = Pool(type="board", devices=("board-0", "board-1"), jobs=(Job(network="toy", first=0, last=3, batch=4),))
    plan = Plan(
        fleet=fleet.digest,
        objective="goodput",
        slo_ns=60 * MS,
        pools=(pool,),
        routes=(Route(network="toy", pools=(0,), rate_per_s=100.0),),
        rate_per_s=100.0,
    )
    policy = Gathering()
    done = serve_plan(fleet, plan, rate_per_s=120, count=400, policy=policy)
    assert done.answered == 400
    assert policy.asked == 0


class Twice(Gathering):
    def decide(self, view: View) -> Action:
        return Run(0, tuple(view.waiting[0][:1]) * 2)


def test_a_policy_that_breaks_a_rule_is_refused_by_name_and_time() -> None:
    with pytest.raises(PolicyError, match=r"'gathering' at [0-9]+ ns names a request twice"):
        serve_plan(*alone(), rate_per_s=10, count=10, policy=Twice())


def pair(boards: int) -> tuple[Fleet, Plan]:
    """A chain of two pools."""
    fleet = toy_fleet(2 * boards)
    names = [device.name for device in fleet.devices]
    pools = tuple(
        Pool(type="board", devices=tuple(own), jobs=(Job(network="toy", first=first, last=first + 1, batch=4),))
        for own, first in ((names[:boards], 0), (names[boards:], 2))
    )
    route = Route(network="toy", pools=(0, 1), rate_per_s=100.0)
    return fleet, Plan(
        fleet=fleet.digest, objective="goodput", slo_ns=200 * MS, pools=pools, routes=(route,), rate_per_s=100.0
    )


@pytest.mark.parametrize("lost", [["board-0", "board-1"], ["board-2", "board-3"]])
def test_a_pool_that_never_comes_back_is_refused_and_not_waited_for(lost: list[str]) -> None:
    fleet, plan = pair(2)
    faults = [Fault(at_ns=5 * MS, device=device) for device in lost]
    with pytest.raises(FleetError, match=f"{lost[0]}, {lost[1]} never come back"):
        serve_plan(fleet, plan, rate_per_s=50, count=50, faults=faults)
    faults.append(Fault(at_ns=900 * MS, device=lost[1], back=True))
    assert serve_plan(fleet, plan, rate_per_s=50, count=50, faults=faults).answered == 50
