"""The inference server: many client threads submit, one thread owns the device.

Every request ends with exactly one reply or one exception. The device should run on a wall clock; arrivals
are stamped on the device's clock when `submit` is called. On a virtual clock, time advances only during jobs
and policy waits; the latter also block in real time.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType

import numpy as np

from fluidnpu.scheduler import Policy, Request, Wait
from fluidnpu.scheduler.exits import Criteria, ExitRule, StageCosts
from fluidnpu.scheduler.simulation import EXPIRED, ActiveExits, Terms, Watcher
from fluidnpu.scheduler.tenants import Shared

from ..devices import claims
from ..devices.device import VirtualClock
from ..driver import Driver
from ..errors import DriverUsageError, ExpiredError, GaveUpError, QueueFullError, ServerClosedError, ShedError
from .replies import Fate, Image, Observer, Refusal, Reply
from .runtime import Runtime

_log = logging.getLogger(__name__)
LOST_IN_A_ROW = 3  # jobs given up one after another, each of other requests: the device fails, not the batch
REFUSED_IN_A_ROW = 100  # decisions that broke the rules; beyond, the policy is no use, not the decision
LONGEST_SLO_NS = 10**18  # 32 years: neither floats of it nor waits of a thread overflow


class _Ticket(Future[Reply]):
    """One request and the future of its reply; cancelled, it is withdrawn unless its first run has begun."""

    def __init__(self, request: Request, image: Image, terms: Terms, left: Callable[[int], None]) -> None:
        super().__init__()
        self.request, self.image, self.terms, self._left = request, image, terms, left

    def cancel(self) -> bool:
        """Give the request up; False when it has its answer already."""
        fresh, cancelled = not self.cancelled(), super().cancel()
        if fresh and cancelled:
            self._left(self.request.id)
        return cancelled


class Server:
    """Serves requests from `start` (or `with`) to `close`.

    `queue_limit` bounds the requests without a reply; beyond it `submit` raises QueueFullError. `rule`,
    `costs`, `networks`, `observers`, `active` and `watch`: see `Runtime`. A job that fails `attempts` times
    ends its own requests with GaveUpError; the device is reset, and all others are served on. The server
    closes only when `lost_in_a_row` jobs end so one after another, when the device cannot be reset or when
    the policy breaks the rules in more than REFUSED_IN_A_ROW decisions running: all remaining requests end
    with that error, and every later `submit` names it. Where tenants share the NPU, a tenant always has its
    share of `queue_limit`, whatever the others ask.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        rule: ExitRule | Criteria | Sequence[ExitRule | Criteria] | None = None,
        costs: StageCosts | None = None,
        attempts: int = 3,
        networks: Mapping[str, int] | None = None,
        queue_limit: int | None = None,
        lost_in_a_row: int = LOST_IN_A_ROW,
        observers: Sequence[Observer] = (),
        active: ActiveExits | None = None,
        watch: Watcher | None = None,
    ) -> None:
        for name, limit in (("queue_limit", queue_limit), ("lost_in_a_row", lost_in_a_row)):
            if limit is not None and limit < 1:
                raise DriverUsageError(f"{name} must be at least 1, not {limit}")
        self._driver, self._limit, self._lost_limit = driver, queue_limit, lost_in_a_row
        self._observers = tuple(observers)
        self._runtime = Runtime(
            driver,
            policy,
            exit_rates=exit_rates,
            rule=rule,
            costs=costs,
            attempts=attempts,
            record=False,
            observers=observers,
            active=active,
            watch=watch,
            networks=networks,
            meanwhile=self._tell,
            patience=REFUSED_IN_A_ROW,
        )
        self._changed = threading.Condition()
        self._decided: list[Fate] = []  # fates that nobody has been told yet
        self._inbox: deque[_Ticket] = deque()  # what the owner thread has not seen yet
        self._leavers: deque[int] = deque()  # ids of requests that were cancelled since
        self._tickets: dict[int, _Ticket] = {}
        self._by_tenant: Counter[str] = Counter()  # of those
        self._deadlines: list[tuple[int, int]] = []  # a heap of (deadline, id) of those that may be answered early
        self._timer: threading.Thread | None = None
        self._next_id = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._owner = threading.Thread(target=self._serve, name="npu-owner", daemon=True)
        self._busy_since_s: float | None = None  # when the owner's present step began
        self.answered = 0
        self.left = 0  # requests that were withdrawn since their client had left
        self.shed = 0  # requests that were refused by the policy or by their own terms
        self.lost = 0  # requests that ended with another error

    # -- any thread ------------------------------------------------------------------------------------------

    def start(self) -> Server:
        """Start the owner thread. From now on only the server may use the driver, which must be loaded.

        Raises DriverUsageError the second time, DeviceInUseError while another server has the device,
        ServerClosedError after `close`.
        """
        with self._changed:
            self._refuse_closed()
            if self._owner.ident is not None:
                raise DriverUsageError("a server must be started only once, and this one has been")
            claims.take(self._driver.device, self._driver)
            self._owner.start()
        return self

    def submit(self, image: Image, terms: Terms) -> Future[Reply]:
        """Queue one image (H, W, C) on terms that name a latency objective; the reply comes with the future.

        An `anytime` answer leaves at the deadline also while the NPU still works on the next exit. A request
        that has not begun at its timeout ends with ExpiredError, one that the policy sheds with ShedError. A
        future that is cancelled withdraws its request, unless that has begun. Raises SchedulerError,
        DriverUsageError, QueueFullError, ServerClosedError at once.
        """
        slo_ns = _objective(terms.slo_ns)
        network = self._network_of(terms.tenant)
        if terms.timeout_ns is not None:
            _objective(terms.timeout_ns)
        if terms.criterion is not None:
            terms = replace(terms, criterion=self.criteria_of(network).bound(terms.criterion).criterion)
        # in the caller's thread: a bad image is the caller's, and a copy is made
        stored = self._driver.encode(image, network)
        with self._changed:
            self._refuse_closed()
            self._refuse_full(terms.tenant)
            now = self._runtime.now_ns
            request = Request(self._next_id, now, now + slo_ns, terms.tenant)
            ticket = _Ticket(request, stored, terms, self._leave)
            self._next_id += 1
            self._inbox.append(ticket)
            self._tickets[request.id] = ticket
            self._by_tenant[terms.tenant] += 1
            if terms.anytime and not isinstance(self._driver.device.clock, VirtualClock):
                self._watch(request)
            self._changed.notify_all()
        return ticket

    def close(self, timeout_s: float | None = None) -> None:
        """Take no more requests, answer all that were taken, stop.

        Raises ServerClosedError when the owner thread is not done in time. Requests of a server that was
        never started end with ServerClosedError. Called on the owner thread, by a callback of a reply, it
        does not wait.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            started = self._owner.ident is not None
        if not started:
            self._end_all(ServerClosedError("the server was closed before it was started"))
        if not started or threading.current_thread() is self._owner:
            return
        self._owner.join(timeout_s)
        if self._owner.is_alive():
            raise ServerClosedError(f"{len(self._tickets)} requests are still without an answer after {timeout_s} s")

    def wait_closed(self) -> None:
        """Wait for the owner thread to end: by `close`, or by a failure."""
        self._owner.join()

    @property
    def criteria(self) -> Criteria:
        """The criteria in force, which may be changed while serving, from any thread.

        Raises DriverUsageError on a server whose exits are decided by a rule of one's own.
        """
        return self.criteria_of(0)

    def criteria_of(self, network: int) -> Criteria:
        """Return the criteria of one of several networks. Raises as `criteria`.

        Raises DriverUsageError where a rule of one's own decides.
        """
        if not self._runtime.criteria:
            raise DriverUsageError("a server whose exits are decided by a rule of one's own has no criteria")
        return self._runtime.criteria[network]

    @property
    def active(self) -> ActiveExits | None:
        """The table of active exits, to be changed while serving from any thread; None without one."""
        return self._runtime.ledger.active

    @property
    def adoption_ns(self) -> tuple[int, ...]:
        """The times in ns from the last decisions to change exits to the next batch each."""
        return tuple(self._runtime.adoption_ns)

    @property
    def waiting(self) -> int:
        """Requests without a reply."""
        return len(self._tickets)

    @property
    def stalled_s(self) -> float:
        """Seconds that the owner thread has spent in its present job; 0 between jobs."""
        since_s = self._busy_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @property
    def slots(self) -> int:
        """Samples that the device can hold at once."""
        return self._driver.slots

    @property
    def held(self) -> int:
        """Slots that hold a sample."""
        return self._runtime.ledger.held

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

    def _network_of(self, tenant: str) -> int:
        """Return the network of a tenant's requests. Raises SchedulerError and DriverUsageError."""
        policy, networks = self._runtime.policy, self._runtime.networks
        if not tenant and len(networks) == 1 and not (isinstance(policy, Shared) and policy.tenancy.networks):
            return 0
        if not isinstance(policy, Shared):
            raise DriverUsageError(f"a server without tenants takes requests that name none, not '{tenant:.60}'")
        policy.tenancy.named(tenant)
        return networks.of_tenant.get(tenant, 0)

    def _refuse_full(self, name: str) -> None:
        """Refuse a request that finds no room; the lock is held.

        Of several tenants each has room for its share, which others do not take; the rest is anybody's.
        """
        if self._limit is None:
            return
        policy, counts = self._runtime.policy, self._by_tenant
        tenants = policy.tenancy.all if isinstance(policy, Shared) else ()
        own = {tenant.name: int(tenant.share * self._limit) for tenant in tenants}
        taken = len(self._tickets) + sum(max(0, room - counts[tenant_name]) for tenant_name, room in own.items())
        if taken >= self._limit and counts[name] >= own.get(name, 0):
            whose = f" of tenant '{name}'" if own else ""
            raise QueueFullError(f"{counts[name]} requests{whose} wait for an answer already, the most allowed")

    def _leave(self, id: int) -> None:
        """Have a request withdrawn whose client has left."""
        self._leavers.append(id)
        with self._changed:
            self._changed.notify_all()

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
                self._step()
            self._tell()
        except BaseException as error:  # whatever it is, no client may wait for ever
            _log.error("the server closes: %s", error)
            with self._changed:
                self._closing, self._failure = True, error
            try:
                self._tell()
            finally:
                self._end_all(error)
        finally:
            claims.give_back(self._driver.device)
        with self._changed:
            self._changed.notify_all()  # the timer ends, too

    def _step(self) -> None:
        """Take one decision and act on it; fates are told when the next job has begun, or none follows."""
        self._busy_since_s = time.monotonic()
        try:
            result = self._runtime.step(closed=self._closing and not self._inbox)
        except GaveUpError as error:
            self._give_up(error)
        else:
            self._busy_since_s = None
            if isinstance(result, Wait):
                self._tell()
                self._obey(result)
            else:
                self._decided += result
        if not self._runtime.ledger.busy:
            self._tell()
        self._busy_since_s = None

    def _tell(self) -> None:
        """Tell the clients what has been decided of their requests."""
        decided, self._decided = self._decided, []
        for fate in decided:
            self._resolve(fate)

    def _gather(self) -> bool:
        """Admit what was submitted, blocking while there is nothing to do; False when the server must end."""
        with self._changed:
            self._admit()
        if self._runtime.ledger.busy:
            return True
        self._tell()  # no job follows, since the clients of all others have left
        with self._changed:
            self._admit()
            while not (self._runtime.ledger.busy or self._closing):
                self._changed.wait()
                self._admit()  # maybe nothing: what came may have been cancelled
        return self._runtime.ledger.busy

    def _admit(self) -> None:
        """Hand what was submitted to the policy, and withdraw whose client has left; the lock is held."""
        while self._inbox:
            ticket = self._inbox.popleft()
            self._runtime.admit(ticket.request, ticket.image, ticket.terms)
        if self._leavers:
            leavers = [self._leavers.popleft() for _ in range(len(self._leavers))]
            for id in self._runtime.withdraw(leavers):
                self._pop(id).set_running_or_notify_cancel()
                self.left += 1

    def _pop(self, id: int) -> _Ticket:
        """Take a request off the list, since its fate is known; the lock is held."""
        ticket = self._tickets.pop(id)
        self._by_tenant[ticket.request.tenant] -= 1
        return ticket

    def _obey(self, wait: Wait) -> None:
        """Block until a submit, a close, or the time that the policy or a request's terms name."""
        ends = [at for at in (wait.until_ns, self._runtime.ledger.next_end_ns()) if at is not None]
        until_ns = min(ends, default=None)
        with self._changed:
            while not (self._inbox or self._leavers or self._closing):
                if until_ns is None:
                    self._changed.wait()
                elif (remaining_ns := until_ns - self._runtime.now_ns) <= 0:
                    return
                elif not self._changed.wait(min(remaining_ns / 1e9, threading.TIMEOUT_MAX)):
                    self._runtime.sleep_until(until_ns)  # a virtual clock has not moved by itself

    def _resolve(self, fate: Fate) -> None:
        with self._changed:
            ticket = self._pop(fate.request_id)
        self._end(ticket, fate if isinstance(fate, Reply) else _refusal_error(fate))

    def _end(self, ticket: _Ticket, fate: Reply | BaseException) -> None:
        """Tell a client the fate of its request, if it has not left meanwhile."""
        if not ticket.set_running_or_notify_cancel():
            return
        with self._changed:  # counted before anybody knows it
            self.answered += isinstance(fate, Reply)
            self.shed += isinstance(fate, ShedError)
            self.lost += not isinstance(fate, Reply | ShedError)
        if isinstance(fate, Reply):
            ticket.set_result(fate)
        else:
            ticket.set_exception(fate)

    def _give_up(self, error: GaveUpError) -> None:
        """End the requests of a job that was given up and reset the device; an error closes the server."""
        with self._changed:
            tickets = [self._pop(id) for id in error.request_ids]
        for ticket in tickets:
            self._end(ticket, error)
        if self._runtime.lost_in_a_row >= self._lost_limit:
            raise GaveUpError(
                f"{self._runtime.lost_in_a_row} jobs one after another were given up; the last: {error}"
            ) from error
        self._driver.recover()

    def _end_all(self, error: BaseException) -> None:
        """End every request with the error, so that no client waits for ever."""
        with self._changed:
            orphans = list(self._tickets.values())
            for table in (self._tickets, self._by_tenant, self._inbox, self._leavers, self._deadlines):
                table.clear()
            self._changed.notify_all()
        for ticket in orphans:
            self._end(ticket, error)

    # -- answers at the deadline -----------------------------------------------------------------------------

    def _watch(self, request: Request) -> None:
        """Have the request answered at its deadline, also while the NPU runs; the lock is held."""
        if len(self._deadlines) > 2 * len(self._tickets) + 64:  # most are of requests that were answered long ago
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._tickets]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (request.deadline_ns, request.id))
        if self._timer is None:
            self._timer = threading.Thread(target=self._answer_on_time, name="npu-deadlines", daemon=True)
            self._timer.start()

    def _answer_on_time(self) -> None:
        """Answer requests at their deadlines with the exit that they have passed, until the server ends."""
        while True:
            with self._changed:
                while not self._deadlines or (left := self._deadlines[0][0] - self._runtime.now_ns) > 0:
                    if self._failure is not None or (self._closing and not self._tickets):
                        return
                    self._changed.wait(min(left / 1e9, threading.TIMEOUT_MAX) if self._deadlines else None)
                _, id = heapq.heappop(self._deadlines)
                passed = self._runtime.ledger.take_passed(id) if id in self._tickets else None
                ticket = None if passed is None else self._pop(id)
            if passed is not None and ticket is not None:
                reply = replace(passed, end_ns=self._runtime.now_ns)
                for observer in self._observers:
                    observer.answered_early(reply)
                self._end(ticket, reply)


def _refusal_error(refusal: Refusal) -> ShedError:
    waited_ms = refusal.latency_ns / 1e6
    if refusal.reason == EXPIRED:
        return ExpiredError(f"{EXPIRED}: {waited_ms:.1f} ms", refusal.latency_ns)
    reason = f" ({refusal.reason})" if refusal.reason else ""
    return ShedError(f"the request was shed after {waited_ms:.1f} ms in the queue{reason}", refusal.latency_ns)


def _objective(slo_ns: int | None) -> int:
    if not isinstance(slo_ns, int | np.integer) or isinstance(slo_ns, bool) or not 1 <= slo_ns <= LONGEST_SLO_NS:
        raise DriverUsageError(
            f"a latency objective must be a whole number of ns in 1..{LONGEST_SLO_NS}, not {slo_ns!r}"
        )
    return int(slo_ns)
