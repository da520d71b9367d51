"""The live front: many client threads submit, one thread owns the device, every request gets exactly one answer or one exception.

The device should run on a wall clock. Arrivals are stamped when `submit` is called, on the device's clock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from scheduler import Policy, Request, Wait

from .driver import Driver
from .errors import DriverUsageError, QueueFullError, ServerClosedError
from .runtime import Answer, Image, Runtime


class Server:
    """Serves from `start` (or `with`) to `close`.

    `queue_limit` bounds the requests that have no answer yet; beyond it `submit` raises QueueFullError instead of growing for ever.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        attempts: int = 3,
        queue_limit: int | None = None,
    ) -> None:
        if queue_limit is not None and queue_limit < 1:
            raise DriverUsageError(f"queue_limit must be at least 1, not {queue_limit}")
        self._driver, self._limit = driver, queue_limit
        self._runtime = Runtime(driver, policy, exit_rates=exit_rates, attempts=attempts, record=False)
        self._changed = threading.Condition()
        self._inbox: deque[tuple[Request, Image]] = deque()
        self._futures: dict[int, Future[Answer]] = {}
        self._next_id = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._owner = threading.Thread(target=self._serve, name="npu-owner", daemon=True)
        self.answered = 0

    # -- any thread --------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the owner thread; the driver must be loaded and must not be touched by anyone else from now on."""
        self._owner.start()
        return self

    def submit(self, image: Image, slo_ns: int) -> Future[Answer]:
        """Queue one image (H, W, C) with a latency objective. Raises DriverUsageError, QueueFullError, ServerClosedError at once."""
        if slo_ns < 1:
            raise DriverUsageError(f"a latency objective must be at least 1 ns, not {slo_ns}")
        stored = self._driver.encode(image)  # in the caller's thread: a bad image is the caller's, and a copy is made
        future: Future[Answer] = Future()
        with self._changed:
            if self._closing:
                raise ServerClosedError("the server is closed") from self._failure
            if self._limit is not None and len(self._futures) >= self._limit:
                raise QueueFullError(f"{len(self._futures)} requests wait for an answer already, the most allowed")
            now = self._runtime.now_ns
            request = Request(self._next_id, now, now + slo_ns)
            self._next_id += 1
            self._inbox.append((request, stored))
            self._futures[request.id] = future
            self._changed.notify()
        return future

    def close(self, timeout_s: float | None = None) -> None:
        """Take no more requests, answer all that were taken, stop. ServerClosedError when the owner is not done in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._owner.ident is None:
            return
        self._owner.join(timeout_s)
        if self._owner.is_alive():
            raise ServerClosedError(f"{len(self._futures)} requests are still without an answer after {timeout_s} s")

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._futures)

    @property
    def failures(self) -> int:
        """Failed jobs that were run again."""
        return self._runtime.failed

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, answering everyone first."""
        self.close()

    # -- the owner thread --------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while self._gather():
                outcome = self._runtime.step(closed=self._closing and not self._inbox)
                if isinstance(outcome, Wait):
                    self._obey(outcome)
                else:
                    for answer in outcome:
                        self._resolve(answer)
        except BaseException as error:  # whatever it is, no client may wait for ever
            self._abandon(error)

    def _gather(self) -> bool:
        """Admit what came; block while there is nothing to do; False when there will never be."""
        with self._changed:
            while not (self._inbox or self._runtime.busy or self._closing):
                self._changed.wait()
            while self._inbox:
                request, image = self._inbox.popleft()
                if self._futures[request.id].set_running_or_notify_cancel():
                    self._runtime.admit(request, image)
                else:
                    del self._futures[request.id]
        return self._runtime.busy or not self._closing

    def _obey(self, wait: Wait) -> None:
        """Block until someone submits or closes, or the time the policy named has come."""
        with self._changed:
            while not (self._inbox or self._closing):
                left_ns = None if wait.until_ns is None else wait.until_ns - self._runtime.now_ns
                if left_ns is not None and left_ns <= 0:
                    return
                self._changed.wait(None if left_ns is None else left_ns / 1e9)

    def _resolve(self, answer: Answer) -> None:
        with self._changed:
            future = self._futures.pop(answer.request_id)
            self.answered += 1
        future.set_result(answer)

    def _abandon(self, error: BaseException) -> None:
        with self._changed:
            self._closing, self._failure = True, error
            orphans = list(self._futures.values())
            self._futures.clear()
            self._inbox.clear()
        for future in orphans:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(error)
