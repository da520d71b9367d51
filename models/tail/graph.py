"""The host tail of a network: operators that run on the host, sample by sample, on what the NPU gives.

Knows nothing of ONNX files: `models/onnx/reading/tails.py` reads them into it, `stored.py` writes it down.

>>> import numpy as np
>>> tail = Tail(
...     opset=17,
...     inputs=("heat",),
...     nodes=(TailNode("ArgMax", ("heat",), ("map",), {"axis": 1, "keepdims": 0}),),
...     outputs=(TailOutput("map", "int64", (1, 1, 2)),),
... )
>>> tail.run({"heat": np.array([[[[0, 5]], [[3, 4]]]], np.float32)})["map"].tolist()
[[[1, 0]]]
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import TailError
from .boxes import BOXES
from .call import Array, Operator, OperatorCall
from .layout import LAYOUT
from .pointwise import POINTWISE
from .recurrent import RECURRENT
from .reductions import REDUCTIONS, macs_of
from .resizing import RESIZING

OPERATORS: Mapping[str, Operator] = {**POINTWISE, **LAYOUT, **REDUCTIONS, **RESIZING, **RECURRENT, **BOXES}
ROWS = ".rows"  # follows the name of an output of so many rows a sample


@dataclass(frozen=True)
class TailNode:
    """One operator with the names of what it reads ("" where left out) and gives."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class TailOutput:
    """An output as the user's model has it.

    `shape` is that for one sample, -1 for a size that its data decide.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def batched(self) -> bool:
        """True if samples lie along its first axis, one each; else that has the rows of one sample."""
        return bool(self.shape) and self.shape[0] == 1

    @property
    def joinable(self) -> bool:
        """True if the outputs of several samples make one array."""
        return -1 not in self.shape[1:]

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row: that behind the first axis, where there is one."""
        return self.shape[1:]


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The part that runs on the host: nodes in order, constants by name, and the user's outputs.

    `inputs` are the names of outputs of the network, each with the batch of one in front. An output may be an
    input, untouched. Raises TailError for a graph that does not hold together.
    """

    opset: int
    inputs: tuple[str, ...]
    nodes: tuple[TailNode, ...]
    outputs: tuple[TailOutput, ...]
    constants: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        available = {*self.inputs, *self.constants, ""}
        for node in self.nodes:
            if node.operator not in OPERATORS:
                raise TailError(
                    f"a node of a tail must be one of its {len(OPERATORS)} operators, not '{node.operator}'"
                )
            if missing := [name for name in node.inputs if name not in available]:
                raise TailError(f"'{node.operator}' of a tail must read what is there before it, not '{missing[0]}'")
            if twice := available.intersection(node.outputs) - {""}:
                raise TailError(f"a value of a tail must be written once, and '{min(twice)}' is written twice")
            available.update(node.outputs)
        if lost := [output.name for output in self.outputs if output.name not in available]:
            raise TailError(f"an output of a tail must be computed in it, and '{lost[0]}' is not")
        names = [
            name
            for output in self.outputs
            for name in ((output.name,) if output.batched else (output.name, output.name + ROWS))
        ]
        if "" in names or len(set(names)) < len(names):
            raise TailError(f"each output of a tail, and its rows, must have a name of its own, not {str(names)[:80]}")

    @cached_property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """The inputs that each output depends on, by its name."""
        needs = {name: frozenset([name]) for name in self.inputs}
        for node in self.nodes:
            read = frozenset().union(*(needs.get(name, frozenset()) for name in node.inputs))
            needs |= dict.fromkeys(node.outputs, read)
        return {output.name: needs.get(output.name, frozenset()) for output in self.outputs}

    def run(self, values: Mapping[str, Array], names: Collection[str] | None = None) -> dict[str, Array]:
        """Return the outputs of one sample whose inputs are there, in the user's types; `names`: those alone.

        `values` are inputs (1, ...), with the batch of one in front. Raises TailError where an operator
        fails.
        """
        wanted = [output for output in self.chosen(names) if self.needs[output.name] <= values.keys()]
        made = self.made(values, {output.name for output in wanted})
        return {output.name: made[output.name] for output in wanted}

    def each(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """Return what `run` gives of each sample; `outputs` are the network's, (N, *shape), by name.

        It is the way from the outputs of `run_float_outputs`, or of the golden model in real values, to the
        user's.
        """
        count = min((len(outputs[name]) for name in self.inputs), default=0)
        return [self.run({name: outputs[name][at : at + 1] for name in self.inputs}) for at in range(count)]

    def made(self, values: Mapping[str, Array], wanted: Collection[str], work: Work | None = None) -> dict[str, Array]:
        """Return all values that are wanted, and count `work`; others are forgotten when they were read.

        `values` are inputs (1, ...), with the batch of one in front.
        """
        nodes = self._needed(wanted)
        left: dict[str, int] = {}
        for node in nodes:
            for name in node.inputs:
                left[name] = left.get(name, 0) + 1
        made = {**self.constants, **values}
        for node in nodes:
            made.update(zip(node.outputs, evaluate(node, made, self.opset, work), strict=False))
            for name in node.inputs:
                left[name] -= 1
                if not left[name] and name not in wanted:
                    made.pop(name, None)
        return made

    def _needed(self, wanted: Collection[str]) -> list[TailNode]:
        needed, nodes = set(wanted), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                nodes.append(node)
        return nodes[::-1]

    def chosen(self, names: Collection[str] | None) -> list[TailOutput]:
        """Return all outputs, or those that are named themselves or by their rows."""
        return [
            output
            for output in self.outputs
            if names is None or not {output.name, output.name + ROWS}.isdisjoint(names)
        ]

    def joined(self, samples: Sequence[Mapping[str, Array]], names: Collection[str] | None = None) -> dict[str, Array]:
        """Return the outputs of several samples as one array each, from what `run` gives of each.

        An output of one row a sample has them along its first axis; where a sample lacks it, NaN, -1, or the
        largest of unsigned numbers. Of any other the rows of all samples follow one another, and
        `{name}.rows` int64 (samples,) counts each sample's. Raises TailError where samples do not make one
        array.
        """
        made = {}
        for output in self.chosen(names):
            parts = [
                np.atleast_1d(sample[output.name] if output.name in sample else _lacking(output)) for sample in samples
            ]
            if len({part.shape[1:] for part in parts}) > 1:
                raise TailError(
                    f"output '{output.name}' has another shape for each sample, so a request must hold one sample, not {len(samples)}"
                )
            made[output.name] = np.concatenate(parts)
            if not output.batched:
                made[output.name + ROWS] = np.array([len(part) for part in parts], np.int64)
        return made

    def drawn(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """Return drawn numbers for the inputs of one sample; `shapes` of the outputs of the network.

        They are mostly below zero, as of a detector that finds little: few boxes then meet a score.
        """
        rng = np.random.default_rng(0)
        return {name: rng.normal(-3, 1, (1, *shapes[name])).astype(np.float32) for name in self.inputs}

    def work(self, values: Mapping[str, Array]) -> Work:
        """Return what one sample takes the host, by running it on inputs (1, ...)."""
        work = Work()
        self.made(values, {output.name for output in self.outputs}, work)
        return work


@dataclass(kw_only=True)
class Work:
    """The work of one sample: operators, values that they make, multiply-accumulates; and its limits."""

    nodes: int = 0
    values: int = 0
    macs: int = 0
    most_values: int | None = None
    most_macs: int | None = None

    def add(self, macs: int = 0, values: int = 0) -> None:
        """Count more work. Raises TailError where it is more than allowed."""
        self.macs, self.values = self.macs + macs, self.values + values
        for what, count, most in (("values", self.values, self.most_values), ("MACs", self.macs, self.most_macs)):
            if most is not None and count > most:
                raise TailError(f"a tail must take at most {most} {what}, and it takes {count} or more")


def evaluate(node: TailNode, values: Mapping[str, Array], opset: int, work: Work | None = None) -> tuple[Array, ...]:
    """Return what a node gives for known values, each in its shape, and count its `work` before it is done.

    Raises TailError of one sentence.
    """
    call = OperatorCall(
        [values[name] if name else None for name in node.inputs], node.attributes, opset, len(node.outputs)
    )
    try:
        if work is not None:
            work.nodes += 1
            work.add(macs=macs_of(node.operator, call))
        with np.errstate(all="ignore"):
            made = OPERATORS[node.operator](call)
    except TailError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError, ZeroDivisionError) as error:
        shapes = ", ".join(str(array.shape) for array in call.inputs if array is not None)
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise TailError(
            f"'{node.operator}' for '{next(iter(node.outputs), '')}' must fit what it reads ({shapes}), and it fails: {reason}"
        ) from None
    given = made if isinstance(made, tuple) else (made,)
    if any(node.outputs[len(given) :]):
        raise TailError(f"'{node.operator}' must give {len(given)} outputs here, not {len(node.outputs)}")
    if work is not None:
        work.add(values=sum(array.size for array in given))
    return given


def _lacking(output: TailOutput) -> Array:
    """Return what stands where a sample has no value: one row of what is no value of the type, or no rows."""
    kind = np.dtype(output.dtype).kind
    nothing = math.nan if kind == "f" else -1 if kind == "i" else np.iinfo(output.dtype).max if kind == "u" else False
    shape = [1 if output.batched else 0, *(max(0, size) for size in output.row)]
    return np.full(shape, nothing, output.dtype)
