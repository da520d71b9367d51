"""Traffic is what it says: bursts, days and traces; bad text is refused by line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fluidnpu.scheduler import TrafficError
from fluidnpu.scheduler.simulation.traffic import bursty, diurnal, generate, read_trace


def test_bursts_keep_the_mean_rate_and_cluster() -> None:
    requests = bursty(50, 40_000, slo_ns=1, rng=np.random.default_rng(0), burst=3, share=0.2, dwell_ns=2 * 10**9)
    seconds = np.array([r.arrival_ns for r in requests]) / 1e9
    assert len(requests) / seconds[-1] == pytest.approx(50, rel=0.05)
    counts = np.bincount(seconds.astype(int))
    assert counts.var() / counts.mean() > 5  # Poisson: 1


def test_a_diurnal_load_swings_with_its_period() -> None:
    requests = diurnal(50, 40_000, slo_ns=1, rng=np.random.default_rng(0), swing=0.5, period_ns=100 * 10**9)
    phase = (np.array([r.arrival_ns for r in requests]) / 1e9) % 100
    day, night = np.sum(phase < 50), np.sum(phase >= 50)
    assert day / night == pytest.approx((1 + 1 / math.pi) / (1 - 1 / math.pi), rel=0.05)


def test_traces_are_read_with_their_exits() -> None:
    requests, exits = read_trace("arrival_ms,exit\n0,1\n1.25,0\n", slo_ns=7)
    assert [(r.id, r.arrival_ns, r.deadline_ns) for r in requests] == [(0, 0, 7), (1, 1_250_000, 1_250_007)]
    assert exits is not None
    assert exits.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time\n1\n", "line 1 must name a column arrival_ms"),
        ("arrival_ms\n1\n", "line 1 must name a column slo_ms"),
        ("arrival_ms,slo_ms\n1,5\nx,5\n", "line 3 must hold numbers"),
        ("arrival_ms,slo_ms\n1,5\n0,5\n", "line 3 must not go back in time"),
        ("arrival_ms,slo_ms\n1,-5\n", "line 2 .*objective above 0"),
        ("arrival_ms,slo_ms\n1,5\n2,\n", "line 3 must hold numbers"),
        ("arrival_ms,slo_ms\n-1,5\n", "line 2 must hold an arrival from 0"),
        ("arrival_ms,slo_ms\n1,nan\n", "line 2 must hold numbers"),
        ("arrival_ms,slo_ms\n1e300,3\n", "line 2 must hold an arrival from 0 to"),
        ("arrival_ms,slo_ms\n1,1e300\n", "line 2 must hold an objective above 0 and up to"),
        ("arrival_ms,slo_ms\n1,5\n2,5,6\n", "line 3 must hold numbers"),
        ("arrival_ms,slo_ms,exit\n1,5,0\n2,5,-1\n", "line 3 must hold an exit from 0, not"),
        ("arrival_ms,arrival_ms,slo_ms\n1,2,5\n", "line 1 must name .* each column once"),
        (f"arrival_ms,slo_ms\n1,{'9' * 200_000}\n", "line 2 must be CSV"),
        ("arrival_ms,slo_ms\n1\n", "line 2 must hold numbers"),
        ("arrival_ms,slo_ms\ninf,3\n", "line 2 must hold numbers"),
        ("arrival_ms,slo_ms\n", "at least one request"),
        ("", "line 1 must name a column arrival_ms"),
    ],
)
def test_malformed_traces_name_the_line(text: str, message: str) -> None:
    with pytest.raises(TrafficError, match=message):
        read_trace(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rain", "traffic must be one of poisson, bursty, diurnal, not 'rain'"),
        ("bursty:size=3", "among: burst, share, dwell; not 'size=3'"),
        ("bursty:burst=x", "burst of bursty traffic must be a number"),
        ("bursty:burst=9:share=0.5", "bursts need"),
        ("diurnal:swing=2", "swing in 0..1"),
        ("diurnal:period=5", "period of diurnal traffic"),
    ],
)
def test_bad_traffic_text_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(TrafficError, match=message):
        generate(text, 5, 5, slo_ns=5, rng=np.random.default_rng(0))
