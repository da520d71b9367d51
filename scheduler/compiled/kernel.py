"""The engine and the shipped policies once more, as one loop over integer arrays that Numba compiles: the same schedules, some hundred times faster.

The definition is `engine.py` with the policy objects; they run on the board and explain themselves. This file repeats what they decide, without
objects and without reasons, and `tests/scheduler/test_scheduler_compiled.py` holds both to the same decision log, event for event. Requests are
named by their place in the stream, which is sorted by (arrival, id), so comparing places is comparing (arrival, id).
Without Numba the functions are plain Python: right, but slower than the engine, so nothing uses them then (`fast.available`).
All of it stays in one file: Numba's cache sees changes of the file of the function it compiles, not of those that it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..policies.baselines import PATIENCE
from ..policies.credit import LOOK
from ..policies.decision_process import NEVER as COSTLY

try:
    import numba
except ImportError:
    numba = None

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Cube = NDArray[np.int64]  # of three dimensions
F = TypeVar("F", bound=Callable[..., Any])
COMPILED = numba is not None

SERIAL, GREEDY, ADAPTIVE, FLUID, LAZY, STAGED, OPTIMAL, CREDIT, GUARDED = range(9)
RUN, WAIT, ANSWER, SHED = range(4)
HEAD, HELD, NOW, CLOSED, STARTED, ANSWERED, MEMORY, SEEN, GIVEN, LAST, LATEST = range(11)  # places in State.num
KIND, STAGE, SIZE, UNTIL = range(4)  # places in State.act
GIVE_UP, HEAD_START, PATIENT, HASTY, LOW, HIGH, HORIZON = range(7)  # places in Rules.guard
NEVER = -1  # Wait without a time
NONE = -(2**62)  # no slack to keep


def jit(function: F) -> F:
    """Compiled by Numba where it is installed, else the function itself. Only `serve` is called from Python: the others need no wrapper."""
    if numba is None:
        return function
    inner = function.__name__ != "serve"
    compiled: F = numba.njit(cache=True, error_model="numpy", no_cpython_wrapper=inner, no_cfunc_wrapper=True)(function)
    return compiled


class Stream(NamedTuple):
    """One entry per request. `due`: when `adaptive`'s timeout ends."""

    arrival: Ints
    deadline: Ints
    leaves: Ints
    due: Ints


class Machine(NamedTuple):
    """`believed` and `took` are stages x batch sizes; `took` includes the overhead of a run."""

    believed: Ints
    took: Ints
    b_max: int
    slots: int


class Rules(NamedTuple):
    """Which policy, and its tables. `limit`: its own largest batch, or tau_b; `flag`: repaired, or exit_aware; `anytime`: 0 for none."""

    code: int
    limit: int
    flag: int
    anytime: float
    rescue_only: int
    shed: int
    slo: int
    width: int
    patience_ns: int
    gap: int
    oldest: int
    table_b_max: int
    table_slots: int
    queue_max: int
    radix: int
    place: Ints
    q: Cube
    steps: Ints
    v: Ints
    gain: Ints
    work: Ints
    guard: Floats


class State(NamedTuple):
    """What waits: the queue is `queue[num[HEAD]:]`, `many[0]` of them; `line[s]` the entry of stage s, `many[s]` of them.

    `act` and `batch` are the decision; `batch` holds places in the line of its stage. `spared` (a flag for each request) and `late` (one number)
    are what `Guarded` remembers, beside numbers in `num`.
    """

    queue: Ints
    line: Ints
    many: Ints
    num: Ints
    act: Ints
    batch: Ints
    spared: Ints
    late: Floats


@jit
def at(x: State, stage: int, k: int) -> int:
    """The k-th request that waits at the entry of `stage`."""
    return x.queue[x.num[HEAD] + k] if stage == 0 else x.line[stage, k]  # type: ignore[no-any-return]


@jit
def deepest(x: State) -> int:
    """As `basic.deepest`."""
    for stage in range(len(x.many) - 1, 0, -1):
        if x.many[stage]:
            return stage
    return 0


@jit
def run(x: State, stage: int, size: int) -> None:
    """Decide to run the oldest `size` at `stage`."""
    x.act[KIND], x.act[STAGE], x.act[SIZE] = RUN, stage, size
    for k in range(size):
        x.batch[k] = k


@jit
def wait(x: State, until: int) -> None:
    """Decide to wait."""
    x.act[KIND], x.act[UNTIL], x.act[SIZE] = WAIT, until, 0


@jit
def oldest_first(x: State, m: Machine, r: Stream, patience: int, slots: int) -> bool:
    """As `basic.oldest_first`: whether the oldest is past its patience; if so that is decided."""
    stage = -1
    for s in range(len(x.many)):
        if x.many[s] and (stage < 0 or at(x, s, 0) < at(x, stage, 0)):
            stage = s
    oldest = at(x, stage, 0)
    if x.num[NOW] - r.arrival[oldest] <= patience * (r.deadline[oldest] - r.arrival[oldest]):
        return False
    make_room(x, m, stage, slots)
    return True


@jit
def make_room(x: State, m: Machine, stage: int, slots: int) -> None:
    """Run the oldest at `stage`, or what is furthest on when that is the queue and no slot is free."""
    room = m.b_max
    if stage == 0:
        free = slots - x.num[HELD]
        if free > 0:
            room = min(room, free)
        else:
            stage = deepest(x)
    run(x, stage, min(room, x.many[stage]))


@jit
def adaptive(x: State, m: Machine, r: Stream, limit: int) -> None:
    """As `basic.Adaptive`."""
    stage = deepest(x)
    if stage:
        run(x, stage, x.many[stage])
        return
    due = r.due[at(x, 0, 0)]
    if x.many[0] >= limit or x.num[NOW] >= due or x.num[CLOSED]:
        run(x, 0, min(x.many[0], limit))
    else:
        wait(x, due)


@jit
def fluid(x: State, m: Machine, r: Stream, repaired: int) -> None:
    """As `fluid.Fluid`."""
    stage = deepest(x)
    if not stage:
        run(x, 0, min(x.many[0], m.b_max))
        return
    for behind in range(1, stage):
        if x.many[behind]:
            run(x, behind, x.many[behind])
            return
    size = x.many[stage]
    room = min(x.many[0], m.b_max - size)
    if room > 0 and not (repaired and oldest_first(x, m, r, PATIENCE, m.slots)):
        overhead = 0
        for s in range(len(x.many)):
            overhead += m.believed[s, (room if s < stage else size + room) - 1]
        slack = slack_ns(x, m, r, stage, repaired)
        if slack == NONE or overhead < slack:
            run(x, 0, room)
            return
    run(x, stage, size)


@jit
def slack_ns(x: State, m: Machine, r: Stream, stage: int, repaired: int) -> int:
    """As `Fluid._slack_ns`; NONE for None."""
    now = x.num[NOW]
    if not repaired:
        return r.deadline[at(x, stage, 0)] - now  # type: ignore[no-any-return]
    alone, least = 0, NONE
    for s in range(stage, len(x.many)):
        alone += m.believed[s, x.many[stage] - 1]
    for k in range(x.many[stage]):
        deadline = r.deadline[at(x, stage, k)]
        if now + alone <= deadline and (least == NONE or deadline - now < least):
            least = deadline - now
    return least


@jit
def lazy(x: State, m: Machine, r: Stream, exit_aware: int) -> None:
    """As `others.Lazy`."""
    stages, behind = len(x.many), 0
    for s in range(1, stages):
        if x.many[s]:
            behind = s
            break
    if not behind:
        x.num[MEMORY] = 0
    if x.many[0]:
        held = x.num[HELD]
        fresh = min(x.many[0], m.b_max - (held if exit_aware else max(held, x.num[MEMORY])))
        if behind and fresh > 0:
            slack, remaining, after = 2**62, 0, 0
            for s in range(stages - 1, 0, -1):
                after += m.believed[s, 0]
                if x.many[s]:
                    slack = min(slack, r.deadline[at(x, s, 0)] - x.num[NOW])
                    remaining += x.many[s] * after
            fresh = min(fresh, (slack - remaining - 1) // (after + m.believed[0, 0]))
        if fresh > 0:
            x.num[MEMORY] += fresh
            run(x, 0, fresh)
            return
    run(x, behind, x.many[behind])


@jit
def staged(x: State, m: Machine, tau_b: int) -> None:
    """As `others.Staged`; MEMORY is the turn of the oldest."""
    held = x.num[HELD]
    room = min(x.many[0], m.b_max, m.slots - held)
    if room > 0 and (not held or (held < tau_b and not x.num[MEMORY])):
        x.num[MEMORY] = int(held > 0)
        run(x, 0, room)
        return
    x.num[MEMORY] = 0
    stage = 0
    for s in range(1, len(x.many)):
        if x.many[s] and (stage == 0 or at(x, s, 0) < at(x, stage, 0)):
            stage = s
    run(x, stage, min(x.many[stage], m.b_max))


@jit
def place_of(x: State, p: Rules) -> int:
    """The row of the solved table for these counts past the queue."""
    key = 0
    for s in range(1, len(x.many)):
        key = key * p.radix + x.many[s]
    return p.place[key]  # type: ignore[no-any-return]


@jit
def optimal(x: State, m: Machine, r: Stream, p: Rules) -> None:
    """As `credit.Optimal`."""
    slots = min(p.table_slots, m.slots)
    if oldest_first(x, m, r, PATIENCE, slots):
        return
    costs = p.q[min(x.many[0], p.queue_max), place_of(x, p)]
    last, best, action = len(costs) - 1, COSTLY, -1
    whole = m.b_max >= p.table_b_max and m.slots >= p.table_slots
    for k in range(last):
        stage, b = k // p.table_b_max, k % p.table_b_max
        limit = min(m.b_max, m.slots - x.num[HELD]) if stage == 0 else m.b_max
        if costs[k] < best and (whole or b < limit):
            best, action = costs[k], k
    if not x.num[CLOSED] and costs[last] < best:
        wait(x, NEVER)
    else:
        run(x, action // p.table_b_max, min(x.many[action // p.table_b_max], action % p.table_b_max + 1))


@jit
def credit(x: State, m: Machine, r: Stream, p: Rules) -> None:
    """As `credit.Credit`."""
    stages, held, base = len(x.many), x.num[HELD], x.num[NOW] + p.slo
    slots, b_max = min(p.table_slots, m.slots), min(p.table_b_max, m.b_max)
    if starved(x, m, r, base - p.patience_ns, slots):
        return
    queued = min(x.many[0], p.queue_max)
    costs = p.q[queued, place_of(x, p)]
    ages = np.empty((stages, LOOK), np.int64)
    look = np.minimum(x.many, LOOK)
    for s in range(stages):
        for k in range(look[s]):
            ages[s, k] = min(max((base - r.deadline[at(x, s, k)]) // p.width, 0), p.oldest)
    gains, order = np.empty(LOOK, np.int64), np.empty(LOOK, np.int64)
    best, best_stage = COSTLY, -1
    for stage in range(stages):
        feasible = min(b_max, slots - held, queued, LOOK) if stage == 0 else min(b_max, x.many[stage])
        for b in range(feasible):
            d = p.steps[stage, b]
            size = min(b + 1, look[stage])
            score = costs[stage * p.table_b_max + b] - worth(p, ages, look, d)
            for k in range(look[stage]):
                gain, j = p.gain[stage, ages[stage, k] + d], k
                while (
                    size < look[stage] and j > 0 and gains[j - 1] < gain
                ):  # the largest first, the older first among equals
                    gains[j], order[j] = gains[j - 1], order[j - 1]
                    j -= 1
                gains[j], order[j] = gain, k
            for k in range(size):
                score -= gains[k]
            if score < best:
                best, best_stage = score, stage
                x.act[SIZE] = size
                x.batch[:size] = order[:size]
    if not x.num[CLOSED] and costs[len(costs) - 1] - worth(p, ages, look, p.gap) < best:
        wait(x, NEVER)
    else:
        x.act[KIND], x.act[STAGE] = RUN, best_stage


@jit
def worth(p: Rules, ages: Ints, look: Ints, d: int) -> int:
    """The credit of all samples present, d steps from now."""
    total = 0
    for s in range(len(look)):
        for k in range(look[s]):
            total += p.v[s, ages[s, k] + d]
    return total


@jit
def starved(x: State, m: Machine, r: Stream, limit: int, slots: int) -> bool:
    """As `Credit._starved`."""
    stage = -1
    for s in range(len(x.many)):
        if x.many[s] and (stage < 0 or r.deadline[at(x, s, 0)] < r.deadline[at(x, stage, 0)]):
            stage = s
    if r.deadline[at(x, stage, 0)] >= limit:
        return False
    make_room(x, m, stage, slots)
    return True


@jit
def chosen(x: State, k: int) -> bool:
    """Whether the batch decided holds place k of its line."""
    for j in range(x.act[SIZE]):  # noqa: SIM110 - Numba compiles no generators
        if x.batch[j] == k:
            return True
    return False


@jit
def tail_grows(x: State, m: Machine, r: Stream, p: Rules) -> bool:
    """As `Guarded` before it asks anybody: what it counts, and `_tail_grows`."""
    now, last, horizon = x.num[NOW], x.num[LAST], p.guard[HORIZON]
    for k in range(x.many[0] - 1, -1, -1):
        if at(x, 0, k) <= last:
            break
        x.num[SEEN] += 1
        x.late[0] *= 1 - 1 / horizon
        x.num[LAST] = max(x.num[LAST], at(x, 0, k))
    late, latest = 0, x.num[LATEST]
    for s in range(len(x.many)):
        for k in range(min(x.many[s], LOOK)):
            request = at(x, s, k)
            if r.deadline[request] >= now:
                break
            if request > x.num[LATEST]:
                late, latest = late + 1, max(latest, request)
    x.num[LATEST] = latest
    x.late[0] += late / horizon
    calm = min(1.0, max(0.0, (p.guard[HIGH] - x.late[0]) / (p.guard[HIGH] - p.guard[LOW])))
    limit = now + p.slo - int((p.guard[HASTY] + (p.guard[PATIENT] - p.guard[HASTY]) * calm) * p.slo)
    debt = 0
    for s in range(len(x.many) - 1, -1, -1):
        for k in range(min(x.many[s], LOOK)):
            request = at(x, s, k)
            if x.spared[request]:
                continue
            if r.deadline[request] >= now:
                break
            if r.deadline[request] < limit + debt + p.work[s]:
                if x.num[GIVEN] + 1 > p.guard[GIVE_UP] * (x.num[SEEN] + p.guard[HEAD_START]):
                    return True
                x.num[GIVEN] += 1
                x.spared[request] = 1
            else:
                debt += p.work[s]
    return False


@jit
def anytime(x: State, m: Machine, r: Stream, p: Rules, late: Ints) -> int:
    """As `Anytime`: how many are answered now, their places in the stream in `late`; 0 to do as decided."""
    stage, end, found = -1, x.num[NOW], 0
    if x.act[KIND] == RUN:
        stage = x.act[STAGE]
        end += m.believed[stage, x.act[SIZE] - 1]
    left = p.anytime * x.num[STARTED] - x.num[ANSWERED]
    if left >= 1:
        for s in range(1, len(x.many)):
            for k in range(x.many[s]):
                deadline = r.deadline[at(x, s, k)]
                if end + m.believed[s, 0] <= deadline or (p.rescue_only and x.num[NOW] > deadline):
                    continue
                if s == stage and end <= deadline and chosen(x, k):
                    continue
                if found + 1 <= left:
                    late[found] = at(x, s, k)
                    found += 1
    if found:
        x.num[ANSWERED] += found
    elif stage == 0:
        x.num[STARTED] += x.act[SIZE]
    return found


@jit
def decide(x: State, m: Machine, r: Stream, p: Rules) -> None:
    """What the policy, without wrappers, decides."""
    if p.code == SERIAL:
        run(x, deepest(x), 1)
    elif p.code == GREEDY:
        stage = deepest(x)
        run(x, stage, x.many[stage] if stage else min(x.many[0], p.limit))
    elif p.code == ADAPTIVE:
        adaptive(x, m, r, p.limit)
    elif p.code == FLUID:
        fluid(x, m, r, p.flag)
    elif p.code == LAZY:
        lazy(x, m, r, p.flag)
    elif p.code == STAGED:
        staged(x, m, p.limit)
    elif p.code == OPTIMAL:
        optimal(x, m, r, p)
    elif p.code == GUARDED and tail_grows(x, m, r, p):
        if x.many[0] <= LOOK:
            optimal(x, m, r, p)
        else:
            fluid(x, m, r, 0)
    else:
        credit(x, m, r, p)


@jit
def take(x: State, stage: int, size: int, gone: Ints) -> None:
    """Move the batch out of its line into `gone`, as places in the stream in the order decided; the rest keeps its order."""
    oldest = True
    for k in range(size):
        gone[k] = at(x, stage, x.batch[k])
        oldest = oldest and x.batch[k] == k
    if stage == 0 and oldest:  # the usual case
        x.num[HEAD] += size
        x.many[0] -= size
        return
    inside = np.sort(x.batch[:size])
    if stage == 0:  # the rest in front moves towards the tail
        head, k, to = x.num[HEAD], size - 1, x.num[HEAD] + inside[size - 1]
        for j in range(inside[size - 1], -1, -1):
            if k >= 0 and inside[k] == j:
                k -= 1
            else:
                x.queue[to] = x.queue[head + j]
                to -= 1
        x.num[HEAD] += size
    else:
        k, to = 0, 0
        for j in range(x.many[stage]):
            if k < size and inside[k] == j:
                k += 1
            else:
                x.line[stage, to] = x.line[stage, j]
                to += 1
    x.many[stage] -= size


@jit
def enter(x: State, stage: int, request: int) -> None:
    """Put a request into a line past the queue, in order."""
    k = x.many[stage]
    while k > 0 and x.line[stage, k - 1] > request:
        x.line[stage, k] = x.line[stage, k - 1]
        k -= 1
    x.line[stage, k] = request
    x.many[stage] += 1


@jit
def hopeless(x: State, m: Machine, r: Stream, gone: Ints) -> int:
    """As `Shedding`: take the hopeless out of the queue into `gone`; how many."""
    soonest, found, kept, head = x.num[NOW] + m.believed[0, 0], 0, 0, x.num[HEAD]
    for k in range(x.many[0]):
        request = x.queue[head + k]
        if r.deadline[request] < soonest:
            gone[found] = request
            found += 1
    if found:
        for k in range(x.many[0] - 1, -1, -1):
            if r.deadline[x.queue[head + k]] >= soonest:
                x.queue[head + x.many[0] - 1 - kept] = x.queue[head + k]
                kept += 1
        x.num[HEAD] += found
        x.many[0] = kept
    return found


@jit
def answer(x: State, request: int) -> int:
    """Take a request that waits past the queue out of its line; its stage."""
    for s in range(1, len(x.many)):
        for k in range(x.many[s]):
            if x.line[s, k] == request:
                for j in range(k, x.many[s] - 1):
                    x.line[s, j] = x.line[s, j + 1]
                x.many[s] -= 1
                x.num[HELD] -= 1
                return s
    return -1


@jit
def larger(table: Ints, need: int) -> Ints:
    """The same rows with room for `need`."""
    if need <= len(table):
        return table
    grown = np.zeros((max(need, 2 * len(table)), table.shape[1]), np.int64)
    grown[: len(table)] = table
    return grown


@jit
def serve(r: Stream, m: Machine, p: Rules) -> tuple[int, Ints, Ints, Ints]:
    """Serve the stream: (1 for a decision that the engine would refuse, fates, log, ids).

    `fates` are start, end, exit and outcome per request; a line of `log` is time, kind, stage, size, until, end of the run; `ids` are the
    requests of all lines one after the other.
    """
    n, stages = len(r.arrival), len(m.believed)
    x = State(
        np.empty(n, np.int64), np.empty((stages, m.slots + 1), np.int64), np.zeros(stages, np.int64),
        np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1]), np.zeros(4, np.int64), np.empty(max(n, m.slots + 1), np.int64),
        np.zeros(n, np.int64), np.zeros(1),
    )  # fmt: skip
    fates = np.full((n, 4), -1, np.int64)
    log, ids = np.zeros((2 * n + 16, 6), np.int64), np.zeros((8 * n + 16, 1), np.int64)
    gone = np.empty(max(n, m.slots + 1), np.int64)
    lines, names, i, now = 0, 0, 0, 0
    while True:
        while i < n and r.arrival[i] <= now:
            x.queue[x.num[HEAD] + x.many[0]] = i
            x.many[0] += 1
            i += 1
        if not x.many[0] and not x.num[HELD]:
            if i == n:
                break
            now = r.arrival[i]
            continue
        x.num[NOW], x.num[CLOSED] = now, int(i == n)
        size = hopeless(x, m, r, gone) if p.shed else 0
        if size:
            x.act[KIND] = SHED
        else:
            decide(x, m, r, p)
            size = anytime(x, m, r, p, gone) if p.anytime > 0 else 0
            if size:
                x.act[KIND] = ANSWER
        kind, stage, until, end = x.act[KIND], 0, NEVER, now
        if kind == RUN:
            stage, size = x.act[STAGE], x.act[SIZE]
            if not 1 <= size <= min(m.b_max, x.many[stage]):
                return 1, fates, log, ids
            take(x, stage, size, gone)
            end = now + m.took[stage, size - 1]
            if stage == 0:
                x.num[HELD] += size
                if x.num[HELD] > m.slots:
                    return 1, fates, log, ids
            for k in range(size):
                request = gone[k]
                if stage == 0:
                    fates[request, 0] = now
                if r.leaves[request] == stage:
                    fates[request, 1], fates[request, 2], fates[request, 3] = end, stage, 0
                    x.num[HELD] -= 1
                elif stage + 1 == stages:
                    return 1, fates, log, ids
                else:
                    enter(x, stage + 1, request)
        elif kind == WAIT:
            until = x.act[UNTIL]
            if i == n or (until != NEVER and until <= now):
                return 1, fates, log, ids
            end = r.arrival[i] if until == NEVER else min(until, r.arrival[i])
        elif kind == ANSWER:
            for k in range(size):
                fates[gone[k], 1], fates[gone[k], 2], fates[gone[k], 3] = now, answer(x, gone[k]) - 1, 1
        else:
            for k in range(size):
                fates[gone[k], 0], fates[gone[k], 1], fates[gone[k], 2], fates[gone[k], 3] = now, now, -1, 2
        log, ids = larger(log, lines + 1), larger(ids, names + size)
        log[lines, 0], log[lines, 1], log[lines, 2] = now, kind, stage
        log[lines, 3], log[lines, 4], log[lines, 5] = size, until, end
        ids[names : names + size, 0] = gone[:size]
        lines, names, now = lines + 1, names + size, end
    return 0, fates, log[:lines], ids[:names]
