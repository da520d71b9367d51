"""The live front: many client threads submit, one thread owns the device, every request gets exactly one answer or one exception.

The device should run on a wall clock. Arrivals are stamped when `submit` is called, on the device's clock. A virtual clock stands still but
for jobs and for the time that a policy waits, which is waited for real first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import numpy as np

from fluidnpu.scheduler import Policy, Request, Wait

from ..driver import Driver
from ..errors import DriverUsageError, GaveUpError, QueueFullError, ServerClosedError
from .runtime import Image, Reply, Runtime

LOST_IN_A_ROW = 3  # jobs given up one after another, each of other requests: then it is the device, not the batch
LONGEST_SLO_NS = 10**18  # 32 years: floats of it and waits of a thread do not overflow


class Server:
    """Serves from `start` (or `with`) to `close`.

    `queue_limit` bounds the requests that have no answer yet; beyond it `submit` raises QueueFullError instead of growing for ever.
    A job that fails `attempts` times ends its own requests with GaveUpError; the device is reset, and everyone else is served on. Only when
    `lost_in_a_row` jobs end so one after another, when the device cannot be reset or when the policy breaks the rules does the server
    close: all requests left end with that error, and every later `submit` says it.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        attempts: int = 3,
        queue_limit: int | None = None,
        lost_in_a_row: int = LOST_IN_A_ROW,
    ) -> None:
        for name, limit in (("queue_limit", queue_limit), ("lost_in_a_row", lost_in_a_row)):
            if limit is not None and limit < 1:
                raise DriverUsageError(f"{name} must be at least 1, not {limit}")
        self._driver, self._limit, self._lost_limit = driver, queue_limit, lost_in_a_row
        self._runtime = Runtime(driver, policy, exit_rates=exit_rates, attempts=attempts, record=False)
        self._changed = threading.Condition()
        self._inbox: deque[tuple[Request, Image]] = deque()
        self._futures: dict[int, Future[Reply]] = {}
        self._next_id = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._owner = threading.Thread(target=self._serve, name="npu-owner", daemon=True)
        self.answered = 0
        self.lost = 0  # requests that ended with an error

    # -- any thread --------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the owner thread; the driver must be loaded and must not be touched by anyone else from now on.

        Raises DriverUsageError the second time, ServerClosedError after `close`.
        """
        with self._changed:
            self._refuse_closed()
            if self._owner.ident is not None:
                raise DriverUsageError("a server must be started only once, and this one has been")
            self._owner.start()
        return self

    def submit(self, image: Image, slo_ns: int) -> Future[Reply]:
        """Queue one image (H, W, C) with a latency objective in whole ns. Raises DriverUsageError, QueueFullError, ServerClosedError at once."""
        slo_ns = _objective(slo_ns)
        stored = self._driver.encode(image)  # in the caller's thread: a bad image is the caller's, and a copy is made
        future: Future[Reply] = Future()
        with self._changed:
            self._refuse_closed()
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
        """Take no more requests, answer all that were taken, stop. ServerClosedError when the owner is not done in time.

        Requests of a server that was never started end with ServerClosedError. Called by a callback of an answer, on the owner thread, it does
        not wait.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
            started = self._owner.ident is not None
        if not started:
            self._end_all(ServerClosedError("the server was closed before it was started"))
        if not started or threading.current_thread() is self._owner:
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
        """Failed jobs; each was run again, but for the last attempt at one that was given up."""
        return self._runtime.failed

    @property
    def missed_interrupts(self) -> int:
        """Jobs that ended while no interrupt told of it; each cost a whole deadline."""
        return self._driver.missed_interrupts

    @property
    def healthy(self) -> bool:
        """Whether requests are taken and no job has been given up since one ended well."""
        return not self._closing and not self._runtime.lost_in_a_row

    @property
    def failure(self) -> BaseException | None:
        """What closed the server; None while it is open or when `close` did."""
        return self._failure

    def _refuse_closed(self) -> None:
        if self._failure is not None:
            raise ServerClosedError(f"the server has closed for this reason: {self._failure}") from self._failure
        if self._closing:
            raise ServerClosedError("the server is closed")

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
                try:
                    outcome = self._runtime.step(closed=self._closing and not self._inbox)
                except GaveUpError as error:
                    self._give_up(error)
                    continue
                if isinstance(outcome, Wait):
                    self._obey(outcome)
                else:
                    for answer in outcome:
                        self._resolve(answer)
        except BaseException as error:  # whatever it is, no client may wait for ever
            with self._changed:
                self._closing, self._failure = True, error
            self._end_all(error)

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
        until_ns = wait.until_ns
        with self._changed:
            while not (self._inbox or self._closing):
                if until_ns is None:
                    self._changed.wait()
                elif (left_ns := until_ns - self._runtime.now_ns) <= 0:
                    return
                elif not self._changed.wait(min(left_ns / 1e9, threading.TIMEOUT_MAX)):
                    self._runtime.sleep_until(until_ns)  # a virtual clock has not moved by itself

    def _resolve(self, answer: Reply) -> None:
        with self._changed:
            future = self._futures.pop(answer.request_id)
            self.answered += 1
        future.set_result(answer)

    def _give_up(self, error: GaveUpError) -> None:
        """End the requests of a job that was given up, and reset the device for the others. Raises what must close the server."""
        with self._changed:
            futures = [self._futures.pop(id) for id in error.request_ids]
        self.lost += len(futures)
        for future in futures:
            future.set_exception(error)
        if self._runtime.lost_in_a_row >= self._lost_limit:
            raise GaveUpError(
                f"{self._runtime.lost_in_a_row} jobs one after another were given up; the last: {error}"
            ) from error
        self._driver.recover()

    def _end_all(self, error: BaseException) -> None:
        """No request may wait for ever."""
        with self._changed:
            orphans = list(self._futures.values())
            self._futures.clear()
            self._inbox.clear()
        for future in orphans:
            if future.running() or future.set_running_or_notify_cancel():
                self.lost += 1
                future.set_exception(error)


def _objective(slo_ns: int) -> int:
    if not isinstance(slo_ns, int | np.integer) or isinstance(slo_ns, bool) or not 1 <= slo_ns <= LONGEST_SLO_NS:
        raise DriverUsageError(
            f"a latency objective must be a whole number of ns in 1..{LONGEST_SLO_NS}, not {slo_ns!r}"
        )
    return int(slo_ns)
