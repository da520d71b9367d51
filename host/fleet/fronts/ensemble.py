"""Ensembles: a request is asked of every network of a fleet's ensemble, and the answers are combined.

Sums are exact integers, so the same parts give the same bits in any order; a part that comes again counts
once. After the ensemble's `wait` an answer leaves with the parts that have come, and says which are missing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fluidnpu.hls import Program
from fluidnpu.scheduler import placement

from ...errors import DriverUsageError, HostError, ProtocolError
from ...oip.interface import input_of
from ...oip.wire.calls import Call, ModelAnswer, Parameter, Wishes
from ...oip.wire.classes import CLASS_NAME, names_of
from ...oip.wire.tensors import Array, TensorInfo
from ...serving.models import VERSION
from ..dispatcher import Dispatcher
from ..piece import Piece

PLATFORM = "fluidnpu_ensemble"
SPARE_BITS = 8
_PART = ("logits", "exit")  # of each network's answer


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Networks with the same input and classes, and the rule that combines them.

    `inputs`: each network's name of the input; `fractions`: fraction bits of its finest logits. Raises
    DriverUsageError.
    """

    name: str
    rule: placement.Rule
    wait_s: float
    inputs: Mapping[str, str]
    takes: TensorInfo
    classes: int
    class_names: tuple[str, ...] = ()  # where all networks have the same

    @classmethod
    def of(cls, facts: placement.EnsembleFacts, programs: Mapping[str, Program]) -> Ensemble:
        """Make it from the compiled networks. Raises DriverUsageError where they cannot vote together."""
        own = {name: programs[name] for name in facts.networks}
        takes = {name: input_of(program) for name, program in own.items()}
        shapes = {name: info.shape for name, info in takes.items()}
        if len(set(shapes.values())) > 1:
            listing = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise DriverUsageError(f"networks of ensemble '{facts.name}' must take the same images, not {listing}")
        classes = {
            name: {program.tensors[exit_.tensor].channels if exit_.tensor else 0 for exit_ in program.exits}
            for name, program in own.items()
        }
        every = set().union(*classes.values())
        if len(every) != 1 or 0 in every:
            listing = ", ".join(f"{name} {sorted(counts)}" for name, counts in classes.items())
            raise DriverUsageError(f"networks of ensemble '{facts.name}' must have the same classes, not {listing}")
        fractions = tuple(_bits(program) for program in own.values())
        names = {program.class_names for program in own.values()}
        return cls(
            name=facts.name,
            rule=facts.of_bits(fractions),
            wait_s=facts.wait_ns / 1e9,
            inputs={name: info.name for name, info in takes.items()},
            takes=next(iter(takes.values())),
            classes=every.pop(),
            class_names=names.pop() if len(names) == 1 else (),
        )

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs: `total` is the exact sum, `score` its mean (or shares of votes), `exits` a column a
        network.
        """
        return (
            TensorInfo("label", "INT32", (-1,)),
            *([TensorInfo(CLASS_NAME, "BYTES", (-1,))] if self.class_names else []),
            TensorInfo("score", "FP32", (-1, self.classes)),
            TensorInfo("total", "INT64", (-1, self.classes)),
            TensorInfo("parts", "INT32", (-1,)),
            TensorInfo("exits", "INT32", (-1, len(self.rule.networks))),
        )

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the model that clients see."""
        return {
            "name": self.name,
            "versions": [VERSION],
            "platform": PLATFORM,
            "inputs": [self.takes.to_json()],
            "outputs": [output.to_json() for output in self.outputs],
            **({"class_names": list(self.class_names)} if self.class_names else {}),
        }

    async def infer(self, dispatcher: Dispatcher, call: Call, wishes: Wishes) -> ModelAnswer:
        """Ask every network and combine.

        Raises what a network's boards refuse a part with, unless there is a `wait` and another part;
        ProtocolError.
        """
        image = self._image(call)
        under_way = _UnderWay(self, len(image))
        loop = asyncio.get_running_loop()
        began, pieces = loop.time(), list[Piece]()
        try:
            for network in self.rule.networks:
                part = replace(call, model=network, inputs={self.inputs[network]: image}, outputs=_PART, binary={})
                for piece in dispatcher.begin(part, wishes):
                    pieces.append(piece)
                    under_way.follow(network, piece)
            await under_way.enough(self.wait_s)
        finally:
            dispatcher.end(pieces)
        slo_ns = dispatcher.objective_ns(self.rule.networks, wishes)
        return self._answer(call, under_way, met=loop.time() - began <= slo_ns / 1e9)

    def _image(self, call: Call) -> Array:
        if set(call.inputs) != {self.takes.name}:
            raise ProtocolError(
                f"a request to '{self.name}' must have the input '{self.takes.name}', not {', '.join(call.inputs) or 'none'}"
            )
        names = [output.name for output in self.outputs]
        if odd := [name for name in call.outputs if name not in names]:
            raise ProtocolError(
                f"outputs of '{self.name}' must be among {', '.join(names)}, not {', '.join(odd)[:100]}"
            )
        image = call.inputs[self.takes.name]
        if not image.ndim or not len(image):
            raise ProtocolError("a request must have at least one sample, and it has none")
        return image

    def _answer(self, call: Call, under_way: _UnderWay, *, met: bool) -> ModelAnswer:
        tally = under_way.tally
        try:
            labels, scores = tally.labels, tally.scores
        except ValueError as error:  # a FleetError, of a rule of one's own
            raise HostError(str(error)) from error
        outputs: dict[str, Array] = {
            "label": labels.astype(np.int32),
            "score": scores.astype(np.float32),
            "total": tally.total,
            "parts": tally.parts.astype(np.int32),
            "exits": under_way.exits,
        }
        if self.class_names:
            outputs[CLASS_NAME] = names_of(labels, self.class_names)
        wanted = call.outputs or tuple(outputs)
        parameters: dict[str, Parameter] = {
            "rule": self.rule.name,
            "parts": int(tally.parts.min()),
            "of": len(self.rule.networks),
            "missing": ", ".join(tally.missing),
            "met": met,
            "board": ", ".join(under_way.boards),
        }
        return ModelAnswer(self.name, VERSION, call.id, {name: outputs[name] for name in wanted}, parameters)


@dataclass
class _UnderWay:
    """One request: the parts that have come, and what became of the others. `boards`: those that answered."""

    ensemble: Ensemble
    samples: int
    boards: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tally = self.ensemble.rule.tally(self.samples, self.ensemble.classes)
        self.exits = np.full((self.samples, len(self.ensemble.rule.networks)), -1, np.int32)
        self._open: dict[Piece, None] = {}
        self._error: BaseException | None = None
        self._came = asyncio.Event()

    def follow(self, network: str, piece: Piece) -> None:
        """Take the part of a piece when it comes."""
        self._open[piece] = None
        piece.future.add_done_callback(partial(self._done, network, piece))

    def _done(self, network: str, piece: Piece, future: asyncio.Future[ModelAnswer]) -> None:
        self._open.pop(piece, None)
        self._came.set()
        if future.cancelled():
            return
        error = future.exception()
        try:
            if error is not None:
                raise error
            self._take(network, piece, future.result())
        except Exception as error:
            self._error = self._error or error

    def _take(self, network: str, piece: Piece, answer: ModelAnswer) -> None:
        rule, outputs = self.ensemble.rule, answer.outputs
        place = rule.networks.index(network)
        stored = np.rint(np.ldexp(outputs["logits"].astype(np.float64), rule.fractions[place]))
        self.tally.add(network, piece.first, stored.astype(np.int64))  # exact where a scale is a power of two
        self.exits[piece.first : piece.first + piece.count, place] = outputs["exit"]
        for board in str(answer.parameters["board"]).split(", "):
            self.boards[board] = None

    async def enough(self, wait_s: float) -> None:
        """Wait for all parts, or after `wait_s` for one part of every sample. Raises the first error."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s if wait_s else None
        while self._open:
            if self._error is not None and until is None:
                break
            late = until is not None and loop.time() >= until
            if late and self.tally.parts.min() >= 1:
                return
            self._came.clear()
            left = None if late or until is None else until - loop.time()
            try:
                await asyncio.wait_for(self._came.wait(), left)
            except asyncio.TimeoutError:
                continue
        if self._error is not None and (not wait_s or self.tally.parts.min() < 1):
            raise self._error
        if self.tally.parts.min() < 1:
            raise HostError("an ensemble must have a part of every sample, and none came")


def _bits(program: Program) -> int:
    """Return the fraction bits of a program's finest logits."""
    return max(0, *(fraction_bits(exit_.scale) for exit_ in program.exits))


def fraction_bits(scale: float) -> int:
    """Return the fraction bits with which multiples of a scale are whole numbers.

    Where it is no power of two they are rounded to 1 / 2**SPARE_BITS of it, or finer.
    """
    mantissa, exponent = math.frexp(scale)
    return 1 - exponent + (SPARE_BITS if mantissa > 0.5 else 0)
