"""Change the metadata of a model file, and nothing else of it: its graph and weights stay those of the
user.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto

from ...errors import ModelFileError
from ...graph.network import Network
from ..file import OnnxFile, with_external_data
from ..metadata import PREFIX, metadata_of
from ..reading.inputs import with_input_size
from ..reading.reader import read_parsed

MOST_BYTES = (1 << 31) - 1  # of one protobuf message


def with_metadata(source: Path | str, network: Network, size: Sequence[int] | None = None) -> bytes:
    """Return the file of `source` with the metadata of `network`, which was read from it at the input `size`.

    Weights that lie in a file beside it come along. The result is read back and compared. Raises
    ModelFileError where it says something else than the network, or its weights are too many for one file.
    """
    file = OnnxFile(Path(source))
    model = file.model
    with_input_size(model, size)
    total = sum(tensor.ByteSize() + _external_bytes(tensor) for tensor in model.graph.initializer)
    if total > MOST_BYTES:
        raise ModelFileError(f"{source} must have at most {MOST_BYTES >> 20} MiB of weights to be written as one file")
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(with_external_data(tensor, f"initialiser '{tensor.name}'", file.path.parent))
    kept = {key: value for key, value in file.metadata.items() if not key.startswith(PREFIX)}
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, kept | metadata_of(network))
    again = read_parsed(OnnxFile(file.path, model), most_weights=MOST_BYTES)  # it was read before
    same = again.exits == network.exits and again.outputs == network.outputs
    same &= again.preprocessing == network.preprocessing and again.check == network.check
    same &= again.tail == network.tail
    same &= again.class_names == network.class_names and again.equalisation == network.equalisation
    same &= again.corrections == network.corrections
    if not same or set(again.calibration) != set(network.calibration):
        raise ModelFileError(f"the metadata of {source} must read back as it was written, and it does not")
    return bytes(model.SerializeToString(deterministic=True))


def _external_bytes(tensor: TensorProto) -> int:
    return 8 * math.prod(tensor.dims) if tensor.data_location == TensorProto.EXTERNAL else 0
