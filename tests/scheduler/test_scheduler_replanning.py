"""Forecasts, the drift detector, and plans that change only where it pays."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import Link, Plan, place, place_together
from fluidnpu.scheduler.placement.forecast import DriftDetector, make_forecast
from fluidnpu.scheduler.placement.holding import carried
from fluidnpu.scheduler.placement.replanning import Replanner, Straggler, fleet_with_rates, moves
from fluidnpu.scheduler.placement.testing import divided_fleet, random_fleet, toy_fleet, two_networks

MS = 10**6
needs_statsmodels = pytest.mark.skipif(importlib.util.find_spec("statsmodels") is None, reason="needs statsmodels")


@pytest.mark.parametrize("name", ["last", "ewma", pytest.param("arima", marks=needs_statsmodels)])
def test_a_still_world_is_forecast_as_it_is(name: str) -> None:
    forecast = make_forecast(name, 3)
    assert forecast.rates() == (1 / 3,) * 3
    rng = np.random.default_rng(0)
    for _ in range(12):
        forecast.see(rng.multinomial(6000, [0.5, 0.3, 0.2]).tolist())
    assert forecast.rates() == pytest.approx((0.5, 0.3, 0.2), abs=0.02)
    assert sum(forecast.rates()) == pytest.approx(1)
    forecast.see([0, 0, 0])
    assert forecast.rates() == pytest.approx((0.5, 0.3, 0.2), abs=0.02), "a window without samples says nothing"


def error(name: str, world: NDArray[np.float64], samples: int) -> float:
    """Mean error of the reach one window ahead, in points."""
    rng, forecast, found = np.random.default_rng(1), make_forecast(name, world.shape[1]), []
    for number, rates in enumerate(world):
        if number > 10:
            said = 1 - np.cumsum(forecast.rates())
            found.append(np.abs(said - (1 - np.cumsum(rates)))[:-1].mean())
        forecast.see(rng.multinomial(samples, rates).tolist())
    return 100 * float(np.mean(found))


def test_the_last_window_is_best_at_steps_and_the_average_in_a_still_world() -> None:
    steps = np.repeat([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]], 10, axis=0)
    still = np.full((30, 2), 0.5)
    assert error("last", steps, 240) < error("ewma", steps, 240)
    assert error("ewma", still, 240) < error("last", still, 240)


@needs_statsmodels
def test_arima_follows_a_slow_day_best() -> None:
    easy = 0.5 + 0.3 * np.sin(np.arange(48) / 48 * 2 * np.pi)
    day = np.c_[easy, 1 - easy]
    assert error("arima", day, 6000) < error("last", day, 6000) < error("ewma", day, 6000)


def test_a_forecast_that_is_none_is_refused() -> None:
    with pytest.raises(FleetError, match="must be one of last, ewma, arima, not 'oracle'"):
        make_forecast("oracle", 2)
    with pytest.raises(FleetError, match="a window must hold 2 counts from 0"):
        make_forecast("last", 2).see([1, 2, 3])


def test_a_step_is_noticed_within_seconds_and_a_still_world_is_not() -> None:
    rng = np.random.default_rng(2)
    detector = DriftDetector(rates=(0.5, 0.5))
    assert not any(detector.see(rng.multinomial(100, [0.5, 0.5]).tolist()) for _ in range(300))
    calls = [detector.see(rng.multinomial(100, [0.2, 0.8]).tolist()) for _ in range(5)]
    assert calls.index(True) <= 1, "200 samples tell 50 % from 20 %"
    detector.reset((0.2, 0.8))
    assert not detector.see(rng.multinomial(100, [0.2, 0.8]).tolist())


def test_a_slow_board_is_excluded_after_two_windows_and_comes_back_when_well() -> None:
    one = Straggler()
    assert not one.close_window(), "too few batches say nothing"
    for _ in range(30):
        one.see(1.5, 1.0)
    assert not one.close_window()
    assert one.close_window()
    assert one.excluded
    for _ in range(60):
        one.see(1.0, 1.0)
    assert one.close_window()
    assert not one.excluded


def test_a_plan_changes_for_a_lost_board_and_for_a_drift_that_pays_and_else_not() -> None:
    replanner = Replanner(toy_fleet(4), slo_ns=100 * MS)
    assert replanner.consider(0, "start").changed
    assert not replanner.consider(MS, "timer").changed
    lost = replanner.consider(2 * MS, "lost", lost={"board-2"})
    assert lost.changed
    assert "the plan needs board-2, which is gone" in lost.why
    assert "board-2" not in lost.plan.devices
    back = replanner.consider(3 * MS, "back", back={"board-2"})
    assert back.changed
    assert len(back.plan.devices) == 4
    with pytest.raises(FleetError, match="a reason must be one of"):
        replanner.consider(0, "whim")


def test_a_switch_that_costs_more_than_it_brings_is_left() -> None:
    dear = Replanner(toy_fleet(4), slo_ns=100 * MS, switch_ns=100 * 10**9)
    free = Replanner(toy_fleet(4), slo_ns=100 * MS, gain=0.0)
    changed = []
    for one in (dear, free):
        one.consider(0, "start")
        changed.append(one.consider(MS, "drift", exit_rates=(0.02, 0.98)).changed)
    assert changed[0] is False
    assert moves(free.plan or one_plan(), free.plan or one_plan()) == []


def one_plan() -> Plan:
    return place(toy_fleet(1), slo_ns=100 * MS).plan


@pytest.mark.parametrize("seed", range(4))
def test_what_a_plan_carries_in_its_own_world_is_its_rate(seed: int) -> None:
    fleet = random_fleet(np.random.default_rng(seed), blocks=4, counts=[3, 2])
    plan = place(fleet, slo_ns=10**9, forms=["data parallel"]).plan
    links = min(link.bytes_per_s for link in fleet.links.values())
    assert carried(fleet, plan) >= plan.rate_per_s * (1 - 1e-6), links
    harder = fleet_with_rates(fleet, (*([0.0] * (len(fleet.networks["net"].exit_rates or ()) - 1)), 1.0))
    assert carried(harder, plan) <= carried(fleet, plan) * (1 + 1e-9)


def test_what_a_plan_carries_counts_its_links() -> None:
    """A turn to the hard mix sends four times as many tensors over a link that was just wide enough."""
    fleet = replace(divided_fleet((0.8, 0.2)), links={"lan": Link(name="lan", bytes_per_s=3_000_000)})
    plan = place(fleet, slo_ns=10**9).plan
    assert carried(fleet, plan) == pytest.approx(plan.rate_per_s, rel=1e-6)
    hard = fleet_with_rates(fleet, (0.2, 0.8))
    assert [len(pool.devices) for pool in plan.pools] == [2, 2]
    sent = 0.8 * 10_000 + 0.2 * 10  # bytes a sample: the cut of those that stay, the answer of the others
    assert carried(hard, plan) == pytest.approx(0.9 * 2 * 3_000_000 / sent)


def test_several_networks_share_boards_by_weights() -> None:
    fleet = two_networks(3)
    plan = place_together(fleet, slo_ns=10**9, headroom=0.0)
    plan.check(fleet)
    assert Plan.loads(plan.dumps()) == plan
    assert plan.rate_per_s == pytest.approx(800)
    for name in plan.networks:
        assert sum(r.rate_per_s for r in plan.routes if r.network == name) >= plan.rate_per_s * (1 - 1e-6)
    for pool in plan.pools:
        assert sum(job.weight for job in pool.jobs) <= 1 + 1e-6
    with pytest.raises(FleetError, match="networks must be among big, small, not cat"):
        place_together(fleet, ("cat",), slo_ns=10**9)
