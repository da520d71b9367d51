"""Plans executed by the dispatcher, between scripted boards: routes, turns, lines, and refusals of plans."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fleet_scripts import Scripted, answers, ask, call, fails, gated, logits, run
from fleet_worlds import fleet_file
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.hls.program import Stages
from fluidnpu.host import Bundle, DriverUsageError
from fluidnpu.host.errors import BoardError, ExpiredError
from fluidnpu.host.fleet import Roster
from fluidnpu.host.fleet.boards.leaf import Times
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.duties import Duty, duties_of
from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import (
    Block,
    Job,
    NetworkFacts,
    Plan,
    Pool,
    Profile,
    Route,
    Turns,
    place,
    place_together,
    read_fleet,
)
from fluidnpu.scheduler.placement.testing import toy_fleet, two_networks

SECOND = 1_000_000_000
BIG = Times.of(LatencyTable(ns=((4 * SECOND, 6 * SECOND),)), (1.0,))
SMALL = Times.of(LatencyTable(ns=((1 * SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND),)), (1.0,))
TIMES = {"big": BIG, "small": SMALL}
TURNS = {"big": Duty(batch=2, weight=0.75, rate_per_s=0.25), "small": Duty(batch=2, weight=0.25, rate_per_s=0.25)}


def models(link: Scripted) -> list[str]:
    return [request.model_name for request in link.asked]


def test_networks_of_a_board_share_its_time_by_weight_whoever_floods() -> None:
    """Sixty of each wait; big ones take 4 s, small ones 1 s, and three quarters of the time are big's."""
    link = Scripted("a", *[gated] * 200)

    async def work(dispatcher: Dispatcher) -> None:
        one = dispatcher.leaves[0]
        small = [asyncio.ensure_future(ask(dispatcher, call(k, k, model="small"))) for k in range(60)]
        big = [asyncio.ensure_future(ask(dispatcher, call(k, k, model="big"))) for k in range(60)]
        spent: Counter[str] = Counter()
        for turn in range(40):
            await asyncio.sleep(0.002)
            assert one.work_s <= 2 * one.lead_s, "the rest waits at the front"
            assert len(link.asked) > turn, "and the board is never without work"
            model = models(link)[turn]
            spent[model] += 6 if model == "big" else 2
            if turn > 8:
                assert abs(spent["big"] - 0.75 * spent.total()) <= 6
            link.gate.release()
        assert {len(request.raw_input_contents[0]) for request in link.asked} == {4}, "planned batches of two samples"
        for task in (*small, *big):
            task.cancel()
        await asyncio.gather(*small, *big, return_exceptions=True)
        assert one.line is not None
        assert one.line.take(one.cost_s) == [], "who goes leaves nothing in the line"

    run([link], work, times=TIMES, duties={"a": TURNS}, allowance_s=100.0, queue=10_000)


def test_a_network_alone_has_the_whole_board() -> None:
    link = Scripted("a", *[gated] * 50)

    async def work(dispatcher: Dispatcher) -> None:
        asked = [asyncio.ensure_future(ask(dispatcher, call(k, model="small"))) for k in range(12)]
        for turn in range(12):
            await asyncio.sleep(0.002)
            assert len(link.asked) > turn
            link.gate.release()
        assert [logits(await one) for one in asked] == [[[2.0 * k, 2.0 * k + 2]] for k in range(12)]

    run([link], work, times=TIMES, duties={"a": TURNS}, allowance_s=100.0)


def test_a_lost_board_gives_its_line_to_others() -> None:
    links = [Scripted("a", fails(BoardError("reset")), *[gated] * 20), Scripted("b", *[answers] * 40)]
    duties = {"a": TURNS, "b": TURNS}

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.drain("b")
        asked = [asyncio.ensure_future(ask(dispatcher, call(k, model="small"))) for k in range(12)]
        await asyncio.sleep(0)
        links[0].reachable = False
        dispatcher.restore("b")
        assert [logits(await one) for one in asked] == [[[2.0 * k, 2.0 * k + 2]] for k in range(12)]
        assert len(links[1].asked) >= 10

    run(links, work, times=TIMES, duties=duties, allowance_s=0.3)


def test_who_waits_in_a_line_hears_when_the_time_is_up() -> None:
    link = Scripted("a", *[gated] * 50)

    async def work(dispatcher: Dispatcher) -> None:
        asked = [asyncio.ensure_future(ask(dispatcher, call(k, k, model="big"))) for k in range(6)]
        await asyncio.sleep(0.002)
        with pytest.raises(ExpiredError):
            await ask(dispatcher, call(1, model="big", timeout=20_000))
        for _ in asked:
            link.gate.release()
        await asyncio.gather(*asked)
        assert len(link.asked) == 6, "it was never sent"

    run([link], work, times=TIMES, duties={"a": TURNS}, allowance_s=100.0)


def test_requests_are_spread_by_planned_rates_and_cut_to_planned_batches() -> None:
    """Board a has three quarters of the rate; nothing is under way, so that no load tells them apart."""
    links = [Scripted("a"), Scripted("b")]
    duties = {"a": {"small": Duty(batch=3, rate_per_s=3.0)}, "b": {"small": Duty(batch=1, rate_per_s=1.0)}}

    async def work(dispatcher: Dispatcher) -> None:
        drawn = Counter(dispatcher._draw("small", dispatcher.leaves, 1)[0].name for _ in range(2000))
        assert 1400 < drawn["a"] < 1600
        both = [leaf.name for leaf in dispatcher._draw("small", dispatcher.leaves, 2)]
        assert sorted(both) == ["a", "b"]
        answer = await ask(dispatcher, call(*range(40), model="small"))
        assert logits(answer) == [[2.0 * k, 2.0 * k + 2] for k in range(40)]
        assert {request.inputs[0].shape[0] for link in links for request in link.asked} <= {1, 2, 3}
        assert 3 in {request.inputs[0].shape[0] for request in links[0].asked}

    run(links, work, times=TIMES, duties=duties)


def test_a_network_that_is_planned_without_exits_has_none() -> None:
    link = Scripted("a")

    async def work(dispatcher: Dispatcher) -> None:
        await ask(dispatcher, call(1, model="small"))
        await ask(dispatcher, call(1, model="small", criteria="confidence > 0.5"))
        assert [one.parameters["criteria"].string_param for one in link.asked] == ["false", "confidence > 0.5"]

    run([link], work, times=TIMES, duties={"a": {"small": Duty(batch=1, criteria="false")}})


@settings(max_examples=40)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=4),
    costs=st.lists(st.floats(0.1, 10), min_size=4, max_size=4),
)
def test_turns_give_each_network_its_share_to_within_a_batch(weights: list[float], costs: list[float]) -> None:
    names = [str(k) for k in range(len(weights))]
    turns = Turns(dict(zip(names, weights, strict=True)))
    cost = dict(zip(names, costs, strict=False))
    spent = dict.fromkeys(names, 0.0)
    for _ in range(300):
        chosen = turns.next(cost)
        assert chosen is not None
        spent[chosen] += cost[chosen]
    total, every = sum(spent.values()), sum(weights)
    for name, weight in zip(names, weights, strict=True):
        assert abs(spent[name] - weight / every * total) <= 2 * max(cost[one] for one in names) * len(names)


def test_turns_keep_no_claim_of_a_network_without_work() -> None:
    turns = Turns({"a": 0.5, "b": 0.5})
    for _ in range(100):
        assert turns.next({"a": 1.0}) == "a"
    chosen = [turns.next({"a": 1.0, "b": 1.0}) for _ in range(10)]
    assert Counter(chosen) == {"a": 5, "b": 5}, "b does not make up for the time in which it had nothing to do"
    assert turns.next({}) is None
    turns.settle("a", predicted=1.0, took=11.0)
    assert [turns.next({"a": 1.0, "b": 1.0}) for _ in range(9)].count("b") >= 8
    with pytest.raises(FleetError, match="at least one network"):
        Turns({})


# -- plans that boards can follow, and others --------------------------------------------------------------


def test_duties_are_those_of_the_plan() -> None:
    fleet = two_networks(3)
    plan = place_together(fleet, slo_ns=SECOND)
    duties = duties_of(plan, fleet)
    for pool in plan.pools:
        for job in pool.jobs:
            for device in pool.devices:
                duty = duties[device][job.network]
                assert (duty.batch, duty.weight) == (job.batch, job.weight)
                assert duty.rate_per_s == pytest.approx(job.rate_per_s / len(pool.devices))
    with pytest.raises(FleetError, match="must be for fleet"):
        duties_of(plan, two_networks(2))


def test_a_plan_for_one_network_can_be_followed_in_turns_of_its_own_splits() -> None:
    fleet = toy_fleet(4)
    plan = place(fleet, slo_ns=SECOND).plan
    assert plan.form == "data parallel, serial splits"
    duties = duties_of(plan, fleet)
    assert sorted(duties) == [f"board-{k}" for k in range(4)]
    assert {one["toy"].criteria for one in duties.values()} == {None}


def of_jobs(*jobs: Job, pools: int = 1) -> Plan:
    fleet = toy_fleet(2)
    names = [one.name for one in fleet.devices]
    each = [jobs] if pools == 1 else [[job] for job in jobs]
    return Plan(
        fleet=fleet.digest,
        objective="goodput",
        slo_ns=SECOND,
        pools=tuple(
            Pool(type="board", devices=(name,), jobs=tuple(some)) for name, some in zip(names, each, strict=False)
        ),
        routes=(Route(network="toy", pools=tuple(range(len(each))), rate_per_s=9.0),),
        rate_per_s=9.0,
    )


def test_plans_that_boards_cannot_follow_are_refused() -> None:
    fleet = toy_fleet(2)
    whole = Job(network="toy", first=0, last=3, batch=2, rate_per_s=9.0)
    first, second = replace(whole, last=1), replace(whole, first=2)
    assert duties_of(of_jobs(first, second), fleet)["board-0"]["toy"].batch == 2
    apart = duties_of(of_jobs(first, second, pools=2), fleet)
    assert {board: list(mine) for board, mine in apart.items()} == {"board-0": ["toy.0-0"], "board-1": ["toy.1-1"]}
    with pytest.raises(DriverUsageError, match="must begin and end at an exit, and one does at block 0"):
        duties_of(of_jobs(replace(whole, last=0), replace(whole, first=1)), fleet)
    assert duties_of(of_jobs(replace(whole, ramps="none")), fleet)["board-0"]["toy"].criteria == "false"


def test_a_job_that_leaves_out_exits_inside_is_a_part_without_their_heads() -> None:
    blocks = tuple(Block(name=f"b{k}", ns=(1000, 1500), exit=f"e{k}") for k in range(3))
    kind = replace(toy_fleet(2).types["board"], profiles={"toy": Profile(network="toy", blocks=blocks)})
    fleet = replace(toy_fleet(2), types={"board": kind}, networks={"toy": NetworkFacts(name="toy")})
    jobs = Job(network="toy", first=0, last=0, batch=2), Job(network="toy", first=1, last=2, batch=2, ramps="last")
    plan = replace(of_jobs(*jobs), fleet=fleet.digest)
    duty = duties_of(plan, fleet)["board-0"]["toy.0-2.x1"]
    assert duty.stages == Stages(first=0, last=2, exits=(0, 2))
    assert duty.criteria is None


def test_a_board_without_a_planned_rate_is_not_drawn_beside_one_that_has() -> None:
    """A plan may give a board a network without any rate; it is drawn only where no other can be."""
    links = [Scripted("a"), Scripted("b")]
    duties = {"a": {"small": Duty(batch=1, rate_per_s=0.0)}, "b": {"small": Duty(batch=1, rate_per_s=1.0)}}

    async def work(dispatcher: Dispatcher) -> None:
        drawn = [dispatcher._draw("small", dispatcher.leaves, 1)[0].name for _ in range(300)]
        assert set(drawn) == {"b"}
        assert np.array(logits(await ask(dispatcher, call(1, model="small")))).shape == (1, 2)

    run(links, work, times=TIMES, duties=duties)


def test_plan_files_that_cannot_be_read_or_are_for_another_fleet(tmp_path: Path) -> None:
    path, plan = fleet_file(tmp_path, '[[devices]]\ntype = "board"\n'), tmp_path / "plan.json"
    with pytest.raises(DriverUsageError, match="must be readable UTF-8 text"):
        Roster.read(path, plan)
    plan.write_text("{}")
    with pytest.raises(FleetError, match="must be a plan in JSON"):
        Roster.read(path, plan)
    plan.write_text(of_jobs(Job(network="toy", first=0, last=3, batch=2, rate_per_s=9.0)).dumps())
    with pytest.raises(FleetError, match="the plan must be for fleet 'a small fleet'"):
        Roster.read(path, plan)


def test_boards_that_a_plan_leaves_idle_have_no_seat(tmp_path: Path) -> None:
    """A rate that one of three boards carries; no exit rates are needed beside those of the design."""
    path, plan = fleet_file(tmp_path, '[[devices]]\ntype = "board"\ncount = 3\n'), tmp_path / "plan.json"
    path.write_text(path.read_text().replace("[networks.small]", "[networks.small]\nexit_rates = [0.5, 0.5]"))
    fleet = read_fleet(path, bundle=lambda place: Bundle.read(place).profile)
    plan.write_text(place(fleet, slo_ns=SECOND, rate_per_s=1.0, forms=("data parallel",)).plan.dumps())
    roster = Roster.read(path, plan)
    assert [seat.name for seat in roster.seats] == ["board-0"]
    assert roster.exit_rates == {"small": (0.5, 0.5)}
    assert roster.seats[0].duties["small"].rate_per_s == pytest.approx(1.0)
