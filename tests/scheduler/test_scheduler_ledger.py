"""The rules of actions: lines stay sorted, slots are counted, and each broken rule has its sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.scheduler import Answer, Ledger, PolicyError, Request, Run, Shed, Wait

R = [Request(i, at, at + 100) for i, at in enumerate((0, 0, 5, 9))]


def ledger(slots: int = 3) -> Ledger:
    """Three stages; requests 0 and 1 wait past the first exit, 2 and 3 in the queue."""
    made = Ledger(stages=3, b_max=2, slots=slots, policy="mine")
    for request in R:
        made.admit(request)
    first = Run(0, (R[0], R[1]))
    made.begin(0, first)
    made.finish(first, [R[0], R[1]])
    return made


def test_lines_and_slots_follow_runs() -> None:
    book = ledger()
    assert (book.waiting, book.held, book.busy) == ([[R[2], R[3]], [R[0], R[1]], []], 2, True)
    run = Run(1, (R[1], R[0]))
    book.begin(10, run)
    assert (book.waiting[1], book.held) == ([], 2)  # a sample in a run keeps its slot
    book.finish(run, [R[0]])
    assert (book.waiting[2], book.held) == ([R[0]], 1)
    assert book.answer(20, Answer((R[0],))) == [(R[0], 1)]
    book.shed(20, Shed((R[2], R[3])))
    assert (book.waiting, book.held, book.busy) == ([[], [], []], 0, False)


@given(st.permutations(R), st.integers(1, 3))
def test_a_line_is_sorted_by_arrival_and_id_in_whatever_order_samples_join_it(order: list[Request], first: int) -> None:
    book = Ledger(stages=2, b_max=3, slots=4, policy="mine")
    for request in R:
        book.admit(request)
    for batch in (order[:first], order[first:]):
        run = Run(0, tuple(batch))
        book.begin(0, run)
        book.finish(run, batch)
    assert book.waiting[1] == R


BROKEN: dict[str, tuple[Callable[[Ledger], object], str]] = {
    "unknown stage": (lambda b: b.begin(7, Run(3, (R[0],))), "runs stage 3 with a batch of 1; it must be in 0..2"),
    "negative stage": (lambda b: b.begin(7, Run(-1, (R[0],))), "runs stage -1"),
    "empty batch": (lambda b: b.begin(7, Run(1, ())), "batch of 0"),
    "large batch": (lambda b: b.begin(7, Run(0, tuple(R[:3]))), "batch of 3; it must be in 0..2 with 1..2"),
    "twice": (lambda b: b.begin(7, Run(1, (R[0], R[0]))), "names a request twice"),
    "elsewhere": (
        lambda b: b.begin(7, Run(2, (R[0],))),
        "takes request 0, which does not wait at the entry of stage 2",
    ),
    "slots": (lambda b: b.begin(7, Run(0, (R[2], R[3]))), "holds 4 samples in 3 slots"),
    "answer nobody": (lambda b: b.answer(7, Answer(())), "answers nobody"),
    "answer from the queue": (lambda b: b.answer(7, Answer((R[2],))), "answers request 2, which waits past no exit"),
    "shed nobody": (lambda b: b.shed(7, Shed(())), "sheds nobody"),
    "shed past the queue": (lambda b: b.shed(7, Shed((R[1],))), "takes request 1, which does not wait at the queue"),
    "endless wait": (lambda b: b.check_wait(7, Wait(), True), "no further arrival can come"),
    "past wait": (lambda b: b.check_wait(7, Wait(7), False), "waits until 7 ns, which is not later than now"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_one_sentence_with_policy_and_time(case: str) -> None:
    act, violation = BROKEN[case]
    with pytest.raises(PolicyError) as caught:
        act(ledger())
    assert str(caught.value).startswith("policy 'mine' at 7 ns ")
    assert violation in str(caught.value)


def test_a_wait_that_can_end_is_allowed() -> None:
    ledger().check_wait(7, Wait(), False)
    ledger().check_wait(7, Wait(8), False)
