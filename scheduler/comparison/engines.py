"""Engines do many jobs that know nothing of each other: in this process, or in forked ones.

A job is a function without arguments whose result depends on nothing but itself, so the engine changes no
number. What is spread are seeds, points of studies and of the twin, candidates of a tuning and designs.
`RayEngine` (host/fleet) does them in a cluster.

>>> sorted(Local().results([lambda: "a", lambda: "b"]))
[(0, 'a'), (1, 'b')]
>>> in_order(Local(processes=2), [lambda: 10, lambda: 20])
[10, 20]
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from ..errors import EngineError

T = TypeVar("T")
Job = Callable[[], T]
Progress = Callable[[int, int], None]
PR_SET_PDEATHSIG = 1  # of prctl(2)
AT_ONCE = 1024  # jobs that are handed to workers


class Engine(Protocol):
    """Does jobs in any order."""

    def results(self, jobs: Sequence[Job[T]]) -> Generator[tuple[int, T], None, None]:
        """Yield place and result of each job as it ends; no further job begins when the iterator is closed.

        Raises what a job raises, and EngineError where whoever did it has died.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """Runs jobs on this machine: one after another in this process, or several at once in forked ones.

    Forked processes inherit the jobs, so those need not be picklable; their results must be.
    """

    processes: int = 1

    def results(self, jobs: Sequence[Job[T]]) -> Generator[tuple[int, T], None, None]:
        """Do as `Engine` says. Raises EngineError when a process dies."""
        processes = min(self.processes, len(jobs))
        if processes <= 1:
            for place, job in enumerate(jobs):
                yield place, job()
            return
        pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_begin, initargs=(jobs,))
        try:
            for part in in_parts(len(jobs)):
                waiting = {pool.submit(_job, place): place for place in part}
                for future in as_completed(waiting):
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        raise EngineError(f"a process that did one of {len(jobs)} jobs has died") from None
                    yield waiting[future], result
        finally:
            pool.shutdown(cancel_futures=True)


def in_parts(jobs: int) -> list[range]:
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


def in_order(engine: Engine, jobs: Sequence[Job[T]], progress: Progress | None = None) -> list[T]:
    """Return the results of all jobs in their order. Raises as `Engine.results`.

    `progress` is called with the jobs done and their number, first with none done.
    """
    tell = progress or (lambda done, of: None)
    tell(0, len(jobs))
    results: dict[int, T] = {}
    for place, result in engine.results(jobs):
        results[place] = result
        tell(len(results), len(jobs))
    return [results[place] for place in range(len(jobs))]
