"""One board as the dispatcher sees it: its state, the work it has been given, and the time that will take.

>>> from fluidnpu.dse import LatencyTable
>>> times = Times.of(LatencyTable(ns=((2_000_000, 3_000_000), (1_000_000, 1_500_000))), (0.5, 0.5))
>>> times.batch_s(2), times.batch_s(5)
(0.0045, 0.0045)
>>> round(1 / times.sample_s)
516
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Serving, placement
from fluidnpu.scheduler.comparison import predicted_capacity
from fluidnpu.scheduler.policies import SERVING_POLICY

from ...oip.wire.calls import ModelAnswer
from ..duties import Duty
from .admin import AdminLink
from .line import BoardQueue
from .link import BoardLink


class BoardState(Enum):
    """The states of a board; only a READY one is given requests."""

    STARTING = "has not answered yet"
    READY = "takes requests"
    HUNG = "has work and is silent"
    LOST = "cannot be reached"
    AWAY = "answers, and takes no requests"
    FOREIGN = "is not the board of its bundle"
    SICK = "gave wrong bits"
    DRAINED = "was taken out"


_WEIGHT = 0.05  # of the latest answer in a board's lag
_LONGEST_LAG_S = 1.0  # an answer that was later says no more than that
RETURNING = (
    BoardState.STARTING,
    BoardState.HUNG,
    BoardState.LOST,
    BoardState.AWAY,
    BoardState.FOREIGN,
)  # those that may be READY again


@dataclass(frozen=True, kw_only=True)
class Times:
    """Predicted times of one model on one board, in seconds; `sample_s` is a sample's share at full load."""

    whole_s: tuple[float, ...]  # the whole network by batch size
    sample_s: float
    expected_s: tuple[float, ...]  # as samples leave at exits, by batch size

    @classmethod
    def of(cls, latency: LatencyTable, exit_rates: Sequence[float]) -> Times:
        """Predict from a latency table and the share of samples that leaves at each exit."""
        serving = Serving(latency=latency, exit_rates=tuple(exit_rates))
        whole = tuple(latency.between(0, latency.stages - 1, b) / 1e9 for b in range(1, len(latency.ns[0]) + 1))
        return cls(
            whole_s=whole,
            sample_s=1 / predicted_capacity(serving, SERVING_POLICY, sum(row[0] for row in latency.ns)),
            expected_s=tuple(ns / 1e9 for ns in placement.expected_ns(latency, exit_rates)),
        )

    @classmethod
    def of_many(cls, boards: Sequence[Times]) -> Times:
        """Predict a shard of boards: samples are spread, the slowest board ends last, and rates add."""
        most = sum(board.b_max for board in boards)

        def spread(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
            share = [-(-count // len(rows)) for count in range(1, most + 1)]
            return tuple(max(row[min(n, len(row)) - 1] for row in rows) for n in share)

        return cls(
            whole_s=spread([board.whole_s for board in boards]),
            sample_s=1 / sum(1 / board.sample_s for board in boards),
            expected_s=spread([board.expected_s for board in boards]),
        )

    @property
    def b_max(self) -> int:
        """The largest batch."""
        return len(self.whole_s)

    def batch_s(self, count: int) -> float:
        """Time of a batch through the whole network; a larger one than fits counts as a full one."""
        return self.whole_s[min(count, self.b_max) - 1]


@dataclass(eq=False)
class Leaf:
    """A board: link, predicted times by model, state and counts. `since` is when it last gave a sign of
    life.

    `duties`: of a plan; where they are of several networks, pieces wait in a `line` for their turns. A
    `shard` has boards of its own, and their turns are taken there. `timed` sees every answer and its
    model. `admin`: its admin surface, where that is known.
    """

    name: str
    address: str
    link: BoardLink
    times: Mapping[str, Times]
    duties: Mapping[str, Duty] = field(default_factory=dict)
    shard: bool = False
    state: BoardState = BoardState.STARTING
    reason: str = ""
    instance: str = ""  # number of the process behind the address
    work_s: float = 0.0  # predicted, of what it has been given and has not answered
    since: float = 0.0
    quiet_until: float = 0.0  # a board that was found hung again and again waits longer and longer
    strikes: int = 0
    attempts: dict[Any, None] = field(default_factory=dict)  # in the order of sending
    counts: Counter[str] = field(default_factory=Counter)
    fell: asyncio.Event = field(default_factory=asyncio.Event)  # set when it stops being READY
    turns: int = 0  # pieces since the last audit
    timed: Callable[[Leaf, str, ModelAnswer], None] | None = None
    admin: AdminLink | None = None
    loaded: str = ""  # which process and which load of it answered last
    left: bool = False  # the fleet
    put_out: bool = False  # it was found sick, and its models are unloaded
    minder: asyncio.Task[None] | None = None
    lag_s: float = 0.0  # measured less predicted time of its answers, smoothed: the host, the link, a slow board

    def __post_init__(self) -> None:
        self.line = BoardQueue(self.duties) if len(self.duties) > 1 and not self.shard else None

    @property
    def ready(self) -> bool:
        """True while it is given requests."""
        return self.state is BoardState.READY

    @property
    def longest_batch_s(self) -> float:
        """The time until the longest batch of any of its models is answered."""
        return self.lag_s + max(times.whole_s[-1] for times in self.times.values())

    def batch(self, model: str) -> int:
        """Samples of a model that one message may hold: the planned batch, or the largest."""
        most = self.times[model].b_max
        return min(most, self.duties[model].batch) if model in self.duties else most

    def cost_s(self, model: str, count: int) -> float:
        """Return the expected time of a batch; one that is larger than the largest goes in several."""
        times = self.times[model].expected_s
        full, rest = divmod(count, len(times))
        return full * times[-1] + (times[rest - 1] if rest else 0.0)

    @property
    def lead_s(self) -> float:
        """The expected time of the longest planned batch: the work that must be there beside the running
        one.
        """
        return max(self.cost_s(model, self.batch(model)) for model in self.times)

    def capacity_per_s(self, model: str) -> float:
        """Return the predicted samples of a model in a second: at its planned share and batch, or alone."""
        if self.line is None:
            return 1 / self.times[model].sample_s
        batch = self.batch(model)
        return self.duties[model].weight * batch / self.cost_s(model, batch)

    def finish_s(self, model: str, count: int) -> float:
        """Return the predicted time until a new request would be answered: the work before it and its own."""
        if self.line is None:
            return self.sent_finish_s(model, count)
        return self.lag_s + self.line.wait_s(model, self.work_s, self.cost_s) + self.times[model].batch_s(count)

    def sent_finish_s(self, model: str, count: int) -> float:
        """Return the predicted time until a message that is sent now would be answered."""
        return self.lag_s + self.work_s + self.times[model].batch_s(count)

    def learn(self, took_s: float, predicted_s: float) -> None:
        """Take note of the time that an answer took, beside the predicted one."""
        late_s = min(max(0.0, took_s - predicted_s), _LONGEST_LAG_S)
        self.lag_s += _WEIGHT * (late_s - self.lag_s)
