"""Read a whole graph past what refuses it: every kind of obstacle with its count, not the first node alone.

A node that is refused gives a stand-in, a value of its shape that no layer writes, and reading continues. Its
whole pattern is one obstacle. What can no longer be looked at, since a shape is unknown, is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import onnx

from ..errors import ModelFileError, NetworkError, UnsupportedOperatorError
from .file import OnnxFile, label
from .reading.drafts import Plane
from .reading.inputs import with_input_size
from .reading.patterns import Pattern, Patterns
from .reading.reader import prepare, read_parsed, visit
from .reading.refusals import NO_NORM, NO_SEQUENCES
from .reading.tails import possible
from .reading.view import AxisView
from .reading.walk import MOST_WEIGHTS, Value, Walk
from .rewriting.rewrites import rewrite

NAMED = 3  # nodes of an obstacle that are named


@dataclass(kw_only=True)
class Obstacle:
    """One kind of thing that no layer of the NPU can be: what it is, how often, where first, and a remedy."""

    kind: str
    remedy: str
    first: str  # the sentence about the first one
    count: int = 0
    nodes: list[str] = field(default_factory=list)  # the first few


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The needs of a whole graph beside the layers of the NPU."""

    path: Path
    nodes: int  # that an output needs
    obstacles: tuple[Obstacle, ...]
    tail: int  # nodes that may run on the host
    unseen: int  # nodes whose input has no known shape


def survey(path: Path | str, *, size: Sequence[int] | None = None, most_weights: int = MOST_WEIGHTS) -> Survey:
    """Read an ONNX file past refusals; `size` as for `read_onnx`.

    Raises ModelFileError where nothing can be read: a damaged file, an input that is no image.
    """
    file = OnnxFile(Path(path))
    with_input_size(file.model, size)
    file = rewrite(file)
    read = _read_on(file, most_weights, possible(file))
    if read.tail and not read.obstacles:
        try:
            read_parsed(file, most_weights=most_weights)
        except NetworkError as error:
            if isinstance(error, ModelFileError) and error.node:  # what would be left to the host is too much
                read = _read_on(file, most_weights, frozenset())
    return read


def _read_on(file: OnnxFile, most_weights: int, may_be_host: Collection[str]) -> Survey:
    """Walk a graph past refusals; `may_be_host` are the values that the host could compute."""
    walk, patterns = Walk(file, most_weights), Patterns(file)
    prepare(walk, patterns)
    shapes = _shapes(file, walk)
    obstacles: dict[str, Obstacle] = {}
    passed: set[str] = set()  # outputs inside patterns that are an obstacle already
    host: set[str] = set()  # values that the host computes
    guessed: set[str] = set()  # values behind a stand-in whose layout is a guess
    dark: set[str] = set()  # values of unknown shape or layout
    for node in file.order:
        outputs = set(node.output)
        if outputs <= passed:
            continue
        if not host.isdisjoint(node.input):
            host |= outputs
            continue
        error: NetworkError | None = None
        unknown = not dark.isdisjoint(node.input)
        if not unknown:
            try:
                visit(walk, node)
            except NetworkError as refusal:
                error = refusal
        pattern = patterns.of(node) if unknown or error else None
        if pattern is not None and error is None and pattern.remedy not in (NO_NORM, NO_SEQUENCES):
            pattern = None  # perhaps it would have been taken
        if error and outputs.issubset(may_be_host):
            host |= outputs
        elif pattern is not None:
            _add(obstacles, node, pattern, error)
            passed.update(name for index in pattern.nodes for name in patterns.nodes[index].output)
            stands = _stand_in(walk, pattern.gives, shapes, pattern.reads, alike=pattern.remedy != NO_SEQUENCES)
            guessed |= {pattern.gives} if stands is Layout.GUESSED else set()
            dark |= {pattern.gives} if stands is Layout.UNKNOWN else set()
        elif unknown or (error and not guessed.isdisjoint(node.input)):
            dark |= outputs  # perhaps it would have been taken
        elif error:
            _add(obstacles, node, None, error)
            for name in filter(None, node.output):
                stands = _stand_in(walk, name, shapes, next(iter(node.input), ""))
                guessed |= {name} if stands is Layout.GUESSED else set()
                dark |= {name} if stands is Layout.UNKNOWN else set()
        elif not guessed.isdisjoint(node.input):
            guessed |= outputs
        walk.visited(node)
    writes = [name for node in file.order for name in node.output[:1]]
    return Survey(
        path=file.path,
        nodes=len(file.order),
        obstacles=tuple(sorted(obstacles.values(), key=lambda obstacle: -obstacle.count)),
        tail=len(host.intersection(writes)),
        unseen=len(dark.intersection(writes)),
    )


class Layout(Enum):
    """The knowledge of the axes of a stand-in."""

    KNOWN = 1
    GUESSED = 2
    UNKNOWN = 3


def _add(
    obstacles: dict[str, Obstacle], node: onnx.NodeProto, pattern: Pattern | None, error: NetworkError | None
) -> None:
    """Count an obstacle; those of one pattern are one kind, others are by operator and remedy."""
    if pattern is not None:
        kind, remedy = pattern.name, pattern.remedy
    else:
        kind, remedy = node.op_type, error.suggestion if isinstance(error, UnsupportedOperatorError) else ""
    obstacle = obstacles.setdefault(f"{kind} {remedy}", Obstacle(kind=kind, remedy=remedy, first=str(error or "")))
    obstacle.count += 1
    if len(obstacle.nodes) < NAMED:
        obstacle.nodes.append(label(node))


def _shapes(file: OnnxFile, walk: Walk) -> dict[str, tuple[int, ...]]:
    """Return the shapes of values as ONNX infers them, with a batch of one where it is open."""
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    for value in model.graph.input:
        if value.name == walk.source.name:
            value.type.tensor_type.shape.dim[0].dim_value = 1
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (ValueError, RuntimeError, onnx.shape_inference.InferenceError):
        graph = model.graph
    shapes = {}
    for value in (*graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if dims and all(dim.dim_value >= 1 for dim in dims):
            shapes[value.name] = tuple(dim.dim_value for dim in dims)
    return shapes


def _stand_in(
    walk: Walk, name: str, shapes: Mapping[str, tuple[int, ...]], reads: str, *, alike: bool = False
) -> Layout:
    """Give a name a value that nothing computes, where a view has its shape.

    It lies as the value does that the refused node reads, where that has its shape (`alike`: it must have).
    Else its axes are a guess, but for a map behind a map and for a vector.
    """
    like, shape = walk.values.get(reads), shapes.get(name)
    if like is not None and alike:
        shape = (1, *like.view.shape)
    if shape is None:
        return Layout.UNKNOWN
    layout = Layout.KNOWN
    if like is not None and shape[1:] == like.view.shape:
        plane = Plane(name=name, shape=like.shape)
        view = like.view.with_order(np.arange(like.view.channels.size))
    else:
        axes = {2: ("c",), 3: ("c", "w"), 4: ("c", "h", "w")}.get(len(shape))
        if axes is None:
            return Layout.UNKNOWN
        layout = Layout.GUESSED if len(shape) > 2 and (like is None or not like.view.is_map) else Layout.KNOWN
        sizes = dict(zip(axes, shape[1:], strict=True))
        plane = Plane(name=name, shape=(sizes.get("h", 1), sizes.get("w", 1), sizes["c"]))
        view = AxisView.of(axes, plane.shape)
    walk.values[name] = Value(plane=plane, view=view, exclusive=False)
    return layout
