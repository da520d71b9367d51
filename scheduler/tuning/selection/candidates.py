"""Times of a network's parts, from which every set of active exits has its latency table by addition.

A part is the backbone between two exits, or the bridge and head of one exit. All heads lie in one program,
and a batch that passes an exit by runs the next part as a job of its own. So times add up, and a set of
exits needs no profiling: `t_ij` of PAME's inference-time matrix (section 6.3.1) is a sum.

>>> table = CandidateTable(names=("exit1",), segments=((10, 18), (20, 36)), heads=((2, 3),))
>>> table.latency([0]).ns, table.latency([]).ns
(((12, 21), (20, 36)), ((30, 54),))
>>> table.time_matrix(2)
array([[21, 41, 57]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import Design, LatencyTable

from ...errors import SchedulerError

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class CandidateTable:
    """Nanoseconds at each batch size of K + 1 segments of the backbone and K heads. Raises SchedulerError.

    Segment i leads to exit i, the last one through the network's own head.
    """

    names: tuple[str, ...]  # of the K early exits
    segments: Rows
    heads: Rows

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.heads) == len(self.segments) - 1 >= 1:
            raise SchedulerError(
                f"a table of candidates needs a head for each of its exits and one segment more, not {len(self.heads)} "
                f"heads and {len(self.segments)} segments for {len(self.names)} exits"
            )
        LatencyTable(ns=self.segments + self.heads)  # refuses rows of different lengths, and times that are none

    @classmethod
    def of(cls, design: Design, names: Sequence[str]) -> CandidateTable:
        """Read the design of a workload in parts (`models.exits.workload_in_parts`)."""
        rows = design.latency.ns
        return cls(names=tuple(names), segments=rows[0::2], heads=rows[1::2])

    @property
    def exits(self) -> int:
        """The number K of candidates."""
        return len(self.names)

    @property
    def b_max(self) -> int:
        """The largest batch of the table."""
        return len(self.segments[0])

    def latency(self, active: Sequence[int]) -> LatencyTable:
        """Return the latency table of the active exits (indices, ascending) and the last one."""
        rows, start = [], 0
        for exit in (*active, self.exits):
            parts = [*self.segments[start : exit + 1], *([self.heads[exit]] if exit < self.exits else [])]
            rows.append(tuple(sum(column) for column in zip(*parts, strict=True)))
            start = exit + 1
        return LatencyTable(ns=tuple(rows))

    @cached_property
    def _segment_sums(self) -> NDArray[np.int64]:
        """Sums of segments before each index, by batch; a column of zeros stands for the empty batch."""
        rows = np.array(self.segments, np.int64)
        padded = np.hstack([np.zeros((len(rows), 1), np.int64), rows])
        return np.vstack([np.zeros((1, padded.shape[1]), np.int64), np.cumsum(padded, axis=0)])

    @cached_property
    def _heads(self) -> NDArray[np.int64]:
        rows = np.array(self.heads, np.int64)
        return np.hstack([np.zeros((len(rows), 1), np.int64), rows])

    def step(self, start: int, exit: int) -> NDArray[np.int64]:
        """Return the time from behind exit start - 1 through exit `exit`, for batches 0 to b_max, (b_max +
        1,).
        """
        row = self._segment_sums[exit + 1] - self._segment_sums[start]
        return np.asarray(row + self._heads[exit] if exit < self.exits else row)

    def single_ns(self, batch: int) -> int:
        """Return t_0: the time of a batch through the whole network without early exits."""
        return int(self._segment_sums[-1][batch])

    def time_matrix(self, batch: int, interval: int = 1) -> NDArray[np.int64]:
        """Return t_ij (exits, counts): the whole batch to exit i, then j * interval of it to the end."""
        second = range(0, batch + 1, interval)
        return np.array(
            [
                [int(self.step(0, exit)[batch] + self.step(exit + 1, self.exits)[count]) for count in second]
                for exit in range(self.exits)
            ]
        )

    def allowed_movers(self, batch: int) -> tuple[int, ...]:
        """Return for each exit alone the most samples that may move on without a tail above t_0."""
        times = self.time_matrix(batch)
        return tuple(int(np.searchsorted(row, self.single_ns(batch), side="right")) - 1 for row in times)

    @staticmethod
    def allowed_by_work(batch: int, head: int, rest: int) -> int:
        """Return the closed form of `allowed_movers`, from the MACs of an exit's bridge and head and of the
        rest.

        It holds where time is proportional to MACs at every batch: floor(n * (1 - h / r)), and 0 where the
        head costs more than the rest.

        >>> CandidateTable.allowed_by_work(16, 1, 8)
        14
        """
        return max(0, batch * (rest - head) // rest)
