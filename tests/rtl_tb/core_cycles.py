"""An oracle of the tests: cycles of the reference core with ideal streams, equal to the RTL to the cycle.
Pure arithmetic.

It is the third cycle model of the core, beside the RTL and the exact model of `dse`. It stays because it is
the only one in closed form: it states the cost of a command as a formula, and it is written without knowledge
of the other two.

Ideal: every stream always has a beat to give or room to take one. Cycle 0 is the first after reset, in which
the first command is taken.

**One command alone** (`command_cycles`), from its handshake to that of its last output, both counted; Turn
and Late are `CoreTiming`, Finish is 10, or 17 with words of 8 bits:

    GEMM: 1 + header + tile + (p_tiles - 1) * max(beats, tile, Turn) + Late + 1 + outputs + Finish
    pool: 1 + p_tiles + (rows - 1) * max(p_tiles, groups) + groups + Finish

with `header` and `tile` the weight beats of the bias header and of one P-tile, `outputs` the output beats and
`groups` those of a row. (A GEMM cannot drain before its biases are unpacked, one a cycle: the sum up to Late
+ 1 is at least cols + 2.) So a P-tile costs `beats` cycles and nothing else when its weights come in time and
Turn is not longer than it.

**A sequence** (`Timeline`): the same events, each as early as the one that it waits for allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.hls.core import output_beats
from fluidnpu.hls.core.streams import Command
from fluidnpu.hls.program.layout import TileLayout

Cycles = npt.NDArray[np.int64]

QUEUE_DEPTH = 4  # commands that each of the three walkers may be behind
BIAS_GENERATIONS_AHEAD = 3
FINISH_CYCLES = {16: 10, 8: 17}  # from the fetch of a row to its first output beat, by the bits of a word


@dataclass(frozen=True, kw_only=True)
class CoreTiming:
    """The latencies of one design's core."""

    turnaround: int  # P-tiles of one command may not begin closer to each other
    late: int  # from a beat to the write of its sum

    @classmethod
    def of(cls, design: Design) -> CoreTiming:
        """TP cycles through the chain and one for each piece behind the first, and what lies around it.

        >>> from fluidnpu.dse.testing import tiny_design
        >>> CoreTiming.of(tiny_design())
        CoreTiming(turnaround=8, late=8)
        """
        if design.word_bits == 8:
            # Segments end together and are added in pairs; banks are read behind the chain (ADR 75).
            array = design.array
            span = array.piece if array.broken else array.t_p
            segment = -(-span // -(-span // (1 << array.field_bits - 13)))
            levels = (-(-array.t_p // segment) - 1).bit_length()
            return cls(turnaround=4, late=segment + levels + 6 + int(design.stackable))
        later = len(range(design.array.piece, design.t_p, design.array.piece)) if design.array.broken else 0
        late = design.t_p + 3 + int(design.stackable) + later
        return cls(turnaround=late, late=late)


def command_cycles(command: Command, design: Design) -> int:
    """Cycles of one command alone, from its handshake to its last output's, both counted.

    >>> from fluidnpu.dse.testing import tiny_design
    >>> command_cycles(Command(mode=Mode.NORMAL, beats=20, p_tiles=3, cols=8), tiny_design())
    116
    """
    outputs, finish = output_beats(command, design), FINISH_CYCLES[design.word_bits]
    if command.mode >= Mode.MAX_POOL:
        groups = outputs // command.rows
        period = max(command.p_tiles, groups)
        return 1 + command.p_tiles + (command.beats - 1) * period + groups + finish
    timing, layout = CoreTiming.of(design), tile_layout(command, design)
    period = max(command.beats, layout.tile_beats, timing.turnaround)
    last_tile = 1 + layout.bias_beats + layout.tile_beats + (command.p_tiles - 1) * period
    return max(last_tile + timing.late + 1, command.cols + 2) + outputs + finish


def stream_cycles(commands: Iterable[Command], design: Design) -> int:
    """Cycles from the first command's handshake to the last output's, both counted."""
    timeline = Timeline(design)
    for command in commands:
        timeline.add(command)
    return timeline.end


def tile_layout(command: Command, design: Design) -> TileLayout:
    """Sizes of a GEMM command's weights."""
    p = command.p_tiles * design.tile(command.mode)[0]
    return TileLayout(p=p, cols=command.cols, mode=command.mode, design=design)


@dataclass
class _Drained:
    """When the rows of the last GEMM command were fetched."""

    fetches: Cycles
    split: bool

    def free(self, rows: int, split: bool) -> Cycles:
        """First cycle in which each of `rows` new rows may be taken into the output banks."""
        every = np.full(rows, self.fetches[-1] + 1)
        if split == self.split:
            shared = min(rows, len(self.fetches))
            every[:shared] = self.fetches[:shared] + 1
        return every


class Timeline:
    """Walks through the commands of ideal streams; `end` counts cycles up to the last output's handshake."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.timing = CoreTiming.of(design)
        self.end = 0
        self._accepted = -1  # handshake of the latest command
        self._popped: list[int] = []  # cycles in which the drain is done with commands
        self._loader = 1  # first cycle in which the loader is free
        self._input = 1  # the same of the input stream
        self._swap = 0  # swap of the latest P-tile: its waiting weights are free from here on
        self._issued = -(10**6)  # latest beat of a GEMM
        self._drain = 0  # first cycle in which the next row may be fetched
        self._pool_taken = 0  # latest fetch of a pooled row
        self._drained: list[_Drained] = []
        self._bias = _BiasTimeline(design)

    def add(self, command: Command) -> None:
        """Append a command."""
        self._accepted += 1
        if len(self._popped) >= QUEUE_DEPTH:
            self._accepted = max(self._accepted, self._popped[-QUEUE_DEPTH] + 1)
        if command.mode >= Mode.MAX_POOL:
            self._add_pool(command, self._accepted + 1)
        else:
            self._add_gemm(command, self._accepted + 1)

    def _add_gemm(self, command: Command, seen: int) -> None:
        layout, split = tile_layout(command, self.design), command.mode is Mode.SPLIT
        released = [int(drained.fetches[-1]) for drained in self._drained]
        header_end, biases_ready = self._bias.add(max(self._loader, seen), layout, released)
        load = max(header_end, self._swap)
        swap = max(load + layout.tile_beats, self._input, seen)
        if self._drained and split != self._drained[-1].split:
            swap = max(swap, self._issued + self.timing.turnaround + 1)
        if command.p_tiles > 1:
            period = max(command.beats, layout.tile_beats, self.timing.turnaround)
            load = swap + (command.p_tiles - 2) * period
            swap += (command.p_tiles - 1) * period
        issues = self._issues(command, swap, split)
        self._swap = int(issues[0])
        if command.p_tiles == 1:
            load = max(header_end, load)
        self._loader = load + layout.tile_beats
        self._issued = int(issues[-1])
        self._input = self._issued + 1
        per_row = _beats_per_row(command, self.design)
        fetches = _as_early(np.maximum(issues + self.timing.late + 1, max(seen, self._drain, biases_ready)), per_row)
        self._drained.append(_Drained(fetches, split))
        self._close(fetches, per_row)

    def _issues(self, command: Command, swap: int, split: bool) -> Cycles:
        """Cycles in which the rows of the last P-tile are taken."""
        earliest = np.full(command.beats, swap)
        if self._drained:
            earliest = np.maximum(earliest, self._drained[-1].free(command.beats, split))
        if len(self._drained) > 1:
            earliest = np.maximum(earliest, self._drained[-2].fetches[-1] + 1)
        return _as_early(earliest, np.ones(command.beats, np.int64))

    def _add_pool(self, command: Command, seen: int) -> None:
        per_row = _beats_per_row(command, self.design)
        first_tap = max(seen, self._input, self._pool_taken)
        first_fetch = max(first_tap + command.p_tiles, seen, self._drain)
        fetches = first_fetch + np.arange(command.beats) * max(command.p_tiles, int(per_row[0]))
        before_last = int(fetches[-2]) if command.beats > 1 else first_tap
        self._input = before_last + command.p_tiles
        self._pool_taken = int(fetches[-1])
        self._close(fetches, per_row)

    def _close(self, fetches: Cycles, per_row: Cycles) -> None:
        self._popped.append(int(fetches[-1]))
        self._drain = int(fetches[-1] + per_row[-1])
        self.end = self._drain + FINISH_CYCLES[self.design.word_bits]


class _BiasTimeline:
    """Header beats queue up and are unpacked one bias a cycle into one of a few generations."""

    def __init__(self, design: Design) -> None:
        per_beat = design.t_p // (48 // 16 if design.word_bits == 16 else 64 // 8) * design.weight_slots
        columns = 2 * design.t_c if design.split else design.t_c
        self._depth = 2 * -(-columns // per_beat)
        self._per_beat = per_beat
        self._pops: list[int] = []
        self._unpacked = 0

    def add(self, start: int, layout: TileLayout, released: list[int]) -> tuple[int, int]:
        """(Cycle after the last header beat, first cycle in which rows may be fetched) of the next GEMM
        command.

        `start`: when the loader turns to the header; `released`: when the rows of each earlier GEMM command
        were all fetched.
        """
        push = start - 1
        if len(released) >= BIAS_GENERATIONS_AHEAD:
            self._unpacked = max(self._unpacked, released[-BIAS_GENERATIONS_AHEAD])
        for beat in range(layout.bias_beats):
            push += 1
            if len(self._pops) >= self._depth:
                push = max(push, self._pops[-self._depth] + 1)
            biases = min(self._per_beat, layout.cols - beat * self._per_beat)
            self._unpacked = max(self._unpacked, push) + biases
            self._pops.append(self._unpacked)
        return push + 1, self._unpacked + 1


def _beats_per_row(command: Command, design: Design) -> Cycles:
    """Output beats that every fetched row gives: twice as many where it holds two lanes."""
    lanes = 1 + (np.arange(command.beats) < command.lane1_beats)
    return np.asarray(lanes * -(-command.cols // design.out_words), np.int64)


def _as_early(earliest: Cycles, durations: Cycles) -> Cycles:
    """Start cycles of steps in a row, none before its `earliest`, each after the one before has ended."""
    before = np.cumsum(durations) - durations
    return np.asarray(before + np.maximum.accumulate(earliest - before))
