"""onnxruntime's QuickGelu, x * sigmoid(alpha * x), in operators of ONNX."""

import onnx
from onnx.parser import parse_function

BODY = """
<opset_import: ["" : 13], domain: "com.microsoft">
QuickGelu <alpha: float = 1.702> (x) => (y) {
    factor = Constant <value_float: float = @alpha> ()
    scaled = Mul (factor, x)
    gate = Sigmoid (scaled)
    y = Mul (x, gate)
}
"""


def quick_gelu(node: onnx.NodeProto) -> onnx.FunctionProto:
    """Return what a node computes; its attributes replace the defaults of the function."""
    return parse_function(BODY)
