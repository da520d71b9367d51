"""A processor in an NPU's place: it runs the compiled program with the golden arithmetic, in its own time.

Registers and memory are the simulated NPU's, so driver, policies and server are those of every board, and so
are the bits. A job takes as long as its arithmetic, which begins when somebody looks for its end.

>>> from fluidnpu.dse.testing import tiny_design
>>> from fluidnpu.hls import register
>>> npu = ProcessorNpu(tiny_design())
>>> npu.read(register("STATUS").offset) == register("STATUS").reset
True
"""

from __future__ import annotations

import threading

from fluidnpu.dse import Design

from .device import WallClock
from .simulated import SimulatedNpu, _Job


class ProcessorNpu(SimulatedNpu):
    """A `Device` whose jobs take this processor's time; all of a process run one after another."""

    _turn = threading.Lock()

    def __init__(self, design: Design) -> None:
        super().__init__(design, clock=WallClock())
        self._starting = False

    def _start(self) -> None:
        self._starting = True
        try:
            super()._start()
        finally:
            self._starting = False

    def _advance(self) -> None:
        if not self._starting:
            super()._advance()

    def _watch(self, job: _Job) -> _Job:
        """Let every layer run now: no watchdog can stop a processor that is at work."""
        if not job.cause:
            job.ends_ns, job.end_ns = [job.start_ns] * len(job.ends_ns), job.start_ns
        return job

    def _compute(self, job: _Job, until_ns: int) -> None:
        with self._turn:
            super()._compute(job, until_ns)
        if not job.cause:
            job.end_ns = self.clock.now_ns()  # which the counter of cycles goes by
