"""The memory behind the ports: twin of the DRAM model in `npu_model.cpp`.

The first data of a read burst follow its address by `latency` cycles, the answer of a write burst its last
data by `write_latency` cycles. Bandwidth is a leaky bucket for each physical port and direction, and one for
all together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..parameters import BURSTS, FRACTION, MASTERS, MAX_STRIPES, Counts, Setup
from ..records import jit, jit_apart
from .masters import Masters

LAST = BURSTS - 1
WRITES = MASTERS  # number of the write port, behind the read ports of m0, m1 and m2


@dataclass(slots=True)
class ReadPort:
    """Outstanding read bursts of a port."""

    asked: int  # bursts
    served: int
    sent: int  # beats of the oldest burst
    beat_count: int  # in this layer
    burst_count: int
    due: Annotated[list[int], BURSTS]
    beats: Annotated[list[int], BURSTS]


@dataclass(slots=True)
class WritePort:
    """Outstanding write bursts of a port."""

    opened: int  # bursts
    filled: int  # bursts whose data have all come
    answered: int
    sent: int  # beats of the oldest burst that is not filled
    beat_count: int  # in this layer
    burst_count: int
    due: Annotated[list[int], BURSTS]
    beats: Annotated[list[int], BURSTS]


@dataclass(slots=True)
class DramTwin:
    """The leaky buckets, and one port for each master and direction."""

    now: int  # the NPU's cycle
    turns: int  # ports of all masters and directions
    first: int  # port whose turn it is
    phase: int  # cycles since the last refresh began
    beat_cost: int  # of one beat, in bytes of 1 / FRACTION as all of these
    link_most: int
    total_most: int
    total_credit: int
    credit: Annotated[list[int], 2 * MAX_STRIPES]  # of each link: reads, then writes
    link_of: Annotated[list[int], 4 * MAX_STRIPES]  # of each port, in the order of their turns
    m0: ReadPort
    m1: ReadPort
    m2_read: ReadPort
    m2_write: WritePort


@jit_apart
def reset_dram(dram: DramTwin, setup: Setup, now: int) -> None:
    """Fill the buckets and give each port its link."""
    dram.now = now - 1
    dram.turns = (MASTERS + 1) * setup.stripes
    dram.first = 0
    dram.phase = now % setup.refresh_interval
    dram.beat_cost = (setup.port_bytes >> setup.stripe_shift) * FRACTION
    # Less would lose what is left of a cycle's rate once its whole beats have moved.
    dram.link_most = dram.beat_cost + max(dram.beat_cost, setup.link_rate)
    dram.total_most = dram.beat_cost + max(dram.beat_cost, setup.total_rate)
    dram.total_credit = dram.total_most
    for link in range(2 * MAX_STRIPES):
        dram.credit[link] = dram.link_most
    for who in range(dram.turns):
        master, port = who >> setup.stripe_shift, who & setup.stripes - 1
        link = setup.links[min(master, MASTERS - 1)] if setup.stripes == 1 else port
        dram.link_of[who] = link + MAX_STRIPES if master == WRITES else link


@jit
def tick(dram: DramTwin, setup: Setup) -> bool:
    """Begin a cycle: refill the buckets. Returns False during a refresh, when no data move."""
    dram.now += 1
    if setup.link_rate:
        for link in range(2 * MAX_STRIPES):
            dram.credit[link] = min(dram.credit[link] + setup.link_rate, dram.link_most)
    if setup.total_rate:
        dram.total_credit = min(dram.total_credit + setup.total_rate, dram.total_most)
    moves = dram.phase >= setup.refresh_cycles
    dram.phase = 0 if dram.phase + 1 == setup.refresh_interval else dram.phase + 1
    return moves


@jit
def grant(dram: DramTwin, setup: Setup, wanted: int) -> int:
    """Arbitrate bandwidth round-robin. Returns the ports of `wanted` that move a beat, a bit each.

    The port after the last one served goes first, so that ports that want alike are served alike.
    """
    if not (setup.link_rate or setup.total_rate):
        return wanted
    granted, first = 0, dram.first
    for turn in range(dram.turns):
        who = turn + first & dram.turns - 1
        link = dram.link_of[who]
        if not wanted >> who & 1 or (setup.link_rate and dram.credit[link] < dram.beat_cost):
            continue
        if setup.total_rate:
            if dram.total_credit < dram.beat_cost:
                break
            dram.total_credit -= dram.beat_cost
        if setup.link_rate:
            dram.credit[link] -= dram.beat_cost
        granted |= 1 << who
        dram.first = who + 1
    return granted


@jit
def reads_due(port: ReadPort, dram: DramTwin) -> bool:
    """Return whether the oldest burst of a port has waited for its latency."""
    return port.asked != port.served and port.due[port.served & LAST] <= dram.now


@jit
def serve_read(port: ReadPort, dram: DramTwin, setup: Setup, beat: int, length: int) -> bool:
    """Send a beat, and accept the address of a burst of `length` beats (0: none). True if accepted."""
    room = port.asked - port.served < setup.outstanding
    if beat:
        port.beat_count += 1
        port.sent += 1
        if port.sent == port.beats[port.served & LAST]:
            port.sent = 0
            port.served += 1
    if length == 0 or not room:
        return False
    port.due[port.asked & LAST] = dram.now + setup.latency
    port.beats[port.asked & LAST] = length
    port.asked += 1
    port.burst_count += 1
    return True


@jit
def answer_due(port: WritePort, dram: DramTwin) -> bool:
    """Answer the oldest burst whose write latency has passed. Returns False if there is none."""
    if port.answered == port.filled or port.due[port.answered & LAST] > dram.now:
        return False
    port.answered += 1
    return True


@jit
def has_room(port: WritePort, setup: Setup) -> bool:
    """Return whether the memory accepts one more write burst of a port."""
    return port.opened - port.answered < setup.outstanding


@jit
def serve_write(port: WritePort, dram: DramTwin, setup: Setup, beat: int, length: int) -> None:
    """Accept a beat of data, and the address of a burst of `length` beats (0: none)."""
    if beat:
        port.beat_count += 1
        port.sent += 1
        if port.sent == port.beats[port.filled & LAST]:
            port.sent = 0
            port.due[port.filled & LAST] = dram.now + setup.write_latency
            port.filled += 1
    if length:
        port.beats[port.opened & LAST] = length
        port.opened += 1
        port.burst_count += 1


@jit
def step_memory(dram: DramTwin, masters: Masters, setup: Setup) -> None:
    """Serve masters that have one port for each direction."""
    m0, m1, m2, m2_write = masters.m0, masters.m1, masters.m2_read, masters.m2_write
    granted = 0
    if tick(dram, setup):
        wanted = reads_due(dram.m0, dram) | reads_due(dram.m1, dram) << 1 | reads_due(dram.m2_read, dram) << 2
        writable = m2_write.wvalid != 0 and dram.m2_write.opened != dram.m2_write.filled
        granted = grant(dram, setup, wanted | writable << WRITES)
    m0.rvalid = granted & 1
    m1.rvalid = granted >> 1 & 1
    m2.rvalid = granted >> 2 & 1
    m0.arready = serve_read(dram.m0, dram, setup, m0.rvalid, m0.arlen)
    m1.arready = serve_read(dram.m1, dram, setup, m1.rvalid, m1.arlen)
    m2.arready = serve_read(dram.m2_read, dram, setup, m2.rvalid, m2.arlen)
    m2_write.wready = granted >> WRITES & 1
    m2_write.awready = m2_write.awlen != 0 and has_room(dram.m2_write, setup)
    m2_write.bvalid = answer_due(dram.m2_write, dram)
    serve_write(dram.m2_write, dram, setup, m2_write.wready, m2_write.awlen if m2_write.awready else 0)


@jit
def collect_reads(port: ReadPort, counts: Counts, master: int) -> None:
    """Move the counts of a read port to those of a layer."""
    counts.read_beats[master] += port.beat_count
    counts.read_bursts[master] += port.burst_count
    port.beat_count = 0
    port.burst_count = 0


@jit
def collect_writes(port: WritePort, counts: Counts) -> None:
    """Move the counts of a write port to those of a layer."""
    counts.write_beats += port.beat_count
    counts.write_bursts += port.burst_count
    port.beat_count = 0
    port.burst_count = 0


@jit_apart
def collect_traffic(dram: DramTwin, counts: Counts) -> None:
    """Move the counts of all ports to those of a layer."""
    collect_reads(dram.m0, counts, 0)
    collect_reads(dram.m1, counts, 1)
    collect_reads(dram.m2_read, counts, 2)
    collect_writes(dram.m2_write, counts)
