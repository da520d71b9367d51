"""The memory behind the ports of an NPU: latency, rates, refresh.

A description only; `rtl_tb` and the `exact` model both obey it.

>>> DramModel.IDEAL.latency_cycles, DramModel.IDEAL.total_words
(1, 0.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from fluidnpu.boards import Board

from ..errors import DesignError

_AXI3_BURST = 16
_RATE_BYTES = 2  # of a word in which a `DramModel` gives its rates, whatever words an NPU has


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Words that move in a cycle at best, infinite without a limit.

    `port`: one port in one direction; `total`: all ports together; both with the time of refresh taken off.
    `burst`: one port between two refreshes, when no other port moves any.
    """

    port: float
    total: float
    burst: float


@dataclass(frozen=True, kw_only=True)
class DramModel:
    """The memory behind the ports. Rates are 16-bit words a cycle, 0 for no limit but the ports' width.

    `latency_cycles`: from the handshake of a read address to its first data, `write_latency_cycles`: from the
    last data to the answer; an NPU reads data as they were at the handshake, and a write is there when it is
    answered. `link_words` limits each physical port and direction, `links` says which port the masters m0, m1
    and m2 use, `total_words` limits all ports and directions together. In the first `refresh_cycles` of every
    `refresh_interval_cycles` nothing moves. Where masters are striped over narrow ports, port p of each uses
    physical port p, and `outstanding` bursts may be under way on each; `links` then says nothing.
    """

    IDEAL: ClassVar[DramModel]

    latency_cycles: int = 1
    write_latency_cycles: int = 1
    link_words: float = 0.0
    total_words: float = 0.0
    links: tuple[int, int, int] = (0, 1, 2)
    refresh_interval_cycles: int = 0
    refresh_cycles: int = 0
    outstanding: int = 16
    max_burst: int = _AXI3_BURST

    def __post_init__(self) -> None:
        for name in ("latency_cycles", "write_latency_cycles", "outstanding", "max_burst"):
            if not getattr(self, name) >= 1:
                raise DesignError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("link_words", "total_words", "refresh_interval_cycles", "refresh_cycles"):
            if not getattr(self, name) >= 0:
                raise DesignError(f"{name} must not be negative, as {getattr(self, name)} is")
        if self.refresh_cycles and not self.refresh_cycles < self.refresh_interval_cycles:
            raise DesignError(
                f"refresh_cycles must be less than refresh_interval_cycles = {self.refresh_interval_cycles}, not {self.refresh_cycles}"
            )
        if len(self.links) != 3 or not set(self.links) <= {0, 1, 2}:
            raise DesignError(f"links must name a port 0..2 for each of three masters, not {self.links}")

    @classmethod
    def of(
        cls, board: Board, memory: str | None = None, *, clock_hz: int | None = None, latency_ns: int = 250
    ) -> DramModel:
        """A board's memory (its first by default) as its NPU sees it.

        Widths, ports, peak bandwidth and the share of it that row misses and turns of direction leave are
        the board file's. Latency (there and back through the interconnect) and refresh (every 7.8 us, 260
        ns long: DDR3 of 4 Gb by JESD79-3) are assumptions: measure them on your board.

        >>> from fluidnpu.boards import load_board
        >>> DramModel.of(load_board("zc706"), "pl").latency_cycles
        38
        """
        dram = board.memory(memory)
        clock = board.clock_hz if clock_hz is None else clock_hz
        ports = min(3, board.axi_ports) if dram.side == "ps" and dram.stripes == 1 else 3
        latency = max(1, round(latency_ns * clock / 1e9))
        return cls(
            latency_cycles=latency,
            write_latency_cycles=latency,
            link_words=dram.port_bits / 16 / dram.stripes,
            total_words=dram.sustained_pct * dram.bytes_per_s / 100 / clock / 2,
            links=(0, 1 % ports, 2 % ports),
            refresh_interval_cycles=max(2, round(7800 * clock / 1e9)),
            refresh_cycles=max(1, round(260 * clock / 1e9)),
        )

    @property
    def awake(self) -> float:
        """Share of the time in which the memory does not refresh."""
        return 1.0 - (self.refresh_cycles / self.refresh_interval_cycles if self.refresh_cycles else 0.0)

    def words(self, word_bytes: int) -> float:
        """Words of that size a cycle of all ports together; 0 for no limit."""
        return self.total_words * _RATE_BYTES / word_bytes

    def awake_words(self, word_bytes: int = _RATE_BYTES) -> float:
        """Words of that size a cycle of all ports together, refresh counted; 0 for no limit."""
        return self.words(word_bytes) * self.awake

    def rates(self, port_words: int, stripes: int = 1, word_bytes: int = _RATE_BYTES) -> Rates:
        """The rates of masters of `port_words`, each spread over `stripes` ports, in words of that size.

        >>> dram = DramModel(link_words=3.0, total_words=4.0, refresh_interval_cycles=10, refresh_cycles=1)
        >>> dram.rates(4), dram.rates(8, word_bytes=1)
        (Rates(port=2.7, total=3.6, burst=3.0), Rates(port=5.4, total=7.2, burst=6.0))
        """
        port = min(port_words, self.link_words * _RATE_BYTES / word_bytes * stripes or inf) * self.awake
        total = self.awake_words(word_bytes) or inf
        return Rates(port=port, total=total, burst=min(port, total) / self.awake)


DramModel.IDEAL = DramModel()


def faster_memories(board: Board, memory: str | None = None) -> list[str]:
    """Names of the board's memories that move more words a cycle than one of them, its first by default.

    >>> from fluidnpu.boards import load_board
    >>> faster_memories(load_board("zc706")), faster_memories(load_board("zc706"), "ps")
    (['pl'], ['ps_striped', 'pl'])
    """

    def words(name: str | None) -> tuple[float, float]:
        ports, dram = board.memory(name), DramModel.of(board, name)
        rates = dram.rates(ports.port_bits // 16, ports.stripes)
        return rates.total, rates.port

    total, port = words(memory)
    others = {other.name: words(other.name) for other in board.dram}
    return [name for name, (a, b) in others.items() if a >= total and b >= port and (a > total or b > port)]
