"""One job for many seeds, in this process or spread over forked ones; the numbers are the same.

>>> run_seeds(lambda seed: 10 * seed, range(3))
[0, 10, 20]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")
Progress = Callable[[int, int], None]


def run_seeds(
    job: Callable[[int], T], seeds: Sequence[int], *, processes: int = 1, progress: Progress | None = None
) -> list[T]:
    """Return the job's result for each seed, in order.

    `progress` is called with the seeds done and their number, first with none done. An error of the job is
    raised here.
    """
    tell = progress or (lambda done, of: None)
    tell(0, len(seeds))
    results = []
    for result in _forked(job, seeds, processes) if min(processes, len(seeds)) > 1 else map(job, seeds):
        results.append(result)
        tell(len(results), len(seeds))
    return results


def _forked(job: Callable[[int], T], seeds: Sequence[int], processes: int) -> Iterator[T]:
    """Yield the results from forked processes, which inherit the job, so it need not be picklable."""
    fork, ends = get_context("fork"), []
    workers = []
    try:
        for first in range(min(processes, len(seeds))):
            here, there = fork.Pipe(duplex=False)
            workers.append(fork.Process(target=_work, args=(job, seeds[first::processes], there), daemon=True))
            workers[-1].start()
            there.close()
            ends.append(here)
        for place in range(len(seeds)):
            try:
                error, result = ends[place % processes].recv()
            except EOFError:
                raise RuntimeError(f"the process that serves seed {seeds[place]} has died") from None
            if error is not None:
                raise error
            yield result
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work(job: Callable[[int], T], seeds: Sequence[int], end: Connection) -> None:
    for seed in seeds:
        try:
            end.send((None, job(seed)))
        except Exception as error:
            end.send((error, None))
