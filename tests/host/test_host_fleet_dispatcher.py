"""The dispatcher alone, between scripted boards: routing, asking again, refusals, hangs, audits, ends."""

import asyncio
import random
from typing import Any

import pytest
from fleet_scripts import MODEL, Act, Scripted, after, answers, ask, call, fails, gated, logits, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.host import DriverUsageError, GaveUpError, QueueFullError, ServerClosedError
from fluidnpu.host.errors import (
    BoardError,
    ExpiredError,
    ModelUnavailableError,
    ProtocolError,
    UnknownModelError,
)
from fluidnpu.host.fleet import DispatchOptions
from fluidnpu.host.fleet.boards.leaf import BoardState, Times
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.oip.wire.calls import Call, ModelAnswer


def test_samples_are_cut_into_batches_and_come_back_in_order() -> None:
    links = [Scripted("a", after(0.004)), Scripted("b")]

    async def work(dispatcher: Dispatcher) -> None:
        answer = await ask(dispatcher, call(*range(9)))
        assert logits(answer) == [[2.0 * i, 2.0 * i + 2] for i in range(9)]
        assert set(str(answer.parameters["board"]).split(", ")) <= {"a", "b"}
        sizes = sorted(request.inputs[0].shape[0] for link in links for request in link.asked)
        assert sizes == [1, 4, 4]

    run(links, work, allowance_s=10.0)


def test_a_message_says_key_objective_and_deadline() -> None:
    links = [Scripted("a")]

    async def work(dispatcher: Dispatcher) -> None:
        await ask(dispatcher, call(1, slo_ms=50, priority=2))
        await ask(dispatcher, call(1))
        first, second = (request.parameters for request in links[0].asked)
        assert first["idempotency_key"].string_param != second["idempotency_key"].string_param
        assert first["slo_ms"].double_param == 50, "what is left of it when it is sent"
        assert first["priority"].int64_param == 2
        assert dispatcher.default_slo_ns(MODEL) == 5_000_000, "five lone latencies where nothing is said"
        assert second["slo_ms"].double_param == 5
        assert first["timeout"].int64_param == 24_000, "four times 1 ms, and the allowance of 20 ms"

    run(links, work)


def test_a_lost_board_costs_nothing_but_time() -> None:
    links = [Scripted("a", fails(BoardError("reset"))), Scripted("b", fails(BoardError("reset")))]
    links[0].reachable = False

    async def work(dispatcher: Dispatcher) -> None:
        links[0].reachable = False
        answer = await ask(dispatcher, call(3))
        assert logits(answer) == [[6.0, 8.0]]
        assert dispatcher.counts["resent"] >= 1

    for link in links:
        link.reachable = True
    run(links, work)


def test_a_hung_board_is_noticed_and_its_late_answer_dropped() -> None:
    """Another board is asked; what the first one says later leaves nobody's door."""
    links = [Scripted("a", gated), Scripted("b")]

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.drain("b")
        asked = asyncio.ensure_future(ask(dispatcher, call(5)))
        await asyncio.sleep(0.002)
        dispatcher.restore("b")
        answer = await asked
        assert answer.parameters["board"] == "b", "it is silent until the gate is open"
        a = dispatcher.leaves[0]
        links[0].gate.release()
        while not a.counts["answers"]:
            await asyncio.sleep(0.002)
        assert a.counts["late"] == 1
        assert a.counts["overdue"] == 1

    run(links, work)


def test_refusals_are_passed_on_or_asked_elsewhere() -> None:
    async def told(dispatcher: Dispatcher) -> None:
        with pytest.raises(ProtocolError, match="shape"):
            await ask(dispatcher, call(1))

    async def elsewhere(dispatcher: Dispatcher) -> None:
        for _ in range(4):
            assert logits(await ask(dispatcher, call(1))) == [[2.0, 4.0]]

    async def given_up(dispatcher: Dispatcher) -> None:
        with pytest.raises(QueueFullError):
            await ask(dispatcher, call(1))

    run([Scripted("a", fails(ProtocolError("a shape")))], told)
    for error in (QueueFullError("full"), GaveUpError("device"), ServerClosedError("closed"), ExpiredError("late")):
        run([Scripted("a", fails(error)), Scripted("b", fails(error))], elsewhere)
    run([Scripted("a", *[fails(QueueFullError("full"))] * 9)], given_up, tries=3)


def test_requests_are_held_until_a_board_returns_or_their_time_is_up() -> None:
    links = [Scripted("a")]

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.drain("a")
        waits = asyncio.ensure_future(ask(dispatcher, call(7)))
        with pytest.raises(ExpiredError):
            await ask(dispatcher, call(8, timeout=20_000))
        with pytest.raises(ModelUnavailableError, match="'a' was taken out"):
            await asyncio.gather(ask(dispatcher, call(8)), waits)
        waits = asyncio.ensure_future(ask(dispatcher, call(7)))
        await asyncio.sleep(0.01)
        dispatcher.restore("a")
        assert logits(await waits) == [[14.0, 16.0]]

    run(links, work, hold_s=0.2)


@pytest.mark.parametrize(("asked", "options"), [({"slo_ms": 80}, {}), ({}, {"slo_ns": 80_000_000})])
def test_without_a_board_a_request_waits_until_its_objective(asked: dict[str, Any], options: dict[str, Any]) -> None:
    """The last board may go before the request comes, or while it waits for it: at work, then held."""
    links = [Scripted("a", gated)]

    async def work(dispatcher: Dispatcher) -> float:
        loop = asyncio.get_running_loop()
        began, waits = loop.time(), asyncio.ensure_future(ask(dispatcher, call(7, **asked)))
        await asyncio.sleep(0.03)
        links[0].reachable = False
        dispatcher.drain("a")
        late = asyncio.ensure_future(ask(dispatcher, call(8, **asked)))
        with pytest.raises(ModelUnavailableError, match=r"in 0.1 s: 'a' was taken out"):
            await waits
        first_s = loop.time() - began
        with pytest.raises(ModelUnavailableError):
            await late
        assert loop.time() - began == pytest.approx(0.11)
        return first_s

    assert run(links, work, allowance_s=0.01, **options) == pytest.approx(0.08)


def test_a_full_fleet_and_a_closed_one_say_so() -> None:
    async def full(dispatcher: Dispatcher) -> None:
        with pytest.raises(QueueFullError, match="4 may"):
            await ask(dispatcher, call(*range(5)))
        open_ = asyncio.ensure_future(ask(dispatcher, call(1)))
        await asyncio.sleep(0.001)
        await dispatcher.close()
        with pytest.raises(ServerClosedError):
            await open_

    run([Scripted("a", after(5.0))], full, queue=4)


def test_a_client_that_goes_takes_its_requests_along() -> None:
    links = [Scripted("a", after(5.0))]

    async def work(dispatcher: Dispatcher) -> None:
        asked = asyncio.ensure_future(ask(dispatcher, call(1)))
        await asyncio.sleep(0.002)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await asyncio.sleep(0.002)
        assert not dispatcher.leaves[0].attempts
        assert dispatcher.leaves[0].work_s == 0

    run(links, work)


@pytest.mark.parametrize("sick", [0, 1])
def test_an_audit_finds_the_board_that_is_wrong(sick: int) -> None:
    links = [Scripted("a"), Scripted("b")]
    links[sick].wrong = 0.25

    async def work(dispatcher: Dispatcher) -> None:
        for _ in range(40):
            await ask(dispatcher, call(1))
        await asyncio.sleep(0.05)
        states = [leaf.state for leaf in dispatcher.leaves]
        assert states[sick] is BoardState.SICK
        assert states[1 - sick] is BoardState.READY
        before = len(links[sick].asked)
        for _ in range(10):
            assert logits(await ask(dispatcher, call(2))) == [[4.0, 6.0]]
        assert len(links[sick].asked) == before, "it is asked no more"
        dispatcher.restore(links[sick].name)
        await asyncio.sleep(0.2)
        assert dispatcher.leaves[sick].state is BoardState.READY, "a repaired board comes back by order"

    run(links, work, audit_every=5)


def test_an_audit_that_comes_to_nothing_is_made_good_by_the_next_answer() -> None:
    refused: list[str] = []

    async def busy(link: Scripted, request: Any) -> ModelAnswer:
        if request.id.endswith(".audit") and (link.name == "a" or len(refused) < 3):
            refused.append(link.name)
            raise QueueFullError("no room")
        return await answers(link, request)

    links = [Scripted("a", *[busy] * 100), Scripted("b", *[busy] * 100)]
    links[0].wrong = 0.25

    async def work(dispatcher: Dispatcher) -> None:
        while dispatcher.leaves[0].state is BoardState.READY:
            await ask(dispatcher, call(1))
            await asyncio.sleep(0.1)  # the audit of this answer is judged in a thread
            asked = [one for one in links[0].asked if not one.id.endswith(".audit")]
            assert len(asked) <= 5 + 3, "the fifth, and the three behind audits that were refused"
        assert dispatcher.leaves[0].state is BoardState.SICK
        assert len(refused) >= 3

    run(links, work, audit_every=5)


def test_two_names_of_one_board_are_refused() -> None:
    links = [Scripted("a"), Scripted("b")]
    links[1].instance = "a"

    async def nothing(dispatcher: Dispatcher) -> None:
        raise AssertionError("it must not start")

    with pytest.raises(BoardError, match="are one"):
        run(links, nothing)


def test_a_board_that_returns_as_another_build_is_given_nothing(caplog: pytest.LogCaptureFixture) -> None:
    links = [Scripted("a", fails(BoardError("reset"))), Scripted("b")]

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.expected = {"a": {MODEL: {"design": "built"}}}
        links[0].design = "another"
        for _ in range(20):
            await ask(dispatcher, call(1))
        await asyncio.sleep(0.2)
        a = dispatcher.leaves[0]
        assert a.state is BoardState.FOREIGN
        assert "must serve the design built that its bundle of 'm' holds, not another" in a.reason
        asked = len(links[0].asked)
        for _ in range(20):
            await ask(dispatcher, call(1))
        assert len(links[0].asked) == asked
        links[0].design = "built"
        await asyncio.sleep(0.4)
        assert a.ready

    with caplog.at_level("INFO", "fluidnpu.fleet"):
        run(links, work)
    facts = [(record.board, record.state, record.before) for record in caplog.records if record.board == "a"]  # type: ignore[attr-defined]
    assert facts == [
        ("a", "READY", "STARTING"),
        ("a", "LOST", "READY"),
        ("a", "FOREIGN", "LOST"),
        ("a", "READY", "FOREIGN"),
    ]


def test_a_fleet_without_time_says_that_it_was_the_fleet(caplog: pytest.LogCaptureFixture) -> None:
    """Boards drop what has waited beyond the dispatcher's own limit; a client that set none must not hear
    of it.
    """
    late = [fails(ExpiredError("in the queue"))] * 9

    async def work(dispatcher: Dispatcher) -> None:
        with pytest.raises(ModelUnavailableError, match="3 times a board had no time"):
            await ask(dispatcher, call(1))
        with pytest.raises(ExpiredError):
            await ask(dispatcher, call(1, timeout=10**6))

    run([Scripted("a", *late)], work, tries=3)


def test_more_work_goes_to_the_board_that_ends_first() -> None:
    """A board four times as fast gets most requests of a burst."""
    slow, fast = Scripted("slow"), Scripted("fast")

    async def work(dispatcher: Dispatcher) -> None:
        dispatcher.leaves[0].times = {MODEL: Times.of(LatencyTable(ns=((4_000_000, 6_400_000),)), (1.0,))}
        await asyncio.gather(*(ask(dispatcher, call(1)) for _ in range(60)))
        assert len(fast.asked) > 2.5 * len(slow.asked)

    run([slow, fast], work)


@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_request_is_answered_once_and_rightly_whatever_boards_do(seed: int) -> None:
    rng = random.Random(seed)

    def script() -> list[Act]:
        kinds = (
            answers,
            after(0.001),
            after(0.06),
            fails(BoardError("reset")),
            fails(BoardError("nothing", silent=True)),
            fails(QueueFullError("full")),
            fails(GaveUpError("device")),
            fails(ModelUnavailableError("loading")),
        )
        return rng.choices(kinds, (6, 6, 1, 1, 1, 1, 1, 1), k=30)

    links = [Scripted(name, *script()) for name in "abc"]

    async def work(dispatcher: Dispatcher) -> None:
        values = [rng.randrange(200) for _ in range(40)]
        found = await asyncio.gather(*(ask(dispatcher, call(one)) for one in values))
        assert [logits(one) for one in found] == [[[2.0 * one, 2.0 * one + 2]] for one in values]
        for leaf in dispatcher.leaves:
            assert leaf.counts["sent"] >= leaf.counts["answers"] + leaf.counts["refused"]

    run(links, work, tries=50)


def test_options_and_names_are_checked() -> None:
    with pytest.raises(DriverUsageError, match="patience must be at least 1, not 0"):
        DispatchOptions(patience=0)

    async def work(dispatcher: Dispatcher) -> None:
        with pytest.raises(UnknownModelError, match="a board must be one of a, not 'z'"):
            dispatcher.drain("z")
        with pytest.raises(ProtocolError, match="must have inputs"):
            await ask(dispatcher, Call(MODEL))

    run([Scripted("a")], work)
