"""A network that is served in parts: a request goes from board to board, and each sample leaves at its exit.

Every part is an ordinary request to the dispatcher, with the time that is left and a key of its own, so
boards that die in the midst of a part cost that part alone: what the part before gave is still here, and is
sent to another board. Samples that leave a part are answered from it; only the others go on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.hls import Program
from fluidnpu.scheduler.simulation import OVERDUE

from ...bundle import Bundle
from ...errors import ProtocolError
from ...oip.interface import OF_PARTS, outputs_of
from ...oip.wire.calls import Call, ModelAnswer, Parameter, Wishes
from ...oip.wire.tensors import Array
from ...serving.models import VERSION
from ..dispatcher import Dispatcher
from ..duties import Way
from ..piece import Piece

_SUMS = ("queue_us", "npu_us")  # parameters that add up over the parts of a sample


@dataclass(frozen=True, kw_only=True)
class Relay:
    """The ways of one network through boards; `programs` are those of its parts by their models.

    `bundle`: that of the whole network, whose tensors clients see; `exit_rates`: of the fleet file, or of its
    design. `seen` is told of every sample and part the first exit of the part, the last one that the sample
    came to, and whether it left there.
    """

    name: str
    bundle: Bundle
    ways: tuple[Way, ...]
    programs: Mapping[str, Program]
    exit_rates: tuple[float, ...] | None = None
    seen: Callable[[int, int, bool], None] | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all parts, in the order of the ways."""
        return tuple(dict.fromkeys(model for way in self.ways for model in way.models))

    def open_ways(self, has_board: Callable[[str], bool]) -> list[Way]:
        """Return the ways of which every part has a board."""
        return [way for way in self.ways if all(map(has_board, way.models))]

    def capacity_per_s(self, boards: Mapping[str, float]) -> float:
        """Return the samples a second that all parts carry together, from those of the boards of each part.

        A part gets the share of samples that reaches it; a stage carries what all parts that hold it do, and
        the scarcest stage bounds the whole.
        """
        stages, reach = len(self.bundle.program.stages), self._reach()
        carried = [0.0] * stages
        for model in self.models:
            for stage in self._span(model):
                carried[stage] += boards[model] / max(1e-9, reach[self._span(model)[0]])
        return min(carried)

    def _span(self, model: str) -> range:
        """Return the stages of the whole network that a part runs."""
        cut, stages = self.programs[model].cut, len(self.bundle.program.stages)
        return range(stages) if cut is None else range(cut.first, cut.exits[-1] + 1)

    def _reach(self) -> list[float]:
        """Return the share of samples that reaches each stage."""
        stages = len(self.bundle.program.stages)
        rates = self.exit_rates or (1 / stages,) * stages
        return [1 - sum(rates[:stage]) for stage in range(stages)]

    def slo_ns(self, dispatcher: Dispatcher) -> int:
        """Return the objective of a request that names none: that of all parts one after another."""
        if dispatcher.options.slo_ns is not None:
            return dispatcher.options.slo_ns
        return max(sum(map(dispatcher.default_slo_ns, way.models)) for way in self.ways)

    async def infer(self, dispatcher: Dispatcher, call: Call, wishes: Wishes) -> ModelAnswer:
        """Answer a call. Raises as `Dispatcher.infer`, and ProtocolError."""
        image = self._image(call)
        slo_ns = self.slo_ns(dispatcher) if wishes.slo_ns is None else wishes.slo_ns
        wishes = replace(wishes, slo_ns=slo_ns, key=None)  # a client's key is one of all parts, which go many ways
        under_way = _UnderWay(self, dispatcher, call, wishes, asyncio.get_running_loop().time(), len(image))
        work = asyncio.ensure_future(under_way.begin(image))
        try:
            if wishes.anytime:
                await under_way.on_time(work)
            else:
                await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return self._answer(call, under_way)

    def _image(self, call: Call) -> Array:
        """Return the samples of a call. Raises ProtocolError."""
        if call.parameters.get("criteria") is not None:
            raise ProtocolError(
                f"samples of '{self.name}' leave by its program's thresholds, since boards have parts of it, so a request "
                f"must have no criteria"
            )
        names, name = [output.name for output in outputs_of(self.bundle.program)], self.bundle.program.input
        if odd := [output for output in call.outputs if output not in names]:
            raise ProtocolError(f"an output must be one of {', '.join(names)}, not '{odd[0]:.60}'")
        if set(call.inputs) != {name}:
            listing = ", ".join(f"'{input_:.60}'" for input_ in call.inputs) or "none"
            raise ProtocolError(f"model '{self.name}' must have the input '{name}' alone, not {listing}")
        image = call.inputs[name]
        if not image.ndim or not len(image):
            raise ProtocolError(f"input '{name}' must hold at least one sample, and it holds none")
        return image

    def _answer(self, call: Call, under_way: _UnderWay) -> ModelAnswer:
        rows = under_way.rows
        assert all(row is not None for row in rows)
        last = [row for row in rows if row is not None]
        wanted = call.outputs or tuple(output.name for output in outputs_of(self.bundle.program))
        deepest = max(last, key=lambda row: int(row.outputs["exit"]))
        late = any(row.done_s - under_way.born > (under_way.wishes.slo_ns or 0) / 1e9 for row in last)
        parameters: dict[str, Parameter] = {
            "exit": int(deepest.outputs["exit"]),
            "confidence": min(float(row.outputs["confidence"]) for row in last),
            "outcome": "anytime" if any(row.early for row in last) else "exit",
            "met": not late,
            **{name: max(row.sums[name] for row in last) for name in _SUMS},
            "batch": max(row.batch for row in last),
            "left_because": deepest.because,
            "board": ", ".join(dict.fromkeys(board for row in last for board in row.boards)),
        }
        outputs = {name: np.stack([row.outputs[name] for row in last]) for name in wanted}
        return ModelAnswer(self.name, VERSION, call.id, outputs, parameters)


@dataclass(kw_only=True)
class _Row:
    """The answer of one sample at the last exit that it passed, and its way until there."""

    outputs: dict[str, Any]
    sums: dict[str, int]
    batch: int
    because: str
    boards: tuple[str, ...]
    done_s: float
    open: bool  # it goes on
    early: bool = False


@dataclass
class _UnderWay:
    """One request: a row a sample, None until it has passed an exit."""

    relay: Relay
    dispatcher: Dispatcher
    call: Call
    wishes: Wishes
    born: float
    samples: int
    rows: list[_Row | None] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [None] * self.samples
        self._passed = asyncio.Event()  # each time a board has answered

    async def begin(self, image: Array) -> None:
        """Take all samples to their exits. Raises as `Dispatcher.infer`."""
        ready = self.dispatcher.has_board
        ways = self.relay.open_ways(ready) or self.relay.ways
        rng = self.dispatcher.rng
        work, first = [], 0
        while first < self.samples:
            way = _draw_way(ways, rng)
            count = min(self.dispatcher.batch(way.models[0]), self.samples - first)
            rows = np.arange(first, first + count)
            work.append(self._through(way, 0, rows, image[first : first + count]))
            first += count
        await _together(work)

    async def _through(self, way: Way, step: int, rows: npt.NDArray[np.int64], tensor: Array) -> None:
        """Give samples to a part, and those that go on to the next."""
        program = self.relay.programs[way.models[step]]
        call = replace(
            self.call,
            model=way.models[step],
            inputs={program.input: tensor},
            outputs=(*(output.name for output in outputs_of(program)),),
            binary={},
        )
        pieces = self.dispatcher.begin(call, self.wishes, born=self.born, admitted=step > 0)  # as one request
        try:
            await _together([self._piece(way, step, rows, piece) for piece in pieces])
        finally:
            self.dispatcher.end(pieces)

    async def _piece(self, way: Way, step: int, rows: npt.NDArray[np.int64], piece: Piece) -> None:
        answer = await piece.future
        own = rows[piece.first : piece.first + piece.count]
        program = self.relay.programs[way.models[step]]
        goes_on = np.zeros(len(own), np.bool_) if not program.onward else answer.outputs["goes_on"].astype(np.bool_)
        self._take(program, own, goes_on, answer)
        if goes_on.any():
            await self._through(way, step + 1, own[goes_on], answer.outputs["onward"])

    def _take(
        self, program: Program, rows: npt.NDArray[np.int64], goes_on: npt.NDArray[np.bool_], answer: ModelAnswer
    ) -> None:
        """Keep what a part says of samples; for those that go on it is the latest exit that they passed."""
        exits = np.arange(len(program.exits)) if program.cut is None else np.array(program.cut.exits)
        done_s = asyncio.get_running_loop().time()
        for place, row in enumerate(rows):
            before = self.rows[row]
            outputs = {name: array[place] for name, array in answer.outputs.items() if name not in OF_PARTS}
            outputs["exit"] = np.int32(exits[outputs["exit"]])
            parameters = answer.parameters
            self.rows[row] = _Row(
                outputs=outputs,
                sums={name: int(parameters[name]) + (before.sums[name] if before else 0) for name in _SUMS},
                batch=max(int(parameters["batch"]), before.batch if before else 0),
                because=str(parameters["left_because"]),
                boards=(*(before.boards if before else ()), str(parameters["board"])),
                done_s=done_s,
                open=bool(goes_on[place]),
                early=parameters["outcome"] == "anytime" and not goes_on[place],
            )
            if self.relay.seen is not None:
                self.relay.seen(
                    int(exits[0]), int(outputs["exit"]), parameters["outcome"] != "anytime" and not goes_on[place]
                )
        self._passed.set()

    async def on_time(self, work: asyncio.Future[None]) -> None:
        """Wait for all answers, but at the objective take those of the exits that were passed by then.

        A sample that has passed none by then is waited for. Raises as the work.
        """
        loop = asyncio.get_running_loop()
        left_s = self.born + (self.wishes.slo_ns or 0) / 1e9 - loop.time()
        await asyncio.wait({work}, timeout=max(0.0, left_s))
        while not work.done() and None in self.rows:
            self._passed.clear()
            came = asyncio.ensure_future(self._passed.wait())
            both: set[asyncio.Future[Any]] = {work, came}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                came.cancel()
        if work.done():
            work.result()
            return
        for row in self.rows:
            if row is not None and row.open:
                row.early, row.because = True, OVERDUE


def _draw_way(ways: Sequence[Way], rng: random.Random) -> Way:
    rates = [way.rate_per_s for way in ways]
    return rng.choices(ways, rates if any(rates) else None)[0]


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; at the first error end the others, and raise it."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
