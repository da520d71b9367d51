"""Recorded confidences give real exits and real accuracy; shedding and lazy batching do what they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scheduling_worlds import ROWS, next_run, serve_row

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import (
    Action,
    Answer,
    Outcome,
    Request,
    Run,
    SchedulerError,
    View,
    World,
    make_policy,
    measure,
    simulate,
)
from fluidnpu.scheduler.exits import Recorded
from fluidnpu.scheduler.policies.peers import Lazy, Staged

TABLE = LatencyTable(ns=((10, 15, 20, 25), (10, 16, 22, 28), (10, 16, 22, 28)))
DATA = Recorded(
    confidences=[[0.9, 0.9, 0.9], [0.3, 0.9, 0.9], [0.3, 0.4, 0.9], [0.3, 0.9, 0.9]],
    correct=[[True, True, True], [False, True, True], [False, False, True], [True, False, True]],
)


def view(waiting: Sequence[Sequence[Request]], now: int = 0) -> View:
    return View(now, waiting, TABLE, (0.2, 0.3, 0.5), 4, slots=4)


def test_thresholds_move_the_exits_and_the_rates() -> None:
    assert DATA.exits([0.8, 0.8, 0.8]).tolist() == [0, 1, 2, 1]
    assert DATA.exit_rates([0.8, 0.8, 0.8]) == (0.25, 0.5, 0.25)
    assert DATA.exit_rates([0.95, 0.95, 0.95]) == (0.0, 0.0, 1.0)


def test_accuracy_counts_the_exit_that_answered() -> None:
    samples = np.array([0, 1, 2, 3])
    limits = [0.8, 0.8, 0.8]
    requests = [Request(i, 100 * i, 100 * i + 90) for i in range(4)]

    class Hasty:
        name = "hasty"

        def reset(self) -> None:
            pass

        def decide(self, view: View) -> Action:
            return Answer(tuple(view.waiting[1])) if view.waiting[1] else Run(0, tuple(view.waiting[0]))

    exits = DATA.exits(limits)[samples].tolist()
    patient = simulate(requests, make_policy("serial"), World(latency=TABLE, exits=exits, exit_rates=[0.2, 0.3, 0.5]))
    hasty = simulate(requests, Hasty(), World(latency=TABLE, exits=exits, exit_rates=[0.2, 0.3, 0.5]))
    assert DATA.accuracy_pct(patient, samples) == DATA.patient_accuracy_pct(limits, samples) == 75
    assert DATA.accuracy_pct(hasty, samples) == 50  # samples 0 and 3 are right at the first exit
    with pytest.raises(SchedulerError, match="one sample for each of 4 requests, not 2"):
        DATA.accuracy_pct(hasty, samples[:2])


def test_bad_recordings_are_one_sentence() -> None:
    with pytest.raises(SchedulerError, match="must both be samples x exits"):
        Recorded(confidences=[[0.5, 0.5]], correct=[[True]])
    with pytest.raises(SchedulerError, match="lie in"):
        Recorded(confidences=[[1.5, 0.5]], correct=[[True, False]]).exits([0.1, 0.1])


def test_shedding_refuses_only_the_hopeless_and_counts_them() -> None:
    done = serve_row({**ROWS[0], "rate_per_s": 22}, "fluid:shed=1", count=2000)
    done.check()
    shed = [r for r in done.records if r.outcome is Outcome.SHED]
    least = ROWS[0]["latency_ns"][0][0]
    assert shed
    assert all(r.end_ns + least > r.request.deadline_ns and r.late for r in shed)
    kept, plain = measure(done), measure(serve_row({**ROWS[0], "rate_per_s": 22}, "fluid", count=2000))
    assert kept.shed_pct > 0
    assert kept.violations_pct < plain.violations_pct


def test_lazy_counts_a_batch_as_admitted_and_predicts_one_by_one() -> None:
    policy = Lazy()
    queue = [Request(i, 0, 500) for i in range(6)]
    assert len(next_run(policy, view([queue[:2], [], []])).requests) == 2
    gone = next_run(policy, view([queue[2:], [], queue[:1]]))  # one of two left early, but two still count
    assert len(gone.requests) == 2
    assert len(next_run(Lazy(exit_aware=True), view([queue[2:], [], queue[:1]])).requests) == 3
    # one sample at stage 2 needs 10; each new one is taken for 30; a slack of 75 leaves room for two
    tight = [Request(9, 0, 75)]
    policy.reset()
    assert len(next_run(policy, view([queue, [], tight])).requests) == 2
    assert policy.decide(view([queue, [], [Request(9, 0, 39)]])) == Run(2, (Request(9, 0, 39),), "catch up")


def test_staged_starts_a_parallel_batch_only_below_its_threshold_and_gives_the_oldest_every_second_turn() -> None:
    queue = [Request(i, 5, 500) for i in range(6)]
    main = [Request(10 + i, 0, 500) for i in range(2)]
    policy = Staged(tau_b=3)
    first = next_run(policy, view([queue, main, []]))
    assert (first.stage, len(first.requests)) == (0, 2)
    assert next_run(policy, view([queue[2:], main, []])).stage == 1
    assert next_run(Staged(tau_b=2), view([queue, main, []])).stage == 1
    with pytest.raises(SchedulerError, match="tau_b"):
        Staged(tau_b=0)
