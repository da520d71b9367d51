"""An NPU that ends every job at once and computes nothing: what is left is the host's own work."""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.hls import register
from fluidnpu.host import WallClock
from fluidnpu.host.devices import Buffer, Clock, SimulatedMemory
from fluidnpu.host.identity import build_id_word, shape_word

_DONE = register("STATUS").field("IDLE").mask | register("STATUS").field("DONE").mask
_INDEX, _DATA = register("FBCB_INDEX").offset, register("FBCB_DATA").offset


class NullNpu:
    """A `Device` whose registers hold what is written; all results are whatever the slots held before."""

    def __init__(self, design: Design) -> None:
        self._memory = SimulatedMemory()
        self._clock: Clock = WallClock()
        self._words = {
            register("BUILD_ID").offset: build_id_word(design),
            register("SHAPE").offset: shape_word(design),
            register("STATUS").offset: _DONE,
        }
        self._fbcb: dict[int, int] = {}  # by index: a driver reads back what it wrote

    @property
    def clock(self) -> Clock:
        return self._clock

    def read(self, offset: int) -> int:
        if offset == _DATA:
            return self._fbcb.get(self._words.get(_INDEX, 0), 0)
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset == _DATA:
            index = self._words.get(_INDEX, 0)
            self._fbcb[index], self._words[_INDEX] = value, index + 1
        elif offset != register("STATUS").offset:
            self._words[offset] = value

    def allocate(self, size: int) -> Buffer:
        return self._memory.allocate(size)

    def free(self, buffer: Buffer) -> None:
        self._memory.free(buffer)

    def wait_interrupt(self, deadline_ns: int) -> bool:
        return True
