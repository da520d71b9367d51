"""Sums and products of two activations: the residual of a layer, which the core adds or the activation unit
multiplies (ADR 69).

An operand of one pixel, as a squeeze-and-excitation gate, is repeated for the map; one of one channel, as a
spatial gate, for all channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx

from ...errors import UnsupportedOperatorError
from ...graph.activations import Activation, Use
from ...graph.shapes import Kind
from ..file import label
from .branches import branch, merge
from .refusals import NO_PRODUCT
from .walk import Value, Walk


def add_two(walk: Walk, node: onnx.NodeProto, first: Value, second: Value) -> Value:
    """Fold a sum into the layer that writes one operand and has no other reader; else into a copy of one."""
    if not _alike(first, second):
        first, second, repeated = _ordered(node, first, second)
        into = first if _open(first) else walk.copy(node, first)
        return _beside(walk, node, into, _without_gain(walk, node, second), repeated)
    merged = _one_convolution(walk, first, second)
    if merged is not None:
        return merged
    into, other = (second, first) if second.plane.gain != 1.0 else (first, second)
    if _open(first):
        into, other = first, second
    elif _open(second):
        into, other = second, first
    else:
        into = walk.copy(node, into)
    start = _residual_start(into, other)
    if start is None:
        into, other = (value if value.ordered else walk.gathered(node, value) for value in (into, other))
        into = into if _open(into) else walk.copy(node, into)
        start = int(other.view.index[0])
    if other.plane.gain != 1.0 and into.plane.inside is None and all(writer.open for writer in into.plane.writers):
        into.plane.gain = other.plane.gain  # its convolutions take it into their weights
    elif other.plane.gain != into.plane.gain:
        other = walk.copy(node, other)
        start = _residual_start(into, other)
    assert start is not None
    return _taking(into, other, start)


def multiply(walk: Walk, node: onnx.NodeProto, first: Value, second: Value) -> Value:
    """Multiply in the activation unit: behind the layer that writes one operand and has no other reader, else
    in a pass over one.
    """
    product = Activation(use=Use.PRODUCT)
    if _alike(first, second):
        repeated = Repeated(pixel=False, channel=False)
        into, other = (second, first) if _ends_alone(second) and not _ends_alone(first) else (first, second)
    else:
        into, other, repeated = _ordered(node, first, second)
    into = into if _ends_alone(into) else walk.copy(node, into)
    other = _without_gain(walk, node, other)
    return _beside(walk, node, into, other, repeated, product)


class Repeated(NamedTuple):
    """The repetition of an operand: of its only pixel for the map, of its only channel for all channels."""

    pixel: bool
    channel: bool


def _alike(first: Value, second: Value) -> bool:
    """True for two values of one shape whose axes are the same."""
    return first.onnx_shape == second.onnx_shape and _places(first) == _places(second)


def _ordered(node: onnx.NodeProto, first: Value, second: Value) -> tuple[Value, Value, Repeated]:
    """Return the larger of two operands, the other, and what of it is repeated; refuse any other two."""
    for large, small in ((first, second), (second, first)):
        repeated = _repeated(large, small)
        if repeated is not None:
            return large, small, repeated
    raise UnsupportedOperatorError(
        label(node), node.op_type, f"combines {first.onnx_shape} and {second.onnx_shape}", NO_PRODUCT
    )


def _repeated(large: Value, small: Value) -> Repeated | None:
    """Return what of a value is repeated beside a larger one; None where it is another repetition."""
    if len(large.view.axes) != len(small.view.axes) or not (large.settled and small.settled):
        return None
    kinds = {"c": set[bool](), "p": set[bool]()}
    for ours, theirs, size, other in zip(
        large.view.axes, small.view.axes, large.onnx_shape, small.onnx_shape, strict=True
    ):
        tokens = {"c" if token == "c" else "p" for token in ours}
        if other not in (1, size) or len(tokens) > 1 or (other > 1 and ours.strip("c") != theirs.strip("c")):
            return None
        for token in tokens:
            kinds[token].add(other == 1)
    if len(kinds["c"]) > 1 or len(kinds["p"]) > 1:  # rows or columns alone
        return None
    return Repeated(pixel=kinds["p"] == {True}, channel=kinds["c"] == {True})


def _without_gain(walk: Walk, node: onnx.NodeProto, value: Value) -> Value:
    return value if value.plane.gain == 1.0 else walk.copy(node, value)


def _ends_alone(value: Value) -> bool:
    """True if nothing else reads a value, and the activation unit may still end each layer that writes it."""
    plane = value.plane
    fits = value.foldable and plane.gain == 1.0
    return fits and all(
        (writer.kind is Kind.GEMM or writer.is_pass)
        and writer.residual is None
        and writer.activation is None
        and writer.channels == plane.shape[2]
        for writer in plane.writers
    )


def _beside(
    walk: Walk, node: onnx.NodeProto, into: Value, other: Value, repeated: Repeated, product: Activation | None = None
) -> Value:
    """Let the layers of a value add another, or multiply by it, whose pixel or channel may be repeated."""
    into = into if into.plane.gain == 1.0 else walk.copy(node, into)
    start = int(other.view.index[0]) if repeated.channel else _residual_start(into, other)
    if start is None:
        into, other = (value if value.ordered else walk.gathered(node, value) for value in (into, other))
        free = _ends_alone(into) if product else _open(into)
        into, start = into if free else walk.copy(node, into), int(other.view.index[0])
    return _taking(into, other, start, repeated, product)


def _taking(
    into: Value,
    other: Value,
    start: int,
    repeated: Repeated = Repeated(pixel=False, channel=False),  # noqa: B008 -- it cannot change
    product: Activation | None = None,
) -> Value:
    """Give the layers that write a value a residual, from a channel of its plane on."""
    for draft in into.plane.writers:
        place = draft.output.within(into.plane)
        draft.residual, draft.residual_first, draft.residual_spread = other.plane, start, repeated.channel
        draft.residual_at, draft.residual_step = place.of(draft.at), place.step
        if repeated.pixel:
            draft.residual_at, draft.residual_step = (0, 0), (0, 0)
        positive = draft.non_negative and other.plane.non_negative
        if product is not None:
            draft.activate(product)
        draft.passes_sign = positive
    return replace(into, exclusive=True)


def _one_convolution(walk: Walk, first: Value, second: Value) -> Value | None:
    """Return the sum of two convolutions of one input as the larger of them, or None where it is no such
    sum.
    """
    ours, theirs = branch(first), branch(second)
    if ours is None or theirs is None or ours is theirs:
        return None
    if (ours.residual is not None, ours.layer().shape.macs) < (theirs.residual is not None, theirs.layer().shape.macs):
        first, second, ours, theirs = second, first, theirs, ours
    if not merge(ours, theirs, second.view.index[np.argsort(first.view.index)]):
        return None
    walk.drafts.remove(theirs)
    return replace(first, exclusive=True)


def _places(value: Value) -> tuple[str, ...]:
    """Return where height and width stand among a value's axes."""
    return tuple(axis.strip("c") if not value.view.holds(i, "") else "" for i, axis in enumerate(value.view.axes))


def _residual_start(into: Value, other: Value) -> int | None:
    """Return the first channel to add of the other's plane when it has the order of the writer's; else
    None.
    """
    place = np.argsort(into.view.index)  # the value's channel at each place of the plane that is written
    added = other.view.index[place]
    return int(added[0]) if np.array_equal(added, added[0] + np.arange(added.size)) else None


def _open(value: Value) -> bool:
    """True if nothing else reads a value, and each layer that writes it writes all channels of some pixels
    and still takes a residual.
    """
    plane = value.plane
    return value.foldable and all(
        writer.takes_residual and writer.channels == plane.shape[2] for writer in plane.writers
    )
