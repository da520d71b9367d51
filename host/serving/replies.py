"""The fates of requests, and the protocol of an observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fluidnpu.hls import Program
from fluidnpu.models.graph import Check, MapCheck, MapTask, keypoints, label_map
from fluidnpu.scheduler import Action, Outcome, Request, Run, View
from fluidnpu.scheduler.simulation import InForce, Terms

from ..driver import JobRecord
from ..errors import DeviceError

Image = npt.NDArray[Any]

GOES_ON = "goes on with the next part"


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """The times of a request that has ended, in nanoseconds on the requests' scale."""

    request_id: int
    arrival_ns: int
    start_ns: int
    end_ns: int
    deadline_ns: int
    tenant: str = ""

    @property
    def latency_ns(self) -> int:
        """The time from arrival to the end."""
        return self.end_ns - self.arrival_ns


@dataclass(frozen=True, kw_only=True)
class Reply(_Ended):
    """The answer to one request, times in nanoseconds on the requests' scale.

    `npu_ns` is the time in runs, `batch` the size of the last of them, `logits` float64 (classes,) of the
    exit that it left at, `outputs` what the network returns beside its exits, by name: in real values, or
    words as stored where the host ends the network, since `tail_outputs` does the rest on another thread. An
    exit that gives maps has them flat in `logits` and names no class (-1); its answer is `keypoints` float32
    (landmarks, 3), row and column as shares of the image and confidence, or `label_map` uint8 (height,
    width). `because`: the clause of the criterion, or the reason of the policy, for which it left where it
    did. `onward`: of a sample that continues from a part of a network, words (height, width, channels) as
    stored; what else is said is then that of the exit at which it did not leave. `program`: that which ran,
    where the host ends its network; another one may have been loaded while the request waited.
    """

    prediction: int
    exit: int
    confidence: float
    npu_ns: int = 0
    batch: int = 0
    logits: npt.NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)
    keypoints: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    label_map: npt.NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    onward: npt.NDArray[Any] | None = field(default=None, compare=False, repr=False)
    program: Program | None = field(default=None, compare=False, repr=False)
    outcome: Outcome = Outcome.EXIT
    because: str = field(default="", compare=False)

    @property
    def met(self) -> bool:
        """True when the answer came in time."""
        return self.end_ns <= self.deadline_ns


def map_answers(
    values: npt.NDArray[Any], check: Check
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.uint8] | None]:
    """Return the keypoints or the label map of one exit's values (n,); None for what its check has not."""
    if not isinstance(check, MapCheck):
        return None, None
    if check.task is MapTask.LANDMARKS:
        return keypoints(values[None], check)[0], None
    return None, label_map(values[None], check)[0]


@dataclass(frozen=True, kw_only=True)
class Refusal(_Ended):
    """The record of a request that was shed: it has no prediction, no exit and no confidence."""

    reason: str = ""

    @property
    def outcome(self) -> Outcome:
        """Always SHED."""
        return Outcome.SHED

    @property
    def met(self) -> bool:
        """Always False."""
        return False


Fate = Reply | Refusal


class Observer(Protocol):
    """Sees all that a runtime does, on the thread that owns the device; it must be quick."""

    def began(self, view: View) -> None:
        """Take note of a schedule's beginning: the policy was reset."""

    def admitted(self, request: Request, terms: Terms) -> None:
        """Take note of a request that entered the queue."""

    def withdrawn(self, request: Request) -> None:
        """Take note of a request that left the queue, since nobody waits for it any more."""

    def decided(self, view: View, action: Action) -> None:
        """Take note of a decision, before it is executed."""

    def ran(self, run: Run, start_ns: int, end_ns: int, job: JobRecord) -> None:
        """Take note of a run that ended well."""

    def failed(self, error: DeviceError) -> None:
        """Take note of a failed attempt at a job."""

    def ended(self, fates: Sequence[Fate]) -> None:
        """Take note of the requests that ended with the last decision, before they are told."""

    def adapted(self, now_ns: int, state: InForce) -> None:
        """Take note of the active exits at the beginning, and of a change before its first decision."""

    def answered_early(self, reply: Reply) -> None:
        """Take note of an answer at a deadline while the NPU works; on another thread."""
