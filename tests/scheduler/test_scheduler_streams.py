"""Streams of traces and recorded confidences: the same to every policy, refused where they make no sense."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scheduling_worlds import ROWS

from fluidnpu.scheduler import (
    Request,
    SchedulerError,
    Serving,
    TrafficError,
    compare,
)
from fluidnpu.scheduler.comparison import Local, Source, Truth, compare_streams
from fluidnpu.scheduler.exits import Recorded

SERVING = Serving.loads(json.dumps({**ROWS[0], "name": "row"}))
RATE, SLO_NS = 15.0, 200 * 10**6


def trace(count: int = 300, exits: bool = False) -> tuple[str, list[Request], list[int]]:
    drawn = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=count).draw(SERVING, 5)
    stream, leave = drawn.requests, drawn.exits
    head = "arrival_ms,slo_ms" + (",exit" if exits else "")
    rows = [f"{r.arrival_ns / 1e6:.6f},200" + (f",{e}" if exits else "") for r, e in zip(stream, leave, strict=True)]
    return "\n".join([head, *rows]) + "\n", stream, leave


def test_synthetic_streams_are_those_of_compare() -> None:
    source = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=400, truth=Truth(traffic="mmpp:burst=2"))
    told: list[tuple[int, int]] = []
    found = compare_streams(SERVING, ["greedy"], source, seeds=2, progress=lambda done, of: told.append((done, of)))
    same = compare(SERVING, ["greedy"], rate_per_s=RATE, slo_ns=SLO_NS, requests=400, seeds=2, truth=source.truth)
    assert found.comparison.to_dict() == same.to_dict()
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)


def test_a_trace_with_exits_is_one_stream_and_gives_the_schedule_it_was_made_of() -> None:
    text, stream, leave = trace(exits=True)
    source = Source.of_trace(text, slo_ns=None, rate_per_s=None, source="t.csv")
    drawn = source.draw(SERVING, 3)
    assert drawn.requests == stream
    assert drawn.exits == leave
    assert source.slo_ns == SLO_NS
    assert source.rate_per_s == pytest.approx(RATE, rel=0.2)
    found = compare_streams(SERVING, ["greedy", "fluid"], source, seeds=30)
    assert len(found.comparison.metrics["fluid"]) == 1
    assert found.to_dict()["traffic"] == "t.csv"


def test_a_trace_without_exits_draws_them_anew_for_each_seed() -> None:
    source = Source.of_trace(trace()[0], slo_ns=None, rate_per_s=20.0)
    first, second = source.draw(SERVING, 0), source.draw(SERVING, 1)
    assert first.requests == second.requests
    assert first.exits != second.exits
    assert source.rate_per_s == 20.0


def test_a_short_overloaded_trace_keeps_its_numbers_but_endless_traffic_does_not() -> None:
    text = "arrival_ms\n" + "".join(f"{10 * k}\n" for k in range(50))  # 100/s where 23/s can be served
    ended = compare_streams(SERVING, ["greedy"], Source.of_trace(text, slo_ns=SLO_NS, rate_per_s=None), seeds=2)
    assert not ended.comparison.unstable("greedy")
    endless = compare_streams(SERVING, ["greedy"], Source(rate_per_s=100, slo_ns=SLO_NS, count=50), seeds=2)
    assert endless.comparison.unstable("greedy")
    assert endless.to_dict()["policies"]["greedy"]["p99_ms"] == {"mean": None, "low": None, "high": None}


def test_traces_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TrafficError, match=r"exits in the trace must be 0\.\.3, not 4"):
        compare_streams(
            SERVING, ["greedy"], Source.of_trace("arrival_ms,exit\n1,0\n2,4\n", slo_ns=1, rate_per_s=None), seeds=1
        )
    with pytest.raises(TrafficError, match=r"line 3 must hold an exit from 0 to 3, as the latency table has"):
        Source.of_trace("arrival_ms,exit\n1,0\n2,4\n", slo_ns=1, rate_per_s=None, stages=4)
    with pytest.raises(TrafficError, match="more than one time"):
        Source.of_trace("arrival_ms\n1\n1\n", slo_ns=1, rate_per_s=None)
    with pytest.raises(SchedulerError, match="at least one seed"):
        compare_streams(SERVING, ["greedy"], Source(rate_per_s=1, slo_ns=1, count=1), seeds=0)


def table(count: int = 200) -> Recorded:
    rng = np.random.default_rng(3)
    sure = np.sort(rng.random((count, 4)), axis=1)
    return Recorded(confidences=sure, correct=rng.random((count, 4)) < sure)


def test_recorded_confidences_decide_exits_and_accuracy_is_lost_by_anytime_answers_only() -> None:
    recorded, limits = table(), (0.8, 0.8, 0.8, 0.0)
    serving = Serving(latency=SERVING.latency, exit_rates=recorded.exit_rates(limits))
    source = Source(rate_per_s=22.0, slo_ns=SLO_NS, count=1500, recorded=recorded, thresholds=limits)
    found = compare_streams(serving, ["fluid", "fluid:anytime=3%", "lazy:layers=8"], source, seeds=2)
    assert found.accuracy_lost_points["fluid"].mean == 0
    assert found.accuracy_lost_points["lazy:layers=8"].mean == 0
    assert found.comparison.metrics["fluid:anytime=3%"][0].anytime_pct > 0
    assert found.accuracy_lost_points["fluid:anytime=3%"].mean != 0
    assert found.to_dict()["policies"]["fluid"]["accuracy_pct"]["mean"] == found.accuracy_pct["fluid"].mean
    drawn = source.draw(serving, 0)
    assert drawn.exits == recorded.exits(limits)[drawn.samples].tolist()


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_change_no_number(processes: int) -> None:
    recorded, limits = table(), (0.8, 0.8, 0.8, 0.0)
    source = Source(rate_per_s=RATE, slo_ns=SLO_NS, count=300, recorded=recorded, thresholds=limits)
    found = compare_streams(SERVING, ["greedy"], source, seeds=3, engine=Local(processes=processes))
    assert [m.exit_pct for m in found.comparison.metrics["greedy"]] == [
        m.exit_pct for m in compare_streams(SERVING, ["greedy"], source, seeds=3).comparison.metrics["greedy"]
    ]


def test_lazy_answers_at_the_exits_of_its_stages_and_what_it_sheds_is_wrong() -> None:
    names = ["greedy", "lazy:layers=12", "lazy:layers=12:shed=1"]
    source = Source(rate_per_s=15, slo_ns=SLO_NS, count=300, recorded=table(), thresholds=(0.8, 0.8, 0.8, 0))
    accuracy = compare_streams(SERVING, names, source, seeds=2).accuracy_pct
    assert accuracy["greedy"] == accuracy["lazy:layers=12"]
    assert accuracy["lazy:layers=12:shed=1"].mean < accuracy["greedy"].mean
