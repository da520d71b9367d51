"""Jobs give the same in one process and in several; what goes wrong in one is said."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from fluidnpu.scheduler import EngineError, SchedulerError
from fluidnpu.scheduler.comparison import HERE, Engine, Local, engines, in_order

ENGINES = [pytest.param(Local(processes=processes), id=str(processes)) for processes in (1, 2, 5)]
TWO = Local(processes=2)


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_in_order_with_progress(engine: Engine) -> None:
    told: list[tuple[int, int]] = []
    offset = 7  # a local function cannot be pickled

    def job(seed: int) -> int:
        return seed * 10 + offset

    done = in_order(engine, [partial(job, seed) for seed in (3, 1, 2)], lambda done, of: told.append((done, of)))
    assert done == [37, 17, 27]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert in_order(engine, []) == []


def test_the_work_is_done_in_other_processes(tmp_path: Path) -> None:
    assert os.getpid() not in in_order(TWO, [os.getpid] * 4)
    assert set(in_order(HERE, [os.getpid] * 4)) == {os.getpid()}


def test_many_jobs_are_handed_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "AT_ONCE", 3)
    assert in_order(TWO, [partial(int, k) for k in range(10)]) == list(range(10))


@pytest.mark.parametrize("engine", [HERE, TWO])
def test_an_error_of_the_job_is_raised_here(engine: Engine) -> None:
    def job(seed: int) -> int:
        if seed == 2:
            raise SchedulerError("seed 2 must not be served")
        return seed

    with pytest.raises(SchedulerError, match="seed 2 must not be served"):
        in_order(engine, [partial(job, seed) for seed in range(4)])


def test_a_process_that_dies_is_said() -> None:
    with pytest.raises(EngineError, match="a process that did one of 4 jobs has died"):
        in_order(TWO, [partial(os._exit, 3)] * 4)
