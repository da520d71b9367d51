"""One job for many seeds gives the same in one process and in several; what goes wrong in one is said."""

from __future__ import annotations

import os

import pytest

from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.comparison.seeds import run_seeds


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_results_come_in_the_order_of_the_seeds_with_progress(processes: int) -> None:
    told: list[tuple[int, int]] = []
    offset = 7  # a local function cannot be pickled
    done = run_seeds(
        lambda seed: seed * 10 + offset,
        [3, 1, 2],
        processes=processes,
        progress=lambda done, of: told.append((done, of)),
    )
    assert done == [37, 17, 27]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_work_is_done_in_other_processes() -> None:
    ids = run_seeds(lambda seed: os.getpid(), range(4), processes=2)
    assert os.getpid() not in ids
    assert len(set(ids)) == 2
    assert set(run_seeds(lambda seed: os.getpid(), range(4))) == {os.getpid()}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_the_job_is_raised_here(processes: int) -> None:
    def job(seed: int) -> int:
        if seed == 2:
            raise SchedulerError("seed 2 must not be served")
        return seed

    with pytest.raises(SchedulerError, match="seed 2 must not be served"):
        run_seeds(job, range(4), processes=processes)


def test_a_process_that_dies_is_named_by_its_seed() -> None:
    def job(seed: int) -> int:
        if seed == 1:
            os._exit(3)
        return seed

    with pytest.raises(RuntimeError, match="the process that serves seed 1 has died"):
        run_seeds(job, range(4), processes=2)
