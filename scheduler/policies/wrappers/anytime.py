"""Anytime answers around any policy: a sample that would miss its deadline leaves with its last answer.

The wrapped policy decides first. If its run ends after a deadline (for a sample in the batch), or would
leave a waiting sample no time to run its next stage alone, that sample is answered now with the last exit
it passed, and the wrapped policy is asked again. At most `share` of the samples started are answered so, in
the long run and, but for what a window of them has saved up, in any stretch of it: the accuracy given up is
bounded also in a peak after a calm day.
"""

from __future__ import annotations

from ...compiled.twin import Compiled, Npu, Stream, Wrappers, twin_of
from ...errors import SchedulerError
from ...policy import Action, Answer, Policy, Request, Run, View
from ..bucket import WINDOW, Bucket


class Anytime:
    """`inner`, with anytime answers for at most `share` of the samples, saved up over `window` of them.

    `rescue_only`: none for samples whose deadline has passed already. Raises SchedulerError.
    """

    def __init__(
        self,
        inner: Policy,
        share: float = 0.03,
        rescue_only: bool = False,
        name: str | None = None,
        window: int = WINDOW,
    ) -> None:
        if not 0 < share <= 1:
            raise SchedulerError(
                f"the share of anytime answers must lie above 0 and up to 100 %, not {100 * share:g} %"
            )
        self.inner, self.share, self.rescue_only = inner, share, rescue_only
        self.name = name or f"{inner.name}+anytime"
        self._bucket = Bucket(share, window)

    def reset(self) -> None:
        """Empty the bucket; reset the wrapped policy."""
        self._bucket.reset()
        self.inner.reset()

    def decide(self, view: View) -> Action:
        """Answer the samples that cannot be in time, else decide as the wrapped policy."""
        action = self.inner.decide(view)
        stage, end = -1, view.now_ns
        if isinstance(action, Run):
            stage = action.stage
            end += view.latency.ns[stage][len(action.requests) - 1]
        late = self._cannot_wait(view, action, stage, end)
        if late:
            self._bucket.level -= len(late)
            return Answer(tuple(late), "the next exit cannot be reached in time")
        if stage == 0 and isinstance(action, Run):
            self._bucket.fill(len(action.requests))
        return action

    def compiled(self, stream: Stream, npu: Npu) -> Compiled | None:
        """Return the twin of the wrapped policy, wrapped; None when it has none or is wrapped already."""
        inner = twin_of(self.inner, stream, npu)
        if inner is None or inner.wrappers != Wrappers():
            return None
        most = self._bucket.most
        wrappers = Wrappers(anytime=float(self.share), most=most, rescue_only=int(self.rescue_only))
        return inner._replace(wrappers=wrappers)

    def _cannot_wait(self, view: View, action: Action, stage: int, end: int) -> list[Request]:
        allowed = self._bucket.level
        late: list[Request] = []
        if allowed < 1:
            return late
        for s in range(1, len(view.waiting)):
            alone = view.latency.ns[s][0]
            for r in view.waiting[s]:
                if end + alone <= r.deadline_ns or r.id in view.unanswerable:
                    continue
                if s == stage and isinstance(action, Run) and end <= r.deadline_ns and r in action.requests:
                    continue
                if self.rescue_only and view.now_ns > r.deadline_ns:
                    continue
                if len(late) + 1 <= allowed:
                    late.append(r)
        return late
