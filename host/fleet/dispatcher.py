"""The dispatcher: holds every unanswered request, gives it to a board, and asks another when that one is
late.

A request is cut into pieces of at most a batch; a piece is one message, with a deadline and an idempotency
key. Boards are compared by predicted finish, two drawn at random; a request with a key of its client's goes
to that key's home. A board with work that is silent for `patience` batch times is hung: its pieces are asked
elsewhere, and whatever answer comes first is the only one that leaves. Every `audit_every`th piece of a board
is asked again of another; where the bits differ, the bundle's own arithmetic says who is sick. Everything
runs on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import (
    BoardError,
    DeviceError,
    DriverUsageError,
    ExpiredError,
    HostError,
    ModelUnavailableError,
    ProtocolError,
    QueueFullError,
    ServerClosedError,
    UnknownModelError,
)
from ..oip.interface import OF_PARTS
from ..oip.wire.calls import Call, ModelAnswer, Parameter, Wishes
from ..oip.wire.grpc_body import write_request
from .boards.leaf import RETURNING, BoardState, Leaf, Times
from .duties import Duty
from .fronts.homes import key_of_piece, rank_homes
from .piece import Piece
from .reference import JUDGED, Reference

_log = logging.getLogger("fluidnpu.fleet")
_BITS = ("exit", "logits", "label", *OF_PARTS)  # which decide all else
FIRST_S = 5.0  # for a board to say at the start who it is
_PAUSE_S = 0.02  # before a board that refused is asked again, times the refusals so far
_PROBE_S = (0.05, 0.1, 0.2, 0.5)  # between looks at a board that is away; the last one repeats
_IDLE_PROBE_S = 1.0  # between looks at a board without work
_LONGEST_QUIET_S = 5.0
Follow = Callable[[Leaf, str, Mapping[str, str]], Awaitable[bool]]  # takes what a board shows, or not
_AGAIN = (QueueFullError, ModelUnavailableError, ServerClosedError, DeviceError, UnknownModelError, ExpiredError)


@dataclass(frozen=True, kw_only=True)
class DispatchOptions:
    """The dispatcher's patience, in predicted batch times and seconds. Raises DriverUsageError.

    A board with work is hung when it has been silent for `patience` of its longest batches and
    `allowance_s` more, which is for hosts and links that stall. `audit_every`: one piece in so many of each
    board is asked twice (0: none). `queue`: samples without an answer. `hold_s`: time that a request waits
    where no board can take it, or until its own deadline. `absent`: boards that do not answer at the start,
    or have another program, may come later. `tries`: refusals after which the last error is returned.
    `slo_ns`: objective of a request that names none (None: five lone latencies of the slowest board).
    """

    patience: float = 4.0
    allowance_s: float = 0.1
    audit_every: int = 100
    queue: int = 1024
    hold_s: float = 30.0
    absent: bool = False
    tries: int = 8
    slo_ns: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("patience", 1), ("allowance_s", 0), ("audit_every", 0), ("queue", 1), ("tries", 1)):
            if getattr(self, name) < least:
                raise DriverUsageError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(eq=False)
class _Attempt:
    """One message to one board; `predicted_s` is the time until its answer without the lag."""

    piece: Piece
    leaf: Leaf
    work_s: float
    sent_at: float
    predicted_s: float
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    overdue: bool = False


class Dispatcher:
    """Routes pieces to leaves. `references` judge audits, by model; `counts` are of the whole fleet."""

    def __init__(
        self, leaves: Sequence[Leaf], references: Mapping[str, Reference], options: DispatchOptions | None = None
    ) -> None:
        self.leaves, self.options = tuple(leaves), options or DispatchOptions()
        self.expected: dict[str, dict[str, dict[str, str]]] = {}  # identity by board and model
        self.counts: Counter[str] = Counter()
        self.waiting = 0  # samples without an answer
        self.noticed_s: list[float] = []  # from the last sign of life of a board to the finding that it is hung
        self._references = references
        self._newer: dict[tuple[str, str], Reference] = {}  # by board and model, of what was loaded since
        self.follow: Follow = _never
        self._serving: dict[str, list[Leaf]] = {}
        for leaf in leaves:
            for model in leaf.times:
                self._serving.setdefault(model, []).append(leaf)
        self.rng = random.Random(self.options.seed)
        self._held: dict[Piece, float] = {}  # since when, in the order of arrival
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self._prefix = secrets.token_hex(6)
        self._closed = False

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Ask every board for its identity, then mind them all.

        Raises BoardError for one that does not answer or is not the one of its bundle, unless it may come
        later, and for one that is named twice.
        """
        asked = (self._identify(leaf, FIRST_S) for leaf in self.leaves)
        results = dict(zip(self.leaves, await asyncio.gather(*asked, return_exceptions=True), strict=True))
        for error in results.values():
            if isinstance(error, BaseException) and not (self.options.absent and isinstance(error, BoardError)):
                raise error
        for leaf, error in results.items():
            if isinstance(error, BoardError):
                self._enter(leaf, _meant(error), str(error))
            else:
                self._check_own(leaf)
                self._enter(leaf, BoardState.READY, "")
        for leaf in self.leaves:
            self._look_after(leaf)
        self._spawn(self._watch())

    async def close(self) -> None:
        """End what is under way; requests without an answer end with ServerClosedError."""
        self._closed = True
        lines = [piece for leaf in self.leaves if leaf.line is not None for piece in leaf.line.empty()]
        for piece in [*self._held, *lines, *(attempt.piece for leaf in self.leaves for attempt in leaf.attempts)]:
            self._fail(piece, ServerClosedError("the fleet's front is closed"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(link.close() for leaf in self.leaves for link in (leaf.link, leaf.admin) if link))

    def drain(self, name: str) -> None:
        """Give a board no more requests; what it has it may answer. Raises UnknownModelError."""
        self._enter(self.find(name), BoardState.DRAINED, "by order")

    def restore(self, name: str) -> None:
        """Take a drained or sick board back as soon as it answers. Raises UnknownModelError."""
        leaf = self.find(name)
        if leaf.state not in (BoardState.READY, *RETURNING):
            leaf.state, leaf.reason, leaf.put_out = BoardState.STARTING, "", False
            self._look_after(leaf)

    def join(self, leaf: Leaf) -> None:
        """Take a board in, and look after it; it takes requests as soon as it answers."""
        self.leaves = (*self.leaves, leaf)
        self.assign(leaf, leaf.times, leaf.duties)
        self._look_after(leaf)

    async def leave(self, leaf: Leaf) -> None:
        """Let a board go: it gets no more, and what it has it may answer."""
        self._enter(leaf, BoardState.DRAINED, "it left the fleet")
        serving = {model: [other for other in leaves if other is not leaf] for model, leaves in self._serving.items()}
        self._serving, leaf.left = serving, True
        while leaf.attempts:
            await asyncio.sleep(_PAUSE_S)
        self.leaves = tuple(other for other in self.leaves if other is not leaf)
        await asyncio.gather(*(link.close() for link in (leaf.link, leaf.admin) if link is not None))

    @property
    def models(self) -> Collection[str]:
        """The models that a board serves, or has served."""
        return self._serving.keys()

    def assign(self, leaf: Leaf, times: Mapping[str, Times], duties: Mapping[str, Duty]) -> None:
        """Give a board other duties, of the models that it serves from now on: what is under way goes on."""
        leaf.times, leaf.duties = times, duties
        self._serving = {model: [] for model in (*self._serving, *times)}
        for other in self.leaves:
            for model in other.times if not other.left else ():
                self._serving[model].append(other)

    def judge_by(self, references: Mapping[str, Reference], expected: Mapping[str, dict[str, dict[str, str]]]) -> None:
        """Learn the models of another plan: who judges their audits, and what their boards must show."""
        self._references = {**self._references, **references}
        self.expected.update(expected)
        self._newer = {key: newer for key, newer in self._newer.items() if key[0] not in expected}

    def adopt(self, leaf: Leaf, model: str, times: Times, reference: Reference, facts: dict[str, str]) -> None:
        """Learn what a board has loaded: its times, who judges its audits, and what it must show from now."""
        self.assign(leaf, {**leaf.times, model: times}, leaf.duties)
        self._newer[leaf.name, model] = reference
        self.expected[leaf.name] = {**self.expected.get(leaf.name, {}), model: facts}

    def _look_after(self, leaf: Leaf) -> None:
        if leaf.minder is None or leaf.minder.done():
            leaf.minder = self._spawn(self._mind(leaf))

    def find(self, name: str) -> Leaf:
        """Return a board by its name. Raises UnknownModelError."""
        for leaf in self.leaves:
            if leaf.name == name and not leaf.left:
                return leaf
        raise UnknownModelError(f"a board must be one of {', '.join(leaf.name for leaf in self.leaves)}, not '{name}'")

    def boards_of(self, model: str) -> Sequence[Leaf]:
        """Return the boards that serve a model, in any state."""
        return self._serving.get(model, ())

    def has_board(self, model: str) -> bool:
        """Tell if a board that serves a model takes requests."""
        return any(leaf.ready for leaf in self.boards_of(model))

    def batch(self, model: str) -> int:
        """Samples of a model that one message may hold on some board."""
        return max(leaf.batch(model) for leaf in self.boards_of(model))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- requests --------------------------------------------------------------------------------------------

    async def infer(self, call: Call, wishes: Wishes) -> ModelAnswer:
        """Answer a call, whose samples may be spread over boards, in their order.

        Raises what a board refuses it with, QueueFullError, ModelUnavailableError, ExpiredError.
        """
        pieces = self.begin(call, wishes)
        try:
            if len(pieces) == 1:
                return await pieces[0].future
            return _join_answers(await asyncio.gather(*(piece.future for piece in pieces)))
        finally:
            self.end(pieces)

    def begin(self, call: Call, wishes: Wishes, *, born: float | None = None, admitted: bool = False) -> list[Piece]:
        """Cut a call into pieces and send them; the caller must `end` them.

        `born`: when the request came, on the loop's clock, which objective and limit count from (None: now).
        `admitted`: its samples are counted as waiting already, and are not refused for the queue's sake.
        Raises as `infer`, and QueueFullError where too many samples wait.
        """
        count = _samples(call)
        if not admitted and self.waiting + count > self.options.queue:
            raise QueueFullError(f"{self.waiting} samples wait for an answer already, and {self.options.queue} may")
        pieces = list(self._cut(call, wishes, count))
        for piece in pieces:
            piece.counted, piece.born = not admitted, piece.born if born is None else born
        self.waiting += sum(piece.count for piece in pieces if piece.counted)
        try:
            for piece in pieces:
                self._send(piece)
        except BaseException:
            self.end(pieces)
            raise
        return pieces

    def end(self, pieces: Sequence[Piece]) -> None:
        """Forget pieces, with or without an answer; those without need none any more."""
        for piece in pieces:
            self.waiting -= piece.count if piece.counted else 0
            self._let_go(piece)

    def _cut(self, call: Call, wishes: Wishes, count: int) -> Iterable[Piece]:
        loop, first, serving = asyncio.get_running_loop(), 0, self._serving[call.model]
        if not serving:
            raise ModelUnavailableError(f"no board of the fleet serves '{call.model}' any more")
        most = min(leaf.times[call.model].b_max for leaf in serving)
        if wishes.key is not None:  # cut alike at every front
            most = min(leaf.batch(call.model) for leaf in serving)
        while not first or first < count:
            leaf = self._draw(call.model, serving, 1)[0]
            rows = min(leaf.batch(call.model) if leaf.duties and wishes.key is None else most, count - first)
            inputs = call.inputs
            if rows < count:
                inputs = {name: array[first : first + rows] for name, array in inputs.items()}
            key = f"{self._prefix}.{next(self._numbers)}"
            if wishes.key is not None:
                key = key_of_piece(wishes.key, first, rows)
            future: asyncio.Future[ModelAnswer] = loop.create_future()
            yield Piece(call, inputs, first, max(1, rows), wishes, loop.time(), key, future, drawn=leaf.name)
            first += max(1, rows)

    def _draw(self, model: str, leaves: Sequence[Leaf], count: int) -> list[Leaf]:
        """Draw so many boards, each at most once: by their planned rates, or alike where there is no plan."""
        count, drawn = min(count, len(leaves)), list[Leaf]()
        left = [(leaf, leaf.duties[model].rate_per_s) for leaf in leaves if model in leaf.duties]
        if not any(rate for _, rate in left):
            return self.rng.sample(leaves, count)
        while left and len(drawn) < count:
            choice = self.rng.choices(left, [rate or 1e-9 for _, rate in left])[0]
            left.remove(choice)
            drawn.append(choice[0])
        return drawn

    def _send(self, piece: Piece) -> None:
        """Give a piece to the better of two boards, or to its key's home; hold it while there is no board."""
        self._held.pop(piece, None)
        if piece.future.done():
            return
        if (error := self._expiry(piece)) is not None:
            self._fail(piece, error)
            return
        model = piece.call.model
        fit = [leaf for leaf in self._serving[model] if leaf.ready and leaf.name not in piece.avoided]
        if not fit:
            self._hold(piece)
            return
        leaf = self._home(piece, fit) if piece.wishes.key is not None else self._better(piece, fit)
        if leaf.line is None:
            self._attempt(piece, leaf)
        else:
            leaf.line.put(piece)
            self._time_out(piece)
            self._pump(leaf)

    def _better(self, piece: Piece, fit: Sequence[Leaf]) -> Leaf:
        """Return the better of two boards, of which one is that for which the piece was cut, at first."""
        model = piece.call.model
        first = [leaf for leaf in fit if leaf.name == piece.drawn and not piece.sent]
        others = [leaf for leaf in fit if leaf not in first]
        two = [*first, *self._draw(model, others, 2 - len(first))]
        return min(two, key=lambda leaf: leaf.finish_s(model, piece.count))

    def _home(self, piece: Piece, fit: Sequence[Leaf]) -> Leaf:
        """Return the board at which every front asks for this piece."""
        model = piece.call.model
        rates = {leaf.name: leaf.duties[model].rate_per_s if model in leaf.duties else 0.0 for leaf in fit}
        home = rank_homes(piece.key, rates)[0]
        return next(leaf for leaf in fit if leaf.name == home)

    def _time_out(self, piece: Piece) -> None:
        """End a piece in a line when the time that its request allows has passed."""
        if piece.timer is not None:
            piece.timer.cancel()
            piece.timer = None
        if piece.wishes.timeout_ns is not None:
            loop = asyncio.get_running_loop()
            left_s = piece.wishes.timeout_ns / 1e9 + piece.born - loop.time()
            piece.timer = loop.call_later(max(0.0, left_s), self._give_up, piece)

    def _pump(self, leaf: Leaf) -> None:
        """Send turns of a line to its board, as long as that may run out of work."""
        while leaf.line is not None and leaf.ready and leaf.work_s <= leaf.lead_s:
            turn = leaf.line.take(leaf.cost_s)
            if not turn:
                return
            for piece in turn:
                if piece.timer is not None:
                    piece.timer.cancel()
                    piece.timer = None
                self._attempt(piece, leaf)

    def _attempt(self, piece: Piece, leaf: Leaf) -> None:
        loop, model = asyncio.get_running_loop(), piece.call.model
        leaf.turns += 1
        if self.options.audit_every and leaf.turns >= self.options.audit_every and not piece.sent:
            leaf.turns, piece.audited = 0, True
        if not leaf.attempts:
            leaf.since = loop.time()
        finish_s = leaf.sent_finish_s(model, piece.count)
        work_s = piece.count * leaf.times[model].sample_s if leaf.line is None else leaf.cost_s(model, piece.count)
        limit_s = self._limit_s(finish_s)
        attempt = _Attempt(piece, leaf, work_s, loop.time(), finish_s - leaf.lag_s)
        leaf.attempts[attempt] = None
        leaf.work_s += attempt.work_s
        leaf.counts["sent"] += 1
        piece.avoided.add(leaf.name)
        piece.sent += 1
        if piece.sent > 1:
            self.counts["resent"] += 1
        attempt.timer = loop.call_later(limit_s, self._late, attempt)
        attempt.task = self._spawn(self._exchange(attempt, limit_s))

    def _limit_s(self, finish_s: float) -> float:
        return self.options.patience * finish_s + self.options.allowance_s

    async def _exchange(self, attempt: _Attempt, limit_s: float) -> None:
        piece, leaf = attempt.piece, attempt.leaf
        try:
            asked = self._message(piece, leaf, limit_s)
            answer = await leaf.link.infer(asked, 2 * limit_s + 1, piece.call.trace)
        except HostError as error:
            self._take_back(attempt)
            self._take_refusal(attempt, error)
        except asyncio.CancelledError:
            self._take_back(attempt)
            raise
        except Exception as error:  # such as an answer that cannot be read: never leave a piece without an owner
            self._take_back(attempt)
            self._take_refusal(attempt, BoardError(f"its answer cannot be read: {error}"))
        else:
            self._take_back(attempt)
            self._take_answer(attempt, answer)

    def _message(self, piece: Piece, leaf: Leaf, limit_s: float) -> Any:
        """Return the request with the time that is left to it, and all outputs where it is judged."""
        call, waited_s = piece.call, asyncio.get_running_loop().time() - piece.born
        left_s = limit_s
        if piece.wishes.timeout_ns is not None:
            left_s = min(left_s, piece.wishes.timeout_ns / 1e9 - waited_s)
        parameters: dict[str, Parameter] = {
            **call.parameters,
            "slo_ms": max(1e-3, self._slo_ns(piece) / 1e6 - 1e3 * waited_s),
            "timeout": max(1, round(1e6 * left_s)),
            "idempotency_key": piece.key,
        }
        parameters.pop("binary_data_output", None)
        criteria = duty.criteria if (duty := leaf.duties.get(call.model)) is not None else None
        if criteria is not None:
            parameters.setdefault("criteria", criteria)
        outputs = call.outputs
        if outputs and (piece.audited or piece.wishes.key is not None):  # a repeat must ask for the same
            outputs = tuple(dict.fromkeys((*outputs, *self._judged_outputs(call.model))))
        return write_request(call.model, piece.key, piece.inputs, outputs, parameters)

    def _slo_ns(self, piece: Piece) -> int:
        return self.objective_ns((piece.call.model,), piece.wishes)

    def objective_ns(self, models: Sequence[str], wishes: Wishes) -> int:
        """Return the objective of a request, or the default one of the slowest of its models."""
        if wishes.slo_ns is not None:
            return wishes.slo_ns
        return self.options.slo_ns or max(map(self.default_slo_ns, models))

    def default_slo_ns(self, model: str) -> int:
        """Return five times the latency of one sample alone on the slowest board of a model."""
        return 5 * max((round(1e9 * leaf.times[model].whole_s[0]) for leaf in self._serving[model]), default=10**9)

    def _take_back(self, attempt: _Attempt) -> None:
        leaf = attempt.leaf
        if leaf.attempts.pop(attempt, 0) is None:
            leaf.work_s = leaf.work_s - attempt.work_s if leaf.attempts else 0.0
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._pump(leaf)

    def _take_answer(self, attempt: _Attempt, answer: ModelAnswer) -> None:
        piece, leaf = attempt.piece, attempt.leaf
        leaf.since, leaf.strikes = asyncio.get_running_loop().time(), 0
        leaf.learn(leaf.since - attempt.sent_at, attempt.predicted_s)
        leaf.counts["answers"] += 1
        if leaf.timed is not None:
            leaf.timed(leaf, piece.call.model, answer)
        if leaf.state is BoardState.HUNG:
            self._enter(leaf, BoardState.READY, "")
        if leaf.state is BoardState.SICK:
            leaf.counts["ignored"] += 1  # its pieces were asked elsewhere when it was found sick
        elif piece.future.done():
            leaf.counts["late"] += 1  # somebody was faster, or the client has gone
            if piece.audited:
                self._audit_next(leaf)
        else:
            piece.answered_by = leaf.name
            piece.future.set_result(self._as_wanted(piece, answer))
            if piece.audited:
                self._spawn(self._audit(piece, leaf, answer))

    def _as_wanted(self, piece: Piece, answer: ModelAnswer) -> ModelAnswer:
        wanted = piece.call.outputs or tuple(answer.outputs)
        late = asyncio.get_running_loop().time() - piece.born > self._slo_ns(piece) / 1e9
        inside = answer.parameters.get("board")  # where a shard of boards has answered
        board = f"{piece.answered_by}/{inside}" if inside else piece.answered_by
        parameters = {**answer.parameters, "met": not late, "board": board}
        outputs = {name: answer.outputs[name] for name in wanted}
        return ModelAnswer(piece.call.model, answer.version, piece.call.id, outputs, parameters)

    def _take_refusal(self, attempt: _Attempt, error: HostError) -> None:
        """Ask another board, unless the refusal is the client's to hear."""
        piece, leaf = attempt.piece, attempt.leaf
        if isinstance(error, BoardError):
            if not error.silent:
                self._enter(leaf, BoardState.LOST, str(error))
            piece.avoided.discard(leaf.name)
            self._send_again(piece)
            return
        leaf.since = asyncio.get_running_loop().time()
        leaf.counts["refused"] += 1
        if not isinstance(error, _AGAIN):
            self._fail(piece, error)
            return
        if isinstance(error, ModelUnavailableError | ServerClosedError | UnknownModelError):
            self._enter(leaf, BoardState.AWAY, str(error))
        piece.refusals += 1
        if piece.refusals >= self.options.tries:
            if isinstance(error, ExpiredError) and piece.wishes.timeout_ns is None:  # the limit was ours
                error = ModelUnavailableError(f"{piece.refusals} times a board had no time for the request: {error}")
            self._fail(piece, error)
            return
        if isinstance(error, ExpiredError):
            leaf.learn(leaf.since - attempt.sent_at, attempt.predicted_s)
            piece.avoided.discard(leaf.name)  # it was late, not unwilling
        self._send_again(piece)

    def _send_again(self, piece: Piece) -> None:
        if not piece.future.done() and not self._closed:
            self._send(piece)

    def _late(self, attempt: _Attempt) -> None:
        """Ask another board for a piece whose answer is overdue."""
        if not attempt.overdue and not attempt.piece.future.done():
            attempt.overdue = True
            attempt.leaf.counts["overdue"] += 1
            self._send_again(attempt.piece)

    def _hold(self, piece: Piece) -> None:
        """Keep a piece until a board returns; where all ready boards refused it, ask soon."""
        loop = asyncio.get_running_loop()
        if piece.timer is not None:
            piece.timer.cancel()
        at_work = {leaf.name for leaf in self.leaves for attempt in leaf.attempts if attempt.piece is piece}
        ready = any(leaf.ready and leaf.name not in at_work for leaf in self._serving[piece.call.model])
        if ready:
            piece.avoided = at_work
            piece.timer = loop.call_later(_PAUSE_S * max(1, piece.refusals), self._send, piece)
            return
        if piece not in self._held:
            self._held[piece] = loop.time()
            self.counts["held"] += 1
        piece.timer = loop.call_later(self._left_s(piece), self._give_up, piece)

    def _left_s(self, piece: Piece) -> float:
        """Return how long a piece may wait for a board: until the time that its request allows has passed.

        Where no board of its model is left, an objective that somebody named is such a time, too.
        """
        named = "slo_ms" in piece.call.parameters or self.options.slo_ns is not None
        now_s = asyncio.get_running_loop().time()
        waited_s, limits_s = now_s - piece.born, [self._held[piece] + self.options.hold_s - now_s]
        if piece.wishes.timeout_ns is not None:
            limits_s.append(piece.wishes.timeout_ns / 1e9 - waited_s)
        if named and not self.has_board(piece.call.model):
            limits_s.append(self._slo_ns(piece) / 1e9 - waited_s)
        return max(0.0, min(limits_s))

    def _give_up(self, piece: Piece) -> None:
        error: HostError | None = self._expiry(piece)
        if error is None:
            states = ", ".join(f"'{leaf.name}' {leaf.state.value}" for leaf in self._serving[piece.call.model])
            waited_s = asyncio.get_running_loop().time() - piece.born
            error = ModelUnavailableError(
                f"no board could answer for '{piece.call.model}' in {waited_s:.1f} s: {states}"
            )
        self._fail(piece, error)

    def _expiry(self, piece: Piece) -> ExpiredError | None:
        waited_ns = round(1e9 * (asyncio.get_running_loop().time() - piece.born))
        if piece.wishes.timeout_ns is None or waited_ns < piece.wishes.timeout_ns:
            return None
        return ExpiredError(
            f"the time that the request allowed passed in the fleet: {waited_ns / 1e6:.1f} ms", waited_ns
        )

    def _fail(self, piece: Piece, error: HostError) -> None:
        if not piece.future.done():
            piece.future.set_exception(error)

    def _let_go(self, piece: Piece) -> None:
        """Forget a piece whose client has its answer, or has gone; nobody need work for those who have."""
        self._held.pop(piece, None)
        if piece.timer is not None:
            piece.timer.cancel()
        if not piece.future.done():
            piece.future.cancel()
        if piece.future.cancelled():
            for attempt in [attempt for leaf in self.leaves for attempt in leaf.attempts if attempt.piece is piece]:
                self._take_back(attempt)  # a task that has not begun would never do it
                if attempt.task is not None:
                    attempt.task.cancel()
        else:
            piece.future.exception()  # seen: another piece of the call may have been the one that was told

    # -- boards ----------------------------------------------------------------------------------------------

    def _enter(self, leaf: Leaf, state: BoardState, reason: str) -> None:
        """Change a board's state, log it, and move its work where that is needed."""
        kept = leaf.state in (BoardState.SICK, BoardState.DRAINED) and state is not BoardState.SICK  # until `restore`
        if leaf.state is state or kept:
            return
        before, leaf.state, leaf.reason, leaf.put_out = leaf.state, state, reason, False
        leaf.counts[f"became_{state.name.lower()}"] += 1
        facts = {"board": leaf.name, "address": leaf.address, "state": state.name, "before": before.name}
        level = logging.INFO if state is BoardState.READY else logging.WARNING
        ending = f": {reason}" if reason else ""
        _log.log(level, "board '%s' %s%s", leaf.name, state.value, ending, extra=facts)
        if state is BoardState.READY:
            leaf.since = asyncio.get_running_loop().time()
            for piece in list(self._held):
                if piece.timer is not None:
                    piece.timer.cancel()
                self._send(piece)
            self._pump(leaf)
            return
        leaf.fell.set()
        for piece in leaf.line.empty() if leaf.line is not None else ():
            self._send_again(piece)
        if state is not BoardState.DRAINED:
            for attempt in list(leaf.attempts):
                self._late(attempt)
        for piece in [waiting for waiting in self._held if waiting.call.model in leaf.times]:
            self._hold(piece)  # there may be no board left

    async def _watch(self) -> None:
        """Find boards that have work and give no sign of life."""
        loop = asyncio.get_running_loop()
        pause_s = max(0.005, min(self._limit_s(leaf.longest_batch_s) for leaf in self.leaves) / 8)
        while True:
            before = loop.time()
            await asyncio.sleep(pause_s)
            stalled_s = loop.time() - before - pause_s  # this process was not running: nobody else is to blame
            for leaf in self.leaves:
                if stalled_s > pause_s:
                    leaf.since += stalled_s
                silent_s, limit_s = loop.time() - leaf.since, self._limit_s(leaf.longest_batch_s)
                if leaf.ready and leaf.attempts and silent_s > limit_s:
                    leaf.strikes += 1
                    quiet_s = min(_LONGEST_QUIET_S, limit_s * 2 ** (leaf.strikes - 1))
                    leaf.quiet_until = loop.time() + quiet_s
                    self.noticed_s = [*self.noticed_s[-999:], silent_s]
                    self._enter(leaf, BoardState.HUNG, f"{len(leaf.attempts)} requests, silent for {silent_s:.3f} s")

    async def _mind(self, leaf: Leaf) -> None:
        """Look after a board that is idle or away, until it is taken out."""
        loop, looks = asyncio.get_running_loop(), 0
        kept = (BoardState.READY, *RETURNING, *([BoardState.SICK] if leaf.admin is not None else []))
        while leaf.state in kept and not leaf.left:
            if leaf.ready:
                looks = 0
                leaf.fell.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(leaf.fell.wait(), _IDLE_PROBE_S)
                    continue
                if leaf.ready and leaf.attempts:
                    continue
                leaf.lag_s /= 2  # else a board that was slow once is never asked again
            else:
                await asyncio.sleep(_PROBE_S[min(looks, len(_PROBE_S) - 1)])
                looks += 1
            try:
                await self._identify(leaf, max(0.5, self._limit_s(leaf.longest_batch_s)))
                self._check_own(leaf)
            except BoardError as error:
                if leaf.state is not BoardState.HUNG or not error.silent:
                    self._enter(leaf, _meant(error), str(error))
                if leaf.state is BoardState.SICK:
                    leaf.put_out = leaf.put_out or isinstance(error, _AwayError)
            else:
                if leaf.state is BoardState.SICK:
                    if not leaf.put_out:
                        await self._put_out(leaf)
                        continue
                    leaf.state, leaf.put_out = BoardState.STARTING, False  # somebody has loaded it again
                if leaf.state is not BoardState.READY and loop.time() >= leaf.quiet_until:
                    self._enter(leaf, BoardState.READY, "")

    async def _put_out(self, leaf: Leaf) -> None:
        """Have a sick board unloaded, so that no front asks it."""
        try:
            for model in leaf.times if leaf.admin is not None else ():
                await leaf.admin.unload(model)  # type: ignore[union-attr]
        except HostError as error:
            _log.warning("board '%s' is sick and could not be unloaded: %s", leaf.name, error)

    def _check_own(self, leaf: Leaf) -> None:
        """Raise BoardError where a board that is ready is the same process."""
        for other in self.leaves:
            if other is not leaf and other.ready and other.instance == leaf.instance:
                raise _ForeignError(
                    f"boards must be servers of their own, and '{other.name}' at {other.address} and '{leaf.name}' at "
                    f"{leaf.address} are one"
                )

    async def _identify(self, leaf: Leaf, timeout_s: float) -> None:
        """Learn which process is behind a board's address. Raises BoardError."""
        instance, loads = "", list[str]()
        for model in list(leaf.times):
            where = f"board '{leaf.name}' at {leaf.address}"
            try:
                ready, facts = await leaf.link.identity(model, timeout_s)
            except BoardError as error:
                raise BoardError(f"{where} must answer, and it does not: {error}", silent=error.silent) from None
            except UnknownModelError:
                raise _ForeignError(f"{where} must serve the model '{model}' of its bundle, and it does not") from None
            except HostError as error:
                raise _AwayError(f"{where} does not take requests: {error}") from None
            if not ready:
                why = facts.get("standing") or "not ready"
                raise _AwayError(f"{where} must take requests for '{model}', and it does not yet: {why}")
            for fact, wanted in self.expected.get(leaf.name, {}).get(model, {}).items():
                if facts.get(fact) != wanted:
                    if await self.follow(leaf, model, facts):
                        break
                    raise _ForeignError(
                        f"{where} must serve the {fact} {wanted[:12]} that its bundle of '{model}' holds, not "
                        f"{facts.get(fact, 'an unknown one')[:12]}"
                    )
            instance = facts.get("instance", "")
            loads.append(facts.get("loads", ""))
        leaf.instance = instance or leaf.address
        leaf.loaded = " ".join((leaf.instance, *loads))

    # -- audits ----------------------------------------------------------------------------------------------

    def _judged_outputs(self, model: str) -> tuple[str, ...]:
        """Return the outputs that an audit of a model looks at."""
        return self._references[model].judged if model in self._references else JUDGED

    def _audit_next(self, leaf: Leaf) -> None:
        """Audit the next piece of a leaf, since an audit that was due came to nothing."""
        leaf.turns = self.options.audit_every

    async def _audit(self, piece: Piece, leaf: Leaf, answer: ModelAnswer) -> None:
        """Ask another board for the same; where bits differ, find out who is sick and take it out."""
        others = [other for other in self._serving[piece.call.model] if other.ready and other is not leaf]
        if not others:
            self._audit_next(leaf)
            return
        other = min(others, key=lambda candidate: candidate.finish_s(piece.call.model, piece.count))
        loaded = {leaf.name: leaf.loaded, other.name: other.loaded}
        self.counts["audits"] += 1
        leaf.counts["audited"] += 1
        # In no hurry, but in the line of everybody: behind all others it would wait for ever on a busy board,
        # and a liar would go on.
        parameters: dict[str, Parameter] = {"slo_ms": 1e6}
        duty = leaf.duties.get(piece.call.model)
        if criteria := piece.call.parameters.get("criteria", None if duty is None else duty.criteria):
            parameters["criteria"] = criteria
        judged = self._judged_outputs(piece.call.model)
        asked = write_request(piece.call.model, f"{piece.key}.audit", piece.inputs, judged, parameters)
        try:
            second = await other.link.infer(asked, self.options.hold_s)
        except HostError:  # it has other troubles, which others look after
            self._audit_next(leaf)
            return
        if all(np.array_equal(answer.outputs[name], second.outputs[name]) for name in judged if name in _BITS):
            self.counts["audits_agreed"] += 1
            return
        self.counts["audits_differed"] += 1
        for suspect, reply in ((leaf, answer), (other, second)):
            await self._judge(piece, suspect, reply, loaded[suspect.name])

    async def _judge(self, piece: Piece, leaf: Leaf, answer: ModelAnswer, loaded: str) -> None:
        """Take a board out whose answer is wrong; `loaded`: what it had, as was known when it was asked."""
        with contextlib.suppress(BoardError):  # then it is as it was seen last
            await self._identify(leaf, max(0.5, self._limit_s(leaf.longest_batch_s)))
        if leaf.loaded != loaded:
            self._audit_next(leaf)  # it was loaded anew meanwhile, and nobody knows by what it answered
            return
        (images,) = piece.inputs.values()
        model = piece.call.model
        reference = self._newer.get((leaf.name, model)) or self._references[model]
        loop = asyncio.get_running_loop()
        objection = await loop.run_in_executor(None, reference.objection, images, answer.outputs)
        if objection:
            leaf.counts["wrong"] += 1
            self._enter(leaf, BoardState.SICK, f"{objection} (found after {leaf.counts['answers']} answers)")


async def _never(leaf: Leaf, model: str, facts: Mapping[str, str]) -> bool:
    return False


class _ForeignError(BoardError):
    """The board is not the one of its bundle."""


class _AwayError(BoardError):
    """The board answers, and takes no requests."""


def _meant(error: BoardError) -> BoardState:
    if isinstance(error, _ForeignError):
        return BoardState.FOREIGN
    return BoardState.AWAY if isinstance(error, _AwayError) else BoardState.LOST


def _samples(call: Call) -> int:
    if not call.inputs:
        raise ProtocolError("a request must have inputs, and it has none")
    counts = {array.shape[0] if array.ndim else 0 for array in call.inputs.values()}
    if len(counts) != 1:
        raise ProtocolError(f"all inputs of a request must have as many samples, not {sorted(counts)}")
    return int(counts.pop())


def _join_answers(answers: Sequence[ModelAnswer]) -> ModelAnswer:
    """Join the answers of a call's pieces; parameters as one board gives them for a batch."""
    first = answers[0]
    outputs = {name: np.concatenate([answer.outputs[name] for answer in answers]) for name in first.outputs}
    every = [answer.parameters for answer in answers]
    deepest = max(every, key=lambda part: part["exit"])
    return ModelAnswer(
        first.model,
        first.version,
        first.id,
        outputs,
        {
            "exit": deepest["exit"],
            "confidence": min(part["confidence"] for part in every),
            "outcome": "anytime" if any(part["outcome"] == "anytime" for part in every) else "exit",
            "met": all(part["met"] for part in every),
            **{name: max(part[name] for part in every) for name in ("queue_us", "npu_us", "batch")},
            "left_because": deepest["left_because"],
            "board": ", ".join(dict.fromkeys(str(part["board"]) for part in every)),
        },
    )
