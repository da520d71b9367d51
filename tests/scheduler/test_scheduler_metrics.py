"""Traffic has the distribution it claims, metrics count what they say, durations parse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from scheduling_worlds import ROWS, serve_row

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import (
    Request,
    SchedulerError,
    TrafficError,
    World,
    draw_exits,
    make_policy,
    measure,
    parse_duration_ns,
    poisson,
    simulate,
)
from fluidnpu.scheduler.policies.baselines import Greedy, Serial
from fluidnpu.scheduler.simulation import interval, merge_metrics
from fluidnpu.scheduler.simulation.metrics import t_quantile
from fluidnpu.scheduler.simulation.traffic import requests_at

TABLE = LatencyTable(ns=((10, 15), (10, 16)))


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential() -> None:
    requests = poisson(50, 20_000, slo_ns=10**8, rng=np.random.default_rng(1))
    gaps = np.diff([r.arrival_ns for r in requests]) / 1e9
    assert abs(gaps.mean() * 50 - 1) < 0.03
    assert abs(gaps.std() * 50 - 1) < 0.05
    assert all(r.deadline_ns - r.arrival_ns == 10**8 for r in requests)


def test_exits_are_drawn_with_their_rates_and_from_confidences() -> None:
    drawn = draw_exits([0.1, 0.0, 0.9], 20_000, np.random.default_rng(1))
    assert np.allclose(np.bincount(drawn, minlength=3) / 20_000, [0.1, 0, 0.9], atol=0.01)


def test_metrics_of_a_schedule_done_by_hand() -> None:
    requests = [Request(0, 0, 25), Request(1, 0, 25), Request(2, 5, 30)]
    done = simulate(requests, Serial(), World(latency=TABLE, exits=[0, 1, 0], exit_rates=[0.5, 0.5]))
    m = measure(done, warmup=0, macs=[3, 5], peak_macs_per_s=1e9)
    assert [r.end_ns for r in done.records] == [10, 30, 40]
    assert m.average_ms == pytest.approx((10 + 30 + 35) / 3 / 1e6)
    assert m.violations_pct == pytest.approx(200 / 3)
    assert m.goodput_per_s == pytest.approx(1 / 5e-9)
    assert (m.busy_pct, m.batches, m.decisions, m.mean_batch) == (100, (4, 0), 4, 1)
    assert m.stage_batches == ((3, 0), (1, 0))
    assert m.busy_mac_efficiency_pct == pytest.approx(100 * (3 * 3 + 5) / 40)
    assert m.exit_pct == pytest.approx((200 / 3, 100 / 3))
    assert measure(done, warmup=2).average_ms == pytest.approx(35 / 1e6)


def test_wall_utilisation_is_busy_efficiency_times_busy_share() -> None:
    done = simulate(
        [Request(0, 0, 25), Request(1, 90, 125)], Greedy(), World(latency=TABLE, exits=[0, 0], exit_rates=[0.5, 0.5])
    )
    m = measure(done, warmup=0, macs=[5, 5], peak_macs_per_s=1e9)
    assert (m.busy_pct, m.busy_mac_efficiency_pct, m.wall_utilisation_pct) == pytest.approx((20, 50, 10))


def test_overload_is_called_unstable_and_load_near_saturation_is_not() -> None:
    assert measure(serve_row({**ROWS[0], "rate_per_s": 30}, "greedy", count=3000)).unstable
    assert not measure(serve_row({**ROWS[0], "rate_per_s": 18}, "greedy", count=3000)).unstable


def test_a_rise_is_the_later_half_less_the_earlier() -> None:
    table = LatencyTable(ns=((10**6,),))
    requests = requests_at([0, 0, 0, 0], 10**9)  # served after 1, 2, 3 and 4 ms
    done = simulate(requests, Serial(), World(latency=table, exits=[0] * 4, exit_rates=[1.0]))
    assert measure(done).rise_ms == pytest.approx(2)
    assert measure(done, warmup=3).rise_ms == 0


def test_the_t_quantile_is_the_tables() -> None:
    for freedom, expected in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (29, 2.045)]:
        assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=6e-4)


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    hits = [abs((i := interval(list(rng.normal(5, 2, 6)))).mean - 5) <= i.half for _ in range(2000)]
    assert 0.93 < np.mean(hits) < 0.97


def test_one_seed_has_no_interval_and_json_says_null() -> None:
    assert interval([3.0]).half == math.inf
    assert interval([3.0]).to_dict() == {"mean": 3.0, "low": None, "high": None}
    merged = merge_metrics([measure(serve_row(ROWS[1], "greedy", count=200, seed=s)) for s in (0, 1)])
    assert merged["average_ms"].half > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: poisson(0, 5, slo_ns=1, rng=np.random.default_rng(0)), "rate must be above zero"),
        (lambda: poisson(math.inf, 5, slo_ns=1, rng=np.random.default_rng(0)), "at most one a nanosecond, not inf"),
        (lambda: poisson(5, 0, slo_ns=1, rng=np.random.default_rng(0)), "at least one request"),
        (lambda: poisson(5, 5, slo_ns=-1, rng=np.random.default_rng(0)), "objective must be above zero"),
        (lambda: requests_at([1], 0), "objective must be above zero"),
    ],
)
def test_bad_traffic_is_one_sentence(make: Callable[[], list[Request]], message: str) -> None:
    with pytest.raises(TrafficError, match=message):
        make()


def test_bad_numbers_are_one_sentence() -> None:
    with pytest.raises(SchedulerError, match="sum to 1"):
        draw_exits([0.5, 0.4], 3, np.random.default_rng(0))
    with pytest.raises(SchedulerError, match="warm-up"):
        measure(serve_row(ROWS[1], "greedy", count=20), warmup=20)
    with pytest.raises(SchedulerError, match="at least one value"):
        interval([])
    with pytest.raises(SchedulerError, match="t quantile"):
        t_quantile(0.2, 3)


@pytest.mark.parametrize(
    ("text", "ns"), [("200ms", 200_000_000), ("1s", 10**9), ("2.5us", 2500), (" 7 ns ", 7), (".5s", 5 * 10**8)]
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["200", "-3ms", "ms", "", "0ms", "1h", "1e3ms", "nan s", "0.1ns"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(SchedulerError, match=r"slo must be"):
        parse_duration_ns(text, "slo")


def test_with_nobody_answered_there_are_no_latencies() -> None:
    requests = [Request(i, i, i + 5) for i in range(4)]
    done = simulate(requests, make_policy("serial:shed=1"), World(latency=TABLE, exits=[0] * 4, exit_rates=(0.5, 0.5)))
    found = measure(done, warmup=0, macs=(1, 1), peak_macs_per_s=1.0)
    assert found.shed_pct == 100
    assert math.isnan(found.average_ms)
    plain = found.to_dict()
    for key in ("average_ms", "p50_ms", "p95_ms", "p99_ms", "busy_mac_efficiency_pct", "wall_utilisation_pct"):
        assert plain[key] is None
    json.dumps(plain, allow_nan=False)
    merged = merge_metrics([found, found])
    assert json.dumps({key: value.to_dict() for key, value in merged.items()}, allow_nan=False)
    assert "average_ms" in merged
