"""The baselines do what their descriptions say."""

from __future__ import annotations

from scheduling_worlds import next_run, queue, view

from fluidnpu.scheduler import Run, Wait, make_policy


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
