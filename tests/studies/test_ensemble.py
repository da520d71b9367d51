"""The study of ensembles: the published order holds, allocations are near their bound, files are whole."""

from typing import Any

import numpy as np
import pytest
from small_studies import check_study, small_body

from fluidnpu.scheduler.comparison import HERE
from fluidnpu.scheduler.placement.ensembles.worst_fit import worst_fit
from fluidnpu.studies import Size, find_study, run_study
from fluidnpu.studies.ensemble.bench import algorithm_2, bench, finite_rate, time_to_finish
from fluidnpu.studies.ensemble.worlds import board_problem, draw_gpus, gpu_problem, networks_of

pytest.importorskip("scipy")


Body = dict[str, Any]


def check_numbers(body: Body) -> None:
    """Check what any run shows: the published order, bounds, and turns that carry no more than is planned."""
    table, best = body["parts"]["table1"], body["parts"]["optimum"]
    for one in table.values():
        assert one is None or one["worst-fit"] <= one["bounded greedy"]
    for one in best.values():
        assert one["gap"] <= 3
        assert one["endless turns"] <= one["rate"] <= one["bound"] * (1 + 1e-6)
        assert one["turns"] < one["shares"] <= one["rate"] * (1 + 1e-6)


@pytest.mark.cpu(10, "a small study runs once for all tests of it")
def test_the_numbers_of_a_small_run() -> None:
    check_numbers(small_body("ensemble"))


@pytest.mark.long
def test_the_whole_study_is_written() -> None:
    study = find_study("ensemble")
    body = run_study(study, Size(seeds=1, requests=200), HERE, lambda done, total: None)
    check_numbers(body)
    third = body["parts"]["table3"]["IMN12 on 12"]
    assert third["bounded greedy, 10"] > third["best batch"]  # the paper's bench, its order
    check_study(study, body)


def test_workers_whose_network_has_no_samples_left_give_way() -> None:
    """Of a light network beside a heavy one: endless equal turns halve its device, a finite set does not."""
    seconds, batches = np.array([[0.1, 1.0], [9.0, 1.0]]), np.array([[8, 8], [0, 8]])
    end = time_to_finish(seconds, batches, 80, np.ones((2, 2)), False)
    # Ten light batches and three heavy ones on the first, seven heavy ones on the second: no time is lost.
    assert 80 / end == pytest.approx(finite_rate(seconds, batches, 80))
    assert (10 * 0.1 + 10 * 1.0) / 2 <= end <= (10 * 0.1 + 10 * 1.0) / 2 + 1.0


def test_planned_shares_are_kept_while_both_networks_have_work() -> None:
    """Three quarters of a device to the heavy one: it ends when the light one does."""
    seconds, batches = np.array([[0.25, 0.75]]), np.array([[8, 8]])
    alike = finite_rate(seconds, batches, 800, np.array([[0.25, 0.75]]))
    assert alike == pytest.approx(finite_rate(seconds, batches, 800))  # one device loses nothing either way
    with_other = np.array([[0.25, 0.75], [9.0, 0.75]]), np.array([[8, 8], [0, 8]])
    turns, shares = finite_rate(*with_other, 8000), finite_rate(*with_other, 8000, np.array([[0.5, 0.5], [0.0, 1.0]]))
    assert turns <= shares


def test_an_allocation_that_may_not_be_scores_nothing() -> None:
    problem = gpu_problem("IMN4", 4)
    assert bench(problem, np.zeros((5, 4), np.int64)) == 0
    start = worst_fit(problem)
    found = algorithm_2(problem, start, np.random.default_rng(0))
    assert found.rate >= bench(problem, start)
    assert found.rate == pytest.approx(bench(problem, found.matrix))


def test_drawn_worlds_are_the_same_twice() -> None:
    assert draw_gpus(3) == draw_gpus(3) != draw_gpus(4)
    assert networks_of("FOS14", 1) == networks_of("FOS14", 1)
    assert len(networks_of("CIF36", 0)) == 36


def test_boards_are_slower_than_gpus_and_hold_less() -> None:
    gpu, board = gpu_problem("IMN12", 4), board_problem("IMN12", 4)
    assert (gpu.room[:-1] > board.room[:-1]).all()
    assert np.all(board.seconds[2, :, 0] > board.seconds[0, :, 0])
    assert board.fits(worst_fit(board))
