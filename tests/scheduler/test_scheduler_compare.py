"""Comparisons are paired, name unstable load and refuse bad input; traffic has its stated statistics."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scheduling_worlds import ROWS

from fluidnpu.dse import DesignError
from fluidnpu.dse.testing import tiny_design
from fluidnpu.scheduler import SchedulerError, Serving, TrafficError, compare, make_policy
from fluidnpu.scheduler.comparison import Source, Truth, serve_stream
from fluidnpu.scheduler.simulation import halve_early_exits
from fluidnpu.scheduler.simulation.traffic import bursty, diurnal, generate, read_trace

ROW = Serving.loads(json.dumps(ROWS[1]), "row 1")
USUAL: dict[str, Any] = {"rate_per_s": 40, "slo_ns": 100_000_000, "requests": 600, "seeds": 2}


def test_all_policies_meet_the_same_samples() -> None:
    usual, bursty = (Source(rate_per_s=40, slo_ns=10**8, count=50, truth=t) for t in (Truth(), Truth(traffic="bursty")))
    drawn, other = usual.draw(ROW, 3), bursty.draw(ROW, 3)
    assert drawn.exits == other.exits
    assert drawn.requests != other.requests
    assert usual.draw(ROW, 3) == drawn


def test_json_has_every_metric_with_its_interval() -> None:
    result = compare(ROW, ["fluid", "credit:anytime=3%"], **USUAL)
    body = json.loads(result.to_json())
    assert body["seeds"] == 2
    assert body["warmup_requests"] == 30
    for policy in ("fluid", "credit:anytime=3%"):
        for key in ("violations_pct", "average_ms", "p99_ms"):
            cell = body["policies"][policy][key]
            assert cell["low"] <= cell["mean"] <= cell["high"]
    assert body["policies"]["credit:anytime=3%"]["note"].startswith("weights: resnet50-zcu104")
    assert "fluid" in result.table()


def test_unstable_load_gives_no_numbers() -> None:
    body = compare(ROW, ["serial"], **USUAL | {"rate_per_s": 90, "requests": 3000}).to_dict()
    assert body["policies"]["serial"]["unstable"] is True
    assert body["policies"]["serial"]["p99_ms"]["mean"] is None
    assert body["least_load"] > 1
    assert "unstable" in compare(ROW, ["serial"], **USUAL | {"rate_per_s": 90, "requests": 3000}).table()


def test_a_policy_that_cannot_keep_up_is_unstable_by_arithmetic_however_short_the_run() -> None:
    """Its largest batch and its cost a run are known, so no backlog has to build up first."""
    alone = sum(ROW.latency.ns[s][0] * sum(ROW.exit_rates[s:]) for s in range(4)) / 1e9
    names = [
        "serial",
        "greedy:b_max=1",
        "adaptive:timeout=5%:b_max=1",
        "greedy",
        "lazy:layers=56:cost=9ms",
        "lazy:layers=56",
    ]
    found = compare(ROW, names, **USUAL | {"rate_per_s": 1.001 / alone, "requests": 50})
    assert [found.unstable(name) for name in names] == [True, True, True, False, True, False]
    below = compare(ROW, names[:3], **USUAL | {"rate_per_s": 0.999 / alone, "requests": 50})
    assert not any(map(below.unstable, names[:3]))
    slow = compare(
        ROW, ["serial"], **USUAL | {"rate_per_s": 0.999 / alone, "requests": 50}, truth=Truth(latency_factor=1.01)
    )
    assert slow.unstable("serial")


def test_numbers_that_still_rise_with_the_length_of_the_run_are_said_to() -> None:
    near: dict[str, Any] = {"rate_per_s": 0.999 / ROW.least_load(1), "requests": 500, "seeds": 20}
    assert "latency still rose through the runs" in compare(ROW, ["greedy"], **USUAL | near).note("greedy")
    assert compare(ROW, ["greedy"], **USUAL | {"seeds": 20}).note("greedy") == ""


def test_lazy_runs_by_layers_also_when_it_sheds_and_cannot_answer_between_them() -> None:
    kept, shedding = compare(ROW, ["lazy:layers=56", "lazy:layers=56:shed=1"], **USUAL).metrics.values()
    assert len(kept[0].stage_batches) == len(shedding[0].stage_batches) == 56
    assert shedding[0].shed_pct > 0
    with pytest.raises(SchedulerError, match="anytime does not fit"):
        compare(ROW, ["lazy:anytime=3%"], **USUAL)
    with pytest.raises(SchedulerError, match="anytime does not fit"):
        compare(ROW, ["lazy:anytime=3%:shed=1"], **USUAL)


def test_two_processes_find_the_same() -> None:
    policies = ["greedy", "optimal"]
    assert compare(ROW, policies, **USUAL, processes=2).to_dict() == compare(ROW, policies, **USUAL).to_dict()


def test_one_seed_has_no_interval() -> None:
    assert compare(ROW, ["greedy"], **USUAL | {"seeds": 1}).to_dict()["policies"]["greedy"]["p99_ms"]["low"] is None


def test_a_design_is_served_with_its_macs() -> None:
    body = compare(
        Serving.of(tiny_design(), (0.5, 0.5)), ["greedy"], rate_per_s=10**6, slo_ns=10**5, requests=200, seeds=1
    ).to_dict()
    assert body["policies"]["greedy"]["busy_mac_efficiency_pct"]["mean"] > 0
    with pytest.raises(SchedulerError, match="no exit rates"):
        compare(tiny_design(), ["greedy"], rate_per_s=5, slo_ns=5)


def test_a_design_file_is_read_and_a_changed_one_refused() -> None:
    text = tiny_design().dumps()
    with pytest.raises(SchedulerError, match="no exit rates"):
        Serving.loads(text)
    with pytest.raises(DesignError, match="changed by hand"):
        Serving.loads(text.replace('"t_r": 64', '"t_r": 32'))


def test_truth_may_differ_from_belief() -> None:
    truth = Truth(exit_rates=halve_early_exits(ROW.exit_rates))
    drawn = Source(rate_per_s=40, slo_ns=10**8, count=4000, truth=truth).draw(ROW, 0)
    assert np.mean(np.array(drawn.exits) == 3) > 0.8
    fast, slow = (
        serve_stream(ROW, make_policy("serial"), drawn.requests, drawn.exits, Truth(latency_factor=f))
        for f in (0.9, 1.0)
    )
    assert fast.runs[0].end_ns - fast.runs[0].start_ns == round(0.9 * (slow.runs[0].end_ns - slow.runs[0].start_ns))


def test_lazy_is_served_layer_by_layer_and_pays_for_it() -> None:
    drawn = Source(rate_per_s=30, slo_ns=10**8, count=200).draw(ROW, 0)
    free, paid = (
        serve_stream(ROW, make_policy(f"lazy:layers=8:cost={c}"), drawn.requests, drawn.exits) for c in ("0", "1ms")
    )
    assert free.stages == 8
    assert set(free.exit) <= {1, 3, 5, 7}
    assert sum(paid.end_ns) > sum(free.end_ns)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate_per_s": 0}, "rate must be above zero"),
        ({"slo_ns": 0}, "objective must be above zero"),
        ({"seeds": 0}, "at least one policy and one seed"),
        ({"requests": 0}, "at least one request"),
        ({"truth": Truth(latency_factor=0)}, "latency factor must be above zero"),
    ],
)
def test_bad_comparisons_are_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        compare(ROW, ["greedy"], **USUAL | change)
    with pytest.raises(SchedulerError, match="named once each"):
        compare(ROW, ["greedy", "greedy"], **USUAL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be a design or hold latency_ns and exit_rates"),
        ('{"latency_ns": [[1]], "exit_rates": [0.5]}', "sum to 1"),
        ('{"latency_ns": [1], "exit_rates": [1]}', "rows of numbers"),
        ('{"latency_ns": [[1, 2], [3]], "exit_rates": [0.5, 0.5]}', "must have 2 batch sizes"),
        ('{"latency_ns": [[1, -2]], "exit_rates": [1]}', "above zero"),
    ],
)
def test_inconsistent_tables_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Serving.loads(text)
