"""The memory masters: twin of `axi_read_master` and `axi_write_master`."""

from __future__ import annotations

from dataclasses import dataclass

from ..parameters import Setup
from ..records import jit

PAGE_BYTES = 4096  # that no burst crosses
MAX_OUTSTANDING = 63


@dataclass(slots=True)
class ReadMaster:
    """Registers and ports of `axi_read_master`."""

    addr: int
    left: int  # beats requested and not yet asked for
    end: int
    inflight: int  # beats asked for and not yet answered
    level: int  # of the queue of data
    arlen: int  # beats of the burst whose address is offered; 0: none
    # ports
    arready: int
    rvalid: int
    req_addr: int
    req_beats: int  # 0: no request is handed over
    data_ready: int  # a word of the queue is taken


@dataclass(slots=True)
class WriteMaster:
    """Registers and ports of `axi_write_master`."""

    next: int
    open: int  # words gathered for the burst that is still open
    level: int  # of the queue of data
    burst_words: int  # of the burst that is to begin; 0: none
    awlen: int  # beats of the burst whose address is offered; 0: none
    wvalid: int
    left: int  # words of the burst begun that are not yet in the output register
    outstanding: int
    # ports
    awready: int
    wready: int
    bvalid: int


@dataclass(slots=True)
class Masters:
    """The masters: m0 reads descriptors and weights, m1 inputs, m2 residuals; m2 also writes outputs."""

    m0: ReadMaster
    m1: ReadMaster
    m2_read: ReadMaster
    m2_write: WriteMaster


@jit
def req_ready(m: ReadMaster, address: int) -> bool:
    """Tell if a read master takes a request: it has none left, or the last one ends at this address."""
    return m.left == 0 or address == m.end


@jit
def read_quiet(m: ReadMaster) -> bool:
    """Return whether nothing is under way in a read master."""
    return (m.left | m.arlen | m.inflight | m.level) == 0


@jit
def request(m: ReadMaster, address: int, beats: int) -> None:
    """Hand a read master a request for `beats` port words."""
    m.req_addr = address
    m.req_beats = beats


@jit
def step_read_master(m: ReadMaster, setup: Setup) -> None:
    """Ask for the next burst if the data queue has room for all of it, and take a request."""
    idle = m.left == 0
    length = 0
    if not idle and (m.arlen == 0 or m.arready):
        to_page = PAGE_BYTES - (m.addr & PAGE_BYTES - 1) >> setup.port_shift
        length = min(setup.max_burst, to_page, m.left)
        if m.level + m.inflight + length > setup.queue_beats:
            length = 0
    if length:
        m.arlen = length
        m.addr += length * setup.port_bytes
        m.left -= length
    elif m.arready:
        m.arlen = 0
    if m.req_beats:
        m.left += m.req_beats
        m.end = m.req_addr + m.req_beats * setup.port_bytes
        if idle:
            m.addr = m.req_addr
    m.inflight += length - m.rvalid
    m.level += m.rvalid - m.data_ready
    m.req_beats = 0
    m.data_ready = 0


@jit
def write_idle(m: WriteMaster) -> bool:
    """Return whether every word that the master took is in memory."""
    return (m.open | m.burst_words | m.awlen | m.left | m.wvalid | m.outstanding) == 0


@jit
def step_write_master(m: WriteMaster, setup: Setup, close: bool, address: int) -> bool:
    """Gather words into bursts and send these. Returns True if the word at `address` (-1: none) was taken."""
    moves = m.wvalid == 0 or m.wready != 0
    begins = m.burst_words != 0 and m.left == 0 and m.awlen == 0 and moves and m.outstanding != MAX_OUTSTANDING
    sends = m.left != 0 and m.level != 0 and moves
    room = m.level != setup.queue_beats
    full = m.open == setup.max_burst or m.next & PAGE_BYTES - 1 == 0
    joins = m.open == 0 or (not full and address == m.next)
    ends = m.open != 0 and (full or close or (address >= 0 and not joins))
    takes = address >= 0 and room and not ends
    if m.awready:
        m.awlen = 0
    if m.wready:
        m.wvalid = 0
    if begins:
        m.awlen = m.burst_words
        m.left = m.burst_words
    if sends:
        m.wvalid = 1
        m.left -= 1
        m.level -= 1
    if ends and (m.burst_words == 0 or begins):
        m.burst_words = m.open
        m.open = 0
    elif begins:
        m.burst_words = 0
    if takes:
        m.open += 1
        m.next = address + setup.port_bytes
        m.level += 1
    m.outstanding += begins - m.bvalid
    return takes
