"""Wide masters over narrow ports: twin of `axi_stripe_cut`, `axi_read_stripe` and `axi_write_stripe`.

Words are counted where they are wide, at the master, unless called narrow. The queue of a read port is an
`axi_gather_fifo`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..parameters import MAX_STRIPES, Counts, Setup
from ..records import jit, jit_apart
from .masters import Masters, ReadMaster, WriteMaster
from .memory import (
    WRITES,
    DramTwin,
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

READ_BURSTS = 256  # most outstanding bursts of a stripe, one for each word of its queues
WRITE_BURSTS = 64  # MaxOutstanding of axi_write_stripe
WRITE_WORDS = 32  # QueueWords of axi_write_stripe
UNLIMITED = 1 << 60  # free words of a write port: data follow their address, which needs no room


@dataclass(slots=True)
class Narrow:
    """Address register and queue of a narrow port."""

    len: int  # narrow words of the burst whose address is offered; 0: none
    free: int  # words that the queue can still promise
    level: int  # complete words in the queue
    lane: int  # narrow words of the incomplete one
    responses: int  # of a write port


@dataclass(slots=True)
class Burst:
    """An outstanding burst of a stripe."""

    length: int
    stays: int  # the next burst begins at the port where this one ends


@dataclass(slots=True)
class StripeCut:
    """Registers of `axi_stripe_cut`, and the order in which words pass the stripe."""

    first: int  # port where the next burst begins
    port: int  # of the next word
    sent: int  # words of the oldest burst
    within: int  # words of its chunk at this port
    taken: int  # bursts
    told: int  # of these, in layers that have ended
    passed: int  # bursts whose words have all passed
    words: int  # that passed in this layer
    bursts: Annotated[list[Burst], READ_BURSTS]
    ports: Annotated[list[Narrow], MAX_STRIPES]


@dataclass(slots=True)
class ReadStripe:
    """Registers of `axi_read_stripe`, and the memory's side of its ports."""

    cut: StripeCut
    memory: Annotated[list[ReadPort], MAX_STRIPES]


@dataclass(slots=True)
class WriteStripe:
    """Registers of `axi_write_stripe`, and the memory's side of its ports."""

    cut: StripeCut
    answered: int  # bursts
    answers_first: Annotated[list[int], WRITE_BURSTS]  # first port of each burst
    answers: Annotated[list[int], WRITE_BURSTS]  # ports of each burst
    memory: Annotated[list[WritePort], MAX_STRIPES]


@dataclass(slots=True)
class Stripes:
    """One stripe for each master and direction."""

    m0: ReadStripe
    m1: ReadStripe
    m2_read: ReadStripe
    m2_write: WriteStripe


@jit_apart
def reset_stripes(stripes: Stripes, setup: Setup) -> None:
    """Begin a job with empty queues."""
    for port in range(setup.stripes):
        free = setup.queue_beats // setup.stripes
        stripes.m0.cut.ports[port].free = free
        stripes.m1.cut.ports[port].free = free
        stripes.m2_read.cut.ports[port].free = free
        stripes.m2_write.cut.ports[port].free = UNLIMITED


@jit
def _chunk(cut: StripeCut, length: int, port: int, setup: Setup) -> int:
    """Words that a port gets of a burst of `length`."""
    step = length + setup.stripes - 1 >> setup.stripe_shift
    start = (port - cut.first & setup.stripes - 1) * step
    return min(step, max(length - start, 0))


@jit
def _next_word(cut: StripeCut, setup: Setup) -> None:
    """Advance to the port of the next word, once a word of the oldest burst has passed."""
    burst = cut.bursts[cut.passed & READ_BURSTS - 1]
    cut.sent += 1
    cut.within += 1
    cut.words += 1
    last = cut.sent == burst.length
    if last or cut.within == burst.length + setup.stripes - 1 >> setup.stripe_shift:
        cut.within = 0
        if not (last and burst.stays):
            cut.port = cut.port + 1 & setup.stripes - 1
    if last:
        cut.sent = 0
        cut.passed += 1


@jit
def _rest(cut: StripeCut) -> None:
    """Return to port 0, since no burst is outstanding."""
    cut.first = 0
    cut.port = 0


@jit_apart
def _reads_wanted(stripe: ReadStripe, dram: DramTwin, stripes: int) -> int:
    """Find the ports whose next narrow word is due, a bit each."""
    wanted = 0
    if stripe.cut.taken != stripe.cut.passed:
        for port in range(stripes):
            wanted |= reads_due(stripe.memory[port], dram) << port
    return wanted


@jit
def _writes_wanted(stripe: WriteStripe, stripes: int) -> int:
    """Find the ports that offer a narrow word of an accepted burst, a bit each."""
    wanted = 0
    if stripe.cut.taken != stripe.answered:
        for port in range(stripes):
            memory = stripe.memory[port]
            wanted |= (memory.opened != memory.filled and stripe.cut.ports[port].level != 0) << port
    return wanted


@jit
def _fits(cut: StripeCut, length: int, setup: Setup) -> bool:
    """Return whether each port of a burst has a free address register, and room in its queue."""
    for port in range(setup.stripes):
        words = _chunk(cut, length, port, setup)
        narrow = cut.ports[port]
        if words and (narrow.len or words > narrow.free):
            return False
    return True


@jit
def _begin_burst(cut: StripeCut, length: int, setup: Setup) -> int:
    """Write the chunks of a burst to the address registers of its ports. Returns the number of ports."""
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
def _step_read_stripe(stripe: ReadStripe, m: ReadMaster, dram: DramTwin, setup: Setup, granted: int) -> None:
    """Gather narrow words into words, send these in order, and take a burst."""
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
    """Answer the oldest burst once each of its ports has answered. Returns False until then."""
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
def _step_write_port(narrow: Narrow, memory: WritePort, dram: DramTwin, setup: Setup, beat: int) -> None:
    """Send a narrow word and an address to the memory, and count its answers."""
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
def _step_write_stripe(stripe: WriteStripe, m: WriteMaster, dram: DramTwin, setup: Setup, granted: int) -> None:
    """Distribute words to the queues of the ports, answer bursts in order, and take a burst."""
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
def step_striped_memory(stripes: Stripes, dram: DramTwin, masters: Masters, setup: Setup) -> None:
    """Serve masters behind stripes; beats and bursts are counted at the narrow ports."""
    ports = setup.stripes
    granted = 0
    if tick(dram, setup):
        wanted = _writes_wanted(stripes.m2_write, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m2_read, dram, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m1, dram, ports)
        wanted = wanted << ports | _reads_wanted(stripes.m0, dram, ports)
        granted = grant(dram, setup, wanted)
    _step_read_stripe(stripes.m0, masters.m0, dram, setup, granted)
    _step_read_stripe(stripes.m1, masters.m1, dram, setup, granted >> ports)
    _step_read_stripe(stripes.m2_read, masters.m2_read, dram, setup, granted >> 2 * ports)
    _step_write_stripe(stripes.m2_write, masters.m2_write, dram, setup, granted >> WRITES * ports)


@jit
def _bursts(cut: StripeCut) -> int:
    """Return the bursts since the last call."""
    bursts = cut.taken - cut.told
    cut.told = cut.taken
    return bursts


@jit
def _words(cut: StripeCut) -> int:
    """Return the words that have passed since the last call."""
    words = cut.words
    cut.words = 0
    return words


@jit_apart
def collect_striped(stripes: Stripes, counts: Counts) -> None:
    """Move the counts of all narrow ports to those of a layer, and those of the masters before the cut.

    What is fetched for the next layer lies in the queues of ports while a layer ends, so both differ.
    """
    counts.striped_read_beats += _words(stripes.m0.cut) + _words(stripes.m1.cut) + _words(stripes.m2_read.cut)
    counts.striped_reads += _bursts(stripes.m0.cut) + _bursts(stripes.m1.cut) + _bursts(stripes.m2_read.cut)
    counts.striped_writes += _bursts(stripes.m2_write.cut)
    for port in range(MAX_STRIPES):
        collect_reads(stripes.m0.memory[port], counts, 0)
        collect_reads(stripes.m1.memory[port], counts, 1)
        collect_reads(stripes.m2_read.memory[port], counts, 2)
        collect_writes(stripes.m2_write.memory[port], counts)
