"""The rules of actions: lines stay sorted, slots are counted, and each broken rule has its sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Action, Answer, Ledger, PolicyError, Request, Run, Shed, View, Wait
from fluidnpu.scheduler.simulation import ExitSet, Flight, Terms

R = [Request(i, at, at + 100) for i, at in enumerate((0, 0, 5, 9))]


Book = Ledger[Flight]


def book_of(stages: int, b_max: int, slots: int, patience: int = 0) -> Book:
    table = LatencyTable(ns=((10,) * b_max,) * stages)
    rates = (1 / stages,) * stages
    return Book(policy="mine", latency=table, exit_rates=rates, b_max=b_max, slots=slots, patience=patience)


def ledger(slots: int = 3, patience: int = 0) -> Book:
    """Three stages; requests 0 and 1 wait past the first exit, 2 and 3 in the queue."""
    made = book_of(3, 2, slots, patience)
    for request in R:
        made.admit(Flight(request))
    first = Run(0, (R[0], R[1]))
    made.begin(0, first)
    made.finish(first, 0, ["", ""])
    return made


def ids(flights: list[Flight]) -> list[int]:
    return [flight.request.id for flight in flights]


def test_lines_and_slots_follow_runs() -> None:
    book = ledger()
    assert (book.waiting, book.held, book.busy) == ([[R[2], R[3]], [R[0], R[1]], []], 2, True)
    run = Run(1, (R[1], R[0]))
    book.begin(10, run)
    assert (book.waiting[1], book.held) == ([], 2)  # a sample in a run keeps its slot
    assert ids(book.finish(run, 20, ["sure", ""])) == [1]
    assert (book.waiting[2], book.held) == ([R[0]], 1)
    (answered,) = book.answer(20, Answer((R[0],), "late"))
    assert (answered.request, answered.exit, answered.end_ns, answered.because) == (R[0], 1, 20, "late")
    assert ids(book.shed(20, Shed((R[2], R[3])))) == [2, 3]
    assert (book.waiting, book.held, book.busy, book.flights) == ([[], [], []], 0, False, {})


@given(st.permutations(R), st.integers(1, 3))
def test_a_line_is_sorted_by_arrival_and_id_in_whatever_order_samples_join_it(order: list[Request], first: int) -> None:
    book = book_of(2, 3, 4)
    for request in R:
        book.admit(Flight(request))
    for batch in (order[:first], order[first:]):
        run = Run(0, tuple(batch))
        book.begin(0, run)
        book.finish(run, 0, [""] * len(batch))
    assert book.waiting[1] == R


BROKEN: dict[str, tuple[Action, str]] = {
    "unknown stage": (Run(3, (R[0],)), "runs stage 3 with a batch of 1; it must be in 0..2"),
    "negative stage": (Run(-1, (R[0],)), "runs stage -1"),
    "empty batch": (Run(1, ()), "batch of 0"),
    "large batch": (Run(0, tuple(R[:3])), "batch of 3; it must be in 0..2 with 1..2"),
    "twice": (Run(1, (R[0], R[0])), "names a request twice"),
    "elsewhere": (
        Run(2, (R[0],)),
        "takes request 0, which does not wait at the entry of stage 2",
    ),
    "slots": (Run(0, (R[2], R[3])), "holds 4 samples in 3 slots"),
    "answer nobody": (Answer(()), "answers nobody"),
    "answer from the queue": (Answer((R[2],)), "answers request 2, which waits past no exit"),
    "shed nobody": (Shed(()), "sheds nobody"),
    "shed past the queue": (Shed((R[1],)), "takes request 1, which does not wait at the queue"),
    "endless wait": (Wait(), "no further arrival can come"),
    "past wait": (Wait(7), "waits until 7 ns, which is not later than now"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_one_sentence_with_policy_and_time(case: str) -> None:
    action, violation = BROKEN[case]
    book = ledger()
    before = [list(line) for line in book.waiting]
    with pytest.raises(PolicyError) as caught:
        book.check(7, action, closed=case == "endless wait")
    assert str(caught.value).startswith("policy 'mine' at 7 ns ")
    assert violation in str(caught.value)
    assert (book.waiting, book.held) == (before, 2)


def test_a_wait_that_can_end_is_allowed() -> None:
    ledger().check(7, Wait(), False)
    ledger().check(7, Wait(8), False)


class Stubborn:
    """Always says the same, and wraps a policy."""

    name = "stubborn"

    def __init__(self, action: Action, inner: Stubborn | None = None) -> None:
        self.action, self.inner = action, inner

    def reset(self) -> None:
        pass

    def decide(self, view: View) -> Action:
        if isinstance(self.action, Wait):
            raise ZeroDivisionError("a bug of the policy")
        return self.action


def test_a_refused_decision_costs_that_decision_and_many_in_a_row_are_an_error() -> None:
    good, bad = Run(1, (R[0],), "good"), Run(2, (R[0],))
    book = ledger(patience=3)
    assert book.decide(Stubborn(bad, Stubborn(good)), 7, False) == good
    assert book.decide(Stubborn(Wait(), Stubborn(bad)), 7, False) == Run(
        1, (R[0], R[1]), "in place of a decision that broke the rules"
    )
    assert book.decide(Stubborn(good), 7, False) == good  # the row ends
    for _ in range(3):
        assert book.decide(Stubborn(bad), 7, False) != bad
    with pytest.raises(PolicyError, match="takes request 0, which does not wait at the entry of stage 2"):
        book.decide(Stubborn(bad), 7, False)
    with pytest.raises(PolicyError, match="which does not wait"):
        ledger().decide(Stubborn(bad), 7, False)  # a simulation has no patience


def test_terms_end_a_request_where_it_is() -> None:
    book = book_of(3, 2, 3)
    for request, terms in zip(
        R, [Terms(anytime=True), Terms(timeout_ns=50), Terms(timeout_ns=70), Terms()], strict=True
    ):
        book.admit(Flight(request, terms))
    assert book.next_end_ns() == 50
    run = Run(0, (R[0], R[1]))
    book.begin(1, run)
    book.finish(run, 11, ["", ""])
    assert book.next_end_ns() == 75  # the first has begun, and the other arrived at 5
    policy = Stubborn(Run(1, (R[1],)))
    assert book.decide(policy, 74, False) == policy.action
    assert book.decide(policy, 75, False) == Shed((R[2],), "the time that the request allowed passed in the queue")
    book.shed(75, Shed((R[2],)))
    assert book.next_end_ns() == 100
    assert book.decide(policy, 100, False) == Answer((R[0],), "deadline passed")
    book.answer(100, Answer((R[0],)))
    assert book.next_end_ns() is None
    assert ids(book.withdraw([1, 3, 7])) == [3]  # 1 has begun, and 7 never came
    assert book.busy
    assert not book.waiting[0]


def test_a_timeout_that_is_the_objective_ends_a_request_once() -> None:
    book = book_of(2, 1, 1)
    book.admit(Flight(R[0], Terms(timeout_ns=R[0].deadline_ns - R[0].arrival_ns, anytime=True)))
    run = Run(0, (R[0],))
    book.begin(0, run)
    book.finish(run, 10, [""])
    action = book.decide(Stubborn(Wait()), R[0].deadline_ns, False)
    assert action == Answer((R[0],), "deadline passed")
    assert ids(book.answer(R[0].deadline_ns, Answer((R[0],)))) == [0]
    assert not book.busy


def test_who_has_passed_inactive_exits_only_has_no_answer() -> None:
    book = ledger()
    book.take(ExitSet((None, 0.5)), book.view.latency, book.view.exit_rates)
    run = Run(0, (R[2],))
    book.begin(20, run)
    assert book.finish(run, 30, [""]) == []
    assert set(book.view.unanswerable) == {2}
    with pytest.raises(PolicyError, match="answers request 2, which has passed no active exit"):
        book.check(30, Answer((R[2],)), closed=False)
    book.check(30, Answer((R[0],)), closed=False)
    run = Run(1, (R[0], R[2]))
    book.begin(30, run)
    assert ids(book.finish(run, 40, ["", ""], shadows=frozenset())) == []
    assert not book.view.unanswerable
    assert [flight.exit for flight in book.answer(40, Answer((R[0], R[2])))] == [1, 1]


def test_an_answer_that_another_thread_took_is_given_once() -> None:
    book = book_of(2, 1, 2)
    flight = Flight(R[0], Terms(anytime=True))
    book.admit(flight)
    run = Run(0, (R[0],))
    book.begin(0, run)
    book.finish(run, 10, [""])
    assert book.take_passed(0) is None
    book.pass_exit(flight, "an answer")
    assert (book.take_passed(0), book.take_passed(0)) == ("an answer", None)
    run = Run(1, (R[0],))
    book.begin(10, run)
    assert book.finish(run, 20, ["last exit"]) == []
    assert not book.flights
    assert book.held == 0


def test_times_of_requests_that_ended_are_not_kept() -> None:
    book = book_of(1, 1, 1)
    for id in range(1000):
        request = Request(id, id, id + 9)
        book.admit(Flight(request, Terms(timeout_ns=10**9)))
        run = Run(0, (request,))
        book.begin(id, run)
        book.finish(run, id, ["done"])
    assert len(book._ends) < 100
