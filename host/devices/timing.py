"""The end times of a job's layers by the design's latency table. Pure arithmetic; no I/O.

A whole stage takes exactly its time in the table. Inside a stage, layers share that time in proportion to
their work.

>>> from fluidnpu.dse.testing import tiny_design
>>> times = JobTimes(tiny_design())
>>> times.layer_ends(0, 1, batch=2), tiny_design().latency.ns
([96, 100], ((48, 96, 144, 192), (2, 4, 6, 8)))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fluidnpu.dse import Design, LatencyTable
from fluidnpu.models import Kind, LayerShape
from fluidnpu.scheduler.simulation import PartTimes

from ..errors import DriverUsageError


def layer_work(shape: LayerShape, design: Design) -> int:
    """Return the beats of one sample: the weight of a layer in its stage's time.

    A depthwise layer that the one before it computes has none.
    """
    if shape.merged and shape.kind is Kind.GEMM:
        return 0
    if shape.kind is not Kind.GEMM:
        return shape.r * shape.p * -(-shape.c // design.input_words)
    return shape.groups * shape.r * -(-shape.p // design.t_p) * -(-shape.c // design.t_c)


class JobTimes:
    """The predicted times of one design's jobs."""

    def __init__(self, design: Design) -> None:
        self._clock_hz = design.clock_hz
        self._stages = [layer.stage for layer in design.layers]
        self._latency = design.latency
        work = [layer_work(design.lowered(index), design) for index in range(len(design.layers))]
        self._total = [sum(w for w, s in zip(work, self._stages, strict=True) if s == t) for t in range(design.stages)]
        self._before, seen = [], [0] * design.stages
        for w, stage in zip(work, self._stages, strict=True):
            seen[stage] += w
            self._before.append(seen[stage] - w)
        self._upto = [b + w for b, w in zip(self._before, work, strict=True)]
        self.layer_ends = lru_cache(maxsize=None)(self._layer_ends)

    def parts(self, segments: Sequence[int]) -> PartTimes:
        """Return the times of every stage with and without its head.

        `segments`: the last layer of each stage that is no head (`Program.segments`). Raises DriverUsageError
        for a stage that is all head.
        """
        bare = []
        for stage, end in enumerate(segments):
            first = self._stages.index(stage)
            if end < first:
                raise DriverUsageError(f"stage {stage} must have layers that are no head, and it has none")
            batches = range(1, self._latency.b_max + 1)
            bare.append(tuple(max(1, self.layer_ends(first, end, batch)[-1]) for batch in batches))
        return PartTimes(whole=self._latency, bare=LatencyTable(ns=tuple(bare)))

    def _layer_ends(self, first: int, last: int, batch: int) -> list[int]:
        """Return nanoseconds from the start of a job to the end of each of its layers first..last."""
        start, ends = -self._in_stage(first, self._before[first], batch), []
        for layer in range(first, last + 1):
            ends.append(start + self._in_stage(layer, self._upto[layer], batch))
            if layer < last and self._stages[layer + 1] != self._stages[layer]:
                start = ends[-1]
        return ends

    def _in_stage(self, layer: int, work: int, batch: int) -> int:
        stage = self._stages[layer]
        return self._latency.ns[stage][batch - 1] * work // self._total[stage]

    def ns(self, cycles: int) -> int:
        """Convert clock cycles to nanoseconds, rounded up."""
        return -(-cycles * 1_000_000_000 // self._clock_hz)

    def cycles(self, ns: int) -> int:
        """Convert nanoseconds to whole clock cycles, rounded down."""
        return ns * self._clock_hz // 1_000_000_000
