"""The twin of a fleet: one board is the simulator, nothing is lost, and the same seed gives the same bits."""

import dataclasses

import numpy as np
import pytest
from drawn_fleets import MS, DrawnFleet, drawn_fleet

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Action, Outcome, Policy, Request, Run, View, Wait, World, make_policy, simulate
from fluidnpu.scheduler.errors import FleetError, PolicyError
from fluidnpu.scheduler.placement import Fleet, Job, Plan, Pool, Route, goodput, place, serve_plan
from fluidnpu.scheduler.placement.testing import toy_fleet
from fluidnpu.scheduler.placement.twin import Fault, Served, serve_fleet_stream


class Gathering:
    """A policy with state: every third decision waits a millisecond for more."""

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


class Twice(Gathering):
    def decide(self, view: View) -> Action:
        return Run(0, tuple(view.waiting[0][:1]) * 2)


def alone() -> tuple[Fleet, Plan]:
    """One board on a link that takes no time, with the whole network in batches up to 4."""
    fleet = toy_fleet(1)
    facts = dataclasses.replace(fleet.networks["toy"], input_bytes=0, answer_bytes=0)
    links = {"lan": dataclasses.replace(fleet.links["lan"], latency_ns=0)}
    fleet = dataclasses.replace(fleet, links=links, networks={"toy": facts})
    pool = Pool(type="board", devices=("board-0",), jobs=(Job(network="toy", first=0, last=3, batch=4),))
    route = Route(network="toy", pools=(0,), rate_per_s=100.0)
    plan = Plan(
        fleet=fleet.digest, objective="goodput", slo_ns=60 * MS, pools=(pool,), routes=(route,), rate_per_s=100.0
    )
    return fleet, plan


NAMES = ("fluid", "adaptive-l", "lazy", "staged", "greedy:anytime=50%:shed=1")


@pytest.mark.parametrize("policy", [Gathering(), *map(make_policy, NAMES)], ids=["gathering", *NAMES])
@pytest.mark.parametrize("rate", [40.0, 160.0])
def test_one_board_alone_is_the_simulator(policy: Policy, rate: float) -> None:
    fleet, plan = alone()
    rng = np.random.default_rng(5)
    arrival = np.cumsum(rng.exponential(1e9 / rate, 600)).astype(np.int64)
    arrival[100:110] = arrival[100]
    exits = rng.integers(0, 2, 600)
    table: LatencyTable = fleet.types["board"].profiles["toy"].latency
    requests = [Request(k, int(t), int(t) + plan.slo_ns) for k, t in enumerate(arrival)]
    world = World(latency=table, exits=exits.tolist(), exit_rates=(0.4, 0.6), slots=8)
    expected = simulate(requests, policy, world)
    served = serve_fleet_stream(fleet, plan, arrival, exits, policy=policy)
    shed = np.array(expected.outcome) == Outcome.SHED
    assert served.end_ns[~shed].tolist() == np.array(expected.end_ns)[~shed].tolist()
    assert served.exit.tolist() == list(expected.exit)
    assert served.decisions >= len(expected.runs)
    assert int(served.runs.sum()) == len(expected.runs)


def test_what_a_host_adds_to_a_run_is_the_simulators() -> None:
    """Boards take longer than policies believe, by as much for every run."""
    fleet, plan = alone()
    rng = np.random.default_rng(6)
    arrival = np.cumsum(rng.exponential(1e9 / 120.0, 300)).astype(np.int64)
    exits = rng.integers(0, 2, 300)
    requests = [Request(k, int(t), int(t) + plan.slo_ns) for k, t in enumerate(arrival)]
    table: LatencyTable = fleet.types["board"].profiles["toy"].latency
    world = World(latency=table, exits=exits.tolist(), exit_rates=(0.4, 0.6), slots=8, overhead_ns=700_000)
    policy = make_policy("fluid")
    expected = simulate(requests, policy, world)
    served = serve_fleet_stream(fleet, plan, arrival, exits, policy=policy, overhead_ns=700_000)
    assert served.end_ns.tolist() == list(expected.end_ns)
    assert not np.array_equal(served.end_ns, serve_fleet_stream(fleet, plan, arrival, exits, policy=policy).end_ns)
    with pytest.raises(FleetError, match="at least 0, not -1"):
        serve_fleet_stream(fleet, plan, arrival, exits, overhead_ns=-1)


def test_everybody_is_answered_once_though_boards_are_lost_and_come_back() -> None:
    fleet = toy_fleet(20)
    plan = place(fleet, slo_ns=100 * MS).plan
    faults = [Fault(at_ns=(200 + 37 * k) * MS, device=f"board-{k}") for k in range(6)]
    faults += [Fault(at_ns=1500 * MS, device="board-2", back=True)]
    served = serve_plan(fleet, plan, rate_per_s=0.6 * plan.rate_per_s, count=6000, seed=3, faults=faults)
    assert served.answered == 6000
    assert (served.latency_ns > 0).all()
    assert served.again > 0
    assert (served.sent >= 1).all()
    assert int((served.sent - 1).sum()) == served.again
    calm = serve_plan(fleet, plan, rate_per_s=0.6 * plan.rate_per_s, count=6000, seed=3)
    assert calm.again == 0
    assert calm.in_time >= served.in_time
    assert np.array_equal(np.bincount(served.exit), np.bincount(calm.exit)), "a request sent again exits as before"


def test_the_same_seed_gives_the_same_bits() -> None:
    fleet = toy_fleet(6)
    plan = place(fleet, slo_ns=100 * MS).plan
    lost = [Fault(at_ns=300 * MS, device="board-1")]
    one, two, other = (
        serve_plan(fleet, plan, rate_per_s=0.5 * plan.rate_per_s, count=3000, seed=seed, faults=lost)
        for seed in (1, 1, 2)
    )
    for column in ("end_ns", "exit", "sent", "runs"):
        assert np.array_equal(getattr(one, column), getattr(two, column))
    assert one.events == two.events
    assert not np.array_equal(one.end_ns, other.end_ns)


def test_a_pipeline_hands_on_who_does_not_leave_and_takes_the_links_time() -> None:
    fleet = toy_fleet(2, bytes_per_s=10**8)
    front = Pool(type="board", devices=("board-0",), jobs=(Job(network="toy", first=0, last=1, batch=4),))
    rear = Pool(type="board", devices=("board-1",), jobs=(Job(network="toy", first=2, last=3, batch=4),))
    route = Route(network="toy", pools=(0, 1), rate_per_s=100.0)
    plan = Plan(
        fleet=fleet.digest,
        objective="goodput",
        slo_ns=200 * MS,
        pools=(front, rear),
        routes=(route,),
        rate_per_s=100.0,
    )
    arrival = np.arange(50, dtype=np.int64) * 100 * MS
    exits = np.arange(50) % 2
    served = serve_fleet_stream(fleet, plan, arrival, exits)
    blocks, link = fleet.types["board"].profiles["toy"].blocks, fleet.links["lan"]
    first = blocks[0].ns[0] + blocks[1].ns[0] + blocks[1].head_ns[0]
    second = blocks[2].ns[0] + blocks[3].ns[0] + blocks[3].head_ns[0]
    hop, enter, answer = link.latency_ns, link.transfer_ns(10_000), link.transfer_ns(100)
    cut = link.transfer_ns(100_000)
    early = enter + hop + first + answer + hop
    late = enter + hop + first + cut + cut + hop + second + answer + hop
    assert set(served.latency_ns[exits == 1].tolist()) == {late}
    assert set(served.latency_ns[exits == 0].tolist()) == {early}
    assert served.runs.sum(axis=1).tolist() == [50, 25]


def test_the_head_is_a_wall_for_the_twin_too() -> None:
    fleet = toy_fleet(8)
    links = {**fleet.links, "thin": dataclasses.replace(fleet.links["lan"], name="thin", bytes_per_s=2_000_000)}
    walled = dataclasses.replace(fleet, links=links, head="thin")
    plan = place(walled, slo_ns=500 * MS, headroom=0.0).plan
    served = serve_plan(walled, plan, rate_per_s=400, count=2000)
    assert served.rate_per_s == pytest.approx(200, rel=0.02)


def test_goodput_is_the_rate_at_which_nearly_all_are_in_time() -> None:
    fleet = toy_fleet(4)
    plan = place(fleet, slo_ns=100 * MS).plan
    found = goodput(fleet, plan, count=4000, steps=6)
    assert 0.8 * plan.rate_per_s < found < 1.15 * plan.rate_per_s / 0.9
    assert serve_plan(fleet, plan, rate_per_s=found, count=4000).in_time >= 0.99


def served(world: DrawnFleet, seed: int, *, shed: bool = False) -> Served:
    """Serve a drawn world by the plan's own policy."""
    return serve_fleet_stream(
        world.fleet,
        world.plan,
        world.arrival_ns,
        world.exits,
        seed=seed,
        faults=world.faults,
        choices=world.choices,
        overhead_ns=world.overhead_ns,
        shed=shed,
        free_ns=world.free_ns,
    )


def test_every_request_of_a_drawn_fleet_leaves_once_whatever_is_lost() -> None:
    worlds = [drawn_fleet(seed) for seed in range(30)]
    assert any(len(route.pools) > 1 for world in worlds for route in world.plan.routes)
    assert any(len(world.plan.routes) > 1 for world in worlds)
    assert any(len(set(world.arrival_ns.tolist())) < len(world.arrival_ns) for world in worlds)
    again = refused = 0
    for seed, world in enumerate(worlds):
        whole, pressed = served(world, seed), served(world, seed, shed=True)
        assert whole.answered == len(whole.end_ns)
        for done in (whole, pressed):
            assert (done.end_ns > done.arrival_ns).all()
            assert (done.sent >= 1).all()
            assert int((done.sent - 1).sum()) >= done.again
        again, refused = again + whole.again, refused + len(pressed.end_ns) - pressed.answered
    assert again > 0
    assert refused > 0


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


def test_a_policy_that_breaks_a_rule_is_refused_by_name_and_time() -> None:
    with pytest.raises(PolicyError, match=r"'gathering' at [0-9]+ ns names a request twice"):
        serve_plan(*alone(), rate_per_s=10, count=10, policy=Twice())


@pytest.mark.parametrize("lost", [["board-0", "board-1"], ["board-2", "board-3"]])
def test_a_pool_that_never_comes_back_is_refused_and_not_waited_for(lost: list[str]) -> None:
    fleet = toy_fleet(4)
    pools = tuple(
        Pool(type="board", devices=devices, jobs=(Job(network="toy", first=first, last=first + 1, batch=4),))
        for devices, first in ((("board-0", "board-1"), 0), (("board-2", "board-3"), 2))
    )
    route = Route(network="toy", pools=(0, 1), rate_per_s=100.0)
    plan = Plan(
        fleet=fleet.digest, objective="goodput", slo_ns=200 * MS, pools=pools, routes=(route,), rate_per_s=100.0
    )
    faults = [Fault(at_ns=5 * MS, device=device) for device in lost]
    with pytest.raises(FleetError, match=f"{lost[0]}, {lost[1]} never come back"):
        serve_plan(fleet, plan, rate_per_s=50, count=50, faults=faults)
    faults.append(Fault(at_ns=900 * MS, device=lost[1], back=True))
    assert serve_plan(fleet, plan, rate_per_s=50, count=50, faults=faults).answered == 50
