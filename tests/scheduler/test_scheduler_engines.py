"""Jobs give the same by every engine; what goes wrong in one is said. Ray: where the extra is installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from fluidnpu.scheduler import EngineError, SchedulerError
from fluidnpu.scheduler.comparison import HERE, Engine, Local, Ray, engines, in_order

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


def test_an_engine_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SchedulerError, match="the engine 'ray' needs Ray, which is not installed"):
        Ray(address="127.0.0.1:6379")


# -- Ray, in a cluster of two nodes ------------------------------------------------------------------------

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ray]:
    from fluidnpu.host.fleet.cluster import LocalCluster

    with LocalCluster(nodes=2, boards=1) as nodes:
        yield Ray(address=nodes.address)


@pytest.mark.long
@needs_ray
def test_a_cluster_gives_what_this_process_gives(cluster: Ray, tmp_path: Path) -> None:
    offset = 7

    def job(seed: int) -> tuple[int, int]:
        if seed == 9:
            raise SchedulerError("seed 9 must not be served")
        return seed * 10 + offset, os.getpid()

    done = in_order(cluster, [partial(job, seed) for seed in range(8)])
    assert [value for value, _ in done] == [10 * seed + offset for seed in range(8)]
    assert os.getpid() not in {pid for _, pid in done}
    with pytest.raises(SchedulerError, match="seed 9 must not be served"):
        in_order(cluster, [partial(job, seed) for seed in (1, 9)])
    with closing(cluster.results([partial(job, seed) for seed in range(8)])) as some:
        next(some)  # and the others are given up
    once = tmp_path / "died"

    def dies_once() -> int:
        if not once.exists():
            once.touch()
            os._exit(3)
        return 5

    assert in_order(cluster, [dies_once]) == [5], "what a dead worker had is done again"


@pytest.mark.long
@needs_ray
def test_a_cluster_that_is_none_is_said() -> None:
    with pytest.raises(EngineError, match=r"a Ray cluster must be reached at 127\.0\.0\.1:1, and it is not"):
        in_order(Ray(address="127.0.0.1:1"), [int])
