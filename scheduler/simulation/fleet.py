"""Discrete-event simulator of many boards behind one front: links, hand-overs, losses. Plain Python.

A board is a `Ledger` with a policy of its own, so one board without links behaves as `engine.simulate`, and
any policy serves. Times are integer nanoseconds.

The front gives a request a route, and sends it to the board of the route's first pool that it predicts to be
free first, among a few drawn. A sample that does not leave in a pool goes on to the next one of its route.
What a lost board held is sent again, once the front has noticed. Events at one nanosecond come in the order
of `Event`, then of their request and board; an arrival at the front comes before deliveries.

>>> table = LatencyTable(ns=((10, 15), (10, 15)))
>>> pool = FleetPool(latency=table, slots=4, boards=(0,), local=(0, 1), each_ns=20)
>>> front = FrontPlan(pools=(pool,), routes=((0,),), until=(SHARES,))
>>> from fluidnpu.scheduler import make_policy
>>> greedy = make_policy("greedy")
>>> two = FleetSimulator(front, [greedy], arrival_ns=[0, 5], deadline_ns=[100, 105], exits=[0, 1])
>>> [(r.answered_ns, r.left) for r in two.serve().requests]
[(10, 0), (30, 1)]
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import IntEnum

from fluidnpu.dse import LatencyTable

from ..policy import Answer, Policy, Request, Run, Wait
from .flight import Flight
from .ledger import Ledger, by_arrival

SHARES = 2**31 - 1  # of which routes have theirs; a prime
NOBODY = -1
_SALTS = 8  # attempts of a request after which its draws repeat
_ANY_ROUTE, _NEXT_HOP = 7, 32  # where the draws begin of a board of any route, and of a later hop


class Event(IntEnum):
    """Kinds of an event, in their order at one time. A delivery to NOBODY is one back to the front."""

    BACK = 0
    NOTICED = 1
    LOST = 2
    DELIVER = 3
    ASK = 4


@dataclass(frozen=True, kw_only=True)
class FleetPool:
    """Boards that do the same, by their numbers, and what they do; times in ns.

    `latency`: as policies and front believe, a row a stage; `overhead_ns` is added to every run. `local`: by
    exit of the network the stage at which its samples leave the pool answered, -1 where they go on. `rates`:
    the share of the pool's samples that leaves at each stage. `each_ns`: of one more request, by which the
    front predicts. `in_ns`, `out_ns` and `answer_ns`: time on the board's link of a sample that comes, goes
    on or is answered; `hop_ns`: the link's delay.
    """

    latency: LatencyTable
    slots: int
    boards: tuple[int, ...]
    local: tuple[int, ...]
    each_ns: int
    rates: tuple[float, ...] = ()
    overhead_ns: int = 0
    in_ns: int = 0
    out_ns: int = 0
    answer_ns: int = 0
    hop_ns: int = 0

    def leaves(self, exit: int) -> int:
        """Return the stage at which samples of an exit of the network leave the pool, answered or not."""
        return self.local[exit] if self.local[exit] >= 0 else self.latency.stages - 1


@dataclass(frozen=True, kw_only=True)
class FrontPlan:
    """The front that sends requests to boards: its pools, routes and draws.

    `routes`: pools of each, in order; `until`: their shares of SHARES, summed. `head_ns`: time of a sample on
    the front's own link. `notice_ns`: from the loss of a board until the front knows. `choices`: boards that
    it compares for a request. `seed`: of all draws.
    """

    pools: tuple[FleetPool, ...]
    routes: tuple[tuple[int, ...], ...]
    until: tuple[int, ...]
    head_ns: int = 0
    notice_ns: int = 0
    seed: int = 0
    choices: int = 2


def draw(seed: int, request: int, salt: int) -> int:
    """Return a number of 0..SHARES - 1 that depends on nothing but its arguments.

    >>> draw(0, 0, 0), draw(1, 0, 0)
    (927533850, 1893660920)
    """
    value = ((request * 64 + salt + 1) * 48271 + seed % SHARES) % SHARES
    value = ((value ^ value >> 15) * 69621 + 12345) % SHARES
    return ((value ^ value >> 13) * 48271 + salt) % SHARES


@dataclass(slots=True)
class FleetRequest:
    """A request, the exit that was drawn for it, its place on its route, and its fate.

    `sent`: times that the front sent it. `left`: the exit of its answer, -1 for one that was shed.
    """

    request: Request
    exit: int
    route: int = 0
    hop: int = 0
    sent: int = 0
    left: int = -1
    answered_ns: int = -1


@dataclass(eq=False)
class FleetBoard:
    """A board: what waits and runs on it, and what the front knows of it.

    `number`: of its pool. `free_ns`: time from which its link is idle. `busy_ns`: end of its run. `asked_ns`:
    time of its next question. `owed`: requests sent and not back. `known` (to the front) follows `alive` a
    little later.
    """

    number: int
    pool: FleetPool
    policy: Policy
    free_ns: int = 0
    busy_ns: int = 0
    asked_ns: int | None = None
    owed: int = 0
    alive: bool = True
    known: bool = True
    running: Run | None = None
    ledger: Ledger[Flight] = field(init=False)

    def __post_init__(self) -> None:
        self.policy.reset()
        self.ledger = self._idle()

    def empty(self) -> list[Request]:
        """Forget all that waits and runs, and return it."""
        gone = [flight.request for flight in self.ledger.flights.values()]
        self.ledger, self.running = self._idle(), None
        return gone

    def _idle(self) -> Ledger[Flight]:
        pool, b_max = self.pool, self.pool.latency.b_max
        return Ledger(
            policy=self.policy.name,
            latency=pool.latency,
            exit_rates=pool.rates,
            b_max=b_max,
            slots=pool.slots,
            record=False,
        )

    def finish_ns(self, now_ns: int) -> int:
        """Predict as the front does when all that the board owes is done."""
        return max(self.busy_ns, self.free_ns, now_ns) + self.owed * self.pool.each_ns


class FleetSimulator:
    """Serves requests on many boards, once. Columns by request, in order of arrival.

    `policies`: that of each pool's boards, each of which gets a copy. `faults`: time, board and whether it is
    BACK or LOST. `free_ns`: of boards, when they take the first request.
    """

    def __init__(
        self,
        front: FrontPlan,
        policies: Sequence[Policy],
        *,
        arrival_ns: Sequence[int],
        deadline_ns: Sequence[int],
        exits: Sequence[int],
        faults: Iterable[tuple[int, int, Event]] = (),
        free_ns: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.front = front
        boards = {
            k: FleetBoard(number, pool, deepcopy(policy))
            for number, (pool, policy) in enumerate(zip(front.pools, policies, strict=True))
            for k in pool.boards
        }
        self.boards = [boards[k] for k in range(len(boards))]
        for k, time_ns in free_ns:
            self.boards[k].free_ns = time_ns
        columns = zip(arrival_ns, deadline_ns, exits, strict=True)
        self.requests = [FleetRequest(Request(k, at, end), exit) for k, (at, end, exit) in enumerate(columns)]
        self.arrived = 0
        self.head_ns = 0  # when the front's own link is idle
        self.heap = [(at, kind, 0, board) for at, board, kind in faults]
        heapq.heapify(self.heap)
        self.events = self.decisions = self.again = 0
        self.runs: Counter[tuple[int, int]] = Counter()  # by pool and batch

    def serve(self) -> FleetSimulator:
        """Serve all; return itself. Raises PolicyError when a policy breaks the rules."""
        while self.heap or self.arrived < len(self.requests):
            self.events += 1
            if self._arrives_by(self.heap[0][:2] if self.heap else None):
                self._arrive()
                continue
            now, kind, request, board = heapq.heappop(self.heap)
            if kind == Event.ASK:
                self._ask(now, board)
            elif kind == Event.DELIVER:
                self._deliver(now, self.requests[request], board)
            elif kind == Event.LOST:
                self._lose(now, board)
            elif kind == Event.NOTICED:
                self.boards[board].known = self.boards[board].alive
            else:
                self.boards[board].alive = self.boards[board].known = True
        return self

    # -- the front -------------------------------------------------------------------------------------------

    def _arrives_by(self, due: tuple[int, int] | None) -> bool:
        """Tell if the next arrival comes before an event; events are compared by time and kind."""
        if self.arrived == len(self.requests):
            return False
        return due is None or (self.requests[self.arrived].request.arrival_ns, Event.DELIVER) <= due

    def _arrive(self) -> None:
        """Send the next request; after the last, ask the boards that wait for one more."""
        request = self.requests[self.arrived]
        now, self.arrived = request.request.arrival_ns, self.arrived + 1
        self._send(now, request)
        if self.arrived == len(self.requests):
            for k, board in enumerate(self.boards):
                if board.alive and board.busy_ns <= now and board.asked_ns is None and board.ledger.busy:
                    self._ask_at(now, k)

    def _send(self, now: int, request: FleetRequest) -> None:
        """Send a request to a board of the pool where its route goes on; where none is known, try again."""
        at_front = request.hop == 0
        if at_front:
            request.route, k = self._first_board(now, request)
        else:
            pool = self.front.routes[request.route][request.hop]
            k = self._best(now, pool, self._drawn(request, pool, _NEXT_HOP + request.hop, self.front.choices))
        request.sent += 1
        if k == NOBODY:
            self._push(now + self.front.notice_ns, Event.DELIVER, request.request.id, NOBODY)
            return
        board, leaving = self.boards[k], now
        if at_front and self.front.head_ns:
            leaving = self.head_ns = max(self.head_ns, now) + self.front.head_ns
        board.free_ns = max(board.free_ns, leaving) + board.pool.in_ns
        board.owed += 1
        self._push(board.free_ns + board.pool.hop_ns, Event.DELIVER, request.request.id, k)

    def _first_board(self, now: int, request: FleetRequest) -> tuple[int, int]:
        """Return route and board: the best of a few routes drawn by their shares, with a board of each drawn.

        Where no board of these is known, the first route that has one.
        """
        front, candidates = self.front, list[tuple[int, int]]()
        for choice in range(front.choices):
            salt = request.sent % _SALTS * 8 + 2 * choice
            share = draw(front.seed, request.request.id, salt)
            route = next(k for k, until in enumerate(front.until) if share < until)
            pool = front.routes[route][0]
            if (k := self._best(now, pool, self._drawn(request, pool, salt + 1, 1))) != NOBODY:
                candidates.append((route, k))
        if candidates:
            return min(candidates, key=lambda way: self.boards[way[1]].finish_ns(now))
        for route, pools in enumerate(front.routes):
            k = self._best(now, pools[0], self._drawn(request, pools[0], _ANY_ROUTE, front.choices))
            if k != NOBODY:
                return route, k
        return len(front.routes) - 1, NOBODY

    def _drawn(self, request: FleetRequest, pool: int, salt: int, count: int) -> list[int]:
        """Draw boards of a pool."""
        boards = self.front.pools[pool].boards
        return [boards[draw(self.front.seed, request.request.id, salt + k) % len(boards)] for k in range(count)]

    def _best(self, now: int, pool: int, drawn: Sequence[int]) -> int:
        """Return the known board that will be free first, of those drawn, or else of the pool; or NOBODY."""
        for boards in (drawn, self.front.pools[pool].boards):
            if candidates := [k for k in boards if self.boards[k].known]:
                return min(candidates, key=lambda k: self.boards[k].finish_ns(now))
        return NOBODY

    # -- boards ----------------------------------------------------------------------------------------------

    def _deliver(self, now: int, request: FleetRequest, k: int) -> None:
        """Put a request into a board's queue.

        One that comes back to the front, or to a lost board, is sent again.
        """
        if k == NOBODY:
            self.again += 1
            request.hop = 0
            self._send(now, request)
            return
        board = self.boards[k]
        if not board.alive:
            board.owed = 0
            self._push(now + self.front.notice_ns, Event.DELIVER, request.request.id, NOBODY)
            return
        board.ledger.admit(Flight(request.request))
        board.ledger.waiting[0].sort(key=by_arrival)  # a request that was sent again comes late
        if board.busy_ns <= now and board.asked_ns != now:
            self._ask_at(now, k)

    def _ask(self, now: int, k: int) -> None:
        """End a board's run, and ask its policy until it runs or waits."""
        board = self.boards[k]
        if board.asked_ns != now or not board.alive:
            return  # the question was put off, or is that of a board which was lost since
        if board.running is not None:
            self._finish(now, board, board.running)
        if self.heap and self.heap[0][:2] <= (now, Event.DELIVER):
            self._push(now, Event.ASK, 0, k)  # what left the front at this very nanosecond is in the queue first
            return
        board.asked_ns = None
        while board.ledger.busy:
            self.decisions += 1
            action = board.ledger.decide(board.policy, now, self.arrived == len(self.requests))
            if isinstance(action, Run):
                board.ledger.begin(now, action)
                self.runs[board.number, len(action.requests)] += 1
                took = board.pool.latency.ns[action.stage][len(action.requests) - 1]
                board.running, board.busy_ns = action, now + took + board.pool.overhead_ns
                self._ask_at(board.busy_ns, k)
                return
            if isinstance(action, Wait):
                if action.until_ns is not None:
                    self._ask_at(action.until_ns, k)
                return
            ledger = board.ledger
            for flight in ledger.answer(now, action) if isinstance(action, Answer) else ledger.shed(now, action):
                self._answer(now, board, self.requests[flight.request.id], flight.exit)

    def _finish(self, now: int, board: FleetBoard, run: Run) -> None:
        """End a run: answers go back to the front, samples that are not done go on to the next pool."""
        leaves = [board.pool.leaves(self.requests[request.id].exit) for request in run.requests]
        reasons = ["its exit was drawn" if stage == run.stage else "" for stage in leaves]
        for flight in board.ledger.finish(run, now, reasons):
            request = self.requests[flight.request.id]
            if board.pool.local[request.exit] >= 0:
                self._answer(now, board, request, request.exit)
                continue
            board.owed -= 1
            request.hop += 1
            self._send(now + board.pool.out_ns, request)
        board.running = None

    def _answer(self, now: int, board: FleetBoard, request: FleetRequest, exit: int) -> None:
        board.owed -= 1
        request.left, request.answered_ns = exit, now + board.pool.answer_ns + board.pool.hop_ns

    def _lose(self, now: int, k: int) -> None:
        """Lose a board with all that waits and runs on it; the front sends it again when it has noticed."""
        board = self.boards[k]
        if not board.alive:
            return
        again = now + self.front.notice_ns
        for request in board.empty():
            self._push(again, Event.DELIVER, request.id, NOBODY)
        board.alive, board.asked_ns, board.busy_ns, board.owed = False, None, now, 0
        self._push(again, Event.NOTICED, 0, k)

    def _ask_at(self, time_ns: int, k: int) -> None:
        self.boards[k].asked_ns = time_ns
        self._push(time_ns, Event.ASK, 0, k)

    def _push(self, time_ns: int, kind: Event, request: int, board: int) -> None:
        heapq.heappush(self.heap, (time_ns, kind, request, board))
