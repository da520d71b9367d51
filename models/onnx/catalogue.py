"""The ONNX operators that the reader takes and those that it refuses with a remedy, as tables for a page.

`python -m fluidnpu.models.onnx.catalogue docs/reference/operators.md` writes the tables of that page.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from pathlib import Path

from ..tail.graph import OPERATORS as HOST_OPERATORS
from .reading.reader import OPERATORS
from .reading.refusals import REMEDIES
from .rewriting.constants import FOLDS
from .rewriting.quantised import HANDLERS

FREE = "nothing"
MERGED = (
    "a max pool; of stride 2 behind one layer, nothing: that layer stores the maxima "
    "([ADR 51](../adr/0051-pools-on-the-way-out.md))"
)
PASS = "a pass of its own ([ADR 69](../adr/0069-the-way-out.md))"
FOLDED = f"folded into the layer before or behind it; else {PASS}"
TABLE = f"a table behind the layer before it; else {PASS}"
SLOPE = f"a slope behind the layer before it; else {PASS}"
TAKEN: dict[str, tuple[str, str]] = {
    "Add": (
        f"a residual of a layer, or folded; else {PASS}",
        "two values of one shape, a map and a pixel or channel of one, or one number for each channel",
    ),
    "AveragePool": (
        "a sum pool; border windows that leave padding out are depthwise convolutions into the same tensor",
        "at most 64 kinds of windows",
    ),
    "BatchNormalization": (FOLDED, "evaluation mode"),
    "Cast": (FREE, "between floats; of a uint8 image"),
    "Celu": (TABLE, ""),
    "Clip": (FOLDED, "numbers as bounds"),
    "Concat": (FREE + ": pieces are written side by side", "channels; height or width of maps"),
    "Constant": (FREE, ""),
    "Conv": (
        "a layer, with groups, stride, dilation and any padding; a depthwise one may be a filter behind the layer "
        "before it ([ADR 70](../adr/0070-filters-on-the-way-out.md))",
        "constant weights; Conv1d is a 1xN convolution",
    ),
    "ConvTranspose": (
        "a convolution for each phase, writing its pixels a stride apart",
        "constant weights; any stride, dilation, groups and padding, but SAME over gaps; strides of at most 64 phases",
    ),
    "DepthToSpace": (
        FREE + " where it parts a convolution's channels: its parts write the pixels; else 1x1 copies",
        "PixelShuffle; blocks of at most 8",
    ),
    "Div": (FOLDED, "by one number for each channel"),
    "Dropout": (FREE, "evaluation mode"),
    "Elu": (TABLE, ""),
    "Expand": ("as Tile", "to a constant shape, the batch as it is"),
    "Flatten": (FREE, "from axis 1"),
    "Gather": (
        FREE + "; one row, column or step takes a depthwise 1x1",
        "constant positions: of channels, or of rows, columns or steps that follow one another",
    ),
    "Gelu": (TABLE, "either form"),
    "Gemm": ("a layer over the whole map", "a flattened input, a constant matrix"),
    "GlobalAveragePool": ("a sum pool", ""),
    "GlobalMaxPool": ("a max pool", ""),
    "HardSwish": (TABLE, ""),
    "HardSigmoid": ("folded, then a clip", ""),
    "Identity": (FREE, ""),
    "LeakyRelu": (SLOPE, ""),
    "LogSoftmax": (FREE + ": the host does it", "at an output; an exit gives its logits"),
    "MatMul": ("a layer: over a vector, or over the channels of each pixel", "a constant matrix"),
    "Max": ("a clip; of activations two layers for each beside the first", "constant bounds, values of one shape"),
    "MaxPool": (
        MERGED + "; borders of values that may be negative are pools of their own "
        "([ADR 67](../adr/0067-pools-with-borders-and-resizes-by-axes.md))",
        "any padding; at most 64 kinds of windows at a border",
    ),
    "Min": ("as Max", "as Max"),
    "Mish": (TABLE, ""),
    "Mul": (
        f"folded; of activations a product behind the layer that makes one of them, else {PASS}",
        "by one number for each channel; two values of one shape, a map and one pixel (squeeze-and-excitation), a map "
        "and one channel (spatial gates)",
    ),
    "Neg": (FOLDED, ""),
    "Pad": (FREE + ": convolutions and pools take it over, channels of zeros are memory that nobody writes", "zeros"),
    "Pow": ("the product of a value with itself", "squares"),
    "PRelu": (SLOPE, "a slope for each channel"),
    "ReduceMax": ("a max pool", "over height, width or both"),
    "ReduceMean": ("a sum pool; over channels a 1x1 convolution", "over height, width or both, or channels"),
    "ReduceSum": (
        "a sum pool, the count folded into what reads it; over channels a 1x1 convolution",
        "over height, width or both, or channels",
    ),
    "Relu": (FOLDED, ""),
    "Reshape": (FREE, "channels split and joined; height and width whole"),
    "Resize": (
        "depthwise convolutions: one for each phase and kind of window at a border, for both axes at once or one by one",
        "of height and width; nearest and bilinear; at most 128 kinds of windows along an axis",
    ),
    "Shape": (FREE, "where only a Reshape depends on it"),
    "Selu": (TABLE, ""),
    "Sigmoid": (
        f"behind the last layer nothing: the host does it; else {TABLE}",
        "at an output, which is then no exit",
    ),
    "Slice": (FREE + "; a step in height or width takes a strided depthwise 1x1", "not of the batch"),
    "Softmax": (FREE + ": the host does it", "at an output; an exit gives its logits"),
    "Softplus": (TABLE, ""),
    "SpaceToDepth": ("a convolution of ones", "blocks of at most 8"),
    "Split": (FREE, "of channels, or of height or width of maps"),
    "Squeeze": (FREE, "axes of size one"),
    "Sub": (
        "folded, or a residual: the layer that writes what is subtracted turns its sign, or a copy does",
        "two values of one shape, or one number for each channel",
    ),
    "Sum": ("residuals of layers, or folded", "values of one shape"),
    "Swish": (TABLE, "alpha of 1"),
    "Tanh": (TABLE, ""),
    "Tile": (
        FREE + " along channels; one pixel is repeated by two to four depthwise layers an axis; else copies",
        "by constants, the batch as it is",
    ),
    "Transpose": (
        FREE + ": the layers that read it permute their weights; else a permuted 1x1 convolution",
        "the batch first",
    ),
    "Unsqueeze": (FREE, ""),
    "Upsample": ("as Resize", "opset 7 to 9"),
}

REWRITTEN: dict[str, tuple[str, str]] = {  # operators of `HANDLERS`: what they are read as, and a limit
    "QuantizeLinear": ("Clip to the numbers of its integers; of constants, folded", "one scale for an activation"),
    "DequantizeLinear": ("nothing, as Mul and Add where its scale is another; of constants, folded", "likewise"),
    "QLinearConv": ("Conv, then as QuantizeLinear", "constant weights"),
    "QLinearMatMul": ("MatMul, then as QuantizeLinear", ""),
    "DynamicQuantizeLinear": ("nothing: its scale is 1", ""),
    "ConvInteger": ("Conv", "behind DynamicQuantizeLinear"),
    "MatMulInteger": ("MatMul", "behind DynamicQuantizeLinear"),
    "com.microsoft.QuantizeLinear": ("as QuantizeLinear", ""),
    "com.microsoft.DequantizeLinear": ("as DequantizeLinear", ""),
    "com.microsoft.QGemm": ("Gemm, then as QuantizeLinear", "constant weights"),
    "com.microsoft.QLinearAdd": ("Add, then as QuantizeLinear", ""),
    "com.microsoft.QLinearMul": ("Mul, then as QuantizeLinear", "by one number for each channel"),
    "com.microsoft.QLinearConcat": ("Concat, then as QuantizeLinear", ""),
    "com.microsoft.QLinearAveragePool": ("AveragePool, then as QuantizeLinear", "channels first"),
    "com.microsoft.QLinearGlobalAveragePool": ("GlobalAveragePool, then as QuantizeLinear", "channels first"),
    "com.microsoft.QLinearLeakyRelu": ("LeakyRelu, then as QuantizeLinear", ""),
    "com.microsoft.QLinearSigmoid": ("Sigmoid", "as Sigmoid"),
    "com.microsoft.QLinearSoftmax": ("Softmax", "as Softmax"),
    "com.microsoft.DynamicQuantizeMatMul": ("MatMul and Add", "constant weights"),
    "com.microsoft.MatMulIntegerToFloat": ("MatMul and Add", "constant weights"),
    "com.microsoft.DynamicQuantizeLSTM": ("LSTM", "as LSTM"),
    "qonnx.Quant": ("Clip; of constants, rounded and folded", "activations of 8 bits or more"),
    "qonnx.BipolarQuant": ("folded", "constants"),
}


def taken_table() -> str:
    """Return the table of the operators that are read."""
    rows = [f"| {name} | {TAKEN[name][0]} | {TAKEN[name][1]} |" for name in OPERATORS]
    return "\n".join(["| operator | on the NPU | which |", "|---|---|---|", *rows])


def rewritten_table() -> str:
    """Return the table of the operators on integers."""
    rows = [f"| {name} | {REWRITTEN[name][0]} | {REWRITTEN[name][1]} |" for name in HANDLERS]
    return "\n".join(["| operator | is read as | which |", "|---|---|---|", *rows])


def refused_table() -> str:
    """Return the table of the operators that are refused with a remedy of their own."""
    by_remedy: dict[str, list[str]] = {}
    for name, remedy in REMEDIES.items():
        by_remedy.setdefault(remedy, []).append(name)
    rows = [f"| {', '.join(sorted(names))} | {remedy} |" for remedy, names in by_remedy.items()]
    return "\n".join(["| operator | remedy |", "|---|---|", *rows])


def folded_line() -> str:
    """Return the operators that are computed while reading, where all their inputs are constants."""
    return _listed(sorted(FOLDS))


def host_line() -> str:
    """Return the operators that the host knows behind the NPU."""
    return _listed(sorted(HOST_OPERATORS))


def _listed(names: Iterable[str]) -> str:
    """Return a block of names, which is no sentence however long it is."""
    return f"```text\n{textwrap.fill(', '.join(names), 110)}\n```"


def tables() -> dict[str, str]:
    """Return the generated parts of the page by name."""
    return {
        "taken": taken_table(),
        "rewritten": rewritten_table(),
        "refused": refused_table(),
        "folded": folded_line(),
        "host": host_line(),
    }


def write_tables(page: str) -> str:
    """Return the text of the page with today's tables between its marks."""
    for name, text in tables().items():
        mark = f"<!-- generated: {name} -->"
        before, _, rest = page.partition(mark)
        page = f"{before}{mark}\n\n{text}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m fluidnpu.models.onnx.catalogue")
    parser.add_argument("page", type=Path, help="the page whose tables are written anew")
    place = parser.parse_args().page
    place.write_text(write_tables(place.read_text(encoding="utf-8")), encoding="utf-8")
