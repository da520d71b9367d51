"""Timelines and excerpts of a schedule: the stretch that is shown is the one with a merge."""

import xml.etree.ElementTree as ET
from functools import lru_cache

import numpy as np
import pytest

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Schedule, Serving, World, draw_exits, make_policy, poisson, simulate
from fluidnpu.scheduler.comparison import Source
from fluidnpu.studies.drawing import decisions_from, first_merge, first_schedules, looks, schedule_timeline
from fluidnpu.studies.drawing.excerpts import DECISIONS
from fluidnpu.studies.drawing.page import page_template
from fluidnpu.studies.drawing.timeline import Bar, SampleRow, batch_timeline

TABLE = LatencyTable(ns=((20_000, 30_000, 40_000, 50_000),) * 2)
RATES = (0.4, 0.6)
ROWS = [SampleRow(label=f"sample {i}", arrival_us=10.0 * i, end_us=10.0 * i + 90, exit=i % 2) for i in range(5)]
BARS = [Bar(row=i, start_us=10.0 * i + 20, end_us=10.0 * i + 60, stage=0, batch=5) for i in range(5)]


@lru_cache
def schedule(policy: str) -> Schedule:
    rng = np.random.default_rng(3)
    requests = poisson(30_000, 300, slo_ns=400_000, rng=rng)
    world = World(latency=TABLE, exits=draw_exits(RATES, 300, rng).tolist(), exit_rates=RATES)
    return simulate(requests, make_policy(policy), world)


def test_a_timeline_is_whole_svg_that_says_its_labels_and_never_changes_by_itself() -> None:
    text = batch_timeline(ROWS, BARS, ("early", "final"))
    ET.fromstring(text)
    for label in ("sample 4", "to early", "waits", "µs"):
        assert label in text
    assert batch_timeline(ROWS, BARS, ("early", "final")) == text


def test_a_long_stretch_is_labelled_in_milliseconds() -> None:
    late = [SampleRow(label="late", arrival_us=0.0, end_us=30_000.0, exit=0)]
    assert "time (ms)" in batch_timeline(late, [], ("only",))


def test_the_first_merge_joins_samples_that_began_apart() -> None:
    done = schedule("fluid")
    first = first_merge(done)
    assert first is not None
    begun: dict[int, int] = {}
    merged: list[tuple[int, ...]] = []
    for number, run in enumerate(done.runs):
        if run.stage == 0:
            begun.update(dict.fromkeys(run.ids, number))
        elif len({begun[key] for key in run.ids}) > 1:
            merged.append(run.ids)
    assert first == max(0, min(merged[0]) - 2)  # requests are numbered by arrival
    large = first_merge(done, at_least=3)
    assert large == next(max(0, min(ids) - 2) for ids in merged if len(ids) >= 3)


def test_serial_never_merges() -> None:
    assert first_merge(schedule("serial")) is None


def test_a_stretch_shows_its_requests() -> None:
    text = schedule_timeline(schedule("fluid"), 5, ("early", "final"), label="image")
    assert "image 5" in text
    assert "image 18" in text
    assert "image 4<" not in text
    assert "image 19" not in text


def test_decisions_begin_with_the_arrival_and_say_why() -> None:
    done = schedule("fluid")
    said = decisions_from(done, 10)
    assert len(said) == DECISIONS
    assert said[0].at_ms == 0
    assert [one.at_ms for one in said] == sorted(one.at_ms for one in said)
    assert {one.what.split()[0] for one in said} <= {"run", "wait,", "wait", "answer", "shed"}
    assert all(one.why for one in said if one.what.startswith("run"))


def test_the_first_seed_is_served_by_every_policy_but_those_that_run_by_layers() -> None:
    serving = Serving(latency=TABLE, exit_rates=RATES)
    source = Source(rate_per_s=20_000, slo_ns=400_000, count=50)
    schedules = first_schedules(serving, source, ["serial", "fluid", "lazy:layers=8"])
    assert list(schedules) == ["serial", "fluid"]
    assert schedules["serial"].requests == schedules["fluid"].requests


def test_looks_are_told_apart() -> None:
    found = looks([f"policy {n}" for n in range(20)])
    assert len({(look.colour, look.dashes) for look in found.values()}) == 20


def test_an_unknown_page_is_an_error() -> None:
    with pytest.raises(Exception, match="no_such_page"):
        page_template("fluidnpu.studies.drawing", "no_such_page.html.j2")
