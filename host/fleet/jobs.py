"""Jobs in a Ray cluster: a task each, on any node with a free processor."""

from __future__ import annotations

import importlib.util
import logging
import socket
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fluidnpu.scheduler import EngineError, comparison

from ..errors import DriverUsageError
from .fronts.shards import TRIES

T = TypeVar("T")
ANSWERS_S = 5.0  # in which a cluster takes a connection


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Runs jobs in a Ray cluster that exists, by its address; every node must have this fluidnpu installed.

    A job whose node is lost is done again by another. Raises DriverUsageError where Ray is not installed, and
    EngineError where the cluster cannot be reached.
    """

    address: str

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise DriverUsageError("the engine 'ray' needs Ray, which is not installed: pip install 'fluidnpu[ray]'")
        if not self._host or not 0 < self._port < 1 << 16:
            raise DriverUsageError(f"the address of a Ray cluster must be HOST:PORT, not '{self.address}'")

    @property
    def _host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def _port(self) -> int:
        text = self.address.rpartition(":")[2]
        return int(text) if text.isascii() and text.isdigit() else 0

    def results(self, jobs: Sequence[Callable[[], T]]) -> Generator[tuple[int, T], None, None]:
        """Do as `Engine` says."""
        import ray

        joined = not ray.is_initialized()
        if joined:
            self._join(ray)
        places: dict[Any, int] = {}
        try:
            done = ray.remote(max_retries=-1)(_call)
            for part in comparison.in_parts(len(jobs)):
                places |= {done.remote(jobs[place]): place for place in part}
                while places:
                    (first, *_), _ = ray.wait(list(places), num_returns=1)
                    result = _got(ray, first)
                    yield places.pop(first), result
        finally:
            for unfinished in places:
                ray.cancel(unfinished, force=True)
            if joined:
                ray.shutdown()

    def _join(self, ray: Any) -> None:
        for left in reversed(range(TRIES)):
            try:
                socket.create_connection((self._host, self._port), ANSWERS_S).close()  # Ray itself asks for minutes
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # Ray has many, and each means that there is no cluster
                ray.shutdown()
                if not left:
                    lines = str(error).strip().splitlines() or [type(error).__name__]
                    raise EngineError(
                        f"a Ray cluster must be reached at {self.address}, and it is not: {lines[0]}"
                    ) from None
            else:
                return


def _call(job: Callable[[], T]) -> T:
    return job()


def _got(ray: Any, reference: Any) -> Any:
    """Return a result. Raises what the job raised, and EngineError for troubles of the cluster."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EngineError(f"the Ray cluster could not do a job: {str(error).strip().splitlines()[0]}") from None
