"""Networks side by side in the simulator: nobody lost, each in its own stages and slots, isolation."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenant_worlds import MS, merged, poisson_ns

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import PolicyError, Request, Run, SchedulerError, Serving, World, simulate
from fluidnpu.scheduler.comparison import Hosted, compare_tenants
from fluidnpu.scheduler.exits import Criteria, ExitProfile, Recorded, RuledExits
from fluidnpu.scheduler.simulation import Networks
from fluidnpu.scheduler.simulation.world import SideBySide
from fluidnpu.scheduler.tenants import (
    Shared,
    Tenancy,
    Tenant,
    measure_tenants,
    npu_ns_by_tenant,
    parse_tenants,
    room_for,
)

SMALL = LatencyTable(ns=((2 * MS, 3 * MS), (2 * MS, 3 * MS)))
LARGE = LatencyTable(ns=((10 * MS, 15 * MS), (10 * MS, 15 * MS), (10 * MS, 15 * MS)))
OF = {"a": 0, "b": 0, "c": 1}
SIDE = Networks(stages=(2, 3), slots=(4, 3), of_tenant=OF)
JOINT = LatencyTable(ns=(*SMALL.ns, *LARGE.ns))
RATES = (0.5, 0.5, 0.2, 0.3, 0.5)


def tenancy(**more: object) -> Tenancy:
    rows = (("a", 0.25), ("b", 0.25), ("c", 0.5))
    return Tenancy(
        tenants=tuple(Tenant(name=n, share=s, network=str(OF[n]), **more) for n, s in rows),  # type: ignore[arg-type]
        interval_ns=50 * MS,
    )


streams = st.lists(
    st.tuples(st.integers(0, 8 * MS), st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=30
)


@given(
    streams,
    st.sampled_from(["serial", "greedy", "fluid", "fluid:shed=1"]),
    st.sampled_from([{}, {"borrow": False}, {"at_limit": "drop"}, {"cooperative": True}, {"burst_ns": 3 * MS}]),
)
def test_every_request_runs_its_own_network_in_its_own_slots(
    rows: list[tuple[int, str, int]], inner: str, terms: dict[str, object]
) -> None:
    now, requests, leave = 0, [], []
    for index, (gap, name, exit) in enumerate(rows):
        now += gap
        requests.append(Request(index, now, now + 200 * MS, name))
        leave.append(SIDE.entry(requests[-1]) + min(exit, SIDE.stages[OF[name]] - 1))
    policy = Shared(tenancy(**terms), inner, networks=SIDE)
    done = simulate(requests, policy, World(latency=JOINT, exits=leave, exit_rates=RATES, networks=SIDE))
    done.check()
    for _, action in done.log:
        if isinstance(action, Run):
            assert {OF[request.tenant] for request in action.requests} == {SIDE.of_stage[action.stage]}
    for exit, left in zip(done.exit, leave, strict=True):
        assert exit in (-1, left)
    spent = npu_ns_by_tenant(done)
    assert sum(spent.values()) == pytest.approx(sum(run.end_ns - run.start_ns for run in done.runs))


def test_a_schedule_that_mixes_networks_is_found_out() -> None:
    """The oracle must see a request that runs on into the next network, and a slot too many."""
    requests = [Request(0, 0, 10**9, "a")]
    world = World(latency=JOINT, exits=[1], exit_rates=RATES, networks=SIDE)
    done = simulate(requests, Shared(tenancy(), "greedy", networks=SIDE), world)
    run = Run(2, (requests[0],))
    end = done.end_ns[0]
    beyond = dataclasses.replace(
        done, log=(*done.log, (end, run)), run_end_ns=(*done.run_end_ns, end + MS), exit=(2,), end_ns=(end + MS,)
    )
    with pytest.raises(PolicyError, match="ran another network"):
        beyond.check()
    other = dataclasses.replace(done, requests=(Request(0, 0, 10**9, "c"),))
    with pytest.raises(PolicyError, match="out of order"):
        other.check()


def test_a_victim_waits_for_one_stage_of_the_other_network_however_long_that_is() -> None:
    """A request of the small network waits one stage of a flood of the large one at most."""
    victims = poisson_ns(20, 10, seed=1)
    floods = poisson_ns(120, 10, seed=2)

    def p99_ms(flood: list[int]) -> float:
        requests = merged({"a": victims, "c": flood}, slo_ns=10**10)
        leave = [1 if one.tenant == "a" else 4 for one in requests]
        policy = Shared(tenancy(burst_ns=20 * MS), "fluid", networks=SIDE)
        done = simulate(requests, policy, World(latency=JOINT, exits=leave, exit_rates=(0, 1, 0, 0, 1), networks=SIDE))
        done.check()
        return measure_tenants(done)["a"].p99_ms

    assert p99_ms(floods) <= p99_ms([]) + (15 * MS + 20 * MS) / 1e6


def test_exits_side_by_side_are_each_networks_own() -> None:
    small, large = (Criteria(ExitProfile(latency=table), "exit_number == 2") for table in (SMALL, LARGE))
    large.set("exit_number == 1", tenant="c")
    exits = SideBySide(networks=SIDE, exits=(RuledExits(rule=small), RuledExits(rule=large)))
    requests = [Request(0, 0, 10**9, "a"), Request(1, 0, 10**9, "c")]
    world = World(latency=JOINT, exits=exits, exit_rates=RATES, networks=SIDE)
    done = simulate(requests, Shared(tenancy(), "greedy", networks=SIDE), world)
    assert done.exit == (1, 2)
    assert done.because == ("last exit", "exit_number == 1")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SchedulerError, match="a stage and a slot at least"):
        Networks(stages=(2, 0), slots=(1, 1))
    with pytest.raises(SchedulerError, match="must have the 5 stages of the latency table"):
        World(latency=JOINT, exits=[], exit_rates=RATES, networks=Networks(stages=(2, 2), slots=(2, 2)))
    with pytest.raises(SchedulerError, match="sum to 1"):
        World(latency=JOINT, exits=[], exit_rates=(0.5, 0.4, 0.3, 0.3, 0.4), networks=SIDE)
    with pytest.raises(SchedulerError, match=r"must leave at an exit in 2\.\.4, not 1"):
        World(latency=JOINT, exits=[1], exit_rates=RATES, networks=SIDE).check([Request(0, 0, 9, "c")])
    policy = Shared(tenancy(), networks=SIDE)
    world = World(latency=JOINT, exits=[1], exit_rates=RATES, networks=SIDE)
    with pytest.raises(PolicyError, match="of tenant 'd', which has no network"):
        simulate([Request(0, 0, 9, "d")], policy, world)


def test_room_is_a_batch_and_a_slot_a_tenant_as_far_as_there_are_slots() -> None:
    assert room_for(8, [2]) == (10,)
    assert room_for(8, [1, 3]) == (9, 11)
    assert room_for(16, [1, 1, 1]) == (11, 11, 10)


TWO = """
[network.large]
confidences = "large.npz"
[tenant.doors]
share = 0.5
network = "small"
rate = 60
criteria = "exit_number == 1"
[tenant.cameras]
share = 0.5
network = "large"
rate = 20
mode = "pareto"
"""


def test_tenants_of_two_networks_compared_over_seeds() -> None:
    tenancy = parse_tenants(TWO)
    assert tenancy.networks == ("small", "large")
    assert tenancy.confidences == {"large": "large.npz"}
    assert [one.name for one in tenancy.all] == ["doors", "cameras"]  # nobody else: which network would it be for?
    sure = [[0.9, 0.95, 1.0], [0.2, 0.6, 1.0], [0.7, 0.8, 1.0], [0.4, 0.5, 0.9]] * 30
    right = [[1, 1, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1]] * 30
    hosted = [
        Hosted(name="small", serving=Serving(latency=SMALL, exit_rates=(0.5, 0.5))),
        Hosted(
            name="large",
            serving=Serving(latency=LARGE, exit_rates=(0.4, 0.3, 0.3)),
            recorded=Recorded(confidences=sure, correct=right),
        ),
    ]
    found = compare_tenants(hosted, tenancy, requests=300, seeds=2, slo_ns=200 * MS)
    doors, cameras = found.tenants["doors"][0], found.tenants["cameras"][0]
    assert doors.exit_pct == (100, 0)
    assert len(cameras.exit_pct) == 3
    assert sum(cameras.exit_pct) == pytest.approx(100)
    assert cameras.accuracy_pct is not None
    assert cameras.accuracy_pct > 50
    assert found.criteria["cameras"].startswith(("confidence", "exit_number"))
    assert found.mixed_pct.mean == 0  # a batch is of one network
    with pytest.raises(SchedulerError, match="tenant 'cameras' asks for confidence"):
        compare_tenants([hosted[0], dataclasses.replace(hosted[1], recorded=None)], tenancy, seeds=1, slo_ns=MS)
    with pytest.raises(SchedulerError, match="network must be one of small, huge, not 'large'"):
        compare_tenants([hosted[0], dataclasses.replace(hosted[1], name="huge")], tenancy, seeds=1, slo_ns=MS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("confidences = 'x'\n" + TWO, r"must stand in the table \[network.NAME\]"),
        (TWO + "[network.none]\n", "network 'none' must be that of a tenant"),
        (TWO.replace("confidences =", "rates ="), "network 'large' may have confidences and exit_rates, not rates"),
        (TWO.replace('confidences = "large.npz"', "exit_rates = [2]"), r"exit_rates must be shares of 0\.\.1"),
        (TWO.replace('network = "small"', ""), "tenant 'doors' must name its network, as others do"),
        (TWO.replace('network = "small"', "network = 3"), "network must be a text in quotes"),
        ("network = 3\n" + TWO.replace("[network.large]\nconfidences", "#"), "network must be a table"),
    ],
)
def test_a_wrong_file_of_networks_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(SchedulerError, match=says):
        parse_tenants(text)
