"""The outputs of answered requests where a network ends on the host (`models/tail`).

A tail runs on the thread that calls: never on the one that owns the device, which would keep the NPU waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from fluidnpu.hls import Program
from fluidnpu.models import NetworkError

from ..errors import DriverUsageError, HostError, ProtocolError
from .replies import Reply

ENGINE = "FLUIDNPU_TAIL"  # in the environment
Run = Callable[[Mapping[str, npt.NDArray[Any]], "Collection[str] | None"], dict[str, npt.NDArray[Any]]]


def tail_engine(program: Program) -> Run | None:
    """Return what runs the tail of a program: NumPy, or onnxruntime where the environment asks for it.

    None where the network has no tail. Raises DriverUsageError for another value of FLUIDNPU_TAIL, and where
    onnxruntime cannot run it.
    """
    chosen = os.environ.get(ENGINE, "numpy")
    if chosen not in ("numpy", "onnxruntime"):
        raise DriverUsageError(f"{ENGINE} must be numpy or onnxruntime, not '{chosen:.40}'")
    if program.tail is None or chosen == "numpy":
        return None if program.tail is None else program.tail.run
    from fluidnpu.models.onnx import tail_session  # a board has no onnx

    try:
        return tail_session(program.tail)
    except NetworkError as error:
        raise DriverUsageError(str(error)) from None


def tail_outputs(
    program: Program, replies: Sequence[Reply], wanted: Collection[str] | None = None, engine: Run | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Return the user's outputs (samples, ...) of answered requests by name, joined as by `Tail.joined`.

    `wanted`: those alone. `engine` runs the tail (default: NumPy). Empty where the network has no tail: then
    `Reply.outputs` are the user's. Raises HostError where the tail fails on a request's data.
    """
    if program.tail is None:
        return {}
    samples = [run_tail(program, reply.outputs, engine, wanted) for reply in replies]
    return program.tail.joined(samples, wanted)


def run_tail(
    program: Program,
    stored: Mapping[str, npt.NDArray[Any]],
    engine: Run | None = None,
    wanted: Collection[str] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Return the user's outputs, without an axis of samples, from those of its network as stored.

    These are of their own shapes, without that axis, too. The program must have a tail. Raises HostError
    where it fails on them.
    """
    assert program.tail is not None, "the caller looked"
    real = {name: program.real_output(values[None], name) for name, values in stored.items()}
    try:
        return (engine or program.tail.run)(real, wanted)
    except NetworkError as error:
        raise HostError(f"the host's part of '{program.network}' must run on what the NPU gives: {error}") from None


def check_joinable(program: Program, samples: int) -> None:
    """Raise ProtocolError for a request of several samples whose outputs do not make one array."""
    apart = [output.name for output in program.tail.outputs if not output.joinable] if program.tail else []
    if samples > 1 and apart:
        raise ProtocolError(
            f"a request to '{program.network}' must hold one sample, since output '{apart[0]:.60}' has another shape for "
            f"each, not {samples}"
        )
