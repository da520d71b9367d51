"""The stripes between wide masters and narrow ports: twin of `axi_stripe_cut`, `axi_read_stripe`,
`axi_write_stripe`, and of `axi_gather_fifo`, the queue of each port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .masters import Masters, ReadMaster, WriteMaster
from .memory import (
    WRITES,
    Dram,
    ReadPort,
    WritePort,
    answer_due,
    collect_reads,
    collect_writes,
    grant,
    has_room,
    reads_due,
    serve_read,
    serve_write,
    tick,
)
from .parameters import MAX_STRIPES, Counts, Setup
from .records import jit, jit_apart

READ_BURSTS = 256  # under way in a stripe: as many as its queues hold words
WRITE_BURSTS = 64  # MaxOutstanding of axi_write_stripe
WRITE_WORDS = 32  # its QueueWords
UNLIMITED = 1 << 60  # words are taken only behind their address, so an address needs no room


@dataclass(slots=True)
class Narrow:
    """A port's address register and queue."""

    len: int  # narrow beats of the burst that is offered; 0: none
    free: int  # wide words of the queue that are neither there nor promised
    level: int  # wide words that are whole
    lane: int  # narrow words of the next one
    responses: int  # of a port that writes


@dataclass(slots=True)
class Burst:
    """A burst whose words are passing, or will."""

    length: int
    stays: int  # the next burst begins at the port where this one ends


@dataclass(slots=True)
class Cut:
    """Registers of `axi_stripe_cut`, the order of its bursts, and the ports that they are cut for."""

    first: int  # port where the next burst begins
    port: int  # whose word comes next
    sent: int  # words of the oldest burst
    within: int  # words of its chunk
    taken: int  # bursts
    passed: int  # bursts whose words have all passed
    bursts: Annotated[list[Burst], READ_BURSTS]
    ports: Annotated[list[Narrow], MAX_STRIPES]


@dataclass(slots=True)
class ReadStripe:
    """Registers of `axi_read_stripe`, and what memory owes its ports."""

    cut: Cut
    memory: Annotated[list[ReadPort], MAX_STRIPES]


@dataclass(slots=True)
class WriteStripe:
    """Registers of `axi_write_stripe`, and what memory owes its ports."""

    cut: Cut
    answered: int  # bursts
    answers_first: Annotated[list[int], WRITE_BURSTS]  # of each burst: its first port,
    answers: Annotated[list[int], WRITE_BURSTS]  # and from there on how many must answer
    memory: Annotated[list[WritePort], MAX_STRIPES]


@dataclass(slots=True)
class Stripes:
    """A stripe for every master and direction."""

    m0: ReadStripe
    m1: ReadStripe
    m2: ReadStripe
    writes: WriteStripe


@jit_apart
def reset_stripes(stripes: Stripes, setup: Setup) -> None:
    """Begin a job: all queues are empty."""
    for port in range(setup.stripes):
        free = setup.queue_beats // setup.stripes
        stripes.m0.cut.ports[port].free = free
        stripes.m1.cut.ports[port].free = free
        stripes.m2.cut.ports[port].free = free
        stripes.writes.cut.ports[port].free = UNLIMITED


@jit
def _chunk(cut: Cut, length: int, port: int, setup: Setup) -> int:
    """Wide words of a burst of `length` that a port gets."""
    step = length + setup.stripes - 1 >> setup.stripe_shift
    start = (port - cut.first & setup.stripes - 1) * step
    return min(step, max(length - start, 0))


@jit
def _next_word(cut: Cut, setup: Setup) -> None:
    """Let a wide word of the oldest burst pass: whose is the next."""
    burst = cut.bursts[cut.passed & READ_BURSTS - 1]
    cut.sent += 1
    cut.within += 1
    last = cut.sent == burst.length
    if last or cut.within == burst.length + setup.stripes - 1 >> setup.stripe_shift:
        cut.within = 0
        if not (last and burst.stays):
            cut.port = cut.port + 1 & setup.stripes - 1
    if last:
        cut.sent = 0
        cut.passed += 1


@jit
def _rest(cut: Cut) -> None:
    """Let the next burst begin at port 0, since none is under way."""
    cut.first = 0
    cut.port = 0


@jit_apart
def _reads_wanted(stripe: ReadStripe, dram: Dram, stripes: int) -> int:
    """Tell which ports memory may hand a narrow word to, as bits."""
    wanted = 0
    if stripe.cut.taken != stripe.cut.passed:
        for port in range(stripes):
            wanted |= reads_due(stripe.memory[port], dram) << port
    return wanted


@jit
def _writes_wanted(stripe: WriteStripe, stripes: int) -> int:
    """Tell which ports offer a narrow word whose address memory has taken, as bits."""
    wanted = 0
    if stripe.cut.taken != stripe.answered:
        for port in range(stripes):
            memory = stripe.memory[port]
            wanted |= (memory.opened != memory.filled and stripe.cut.ports[port].level != 0) << port
    return wanted


@jit
def _fits(cut: Cut, length: int, setup: Setup) -> bool:
    """Tell if every port that a burst uses is free, and its queue has room."""
    for port in range(setup.stripes):
        words = _chunk(cut, length, port, setup)
        narrow = cut.ports[port]
        if words and (narrow.len or words > narrow.free):
            return False
    return True


@jit
def _begin_burst(cut: Cut, length: int, setup: Setup) -> int:
    """Put the chunks of a burst into the address registers of its ports; how many it uses."""
    used = 0
    for port in range(setup.stripes):
        words = _chunk(cut, length, port, setup)
        narrow = cut.ports[port]
        if words:
            used += 1
            narrow.len = words << setup.stripe_shift
            narrow.free -= words
    burst = cut.bursts[cut.taken & READ_BURSTS - 1]
    burst.length = length
    burst.stays = used == setup.stripes and length & setup.stripes - 1 != 0
    cut.first = cut.first + used - burst.stays & setup.stripes - 1
    cut.taken += 1
    return used


@jit_apart
def _step_read_stripe(stripe: ReadStripe, m: ReadMaster, dram: Dram, setup: Setup, granted: int) -> None:
    """Gather narrow words to wide ones, which go out in order, and take a burst."""
    cut, stripes = stripe.cut, setup.stripes
    m.rvalid = m.arready = 0
    idle = cut.taken == cut.passed
    if idle and m.arlen == 0:
        _rest(cut)
        return
    out = cut.ports[cut.port]
    m.rvalid = not idle and out.level != 0
    m.arready = m.arlen != 0 and cut.taken - cut.passed < setup.queue_beats and _fits(cut, m.arlen, setup)
    for port in range(stripes):
        narrow = cut.ports[port]
        beat = granted >> port & 1
        if serve_read(stripe.memory[port], dram, setup, beat, narrow.len):
            narrow.len = 0
        narrow.lane += beat
        if narrow.lane == stripes:
            narrow.lane = 0
            narrow.level += 1
    if m.rvalid:
        out.level -= 1
        out.free += 1
        _next_word(cut, setup)
    if m.arready:
        _begin_burst(cut, m.arlen, setup)
    elif idle:
        _rest(cut)


@jit
def _answer(stripe: WriteStripe, stripes: int) -> bool:
    """Answer the oldest burst once each of its ports has; whether it is answered."""
    if stripe.cut.taken == stripe.answered:
        return False
    first = stripe.answers_first[stripe.answered & WRITE_BURSTS - 1]
    count = stripe.answers[stripe.answered & WRITE_BURSTS - 1]
    for index in range(count):
        if stripe.cut.ports[first + index & stripes - 1].responses == 0:
            return False
    for index in range(count):
        stripe.cut.ports[first + index & stripes - 1].responses -= 1
    stripe.answered += 1
    return True


@jit
def _step_write_port(narrow: Narrow, memory: WritePort, dram: Dram, setup: Setup, beat: int) -> None:
    """Hand a narrow word and an address to memory, and count its answers."""
    length = narrow.len if has_room(memory, setup) else 0
    narrow.responses += answer_due(memory, dram)
    serve_write(memory, dram, setup, beat, length)
    if length:
        narrow.len = 0
    narrow.lane += beat
    if narrow.lane == setup.stripes:
        narrow.lane = 0
        narrow.level -= 1


@jit_apart
def _step_write_stripe(stripe: WriteStripe, m: WriteMaster, dram: Dram, setup: Setup, granted: int) -> None:
    """Spread wide words over the queues of the ports, answer bursts in order, and take one."""
    cut, stripes = stripe.cut, setup.stripes
    m.awready = m.wready = m.bvalid = 0
    under_way = cut.taken - stripe.answered
    if under_way == 0 and m.awlen == 0:
        _rest(cut)
        return
    into = cut.ports[cut.port]
    m.wready = m.wvalid != 0 and cut.taken != cut.passed and into.level < WRITE_WORDS >> setup.stripe_shift
    m.awready = m.awlen != 0 and under_way < WRITE_BURSTS and _fits(cut, m.awlen, setup)
    m.bvalid = _answer(stripe, stripes)
    for port in range(stripes):
        _step_write_port(cut.ports[port], stripe.memory[port], dram, setup, granted >> port & 1)
    if m.wready:
        into.level += 1
        _next_word(cut, setup)
    if m.awready:
        burst = cut.taken & WRITE_BURSTS - 1
        stripe.answers_first[burst] = cut.first
        stripe.answers[burst] = _begin_burst(cut, m.awlen, setup)
    elif under_way == 0:
        _rest(cut)


@jit_apart
def step_striped_memory(stripes: Stripes, dram: Dram, masters: Masters, setup: Setup) -> None:
    """Serve masters whose ports are stripes; beats and bursts are counted at the narrow ports."""
    ports = setup.stripes
    granted = 0
    if tick(dram, setup):
        wanted = _writes_wanted(stripes.writes, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m2, dram, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m1, dram, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m0, dram, ports)
        granted = grant(dram, setup, wanted)
    _step_read_stripe(stripes.m0, masters.m0, dram, setup, granted)
    _step_read_stripe(stripes.m1, masters.m1, dram, setup, granted >> ports)
    _step_read_stripe(stripes.m2, masters.m2, dram, setup, granted >> 2 * ports)
    _step_write_stripe(stripes.writes, masters.writes, dram, setup, granted >> WRITES * ports)


@jit_apart
def collect_striped(stripes: Stripes, counts: Counts) -> None:
    """Add the beats and bursts of all narrow ports to those of a layer."""
    for port in range(MAX_STRIPES):
        collect_reads(stripes.m0.memory[port], counts, 0)
        collect_reads(stripes.m1.memory[port], counts, 1)
        collect_reads(stripes.m2.memory[port], counts, 2)
        collect_writes(stripes.writes.memory[port], counts)
