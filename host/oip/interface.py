"""The tensors that a served model takes and gives, as the protocol names them. Pure arithmetic.

Names and shapes come from the compiled program, so a board and the front of a fleet say the same.
"""

from __future__ import annotations

from fluidnpu.hls import Program
from fluidnpu.models.graph import Output

from .tensors import TensorInfo

PIXELS = "UINT8"
OWN = ("label", "confidence", "exit", "logits")  # the outputs that every model has


def input_of(program: Program) -> TensorInfo:
    """Return the one input of a model: pixels (N, height, width, channels), -1 for a size that is resized."""
    height, width, channels = program.input_intake.shape
    resized = program.input_intake.preprocessing.resize != "none"
    return TensorInfo(program.input, PIXELS, (-1, -1 if resized else height, -1 if resized else width, channels))


def outputs_of(program: Program) -> tuple[TensorInfo, ...]:
    """Return the outputs of a model: a row a sample; of one that left before an output is computed, NaN."""
    classes = {program.tensors[exit.tensor].channels if exit.tensor else 0 for exit in program.exits}
    return (
        TensorInfo("label", "INT32", (-1,)),
        TensorInfo("confidence", "FP32", (-1,)),
        TensorInfo("exit", "INT32", (-1,)),
        TensorInfo("logits", "FP32", (-1, classes.pop() if len(classes) == 1 else -1)),
        *(TensorInfo(called(one.output), "FP32", (-1, *one.output.shape)) for one in program.outputs),
    )


def called(output: Output) -> str:
    """Return the name of an output that is no exit, beside the four that every model has."""
    return f"output.{output.name}" if output.name in OWN else output.name
