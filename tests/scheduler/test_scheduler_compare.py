"""Comparisons are paired, honest about unstable load, the same on two processes, and refuse bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scheduling_worlds import ROWS

from fluidnpu.scheduler import SchedulerError, Serving, compare
from fluidnpu.scheduler.comparison import Local, Source, Truth

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


def test_two_processes_find_the_same() -> None:
    policies = ["greedy", "optimal"]
    assert (
        compare(ROW, policies, **USUAL, engine=Local(processes=2)).to_dict()
        == compare(ROW, policies, **USUAL).to_dict()
    )


def test_one_seed_has_no_interval() -> None:
    assert compare(ROW, ["greedy"], **USUAL | {"seeds": 1}).to_dict()["policies"]["greedy"]["p99_ms"]["low"] is None


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
