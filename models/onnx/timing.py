"""Times of a network's stages on this machine's processor, measured with onnxruntime: float32, by batch size.

Each stage is a model of its own, from the tensors that it reads of earlier stages to its exit, so a sample
that leaves early costs what it would cost.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx.utils import Extractor

from ..errors import NetworkError
from ..graph.network import Network
from .processor import processor_name
from .writing.export import build_onnx

BYTES = 4  # of a float32
LEAST_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """One stage: medians in ns by batch size, bytes of its weights, and of one sample's tensors that it
    reads.
    """

    exit: str
    ns: tuple[int, ...]
    weights_bytes: int
    input_bytes: int


def stage_models(network: Network) -> list[onnx.ModelProto]:
    """Cut a network into a model a stage. Raises NetworkError for one that has an end without classes."""
    if any(exit.logits is None for exit in network.exits):
        raise NetworkError(f"every exit of '{network.name}' must give classes to be timed, and one does not")
    whole = build_onnx(replace(network, tail=None))  # which is not timed
    extractor, made = Extractor(onnx.shape_inference.infer_shapes(whole)), []
    for stage, exit in enumerate(network.exits):
        layers = [network.layers[index] for index in network.stage_layers(stage)]
        written = {layer.output for layer in layers}
        read = dict.fromkeys(
            name for layer in layers for name in (layer.input, layer.residual) if name and name not in written
        )
        try:
            made.append(extractor.extract_model(list(read), [exit.logits]))
        except (onnx.checker.ValidationError, KeyError, ValueError) as error:
            raise NetworkError(
                f"the stage to exit '{exit.name}' of '{network.name}' must begin at whole tensors to be timed: {error}"
            ) from None
    return made


def measure_stages(
    network: Network,
    b_max: int,
    *,
    threads: int = 1,
    seconds: float = 0.5,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[StageTimes]:
    """Time every stage at every batch size 1..b_max, at least five runs and `seconds` each.

    Raises NetworkError where onnxruntime is not installed.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise NetworkError(
            "a network is timed with onnxruntime, which is not installed: pip install 'fluidnpu[onnxruntime]'"
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    rng, times, done = np.random.default_rng(0), [], 0
    models = stage_models(network)
    for exit, model in zip(network.exits, models, strict=True):
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        row = []
        for batch in range(1, b_max + 1):
            feeds = {
                get_input_.name: rng.random((batch, *get_input_.shape[1:]), np.float32).astype(np.float32)
                for get_input_ in session.get_inputs()
            }
            row.append(_median_ns(session, feeds, seconds))
            done += 1
            progress(done, b_max * len(models))
        sizes = [math.prod(get_input_.shape[1:]) for get_input_ in session.get_inputs()]
        weights = sum(math.prod(tensor.dims) for tensor in model.graph.initializer)
        times.append(
            StageTimes(exit=exit.name, ns=tuple(row), weights_bytes=BYTES * weights, input_bytes=BYTES * sum(sizes))
        )
    return times


def _median_ns(session: Any, feeds: dict[str, Any], seconds: float) -> int:
    session.run(None, feeds)  # memory is allocated in the first run
    took: list[int] = []
    until = time.perf_counter_ns() + round(1e9 * seconds)
    while len(took) < LEAST_RUNS or time.perf_counter_ns() < until:
        began = time.perf_counter_ns()
        session.run(None, feeds)
        took.append(time.perf_counter_ns() - began)
    return max(1, round(median(took)))


def measured_on(threads: int) -> str:
    """Name the machine and the runtime, for the source of a measurement."""
    import onnxruntime

    return (
        f"onnxruntime {onnxruntime.__version__}, float32, {threads} {'thread' if threads == 1 else 'threads'} on "
        f"{processor_name()}"
    )


def peak_bytes(network: Network) -> int:
    """Return the bytes of one sample's tensors, each held at once: an upper bound of what a runtime needs."""
    sizes: Sequence[int] = [math.prod(shape) for shape in network.tensors.values()]
    return BYTES * sum(sizes)
