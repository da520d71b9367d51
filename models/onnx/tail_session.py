"""A tail in onnxruntime, for hosts that have it: the same outputs, to the rounding of floats."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..errors import NetworkError, TailError
from ..tail.call import Array
from ..tail.graph import Tail
from .writing.export import IR_VERSION, OPSET
from .writing.tails import TailWriter, output_info

TailRun = Callable[[Mapping[str, Array], "Collection[str] | None"], dict[str, Array]]


def tail_session(tail: Tail) -> TailRun:
    """Return what does as `tail.run` with onnxruntime, on one thread. Raises NetworkError where it cannot.

    Where some inputs are not there, as of a sample that left early, NumPy makes what can be made.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise NetworkError(
            "onnxruntime is to run what the host does, and it is not installed: pip install 'fluidnpu[onnxruntime]'"
        )
    import onnxruntime

    if not all(node.outputs for node in tail.nodes):
        raise NetworkError("onnxruntime is to run a tail, whose nodes must have outputs, and one has none")
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    TailWriter(nodes, constants).write(tail)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in tail.inputs]
    graph = helper.make_graph(nodes, "tail", inputs, [output_info(output) for output in tail.outputs], constants)
    opset = helper.make_opsetid("", max(OPSET, tail.opset))
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors share no other base
        raise NetworkError(f"onnxruntime must take the tail, and it refuses it: {str(error)[:200]}") from None

    def run(values: Mapping[str, Array], names: Collection[str] | None = None) -> dict[str, Array]:
        if not values.keys() >= set(tail.inputs):
            return tail.run(values, names)
        wanted = [output.name for output in tail.chosen(names)]
        try:
            made = session.run(wanted, {name: values[name] for name in tail.inputs})
        except Exception as error:  # its errors share no other base
            raise TailError(f"onnxruntime must run the tail, and it fails: {str(error)[:200]}") from None
        return {name: np.asarray(array) for name, array in zip(wanted, made, strict=True)}

    return run
