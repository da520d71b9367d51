"""Engines do many jobs that know nothing of each other: here, in forked processes, or in a Ray cluster.

A job is a function without arguments whose result depends on nothing but itself, so the engine changes no
number. What is spread are seeds, points of studies and of the twin, candidates of a tuning and designs.

>>> sorted(Local().results([lambda: "a", lambda: "b"]))
[(0, 'a'), (1, 'b')]
>>> in_order(Local(processes=2), [lambda: 10, lambda: 20])
[10, 20]
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from ..errors import EngineError, SchedulerError

T = TypeVar("T")
Job = Callable[[], T]
Progress = Callable[[int, int], None]
PR_SET_PDEATHSIG = 1  # of prctl(2)
AT_ONCE = 1024  # jobs that are handed to workers
TRIES = 3  # a node of Ray that is busy may miss its own limits


class Engine(Protocol):
    """Does jobs in any order."""

    def results(self, jobs: Sequence[Job[T]]) -> Generator[tuple[int, T], None, None]:
        """Yield place and result of each job as it ends; no further job begins when the iterator is closed.

        Raises what a job raises, and EngineError where whoever did it has died.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """On this machine, one job after another in this process, or so many forked ones at once.

    Forked processes inherit the jobs, so those need not be picklable; their results must be.
    """

    processes: int = 1

    def results(self, jobs: Sequence[Job[T]]) -> Generator[tuple[int, T], None, None]:
        """Do as `Engine` says."""
        processes = min(self.processes, len(jobs))
        if processes <= 1:
            for place, job in enumerate(jobs):
                yield place, job()
            return
        pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_begin, initargs=(jobs,))
        try:
            for part in _parts(len(jobs)):
                waiting = {pool.submit(_job, place): place for place in part}
                for future in as_completed(waiting):
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        raise EngineError(f"a process that did one of {len(jobs)} jobs has died") from None
                    yield waiting[future], result
        finally:
            pool.shutdown(cancel_futures=True)


def _parts(jobs: int) -> list[range]:
    """Cut a million jobs into parts whose bookkeeping is small."""
    return [range(first, min(first + AT_ONCE, jobs)) for first in range(0, jobs, AT_ONCE)]


HERE = Local()
_jobs: Sequence[Job[Any]] = ()  # of a forked process


def _begin(jobs: Sequence[Job[Any]]) -> None:
    """Take the jobs over, and ask Linux to end this worker when the process that forked it ends."""
    global _jobs
    _jobs = jobs
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _job(place: int) -> Any:
    return _jobs[place]()


@dataclass(frozen=True, kw_only=True)
class Ray:
    """In a Ray cluster that exists, by its address; every node must have this fluidnpu installed.

    A job whose node is lost is done again by another. Raises SchedulerError where Ray is not installed, and
    EngineError where the cluster cannot be reached.
    """

    address: str

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise SchedulerError("the engine 'ray' needs Ray, which is not installed: pip install 'fluidnpu[ray]'")

    def results(self, jobs: Sequence[Job[T]]) -> Generator[tuple[int, T], None, None]:
        """Do as `Engine` says."""
        import ray

        joined = not ray.is_initialized()
        if joined:
            self._join(ray)
        places: dict[Any, int] = {}
        try:
            done = ray.remote(max_retries=-1)(_called)
            for part in _parts(len(jobs)):
                places |= {done.remote(jobs[place]): place for place in part}
                while places:
                    (first, *_), _ = ray.wait(list(places), num_returns=1)
                    result = _got(ray, first)
                    yield places.pop(first), result
        finally:
            for one in places:
                ray.cancel(one, force=True)
            if joined:
                ray.shutdown()

    def _join(self, ray: Any) -> None:
        for left in reversed(range(TRIES)):
            try:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # Ray has many, and each means that there is no cluster
                ray.shutdown()
                if not left:
                    said = str(error).strip().splitlines() or [type(error).__name__]
                    raise EngineError(
                        f"a Ray cluster must be reached at {self.address}, and it is not: {said[0]}"
                    ) from None
            else:
                return


def _called(job: Job[T]) -> T:
    return job()


def _got(ray: Any, reference: Any) -> Any:
    """Return a result. Raises what the job raised, and EngineError for troubles of the cluster."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EngineError(f"the Ray cluster could not do a job: {str(error).strip().splitlines()[0]}") from None


def in_order(engine: Engine, jobs: Sequence[Job[T]], progress: Progress | None = None) -> list[T]:
    """Return the results of all jobs in their order. Raises as `Engine.results`.

    `progress` is called with the jobs done and their number, first with none done.
    """
    tell = progress or (lambda done, of: None)
    tell(0, len(jobs))
    found: dict[int, T] = {}
    for place, result in engine.results(jobs):
        found[place] = result
        tell(len(found), len(jobs))
    return [found[place] for place in range(len(jobs))]
