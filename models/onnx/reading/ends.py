"""The outputs of an ONNX graph: exits, where it returns logits, and outputs of any other shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from ...errors import ModelFileError
from ...graph.checks import Check, MapCheck
from ...graph.network import Exit
from ...graph.outputs import Output
from .drafts import Plane, plain
from .heads import are_heads, cheap_stage
from .walk import Value, Walk

MOST_OUTPUTS = 64
DEFAULT_THRESHOLD = 0.8


@dataclass(kw_only=True)
class Ends:
    """The exits and the other outputs of a graph, with their planes.

    An exit has the key of its row in the exit table, if there is one.
    """

    exits: list[tuple[Exit, Plane, str | None]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)  # graph outputs that are no exits
    outputs: list[tuple[Output, Plane]] = field(default_factory=list)


def ends(
    walk: Walk,
    table: Mapping[str, Mapping[str, Any]],
    threshold: float | None,
    chosen: Sequence[str] | None,
    check: Check,
    cut: Collection[str] = (),
) -> Ends:
    """Sort the graph outputs into exits and other outputs.

    An exit is one vector of at least two logits an image, perhaps behind a Softmax, and among `chosen` where
    names are given. Under a `check` of maps it is a map of the check's shape that is named. What the host's
    tail reads, `cut`, is always returned; it is an exit, too, if it is named or nothing else ends the graph.
    Raises ModelFileError for exits of different classes, or of one name.
    """
    names = walk.file.outputs
    if not 1 <= len(names) <= MOST_OUTPUTS:
        raise ModelFileError(f"{walk.file.path} must have 1 to {MOST_OUTPUTS} outputs, and it has {len(names)}")
    plain_names = {plain(name) for name in names}
    unknown = [name for name in chosen or () if name not in plain_names and name not in names and name not in table]
    if unknown:
        raise ModelFileError(
            f"the exits must be outputs of {walk.file.path} ({', '.join(names[:8])}), not '{unknown[0]}'"
        )
    ends_ = Ends()
    for name in names:
        value = walk.values.get(name)
        if value is not None and value.plane is walk.source and name != value.plane.name and not value.pixels:
            value = _of_the_image(walk, name, value)
        if value is None or not value.plane.writers or value.pixels:
            raise ModelFileError(
                f"output '{name}' of {walk.file.path} must be computed from the input, and it is not: nothing ends there"
            )
        meant = not {name, plain(name), value.plane.name, plain(value.plane.name)}.isdisjoint(chosen or ())
        if name in cut:
            _add_output(walk, ends_, name, value)
            if not (meant or name in walk.file.declared or (chosen is None and len(names) == 1 and _decides(value))):
                continue
        meant |= chosen is None
        if isinstance(check, MapCheck):
            if meant and chosen is not None:
                _check_map(walk, name, value, check)
                _add_exit(walk, ends_, name, value, table, threshold)
            else:
                _give(walk, ends_, name, value, cut)
        elif _decides(value) and meant:
            _add_exit(walk, ends_, name, value, table, threshold)
        elif chosen is not None and meant:
            raise ModelFileError(
                f"output '{name}' must be one vector of at least two logits per image to be an exit, and it is "
                f"(N, {', '.join(map(str, value.onnx_shape))}){' behind a ' + value.activation if value.activation else ''}"
            )
        else:
            _give(walk, ends_, name, value, cut)
    asked = chosen is None and not table and len(ends_.exits) > 1
    if asked and are_heads([plane for _, plane, _ in ends_.exits]):
        for exit, _, _ in ends_.exits:
            _give(walk, ends_, exit.name, walk.values[exit.name], cut)
        ends_.exits.clear()
    if isinstance(check, MapCheck) and not ends_.exits:
        raise ModelFileError(f"the exit check of {walk.file.path} is for maps, and no output of its exit table is one")
    classes = sorted({plane.shape[2] for _, plane, _ in ends_.exits})
    if len(classes) > 1:
        raise ModelFileError(
            f"all exits must tell the same classes apart, and their numbers of logits are {classes}; name the outputs that "
            f"are exits (exits= of read_onnx, or the metadata fluidnpu.exits), and the others are returned as they are"
        )
    if len({exit.name for exit, _, _ in ends_.exits}) < len(ends_.exits):
        raise ModelFileError(
            f"the exits of {walk.file.path} must have different names, and they are {[exit.name for exit, _, _ in ends_.exits]}"
        )
    if asked and ends_.exits:
        _check_stages(walk, ends_)
    return ends_


def shown(name: str) -> str:
    """Return the name of a graph output as an output or an exit has it."""
    return "".join(letter for letter in name if letter.isprintable())[:80]


def _check_stages(walk: Walk, graph_ends: Ends) -> None:
    """Raise ModelFileError for an exit before which hardly anything is saved, where nobody named it."""
    cheap = cheap_stage([plane for _, plane, _ in graph_ends.exits])
    if cheap is not None:
        index, share = cheap
        names = [exit.name for exit, _, _ in graph_ends.exits]
        raise ModelFileError(
            f"the exits of {walk.file.path} must be named, since '{names[index]}' costs {100 * share:.2g} % of the "
            f"multiplications beyond those before it: --logits {','.join(names)[:200]} (exits= in Python) takes all as "
            f"exits, --logits none takes all as outputs"
        )


def _of_the_image(walk: Walk, name: str, value: Value) -> Value:
    """Return what is returned of the image itself, moved or scaled, as a layer writes it."""
    made = walk.copy(_end_of(walk, name), replace(value, activation=""))
    return replace(made, activation=value.activation, axis=value.axis)


def _decides(value: Value) -> bool:
    """True if a value is one vector of at least two logits."""
    if not value.pixel or any(value.pad) or value.shape[2] < 2 or not (value.view.is_vector or value.view.is_map):
        return False
    return not value.activation or (value.activation != "sigmoid" and value.axis == 1)


def _check_map(walk: Walk, name: str, value: Value, check: MapCheck) -> None:
    """Raise ModelFileError for an exit that is no map of the check's shape."""
    height, width, channels = check.shape
    if not value.view.is_map or value.onnx_shape != (channels, height, width):
        raise ModelFileError(
            f"output '{name}' of {walk.file.path} must be (N, {channels}, {height}, {width}) to be an exit of its check, "
            f"and it is (N, {', '.join(map(str, value.onnx_shape))})"
        )


def _add_exit(
    walk: Walk,
    graph_ends: Ends,
    name: str,
    value: Value,
    table: Mapping[str, Mapping[str, Any]],
    threshold: float | None,
) -> None:
    activation = value.activation
    value = _settled(walk, name, value)
    if value.plane.inside is not None or value.plane.shape[2] != value.shape[2] or not value.ordered:
        node = _end_of(walk, name)
        value = walk.copy(node, value if value.ordered else walk.gathered(node, value))
    plane = value.plane
    if any(other is plane for _, other, _ in graph_ends.exits):
        return  # logits and their Softmax, both returned: one exit
    if not activation and plane.name != name:
        plane.aliases.append(plane.name)
        plane.name = name
    key = next((key_ for key_ in (name, plane.name, plain(name), plain(plane.name)) if key_ in table), None)
    row: Mapping[str, Any] = table[key] if key is not None else {"name": name}
    stored = row.get("threshold")
    exit = Exit(
        name=shown(row["name"]),
        logits=plane.name,
        threshold=stored if stored is not None else DEFAULT_THRESHOLD if threshold is None else threshold,
        rate=row.get("rate"),
        accuracy=row.get("accuracy"),
        assumed=stored is None and threshold is None,
    )
    graph_ends.exits.append((exit, plane, key))


def _give(walk: Walk, graph_ends: Ends, name: str, value: Value, cut: Collection[str]) -> None:
    """Give an output of the user's as it is; what the tail reads is among the outputs already."""
    if name not in cut:
        _add_output(walk, graph_ends, name, value)
    graph_ends.given.append(name)


def _add_output(walk: Walk, graph_ends: Ends, name: str, value: Value) -> None:
    activation, axis = value.activation, value.axis
    value = _settled(walk, name, value)
    view = value.view
    output = Output(
        name=shown(name),
        tensor=value.plane.name,
        shape=view.shape,
        axes="".join(view.axes),
        split=view.channels.shape,
        channels=tuple(int(channel) for channel in view.index),
        activation=activation,
        axis=axis,
    )
    graph_ends.outputs.append((output, value.plane))


def _settled(walk: Walk, name: str, value: Value) -> Value:
    """Return a value with nothing still to be done to it but its activation."""
    return walk.settle(_end_of(walk, name), replace(value, activation=""))


def _end_of(walk: Walk, name: str) -> onnx.NodeProto:
    """Return a node to name layers after that an output needs of its own."""
    return onnx.NodeProto(name=name, op_type="Identity", input=[name], output=[name])
