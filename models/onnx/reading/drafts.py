"""Drafts of layers: an ONNX walk folds nodes into them, and `build_network` makes the `Network`.

Knows nothing of ONNX nodes. A plane is a stored tensor, or a part of another plane; a draft writes one, or a
rectangle of one. An operation that cannot be folded into an existing draft becomes a layer of its own that
scales, clips, adds or moves it: correct on any network, one more layer. Where nothing is moved that is a pass
through the activation unit (ADR 69), else a 1x1 depthwise convolution.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import NetworkError
from ...graph.activations import FUNCTIONS, Activation, Use
from ...graph.network import Exit, Layer, Network, Parameters
from ...graph.outputs import Output
from ...graph.shapes import Kind, Pair, Shape
from ...graph.stages import stages_of, with_outputs

Array = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Clip = tuple[float | None, float | None]
Padding = tuple[int, int, int, int]
NO_PADDING: Padding = (0, 0, 0, 0)


@dataclass(eq=False, kw_only=True)
class Plane:
    """A tensor with its writers and its average-pool gain.

    A concatenation has the planes of its pieces inside, so that nothing is copied and a piece that is read
    elsewhere, too, is read there. `sealed`: some writer's values are read under another name, so what follows
    cannot be folded into the writers.
    """

    name: str
    shape: Shape
    gain: float = 1.0
    own: list[Draft] = field(default_factory=list)
    pieces: list[Plane] = field(default_factory=list)
    inside: Plane | None = None
    at: tuple[int, int, int] = (0, 0, 0)  # row, column and channel in the plane that it is inside of
    step: Pair = (1, 1)  # rows and columns of that plane from a pixel to the next
    sealed: bool = False
    depth: int = 0  # of planes inside planes
    aliases: list[str] = field(default_factory=list)  # other ONNX names of the same values

    @property
    def writers(self) -> list[Draft]:
        """The drafts that write the plane or a piece of it."""
        return [*self.own, *(writer for piece in self.pieces for writer in piece.writers)]

    @property
    def non_negative(self) -> bool:
        """True if no writer of the plane can write a negative value."""
        return bool(self.writers) and all(writer.non_negative for writer in self.writers)

    def within_clip(self, clip: Clip) -> bool:
        """True if no value of the plane can lie outside a clip."""
        low, high = clip
        if high is None and low is not None and low <= 0 and self.non_negative:
            return True
        done = [writer.bounds for writer in self.writers]
        zero = (low is None or low <= 0) and (high is None or high >= 0)  # what no layer writes
        return bool(done) and (zero or self.whole) and all(compose(earlier, clip) == earlier for earlier in done)

    @property
    def whole(self) -> bool:
        """True if layers write every value of the plane, so that none is a zero of the memory."""
        return sum(math.prod(draft.layer().out_hw) * draft.channels for draft in self.writers) == math.prod(self.shape)

    def root(self) -> tuple[Plane, tuple[int, int, int]]:
        """Return the tensor that the plane lies in, and its row, column and channel there."""
        place = self.within(None)
        return place.plane, (*place.at, place.channel)

    def within(self, outer: Plane | None) -> PlanePlace:
        """Return the place of the plane in one that it lies in, or with None in its tensor."""
        plane, at, channel, step = self, (0, 0), 0, (1, 1)
        while plane is not outer and plane.inside is not None:
            (down, right), (row, column, first) = plane.step, plane.at
            at = (row + at[0] * down, column + at[1] * right)
            channel, step = channel + first, (step[0] * down, step[1] * right)
            plane = plane.inside
        return PlanePlace(plane=plane, at=at, channel=channel, step=step)

    def put(self, piece: Plane, at: tuple[int, int, int], step: Pair = (1, 1)) -> None:
        """Let a plane lie inside this one from a row, column and channel on, its pixels `step` apart."""
        piece.inside, piece.at, piece.step = self, at, step
        self.pieces.append(piece)
        self.sealed |= piece.sealed

    def channel_of(self, draft: Draft) -> int:
        """Return the first channel that one of the plane's writers writes of it."""
        return draft.output.root()[1][2] - self.root()[1][2]


class PlanePlace(NamedTuple):
    """The place of a plane in another: row and column of its first pixel, channel, distance of its pixels."""

    plane: Plane
    at: Pair
    channel: int
    step: Pair

    def of(self, at: Pair) -> Pair:
        """Return the row and column of a pixel of the inner plane."""
        return self.at[0] + at[0] * self.step[0], self.at[1] + at[1] * self.step[1]


@dataclass(eq=False, kw_only=True)
class Draft:
    """One layer; weights are OIHW as in ONNX."""

    name: str
    kind: Kind
    input: Plane
    output: Plane
    sole_reader: bool  # of its input: what follows may be pushed up into the input's writers
    channels: int
    reads: int  # channels of the input from `first` on
    first: int = 0
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING
    groups: int = 1
    at: Pair = (0, 0)  # row and column of the output where it begins
    weights: Array | None = None
    bias: Array | None = None
    clip: Clip = (None, None)
    residual: Plane | None = None
    residual_first: int = 0
    residual_at: Pair = (0, 0)
    residual_step: Pair = (1, 1)
    residual_spread: bool = False
    activation: Activation | None = None
    slopes: Array | None = None
    offsets: Array | None = None
    passes_sign: bool = False
    passed: Clip = (None, None)  # of a max pool: what all its inputs have been clipped to already

    @property
    def non_negative(self) -> bool:
        """True if its output is known not to be negative."""
        low = self.clip[0] if self.activation is None else self.activation.bounds[0]
        return self.passes_sign or (low is not None and low >= 0)

    @property
    def bounds(self) -> Clip:
        """The bounds that no output of the draft exceeds."""
        if self.activation is not None:
            return self.activation.bounds
        return self.passed if self.selects else self.clip

    @property
    def is_pass(self) -> bool:
        """True for a pool of one tap, which takes values through the activation unit or adds to them."""
        return self.kind is Kind.MAX_POOL and self.kernel == self.stride == (1, 1)

    @property
    def selects(self) -> bool:
        """True for a max pool each of whose outputs is one of its inputs."""
        return self.kind is Kind.MAX_POOL and not self.is_pass and self.activation is None

    @property
    def open(self) -> bool:
        """True while the draft holds sums only: weights, bias and a residual may still be folded in."""
        return self.kind is Kind.GEMM and self.takes_residual

    @property
    def takes_residual(self) -> bool:
        """True while a residual may still be added to what the draft makes."""
        own = self.kind is Kind.GEMM or self.is_pass
        return own and self.clip == (None, None) and self.residual is None and self.activation is None

    def activate(self, activation: Activation, slopes: Doubles | None = None, offsets: Doubles | None = None) -> None:
        """Let the activation unit end the draft, which has none yet; its lines are in double precision.

        Slopes and offsets are (channels,).
        """
        keeps = FUNCTIONS[activation.function].keeps_sign if activation.use is Use.TABLE else False
        rises = slopes is not None and bool((slopes >= 0).all()) and (offsets is None or bool((offsets >= 0).all()))
        self.passes_sign = self.non_negative and (keeps or rises or activation.use is Use.SLOPE)
        self.activation = activation
        with np.errstate(all="ignore"):  # what is not finite is refused by name in `parameters`
            self.slopes = None if slopes is None else slopes.astype(np.float32)
            self.offsets = None if offsets is None else offsets.astype(np.float32)

    def convolution(self) -> Draft | None:
        """Return the draft as a convolution that may become another, or None.

        A pass of lines is depthwise.
        """
        if self.clip != (None, None) or (self.is_pass and self.residual is not None):
            return None
        if self.kind is Kind.GEMM:
            return self if self.activation is None else None
        if not self.is_pass or self.activation not in (None, Activation(use=Use.AFFINE)):
            return None
        ones, zeros = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)
        return replace(
            self,
            kind=Kind.GEMM,
            groups=self.channels,
            weights=(ones if self.slopes is None else self.slopes)[:, None, None, None],
            bias=zeros if self.offsets is None else self.offsets,
            activation=None,
            slopes=None,
            offsets=None,
        )

    def sources(self) -> list[Plane]:
        """Return the planes it needs."""
        return [self.input] if self.residual is None else [self.input, self.residual]

    def layer(self, stage: int = 0) -> Layer:
        """Return the draft as a Layer of the network.

        Raises NetworkError where it reads pixels that are not neighbours.
        """
        source, target = self.input.within(None), self.output.within(None)
        added = None if self.residual is None else self.residual.within(None)
        if source.step != (1, 1):  # no value lies so
            raise NetworkError(f"layer '{self.name}' must read neighbouring pixels, and they lie {source.step} apart")
        return Layer(
            name=self.name,
            kind=self.kind,
            input=source.plane.name,
            output=target.plane.name,
            channels=self.channels,
            input_channel=source.channel + self.first,
            input_pixel=None if source.plane.shape[2] == self.reads else source.plane.shape[2],
            output_channel=target.channel,
            output_at=target.of(self.at),
            output_step=target.step,
            residual=None if added is None else added.plane.name,
            residual_channel=0 if added is None else added.channel + self.residual_first,
            residual_at=(0, 0) if added is None else added.of(self.residual_at),
            residual_step=(1, 1) if added is None else times(added.step, self.residual_step),
            residual_spread=self.residual_spread,
            in_shape=(*self.input.shape[:2], self.reads),
            kernel=self.kernel,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            groups=self.groups,
            clip=self.clip,
            activation=self.activation,
            stage=stage,
        )

    def parameters(self) -> Parameters | None:
        """Return weights in the network's order (groups, P, C / groups), bias, slopes and offsets.

        None where the draft has none of these. Raises NetworkError where a value is not finite.
        """
        lines = {key: array for key, array in (("slopes", self.slopes), ("offsets", self.offsets)) if array is not None}
        if not all(np.isfinite(array).all() for array in lines.values()):
            raise NetworkError(f"the slopes and offsets of layer '{self.name}' must be finite, and they are not")
        if self.kind is not Kind.GEMM:
            return Parameters(**lines) if lines else None
        assert self.weights is not None
        assert self.bias is not None
        out, per_group = self.weights.shape[:2]
        split = self.weights.reshape(self.groups, out // self.groups, per_group, *self.kernel)
        weights = np.ascontiguousarray(split.transpose(0, 3, 4, 2, 1)).reshape(self.groups, -1, out // self.groups)
        if not (np.isfinite(weights).all() and np.isfinite(self.bias).all()):
            raise NetworkError(f"the weights of layer '{self.name}' must be finite once folded, and they are not")
        return Parameters(weights=weights, bias=self.bias, **lines)

    def scale(self, factor: Doubles, shift: Doubles) -> None:
        """Fold y * factor + shift, both (channels,) of this draft's output, in double precision."""
        assert self.weights is not None
        assert self.bias is not None
        with np.errstate(all="ignore"):  # what is not finite is refused by name in `parameters`
            self.weights = (self.weights * factor[:, None, None, None]).astype(np.float32)
            self.bias = (self.bias * factor + shift).astype(np.float32)

    def permute(self, order: npt.NDArray[np.int64]) -> None:
        """Let output channel i be what channel order[i] was; `order` is (channels,)."""
        for name in ("weights", "bias", "slopes", "offsets"):
            array: Array | None = getattr(self, name)
            setattr(self, name, None if array is None else array[order])


def times(first: Pair, second: Pair) -> Pair:
    """Return the products of two pairs."""
    return first[0] * second[0], first[1] * second[1]


def plain(name: str) -> str:
    """Return a name that generated text can carry: letters, digits and ._/:- only, at most 120 of them.

    >>> plain("/a/Conv_0"), plain("*/ int x;")
    ('/a/Conv_0', '_/_int_x_')
    """
    return re.sub(r"[^A-Za-z0-9._/:-]+", "_", name)[:120] or "_"


def compose(first: Clip, second: Clip) -> Clip:
    """Return the clip that equals `first` followed by `second`.

    >>> compose((0.0, None), (None, 6.0)), compose((0.0, 1.0), (2.0, 3.0))
    ((0.0, 6.0), (2.0, 2.0))
    """

    def bounded(value: float | None) -> float | None:
        if value is None:
            return None
        low, high = second
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)

    return (
        second[0] if first[0] is None else bounded(first[0]),
        second[1] if first[1] is None else bounded(first[1]),
    )


def clip_targets(plane: Plane, clip: Clip) -> list[Draft] | None:
    """Return the drafts that a clip of this plane can be folded into, or None.

    A max pool is monotone, so the clip moves up into its writers, unless it came that way before.
    """
    targets, stack = [], list(plane.writers)
    if not stack or plane.sealed or not plane.whole:
        return None
    while stack:
        draft = stack.pop()
        targets.append(draft)
        if draft.selects and compose(draft.passed, clip) != draft.passed:
            above = draft.input
            if not draft.sole_reader or not above.writers or above.sealed or not above.whole:
                return None
            stack += draft.input.writers
    return targets


def apply_clip(targets: Iterable[Draft], clip: Clip) -> None:
    """Fold a clip into the drafts `clip_targets` found."""
    low, high = clip
    for draft in targets:
        harmless = draft.passes_sign and clip == (0.0, None)
        if draft.activation is not None:
            draft.activation = replace(draft.activation, clip=compose(draft.activation.clip, clip))
        elif draft.selects:
            draft.passed = compose(draft.passed, clip)
        elif not harmless:
            draft.clip = compose(draft.clip, clip)
        draft.passes_sign = (low is not None and low >= 0) or (draft.passes_sign and (high is None or high >= 0))


def _needed(plane: Plane) -> set[Draft]:
    behind: set[Draft] = set()
    stack = list(plane.writers)
    while stack:
        draft = stack.pop()
        if draft not in behind:
            behind.add(draft)
            stack += [writer for read in draft.sources() for writer in read.writers]
    return behind


def execution_order(drafts: Sequence[Draft]) -> list[Draft]:
    """Order drafts so that every plane is written before it is read, otherwise as they were made."""
    rank = {draft: index for index, draft in enumerate(drafts)}
    waits = {draft: {writer for plane in draft.sources() for writer in plane.writers} for draft in drafts}
    feeds: dict[Draft, list[Draft]] = defaultdict(list)
    for draft, sources in waits.items():
        for source in sources:
            feeds[source].append(draft)
    missing = {draft: len(sources) for draft, sources in waits.items()}
    ready = [rank[draft] for draft in drafts if not missing[draft]]
    heapq.heapify(ready)
    order = []
    while ready:
        draft = drafts[heapq.heappop(ready)]
        order.append(draft)
        for follower in feeds[draft]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, rank[follower])
    return order


def _in_plain_names(
    source: Plane,
    drafts: Iterable[Draft],
    ranges: Mapping[str, float],
    grids: Mapping[str, tuple[float, int]],
) -> tuple[dict[str, float], dict[str, tuple[float, int]]]:
    """Give every plane a plain name of its own; return the known ranges, before the gain, and grids."""
    taken: set[str] = set()
    ranges_of: dict[str, float] = {}
    held: dict[str, tuple[float, int]] = {}
    for plane in dict.fromkeys((source, *(draft.output.root()[0] for draft in drafts))):
        aliases = (plane.name, *plane.aliases)
        spans = [ranges[alias] for alias in aliases if alias in ranges]
        name = base = plain(plane.name)
        count = 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        plane.name = name
        if not spans and name in ranges:
            spans = [ranges[name]]  # as `write_metadata` names it
        if spans:
            ranges_of[name] = spans[0] / plane.gain
        given = [grids[alias] for alias in (*aliases, name) if alias in grids]
        if given:
            held[name] = given[0]
    return ranges_of, held


def build_network(
    name: str,
    source: Plane,
    drafts: Sequence[Draft],
    exits: Sequence[tuple[Exit, Plane | None]],
    outputs: Sequence[tuple[Output, Plane]],
    ranges: Mapping[str, float],
    metadata: Mapping[str, str],
    *,
    ordered: bool = False,
    grids: Mapping[str, tuple[float, int]] = MappingProxyType({}),
) -> Network:
    """Build the network of the drafts: layers by stage, within a stage the backbone and then the head.

    The exits come in the order of their stages when `ordered`, else they are put in the order of the MACs
    they need. The channels of an output are those of its plane. Raises NetworkError for an exit that needs no
    layer of its own.
    """
    plain_ranges, held = _in_plain_names(source, drafts, ranges, grids)
    needs = {exit.name: set() if plane is None else _needed(plane) for exit, plane in exits}
    ranked = [replace(exit, logits=None if plane is None else plane.name) for exit, plane in exits]
    if not ordered:
        macs = {draft: draft.layer().shape.macs for draft in drafts}
        ranked.sort(key=lambda exit: sum(macs[draft] for draft in needs[exit.name]))
    stages, places = with_outputs([needs[exit.name] for exit in ranked], [_needed(plane) for _, plane in outputs])
    placed = dict(stages_of(stages, execution_order(drafts)))
    for stage, exit in enumerate(ranked):
        if stage not in placed.values():
            raise NetworkError(f"each exit must need a layer that no exit before it needs, and '{exit.name}' does not")
    planes = {plane.name: plane for plane in (draft.output.root()[0] for draft in placed)}
    tensors = {source.name: source.shape} | {key: plane.shape for key, plane in planes.items()}
    layers = tuple(draft.layer(stage) for draft, stage in placed.items())
    parameters = {draft.name: own for draft in placed if (own := draft.parameters()) is not None}
    network = Network(
        name=name,
        input=source.name,
        tensors=tensors,
        layers=layers,
        exits=tuple(ranked),
        outputs=tuple(_in_root(output, plane, stage) for (output, plane), stage in zip(outputs, places, strict=True)),
        parameters=parameters,
        metadata=dict(metadata),
        grids=held,
    )
    if not plain_ranges.keys() >= tensors.keys() or not {*plain_ranges, *ranges}.issuperset(network.ranged):
        return network
    inner = {name: ranges[name] / network.gains[name] for name in network.ranged if name not in tensors}
    return replace(network, calibration={name: {**plain_ranges, **inner}[name] for name in network.ranged})


def _in_root(output: Output, plane: Plane, stage: int) -> Output:
    """Return an output with the channels of the tensor that its plane lies in; all in order are not named."""
    root, (_, _, first) = plane.root()
    channels = tuple(first + channel for channel in output.channels)
    named = () if channels == tuple(range(root.shape[2])) else channels
    return replace(output, tensor=root.name, channels=named, stage=stage)
