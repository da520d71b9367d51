"""One event loop over many boards, compiled by Numba: deliveries, decisions, hand-overs, losses.

A board is a `State` of its own, cut out of arrays that all share, and its policy is a twin as `loop.py` runs
it, so one board alone behaves as in the simulator. Requests are named by their place in the stream. A request
visits the pools of its route; `Stream.leaves` is its exit in the table of the pool where it is.

Events at one nanosecond come in the order: a board is lost or returns, a request is delivered, a board is
asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .borrowing import borrowed
from .loop import act
from .state import at, decide, deepest, jit, oldest_first, run
from .twin import ACTION, COUNTS, NEVER, RUN, WAIT, Ints, Npu, Records, State, Stream
from .wrappers import answer_early, shed_hopeless

DONE, REFUSED, OVERFLOW = range(3)
FAULT, DELIVER, ASK = range(3)  # kinds of an event, in their order at one time
BITS = 2
KINDS = 1 << BITS
BOARD_BITS = 20
BOARDS_MOST = 1 << BOARD_BITS  # that an event can name, one of which is nobody
NOBODY = -1
LOST, BACK = 0, 1  # kinds of a fault
SHARES = 2**31 - 1  # of which routes have theirs
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


class TurnsTwin(NamedTuple):
    """The policy of a plan: splits in turns, each at its own full batch.

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


def lined(count: int, fields: np.dtype[Any]) -> Records:
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
    def empty(cls, pool: Ints, each: Ints, stages: int, slots: int, queue: int) -> Boards:
        """Return idle boards with room for `queue` waiting requests each."""
        n, wide = len(pool), max(queue, slots + 1)
        of = lined(n, BOARD)
        of.pool, of.each, of.asked, of.alive, of.known = pool, each, NEVER, 1, 1
        return cls(
            queue=np.empty((n, queue), np.int64),
            line=np.empty((n, stages, slots + 1), np.int64),
            many=np.zeros((n, stages), np.int64),
            counts=lined(n, COUNTS),
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


class Routes(NamedTuple):
    """Pools by route and hop, -1 past the end; `until[r]`: shares of the routes, summed, of SHARES."""

    pools: Ints
    until: Ints


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
        """Return requests that have not come yet, each with its exit of the network."""
        of = lined(len(exits), REQUEST)
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
        words = lined(ROOT + room, EVENT).view(np.int64).view(np.ndarray)
        return cls(words, np.full(1, ROOT, np.int64))


@jit
def push(heap: Heap, time: int, kind: int, board: int, request: int) -> bool:
    """Add an event; False when the heap is full."""
    k, words = heap.size[0], heap.words
    if 2 * k == len(words):
        return False
    key, who = time * KINDS + kind, (request << BOARD_BITS) + board + 1
    while k > ROOT:
        above = (k >> 2) + 2
        if key > words[2 * above] or (key == words[2 * above] and who >= words[2 * above + 1]):
            break
        words[2 * k], words[2 * k + 1] = words[2 * above], words[2 * above + 1]
        k = above
    words[2 * k], words[2 * k + 1] = key, who
    heap.size[0] += 1
    return True


@jit
def pop(heap: Heap) -> tuple[int, int, int]:
    """Take the first event: time and kind, board, request."""
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
    return first, (named & (BOARDS_MOST - 1)) - 1, named >> BOARD_BITS


@jit
def drawn(seed: int, request: int, salt: int) -> int:
    """A number of 0..SHARES - 1 that depends on nothing but its arguments; 64 bits hold every product."""
    h = folded(request * 64 + salt + 1)
    h = folded(h * 48271 + seed % SHARES)
    h = folded((h ^ (h >> 15)) * 69621 + 12345)
    return folded((h ^ (h >> 13)) * 48271 + salt)


@jit
def folded(x: int) -> int:
    """The remainder of 0 <= x < 2^61 by SHARES, a Mersenne prime, without a division."""
    x = (x & SHARES) + (x >> 31)
    x = (x & SHARES) + (x >> 31)
    return x - SHARES if x >= SHARES else x


@jit
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


@jit
def npu_of(pools: Pools, p: int) -> Npu:
    """Cut one pool's table out of the arrays."""
    stages, b_max = pools.stages[p], pools.b_max[p]
    return Npu(pools.believed[p, :stages, :b_max], pools.took[p, :stages, :b_max], b_max, pools.slots[p])


@jit
def pick(boards: Boards, pools: Pools, front: FrontSettings, now: int, pool: int, request: int, salt: int) -> int:
    """The board of a pool whose predicted finish is first among a few drawn; NOBODY where none is known."""
    first, last = pools.first[pool], pools.first[pool + 1]
    best, finish = NOBODY, 0
    for k in range(front.choices):
        b = pools.members[first + drawn(front.seed, request, salt + k) % (last - first)]
        if not boards.of[b].known:
            continue
        here = max(boards.of[b].busy, boards.of[b].free, now) + boards.of[b].owed * boards.of[b].each
        if best == NOBODY or here < finish:
            best, finish = b, here
    if best == NOBODY:
        for k in range(first, last):
            b = pools.members[k]
            here = max(boards.of[b].busy, boards.of[b].free, now) + boards.of[b].owed * boards.of[b].each
            if boards.of[b].known and (best == NOBODY or here < finish):
                best, finish = b, here
    return best


@jit
def send(
    boards: Boards,
    pools: Pools,
    routes: Routes,
    front: FrontSettings,
    requests: Requests,
    heap: Heap,
    head: Ints,
    now: int,
    request: int,
) -> bool:
    """Send a request to a board of the pool where its route goes on; False when the heap is full.

    Where no board of the pool is known, the front tries again after its time of notice.
    """
    hop = requests.of[request].hop
    leaves_front = hop == 0
    if leaves_front:
        best, finish, chosen = NOBODY, 0, 0
        for k in range(front.choices):
            salt = (requests.of[request].sent % 8) * 8 + 2 * k
            share, r = drawn(front.seed, request, salt), 0
            while routes.until[r] <= share:
                r += 1
            b = pick(boards, pools, FrontSettings(0, 0, front.seed, 1), now, routes.pools[r, 0], request, salt + 1)
            if b == NOBODY:
                continue
            here = max(boards.of[b].busy, boards.of[b].free, now) + boards.of[b].owed * boards.of[b].each
            if best == NOBODY or here < finish:
                best, finish, chosen = b, here, r
        for r in range(len(routes.pools)):
            if best == NOBODY:
                best, chosen = pick(boards, pools, front, now, routes.pools[r, 0], request, 7), r
        requests.of[request].route = chosen
    else:
        pool = routes.pools[requests.of[request].route, hop]
        best = pick(boards, pools, front, now, pool, request, 32 + hop)
    requests.of[request].sent += 1
    if best == NOBODY:
        return push(heap, now + front.notice_ns, DELIVER, NOBODY, request)
    pool = boards.of[best].pool
    leaving = now
    if leaves_front and front.head_ns:
        head[0] = max(head[0], now) + front.head_ns
        leaving = head[0]
    boards.of[best].free = max(boards.of[best].free, leaving) + pools.in_ns[pool]
    boards.of[best].owed += 1
    return push(heap, boards.of[best].free + pools.hop_ns[pool], DELIVER, best, request)


@jit
def admit(boards: Boards, b: int, request: int) -> bool:
    """Put a request into a board's queue, in order of the stream; False when the queue is full."""
    counts, queue, many = boards.counts[b], boards.queue, boards.many[b, 0]
    head = counts.head
    if many == 0:  # a queue that has run empty begins anew, so that it stays within a cache line or two
        counts.head = head = 0
    if head + many == queue.shape[1]:
        if head == 0:
            return False
        for k in range(many):
            queue[b, k] = queue[b, head + k]
        counts.head = head = 0
    k = many
    while k > 0 and queue[b, head + k - 1] > request:
        queue[b, head + k] = queue[b, head + k - 1]
        k -= 1
    queue[b, head + k] = request
    boards.many[b, 0] = many + 1
    return True


@jit
def finished(
    boards: Boards,
    pools: Pools,
    routes: Routes,
    front: FrontSettings,
    requests: Requests,
    stream: Stream,
    heap: Heap,
    head: Ints,
    b: int,
    now: int,
) -> bool:
    """End a board's run: answers go back to the front, samples that are not done go on to the next pool."""
    pool, action = boards.of[b].pool, boards.action[b]
    for k in range(action.samples):
        request = boards.gone[b, k]
        if stream.leaves[request] != action.stage:
            continue
        boards.of[b].owed -= 1
        if pools.local[pool, requests.of[request].exit] >= 0:
            requests.of[request].left = requests.of[request].exit
            requests.of[request].answered = now + pools.answer_ns[pool] + pools.hop_ns[pool]
            continue
        requests.of[request].hop += 1
        if not send(boards, pools, routes, front, requests, heap, head, now + pools.out_ns[pool], request):
            return False
    action.samples = 0
    return True


@jit
def lose(
    boards: Boards,
    pools: Pools,
    front: FrontSettings,
    requests: Requests,
    stream: Stream,
    heap: Heap,
    b: int,
    now: int,
) -> bool:
    """Lose a board with all that waits and runs on it; the front sends them again when it has noticed."""
    stages = pools.stages[boards.of[b].pool]
    state = state_of(boards, b, stages)
    action, counts = state.action[0], state.counts[0]
    again = now + front.notice_ns
    for k in range(action.samples):  # of the run in progress; those that stay stand in a line
        request = state.gone[k]
        if stream.leaves[request] == action.stage:
            one = requests.of[request]
            one.start = one.end = one.left = one.outcome = -1
            if not push(heap, again, DELIVER, NOBODY, request):
                return False
    for stage in range(stages):
        for k in range(state.many[stage]):
            request = at(state, stage, k)
            requests.of[request].start = -1
            if not push(heap, again, DELIVER, NOBODY, request):
                return False
        state.many[stage] = 0
    counts.head, counts.held, action.samples = 0, 0, 0
    boards.of[b].alive, boards.of[b].asked, boards.of[b].busy, boards.of[b].owed = 0, NEVER, now, 0
    return push(heap, again, FAULT, b, -2)


@jit
def wake(boards: Boards, pools: Pools, heap: Heap, now: int) -> bool:
    """Ask every board that waits for an arrival, once no further one will come."""
    for b in range(len(boards.of)):
        waiting = boards.counts[b].held
        for stage in range(pools.stages[boards.of[b].pool]):
            waiting += boards.many[b, stage]
        if boards.of[b].alive and boards.of[b].busy <= now and boards.of[b].asked == NEVER and waiting:
            boards.of[b].asked = now
            if not push(heap, now, ASK, b, 0):
                return False
    return True


@jit.entry
def serve_fleet(
    stream: Stream,
    requests: Requests,
    boards: Boards,
    pools: Pools,
    routes: Routes,
    front: FrontSettings,
    policies: Any,
    faults: Ints,
    heap: Heap,
    tally: Ints,
) -> int:
    """Serve the stream; DONE, REFUSED or OVERFLOW (more room is needed).

    `faults`: rows of time, board and kind. `tally`: events, decisions, requests sent again, and then the
    number of runs by pool and batch.
    """
    stream, requests, boards, pools = borrowed(stream), borrowed(requests), borrowed(boards), borrowed(pools)
    routes, policies, heap, tally = borrowed(routes), borrowed(policies), borrowed(heap), borrowed(tally)
    own = np.zeros(1, np.int64)
    head = borrowed(own)
    n, arrived = len(stream.arrival), 0
    for k in range(len(faults)):
        if not push(heap, faults[k, 0], FAULT, faults[k, 1], -1 if faults[k, 2] == LOST else -3):
            return OVERFLOW
    while True:
        due = heap.size[0] > ROOT
        if arrived < n and (not due or stream.arrival[arrived] * KINDS + DELIVER <= heap.words[2 * ROOT]):
            now, request = stream.arrival[arrived], arrived
            arrived += 1
            tally[0] += 1
            if not send(boards, pools, routes, front, requests, heap, head, now, request):
                return OVERFLOW
            if arrived == n and not wake(boards, pools, heap, now):
                return OVERFLOW
            continue
        if not due:
            return DONE
        key, b, request = pop(heap)
        now, kind = key >> BITS, key & (KINDS - 1)  # shifts, since a division takes as long as much of an event
        tally[0] += 1
        if kind == FAULT:
            if request == -1:
                if boards.of[b].alive and not lose(boards, pools, front, requests, stream, heap, b, now):
                    return OVERFLOW
            elif request == -2:
                boards.of[b].known = boards.of[b].alive
            else:
                boards.of[b].alive = boards.of[b].known = 1
            continue
        if kind == DELIVER:
            if b == NOBODY:
                tally[2] += 1
                requests.of[request].hop = 0
                if not send(boards, pools, routes, front, requests, heap, head, now, request):
                    return OVERFLOW
            elif not boards.of[b].alive:
                boards.of[b].owed = 0
                if not push(heap, now + front.notice_ns, DELIVER, NOBODY, request):
                    return OVERFLOW
            else:
                pool = boards.of[b].pool
                leave = pools.local[pool, requests.of[request].exit]
                stream.leaves[request] = leave if leave >= 0 else pools.stages[pool] - 1
                if not admit(boards, b, request):
                    return OVERFLOW
                if boards.of[b].busy <= now and boards.of[b].asked != now:
                    boards.of[b].asked = now
                    # The question comes after all that happens in this nanosecond; most often nothing does.
                    if (heap.size[0] > ROOT and heap.words[2 * ROOT] <= now * KINDS + ASK) or (
                        arrived < n and stream.arrival[arrived] <= now
                    ):
                        if not push(heap, now, ASK, b, 0):
                            return OVERFLOW
                    else:
                        kind = ASK
                        tally[0] += 1
            if kind != ASK:
                continue
        if boards.of[b].asked != now or not boards.of[b].alive:
            continue
        pool = boards.of[b].pool
        state, npu = state_of(boards, b, pools.stages[pool]), npu_of(pools, pool)
        counts, action = state.counts[0], state.action[0]
        counts.now, counts.closed = now, np.int64(arrived == n)
        if action.samples and not finished(boards, pools, routes, front, requests, stream, heap, head, b, now):
            return OVERFLOW
        # What left the front at this very nanosecond is in the queue before the policy is asked.
        if heap.size[0] > ROOT and heap.words[2 * ROOT] <= now * KINDS + DELIVER:
            if not push(heap, now, ASK, b, 0):
                return OVERFLOW
            continue
        boards.of[b].asked = NEVER
        while state.many[0] or counts.held:
            tally[1] += 1
            policy = policies[pool]
            wrappers = policy.wrappers
            if not (wrappers.shed and shed_hopeless(state, npu, stream)):
                decide(policy.twin, state, npu, stream)
                if wrappers.anytime > 0:
                    answer_early(state, npu, stream, wrappers)
            if action.kind == WAIT:
                if counts.closed and action.until == NEVER:
                    return REFUSED
                action.samples = 0
                if action.until != NEVER:
                    if action.until <= now:
                        return REFUSED
                    boards.of[b].asked = action.until
                    if not push(heap, action.until, ASK, b, 0):
                        return OVERFLOW
                break
            if not act(state, npu, stream, requests.fates):
                return REFUSED
            if action.kind == RUN:
                tally[3 + pool * pools.believed.shape[2] + action.samples - 1] += 1
                boards.of[b].busy = boards.of[b].asked = action.end
                if not push(heap, action.end, ASK, b, 0):
                    return OVERFLOW
                break
            for k in range(action.samples):
                request = state.gone[k]
                boards.of[b].owed -= 1
                requests.of[request].answered = now + pools.answer_ns[pool] + pools.hop_ns[pool]
            action.samples = 0
