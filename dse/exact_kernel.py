"""The NPU cycle by cycle, without data: what every module of the RTL holds and hands on, as one loop over integer arrays that Numba compiles.

Each function below is one module of `rtl_tb/*/rtl`, named beside it, or the DRAM model of `rtl_tb/npu/npu_model.cpp`. Only what decides when
something happens is here: counters, levels of queues, addresses; no word is moved. The tests hold `simulate` to Verilator, cycle for cycle.

In a cycle consumers go before producers, and whoever needs to know whether a queue has room is given its level of before the cycle (`_old`): a
queue shows what is pushed only a cycle later, and its room does not depend on what is popped, as in `common_fifo` and `common_skid`.
Without Numba the functions are plain Python: the same cycles, some thousand times slower.
All of it stays in one file: Numba's cache sees changes of the file of the function it compiles, not of those that it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

try:
    import numba
except ImportError:
    numba = None

Ints = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])
COMPILED = numba is not None


def jit(function: F) -> F:
    """Compiled by Numba where it is installed, else the function itself. Only `simulate` is called from Python."""
    if numba is None:
        return function
    inner = function.__name__ != "simulate"
    compiled: F = numba.njit(
        cache=True, error_model="numpy", no_cpython_wrapper=inner, no_cfunc_wrapper=True, nogil=True, _nrt=False
    )(function)
    return compiled


# -- one array of numbers: where each lies in it ------------------------------------------------------------------

HARDWARE = (
    "t_p", "input_words", "t_c", "weight_slots", "out_words", "split_depth", "late", "port_words", "max_burst", "line_words",
    "buffer_bytes", "queue_beats", "biases_per_beat", "bias_depth", "port_shift", "late_mask", "bias_mask", "late_at",
    "bias_at", "stripes", "stripe_at",
)  # fmt: skip
(
    T_P, INPUT_WORDS, T_C, WEIGHT_SLOTS, OUT_WORDS, SPLIT_DEPTH, LATE, PORT_WORDS, MAX_BURST, LINE_WORDS, BUFFER_BYTES,
    QUEUE_BEATS, BIASES_PER_BEAT, BIAS_DEPTH, PORT_SHIFT, LATE_MASK, BIAS_MASK, LATE_AT, BIAS_AT, STRIPES, STRIPE_AT,
) = range(len(HARDWARE))  # fmt: skip

# Of the layer that runs: a row of `simulate`'s table.
LAYER = (
    "pool", "mode", "row_lanes", "sample_lanes", "b_r", "block", "has_residual", "kernel_h", "kernel_w", "out_h",
    "out_w", "group_words", "groups", "columns", "in_offset", "out_offset", "out_row", "out_pixel", "residual_offset",
    "residual_row", "residual_pixel", "contiguous", "run_words", "p_tiles", "beats0", "beats1", "weights",
    "block_words", "plan_cycles", "descriptor", "batch", "row_bytes", "row_step", "sample_rows", "rise", "span", "pitch",
    "sample_pitch",
)  # fmt: skip
(
    POOL, MODE, ROW_LANES, SAMPLE_LANES, B_R, BLOCK, HAS_RESIDUAL, KERNEL_H, KERNEL_W, OUT_H, OUT_W, GROUP_WORDS,
    GROUPS, COLUMNS, IN_OFFSET, OUT_OFFSET, OUT_ROW, OUT_PIXEL, RESIDUAL_OFFSET, RESIDUAL_ROW, RESIDUAL_PIXEL,
    CONTIGUOUS, RUN_WORDS, P_TILES, BEATS0, BEATS1, WEIGHTS, BLOCK_WORDS, PLAN_CYCLES, DESCRIPTOR, BATCH, ROW_BYTES, ROW_STEP,
    SAMPLE_ROWS, RISE, SPAN, PITCH, SAMPLE_PITCH,
) = range(len(HARDWARE), len(HARDWARE) + len(LAYER))  # fmt: skip

# What is counted of it.
COUNTS = (
    "cycles", "input_beats", "blocked_cycles", "starved_cycles", "weight_beats", "residual_beats", "output_beats",
    "read_beats0", "read_beats1", "read_beats2", "read_bursts0", "read_bursts1", "read_bursts2", "write_beats",
    "write_bursts",
)  # fmt: skip
COUNTED = len(HARDWARE) + len(LAYER)
(
    N_CYCLES, N_INPUT, N_BLOCKED, N_STARVED, N_WEIGHT, N_RESIDUAL, N_OUTPUT, N_READ, N_READ1, N_READ2, N_BURSTS,
    N_BURSTS1, N_BURSTS2, N_WRITTEN, N_WRITE_BURSTS,
) = range(COUNTED, COUNTED + len(COUNTS))  # fmt: skip

MEMORY = (
    "latency", "write_latency", "link_rate", "total_rate", "refresh_interval", "refresh_cycles", "outstanding",
    "link0", "link1", "link2",
)  # fmt: skip
REMEMBERED = COUNTED + len(COUNTS)
(
    LATENCY, WRITE_LATENCY, LINK_RATE, TOTAL_RATE, REFRESH_INTERVAL, REFRESH_CYCLES, OUTSTANDING, LINK0, LINK1, LINK2,
) = range(REMEMBERED, REMEMBERED + len(MEMORY))  # fmt: skip

NORMAL, WIDE, LANES, SPLIT, MAX_POOL = range(5)
FRACTION = 1024  # rates are in bytes of 1 / FRACTION, as the harness counts them
DESCRIPTOR_BYTES = 128
MAX_SLOTS = 32
COMMAND_QUEUE = 4
JOB_QUEUE = 32
ROW_QUEUE = 8
BEAT_QUEUE = 8
MAX_OUTSTANDING = 63
GENERATIONS = 4
STEPS = 8  # of post-processing
RING = 64  # commands remembered: more than all queues hold
BURSTS = 64  # the most that memory may owe a master

# State: registers of the modules, in their order below.
STATES = REMEMBERED + len(MEMORY)
(
    STATE, WAIT, LAYER_NOW, LEFT0, LEFT1, GROUP, FIRST, GROUP_IN, GROUP_OUT, BLOCK_OPEN, ASKED, GOT, ISSUED,
    # how many commands each reader has taken
    CMD_OUT, INPUT_OUT, OUTPUT_OUT, RESIDUAL_OUT, LOAD_OUT, BEAT_OUT, DRAIN_OUT, BLOCKS_IN, BLOCKS_OUT,
    # weight streamer, residual reader, their unpackers
    W_JOBS_IN, W_JOBS_OUT, W_COUNT, W_LEFT, W_MISSING, W_SKIP,
    R_JOBS_IN, R_JOBS_OUT, R_COUNT, R_LEFT, R_MISSING, R_SKIP, R_COLS,
    # windows
    BUSY, PASS_OPEN, TILE, NOW_COMMAND, POSITION, HALF,
    TAP_ROW, TAP_COLUMN, WORD,
    TILE_TAP_ROW, TILE_TAP_COLUMN, TILE_WORD,
    # row buffer: of each lane the row to be asked for, its place, rows there; rows under way
    I_TURN, I_S1, I_S1_ENDS, I_BEATS, I_ROWS_IN, I_ROWS_OUT, I_ARRIVED,
    # output writer
    O_COLS, O_LAST, O_WORD, O_TAKEN, O_ANY, O_FULL, O_ADDR, O_OPEN,
    # write master
    M_NEXT, M_OPEN, M_WORDS, M_BURST, M_BURST_WORDS, M_AW, M_W, M_LEFT, M_OUTSTANDING,
    # core
    IN_SKID, W_SKID, R_SKID, OUT_SKID, PIPE,
    S_INNER, S_OUTER, S_AGE, S_UNFETCHED, S_SPLIT,
    L_IN_TILE, L_LOADED, L_TILE, L_DONE,
    B_IN, B_OUT, B_COLUMN, B_INDEX, B_HELD,
    P_VALID,
    D_ROW, D_STORED, D_VALID, D_COLS, D_LEFT, D_LANE1, D_HAS_LANE1,
    # memory
    V_OPEN_IN, V_OPEN_OUT, V_SENT, V_ANSWERED_IN, V_ANSWERED_OUT, V_TOTAL,
) = range(STATES, STATES + 104)  # fmt: skip

# Row walkers
(
    A_ACTIVE, A_LANE, A_COMMIT, A_BEAT, A_BEATS, A_LANE1, A_SHIFT, A_SAMPLE, A_ROW, A_COLUMN, A_ROW_OFFSET, A_OFFSET,
    A_START_SAMPLE, A_START_ROW, A_START_COLUMN, A_START_ROW_OFFSET, A_START_OFFSET, A_STEP_H, A_STEP_W, A_SIZE,
) = range(20)  # fmt: skip
WINDOWS = STATES + 104
OUTPUTS, RESIDUALS = WINDOWS + A_SIZE, WINDOWS + 2 * A_SIZE

# Read masters, and what memory owes each
X_ADDR, X_LEFT, X_END, X_AR, X_LENGTH, X_INFLIGHT, X_LEVEL, X_IN, X_OUT, X_SENT, X_SIZE = range(11)
READERS = RESIDUALS + A_SIZE
M0, M1, M2 = READERS, READERS + X_SIZE, READERS + 2 * X_SIZE
DUE = M2 + X_SIZE  # when a read burst may begin
LENGTHS = DUE + 3 * BURSTS
OPEN_BEATS = LENGTHS + 3 * BURSTS  # write bursts whose data are coming
ANSWER_DUE = OPEN_BEATS + BURSTS
CREDIT = ANSWER_DUE + BURSTS  # links, read then write

# Commands given
Q_BEATS, Q_LANE1, Q_COLS, Q_IN_SHIFT, Q_OUT_SHIFT, Q_BLOCK_FIRST, Q_BLOCK_LAST, Q_LAYER_LAST, Q_SIZE = range(9)
COMMAND_RING = CREDIT + 6
SLOTS = COMMAND_RING + RING * Q_SIZE  # addresses of the samples
R_JOB_COLS = SLOTS + MAX_SLOTS
R_JOB_SKIP = R_JOB_COLS + JOB_QUEUE
# Input rows: what each lane loads, and the rows that are asked for (2 * port words + lane)
L_SAMPLE, L_END, L_ROW, L_OFFSET, L_START, L_PLACE, L_THERE, L_SIZE = range(8)
ROWS = R_JOB_SKIP + JOB_QUEUE
ROWS_ASKED = ROWS + 2 * L_SIZE
FIXED = ROWS_ASKED + ROW_QUEUE

# Behind them what a design sizes: final beats on their way, columns of bias headers, stripes.

# Stripes, where masters have them: credits of each link (read, then write), then the stripes of m0, m1, m2 and of m2's writes. Each has a ring
# of bursts and ports: what the port's address register holds, its queue, what memory owes it.
Y_FIRST, Y_PORT, Y_SENT, Y_WITHIN, Y_IN, Y_OUT, Y_ANSWERED, Y_SIZE = range(8)
Z_ASKED, Z_FREE, Z_LEVEL, Z_LANE, Z_IN, Z_OUT, Z_SENT, Z_DONE_IN, Z_DONE_OUT, Z_RESPONSES, Z_SIZE = range(11)
MAX_STRIPES = 4
STRIPED_BURSTS = 256  # under way in a stripe: as many as its queues hold words
STRIPE_WRITE_WORDS, STRIPE_WRITE_BURSTS = 32, 64  # QueueWords and MaxOutstanding of axi_write_stripe
Z_RING = Z_SIZE  # read: when a burst may begin; written: words of bursts whose data are coming
Z_OTHER = Z_RING + BURSTS  # read: lengths; written: when an answer may come
Z_ROOM = Z_OTHER + BURSTS
Y_RING = Y_SIZE  # of lengths
Y_WANTED = Y_RING + STRIPED_BURSTS  # written: whose answers are wanted, 16 * first port + ports
Y_PORTS = Y_WANTED + STRIPE_WRITE_BURSTS
Y_ROOM = Y_PORTS + MAX_STRIPES * Z_ROOM
Y_WRITES = 3
STRIPE_ROOM = 2 * MAX_STRIPES + 4 * Y_ROOM

SLOTS_STATE, FETCH, LOOKUP, PLAN, BEGIN, COMMANDS, DRAIN = range(7)


def ring(entries: int) -> int:
    """Places of a ring for so many entries: a power of two, so that an index needs no division.

    >>> ring(5)
    8
    """
    return 1 << (entries - 1).bit_length()


def new_state(hardware: dict[str, int], memory: dict[str, int], slots: Sequence[int]) -> Ints:
    """The state in which a job starts: nothing is under way."""
    sizes = {
        "late": ring(hardware["late"] + 1),
        "bias": ring(hardware["bias_depth"]),
    }
    places, size = {}, FIXED
    for name, room in sizes.items():
        places[f"{name}_at"] = size
        size += room
    places["stripe_at"] = size
    size += STRIPE_ROOM if hardware["stripes"] > 1 else 0
    derived = {
        "port_shift": (2 * hardware["port_words"]).bit_length() - 1,
        "late_mask": sizes["late"] - 1,
        "bias_mask": sizes["bias"] - 1,
    }
    s = np.zeros(size, np.int64)
    s[: len(HARDWARE)] = [(hardware | derived | places)[name] for name in HARDWARE]
    s[REMEMBERED:STATES] = [memory[name] for name in MEMORY]
    s[SLOTS : SLOTS + len(slots)] = slots
    full = 4 * hardware["port_words"] * FRACTION  # two beats
    s[V_TOTAL] = max(full, memory["total_rate"])
    s[CREDIT : CREDIT + 6] = max(full, memory["link_rate"])
    s[L_DONE] = hardware["biases_per_beat"]
    s[WAIT] = MAX_SLOTS
    if s[STRIPES] > 1:
        at = int(s[STRIPE_AT])
        s[at : at + 2 * MAX_STRIPES] = max(full, memory["link_rate"])
        for i in range(Y_WRITES):
            ports = at + 2 * MAX_STRIPES + i * Y_ROOM + Y_PORTS
            s[ports + Z_FREE : ports + Z_FREE + s[STRIPES] * Z_ROOM : Z_ROOM] = s[QUEUE_BEATS] // s[STRIPES]
    return s


# -- memory: npu_model.cpp ---------------------------------------------------------------------------------------


@jit
def _memory(s: Ints, port_bytes: int, now: int) -> tuple[int, int, int, int, int]:
    """One cycle of the DRAM model: (read beats as bits, read addresses taken as bits, AWREADY, WREADY, answer)."""
    refreshing = s[REFRESH_CYCLES] != 0 and now % s[REFRESH_INTERVAL] < s[REFRESH_CYCLES]
    link, total = s[LINK_RATE], s[TOTAL_RATE]
    cost = port_bytes * FRACTION
    if link:
        for i in range(6):
            s[CREDIT + i] = min(s[CREDIT + i] + link, max(2 * cost, link))
    if total:
        s[V_TOTAL] = min(s[V_TOTAL] + total, max(2 * cost, total))
    size = s[OUTSTANDING]
    beats, taken, wready = 0, 0, 0
    if not (link or total or refreshing):  # nobody is in another's way
        for i in range(3):
            x = READERS + i * X_SIZE
            if s[x + X_IN] != s[x + X_OUT] and s[DUE + i * BURSTS + (s[x + X_OUT] & (BURSTS - 1))] <= now:
                beats |= 1 << i
        wready = int(s[M_W] != 0 and s[V_OPEN_IN] != s[V_OPEN_OUT])
    elif not refreshing:
        for i in range(4):
            who = (i + now) & 3
            if total and s[V_TOTAL] < cost:
                break
            if who < 3:
                x = READERS + who * X_SIZE
                if s[x + X_IN] == s[x + X_OUT] or s[DUE + who * BURSTS + (s[x + X_OUT] & (BURSTS - 1))] > now:
                    continue
                budget = s[LINK0 + who]
            else:
                if not s[M_W] or s[V_OPEN_IN] == s[V_OPEN_OUT]:
                    continue
                budget = 3 + s[LINK2]
            if link:
                if s[CREDIT + budget] < cost:
                    continue
                s[CREDIT + budget] -= cost
            if total:
                s[V_TOTAL] -= cost
            if who < 3:
                beats |= 1 << who
            else:
                wready = 1
    for i in range(3):
        x = READERS + i * X_SIZE
        room = s[x + X_IN] - s[x + X_OUT] < size
        if beats >> i & 1:
            s[N_READ + i] += 1
            s[x + X_SENT] += 1
            if s[x + X_SENT] == s[LENGTHS + i * BURSTS + (s[x + X_OUT] & (BURSTS - 1))]:
                s[x + X_SENT] = 0
                s[x + X_OUT] += 1
        if s[x + X_AR] and room:
            taken |= 1 << i
            s[N_BURSTS + i] += 1
            s[DUE + i * BURSTS + (s[x + X_IN] & (BURSTS - 1))] = now + s[LATENCY]
            s[LENGTHS + i * BURSTS + (s[x + X_IN] & (BURSTS - 1))] = s[x + X_LENGTH]
            s[x + X_IN] += 1
    awready = int(s[V_OPEN_IN] - s[V_OPEN_OUT] + s[V_ANSWERED_IN] - s[V_ANSWERED_OUT] < size)
    answer = int(s[V_ANSWERED_IN] != s[V_ANSWERED_OUT] and s[ANSWER_DUE + (s[V_ANSWERED_OUT] & (BURSTS - 1))] <= now)
    s[V_ANSWERED_OUT] += answer
    if wready:
        s[N_WRITTEN] += 1
        s[V_SENT] += 1
        if s[V_SENT] == s[OPEN_BEATS + (s[V_OPEN_OUT] & (BURSTS - 1))]:
            s[V_SENT] = 0
            s[V_OPEN_OUT] += 1
            s[ANSWER_DUE + (s[V_ANSWERED_IN] & (BURSTS - 1))] = now + s[WRITE_LATENCY]
            s[V_ANSWERED_IN] += 1
    if s[M_AW] and awready:
        s[N_WRITE_BURSTS] += 1
        s[OPEN_BEATS + (s[V_OPEN_IN] & (BURSTS - 1))] = s[M_AW]
        s[V_OPEN_IN] += 1
    return beats, taken, awready, wready, answer


# -- stripes: axi_read_stripe, axi_write_stripe, and npu_model.cpp behind their ports ------------------------------


@jit
def _stripe_port(s: Ints, i: int, p: int) -> int:
    """Where port `p` of stripe `i` lies."""
    return int(s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM + Y_PORTS + p * Z_ROOM)


@jit
def _chunk(s: Ints, y: int, length: int, p: int) -> int:
    """Wide words of a burst of `length` that port `p` gets (axi_stripe_cut)."""
    stripes = s[STRIPES]
    step = (length + stripes - 1) // stripes
    start = (p - s[y + Y_FIRST] & stripes - 1) * step
    return int(min(step, length - start)) if start < length else 0


@jit
def _cut(s: Ints, i: int, length: int, depth: int, oldest: int) -> int:
    """axi_stripe_cut: whether stripe `i`, whose oldest burst is number `oldest`, takes a burst of `length` wide words, if one is offered."""
    y = s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM
    stripes = s[STRIPES]
    take = length != 0 and s[y + Y_IN] - oldest < depth
    if not take:
        return 0
    for p in range(stripes):
        z = y + Y_PORTS + p * Z_ROOM
        words = _chunk(s, y, length, p)
        if words and (s[z + Z_ASKED] or (i != Y_WRITES and words > s[z + Z_FREE])):
            take = False
    return int(take)


@jit
def _begin_burst(s: Ints, i: int, length: int) -> None:
    """The burst that `_cut` takes: its chunks are in the ports' address registers."""
    y = s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM
    stripes = s[STRIPES]
    used = 0
    for p in range(stripes):
        z = y + Y_PORTS + p * Z_ROOM
        words = _chunk(s, y, length, p)
        if words:
            used += 1
            s[z + Z_ASKED] = words * stripes
            s[z + Z_FREE] -= words
    stays = used == stripes and length % stripes != 0
    s[y + Y_RING + (s[y + Y_IN] & (STRIPED_BURSTS - 1))] = length
    s[y + Y_FIRST] = s[y + Y_FIRST] + (used - 1 if stays else used) & stripes - 1
    s[y + Y_IN] += 1


@jit
def _next_word(s: Ints, y: int) -> None:
    """One wide word of the oldest burst has passed: whose is the next."""
    stripes = s[STRIPES]
    length = s[y + Y_RING + (s[y + Y_OUT] & (STRIPED_BURSTS - 1))]
    step = (length + stripes - 1) // stripes
    s[y + Y_SENT] += 1
    s[y + Y_WITHIN] += 1
    last = s[y + Y_SENT] == length
    if last or s[y + Y_WITHIN] == step:
        stays = last and (length + step - 1) // step == stripes and length % stripes != 0
        s[y + Y_WITHIN] = 0
        if not stays:
            s[y + Y_PORT] = s[y + Y_PORT] + 1 & stripes - 1
    if last:
        s[y + Y_SENT] = 0
        s[y + Y_OUT] += 1


@jit
def _grants(s: Ints, port_bytes: int, now: int) -> int:
    """Ports that move a narrow word, as bits: 4 * i + p for port p of stripe i."""
    stripes = s[STRIPES]
    refreshing = s[REFRESH_CYCLES] != 0 and now % s[REFRESH_INTERVAL] < s[REFRESH_CYCLES]
    link, total, credit = s[LINK_RATE], s[TOTAL_RATE], s[STRIPE_AT]
    cost = port_bytes // stripes * FRACTION
    if link:
        for i in range(2 * MAX_STRIPES):
            s[credit + i] = min(s[credit + i] + link, max(2 * cost, link))
    if total:
        s[V_TOTAL] = min(s[V_TOTAL] + total, max(2 * cost, total))
    moved, busy = 0, 0
    for i in range(4):
        y = s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM
        busy |= int(s[y + Y_IN] != s[y + Y_OUT] or (i == Y_WRITES and s[y + Y_IN] != s[y + Y_ANSWERED])) << i
    if refreshing or not busy:
        return moved
    shift = stripes >> 1  # log2
    for turn in range(4 * stripes):
        who = turn + now & 4 * stripes - 1
        i, p = who >> shift, who & stripes - 1
        if not busy >> i & 1:
            continue
        z = _stripe_port(s, i, p)
        if s[z + Z_IN] == s[z + Z_OUT]:
            continue
        if i == Y_WRITES:
            if not s[z + Z_LEVEL]:
                continue
        elif s[z + Z_RING + (s[z + Z_OUT] & (BURSTS - 1))] > now:
            continue
        budget = credit + p + (MAX_STRIPES if i == Y_WRITES else 0)
        if (total and s[V_TOTAL] < cost) or (link and s[budget] < cost):
            continue
        if link:
            s[budget] -= cost
        if total:
            s[V_TOTAL] -= cost
        moved |= 1 << 4 * i + p
    return moved


@jit
def _read_stripe(s: Ints, i: int, moved: int, now: int) -> tuple[int, int]:
    """axi_read_stripe and its ports: (a wide word goes out, a wide address is taken)."""
    stripes = s[STRIPES]
    y = s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM
    x = READERS + i * X_SIZE
    empty = s[y + Y_IN] == s[y + Y_OUT]
    if empty and not s[x + X_AR]:
        s[y + Y_FIRST] = 0
        s[y + Y_PORT] = 0
        return 0, 0
    out = y + Y_PORTS + s[y + Y_PORT] * Z_ROOM
    word = int(not empty and s[out + Z_LEVEL] != 0)
    length = s[x + X_LENGTH] if s[x + X_AR] else 0
    take = _cut(s, i, length, s[QUEUE_BEATS], s[y + Y_OUT])
    for p in range(stripes):
        z = y + Y_PORTS + p * Z_ROOM
        room = s[z + Z_IN] - s[z + Z_OUT] < s[OUTSTANDING]
        if moved >> 4 * i + p & 1:
            s[N_READ + i] += 1
            s[z + Z_SENT] += 1
            if s[z + Z_SENT] == s[z + Z_OTHER + (s[z + Z_OUT] & (BURSTS - 1))]:
                s[z + Z_SENT] = 0
                s[z + Z_OUT] += 1
            s[z + Z_LANE] += 1
            if s[z + Z_LANE] == stripes:
                s[z + Z_LANE] = 0
                s[z + Z_LEVEL] += 1
        if s[z + Z_ASKED] and room:
            s[N_BURSTS + i] += 1
            s[z + Z_RING + (s[z + Z_IN] & (BURSTS - 1))] = now + s[LATENCY]
            s[z + Z_OTHER + (s[z + Z_IN] & (BURSTS - 1))] = s[z + Z_ASKED]
            s[z + Z_IN] += 1
            s[z + Z_ASKED] = 0
    if word:
        s[out + Z_LEVEL] -= 1
        s[out + Z_FREE] += 1
        _next_word(s, y)
    if take:
        _begin_burst(s, i, length)
    elif empty:
        s[y + Y_FIRST] = 0
        s[y + Y_PORT] = 0
    return word, take


@jit
def _write_stripe(s: Ints, moved: int, now: int) -> tuple[int, int, int]:
    """axi_write_stripe and its ports: (AWREADY, WREADY, answer)."""
    stripes = s[STRIPES]
    i = Y_WRITES
    y = s[STRIPE_AT] + 2 * MAX_STRIPES + i * Y_ROOM
    empty = s[y + Y_IN] == s[y + Y_ANSWERED]
    if empty and not s[M_AW]:
        s[y + Y_FIRST] = 0
        s[y + Y_PORT] = 0
        return 0, 0, 0
    into = y + Y_PORTS + s[y + Y_PORT] * Z_ROOM
    word = int(s[M_W] != 0 and s[y + Y_IN] != s[y + Y_OUT] and s[into + Z_LEVEL] < STRIPE_WRITE_WORDS // stripes)
    length = s[M_AW]
    take = _cut(s, i, length, STRIPE_WRITE_BURSTS, s[y + Y_ANSWERED])
    # The ports of the oldest unanswered burst: their number, from the first on.
    answer = int(not empty)
    first, wanted = 0, 0
    if answer:
        oldest = s[y + Y_WANTED + (s[y + Y_ANSWERED] & (STRIPE_WRITE_BURSTS - 1))]
        first, wanted = oldest >> 4, oldest & 15
        for c in range(wanted):
            if s[y + Y_PORTS + (first + c & stripes - 1) * Z_ROOM + Z_RESPONSES] == 0:
                answer = 0
    if answer:
        for c in range(wanted):
            s[y + Y_PORTS + (first + c & stripes - 1) * Z_ROOM + Z_RESPONSES] -= 1
        s[y + Y_ANSWERED] += 1
    for p in range(stripes):
        z = y + Y_PORTS + p * Z_ROOM
        room = s[z + Z_IN] - s[z + Z_OUT] + s[z + Z_DONE_IN] - s[z + Z_DONE_OUT] < s[OUTSTANDING]
        if s[z + Z_DONE_IN] != s[z + Z_DONE_OUT] and s[z + Z_OTHER + (s[z + Z_DONE_OUT] & (BURSTS - 1))] <= now:
            s[z + Z_DONE_OUT] += 1
            s[z + Z_RESPONSES] += 1
        if moved >> 4 * i + p & 1:
            s[N_WRITTEN] += 1
            s[z + Z_SENT] += 1
            if s[z + Z_SENT] == s[z + Z_RING + (s[z + Z_OUT] & (BURSTS - 1))]:
                s[z + Z_SENT] = 0
                s[z + Z_OUT] += 1
                s[z + Z_OTHER + (s[z + Z_DONE_IN] & (BURSTS - 1))] = now + s[WRITE_LATENCY]
                s[z + Z_DONE_IN] += 1
            s[z + Z_LANE] += 1
            if s[z + Z_LANE] == stripes:
                s[z + Z_LANE] = 0
                s[z + Z_LEVEL] -= 1
        if s[z + Z_ASKED] and room:
            s[N_WRITE_BURSTS] += 1
            s[z + Z_RING + (s[z + Z_IN] & (BURSTS - 1))] = s[z + Z_ASKED]
            s[z + Z_IN] += 1
            s[z + Z_ASKED] = 0
    if word:
        s[into + Z_LEVEL] += 1
        _next_word(s, y)
    if take:
        step = (length + stripes - 1) // stripes
        used = (length + step - 1) // step
        s[y + Y_WANTED + (s[y + Y_IN] & (STRIPE_WRITE_BURSTS - 1))] = s[y + Y_FIRST] << 4 | used
        _begin_burst(s, i, length)
    elif empty:
        s[y + Y_FIRST] = 0
        s[y + Y_PORT] = 0
    return take, word, answer


@jit
def _striped_memory(s: Ints, port_bytes: int, now: int) -> tuple[int, int, int, int, int]:
    """`_memory` with stripes before it: wide words and addresses as the masters see them. Beats and bursts are counted at the narrow ports."""
    moved = _grants(s, port_bytes, now)
    beats, taken = 0, 0
    for i in range(Y_WRITES):
        word, take = _read_stripe(s, i, moved, now)
        beats |= word << i
        taken |= take << i
    awready, wready, answer = _write_stripe(s, moved, now)
    return beats, taken, awready, wready, answer


@jit
def _takes(s: Ints, x: int, address: int) -> bool:
    """Whether a read master takes a request (REQ_READY)."""
    return bool(s[x + X_LEFT] == 0 or address == s[x + X_END])


@jit
def _read_master(
    s: Ints, x: int, left_old: int, level_old: int, arready: int, beat: int, take: int, address: int, words: int
) -> None:
    """axi_read_master: `take`: a request of `words` port words is handed over; its data are popped elsewhere."""
    port_bytes = 2 * s[PORT_WORDS]
    length = 0
    if left_old:
        length = min(min(s[MAX_BURST], (4096 - (s[x + X_ADDR] & 4095)) >> s[PORT_SHIFT]), left_old)
        if (s[x + X_AR] and not arready) or level_old + s[x + X_INFLIGHT] + length > s[QUEUE_BEATS]:
            length = 0
    if arready:
        s[x + X_AR] = 0
    if length:
        s[x + X_AR] = 1
        s[x + X_LENGTH] = length
        s[x + X_ADDR] += length * port_bytes
        s[x + X_LEFT] -= length
    if take:
        s[x + X_LEFT] += words
        s[x + X_END] = address + words * port_bytes
        if left_old == 0:
            s[x + X_ADDR] = address
    s[x + X_INFLIGHT] += length - beat
    s[x + X_LEVEL] += beat


# -- row walker --------------------------------------------------------------------------------------------------


@jit
def _ends_beat(s: Ints, a: int) -> bool:
    return bool(s[a + A_LANE] or s[a + A_BEAT] >= s[a + A_LANE1])


@jit
def _row_address(s: Ints, a: int) -> int:
    sample = s[a + A_SAMPLE]
    if s[SAMPLE_LANES] and s[a + A_LANE]:
        sample += s[B_R]
    return int(s[SLOTS + sample] + s[a + A_OFFSET] + s[a + A_SHIFT])


@jit
def _walk(s: Ints, a: int) -> None:
    """fluidnpu_row_walker: the row at hand is done."""
    ends_beat = _ends_beat(s, a)
    ends_pass = ends_beat and s[a + A_BEAT] + 1 == s[a + A_BEATS]
    if ends_beat or s[ROW_LANES]:
        if s[a + A_COLUMN] + 1 != s[OUT_W]:
            s[a + A_COLUMN] += 1
            s[a + A_OFFSET] += s[a + A_STEP_W]
        elif s[a + A_ROW] + 1 != s[OUT_H]:
            s[a + A_COLUMN] = 0
            s[a + A_ROW] += 1
            s[a + A_ROW_OFFSET] += s[a + A_STEP_H]
            s[a + A_OFFSET] = s[a + A_ROW_OFFSET]
        else:
            s[a + A_COLUMN] = 0
            s[a + A_ROW] = 0
            s[a + A_ROW_OFFSET] = 0
            s[a + A_OFFSET] = 0
            s[a + A_SAMPLE] += 1
    if ends_beat:
        s[a + A_LANE] = 0
        s[a + A_BEAT] += 1
    else:
        s[a + A_LANE] = 1
    if ends_pass:
        s[a + A_ACTIVE] = 0
        if s[a + A_COMMIT]:
            for i in range(5):
                s[a + A_START_SAMPLE + i] = s[a + A_SAMPLE + i]


@jit
def _begin_pass(s: Ints, a: int, q: int, shift: int, commit: int) -> None:
    s[a + A_ACTIVE] = 1
    s[a + A_LANE] = 0
    s[a + A_BEAT] = 0
    s[a + A_BEATS] = s[q + Q_BEATS]
    s[a + A_LANE1] = s[q + Q_LANE1]
    s[a + A_SHIFT] = shift
    s[a + A_COMMIT] = commit
    for i in range(5):
        s[a + A_SAMPLE + i] = s[a + A_START_SAMPLE + i]


@jit
def _reset_walker(s: Ints, a: int, step_h: int, step_w: int) -> None:
    for i in range(5):
        s[a + A_START_SAMPLE + i] = 0
    s[a + A_STEP_H] = step_h
    s[a + A_STEP_W] = step_w


# -- inputs ------------------------------------------------------------------------------------------------------


@jit
def _load(s: Ints, x: int, rows_old: int, oldest: int) -> tuple[int, int]:
    """fluidnpu_row_buffer: (address, port words) of a row that is asked for in this cycle, or (-1, 0). `oldest`: what lies before is given up."""
    if rows_old == ROW_QUEUE:
        return -1, 0
    room = oldest + (s[BUFFER_BYTES] >> 1 if s[SAMPLE_LANES] else s[BUFFER_BYTES]) - s[PITCH] - 2 * s[PORT_WORDS]
    lane = s[I_TURN]
    at = ROWS + lane * L_SIZE
    if s[at + L_SAMPLE] == s[at + L_END] or s[at + L_PLACE] > room:
        lane = 1 - lane
        at = ROWS + lane * L_SIZE
        if s[at + L_SAMPLE] == s[at + L_END] or s[at + L_PLACE] > room:
            return -1, 0
    row = s[SLOTS + s[at + L_SAMPLE]] + s[at + L_OFFSET]
    low = row & 2 * s[PORT_WORDS] - 1
    if not _takes(s, x, row - low):
        return -1, 0
    words = (low + s[ROW_BYTES] + 2 * s[PORT_WORDS] - 1) >> s[PORT_SHIFT]
    s[ROWS_ASKED + (s[I_ROWS_IN] & (ROW_QUEUE - 1))] = 2 * words + lane
    s[I_ROWS_IN] += 1
    s[I_TURN] = 1 - lane
    s[at + L_ROW] += 1
    s[at + L_OFFSET] += s[ROW_STEP]
    s[at + L_PLACE] += s[PITCH]
    if s[at + L_ROW] == s[SAMPLE_ROWS]:
        s[at + L_SAMPLE] += 1
        s[at + L_ROW] = 0
        s[at + L_OFFSET] = s[IN_OFFSET]
        s[at + L_START] += s[SAMPLE_PITCH]
        s[at + L_PLACE] = s[at + L_START]
    return int(row - low), int(words)


@jit
def _arrive(s: Ints, rows_old: int, level_old: int) -> int:
    """fluidnpu_row_buffer: a port word of the oldest row that is under way goes to its place; whether one did."""
    if rows_old == 0 or level_old == 0:
        return 0
    row = s[ROWS_ASKED + (s[I_ROWS_OUT] & (ROW_QUEUE - 1))]
    s[I_ARRIVED] += 1
    if s[I_ARRIVED] == row >> 1:
        s[I_ARRIVED] = 0
        s[I_ROWS_OUT] += 1
        s[ROWS + (row & 1) * L_SIZE + L_THERE] += 1
    return 1


@jit
def _segment(s: Ints, position: int, width: int, run: int) -> tuple[int, bool]:
    """fluidnpu_window_segments: (words, whether the run ends) of the segment where the window stands."""
    space = width - position
    if s[LINE_WORDS] < s[INPUT_WORDS]:
        space = min(space, s[LINE_WORDS])
    words = min(run - s[WORD], space)
    return int(words), bool(words == run - s[WORD])


@jit
def _move(s: Ints, words: int, run_ends: bool) -> None:
    """The window goes on behind a segment."""
    s[WORD] += words
    if run_ends:
        s[WORD] = 0
        if not s[CONTIGUOUS] and s[TAP_COLUMN] + 1 != s[KERNEL_W]:
            s[TAP_COLUMN] += 1
        else:
            s[TAP_COLUMN] = 0
            s[TAP_ROW] += 1


@jit
def _need(s: Ints, a: int, other: bool) -> int:
    """Input rows of the lane that the window of the row at hand needs, or of the row of lane 1 behind it."""
    sample, row = s[a + A_SAMPLE], s[a + A_ROW]
    if other and s[ROW_LANES] and s[a + A_COLUMN] + 1 == s[OUT_W]:
        row += 1
        if row == s[OUT_H]:
            sample, row = sample + 1, 0
    return int(sample * s[SAMPLE_ROWS] + row * s[RISE] + s[SPAN])


@jit
def _windows(s: Ints, there0: int, there1: int, beats_old: int, arrived: int) -> None:
    """fluidnpu_window_segments: at most two segments are cut out of the row buffer; passes and commands follow one another.

    `there0`, `there1`: rows of each lane that were there before this cycle; `arrived`: memory gives a word in it, so a second segment waits.
    """
    if s[I_S1] and s[I_S1_ENDS]:
        s[I_BEATS] += 1
    s[I_S1] = 0
    a = WINDOWS
    pool = s[POOL]
    busy_old, open_old = s[BUSY], s[PASS_OPEN]
    q = COMMAND_RING + (s[NOW_COMMAND] & (RING - 1)) * Q_SIZE
    last_tile = pool or s[TILE] + 1 == s[P_TILES]
    pass_is_last = pool or (s[TILE] + 2 if open_old else s[TILE] + 1) == s[P_TILES]
    tile_ends, ready_pass = False, s[a + A_ACTIVE] == 0
    there = there1 if s[SAMPLE_LANES] and s[a + A_LANE] else there0
    if s[a + A_ACTIVE] and there >= _need(s, a, False) and beats_old + 2 <= BEAT_QUEUE:
        width = (
            s[INPUT_WORDS] if pool else 2 * s[T_P] if s[MODE] == WIDE else s[T_P] // 2 if s[MODE] == SPLIT else s[T_P]
        )
        run = s[q + Q_COLS] if pool else s[RUN_WORDS]
        position, half = s[POSITION], s[HALF]
        words, run_ends = _segment(s, position, width, run)
        fills = run_ends if pool else position + words == width
        _move(s, words, run_ends)
        window_ends = run_ends and s[TAP_ROW] == s[KERNEL_H]
        row_ends = window_ends or (fills and not pool)
        lane_ends_beat = _ends_beat(s, a)
        ends_beat = (fills and (s[MODE] != MAX_POOL or half or row_ends)) if pool else (row_ends and lane_ends_beat)
        walks = 1
        # The segment behind it in the same beat, if there is one.
        two = False
        if not row_ends and not arrived:
            more, more_ends = _segment(s, 0 if pool else position + words, width, run)
            if not pool:
                two = True
                words += more
                _move(s, more, more_ends)
                fills = position + words == width
                row_ends = fills or (more_ends and s[TAP_ROW] == s[KERNEL_H])
                ends_beat = row_ends and lane_ends_beat
            elif s[MODE] == MAX_POOL and not half and position == 0 and fills and more_ends:
                two = True
                _move(s, more, more_ends)
                row_ends = s[TAP_ROW] == s[KERNEL_H]
                ends_beat = True
        elif row_ends and not arrived and not lane_ends_beat and position == 0:
            there = there1 if s[SAMPLE_LANES] else there0
            if there >= _need(s, a, True):
                two = ends_beat = True
                walks = 2
        s[HALF] = int(s[MODE] == MAX_POOL and not two and not ends_beat and (half or fills))
        s[I_S1] = 1
        s[I_S1_ENDS] = int(ends_beat)
        s[POSITION] = 0 if row_ends or (pool and fills) else position + words
        if row_ends:
            tile_ends = ends_beat and s[a + A_BEAT] + 1 == s[a + A_BEATS]
            if pool:
                for i in range(3):
                    s[TAP_ROW + i] = 0
            elif tile_ends:
                for i in range(3):
                    s[TILE_TAP_ROW + i] = s[TAP_ROW + i]
            else:
                for i in range(3):
                    s[TAP_ROW + i] = s[TILE_TAP_ROW + i]
            for _ in range(walks):
                _walk(s, a)
            ready_pass = ready_pass or tile_ends
    pass_valid = busy_old and (not open_old or (tile_ends and not last_tile))
    if tile_ends:
        s[PASS_OPEN] = 0
        s[TILE] += 1
        if last_tile:
            s[BUSY] = 0
    if pass_valid and ready_pass:
        s[PASS_OPEN] = 1
        _begin_pass(s, a, q, 0, int(s[q + Q_BLOCK_LAST] != 0 and pass_is_last))
    if not busy_old and s[INPUT_OUT] != s[ISSUED]:
        s[BUSY] = 1
        s[TILE] = 0
        s[NOW_COMMAND] = s[INPUT_OUT]
        s[INPUT_OUT] += 1
        s[POSITION] = 0
        s[HALF] = 0
        for i in range(3):
            s[TAP_ROW + i] = 0
            s[TILE_TAP_ROW + i] = 0


# -- weights and residuals ---------------------------------------------------------------------------------------


@jit
def _unpack(
    s: Ints, base: int, port: int, beat: int, valid: bool, ready: bool, words: int, skip: int
) -> tuple[int, int, int]:
    """fluidnpu_unpack: (beat given, port word taken, job taken). `base`: place of COUNT, LEFT, MISSING, SKIP; `words`: of a waiting job, or 0."""
    count, left = s[base], s[base + 1]
    give = ready and left != 0 and (count >= beat or count >= left)
    if give:
        left = max(left - beat, 0)
        count = 0 if left == 0 else count - beat
        s[base + 1] = left
    begins = words != 0 and left == 0
    if begins:
        s[base + 1] = s[base + 2] = words
        s[base + 3] = skip
    missing = s[base + 2]
    get = valid and missing != 0 and count + port <= port + beat
    if get:
        gained = port - s[base + 3]
        count += gained
        s[base + 2] = max(missing - gained, 0)
        s[base + 3] = 0
    s[base] = count
    return int(give), int(get), int(begins)


@jit
def _weights(s: Ints, fetch: bool, skid_old: int, level_old: int, take: bool) -> int:
    """fluidnpu_weight_streamer: `take`: m0 takes a block's request. Whether a port word is popped."""
    words = s[BLOCK_WORDS] if s[W_JOBS_IN] != s[W_JOBS_OUT] else 0
    beat = s[WEIGHT_SLOTS] * s[T_P]
    give, get, begins = _unpack(s, W_COUNT, s[PORT_WORDS], beat, level_old > 0 and not fetch, skid_old < 2, words, 0)
    s[W_SKID] += give
    s[W_JOBS_OUT] += begins
    if take:
        s[W_JOBS_IN] += 1
        s[BLOCKS_OUT] += 1
    return get


@jit
def _residuals(s: Ints, x: int, skid_old: int, level_old: int) -> tuple[int, int, int]:
    """fluidnpu_residual_reader: (port word popped, address asked for or -1, port words asked for)."""
    a = RESIDUALS
    port = s[PORT_WORDS]
    room = s[R_JOBS_IN] - s[R_JOBS_OUT] != JOB_QUEUE
    job = s[R_JOBS_OUT] & (JOB_QUEUE - 1)
    waits = s[R_JOB_COLS + job] if s[R_JOBS_IN] != s[R_JOBS_OUT] else 0
    give, get, begins = _unpack(s, R_COUNT, port, s[OUT_WORDS], level_old > 0, skid_old < 2, waits, s[R_JOB_SKIP + job])
    s[R_SKID] += give
    s[R_JOBS_OUT] += begins
    address, words, ready_pass = -1, 0, s[a + A_ACTIVE] == 0
    if s[a + A_ACTIVE] and room:
        row = _row_address(s, a)
        skip = row >> 1 & port - 1
        start = row - 2 * skip
        if _takes(s, x, start):
            address, words = start, 2 * (skip + s[R_COLS] + port - 1) >> s[PORT_SHIFT]
            s[R_JOB_COLS + (s[R_JOBS_IN] & (JOB_QUEUE - 1))] = s[R_COLS]
            s[R_JOB_SKIP + (s[R_JOBS_IN] & (JOB_QUEUE - 1))] = skip
            s[R_JOBS_IN] += 1
            ready_pass = _ends_beat(s, a) and s[a + A_BEAT] + 1 == s[a + A_BEATS]
            _walk(s, a)
    if ready_pass and s[RESIDUAL_OUT] != s[ISSUED]:
        q = COMMAND_RING + (s[RESIDUAL_OUT] & (RING - 1)) * Q_SIZE
        s[R_COLS] = s[q + Q_COLS]
        _begin_pass(s, a, q, s[q + Q_OUT_SHIFT] + s[RESIDUAL_OFFSET], s[q + Q_BLOCK_LAST])
        s[RESIDUAL_OUT] += 1
    return get, address, words


# -- outputs -----------------------------------------------------------------------------------------------------


@jit
def _write_master(s: Ints, awready: int, wready: int, answer: int, close: bool, valid: bool) -> bool:
    """axi_write_master: `valid`: the packed word at O_ADDR is offered; whether it is taken."""
    port_bytes = 2 * s[PORT_WORDS]
    room = s[M_WORDS] != s[QUEUE_BEATS]
    pop = bool(
        s[M_BURST]
        and s[M_LEFT] == 0
        and s[M_AW] == 0
        and (s[M_W] == 0 or wready)
        and s[M_OUTSTANDING] != MAX_OUTSTANDING
    )
    move = s[M_LEFT] != 0 and s[M_WORDS] != 0 and (s[M_W] == 0 or wready)
    full = s[M_OPEN] == s[MAX_BURST] or s[M_NEXT] & 4095 == 0
    joins = s[M_OPEN] == 0 or (not full and s[O_ADDR] == s[M_NEXT])
    ends = s[M_OPEN] != 0 and (full or close or (valid and not joins))
    take = valid and room and not ends
    if awready:
        s[M_AW] = 0
    if wready:
        s[M_W] = 0
    if pop:
        s[M_AW] = s[M_BURST_WORDS]
        s[M_LEFT] = s[M_BURST_WORDS]
    if move:
        s[M_W] = 1
        s[M_LEFT] -= 1
        s[M_WORDS] -= 1
    if ends and (not s[M_BURST] or pop):
        s[M_BURST] = 1
        s[M_BURST_WORDS] = s[M_OPEN]
        s[M_OPEN] = 0
    elif pop:
        s[M_BURST] = 0
    if take:
        s[M_OPEN] += 1
        s[M_NEXT] = s[O_ADDR] + port_bytes
        s[M_WORDS] += 1
    s[M_OUTSTANDING] += int(pop) - answer
    return bool(take)


@jit
def _outputs(s: Ints, awready: int, wready: int, answer: int) -> tuple[int, bool]:
    """fluidnpu_output_writer with its master: (beat taken from the core, all is written)."""
    a = OUTPUTS
    port = s[PORT_WORDS]
    layer_done = not s[O_OPEN] and not s[O_ANY]
    written = (
        layer_done
        and s[M_OPEN] == 0
        and not s[M_BURST]
        and s[M_AW] == 0
        and s[M_LEFT] == 0
        and not s[M_W]
        and s[M_OUTSTANDING] == 0
    )
    address = 0
    if s[a + A_ACTIVE]:
        address = _row_address(s, a) + 2 * s[O_WORD]
    here = address - (address & 2 * port - 1)
    push = s[O_ANY] != 0 and (s[O_FULL] != 0 or not s[O_OPEN] or (s[a + A_ACTIVE] != 0 and s[O_ADDR] != here))
    pushed = _write_master(s, awready, wready, answer, layer_done, push)
    can_take = pushed if push else not s[O_FULL]
    if push and pushed:
        s[O_ANY] = 0
        s[O_FULL] = 0
    beat, ready_pass, closes = 0, s[a + A_ACTIVE] == 0, False
    if s[a + A_ACTIVE] and s[OUT_SKID] and can_take:
        space = port - (address >> 1 & port - 1)
        in_row = s[O_COLS] - s[O_WORD]
        piece = min(min(s[OUT_WORDS] - s[O_TAKEN], in_row), space)
        row_done = piece == in_row
        if row_done or s[O_TAKEN] + piece == s[OUT_WORDS]:
            beat = 1
        s[O_ANY] = 1
        s[O_FULL] = int(piece == space)
        s[O_ADDR] = here
        s[O_WORD] = 0 if row_done else s[O_WORD] + piece
        s[O_TAKEN] = 0 if beat else s[O_TAKEN] + piece
        if row_done:
            ready_pass = _ends_beat(s, a) and s[a + A_BEAT] + 1 == s[a + A_BEATS]
            closes = ready_pass and s[O_LAST] != 0
            _walk(s, a)
    if ready_pass and s[OUTPUT_OUT] != s[ISSUED]:
        q = COMMAND_RING + (s[OUTPUT_OUT] & (RING - 1)) * Q_SIZE
        s[O_COLS] = s[q + Q_COLS]
        s[O_LAST] = s[q + Q_LAYER_LAST]
        _begin_pass(s, a, q, s[q + Q_OUT_SHIFT] + s[OUT_OFFSET], s[q + Q_BLOCK_LAST])
        s[OUTPUT_OUT] += 1
    if closes:
        s[O_OPEN] = 0
    return beat, bool(written)


# -- core --------------------------------------------------------------------------------------------------------


@jit
def _drain(s: Ints, enable: bool) -> tuple[int, int, int]:
    """core_drain: (a row is fetched, it is its command's last, a beat is issued)."""
    pool = s[POOL]
    issue = s[D_VALID] != 0 and enable and (not s[HAS_RESIDUAL] or s[R_SKID] != 0)
    last_beat = s[D_LEFT] <= s[OUT_WORDS]
    last_issue = issue and last_beat and (s[D_LANE1] != 0 or not s[D_HAS_LANE1])
    if issue and s[HAS_RESIDUAL]:
        s[R_SKID] -= 1
    fetch = last = False
    if s[DRAIN_OUT] != s[CMD_OUT] and (not s[D_VALID] or last_issue):
        fetch = s[P_VALID] != 0 if pool else s[D_STORED] != 0 and s[B_HELD] != 0
    if fetch:
        q = COMMAND_RING + (s[DRAIN_OUT] & (RING - 1)) * Q_SIZE
        last = s[D_ROW] + 1 == s[q + Q_BEATS]
        s[D_VALID] = 1
        s[D_COLS] = s[q + Q_COLS]
        s[D_LEFT] = s[q + Q_COLS]
        s[D_HAS_LANE1] = int(s[D_ROW] < s[q + Q_LANE1])
        s[D_LANE1] = 0
    elif issue:
        if last_issue:
            s[D_VALID] = 0
        s[D_LEFT] = s[D_COLS] if last_beat else s[D_LEFT] - s[OUT_WORDS]
        s[D_LANE1] |= int(last_beat)
    return int(fetch), int(last), int(issue)


@jit
def _beats(s: Ints, row_old: int, fetched_command: int, pool_taken: int) -> tuple[int, int]:
    """core_sequencer and core_pool: an input beat is taken; (it swaps the weights, it ends a sum)."""
    pool = s[POOL]
    take = swap = final = commands_end = issue = False
    pool_ready = not s[P_VALID] or pool_taken != 0
    pool_done = False
    if s[BEAT_OUT] != s[CMD_OUT] and s[IN_SKID]:
        q = COMMAND_RING + (s[BEAT_OUT] & (RING - 1)) * Q_SIZE
        beats, p_tiles = s[q + Q_BEATS], s[P_TILES]
        inner, outer = (p_tiles, beats) if pool else (beats, p_tiles)
        last_inner, last_outer = s[S_INNER] + 1 == inner, s[S_OUTER] + 1 == outer
        if pool:
            take = pool_ready
            pool_done = last_inner
        else:
            is_split = s[SPLIT_DEPTH] != 0 and s[MODE] == SPLIT
            same = is_split == (s[S_SPLIT] != 0)
            take = True
            if s[S_INNER] == 0:
                first = s[S_OUTER] == 0
                order = (s[SPLIT_DEPTH] == 0 or same or s[S_AGE] == 0) if first else s[S_AGE] <= beats
                take = s[L_LOADED] != 0 and order
            if last_outer:
                take = take and (s[S_UNFETCHED] == 0 or (s[S_UNFETCHED] == 1 and same and row_old > s[S_INNER]))
            issue = take
            swap = take and s[S_INNER] == 0
            final = take and last_outer
            if take and last_inner and last_outer:
                s[S_SPLIT] = int(is_split)
        if take:
            s[IN_SKID] -= 1
            commands_end = last_inner and last_outer
            s[S_INNER] = 0 if last_inner else s[S_INNER] + 1
            if last_inner:
                s[S_OUTER] = 0 if last_outer else s[S_OUTER] + 1
            s[BEAT_OUT] += int(commands_end)
    if pool_ready:
        s[P_VALID] = int(pool_done and take)
    if issue:
        s[S_AGE] = s[LATE]
    elif s[S_AGE]:
        s[S_AGE] -= 1
    s[S_UNFETCHED] += int(issue and commands_end) - fetched_command
    return int(swap), int(final)


@jit
def _loader(s: Ints, bias_room: bool, swap: int) -> None:
    """core_loader: a weight beat becomes biases or weights."""
    loaded_old = s[L_LOADED]
    if swap:
        s[L_LOADED] = 0
    if s[LOAD_OUT] == s[CMD_OUT] or not s[W_SKID]:
        return
    cols = s[COMMAND_RING + (s[LOAD_OUT] & (RING - 1)) * Q_SIZE + Q_COLS]
    if s[L_IN_TILE]:
        if loaded_old and not swap:
            return
        wanted = 2 * cols if s[MODE] == WIDE else (cols + 1) >> 1 if s[MODE] == SPLIT else cols
    else:
        if not bias_room:
            return
        wanted = cols
        s[s[BIAS_AT] + (s[B_IN] & s[BIAS_MASK])] = cols
        s[B_IN] += 1
    s[W_SKID] -= 1
    if s[L_DONE] < wanted:
        s[L_DONE] += s[WEIGHT_SLOTS] if s[L_IN_TILE] else s[BIASES_PER_BEAT]
        return
    if not s[L_IN_TILE]:
        s[L_IN_TILE] = 1
        s[L_DONE] = s[WEIGHT_SLOTS]
        return
    s[L_LOADED] = 1
    if s[L_TILE] + 1 == s[P_TILES]:
        s[L_TILE] = 0
        s[L_IN_TILE] = 0
        s[L_DONE] = s[BIASES_PER_BEAT]
        s[LOAD_OUT] += 1
    else:
        s[L_TILE] += 1
        s[L_DONE] = s[WEIGHT_SLOTS]


@jit
def _bias(s: Ints, waiting_old: int, release: int) -> None:
    """core_bias: one bias a cycle is unpacked."""
    ends = False
    if waiting_old and s[B_HELD] != GENERATIONS - 1:
        last_column = s[B_COLUMN] + 1 == s[s[BIAS_AT] + (s[B_OUT] & s[BIAS_MASK])]
        last_index = s[B_INDEX] == s[BIASES_PER_BEAT] - 1
        s[B_COLUMN] = 0 if last_column else s[B_COLUMN] + 1
        s[B_INDEX] = 0 if last_column or last_index else s[B_INDEX] + 1
        s[B_OUT] += int(last_column or last_index)
        ends = last_column
    s[B_HELD] += int(ends) - release


# -- sequencer ---------------------------------------------------------------------------------------------------


@jit
def _command(s: Ints) -> int:
    """fluidnpu_sequencer: the next command is written behind those issued; whether it is the layer's last."""
    q = COMMAND_RING + (s[ISSUED] & (RING - 1)) * Q_SIZE
    mode = s[MODE]
    width = s[T_C]
    if s[POOL]:
        width = s[INPUT_WORDS]
    elif mode == SPLIT:
        width = 2 * s[T_C]
    elif mode != NORMAL:
        width = max(s[T_C] // 2, 1)
    remaining = s[COLUMNS] - s[FIRST]
    last_tile = remaining <= width
    last_group = s[GROUP] + 1 == s[GROUPS]
    last_block = s[LEFT0] <= s[BLOCK]
    beats = min(s[LEFT0], s[BLOCK])
    lane1 = min(s[LEFT1], beats)
    s[q + Q_BEATS] = beats
    s[q + Q_LANE1] = lane1
    s[q + Q_COLS] = remaining if last_tile else width
    s[q + Q_IN_SHIFT] = 2 * s[FIRST] if s[POOL] else s[GROUP_IN]
    s[q + Q_OUT_SHIFT] = s[GROUP_OUT] + 2 * s[FIRST]
    s[q + Q_BLOCK_FIRST] = int(not s[BLOCK_OPEN])
    s[q + Q_BLOCK_LAST] = int(last_tile and last_group)
    s[q + Q_LAYER_LAST] = int(last_tile and last_group and last_block)
    s[BLOCK_OPEN] = 1
    s[FIRST] += width
    if last_tile:
        s[FIRST] = 0
        s[GROUP] += 1
        s[GROUP_IN] += 2 * s[GROUP_WORDS]
        s[GROUP_OUT] += 2 * s[COLUMNS]
        if last_group:
            s[GROUP] = 0
            s[GROUP_IN] = 0
            s[GROUP_OUT] = 0
            s[BLOCK_OPEN] = 0
            s[LEFT0] -= beats
            s[LEFT1] -= lane1
    return int(s[q + Q_LAYER_LAST])


@jit
def _begin_layer(s: Ints) -> None:
    s[LEFT0] = s[BEATS0]
    s[LEFT1] = s[BEATS1]
    s[FIRST] = 0
    s[GROUP] = 0
    s[GROUP_IN] = 0
    s[GROUP_OUT] = 0
    s[BLOCK_OPEN] = 0
    s[O_OPEN] = 1
    _reset_walker(s, WINDOWS, 0, 0)
    s[I_TURN] = 0
    lane0 = s[B_R] if s[SAMPLE_LANES] else s[BATCH]
    for lane in range(2):
        at = ROWS + lane * L_SIZE
        s[at + L_SAMPLE] = lane0 if lane else 0
        s[at + L_END] = s[BATCH] if lane else lane0
        s[at + L_ROW] = 0
        s[at + L_OFFSET] = s[IN_OFFSET]
        s[at + L_START] = 0
        s[at + L_PLACE] = 0
        s[at + L_THERE] = 0
    _reset_walker(s, OUTPUTS, s[OUT_ROW], s[OUT_PIXEL])
    _reset_walker(s, RESIDUALS, s[RESIDUAL_ROW], s[RESIDUAL_PIXEL])


@jit
def _may_issue(s: Ints) -> bool:
    """Whether every queue has room for a command (fluidnpu_data_plane)."""
    return bool(
        s[ISSUED] - s[CMD_OUT] < COMMAND_QUEUE
        and s[ISSUED] - s[INPUT_OUT] < COMMAND_QUEUE
        and s[ISSUED] - s[OUTPUT_OUT] < 2 * COMMAND_QUEUE
        and (not s[HAS_RESIDUAL] or s[ISSUED] - s[RESIDUAL_OUT] < 2 * COMMAND_QUEUE)
        and s[BLOCKS_IN] - s[BLOCKS_OUT] < 2
    )


@jit
def _load_layer(s: Ints, layers: Ints, index: int) -> None:
    for i in range(len(LAYER)):
        s[POOL + i] = layers[index, i]


@jit
def simulate(s: Ints, layers: Ints, counts: Ints, first_cycle: int, limit: int) -> int:
    """Runs a job of `layers` (n, len(LAYER)) and fills `counts` (n, len(COUNTS)); the cycle in which it ends, or -1 past `limit`.

    `s`: as `new_state` makes it. `first_cycle`: the NPU's cycle that follows the write of START (refresh and turns count from reset).
    """
    port = s[PORT_WORDS]
    port_bytes = 2 * port
    descriptor_words = DESCRIPTOR_BYTES >> s[PORT_SHIFT]
    began, now = first_cycle, first_cycle
    _load_layer(s, layers, 0)
    while now - first_cycle < limit:
        state = s[STATE]
        fetch_state = state == FETCH
        # What was before this cycle.
        m0_left, m0_level = s[M0 + X_LEFT], s[M0 + X_LEVEL]
        m1_left, m1_level = s[M1 + X_LEFT], s[M1 + X_LEVEL]
        m2_left, m2_level = s[M2 + X_LEFT], s[M2 + X_LEVEL]
        in_old, w_old, r_old, out_old = s[IN_SKID], s[W_SKID], s[R_SKID], s[OUT_SKID]
        beats_old, rows_old = s[I_BEATS], s[I_ROWS_IN] - s[I_ROWS_OUT]
        there0, there1 = s[ROWS + L_THERE], s[ROWS + L_SIZE + L_THERE]
        oldest = s[WINDOWS + A_START_SAMPLE] * s[SAMPLE_PITCH] + s[WINDOWS + A_START_ROW] * s[RISE] * s[PITCH]
        cmd_out_old = s[CMD_OUT]
        weights_idle = s[BLOCKS_IN] == s[BLOCKS_OUT] and s[W_JOBS_IN] == s[W_JOBS_OUT] and s[W_LEFT] == 0
        issue_command = state == COMMANDS and _may_issue(s)
        core_takes = (
            s[ISSUED] != cmd_out_old
            and (s[POOL] != 0 or cmd_out_old - s[LOAD_OUT] < COMMAND_QUEUE)
            and cmd_out_old - s[BEAT_OUT] < COMMAND_QUEUE
            and cmd_out_old - s[DRAIN_OUT] < COMMAND_QUEUE
        )

        if s[STRIPES] == 1:
            read, taken, awready, wready, answer = _memory(s, port_bytes, now)
        else:
            read, taken, awready, wready, answer = _striped_memory(s, port_bytes, now)
        beat, written = _outputs(s, awready, wready, answer)

        # Core, from its end to its beginning.
        s[N_OUTPUT] += beat
        s[OUT_SKID] -= beat
        enable = out_old < 2
        row_old = s[D_ROW]
        fetched, last_row, issued = _drain(s, enable)
        if enable:
            s[OUT_SKID] += s[PIPE] >> (STEPS - 1) & 1
            s[PIPE] = (s[PIPE] << 1 | issued) & ((1 << STEPS) - 1)
        gemm_fetch = fetched if not s[POOL] else 0
        if fetched:
            s[D_ROW] = 0 if last_row else s[D_ROW] + 1
            s[DRAIN_OUT] += last_row
        swap, final = _beats(s, row_old, gemm_fetch & last_row, fetched)
        s[N_INPUT] += int(in_old < 2 and beats_old > 0)
        s[N_BLOCKED] += int(in_old == 2 and beats_old > 0)
        s[N_STARVED] += int(in_old < 2 and beats_old == 0)
        s[D_STORED] += s[s[LATE_AT] + (now - s[LATE] & s[LATE_MASK])] - gemm_fetch
        s[s[LATE_AT] + (now & s[LATE_MASK])] = final
        bias_old = s[B_IN] - s[B_OUT]
        _loader(s, bias_old != s[BIAS_DEPTH], swap)
        _bias(s, bias_old, gemm_fetch & last_row)

        # Inputs.
        if in_old < 2 and beats_old > 0:
            s[IN_SKID] += 1
            s[I_BEATS] -= 1
        arrived = _arrive(s, rows_old, m1_level)
        s[M1 + X_LEVEL] -= arrived
        address, words = _load(s, M1, rows_old, oldest)
        _windows(s, there0, there1, beats_old, arrived)
        _read_master(s, M1, m1_left, m1_level, taken >> 1 & 1, read >> 1 & 1, int(address >= 0), address, words)

        # Residuals.
        if s[HAS_RESIDUAL]:
            r_now = s[R_SKID]
            get, address, words = _residuals(s, M2, r_old, m2_level)
            s[M2 + X_LEVEL] -= get
            s[N_RESIDUAL] += s[R_SKID] - r_now
            _read_master(s, M2, m2_left, m2_level, taken >> 2 & 1, read >> 2 & 1, int(address >= 0), address, words)

        # Weights or descriptor.
        take, address, words = False, 0, 0
        if fetch_state:
            address, words = s[DESCRIPTOR], descriptor_words
            take = not s[ASKED] and _takes(s, M0, address)
        elif s[BLOCKS_IN] != s[BLOCKS_OUT] and s[W_JOBS_IN] - s[W_JOBS_OUT] < 2:
            address, words = s[WEIGHTS], 2 * (s[BLOCK_WORDS] + port - 1) >> s[PORT_SHIFT]
            take = _takes(s, M0, address)
        w_now = s[W_SKID]
        get = _weights(s, fetch_state, w_old, m0_level, take and not fetch_state)
        s[N_WEIGHT] += s[W_SKID] - w_now
        fetched_all = False
        if fetch_state:
            fetched_all = s[ASKED] != 0 and s[GOT] == descriptor_words
            if s[ASKED] and s[GOT] != descriptor_words and m0_level > 0:
                s[GOT] += 1
                get = 1
            if take:
                s[ASKED] = 1
        s[M0 + X_LEVEL] -= get
        _read_master(s, M0, m0_left, m0_level, taken & 1, read & 1, int(take), address, words)

        # Commands.
        if core_takes:
            s[CMD_OUT] += 1
            if s[POOL]:
                s[LOAD_OUT] = s[CMD_OUT]
        if state == COMMANDS:
            if issue_command:
                last = _command(s)
                q = COMMAND_RING + (s[ISSUED] & (RING - 1)) * Q_SIZE
                if s[q + Q_BLOCK_FIRST] and not s[POOL]:
                    s[BLOCKS_IN] += 1
                s[ISSUED] += 1
                if not s[HAS_RESIDUAL]:
                    s[RESIDUAL_OUT] = s[ISSUED]
                if last:
                    s[STATE] = DRAIN
        elif state == DRAIN:
            if written and weights_idle:
                s[N_CYCLES] = now + 1 - began
                began = now + 1
                for i in range(len(COUNTS)):
                    counts[s[LAYER_NOW], i] = s[COUNTED + i]
                    s[COUNTED + i] = 0
                s[LAYER_NOW] += 1
                if s[LAYER_NOW] == len(layers):
                    return int(now + 1)
                _load_layer(s, layers, s[LAYER_NOW])
                s[STATE] = FETCH
        elif state == BEGIN:
            s[STATE] = COMMANDS
            _begin_layer(s)
        elif state == PLAN:
            s[WAIT] -= 1
            if s[WAIT] == 0:
                s[STATE] = BEGIN
        elif state == LOOKUP:
            s[STATE] = PLAN
            s[WAIT] = s[PLAN_CYCLES]
        elif state == FETCH:
            if fetched_all:
                s[STATE] = LOOKUP
                s[ASKED] = 0
                s[GOT] = 0
        else:
            s[WAIT] -= 1
            if s[WAIT] == 0:
                s[STATE] = FETCH
        now += 1
    return -1
