"""One event loop over many boards, compiled by Numba: deliveries, decisions, hand-overs, losses.

It serves as `scheduler/simulation/fleet.py` does, and its tests hold it to that, event for event. A board is
a `State` of its own, cut out of arrays that all share, and its policy is a twin as `loop.py` runs it.
Requests are named by their place in the stream. `Stream.leaves` is a request's exit in the table of the pool
where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidnpu.dse import Jit

from ..simulation.fleet import FleetPool, FrontPlan
from .borrowing import borrow
from .loop import act
from .state import at, decide, deepest, jit, oldest_first, run
from .twin import ACTION, COUNTS, NEVER, RUN, WAIT, Compiled, Ints, Npu, Records, State, Stream
from .wrappers import answer_early, shed_hopeless

# A call hands on every array of a `FleetRun`, which costs as much as an event unless the callee is inlined.
inlined = Jit("fluidnpu.scheduler.compiled", error_model="numpy", forceinline=True)
DONE, REFUSED, FULL = range(3)
# Equal to those of `simulation/fleet.py`, from where no compiled function may take them: the key of its cache
# covers this folder only.
BACK, NOTICED, LOST, DELIVER, ASK = range(5)  # kinds of an event
SHARES = 2**31 - 1  # of which routes have theirs
BITS = 3  # of a kind
KINDS = 1 << BITS
BOARD_BITS = 20
BOARDS_MOST = 1 << BOARD_BITS  # that an event can name, one of which is nobody
NOBODY = -1
EVENTS, DECISIONS, AGAIN, RUNS = range(4)  # places in the tally
END_OF_TIME = 2**62  # ns
CACHE_LINE = 64  # bytes
ROOT = 3  # place of the first event
EVENT = np.dtype([("key", "i8"), ("who", "i8")])
# What an event touches lies together, a cache line a row: boards and requests are too many for the caches.
REQUEST = np.dtype(
    [(name, "i8") for name in ["start", "end", "left", "outcome", "answered"]]
    + [(name, "i4") for name in ["exit", "route", "hop", "sent"]]
    + [("leaves", "i8")]
)
BOARD = np.dtype(
    [(name, "i8") for name in ["busy", "asked", "free", "each", "owed", "pool"]]
    + [(name, "i4") for name in ["alive", "known"]]
    + [("unused", "i8")]
)
PROGRESS = np.dtype([(name, "i8") for name in ["arrived", "head", "full"]])


class TurnsTwin(NamedTuple):
    """The policy of a plan: parts in turns, each at its own full batch.

    `begins[stage]`: 1 where a split begins, so samples of several runs may be fused there; elsewhere the
    batch in flight goes on. `batch[stage]`: the full batch of the split. `patience`: objectives after which
    the oldest goes first; 0 for never.
    """

    begins: Ints
    batch: Ints
    patience: int

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Go on inside a split; else run the deepest full split, else the deepest that waits."""
        stages = len(state.many)
        for stage in range(stages - 1, 0, -1):
            if state.many[stage] and not self.begins[stage]:
                run(state, stage, min(state.many[stage], npu.b_max))
                return
        if self.patience and oldest_first(state, npu, stream, self.patience, npu.slots):
            return
        free = npu.slots - state.counts[0].held
        for stage in range(stages - 1, 0, -1):
            if state.many[stage] >= self.batch[stage] and self.begins[stage]:
                run(state, stage, min(self.batch[stage], npu.b_max))
                return
        size = min(state.many[0], self.batch[0], free)
        stage = deepest(state)
        if size > 0 and (size >= self.batch[0] or stage == 0):
            run(state, 0, size)
        else:
            run(state, stage, min(state.many[stage], self.batch[stage], npu.b_max))


def aligned_records(count: int, fields: np.dtype[Any]) -> Records:
    """Return records of zeros that begin where cache lines do."""
    raw = np.zeros(count * fields.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    return raw[first : first + count * fields.itemsize].view(fields).view(np.recarray)


class Boards(NamedTuple):
    """Every board's waiting lines (as `State`, a row a board), and what the front knows of it, a BOARD each.

    `busy`: end of the run in progress; `asked`: time of the next question, NEVER for none. `free`: time from
    which the board's link is idle. `each`: ns of one more request, by which the front predicts. `owed`:
    requests sent and not back. `alive` and `known` (to the front): 1 or 0. `batch` is what one decision
    writes, and no board's own.
    """

    queue: Ints
    line: Ints
    many: Ints
    counts: Records
    action: Records
    batch: Ints
    gone: Ints
    of: Records

    @classmethod
    def idle(cls, pools: Sequence[FleetPool], queue: int) -> Boards:
        """Return boards on which nothing waits, with room for `queue` requests each in front of them."""
        n, stages = sum(len(pool.boards) for pool in pools), max(pool.latency.stages for pool in pools)
        slots = max(pool.slots for pool in pools)
        wide, of = max(queue, slots + 1), aligned_records(n, BOARD)
        of.asked, of.alive, of.known = NEVER, 1, 1
        for number, pool in enumerate(pools):
            of.pool[list(pool.boards)], of.each[list(pool.boards)] = number, pool.each_ns
        return cls(
            queue=np.empty((n, queue), np.int64),
            line=np.empty((n, stages, slots + 1), np.int64),
            many=np.zeros((n, stages), np.int64),
            counts=aligned_records(n, COUNTS),
            action=np.zeros(n, ACTION).view(np.recarray),
            batch=np.empty(wide, np.int64),
            gone=np.empty((n, wide), np.int64),
            of=of,
        )


class Pools(NamedTuple):
    """Tables by pool: stages, durations (pool, stage, batch - 1), limits, members and links.

    `members[first[p] : first[p + 1]]` are a pool's boards. `in_ns`, `out_ns` and `answer_ns`: time on the
    board's link of a sample that comes, goes on or is answered; `hop_ns`: the link's delay.
    `local[p, exit]`: the stage of the pool at which a sample of that exit leaves, or -1 when it goes on.
    """

    stages: Ints
    believed: Ints
    took: Ints
    b_max: Ints
    slots: Ints
    first: Ints
    members: Ints
    in_ns: Ints
    out_ns: Ints
    answer_ns: Ints
    hop_ns: Ints
    local: Ints

    @classmethod
    def of(cls, pools: Sequence[FleetPool]) -> Pools:
        """Return the tables of pools."""
        stages, b_max = [pool.latency.stages for pool in pools], [pool.latency.b_max for pool in pools]
        believed = np.ones((len(pools), max(stages), max(b_max)), np.int64)
        took = believed.copy()
        for number, pool in enumerate(pools):
            believed[number, : stages[number], : b_max[number]] = pool.latency.ns
            took[number] = believed[number] + pool.overhead_ns

        def column(values: Sequence[object]) -> Ints:
            return np.array(values, np.int64)

        return cls(
            stages=column(stages),
            believed=believed,
            took=took,
            b_max=column(b_max),
            slots=column([pool.slots for pool in pools]),
            first=column([0, *np.cumsum([len(pool.boards) for pool in pools])]),
            members=column([board for pool in pools for board in pool.boards]),
            in_ns=column([pool.in_ns for pool in pools]),
            out_ns=column([pool.out_ns for pool in pools]),
            answer_ns=column([pool.answer_ns for pool in pools]),
            hop_ns=column([pool.hop_ns for pool in pools]),
            local=column([pool.local for pool in pools]),
        )


class Routes(NamedTuple):
    """Pools by route and hop, -1 past the end; `until[r]`: shares of the routes, summed, of SHARES."""

    pools: Ints
    until: Ints

    @classmethod
    def of(cls, front: FrontPlan) -> Routes:
        """Return the routes of a front."""
        longest = max(map(len, front.routes))
        rows = [[*route, *[-1] * (longest - len(route))] for route in front.routes]
        return cls(np.array(rows, np.int64), np.array(front.until, np.int64))


class FrontSettings(NamedTuple):
    """Settings of the front: ns of a sample on its link, ns until a lost board is noticed, seed, choices."""

    head_ns: int
    notice_ns: int
    seed: int
    choices: int


class Requests(NamedTuple):
    """The requests, a REQUEST each, and views of two of its parts for the loop that all twins share.

    First its fate on a board (as `Book.fates`), then the time of the answer, its exit of the network, route,
    hop and times sent, and last its exit in the table of the pool where it is. `fates` and `leaves` are
    columns of the same memory.
    """

    of: Records
    fates: Ints
    leaves: Ints

    @classmethod
    def new(cls, exits: Ints) -> Requests:
        """Return requests that have not come yet, each with its exit of the network, (requests,)."""
        of = aligned_records(len(exits), REQUEST)
        words = of.view(np.int64).view(np.ndarray).reshape(len(exits), -1)
        words[:, :5] = -1
        of.exit = exits
        return cls(of, words[:, :4], words[:, -1])


class Heap(NamedTuple):
    """A heap of events with four children a node. An event is two words: time and kind, then request and
    board.

    The first stands at place ROOT, so that four children lie in one cache line. `size[0]`: the place past the
    last.
    """

    words: Ints
    size: Ints

    @classmethod
    def empty(cls, room: int) -> Heap:
        """Return an empty heap with room for a number of events."""
        words = aligned_records(ROOT + room, EVENT).view(np.int64).view(np.ndarray)
        return cls(words, np.full(1, ROOT, np.int64))


class FleetRun(NamedTuple):
    """All that one run of the loop works on.

    `progress`: one PROGRESS: requests that have arrived, the time from which the front's own link is idle,
    and 1 once a heap or queue had no room, from when on nothing counts. `tally`: events, decisions, requests
    sent again, and from RUNS on the number of runs by pool and batch.
    """

    stream: Stream
    requests: Requests
    boards: Boards
    pools: Pools
    routes: Routes
    front: FrontSettings
    heap: Heap
    progress: Records
    tally: Ints

    @classmethod
    def new(cls, front: FrontPlan, arrival: Ints, deadline: Ints, exits: Ints, queue: int, heap: int) -> FleetRun:
        """Return a run that has not begun, with room for `queue` requests a board and `heap` events.

        Arrivals, deadlines and exits are (requests,).
        """
        pools, requests = Pools.of(front.pools), Requests.new(exits)
        return cls(
            stream=Stream(arrival, deadline, requests.leaves),
            requests=requests,
            boards=Boards.idle(front.pools, queue),
            pools=pools,
            routes=Routes.of(front),
            front=FrontSettings(front.head_ns, front.notice_ns, front.seed, front.choices),
            heap=Heap.empty(heap),
            progress=np.zeros(1, PROGRESS).view(np.recarray),
            tally=np.zeros(RUNS + pools.believed[:, 0].size, np.int64),
        )


@inlined
def push(world: FleetRun, time: int, kind: int, board: int, request: int) -> None:
    """Add an event."""
    k, words = world.heap.size[0], world.heap.words
    if 2 * k == len(words):
        world.progress[0].full = 1
        return
    key, who = time * KINDS + kind, (request << BOARD_BITS) + board + 1
    while k > ROOT:
        above = (k >> 2) + 2
        if key > words[2 * above] or (key == words[2 * above] and who >= words[2 * above + 1]):
            break
        words[2 * k], words[2 * k + 1] = words[2 * above], words[2 * above + 1]
        k = above
    words[2 * k], words[2 * k + 1] = key, who
    world.heap.size[0] += 1


@inlined
def is_due(world: FleetRun, time: int, kind: int) -> bool:
    """Tell if the first event is not later than a time, and at that time no later kind."""
    return world.heap.size[0] > ROOT and world.heap.words[2 * ROOT] <= time * KINDS + kind  # type: ignore[no-any-return]


@inlined
def pop(heap: Heap) -> tuple[int, int, int, int]:
    """Take the first event: time, kind, board, request."""
    words, n = heap.words, heap.size[0] - 1
    first, named = words[2 * ROOT], words[2 * ROOT + 1]
    heap.size[0] = n
    key, who = words[2 * n], words[2 * n + 1]
    k = ROOT
    while True:
        child = 4 * k - 8
        if child >= n:
            break
        least, soonest = child, words[2 * child]
        for other in range(child + 1, min(child + 4, n)):
            here = words[2 * other]
            if here < soonest or (here == soonest and words[2 * other + 1] < words[2 * least + 1]):
                least, soonest = other, here
        if soonest > key or (soonest == key and words[2 * least + 1] >= who):
            break
        words[2 * k], words[2 * k + 1] = soonest, words[2 * least + 1]
        k = least
    words[2 * k], words[2 * k + 1] = key, who
    # Shifts, since a division takes as long as much of an event.
    return first >> BITS, first & (KINDS - 1), (named & (BOARDS_MOST - 1)) - 1, named >> BOARD_BITS


@inlined
def draw(seed: int, request: int, salt: int) -> int:
    """Return a number of 0..SHARES - 1 that depends on nothing but its arguments.

    64 bits hold every product.
    """
    h = fold(request * 64 + salt + 1)
    h = fold(h * 48271 + seed % SHARES)
    h = fold((h ^ (h >> 15)) * 69621 + 12345)
    return fold((h ^ (h >> 13)) * 48271 + salt)


@inlined
def fold(x: int) -> int:
    """Return the remainder of 0 <= x < 2^61 by SHARES, a Mersenne prime, without a division."""
    x = (x & SHARES) + (x >> 31)
    x = (x & SHARES) + (x >> 31)
    return x - SHARES if x >= SHARES else x


@inlined
def state_of(boards: Boards, b: int, stages: int) -> State:
    """Cut one board's state out of the arrays."""
    return State(
        boards.queue[b],
        boards.line[b],
        boards.many[b, :stages],
        boards.counts[b : b + 1],
        boards.action[b : b + 1],
        boards.batch,
        boards.gone[b],
    )


@inlined
def npu_of(pools: Pools, p: int) -> Npu:
    """Cut one pool's table out of the arrays."""
    stages, b_max = pools.stages[p], pools.b_max[p]
    return Npu(pools.believed[p, :stages, :b_max], pools.took[p, :stages, :b_max], b_max, pools.slots[p])


@inlined
def finish_ns(boards: Boards, b: int, now: int) -> int:
    """Predict as the front does when all that a board owes is done."""
    board = boards.of[b]
    return max(board.busy, board.free, now) + board.owed * board.each  # type: ignore[no-any-return]


@inlined
def pick(world: FleetRun, choices: int, now: int, pool: int, request: int, salt: int) -> int:
    """Return the board of a pool that will be free first, among a few drawn, or among all if none is known.

    NOBODY where no board of the pool is known.
    """
    boards, pools = world.boards, world.pools
    first, last = pools.first[pool], pools.first[pool + 1]
    best, finish = NOBODY, 0
    for k in range(choices):
        b = pools.members[first + draw(world.front.seed, request, salt + k) % (last - first)]
        if boards.of[b].known:
            here = finish_ns(boards, b, now)
            if best == NOBODY or here < finish:
                best, finish = b, here
    if best == NOBODY:
        for k in range(first, last):
            b = pools.members[k]
            if boards.of[b].known:
                here = finish_ns(boards, b, now)
                if best == NOBODY or here < finish:
                    best, finish = b, here
    return best


@inlined
def pick_first(world: FleetRun, now: int, request: int) -> int:
    """Choose the route of a request at the front: the best of a few drawn. Return the board, or NOBODY."""
    front, routes, own = world.front, world.routes, world.requests.of[request]
    best, finish = NOBODY, 0
    for k in range(front.choices):
        salt = (own.sent % 8) * 8 + 2 * k
        share, r = draw(front.seed, request, salt), 0
        while routes.until[r] <= share:
            r += 1
        b = pick(world, 1, now, routes.pools[r, 0], request, salt + 1)
        if b != NOBODY:
            here = finish_ns(world.boards, b, now)
            if best == NOBODY or here < finish:
                best, finish, own.route = b, here, r
    for r in range(len(routes.pools)):
        if best == NOBODY:
            best, own.route = pick(world, front.choices, now, routes.pools[r, 0], request, 7), r
    return best


@inlined
def send(world: FleetRun, now: int, request: int) -> None:
    """Send a request to a board of the pool where its route goes on.

    Where no board of the pool is known, the front tries again after its time of notice.
    """
    own, front, progress = world.requests.of[request], world.front, world.progress[0]
    if own.hop == 0:
        best = pick_first(world, now, request)
    else:
        best = pick(world, front.choices, now, world.routes.pools[own.route, own.hop], request, 32 + own.hop)
    own.sent += 1
    if best == NOBODY:
        push(world, now + front.notice_ns, DELIVER, NOBODY, request)
        return
    board, leaving = world.boards.of[best], now
    if own.hop == 0 and front.head_ns:
        progress.head = max(progress.head, now) + front.head_ns
        leaving = progress.head
    board.free = max(board.free, leaving) + world.pools.in_ns[board.pool]
    board.owed += 1
    push(world, board.free + world.pools.hop_ns[board.pool], DELIVER, best, request)


@inlined
def admit(world: FleetRun, b: int, request: int) -> None:
    """Put a request into a board's queue, in order of the stream."""
    boards = world.boards
    counts, queue, many = boards.counts[b], boards.queue, boards.many[b, 0]
    head = counts.head
    if many == 0:  # a queue that has run empty begins anew, so that it stays within a cache line or two
        counts.head = head = 0
    if head + many == queue.shape[1]:
        if head == 0:
            world.progress[0].full = 1
            return
        for k in range(many):
            queue[b, k] = queue[b, head + k]
        counts.head = head = 0
    k = many
    while k > 0 and queue[b, head + k - 1] > request:
        queue[b, head + k] = queue[b, head + k - 1]
        k -= 1
    queue[b, head + k] = request
    boards.many[b, 0] = many + 1


@inlined
def ask_at(world: FleetRun, time: int, b: int) -> None:
    """Set the time of a board's next question, in place of any other."""
    world.boards.of[b].asked = time
    push(world, time, ASK, b, 0)


@inlined
def answer_back(world: FleetRun, b: int, request: int, now: int) -> None:
    """Let an answer go back to the front."""
    pools, board = world.pools, world.boards.of[b]
    board.owed -= 1
    world.requests.of[request].answered = now + pools.answer_ns[board.pool] + pools.hop_ns[board.pool]


@inlined
def finish(world: FleetRun, b: int, now: int) -> None:
    """End a board's run: answers go back to the front, samples that are not done go on to the next pool."""
    board, action = world.boards.of[b], world.boards.action[b]
    for k in range(action.samples):
        request = world.boards.gone[b, k]
        if world.stream.leaves[request] != action.stage:
            continue
        own = world.requests.of[request]
        if world.pools.local[board.pool, own.exit] >= 0:
            own.left = own.exit
            answer_back(world, b, request, now)
        else:
            board.owed -= 1
            own.hop += 1
            send(world, now + world.pools.out_ns[board.pool], request)
    action.samples = 0


@inlined
def lose(world: FleetRun, b: int, now: int) -> None:
    """Lose a board with all that waits and runs on it; the front sends them again when it has noticed."""
    board = world.boards.of[b]
    if not board.alive:
        return
    stages = world.pools.stages[board.pool]
    state = state_of(world.boards, b, stages)
    action, counts = state.action[0], state.counts[0]
    again = now + world.front.notice_ns
    for k in range(action.samples):  # of the run in progress; those that stay stand in a line
        request = state.gone[k]
        if world.stream.leaves[request] == action.stage:
            own = world.requests.of[request]
            own.start = own.end = own.left = own.outcome = -1
            push(world, again, DELIVER, NOBODY, request)
    for stage in range(stages):
        for k in range(state.many[stage]):
            request = at(state, stage, k)
            world.requests.of[request].start = -1
            push(world, again, DELIVER, NOBODY, request)
        state.many[stage] = 0
    counts.head, counts.held, action.samples = 0, 0, 0
    board.alive, board.asked, board.busy, board.owed = 0, NEVER, now, 0
    push(world, again, NOTICED, b, 0)


@inlined
def arrive(world: FleetRun) -> None:
    """Send the next request of the stream; after the last, ask the boards that wait for one more."""
    progress, boards = world.progress[0], world.boards
    request = progress.arrived
    now = world.stream.arrival[request]
    progress.arrived += 1
    send(world, now, request)
    if progress.arrived == len(world.stream.arrival):
        for b in range(len(boards.of)):
            waiting = boards.counts[b].held
            for stage in range(world.pools.stages[boards.of[b].pool]):
                waiting += boards.many[b, stage]
            if boards.of[b].alive and boards.of[b].busy <= now and boards.of[b].asked == NEVER and waiting:
                ask_at(world, now, b)


@inlined
def deliver(world: FleetRun, b: int, request: int, now: int) -> bool:
    """Put a request into a board's queue; what comes back to the front, or to a lost board, is sent again.

    True when the board is to be asked now, before any other event.
    """
    own = world.requests.of[request]
    if b == NOBODY:
        world.tally[AGAIN] += 1
        own.hop = 0
        send(world, now, request)
        return False
    board = world.boards.of[b]
    if not board.alive:
        board.owed = 0
        push(world, now + world.front.notice_ns, DELIVER, NOBODY, request)
        return False
    leave = world.pools.local[board.pool, own.exit]
    world.stream.leaves[request] = leave if leave >= 0 else world.pools.stages[board.pool] - 1
    admit(world, b, request)
    if board.busy > now or board.asked == now:
        return False
    # The question comes after all that happens in this nanosecond; most often nothing does.
    if is_due(world, now, ASK) or next_arrival(world) <= now:
        ask_at(world, now, b)
        return False
    board.asked = now
    return True


@inlined
def next_arrival(world: FleetRun) -> int:
    """Return the time of the next arrival at the front; after the last, the end of time."""
    arrived, arrival = world.progress[0].arrived, world.stream.arrival
    return arrival[arrived] if arrived < len(arrival) else END_OF_TIME


@inlined
def ask(world: FleetRun, policies: Any, b: int, now: int) -> bool:
    """End a board's run, and ask its policy until it runs or waits; False when the engine would refuse it."""
    board = world.boards.of[b]
    if board.asked != now or not board.alive:
        return True  # the question was put off, or is that of a board which was lost since
    pool, closed = board.pool, world.progress[0].arrived == len(world.stream.arrival)
    state, npu = state_of(world.boards, b, world.pools.stages[pool]), npu_of(world.pools, pool)
    counts, action = state.counts[0], state.action[0]
    counts.now, counts.closed = now, np.int64(closed)
    if action.samples:
        finish(world, b, now)
    if is_due(world, now, DELIVER):  # what left the front at this very nanosecond is in the queue first
        push(world, now, ASK, b, 0)
        return True
    board.asked = NEVER
    while state.many[0] or counts.held:
        world.tally[DECISIONS] += 1
        ask_policy(policies[pool], state, npu, world.stream)
        if action.kind == WAIT:
            action.samples = 0
            if action.until != NEVER:
                ask_at(world, action.until, b)
            return not closed and (action.until == NEVER or action.until > now)
        if not act(state, npu, world.stream, world.requests.fates):
            return False
        if action.kind == RUN:
            world.tally[RUNS + pool * world.pools.believed.shape[2] + action.samples - 1] += 1
            board.busy = action.end
            ask_at(world, action.end, b)
            return True
        for k in range(action.samples):
            answer_back(world, b, state.gone[k], now)
        action.samples = 0
    return True


@inlined
def ask_policy(policy: Compiled, state: State, npu: Npu, stream: Stream) -> None:
    """Let a policy decide, with its wrappers."""
    wrappers = policy.wrappers
    if not (wrappers.shed and shed_hopeless(state, npu, stream)):
        decide(policy.twin, state, npu, stream)
        if wrappers.anytime > 0:
            answer_early(state, npu, stream, wrappers)


def pad(twins: Sequence[Compiled]) -> tuple[Compiled, ...]:
    """Return the twins of all pools with copies of the last behind them: four in all, eight, or so on.

    Their number is part of the loop's type, and so it is compiled for few of them.
    """
    count = max(4, 1 << (len(twins) - 1).bit_length())
    return (*twins, *[twins[-1]] * (count - len(twins)))


@jit.entry
def serve_fleet(world: FleetRun, policies: Any, faults: Ints) -> int:
    """Serve the stream: DONE, REFUSED, or FULL when more room is needed.

    `policies`: the twins of the pools, as `pad` returns them. `faults`, (losses, 3): time in ns, board, and
    LOST or BACK.
    """
    world, policies = borrow(world), borrow(policies)
    progress, boards, stream = world.progress[0], world.boards, world.stream
    for k in range(len(faults)):
        push(world, faults[k, 0], faults[k, 2], faults[k, 1], 0)
    while not progress.full:
        if progress.arrived < len(stream.arrival) and not is_due(world, stream.arrival[progress.arrived], LOST):
            world.tally[EVENTS] += 1
            arrive(world)
            continue
        if world.heap.size[0] == ROOT:
            return DONE
        now, kind, b, request = pop(world.heap)
        world.tally[EVENTS] += 1
        if kind == ASK:
            if not ask(world, policies, b, now):
                return REFUSED
        elif kind == DELIVER:
            if deliver(world, b, request, now):
                world.tally[EVENTS] += 1
                if not ask(world, policies, b, now):
                    return REFUSED
        elif kind == LOST:
            lose(world, b, now)
        elif kind == NOTICED:
            boards.of[b].known = boards.of[b].alive
        else:
            boards.of[b].alive = boards.of[b].known = 1
    return FULL
