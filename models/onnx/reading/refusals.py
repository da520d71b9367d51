"""Refusals that teach: the kind of network that fits, the node that does not, and a remedy. One sentence
each.
"""

from __future__ import annotations

import onnx

from ...errors import ModelFileError, UnsupportedOperatorError
from ..file import label

FITS = (
    "fluidnpu takes image CNNs (one image in, NCHW or NHWC, of fixed size; convolutions, pools, upsampling, dense layers, batch "
    "normalisation, activations, gates, additions, concatenations; logits, maps or vectors out)"
)
NO_PRODUCT = "two maps of one shape, a map and one pixel, or a map and one channel can be multiplied"
HOST_ENDS = "return what it reads: the host can do what follows the last layer"
NO_SEQUENCES = "a sequence model needs another accelerator; of a hybrid network export the convolutional part alone"
NO_TABLE = "train with ReLU, SiLU, HardSwish, GELU, Sigmoid or Tanh"
NO_NORM = "train with batch normalisation, which folds into convolutions"
_EXITS = "export the exits as plain outputs: the runtime decides, not the graph"

REMEDIES: dict[str, str] = {
    "Attention": NO_SEQUENCES,
    "MaxUnpool": "upsample with a Resize or a ConvTranspose: the places of maxima are not kept",
    "GRU": NO_SEQUENCES,
    "LSTM": NO_SEQUENCES,
    "RNN": NO_SEQUENCES,
    "Einsum": NO_SEQUENCES,
    "LayerNormalization": NO_NORM,
    "GroupNormalization": NO_NORM,
    "InstanceNormalization": NO_NORM,
    "LpNormalization": NO_NORM,
    "LRN": "it divides by a sum of squares, which no convolution or pool is; take a pretrained network with batch "
    "normalisation, or put a constant Mul in its place and fine-tune",
    "Erf": NO_TABLE,
    "ArgMax": "return the logits or the map: the host takes the largest",
    "TopK": "return the logits: the host takes the largest",
    "NonMaxSuppression": "return the detection heads: the host suppresses boxes",
    "If": _EXITS,
    "Loop": _EXITS,
    "Scan": NO_SEQUENCES,
}


def misfit(node: onnx.NodeProto, why: str, remedy: str, operator: str | None = None) -> UnsupportedOperatorError:
    """Return the error for a node that no layer of the NPU can be: first the networks that fit, then the
    node.
    """
    return UnsupportedOperatorError(label(node), operator or node.op_type, why, remedy, fits=FITS)


def unsupported(node: onnx.NodeProto, taken: str) -> UnsupportedOperatorError:
    """Return the error for an operator that the reader does not know; `known` lists those it does."""
    plain = node.domain in ("", "ai.onnx")
    remedy = REMEDIES.get(node.op_type) if plain else None
    own = "" if plain else ", or write it as a function of the file"
    return misfit(
        node,
        "is not supported",
        remedy or f"replace it, or cut the graph before it{own}; what can be used is {taken}",
        node.op_type if plain else f"{node.domain}.{node.op_type}",
    )


def no_image(what: str, remedy: str) -> ModelFileError:
    """Return the error for an input or a file that is no image CNN's."""
    return ModelFileError(f"{FITS}, and {what}; {remedy}")
