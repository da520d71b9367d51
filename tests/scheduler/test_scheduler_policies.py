"""The baselines and Algorithm 1 do what their descriptions say; text makes policies; errors are sentences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scheduling_worlds import ROWS, next_run, serve_row

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Run, SchedulerError, View, Wait, World, make_policy, simulate
from fluidnpu.scheduler.policies import REGISTRY, Fluid

TABLE = LatencyTable(ns=((10, 15, 20, 25), (10, 16, 22, 28), (10, 16, 22, 28)))


def view(waiting: Sequence[Sequence[Request]], now: int = 0, closed: bool = False) -> View:
    return View(now, waiting, TABLE, (0.2, 0.3, 0.5), 4, closed)


def queue(*arrivals: int, slo: int = 100) -> list[Request]:
    return [Request(i, at, at + slo) for i, at in enumerate(arrivals)]


def test_serial_takes_one_sample_to_its_end() -> None:
    a, b = queue(0, 0)
    assert make_policy("serial").decide(view([[a, b], [], []])) == Run(0, (a,), "start the oldest")
    assert next_run(make_policy("serial"), view([[b], [a], []])).requests == (a,)


def test_greedy_takes_what_waits_up_to_its_limit() -> None:
    waiting = queue(0, 0, 0, 0, 0, 0)
    assert len(next_run(make_policy("greedy"), view([waiting, [], []])).requests) == 4
    assert len(next_run(make_policy("greedy:b_max=2"), view([waiting, [], []])).requests) == 2
    assert next_run(make_policy("greedy"), view([waiting[2:], [], waiting[:2]])).stage == 2


def test_adaptive_waits_for_a_full_batch_its_timeout_or_the_end() -> None:
    policy = make_policy("adaptive:timeout=30ns")
    some = queue(5, 6)
    assert policy.decide(view([some, [], []], now=10)) == Wait(35, "2 of 4 wait")
    assert isinstance(policy.decide(view([some, [], []], now=35)), Run)
    assert isinstance(policy.decide(view([some, [], []], now=10, closed=True)), Run)
    assert len(next_run(policy, view([queue(5, 6, 7, 8, 9), [], []], now=10)).requests) == 4
    waits = make_policy("adaptive-m").decide(view([some, [], []], now=10))
    assert isinstance(waits, Wait)
    assert waits.until_ns == 5 + 45


def test_fluid_back_fills_while_equation_4_holds() -> None:
    main, fresh = queue(0, 0), [Request(7, 20, 120), Request(8, 21, 121)]
    # at the entry of stage 1: two fresh samples through stage 0 (15), then four through stages 1 and 2
    # (28 + 28): 71
    assert next_run(make_policy("fluid"), view([fresh, main, []], now=28)).stage == 0  # slack 72
    assert next_run(make_policy("fluid"), view([fresh, main, []], now=29)).stage == 1  # slack 71: not below
    assert make_policy("fluid").decide(view([[], main, []], now=20)).reason == "go on: the queue is empty"


def test_fluid_fills_up_to_b_max_only_and_never_nests() -> None:
    main = queue(0, 0, 0)
    fresh = [Request(i, 5, 500) for i in (7, 8, 9)]
    assert next_run(make_policy("fluid"), view([fresh, main, []], now=5)).requests == (fresh[0],)
    fill = [Request(6, 4, 400)]
    decision = make_policy("fluid").decide(view([fresh, fill, main[:1]], now=5))
    assert decision == Run(1, tuple(fill), "bring the back-fill up to stage 2")


def test_a_late_oldest_sample_blocks_the_literal_criterion_but_not_the_repaired_one() -> None:
    late, fresh = [Request(0, 0, 10)], [Request(7, 20, 220)]
    assert next_run(Fluid(), view([fresh, late, []], now=50)).stage == 1
    assert next_run(Fluid(repaired=True), view([fresh, late, []], now=50)).stage == 0


def test_fluid_reproduces_the_papers_figure_6() -> None:
    """B_max 8, two exits: 2 leaves at E1, 3 to 6 back-fill, 6 leaves at E1, the merged four run to E2."""
    table = LatencyTable(ns=(tuple(range(20, 28)), tuple(range(20, 28))))
    requests = [
        Request(1, 0, 90),
        Request(2, 0, 90),
        *(Request(i, 5, 95) for i in (3, 4, 5, 6)),
        *(Request(i, 41, 131) for i in (7, 8)),
    ]
    exits = [1, 0, 1, 1, 1, 0, 1, 1]
    done = simulate(requests, Fluid(), World(latency=table, exits=exits, exit_rates=[0.3, 0.7]))
    assert [(r.stage, r.ids) for r in done.runs][:3] == [(0, (1, 2)), (0, (3, 4, 5, 6)), (1, (1, 3, 4, 5))]


@pytest.mark.parametrize("spec", sorted(REGISTRY))
def test_every_registered_policy_serves_a_real_stream_and_describes_itself(spec: str) -> None:
    text = "adaptive:timeout=18ms" if spec == "adaptive" else spec
    done = serve_row(ROWS[1], text, count=300)
    done.check()
    assert done.policy == text
    assert all(action.reason for _, action in done.log)
    assert REGISTRY[spec].about


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lifo", "policy must be one of adaptive, .*serial.*, not 'lifo'"),
        ("adaptive", "adaptive needs a timeout"),
        ("adaptive:timeout=18", "timeout must be a positive number with a unit"),
        ("adaptive:timeout=x%", "duration or a percentage"),
        ("adaptive:timeout=-5%", "0..1000 %"),
        ("greedy:b_max=0", "b_max must be a whole number of at least 1, not '0'"),
        ("greedy:size=3", "key among: anytime, b_max, shed; not 'size=3'"),
        ("fluid:x", "not 'x'"),
        ("", "policy must be one of"),
    ],
)
def test_bad_policy_text_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        make_policy(text)
