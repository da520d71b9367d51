"""Algorithm 1 back-fills as its equations say, and reproduces a figure of the paper."""

from __future__ import annotations

from scheduling_worlds import next_run, queue, view

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Run, World, make_policy, simulate
from fluidnpu.scheduler.policies import Fluid


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
