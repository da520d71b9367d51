"""Read an ONNX file into a `Network` in one pass; each node folds into a layer, opens one or moves values.

Graph outputs of logits are exits, all others are outputs of the stage that computes them. An operation that
the NPU cannot do exactly is refused in one sentence that names node, operator and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx

from ...errors import ModelFileError, NetworkError, UnsupportedOperatorError
from ...files import regular_file
from ...graph.layer_table import read_layer_table
from ...graph.network import Exit, Network
from ...graph.shapes import Workload
from ..file import OnnxFile, refuse
from ..metadata import PREFIX, Metadata, read_metadata
from ..rewriting.constants import fold_node
from ..rewriting.rewrites import rewrite
from .drafts import Plane, build_network, plain
from .ends import ends
from .folding import FOLDING_OPERATORS
from .inputs import open_input, with_input_size
from .layers import LAYER_OPERATORS
from .moves import MOVING_OPERATORS
from .pairs import PAIR_OPERATORS
from .patterns import Patterns
from .pools import POOL_OPERATORS
from .refusals import misfit, unsupported
from .resizing import RESIZING_OPERATORS
from .tails import Behind, GraphCut, possible, with_tail
from .upsampling import UPSAMPLING_OPERATORS
from .walk import MOST_WEIGHTS, Walk

_OPERATORS: dict[str, Callable[[Walk, onnx.NodeProto], None]] = {
    **LAYER_OPERATORS,
    **POOL_OPERATORS,
    **FOLDING_OPERATORS,
    **PAIR_OPERATORS,
    **MOVING_OPERATORS,
    **UPSAMPLING_OPERATORS,
    **RESIZING_OPERATORS,
}
OPERATORS = tuple(sorted({*_OPERATORS, "Constant", "Shape"}))  # and, between constants alone, those of FOLDS


def read_onnx(
    path: Path | str,
    threshold: float | None = None,
    *,
    most_weights: int = MOST_WEIGHTS,
    exits: Sequence[str] | None = None,
    size: Sequence[int] | None = None,
) -> Network:
    """Read an ONNX file; `threshold` is every early exit's that has none in the file's metadata.

    Without one, 0.8 is assumed there, and `Exit.assumed` says so. Exits stand in the order of the metadata's
    table, or without one in the order of the MACs they need. `exits` names the graph outputs that are exits
    (default: those of the table, else all vectors of logits); other outputs are returned as they are. More
    weights than `most_weights` are refused. `size` is the image's where the file leaves it open: (C, H, W) in
    the order of the file, or (H, W).

    Raises ModelFileError for a file or an argument that cannot be right, and UnsupportedOperatorError for a
    node that no layer can be.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise ModelFileError(f"the threshold must be a confidence of 0..1, not {threshold}")
    if most_weights < 1:
        raise ModelFileError(f"the most weights of a model must be at least 1, not {most_weights}")
    file = OnnxFile(Path(path))
    with_input_size(file.model, size)
    return read_parsed(file, threshold, most_weights=most_weights, exits=exits)


def read_parsed(
    file: OnnxFile,
    threshold: float | None = None,
    *,
    most_weights: int = MOST_WEIGHTS,
    exits: Sequence[str] | None = None,
) -> Network:
    """Read an open file, as `read_onnx`."""
    file = rewrite(file)
    walk, cut = _walked(file, most_weights)
    metadata = read_metadata(file)
    named = tuple(metadata.exits) if PREFIX + "exits" in file.metadata else None
    graph_ends = ends(
        walk, metadata.exits, threshold, named if exits is None else exits, metadata.check, cut.values if cut else ()
    )
    rank = {key: index for index, key in enumerate(metadata.exits)}
    ordered = all(key is not None for _, _, key in graph_ends.exits)  # the exit table's order is the designer's own
    if ordered:
        graph_ends.exits.sort(key=lambda end: rank[end[2] or ""])
    stages: list[tuple[Exit, Plane | None]] = [(exit, plane) for exit, plane, _ in graph_ends.exits]
    network = build_network(
        plain(metadata.name),
        walk.source,
        walk.drafts,
        stages or [(Exit(name="final", logits=None), None)],
        graph_ends.outputs,
        metadata.calibration,
        metadata.provenance,
        ordered=ordered,
        grids=metadata.grids,
    )
    network = replace(network, preprocessing=metadata.preprocessing, check=metadata.check)
    network = replace(network, class_names=_class_names(network, metadata))
    network = replace(network, equalisation=_equalisation(network, metadata))
    network = replace(network, corrections=_corrections(network, metadata))
    network = network if cut is None else with_tail(network, cut, file, graph_ends.given)
    _ = network.intake  # refuses a record for another count of channels
    return network


def _equalisation(network: Network, metadata: Metadata) -> dict[str, tuple[int, ...]]:
    """Return the exponents of tensors that are the network's; without its ranges there are none."""
    rows = metadata.equalisation if network.calibration else {}
    return {name: shifts for name, shifts in rows.items() if len(shifts) == network.tensors.get(name, (0, 0, 0))[2]}


def _corrections(network: Network, metadata: Metadata) -> dict[str, tuple[float, ...]]:
    """Return the corrections of layers that are the network's; without its ranges there are none."""
    channels = {layer.name: layer.channels for layer in network.layers if network.calibration}
    return {name: offsets for name, offsets in metadata.corrections.items() if len(offsets) == channels.get(name)}


def _walked(file: OnnxFile, most_weights: int) -> tuple[Walk, GraphCut | None]:
    """Walk a graph to its end; where the host has to end it, return a walk over what is before."""
    walk, behind = Walk(file, most_weights), Behind(file)
    patterns = Patterns(file)
    prepare(walk, patterns)
    for node in walk.file.order:
        try:
            if behind.reads(node):
                behind.add(node)
            else:
                visit(walk, node)
        except NetworkError as error:
            behind.refused(node, _within_pattern(patterns, node, error))
        walk.visited(node)
    if not behind.nodes:
        return walk, None
    cut = behind.cut(walk)
    walk, _ = _walked(file.ending(cut.ends), most_weights)
    return walk, cut


def _class_names(network: Network, metadata: Metadata) -> tuple[str, ...]:
    """Return the names of the classes; those of another tool only where they are as many as the classes."""
    foreign = metadata.foreign_names
    return metadata.class_names or (foreign if network.classes in (0, len(foreign)) else ())


def _within_pattern(patterns: Patterns, node: onnx.NodeProto, error: NetworkError) -> NetworkError:
    """Return an error that names the block that a refused node is part of."""
    pattern = patterns.of(node) if isinstance(error, UnsupportedOperatorError) else None
    if pattern is None or len(pattern.nodes) == 1:
        return error
    return misfit(node, f"is part of a {pattern.name}, a pattern of {len(pattern.nodes)} nodes", pattern.remedy)


def prepare(walk: Walk, patterns: Patterns) -> None:
    """Open the input of a walk, and tell it which patterns are one use of the activation unit."""
    open_input(walk)
    walk.patterns = patterns.lowered()
    for pattern in {id(candidate): candidate for candidate in walk.patterns.values()}.values():
        inside = sum(list(patterns.nodes[index].input).count(pattern.reads) for index in pattern.nodes)
        walk.uses[pattern.reads] -= inside - 1  # which read it once
    light = cache(lambda: possible(walk.file, layers=False))
    walk.may_end = lambda name: name in light()


def visit(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold one node, or a pattern at its last; any failure inside is reported as the file's fault."""
    if not node.output or not node.output[0]:
        raise refuse(node, "must have an output")
    pattern = walk.patterns.get(node.output[0])
    if pattern is not None and walk.may_take(pattern):
        if node.output[0] == pattern.gives and pattern.lowers is not None:
            walk.put(node, walk.activate(node, walk.taken(pattern, node), pattern.lowers, node.output[0]))
        return
    try:
        if node.domain in ("", "ai.onnx"):
            constant = fold_node(walk, node)
            if constant is not None:
                walk.keep(node.output[0], constant)
                return
        operator = _OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if operator is None:
            _missing_inputs(walk, node)
            raise unsupported(node, ", ".join(OPERATORS))
        operator(walk, node)
    except NetworkError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise refuse(node, f"must be well formed, and folding it failed with: {str(error)[:120]}") from error


def _missing_inputs(walk: Walk, node: onnx.NodeProto) -> None:
    for name in filter(None, node.input):
        if name not in walk.values and not walk.known(name):
            raise refuse(node, f"reads '{name}', which is nowhere in the file")


def read_model(
    path: Path | str,
    threshold: float | None = None,
    *,
    most_weights: int | None = None,
    exits: Sequence[str] | None = None,
    size: Sequence[int] | None = None,
) -> Network | Workload:
    """Read an ONNX file as a Network or a JSON layer table as a Workload: by suffix, else by the first
    byte. Options as for `read_onnx`.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix != ".onnx" and _looks_like_json(path)):
        return read_layer_table(path)
    most = MOST_WEIGHTS if most_weights is None else most_weights
    return read_onnx(path, threshold, most_weights=most, exits=exits, size=size)


def _looks_like_json(path: Path) -> bool:
    try:
        with regular_file(path).open("rb") as stream:
            return stream.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError:
        return False
