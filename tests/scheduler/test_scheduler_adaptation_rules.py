"""PAME's rules on scripted evidence, sample by sample: at the edge, at ties, at the highest threshold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from adaptation_worlds import BATCH, EARLY, NAMES, load, times

from fluidnpu.scheduler import Request, SchedulerError
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet
from fluidnpu.scheduler.tuning import Adaptation, AdaptationEvent, AdaptationPlan, Goal, Watching

RECORDED = load(1500, 0.3, 1)
RIGHT, WRONG = 0, 1
LAST = EARLY


def plan(chain: tuple[tuple[int, float], ...], eta: float) -> AdaptationPlan:
    return AdaptationPlan(
        names=NAMES,
        goal=Goal(eta=eta, batch=BATCH),
        chain=chain,
        confidence=RECORDED.confidence,
        classes=RECORDED.classes,
        truths=np.zeros(len(RECORDED.classes), np.int64),
        reference=RECORDED.classes[:, -1] == RIGHT,
    )


@dataclass
class Script:
    """An adaptation that is told of samples one by one; every leaver runs on once it is alarmed."""

    chain: tuple[tuple[int, float], ...]
    evidence: int
    eta: float = 0.99
    number: int = 0
    watch: Adaptation = field(init=False)
    active: ActiveExits = field(init=False)

    def __post_init__(self) -> None:
        made = plan(self.chain, self.eta)
        self.active = ActiveExits(times(), made.exits, made.rates)
        self.watch = Adaptation(self.active, made, Watching(shadow=1.0, evidence=self.evidence))

    def sample(self, exit: int, said: int) -> tuple[int, bool]:
        """One sample that leaves at an exit with a class; its number, and True if it runs on."""
        request, self.number = Request(self.number, 0, 10**9), self.number + 1
        on: frozenset[int] = frozenset()
        for stage in range(exit + 1):
            leaves = ["sure"] if stage == exit else [""]
            on = self.watch.ran(0, self.active.now, stage, [request], leaves, [said])
        return request.id, request.id in on

    def alarm(self) -> None:
        """Answers that labels call wrong raise the alarm; what was seen before it does not count."""
        while not self.watch.alarmed:
            self.watch.feedback(self.sample(LAST, WRONG)[0], RIGHT)

    def shadows(self, exit: int, agree: int, disagree: int, *, truths: bool = False) -> None:
        """Leavers whose last exit says the same, or another class, which is the right one."""
        for said in [RIGHT] * agree + [WRONG] * disagree:
            id, runs_on = self.sample(exit, said)
            assert runs_on
            if truths:
                self.watch.feedback(id, RIGHT)
            self.watch.shadow_ended(0, id, RIGHT)

    @property
    def judgement(self) -> AdaptationEvent | None:
        """What followed on the first alarm."""
        return next((event for event in self.watch.events if event.kind != "alarm"), None)


def test_the_exit_that_loses_most_rises_by_a_step_and_not_the_one_that_most_leave_at() -> None:
    script = Script(((0, 0.8), (2, 0.85)), evidence=100)
    script.alarm()
    script.shadows(0, 57, 3)
    script.shadows(2, 19, 20)
    assert script.judgement is None  # 99 are no evidence yet
    script.shadows(2, 1, 0)
    assert script.judgement is not None
    assert script.judgement.exits.thresholds == (0.8, None, 0.9)
    assert "the threshold of exit 3 rises from 0.85 to 0.9" in script.judgement.why
    assert script.active.latest.exits == script.judgement.exits


def test_of_exits_that_lose_alike_the_first_rises() -> None:
    script = Script(((0, 0.8), (2, 0.85)), evidence=100)
    script.alarm()
    script.shadows(2, 40, 10)
    script.shadows(0, 40, 10)
    assert script.judgement is not None
    assert script.judgement.exits.thresholds == (0.85, None, 0.85)


def test_a_threshold_that_can_rise_no_further_takes_its_exit_away() -> None:
    script = Script(((0, 0.8), (2, 0.999)), evidence=40)
    script.alarm()
    script.shadows(2, 10, 30)
    assert script.judgement is not None
    assert script.judgement.exits.thresholds == (0.8, None, None)
    assert "can rise no further" in script.judgement.why


def test_eta_itself_is_kept_and_a_hair_above_it_is_not() -> None:
    """With labels the estimate is a quotient of counts, so the edge can be met to the last bit."""

    def told(eta: float) -> Script:
        script = Script(((0, 0.8), (2, 0.85)), evidence=60, eta=eta)
        script.alarm()
        script.shadows(0, 53, 6, truths=True)
        return script

    short = told(0.5)
    short.shadows(2, 1, 0, truths=True)
    judged = short.judgement
    assert judged is not None
    assert judged.kind == "holds"
    leavers = short.number - sum(event.requests for event in short.watch.events if event.kind == "alarm")
    assert leavers == 60
    last, reference = ((RECORDED.classes[:, -1] == RIGHT).mean(),) * 2
    kept = (last - 59 / 60 * 6 / 59) / reference
    assert f"about {100 * kept:.2f} % of the precision is kept" in judged.why
    for eta, kind in ((kept, "holds"), (float(np.nextafter(kept, 2.0)), "change")):
        script = told(eta)
        script.shadows(2, 1, 0, truths=True)
        assert script.judgement is not None
        assert script.judgement.kind == kind


def test_a_shadow_that_left_under_another_set_is_no_evidence_about_this_one() -> None:
    script = Script(((0, 0.8), (2, 0.85)), evidence=40)
    script.alarm()
    straggler, runs_on = script.sample(0, WRONG)
    assert runs_on
    script.shadows(2, 10, 30)
    assert script.judgement is not None
    assert script.judgement.kind == "change"
    assert script.watch.alarmed  # evidence is gathered again
    script.watch.shadow_ended(0, straggler, RIGHT)
    assert script.watch.window.shadows == [0, 0, 0]
    script.shadows(0, 1, 0)
    assert script.watch.window.shadows == [1, 0, 0]


def test_hardly_any_leavers_are_a_judgement_of_their_own() -> None:
    """Where nobody leaves no shadow comes; after twenty times as many requests nothing can be lost."""
    script = Script(((0, 0.8), (2, 0.85)), evidence=5)
    script.alarm()
    for _ in range(20 * 5 - 1):
        script.sample(LAST, RIGHT)
    assert script.judgement is None
    script.sample(LAST, RIGHT)
    assert script.judgement is not None
    assert (script.judgement.kind, "hardly anybody leaves" in script.judgement.why) == ("holds", True)


def test_the_table_adopts_the_latest_change_once() -> None:
    told: list[ExitSet] = []
    active = ActiveExits(times(), ExitSet((0.8, None, 0.85)), (0.4, 0.1, 0.2, 0.3), told.append)
    first = active.change(ExitSet((None, None, 0.85)), "one")
    second = active.change(ExitSet((None, 0.7, None)), "two")
    assert (first.number, second.number, active.now.number) == (1, 2, 0)
    assert active.latest is second
    assert told == [ExitSet((0.8, None, 0.85))]
    assert active.adopt() is second is active.now
    assert active.adopt() is None
    assert told[1:] == [second.exits]
    assert second.rates == pytest.approx((0.0, 0.5, 0.0, 0.5))  # from the rates of the beginning
    assert active.change(ExitSet((0.9, None, None)), "three", (0.7, 0.0, 0.0, 0.3)).rates == (0.7, 0.0, 0.0, 0.3)
    assert first.decided_ns <= second.decided_ns
    parts, bare = times(), times().bare.ns
    assert second.latency.ns == (bare[0], parts.whole.ns[1], bare[2], parts.whole.ns[3])
    with pytest.raises(SchedulerError, match="must name 3 early exits, not 2"):
        active.change(ExitSet((0.9, None)), "short")
    assert active.latest.number == 3  # a refused change is none
    assert ExitSet.of((0.2, 1.0, None)) == ExitSet((0.2, None, None))
    assert [ExitSet((None, 0.5)).runs_head(stage) for stage in range(4)] == [False, True, True, True]
