"""Metadata of a server and of a model, and the tensors that a model takes and gives. No I/O.

Names and shapes come from the compiled program, so a board and the front of a fleet say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fluidnpu.hls import Program
from fluidnpu.models.graph import MapCheck, MapTask
from fluidnpu.models.tail import ROWS

from ..errors import ProtocolError
from .admission.limits import Limits
from .wire.calls import Call, ModelAnswer
from .wire.classes import CLASS_NAME, CLASSIFIED, classify
from .wire.tensors import DTYPES, TensorInfo

NAME = "fluidnpu"  # of the server, and the platform of its models
EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "parameters",
    "statistics",
    "model_repository",
    "model_configuration",
    "schedule_policy",
)
PIXELS = "UINT8"
OWN = ("label", "confidence", "exit", "logits")  # the outputs that every model has
OF_NAMES = (CLASS_NAME,)  # which one has beside them whose classes have names
OF_MAPS = ("keypoints", "label_map")  # of which a model whose exits give maps has one
OF_PARTS = ("goes_on", "onward")  # which a part of a network has beside them


def server_metadata(version: str, limits: Limits) -> dict[str, Any]:
    """Return a server's metadata."""
    extensions = [*EXTENSIONS, *(["system_shared_memory"] if limits.shared_bytes else [])]
    return {"name": NAME, "version": version, "extensions": extensions}


def model_metadata(name: str, versions: Sequence[str], program: Program) -> dict[str, Any]:
    """Return a model's metadata, with the names of its classes where it has any."""
    named = {"class_names": list(program.class_names)} if program.class_names else {}
    return {
        "name": name,
        "versions": list(versions),
        "platform": NAME,
        "inputs": [input_of(program).to_json()],
        "outputs": [output.to_json() for output in outputs_of(program)],
        **named,
    }


def input_of(program: Program) -> TensorInfo:
    """Return the one input of a model: pixels (N, height, width, channels), -1 for a size that is resized.

    A part that begins in the middle of a network takes a tensor as stored.
    """
    if not program.takes_images:
        place = program.tensors[program.input]
        return TensorInfo(program.input, _stored_datatype(program), (-1, place.height, place.width, place.channels))
    height, width, channels = program.input_intake.shape
    resized = program.input_intake.preprocessing.resize != "none"
    return TensorInfo(program.input, PIXELS, (-1, -1 if resized else height, -1 if resized else width, channels))


def _stored_datatype(program: Program) -> str:
    """Return the datatype of activations, in the NPU's own format."""
    return f"INT{program.bits}"


def outputs_of(program: Program) -> tuple[TensorInfo, ...]:
    """Return the outputs of a model: a row a sample; NaN or -1 of one that left before an output is computed.

    Maps of exits are flat in `logits` (height, width, channels), and what they say is `keypoints` or
    `label_map`. Of a part of a network, `goes_on` says which samples did not leave at its last exit, and
    `onward` has the tensors of those alone, in their order. An output whose data decide how many rows a
    sample has, as of boxes, has those of all samples, and `{name}.rows` counts each sample's.
    """
    places = [program.tensors[exit.tensor] if exit.tensor else None for exit in program.exits]
    classes = {0 if place is None else place.height * place.width * place.channels for place in places}
    return (
        TensorInfo("label", "INT32", (-1,)),
        TensorInfo("confidence", "FP32", (-1,)),
        TensorInfo("exit", "INT32", (-1,)),
        TensorInfo("logits", "FP32", (-1, classes.pop() if len(classes) == 1 else -1)),
        *_of_names(program),
        *_of_maps(program),
        *_of_parts(program),
        *(_of_tail(program) or _of_outputs(program)),
    )


def _of_outputs(program: Program) -> list[TensorInfo]:
    return [
        TensorInfo(output_name(output.output.name), "FP32", (-1, *output.output.shape)) for output in program.outputs
    ]


def _of_tail(program: Program) -> list[TensorInfo]:
    """Return the user's outputs that the host makes, with the counts of their rows."""
    datatypes, infos = {dtype.name: datatype for datatype, dtype in DTYPES.items()}, []
    for output in () if program.tail is None else program.tail.outputs:
        infos.append(TensorInfo(output_name(output.name), datatypes[output.dtype], (-1, *output.row)))
        if not output.batched:
            infos.append(TensorInfo(output_name(output.name) + ROWS, "INT64", (-1,)))
    return infos


def _of_names(program: Program) -> tuple[TensorInfo, ...]:
    named = program.class_names and program.task.classes and not isinstance(program.check, MapCheck)
    return (TensorInfo(CLASS_NAME, "BYTES", (-1,)),) if named else ()


def _of_parts(program: Program) -> tuple[TensorInfo, ...]:
    if not program.onward:
        return ()
    place = program.tensors[program.onward]
    shape = (-1, place.height, place.width, place.channels)
    return (TensorInfo("goes_on", "BOOL", (-1,)), TensorInfo("onward", _stored_datatype(program), shape))


def _of_maps(program: Program) -> tuple[TensorInfo, ...]:
    check = program.check
    if not isinstance(check, MapCheck):
        return ()
    height, width, channels = check.shape
    if check.task is MapTask.LANDMARKS:
        return (TensorInfo("keypoints", "FP32", (-1, channels, 3)),)
    return (TensorInfo("label_map", "UINT8", (-1, height, width)),)


def tail_names(program: Program) -> dict[str, str]:
    """Return the names of what the host's tail makes, by their names among the outputs of the model."""
    outputs = () if program.tail is None else program.tail.outputs
    return {
        output_name(output.name) + end: output.name + end
        for output in outputs
        for end in ("", *([] if output.batched else [ROWS]))
    }


def output_name(name: str) -> str:
    """Return the name of an output that is no exit, beside those that models have of their own."""
    return f"output.{name}" if name in (*OWN, *OF_NAMES, *OF_MAPS, *OF_PARTS) else name


def with_best(answer: ModelAnswer, call: Call, program: Program) -> ModelAnswer:
    """Return the answer with the best classes in place of the logits, where the call wants them.

    Raises ProtocolError where the model gives maps.
    """
    if call.best is None:
        return answer
    if isinstance(program.check, MapCheck):
        raise ProtocolError(f"the classification must be of a classifier's logits, and '{call.model}' gives maps")
    best = classify(answer.outputs[CLASSIFIED], call.best, program.class_names)
    return replace(answer, outputs={**answer.outputs, CLASSIFIED: best})
