"""Charts keep their false-alarm distance; drift is noticed soon; PAME's two rules act by their symptoms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adaptation_worlds import NAMES, joined, load, plan, served, times
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.simulation import ExitSet
from fluidnpu.scheduler.tuning import AdaptationPlan, Watching
from fluidnpu.scheduler.tuning.adapting.charts import Chart

CHAIN = ((0, 0.8), (2, 0.85))
RECORDED = load(4000, 0.3, 1)
PLAN = plan(RECORDED, CHAIN)


def run_length(chart: Chart, share: float, rng: np.random.Generator) -> int:
    level = count = 0
    while level < chart.limit:
        for yes in rng.random(1000) < share:
            level, count = chart.next(level, bool(yes)), count + 1
            if level >= chart.limit:
                break
    return count


@pytest.mark.parametrize(("share", "odds"), [(0.65, 0.5), (0.2, 2.0), (0.02, 3.0), (0.9, 0.5)])
def test_the_exact_distance_of_a_chart_is_the_simulated_one(share: float, odds: float) -> None:
    chart = Chart.of(share, odds=odds, distance=300.0)
    after = share * odds / (1 - share + share * odds)
    for true in (share, after):
        rng = np.random.default_rng(7)
        lengths = [run_length(chart, true, rng) for _ in range(250)]
        error = np.std(lengths) / np.sqrt(len(lengths))
        assert abs(np.mean(lengths) - chart.distance(true)) < 4 * error
    assert chart.distance(share) >= 300 > 4 * chart.distance(after)


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 1), odds=st.floats(0.2, 5).filter(lambda x: abs(x - 1) > 0.2), distance=st.floats(1, 3000))
def test_a_chart_keeps_the_distance_it_is_asked_for(share: float, odds: float, distance: float) -> None:
    chart = Chart.of(share, odds=odds, distance=distance)
    kept = min(max(share, 0.02), 0.98)  # charts of rarer events assume as much, which errs on the careful side
    assert chart.distance(kept) >= distance
    assert (chart.up > 0 > chart.down) == (odds > 1)
    if distance > 1 and chart.limit > max(chart.up, chart.down):
        assert Chart(up=chart.up, down=chart.down, limit=chart.limit - 1).distance(kept) < distance


def test_all_charts_together_keep_the_distance_on_the_recorded_load() -> None:
    """The mean first alarm over streams drawn from the recorded samples is at least the distance stated."""
    watching, longest, found = Watching(distance=200), 2000, []
    for seed in range(12):
        rows = np.random.default_rng(seed).integers(len(RECORDED.classes), size=longest)
        stream = joined(type(RECORDED)(RECORDED.confidence[rows], RECORDED.classes[rows]))
        _, watch, _ = served(PLAN, times(), stream, watching)
        alarms = [event.requests for event in watch.events if event.kind == "alarm"]
        found.append(alarms[0] if alarms else longest)
    assert np.mean(found) >= 200
    assert min(found) < longest  # alarms do come


def test_where_nearly_all_leave_nothing_alarms() -> None:
    """A share of 0.99 cannot rise by much, and a chart that assumes less would alarm all the time."""
    easy = load(3000, 0.02, 6)
    easy_plan = plan(easy, ((0, 0.3),))
    assert easy_plan.rates[0] > 0.98
    _, watch, _ = served(easy_plan, times(), load(3000, 0.02, 7))
    assert not watch.events


def test_a_harder_load_is_noticed_within_a_hundred_requests() -> None:
    delays = []
    for seed in range(8):
        stream = joined(load(400, 0.3, 10 + seed), load(400, 0.45, 30 + seed))
        _, watch, _ = served(PLAN, times(), stream, Watching(distance=2000))
        first = next(event for event in watch.events if event.kind == "alarm")
        assert "fewer leave at exit 1 (exit1) than expected" in first.why
        delays.append(first.requests - 400)
    assert min(delays) > 0
    assert np.mean(delays) < 100


def test_low_precision_raises_thresholds_and_the_recorded_load_brings_the_selection_back() -> None:
    stream = joined(load(600, 0.3, 2), load(2500, 0.2, 3), load(1500, 0.3, 4))
    schedule, watch, active = served(PLAN, times(), stream)
    schedule.check()
    kinds = [(event.kind, event.exits.thresholds) for event in watch.events]
    assert kinds == [
        ("alarm", (0.8, None, 0.85)),
        ("change", (0.85, None, 0.85)),
        ("holds", (0.85, None, 0.85)),
        ("alarm", (0.85, None, 0.85)),
        ("change", (0.8, None, 0.85)),
    ]
    assert active.now.exits == PLAN.exits
    assert "the threshold of exit 1 rises from 0.8 to 0.85" in watch.events[1].why
    assert "back to the selection" in watch.events[4].why
    assert len(schedule.shadows) == watch.counts.shadows > 0
    assert not watch.alarmed  # and no more shadows after the last judgement


def test_late_batches_move_the_exit_later_and_leave_thresholds_alone() -> None:
    schedule, watch, active = served(PLAN, times(head=0.25), load(2000, 0.5, 3))
    schedule.check()
    changes = [event for event in watch.events if event.kind == "change"]
    usual = PLAN.thresholds(times(head=0.25))
    assert changes[0].exits == ExitSet((None, usual[1], 0.85))
    assert "exit 1 moves to exit 2" in changes[0].why
    assert changes[-1].exits == ExitSet((None, None, None))  # no set is in time: the last exit alone always is
    assert active.now.exits.active == ()


def test_an_exit_that_moves_later_passes_those_that_are_active() -> None:
    made, parts = plan(RECORDED, ((0, 0.8), (1, 0.85))), times(head=0.25)
    _, watch, _ = served(made, parts, load(2000, 0.5, 3))
    moved = next(event for event in watch.events if "exit 1 moves" in event.why)
    usual = made.thresholds(parts)
    assert usual[1] is not None is not usual[2]
    assert moved.exits == ExitSet((None, 0.85, usual[2]))  # the second stays as it is
    assert "exit 1 moves to exit 3" in moved.why


def test_without_exits_the_selection_is_tried_again() -> None:
    stream = joined(load(1200, 0.5, 3), load(1500, 0.1, 5))
    _, watch, active = served(PLAN, times(head=0.25), stream, Watching(distance=200))
    assert any("the selection is tried again after" in event.why for event in watch.events)
    assert active.now.exits.active


def test_labels_tell_what_leave_rates_do_not() -> None:
    """Answers go wrong while as many leave as ever: only labels can show it."""
    rng = np.random.default_rng(5)
    stream = load(900, 0.3, 2)
    classes = stream.classes.copy()
    classes[300:][rng.random(600) < 0.3] = 1
    schedule, watch, _ = served(PLAN, times(), type(stream)(stream.confidence, classes))
    assert not watch.events
    taken = [watch.feedback(request.id, 0) for request in schedule.requests]
    assert all(taken)
    assert not watch.feedback(0, 0), "a label counts once"
    assert not watch.feedback(10**6, 0)
    (alarm,) = watch.events
    assert "labels say that the answer was wrong" in alarm.why


def test_shadows_with_labels_count_losses_exactly() -> None:
    stream = joined(load(300, 0.3, 2), load(900, 0.2, 3))
    _, watch, _ = served(PLAN, times(), stream, Watching(shadow=1.0, evidence=10**6))
    window = watch.window
    assert sum(window.shadows) > 100
    assert not sum(window.judged)
    for id in range(1200):
        watch.feedback(id, 0)
    assert window.judged == window.shadows
    first = next(event.requests for event in watch.events)
    left = [
        (0 if sure[0] > 0.8 else 2 if sure[2] > 0.85 else 3, classes)
        for sure, classes in zip(stream.confidence.tolist(), stream.classes.tolist(), strict=True)
    ]
    lost = [sum(int(c[e]) - int(c[3]) for e, c in left[first:] if e == exit) for exit in range(3)]
    for exit in (0, 2):  # samples of the batch that alarmed, and those under way, are not all shadows
        assert abs(window.lost[exit] - lost[exit]) <= 2


def test_a_plan_goes_through_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    path.write_bytes(PLAN.content())
    again = AdaptationPlan.read(path)
    assert (again.names, again.goal, again.chain, again.exits) == (NAMES, PLAN.goal, CHAIN, PLAN.exits)
    assert again.expected(again.exits, times()) == PLAN.expected(PLAN.exits, times())
    again.check((*NAMES, "final"))
    assert again.part_times == PLAN.part_times == times()


def test_a_plan_of_another_network_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SchedulerError, match="the plan is for the early exits exit1, exit2, exit3, and the network has a"
    ):
        PLAN.check(("a", "final"))
    path = tmp_path / "plan.npz"
    path.write_bytes(b"no plan")
    with pytest.raises(SchedulerError, match=r"plan\.npz' must be a plan that fluidnpu exits --select wrote"):
        AdaptationPlan.read(path)
    np.savez(path, confidence=np.zeros(3))
    with pytest.raises(SchedulerError, match="must be a plan"):
        AdaptationPlan.read(path)
    with pytest.raises(SchedulerError, match="shadow share must lie above 0"):
        Watching(shadow=0)
