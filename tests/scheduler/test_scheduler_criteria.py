"""Criteria: their grammar, their canonical form, and the same answers for one sample, a batch and Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from criteria_worlds import EXITS, by_python, criteria
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import tables, uniform, worlds

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.exits import (
    LAST,
    NEVER,
    Bound,
    Criteria,
    Criterion,
    CriterionError,
    ExitProfile,
    PowerModel,
    Recorded,
    RuledExits,
    parse_criterion,
    warnings_of,
)
from fluidnpu.scheduler.exits.criterion import AllOf, Inequality
from fluidnpu.scheduler.exits.quantities import QUANTITIES
from fluidnpu.scheduler.exits.rule import Threshold

TABLE = LatencyTable(ns=((100, 150), (80, 120), (80, 120), (60, 90)))
PROFILE = ExitProfile(
    latency=TABLE,
    macs=(100, 150, 220, 300),
    energy_nj=(10.0, 50.0, 120.0, 200.0),
    accuracy=(0.25, 0.5, 0.6, 0.8),
    samples=80,
)
SHARES = st.sampled_from([0.0, 0.125, 0.3, 0.4, 0.5, 0.7, 1.0])

# -- the text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("(response_time > 20ms) || (confidence > 0.7)", "response_time > 20ms or confidence > 0.7"),
        ("energy_used > 100mJ", "energy > 100mJ"),
        ("exit_number == 2", "exit_number == 2"),
        ("false", "false"),
        ("!(slack<1.5ms&&confidence>=70%)", "not (slack < 1.5ms and confidence >= 0.7)"),
        ("not not confidence > .5", "not not confidence > 0.5"),
        ("(macs > 2GMAC or macs > 3MMAC) or (slack > -5us)", "macs > 2GMAC or macs > 3MMAC or slack > -5us"),
        ("confidence > [0.9, 80%,0.6]", "confidence > [0.9, 0.8, 0.6]"),
        ("service_time >= 0.0015 s", "service_time >= 1.5ms"),
        ("response_time > 2µs", "response_time > 2us"),
        (" \n accuracy\t> 1e-1 ", "accuracy > 0.1"),
        ("slack < 0s", "slack < 0ns"),
        ("(confidence > 0.5 or slack < 1ms) and macs > 1kMAC", "(confidence > 0.5 or slack < 1ms) and macs > 1kMAC"),
    ],
)
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    one = parse_criterion(text)
    assert one.text == canonical
    assert parse_criterion(canonical) == one
    assert parse_criterion(canonical).digest == one.digest


@given(criteria)
def test_any_tree_reads_back_from_its_text(criterion: Criterion) -> None:
    again = parse_criterion(criterion.text)
    assert again == criterion
    assert (again.text, again.digest) == (criterion.text, criterion.digest)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(set(QUANTITIES) - {"exit_number"})))
def test_any_value_reads_back(value: float, name: str) -> None:
    one = Criterion(Inequality(name, "<", value + 0.0))
    assert parse_criterion(one.text) == one


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "must have 'not', '(', 'false' or one of response_time"),
        ("confidence", 11, "<, <=, ==, !=, >= or > at column 11, not the end"),
        ("confidense > 0.5", 1, "not 'confidense'; did you mean 'confidence'?"),
        ("response_time > 20", 17, "a number with a unit among ns, us, ms, s at column 17, not '20'"),
        ("response_time > 20mJ", 17, "not '20mJ'"),
        ("confidence > 0.7 ms", 14, "a share such as 0.7 or 70% at column 14"),
        ("confidence == 0.7", 12, "since confidence is measured and hardly ever equals a number"),
        ("macs != 5MAC", 6, "since macs is measured"),
        ("exit_number == 1.5", 16, "a whole number without a unit"),
        ("exit_number > 2ms", 15, "a whole number without a unit"),
        ("slack < [1ms, 2ms]", 9, "only confidence takes a list"),
        ("confidence > [0.5", 18, "',' or ']' at column 18, not the end"),
        ("confidence > []", 15, "a share such as"),
        ("(confidence > 0.5", 18, "'and', 'or' or ')'"),
        ("confidence > 0.5)", 17, "'and', 'or' or the end at column 17, not ')'"),
        ("confidence > 0.5 slack < 1ms", 18, "'and', 'or' or the end"),
        ("confidence > 0.5 and", 21, "not the end"),
        ("confidence = 0.5", 12, "not '='"),
        ("response_time > 1e999s", 17, "a finite number"),
        ("response_time > 1e308s", 17, "a finite number"),
        ("(" * 60 + "false", 52, "at most 50 brackets"),
        ("not " * 60 + "false", 205, "at most 50 brackets"),
    ],
)
def test_a_slip_is_named_with_its_column(text: str, column: int, says: str) -> None:
    with pytest.raises(CriterionError) as caught:
        parse_criterion(text)
    assert caught.value.column == column
    assert says in str(caught.value)
    assert str(caught.value).count("\n") == 0


@given(st.text(alphabet="confidence slack>=<.0129[]()ms%&|!,-eor nt\0", max_size=60))
def test_any_text_is_a_criterion_or_one_sentence(text: str) -> None:
    try:
        found = parse_criterion(text)
    except CriterionError as error:
        said = str(error)
    else:
        assert parse_criterion(found.text) == found
        return
    assert said.startswith("a criterion must have")


def test_a_text_without_end_is_refused() -> None:
    with pytest.raises(CriterionError, match="at most 4096 characters, not 5000"):
        parse_criterion("(" * 5000)


def test_trees_refuse_what_no_text_says() -> None:
    with pytest.raises(SchedulerError, match="at least two parts"):
        AllOf((Inequality("slack", "<", 0.0),))
    with pytest.raises(SchedulerError, match="known quantity"):
        Inequality("speed", "<", 0.0)
    with pytest.raises(SchedulerError, match="thresholds must be numbers"):
        Criterion.of_thresholds([0.5, float("nan")])
    assert Criterion.of_thresholds([]) == NEVER
    assert Criterion.of_exit(2).text == "exit_number == 2"
    assert Criterion.of_exit(2).joined(parse_criterion("slack < 0ms")).text == "exit_number == 2 or slack < 0ns"


# -- what it decides -----------------------------------------------------------------------------------------


def facts_at(exit: int, rows: list[dict[str, float]]) -> list[dict[str, float]]:
    assert PROFILE.macs is not None
    assert PROFILE.energy_nj is not None
    assert PROFILE.accuracy is not None
    same = {
        "exit_number": exit + 1,
        "macs": PROFILE.macs[exit],
        "energy": PROFILE.energy_nj[exit],
        "accuracy": PROFILE.accuracy[exit],
    }
    return [row | same for row in rows]


@settings(max_examples=200)
@given(
    criteria,
    st.integers(0, EXITS - 2),
    st.lists(st.tuples(SHARES, st.integers(0, 300), st.integers(0, 100), st.integers(1, 500)), min_size=1, max_size=8),
)
def test_a_batch_is_decided_as_python_decides_each_sample(
    criterion: Criterion, exit: int, drawn: list[tuple[float, int, int, int]]
) -> None:
    """Times of arrival, waits and objectives are any; the clause that is named holds, and is the first."""
    now = 1000
    requests = [Request(i, now - age, now - age + slo) for i, (_, age, _, slo) in enumerate(drawn)]
    started = [now - min(age, served) for _, age, served, _ in drawn]
    said = Criteria(PROFILE, criterion).leaving(requests, started, exit, now, [sure for sure, *_ in drawn])
    rows = [
        {
            "response_time": now - request.arrival_ns,
            "service_time": now - start,
            "next_response_time": now - request.arrival_ns + TABLE.ns[exit + 1][0],
            "slack": request.deadline_ns - now,
            "confidence": sure,
        }
        for request, start, (sure, *_) in zip(requests, started, drawn, strict=True)
    ]
    for row, text in zip(facts_at(exit, rows), said, strict=True):
        clauses = [str(clause) for clause in criterion.clauses]
        holds = [by_python(clause, row, exit) for clause in clauses]
        assert bool(text) == any(holds) == by_python(criterion.text, row, exit)
        assert text == (clauses[holds.index(True)] if any(holds) else "")


def test_everybody_leaves_at_the_last_exit() -> None:
    assert Criteria(PROFILE, NEVER).leaving([Request(0, 0, 9)], [0], EXITS - 1, 5) == [LAST]


def test_thresholds_are_a_criterion_with_the_same_comparison() -> None:
    limits = [0.7, 0.5, 0.3]
    table = np.random.default_rng(0).choice([0.3, 0.5, 0.7, 0.9], (200, EXITS))
    bound = Bound(Criterion.of_thresholds(limits), PROFILE)
    assert bound.exits_alone({"confidence": table}).tolist() == Threshold(limits).exits(table).tolist()
    assert not bound.timed


def test_a_lone_sample_leaves_by_the_times_of_its_stages() -> None:
    def alone(text: str) -> int:
        return int(Bound(parse_criterion(text), PROFILE).exits_alone({}, count=1)[0])

    assert [alone(f"response_time >= {ns}ns") for ns in (100, 101, 180, 261, 10**6)] == [0, 1, 1, 3, 3]
    assert [alone(f"next_response_time > {ns}ns") for ns in (179, 180, 260, 320)] == [0, 1, 2, 3]
    assert alone("slack < 1s") == 3  # nothing is urgent
    with pytest.raises(CriterionError, match="must have the confidence of each sample"):
        alone("confidence > 0.5")


def test_the_nearest_criterion_holds_and_changes_at_once() -> None:
    criteria = Criteria(PROFILE, "false")
    mine, other = Request(0, 0, 10**6, tenant="doors"), Request(1, 0, 10**6)

    def said() -> list[str]:
        return criteria.leaving([mine, other], [0, 0], 0, 100, [0.6, 0.6])

    assert said() == ["", ""]
    criteria.set("confidence > 0.5", tenant="doors")
    assert said() == ["confidence > 0.5", ""]
    assert criteria.tenants == {"doors": parse_criterion("confidence > 0.5")}
    criteria.set("exit_number == 1", request=0)
    criteria.set("slack < 1s")
    assert said() == ["exit_number == 1", "slack < 1s"]
    criteria.forget(0)
    criteria.set(None, tenant="doors")
    assert said() == ["slack < 1s", "slack < 1s"]
    with pytest.raises(SchedulerError, match="always be a usual criterion"):
        criteria.set(None)
    with pytest.raises(CriterionError, match="a value for every exit but the last, and it has 2, so none for exit 3"):
        criteria.set("confidence > [0.5, 0.5]")


@pytest.mark.parametrize("name", ["energy", "accuracy", "macs"])
def test_what_is_not_known_is_asked_for(name: str) -> None:
    unit = {"energy": "mJ", "accuracy": "", "macs": "MMAC"}[name]
    with pytest.raises(CriterionError, match=f"a criterion over {name} must have .*, and there is none"):
        Bound(parse_criterion(f"{name} > 1{unit}"), ExitProfile(latency=TABLE))
    with pytest.raises(CriterionError, match="confidence of each sample, and none is known"):
        Criteria(PROFILE, "confidence > 0.5").leaving([Request(0, 0, 9)], [0], 0, 5)


def test_a_profile_adds_up_and_refuses_nonsense() -> None:
    power = PowerModel(idle_w=2.0, active_w=5.0)
    profile = ExitProfile.of_stages(TABLE, [1, 2, 3, 4], power)
    assert profile.macs == (1, 3, 6, 10)
    assert profile.energy_nj == (500.0, 900.0, 1300.0, 1600.0)
    assert power.energy_nj(busy_ns=100, wall_ns=300) == 900.0
    with pytest.raises(SchedulerError, match="macs must name 4 exits, not 2"):
        ExitProfile(latency=TABLE, macs=(1, 2))
    with pytest.raises(SchedulerError, match="0 <= idle <= active"):
        PowerModel(idle_w=3, active_w=2)


# -- warnings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("confidence > 70", "no sample can leave early: confidence > 70 never holds, since confidence is at most 1"),
        ("response_time < 0ms", "never holds, since response_time is at least 0"),
        ("confidence > 0.9 and confidence < 0.1", "no sample can leave early"),
        ("confidence >= 0", "every sample leaves at the first exit"),
        ("not false", "every sample leaves at the first exit"),
        ("slack < 1ms or not slack < 2ms or response_time >= 0ns", "every sample leaves at the first exit"),
        ("confidence > 0.5 or exit_number == 9", "exit_number == 9 never holds"),
        ("accuracy > 0.9", "no sample can leave early"),
        ("macs > 1MMAC", "no sample can leave early"),
    ],
)
def test_slips_are_warned_of(text: str, says: str) -> None:
    assert says in " | ".join(warnings_of(parse_criterion(text), PROFILE))


@pytest.mark.parametrize(
    "text", ["false", "confidence > 0.7", "exit_number == 2", "macs >= 150MAC", "slack < 0ms or confidence > [1, 1, 0]"]
)
def test_a_sane_criterion_is_not_warned_of(text: str) -> None:
    assert warnings_of(parse_criterion(text), PROFILE) == ()
    assert warnings_of(parse_criterion(text)) == ()


def test_too_many_combinations_are_not_judged() -> None:
    many = " or ".join(f"{name} > {k}ms" for k in range(30) for name in ("slack", "response_time", "service_time"))
    assert warnings_of(parse_criterion(f"({many}) and slack < 0ms"), PROFILE) == ()


@given(criteria, st.integers(0, EXITS - 2), SHARES, st.integers(0, 300), st.integers(-300, 300))
def test_a_warning_is_never_wrong(criterion: Criterion, exit: int, sure: float, age: int, slack: int) -> None:
    times = {"response_time": age, "service_time": age, "next_response_time": age, "slack": slack}
    row = facts_at(exit, [times | {"confidence": sure}])[0]
    holds = by_python(criterion.text, row, exit)
    said = " ".join(warnings_of(criterion, PROFILE))
    assert not (holds and "no sample can leave early" in said)
    if exit == 0 and "every sample leaves at the first exit" in said:
        assert holds


# -- in the simulator ----------------------------------------------------------------------------------------


def run(table: LatencyTable, requests: list[Request], exits: Any, policy: str = "fluid", **more: Any) -> Any:
    return simulate(requests, make_policy(policy), World(latency=table, exits=exits, exit_rates=uniform(table), **more))


@given(worlds(), st.sampled_from(["serial", "greedy", "fluid"]), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_criterion_over_confidence_makes_the_schedule_of_exits_drawn_before(
    world: tuple[LatencyTable, list[Request], list[int]], policy: str, limit: float
) -> None:
    table, requests, _ = world
    sure = np.random.default_rng(len(requests)).random((len(requests), table.stages))
    criterion = Criterion.of_thresholds([limit] * (table.stages - 1))
    profile = ExitProfile(latency=table)
    drawn = Bound(criterion, profile).exits_alone({"confidence": sure}).tolist()
    recorded = {request.id: row for request, row in zip(requests, sure.tolist(), strict=True)}
    live = RuledExits(rule=Criteria(profile, criterion), confidences=recorded)
    ruled = run(table, requests, live, policy)
    assert ruled == run(table, requests, drawn, policy)
    assert set(ruled.because) <= {criterion.text, LAST}


@given(worlds(), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_looking_ahead_is_what_anytime_answers_do(
    world: tuple[LatencyTable, list[Request], list[int]], slo: int
) -> None:
    """Alone on the NPU one after the other, with a budget for all and the same objective for all."""
    table, requests, _ = world
    requests = [Request(r.id, r.arrival_ns, r.arrival_ns + slo) for r in requests]
    profile = ExitProfile(latency=table)
    ahead = RuledExits(rule=Criteria(profile, f"next_response_time > {slo}ns"))
    never = [table.stages - 1] * len(requests)
    ruled = run(table, requests, ahead, "serial")
    anytime = run(table, requests, never, "serial:anytime=100%")
    assert (ruled.exit, ruled.end_ns) == (anytime.exit, anytime.end_ns)


@given(tables(), criteria)
@settings(max_examples=40, deadline=None)
def test_no_criterion_sees_the_future(table: LatencyTable, criterion: Criterion) -> None:
    """Two worlds that are equal until a time are served equally until then, whatever comes later."""
    stages = table.stages
    profile = ExitProfile(
        latency=table,
        macs=tuple(range(1, stages + 1)),
        energy_nj=tuple(map(float, range(stages))),
        accuracy=tuple(0.5 for _ in range(stages)),
    )
    try:
        rule = Criteria(profile, criterion)
    except CriterionError:  # a list that is shorter than the exits
        return
    early = [Request(i, 13 * i, 13 * i + 90) for i in range(5)]
    parting = early[-1].arrival_ns + 1
    late = [Request(5 + i, parting + i, parting + i + 40) for i in range(4)]
    sure = {r.id: [0.1 * ((r.id + e) % 10) for e in range(stages)] for r in early + late}
    other = sure | {r.id: [1.0] * stages for r in late}
    pasts = []
    for requests, confidences in ((early, sure), (early + late, sure), (early + late, other)):
        done = run(table, requests, RuledExits(rule=rule, confidences=confidences))
        done.check()
        pasts.append([(r.request.id, r.end_ns, r.exit) for r in done.records if r.end_ns < parting])
    assert pasts[0] == pasts[1] == pasts[2]


def test_recorded_samples_are_the_same_for_every_rule() -> None:
    data = Recorded(confidences=[[0.9, 0.99], [0.4, 0.7]], correct=[[True, True], [False, True]])
    samples, _ = data.draw([0.8], 50, np.random.default_rng(3))
    assert samples.tolist() == data.draw_samples(50, np.random.default_rng(3)).tolist()
    assert data.accuracy == (0.5, 1.0)
    assert data.accuracy_pct_at(np.array([0, 1]), np.array([0, 1, 1])) == 100
