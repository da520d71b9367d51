"""The inference server: many client threads submit, one thread owns the device.

Every request ends with exactly one reply or one exception. The device should run on a wall clock; arrivals
are stamped on the device's clock when `submit` is called. On a virtual clock, time advances only during jobs
and policy waits; the latter also block in real time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType

import numpy as np

from fluidnpu.scheduler import Policy, Request, Wait
from fluidnpu.scheduler.exits import ExitRule, StageCosts

from ..driver import Driver
from ..errors import DriverUsageError, GaveUpError, QueueFullError, ServerClosedError
from .runtime import Image, Reply, Runtime

LOST_IN_A_ROW = 3  # jobs given up one after another, each of other requests: the device fails, not the batch
LONGEST_SLO_NS = 10**18  # 32 years: neither floats of it nor waits of a thread overflow


class Server:
    """Serves requests from `start` (or `with`) to `close`.

    `queue_limit` bounds the requests without a reply; beyond it `submit` raises QueueFullError. `rule` and
    `costs` decide exits, see `Runtime`. A job that fails `attempts` times ends its own requests with
    GaveUpError; the device is reset, and all others are served on. The server closes only when
    `lost_in_a_row` jobs end so one after another, when the device cannot be reset or when the policy breaks
    the rules: all remaining requests end with that error, and every later `submit` names it.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        rule: ExitRule | None = None,
        costs: StageCosts | None = None,
        attempts: int = 3,
        queue_limit: int | None = None,
        lost_in_a_row: int = LOST_IN_A_ROW,
    ) -> None:
        for name, limit in (("queue_limit", queue_limit), ("lost_in_a_row", lost_in_a_row)):
            if limit is not None and limit < 1:
                raise DriverUsageError(f"{name} must be at least 1, not {limit}")
        self._driver, self._limit, self._lost_limit = driver, queue_limit, lost_in_a_row
        self._runtime = Runtime(
            driver, policy, exit_rates=exit_rates, rule=rule, costs=costs, attempts=attempts, record=False
        )
        self._changed = threading.Condition()
        self._inbox: deque[tuple[Request, Image]] = deque()
        self._futures: dict[int, Future[Reply]] = {}
        self._next_id = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._owner = threading.Thread(target=self._serve, name="npu-owner", daemon=True)
        self.answered = 0
        self.lost = 0  # requests that ended with an error

    # -- any thread ------------------------------------------------------------------------------------------

    def start(self) -> Server:
        """Start the owner thread. From now on only the server may use the driver, which must be loaded.

        Raises DriverUsageError the second time, ServerClosedError after `close`.
        """
        with self._changed:
            self._refuse_closed()
            if self._owner.ident is not None:
                raise DriverUsageError("a server must be started only once, and this one has been")
            self._owner.start()
        return self

    def submit(self, image: Image, slo_ns: int) -> Future[Reply]:
        """Queue one image (H, W, C) with a latency objective in whole ns; the reply comes with the future.

        Raises DriverUsageError, QueueFullError, ServerClosedError at once.
        """
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
        """Take no more requests, answer all that were taken, stop.

        Raises ServerClosedError when the owner thread is not done in time. Requests of a server that was
        never started end with ServerClosedError. Called on the owner thread, by a callback of a reply, it
        does not wait.
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
        """Requests without a reply."""
        return len(self._futures)

    @property
    def failures(self) -> int:
        """Failed attempts at jobs, over all time."""
        return self._runtime.failed

    @property
    def missed_interrupts(self) -> int:
        """Jobs that ended without an interrupt; each cost a whole deadline."""
        return self._driver.missed_interrupts

    @property
    def healthy(self) -> bool:
        """True while requests are accepted and no job has been given up since the last success."""
        return not self._closing and not self._runtime.lost_in_a_row

    @property
    def failure(self) -> BaseException | None:
        """The error that closed the server; None while it is open or when `close` was called."""
        return self._failure

    def _refuse_closed(self) -> None:
        if self._failure is not None:
            raise ServerClosedError(f"the server has closed for this reason: {self._failure}") from self._failure
        if self._closing:
            raise ServerClosedError("the server is closed")

    def __enter__(self) -> Server:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, answering all requests first."""
        self.close()

    # -- the owner thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while self._gather():
                try:
                    result = self._runtime.step(closed=self._closing and not self._inbox)
                except GaveUpError as error:
                    self._give_up(error)
                    continue
                if isinstance(result, Wait):
                    self._obey(result)
                else:
                    for reply in result:
                        self._resolve(reply)
        except BaseException as error:  # whatever it is, no client may wait for ever
            with self._changed:
                self._closing, self._failure = True, error
            self._end_all(error)

    def _gather(self) -> bool:
        """Admit what was submitted, blocking while there is nothing to do; False when the server must end."""
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
        """Block until a submit, a close, or the time that the policy named."""
        until_ns = wait.until_ns
        with self._changed:
            while not (self._inbox or self._closing):
                if until_ns is None:
                    self._changed.wait()
                elif (remaining_ns := until_ns - self._runtime.now_ns) <= 0:
                    return
                elif not self._changed.wait(min(remaining_ns / 1e9, threading.TIMEOUT_MAX)):
                    self._runtime.sleep_until(until_ns)  # a virtual clock has not moved by itself

    def _resolve(self, reply: Reply) -> None:
        with self._changed:
            future = self._futures.pop(reply.request_id)
            self.answered += 1
        future.set_result(reply)

    def _give_up(self, error: GaveUpError) -> None:
        """End the requests of a job that was given up and reset the device; an error closes the server."""
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
        """End every request with the error, so that no client waits for ever."""
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
