"""Read an ONNX file into a `Network` in one pass; each node folds into a layer or opens one.

Every graph output is an exit. An operation that the NPU cannot do exactly is refused in one sentence that
names node and operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from ..errors import ModelFileError, NetworkError, UnsupportedOperatorError
from ..files import regular_file
from ..graph.layer_table import read_layer_table
from ..graph.network import Exit, Network
from ..graph.shapes import Workload
from .constants import folded
from .drafts import Plane, build_network, plain
from .file import OnnxFile, label, refuse
from .folding import FOLDING_OPERATORS
from .layers import LAYER_OPERATORS
from .metadata import read_metadata
from .walk import Walk

DEFAULT_THRESHOLD = 0.8
MOST_EXITS = 64
_SUGGESTIONS = {
    "Sigmoid": "end exits in logits or Softmax and use ReLU inside",
    "HardSigmoid": "use ReLU or ReLU6",
    "HardSwish": "use ReLU or ReLU6",
    "LeakyRelu": "train with ReLU",
    "PRelu": "train with ReLU",
    "Elu": "train with ReLU",
    "Gelu": "train with ReLU",
    "Tanh": "train with ReLU",
    "Transpose": "export the model with NCHW activations",
    "ConvTranspose": "the NPU does not upsample",
    "Resize": "the NPU does not upsample; resize on the host",
    "Upsample": "the NPU does not upsample; resize on the host",
    "QuantizeLinear": "give the float model: fluidnpu quantises it itself",
    "DequantizeLinear": "give the float model: fluidnpu quantises it itself",
    "QLinearConv": "give the float model: fluidnpu quantises it itself",
    "LRN": "train with batch normalisation",
    "InstanceNormalization": "train with batch normalisation",
    "LayerNormalization": "train with batch normalisation",
    "ArgMax": "give out the logits: the runtime decides",
    "If": "export the exits as plain outputs: the runtime decides, not the graph",
    "Loop": "export the exits as plain outputs: the runtime decides, not the graph",
}
_OPERATORS: dict[str, Callable[[Walk, onnx.NodeProto], None]] = {**LAYER_OPERATORS, **FOLDING_OPERATORS}
OPERATORS = tuple(sorted({*_OPERATORS, "Constant", "Shape"}))  # and, between constants alone, those of FOLDS


def read_onnx(path: Path | str, threshold: float | None = None) -> Network:
    """Read an ONNX file; `threshold` is every early exit's that has none in the file's metadata.

    Without one, 0.8 is assumed there, and `Exit.assumed` says so. Exits stand in the order of the metadata's
    table, or without one in the order of the MACs they need.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise ModelFileError(f"the threshold must be a confidence of 0..1, not {threshold}")
    return read_parsed(OnnxFile(Path(path)), threshold)


def read_parsed(file: OnnxFile, threshold: float | None = None) -> Network:
    """Read an open file, as `read_onnx`."""
    walk = Walk(file)
    for node in walk.file.order:
        _visit(walk, node)
    metadata = read_metadata(file)
    exits = _exits(walk, metadata.exits, threshold)
    rank = {key: index for index, key in enumerate(metadata.exits)}
    ordered = all(key is not None for _, _, key in exits)  # the exit table's order is the designer's own
    if ordered:
        exits.sort(key=lambda one: rank[one[2] or ""])
    network = build_network(
        plain(metadata.name),
        walk.source,
        walk.drafts,
        [(exit, plane) for exit, plane, _ in exits],
        metadata.calibration,
        metadata.provenance,
        ordered=ordered,
    )
    network = replace(network, preprocessing=metadata.preprocessing)
    _ = network.intake  # refuses a record for another count of channels
    return network


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
            full = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            hint = _SUGGESTIONS.get(
                node.op_type, "replace it, or cut the graph before it; what can be used is " + ", ".join(OPERATORS)
            )
            raise UnsupportedOperatorError(label(node), full, "is not supported", hint)
        operator(walk, node)
    except NetworkError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise refuse(node, f"must be well formed, and folding it failed with: {str(error)[:120]}") from error


def _missing_inputs(walk: Walk, node: onnx.NodeProto) -> None:
    for name in filter(None, node.input):
        if name not in walk.values and not walk.known(name):
            raise refuse(node, f"reads '{name}', which is nowhere in the file")


def _exits(
    walk: Walk, table: Mapping[str, Mapping[str, Any]], threshold: float | None
) -> list[tuple[Exit, Plane, str | None]]:
    """Return every graph output as an exit, and the key of its row in the exit table where there is one."""
    outputs = [one.name for one in walk.file.model.graph.output]
    if not 1 <= len(outputs) <= MOST_EXITS:
        raise ModelFileError(
            f"{walk.file.path} must have 1 to {MOST_EXITS} outputs, each an exit, and it has {len(outputs)}"
        )
    found: list[tuple[Exit, Plane, str | None]] = []
    for output in outputs:
        value = walk.values.get(output)
        if value is None or not value.plane.writers:
            raise ModelFileError(
                f"output '{output}' of {walk.file.path} must be computed from the input, and it is not: no exit there"
            )
        if not value.pixel or any(value.pad):
            raise ModelFileError(
                f"output '{output}' must be one vector of logits per image to be an exit, and its shape is {value.shape}"
            )
        if any(plane is value.plane for _, plane, _ in found):
            continue  # logits and their Softmax, both given out: one exit
        if not value.softmaxed and value.plane.name != output:
            value.plane.aliases.append(value.plane.name)
            value.plane.name = output
        names = (output, value.plane.name, plain(output), plain(value.plane.name))
        key = next((name for name in names if name in table), None)
        row = table[key] if key is not None else {"name": output}
        known = row.get("threshold")
        exit = Exit(
            name="".join(one for one in row["name"] if one.isprintable())[:80],
            logits=value.plane.name,
            threshold=known if known is not None else DEFAULT_THRESHOLD if threshold is None else threshold,
            rate=row.get("rate"),
            accuracy=row.get("accuracy"),
            assumed=known is None and threshold is None,
        )
        found.append((exit, value.plane, key))
    classes = sorted({plane.shape[2] for _, plane, _ in found})
    if len(classes) > 1:
        raise ModelFileError(f"all exits must tell the same classes apart, and their numbers of logits are {classes}")
    if len({exit.name for exit, _, _ in found}) < len(found):
        raise ModelFileError(
            f"the exits of {walk.file.path} must have different names, and they are {[exit.name for exit, _, _ in found]}"
        )
    return found


def read_model(path: Path | str, threshold: float | None = None) -> Network | Workload:
    """Read an ONNX file as a Network or a JSON layer table as a Workload: by suffix, else by the first
    byte.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix != ".onnx" and _looks_like_json(path)):
        return read_layer_table(path)
    return read_onnx(path, threshold)


def _looks_like_json(path: Path) -> bool:
    try:
        with regular_file(path).open("rb") as stream:
            return stream.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError:
        return False
