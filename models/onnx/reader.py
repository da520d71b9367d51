"""Read an ONNX file into a `Network` in one pass; each node folds into a layer, opens one or moves values.

Graph outputs of logits are exits, all others are outputs of the stage that computes them. An operation that
the NPU cannot do exactly is refused in one sentence that names node, operator and remedy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from ..errors import ModelFileError, NetworkError
from ..files import regular_file
from ..graph.layer_table import read_layer_table
from ..graph.network import Exit, Network
from ..graph.shapes import Workload
from .constants import folded
from .drafts import Plane, build_network, plain
from .ends import ends
from .export import PREFIX
from .file import OnnxFile, refuse
from .folding import FOLDING_OPERATORS
from .inputs import open_input
from .layers import LAYER_OPERATORS
from .moves import MOVING_OPERATORS
from .refusals import unsupported
from .walk import MOST_WEIGHTS, Walk

DEFAULT_THRESHOLD = 0.8
_OPERATORS: dict[str, Callable[[Walk, onnx.NodeProto], None]] = {
    **LAYER_OPERATORS,
    **FOLDING_OPERATORS,
    **MOVING_OPERATORS,
}
OPERATORS = tuple(sorted({*_OPERATORS, "Constant", "Shape"}))  # and, between constants alone, those of FOLDS


def read_onnx(
    path: Path | str,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    most_weights: int = MOST_WEIGHTS,
    exits: Sequence[str] | None = None,
) -> Network:
    """Read an ONNX file; `threshold` is every exit's when the file's metadata has no exit table.

    Exits stand in the table's order, or without one in the order of the MACs they need. `exits` names the
    graph outputs that are exits (default: those of the table, else all vectors of logits); other outputs are
    given out as they are. More weights than `most_weights` are refused.
    """
    path = Path(path)
    if not 0 <= threshold <= 1:
        raise ModelFileError(f"the threshold must be a confidence of 0..1, not {threshold}")
    if most_weights < 1:
        raise ModelFileError(f"the most weights of a model must be at least 1, not {most_weights}")
    walk = Walk(OnnxFile(path), most_weights)
    open_input(walk)
    for node in walk.file.order:
        _visit(walk, node)
        walk.visited(node)
    table = _exit_table(walk)
    metadata = walk.file.metadata
    chosen = exits if exits is not None else tuple(table) if PREFIX + "exits" in metadata else None
    found = ends(walk, table, threshold, chosen)
    name = plain(metadata.get(PREFIX + "name") or walk.file.model.graph.name or path.stem)
    ranges = _json_object(walk, "calibration", {})
    for tensor, value in ranges.items():
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ModelFileError(
                f"the calibration of tensor '{tensor}' in {path} must be a number of at least 0, not {str(value)[:80]}"
            )
    provenance = {key: str(value) for key, value in _json_object(walk, "provenance", {}).items()}
    rank = {output: index for index, output in enumerate(table)}
    ordered = all(output in rank for output, _, _ in found.exits)  # the exit table's order is the designer's own
    if ordered:
        found.exits.sort(key=lambda one: rank[one[0]])
    stages: list[tuple[Exit, Plane | None]] = [(exit, plane) for _, exit, plane in found.exits]
    stages = stages or [(Exit(name="final", logits=None), None)]
    return build_network(
        name, walk.source, walk.drafts, stages, found.outputs, ranges, provenance, ordered=ordered or not found.exits
    )


def _visit(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold one node; any failure inside is reported as the file's fault."""
    if not node.output or not node.output[0]:
        raise refuse(node, "must have an output")
    try:
        if node.domain in ("", "ai.onnx"):
            constant = folded(walk, node)
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


def _exit_table(walk: Walk) -> dict[str, dict[str, Any]]:
    """Return the checked rows of the metadata's exit table by output name."""
    rows = _json_value(walk, "exits", [])
    good = isinstance(rows, list) and all(isinstance(row, dict) and isinstance(row.get("output"), str) for row in rows)
    if not good:
        raise ModelFileError(
            f"the exit table in {walk.file.path} must be a list of objects that name their output, and it is not"
        )
    table = {}
    for row in rows:
        entry = {"name": row.get("name", row["output"])} | {
            key: row.get(key) for key in ("threshold", "rate", "accuracy")
        }
        shares = [entry["threshold"], *(one for one in (entry["rate"], entry["accuracy"]) if one is not None)]
        if not isinstance(entry["name"], str) or not all(
            isinstance(one, int | float) and 0 <= one <= 1 for one in shares
        ):
            raise ModelFileError(
                f"the exit table's row of '{row['output']}' must have a name and shares of 0..1, not {str(row)[:120]}"
            )
        table[row["output"]] = entry
    return table


def _json_value(walk: Walk, key: str, default: Any) -> Any:
    text = walk.file.metadata.get(PREFIX + key)
    if text is None:
        return default
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {walk.file.path} must be JSON, and it is not") from None


def _json_object(walk: Walk, key: str, default: dict[str, Any]) -> dict[str, Any]:
    found = _json_value(walk, key, default)
    if not isinstance(found, dict):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {walk.file.path} must be an object, and it is not")
    return found


def read_model(
    path: Path | str, threshold: float = DEFAULT_THRESHOLD, *, most_weights: int = MOST_WEIGHTS
) -> Network | Workload:
    """Read an ONNX file as a Network or a JSON layer table as a Workload: by suffix, else by the first
    byte.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix != ".onnx" and _looks_like_json(path)):
        return read_layer_table(path)
    return read_onnx(path, threshold, most_weights=most_weights)


def _looks_like_json(path: Path) -> bool:
    try:
        with regular_file(path).open("rb") as stream:
            return stream.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError:
        return False
