"""Open the layers of a resize: along each axis the outputs of one phase that weigh their inputs alike.

A resize is taken as rectangles of both axes at once, or along one axis and then along the other, whichever
takes fewer cycles (ADR 41, 67). Along an axis of one pixel all outputs are that pixel.

>>> resized(size=4, outputs=8, weights=Sampling(linear=True, coordinates="half_pixel").weights)[:2]
[AxisRun(phase=0, first=0, outputs=1, at=0, weights=(Fraction(1, 1),)), \
AxisRun(phase=0, first=1, outputs=3, at=-1, weights=(Fraction(1, 4), Fraction(3, 4)))]
>>> [(part.phases, part.outputs, len(part.runs)) for part in repeat(32, beside=32 * 32)]
[(1, 8, 1), (4, 32, 4)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import onnx

from ...errors import UnsupportedOperatorError
from ...graph.shapes import Kind, Pair
from ...tail.sampling import COORDINATES, ROUNDINGS, Sampling, exact_scale
from ..file import MOST_ELEMENTS, MOST_EXTENT, Attributes, refuse
from .drafts import Plane
from .refusals import misfit
from .upsampling import weave
from .view import AxisView
from .walk import Value, Walk

MOST_LAYERS = 256  # of one operator
MOST_AT_ONCE = 64  # for both axes together, which a file keeps as blocks of pixels
MOST_PHASES = 128  # along an axis
_LAYER = 2000  # words that a depthwise layer writes in the time that one more layer takes (measured, ADR 67)
_TAPS = 8  # of a depthwise layer that cost nothing beside its writes


class AxisRun(NamedTuple):
    """`outputs` of a phase of an axis, from its `first` on, that weigh the inputs from `at` on alike."""

    phase: int
    first: int
    outputs: int
    at: int
    weights: tuple[Fraction, ...]


_Weights = Callable[[int, int, int, Fraction], tuple[int, tuple[Fraction, ...]]]


def resized(
    *, size: int, outputs: int, weights: _Weights, scale: Fraction | None = None, rate: Fraction | None = None
) -> list[AxisRun]:
    """Part the outputs of a resize along an axis, as far as MOST_LAYERS.

    Output a * q + phase reads inputs b * q + at on, where b / a is the rate of inputs to outputs.
    """
    scale = Fraction(outputs, size) if scale is None else scale
    rate = 1 / scale if rate is None else rate
    runs: list[AxisRun] = []
    for phase in range(min(rate.denominator, outputs)):
        last: AxisRun | None = None
        for q, output in enumerate(range(phase, outputs, rate.denominator)):
            if len(runs) > MOST_LAYERS:
                return runs
            first, own = weights(output, size, outputs, scale)
            at = first - q * rate.numerator
            if last is not None and (last.at, last.weights) == (at, own):
                last = runs[-1] = last._replace(outputs=last.outputs + 1)
            else:
                last = AxisRun(phase, q, 1, at, own)
                runs.append(last)
    return runs


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass of layers along an axis: every `phases`-th output belongs to one phase.

    The windows of a phase's runs lie `stride` inputs apart.
    """

    outputs: int
    runs: Sequence[AxisRun]
    phases: int = 1
    stride: int = 1

    @classmethod
    def none(cls, size: int) -> Pass:
        """Leave an axis as it is."""
        return cls(outputs=size, runs=[AxisRun(0, 0, size, 0, (Fraction(1),))])

    @property
    def taps(self) -> int:
        """The largest number of inputs that an output reads."""
        return max(len(run.weights) for run in self.runs)


def repeat(outputs: int, beside: int) -> list[Pass]:
    """Return the passes that repeat the one pixel of an axis, for `beside` words across the axis.

    A window of n ones over one pixel among zeros gives it n times, with n taps; a phase gives it once for
    each pixel that there is, with one layer. So first some by a window, then each of them by phases.
    """

    def cost(passes: Sequence[Pass]) -> float:
        return sum(_cost(part, Pass.none(1), beside) for part in passes)

    return min((_repetition(outputs, phases) for phases in range(1, min(outputs, MOST_PHASES) + 1)), key=cost)


def _repetition(outputs: int, phases: int) -> list[Pass]:
    """Return the passes that repeat one pixel by a window and each pixel of that by a number of phases."""
    most = -(-outputs // phases)
    window = Pass(outputs=most, runs=[AxisRun(0, 0, most, 1 - most, (Fraction(1),) * most)])
    counts = [-(-(outputs - phase) // phases) for phase in range(phases)]
    runs = [AxisRun(phase, 0, count, 0, (Fraction(1),)) for phase, count in enumerate(counts)]
    last = Pass(outputs=outputs, runs=runs, phases=phases)
    return [part for part, needed in ((window, most > 1), (last, phases > 1)) if needed]


def _cost(rows: Pass, columns: Pass, channels: int) -> float:
    """Return the words that are written in the time that the layers of a pass take."""
    words = rows.outputs * columns.outputs * channels
    return words * max(1, rows.taps * columns.taps / _TAPS) + len(rows.runs) * len(columns.runs) * _LAYER


_Target = tuple[int, Fraction]  # outputs along an axis, and the scale


def _resize(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    sampling = _sampling(walk, node)
    resize(walk, node, source, sampling, _targets(walk, node, source))


def resize(
    walk: Walk, node: onnx.NodeProto, source: Value, sampling: Sampling, targets: tuple[_Target, _Target]
) -> None:
    """Give the value of a node's output: another, of the height and width of `targets`."""
    if any(source.pad):
        source = walk.settle(node, source)
    passes = _passes(node, source, sampling, targets)
    if not passes:
        walk.alias(node, source)
        return
    axes = source.window_axes
    for index, (rows, columns) in enumerate(passes):
        last = index == len(passes) - 1
        source = _resampled(walk, node, source, (rows, columns), node.output[0] if last else walk.aside(node, "part"))
    exclusive = walk.uses.get(node.output[0], 1) == 1
    view = AxisView.of(axes, (*source.plane.shape[:2], source.shape[2]), source.view.index)
    walk.put(node, replace(source, view=view, exclusive=exclusive))


def _passes(
    node: onnx.NodeProto, source: Value, sampling: Sampling, targets: tuple[_Target, _Target]
) -> list[tuple[Pass, Pass]]:
    """Return the passes over rows and columns of the form that takes the fewest cycles; none where nothing
    changes.
    """
    channels, size = source.shape[2], source.shape[:2]

    def along(axis: int, beside: int) -> list[Pass]:
        (outputs, scale), own = targets[axis], size[axis]
        if own == 1:
            return repeat(outputs, beside * channels) if outputs > 1 else []
        rate = Fraction(1) if outputs == 1 else sampling.rate(own, outputs, scale)
        if rate.denominator > MOST_PHASES:
            raise _irregular(node, MOST_PHASES, " along an axis")
        runs = resized(size=own, outputs=outputs, weights=sampling.weights, scale=scale, rate=rate)
        if rate == 1 and runs == Pass.none(own).runs:
            return []
        return [Pass(outputs=outputs, runs=runs, phases=rate.denominator, stride=rate.numerator)]

    def at_once(axis: int, passes: list[Pass]) -> list[Pass]:
        """Return the forms that are a single pass along an axis."""
        outputs = targets[axis][0]
        if size[axis] > 1 or outputs == 1:
            return passes
        forms = (_repetition(outputs, phases) for phases in (1, min(outputs, MOST_PHASES)))
        return [form[0] for form in forms if len(form) == 1]

    (height, _), (width, _) = targets
    rows, columns = along(0, size[1]), along(1, size[0])
    single = [(first, second) for first in at_once(0, rows) for second in at_once(1, columns)]
    single = [(first, second) for first, second in single if len(first.runs) * len(second.runs) <= MOST_AT_ONCE]
    if single and min(size) > 1:
        return single
    forms = [
        *([pair] for pair in single),
        [*((part, Pass.none(size[1])) for part in rows), *((Pass.none(height), part) for part in along(1, height))],
        [*((Pass.none(size[0]), part) for part in columns), *((part, Pass.none(width)) for part in along(0, width))],
    ]
    costs = [(sum(_cost(*pair, channels) for pair in form), index) for index, form in enumerate(forms)]
    best = forms[min(costs)[1]]
    if sum(len(first.runs) * len(second.runs) for first, second in best) > MOST_LAYERS:
        raise _irregular(node, MOST_LAYERS)
    return best


def _irregular(node: onnx.NodeProto, most: int, where: str = "") -> UnsupportedOperatorError:
    return misfit(
        node,
        f"needs more than {most} kinds of windows{where}",
        f"resize by a whole factor of at most {MOST_PHASES // 2}, nearest or bilinear with half_pixel or asymmetric "
        "coordinates, or do it on the host with the map that the network returns before it",
    )


def _sampling(walk: Walk, node: onnx.NodeProto) -> Sampling:
    """Return the sampling of a Resize or an Upsample. Raises UnsupportedOperatorError."""
    attributes = Attributes(node)
    mode = attributes.text("mode", "nearest")
    early = node.op_type == "Upsample" or walk.file.opset < 11
    coordinates = "asymmetric" if early else attributes.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if early else attributes.text("nearest_mode", "round_prefer_floor")
    odd = attributes.integer("antialias", 0) or attributes.integer("exclude_outside", 0)
    if mode not in ("nearest", "linear", "bilinear") or coordinates not in COORDINATES or odd:
        raise misfit(
            node,
            f"resizes with mode '{mode[:20]}' and coordinates '{coordinates[:30]}'" + (", antialiased" if odd else ""),
            "use nearest or bilinear without antialiasing, or do it on the host with the map that the network returns "
            "before it",
        )
    if rounding not in ROUNDINGS:
        raise refuse(node, f"must have a nearest_mode of {', '.join(ROUNDINGS)}, not '{rounding[:30]}'")
    return Sampling(linear=mode != "nearest", coordinates=coordinates, rounding=rounding)


def _targets(walk: Walk, node: onnx.NodeProto, source: Value) -> tuple[_Target, _Target]:
    """Return for height and width the outputs and the scale. Raises ModelFileError or
    UnsupportedOperatorError.
    """
    attributes, have = Attributes(node), source.onnx_shape
    early = node.op_type == "Upsample" or walk.file.opset < 11
    given = walk.optional(node, 1 if early else 2)
    sizes = None if early else walk.optional(node, 3)
    if given is None and node.op_type == "Upsample":
        numbers = attributes.numbers("scales")
        given = None if numbers is None else np.array(numbers, np.float32)
    axes = attributes.ints("axes")
    named = sizes if sizes is not None and sizes.size else given
    if named is None or not named.size:
        raise refuse(node, "must have scales or sizes as constants")
    by_size = named is sizes
    values = [float(value) for value in named.reshape(-1)]
    full = [0.0 if by_size else 1.0, *([float(value) for value in have] if by_size else [1.0] * len(have))]
    places = range(len(full)) if axes is None else [axis % len(full) for axis in axes]
    if len(values) != len(places) or not all(math.isfinite(value) for value in values):
        raise refuse(node, f"must have a number for each of its {len(places)} axes, and {len(values)} came")
    for place, value in zip(places, values, strict=True):
        full[place] = value
    if attributes.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise misfit(node, "keeps the aspect ratio", "give the scales or sizes themselves")
    if full[1] != (have[0] if by_size else 1) or not (by_size or full[0] == 1):
        raise misfit(node, "resizes the batch or the channels", "resize height and width alone")
    targets = []
    for size, value in zip(have[1:], full[2:], strict=True):
        outputs = int(value) if by_size else math.floor(size * value)
        if not 1 <= outputs <= MOST_EXTENT or value <= 0:
            raise refuse(node, f"must have an output of sizes 1..{MOST_EXTENT}, not {outputs}")
        targets.append((outputs, Fraction(outputs, size) if by_size else exact_scale(value)))
    one_to_one = (1, Fraction(1))
    if len(targets) == 1:
        targets = [targets[0], one_to_one] if source.upright else [one_to_one, targets[0]]
    if targets[0][0] * targets[1][0] * source.shape[2] > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values")
    return targets[0], targets[1]


def _resampled(walk: Walk, node: onnx.NodeProto, source: Value, axes: tuple[Pass, Pass], name: str) -> Value:
    """Open a depthwise layer for each rectangle of each phase. What is still to be multiplied stays to be."""
    pending = (source.factor, source.shift)
    plain, first, order = walk.per_channel(node, replace(source, factor=None, shift=None))
    channels, made = plain.shape[2], {}
    step, stride = (axes[0].phases, axes[1].phases), (axes[0].stride, axes[1].stride)
    shape = (axes[0].outputs, axes[1].outputs, channels)
    for rows in axes[0].runs:
        for columns in axes[1].runs:
            phase = (rows.phase, columns.phase)
            if phase not in made:
                size = tuple(-(-(shape[axis] - phase[axis]) // step[axis]) for axis in (0, 1))
                made[phase] = Plane(name=name, shape=(size[0], size[1], channels))
            weights = np.array([[float(r * c) for c in columns.weights] for r in rows.weights], np.float32)
            sides = [_borders(plain.shape[axis], run, stride[axis]) for axis, run in enumerate((rows, columns))]
            draft = walk.draft(
                node,
                plain,
                made[phase],
                kind=Kind.GEMM,
                channels=channels,
                first=first,
                reads=channels,
                groups=channels,
                kernel=weights.shape,
                stride=stride,
                padding=(sides[0][0], sides[1][0], sides[0][1], sides[1][1]),
                at=(rows.first, columns.first),
                weights=np.tile(weights, (channels, 1, 1, 1)),
                bias=np.zeros(channels, np.float32),
            )
            if plain.plane.non_negative:  # changes no value, and tells a padded pool behind it
                draft.clip = (0.0, None)
    plane = weave(name, [(piece, at) for at, piece in made.items()], shape, step)
    view = AxisView.of(("c", "h", "w"), shape, np.argsort(order))
    return Value(plane=plane, view=view, exclusive=True, factor=pending[0], shift=pending[1])


def _borders(size: int, run: AxisRun, stride: int) -> Pair:
    """Return the rows or columns before and behind an input, negative where they are left out.

    Around one pixel lie zeros, which a window of ones reads beside it. Otherwise a run reads inputs alone.
    """
    begin = -(run.first * stride + run.at)
    end = (run.outputs - 1) * stride + len(run.weights) - begin - size
    assert size == 1 or max(begin, end) <= 0, (size, run, stride)
    return begin, end


RESIZING_OPERATORS: dict[str, Callable[[Walk, onnx.NodeProto], Any]] = {"Resize": _resize, "Upsample": _resize}
