"""The running certificate: its risk computed exactly, adverse orders, and fleets whose counts add up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.exits import Promise, joined
from fluidnpu.scheduler.exits.certificate import DISTANCE, Certificate, CertificateTally, Outbreak, most_lost


@pytest.mark.parametrize(("share", "risk"), [(0.01, 0.05), (0.2, 0.05), (0.2, 0.3), (0.9, 0.1), (0.5, 0.01)])
def test_the_bound_is_ever_broken_with_a_probability_below_the_risk(share: float, risk: float) -> None:
    """Computed exactly: only answers that differ matter, so D after T differences is all there is to know."""
    promise, most = Promise(eta=0.9, risk=risk, share=share), 3000 if share > 0.05 else 12_000
    bounds = np.array([most_lost(seen, promise) for seen in range(int(share * most + 8 * (share * most) ** 0.5) + 10)])
    alive, broken = np.zeros(len(bounds)), 0.0  # the chance of D seen, among those never broken
    alive[0] = 1.0
    for lost in range(1, most + 1):
        alive[1:] = alive[1:] * (1 - share) + alive[:-1] * share
        alive[0] *= 1 - share
        over = bounds < lost
        broken += float(alive[over].sum())
        alive[over] = 0.0
    assert risk / 20 < broken <= risk


def test_a_share_of_all_knows_everything() -> None:
    tally = CertificateTally(Promise(eta=0.9, share=1.0))
    for id in range(10):
        tally.draw(id)
        tally.answer(1, 1)
    assert tally.lost == 10  # none has arrived
    for id in range(10):
        tally.settle(id, id == 3)
    assert (tally.lost, tally.kept, tally.estimate) == (1, 0.9, 0.9)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["early", "last", "arrive", "fail"]), st.integers(0, 5)), max_size=120),
    share=st.sampled_from([0.1, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_a_bound_never_forgets_what_is_under_way(steps: list[tuple[str, int]], share: float, seed: int) -> None:
    """Whatever arrives in whatever order, late or never: an unbroken bound of the settled prefix is kept."""
    promise, rng = Promise(eta=0.9, share=share), np.random.default_rng(seed)
    tally, open_ids, drawn = CertificateTally(promise), list[int](), list[tuple[int, int]]()
    known: dict[int, bool] = {}
    for number, (what, which) in enumerate(steps):
        before = tally.lost
        if what == "early":
            if rng.random() < share:
                tally.draw(number)
                open_ids.append(number)
                drawn.append((number, tally.early))
            tally.answer(1, 1)
            assert tally.lost <= before + 1
        elif what == "last":
            tally.answer(1, 0)
            assert tally.lost == before
        elif open_ids:
            id = open_ids.pop(which % len(open_ids))
            known[id] = what == "fail"
            tally.settle(id, known[id])
            assert tally.lost <= before
        settled = list(itertools.takewhile(lambda row: row[0] in known, drawn))
        since = tally.early - drawn[len(settled)][1] if len(settled) < len(drawn) else 0
        assert tally.unsettled == since
        assert tally.differing == sum(known[id] for id, _ in settled)
        assert tally.lost <= min(tally.early, most_lost(tally.differing, promise) + since)
    tally.give_up()
    assert tally.unsettled == 0


def test_counts_of_boards_add_up() -> None:
    promise = Promise(eta=0.95, share=0.2)
    one, two, both = CertificateTally(promise), CertificateTally(promise), CertificateTally(promise)
    rng = np.random.default_rng(3)
    for id in range(2000):
        mine = one if id % 3 else two
        differs, on = bool(rng.random() < 0.02), bool(rng.random() < promise.share)
        for tally in (mine, both):
            if on:
                tally.draw(id)
            tally.answer(1, 1)
            if on:
                tally.settle(id, differs)
    whole = joined([one.counts(), two.counts()], promise)
    assert (whole["answers"], whole["differing"]) == (both.answers, both.differing)
    assert whole["lost_at_most"] == most_lost(both.differing, promise)
    assert whole["kept_at_least"] > max(one.kept, two.kept)  # together they know more
    assert joined([], promise)["kept_at_least"] == 1.0


def test_tenants_come_and_go_and_those_with_a_criterion_of_their_own_count_apart() -> None:
    certificate = Certificate(Promise(eta=0.9, share=1.0), exits=2, seed=0)
    for id, tenant in enumerate(["doors", "gates", "doors", "", "gone"]):
        assert certificate.answered(id, 0, tenant, governed=tenant != "gates")
        certificate.settle(id, 0, tenant, tenant == "gates")
    certificate.answered(9, None, "doors")
    assert certificate.whole.answers == 5
    assert certificate.whole.lost == 0
    assert certificate.exits[0].counts()["differing"] == 1
    assert {name: (tally.answers, tally.lost) for name, tally in certificate.tenants.items()} == {
        "doors": (3, 0),
        "gates": (1, 1),
        "": (1, 0),
        "gone": (1, 0),
    }
    assert certificate.report()["exits"][1]["kept_at_least"] == 1.0  # nobody left there


def test_an_outbreak_is_noticed_and_quiet_is_not() -> None:
    promise, rng = Promise(eta=0.95, share=0.2), np.random.default_rng(5)
    null = promise.share * promise.may_lose
    quiet = Outbreak(promise)
    assert not any(quiet.takes(answers, False) for answers in range(20_000))
    alarms = 0
    for _ in range(40):  # at the edge, for a hundredth of the distance each: 0.4 alarms are allowed on average
        edge = Outbreak(promise)
        alarms += any(edge.takes(answer, bool(hit)) for answer, hit in enumerate(rng.random(DISTANCE // 100) < null))
    assert alarms <= 3
    took = []
    for _ in range(20):
        bad = Outbreak(promise)
        took.append(next(n for n in range(10**6) if bad.takes(n, bool(rng.random() < 6 * null))))
    assert np.mean(took) < 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("risk=0.05", "must name eta"),
        ("eta=1.5", "eta must lie above 0 and below 1, not 1.5"),
        ("eta=0.9,risk=2", "a risk must lie above 0 and below 100 %"),
        ("eta=0.9,share=0%", "the share must lie above 0 and up to 100 %, not 0 %"),
        ("eta=0.9,share=101%", "the share must lie above 0"),
        ("eta=nan", "eta must lie above 0"),
        ("eta=0.9,eta=0.8", "must be asked for as eta=0.99"),
        ("eta=much", "must be asked for as eta=0.99"),
        ("0.9", "must be asked for as eta=0.99"),
        ("eta=0.9,shadow=1%", "not 'shadow=1%'"),
    ],
)
def test_a_wrong_promise_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(SchedulerError, match=said):
        Promise.of(text)


def test_a_promise_reads() -> None:
    assert Promise.of("eta=99%, risk=0.1, share=2%") == Promise(eta=0.99, risk=0.1, share=0.02)
    assert Promise.of("eta=0.99") == Promise(eta=0.99, risk=0.05, share=0.01)
