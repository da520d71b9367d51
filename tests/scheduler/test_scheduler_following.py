"""Plans that follow the traffic, in the twin: drift, losses, stragglers, and what is not worth a change."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import Fault, place
from fluidnpu.scheduler.placement.followed import FleetSchedule, serve_following
from fluidnpu.scheduler.placement.following import LEAST_SAMPLES, PROBATION, ExitCounts, Follower
from fluidnpu.scheduler.placement.replanning import Replanner
from fluidnpu.scheduler.placement.testing import divided_fleet, toy_fleet

MS, SECOND = 10**6, 10**9
EASY, HARD = (0.8, 0.2), (0.2, 0.8)
TURN_NS = 4 * SECOND


def follower(window_ns: int = SECOND, forecast: str = "last", switch_ns: int = 20 * MS, boards: int = 4) -> Follower:
    fleet = divided_fleet(EASY, boards)
    replanner = Replanner(fleet, slo_ns=100 * MS, ramps=("on",), switch_ns=switch_ns)
    return Follower(replanner, window_ns=window_ns, forecast=forecast)


def rate_of(rates: tuple[float, float]) -> float:
    return place(divided_fleet(rates), slo_ns=100 * MS, ramps=("on",)).plan.rate_per_s


def turned(follows: Follower, *, follow: bool, faults: tuple[Fault, ...] = (), rate: float = 0.0) -> FleetSchedule:
    """Serve the rate of the plan for the hard mix; the easy mix turns hard at `TURN_NS`."""
    rng = np.random.default_rng(1)
    rate = rate or rate_of(HARD)
    arrival = np.cumsum(rng.exponential(SECOND / rate, round(10 * rate))).astype(np.int64)
    exits = np.where(rng.random(len(arrival)) < np.where(arrival < TURN_NS, EASY[0], HARD[0]), 0, 1)
    return serve_following(follows, arrival, exits.astype(np.int64), faults=faults, follow=follow)


@pytest.mark.parametrize("forecast", ["last", "ewma"])
def test_a_mix_that_turns_is_followed_within_two_windows_and_else_never(forecast: str) -> None:
    window = SECOND
    served, kept = (turned(follower(forecast=forecast), follow=one) for one in (True, False))
    new = rate_of(HARD)
    (_, start), (at_ns, change), *more = served.changes
    assert [len(pool.devices) for pool in start.plan.pools] == [3, 1]
    assert [len(pool.devices) for pool in change.plan.pools] == [2, 2]
    assert change.reason == "drift"
    assert TURN_NS < at_ns <= TURN_NS + window
    assert not more, "and then the plan holds"
    assert change.plan.rate_per_s == pytest.approx(new, rel=0.1)
    last = int(served.arrival_ns[-1])
    for begin in range(TURN_NS + window, last - window, window):
        assert served.goodput(begin, begin + window) >= 0.95 * new
        assert kept.goodput(begin, begin + window) < 0.8 * new
    assert len(kept.changes) == 1


def test_a_world_that_stays_keeps_its_plan() -> None:
    rng = np.random.default_rng(2)
    arrival = np.cumsum(rng.exponential(SECOND / 1000, 12_000)).astype(np.int64)
    exits = (rng.random(12_000) < EASY[1]).astype(np.int64)
    served = serve_following(follower(), arrival, exits)
    assert [one.reason for _, one in served.changes] == ["start"]
    assert (served.exit >= 0).mean() > 0.99


def test_a_lost_board_is_planned_without_and_comes_back() -> None:
    faults = (
        Fault(at_ns=SECOND + 1, device="board-3"),
        Fault(at_ns=3 * SECOND, device="board-3", back=True),
    )
    served = turned(follower(), follow=True, faults=faults, rate=500.0)
    reasons = [one.reason for _, one in served.changes]
    assert reasons[:3] == ["start", "lost", "back"]
    assert "board-3" not in served.changes[1][1].plan.devices
    assert served.changes[1][1].why == "the plan needs board-3, which is gone"
    assert served.changes[1][0] < SECOND + 2 * SECOND // 8 + 1 + SECOND // 8
    assert served.goodput(SECOND + SECOND // 2, 3 * SECOND) > 0.95 * 500, "half of the boards would carry less"


def test_where_no_plan_is_left_the_old_one_holds_and_says_so() -> None:
    follows = follower(boards=2)
    plan = follows.start(0).plan
    assert follows.step(1, {"board-0"}) is None, "who is away for a moment is not lost"
    decision = follows.step(2, {"board-0"})
    assert decision is not None
    assert not decision.changed
    assert decision.plan == plan
    assert decision.why.startswith("there is no other plan: ")
    assert follows.step(3, {"board-0"}) is None, "it is not asked again and again"
    back = follows.step(4)
    assert back is not None
    assert back.reason == "back"
    assert not back.changed


def test_a_board_that_is_slow_beside_its_peers_is_left_out_and_tried_again() -> None:
    fleet = toy_fleet(4)
    follows = Follower(Replanner(fleet, slo_ns=10**8, ramps=("on",)), window_ns=100)
    follows.start(0)

    def window(number: int, slow: float) -> str:
        for _ in range(20):
            for device in fleet.devices:  # the host is slow, too, and nobody is blamed for that
                ratio = 1.5 * (slow if device.name == "board-1" else 1.0)
                follows.took(device.name, ratio * 1000, 1000)
        decision = follows.step(100 * number)
        return "" if decision is None else decision.reason

    assert [window(k, 1.4) for k in (1, 2)] == ["", "straggler"]
    assert set(follows.plan.devices) == {"board-0", "board-2", "board-3"}
    for k in range(3, 2 + PROBATION):
        assert window(k, 1.4) == ""
    assert window(2 + PROBATION, 1.0) == "back"
    assert len(follows.plan.devices) == 4


def test_a_switch_that_does_not_pay_is_left() -> None:
    served = turned(follower(switch_ns=10 * SECOND), follow=True)
    assert [one.reason for _, one in served.changes] == ["start"]


def test_few_samples_decide_nothing() -> None:
    follows = follower()
    follows.start(0)
    follows.left(1, LEAST_SAMPLES - 1)
    assert follows.step(SECOND) is None
    follows.left(1, 1)
    decision = follows.step(SECOND + 1)
    assert decision is not None
    assert decision.reason == "drift"
    assert follows.rates[1] > 0.95
    assert min(follows.rates) > 0, "somebody may leave at the first exit all the same"


def test_a_follower_that_cannot_be_is_refused() -> None:
    with pytest.raises(FleetError, match="a window must last above zero, not 0 ns"):
        follower(0)
    with pytest.raises(FleetError, match="a forecast must be one of"):
        follower(forecast="oracle")
    with pytest.raises(FleetError, match="a plan must be started"):
        _ = follower().plan
    fleet = toy_fleet(2)
    unsaid = replace(fleet, networks={"toy": replace(fleet.networks["toy"], exit_rates=None)})
    with pytest.raises(FleetError, match="must have exit_rates to begin with"):
        Follower(Replanner(unsaid, slo_ns=MS))
    with pytest.raises(FleetError, match="must be for fleet"):
        follower().start(0, place(fleet, slo_ns=10**9).plan)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_counts_of_whom_everybody_saw_are_the_counts(left: list[int]) -> None:
    counts = ExitCounts(len(left))
    for exit, samples in enumerate(left):
        counts.add(exit, samples)
    assert counts.take() == left
    assert counts.take() == [0] * len(left)


@settings(max_examples=30)
@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_ends_that_nobody_saw_do_not_make_the_world_look_easy(leave: float, unseen: float) -> None:
    """Of those that pass the first exit a share is never answered, as under overload."""
    counts, total = ExitCounts(2), 10_000
    first = round(leave * total)
    lost = round(unseen * (total - first))
    counts.add(0, first)
    counts.passed(0, lost)
    counts.add(1, total - first - lost)
    assert counts.take() == [first, total - first]
