"""Graphs of one operator over the product of its attributes, and what becomes of them beside onnxruntime.

A configuration is one index of a list; `verdict` reads its graph, runs it in floating point, and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from test_models_onnx_operators import Graph

from fluidnpu.models.errors import NetworkError
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx.file import OnnxFile
from fluidnpu.models.onnx.reading.reader import read_parsed

Floats = npt.NDArray[np.float32]
Build = Callable[[int], tuple[Graph, str]]  # the graph of a configuration, and its output

RIGHT, ON_THE_HOST, REFUSED, NO_REFERENCE = "right", "right on the host", "refused", "no reference"


def reference(model: onnx.ModelProto, feed: Floats) -> Floats | None:
    """Return onnxruntime's answer without optimisations; None where it refuses the graph."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        answer: Floats = session.run(None, {"image": feed})[0]
    except Exception as error:  # its own classes are not public
        if type(error).__module__.startswith("onnxruntime"):
            return None
        raise
    return answer


def verdict(graph: Graph, output: str) -> str:
    """Return RIGHT, ON_THE_HOST where its tail ends it, REFUSED with the sentence, or NO_REFERENCE; else what
    differs.
    """
    shape = graph.shape if len(graph.shape) == 3 else (graph.shape[0], 1, graph.shape[1])
    images = np.random.default_rng(1).random((2, shape[1], shape[2], shape[0]), np.float32)
    feed = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(2, *graph.shape)
    model = graph.model(output)
    wanted = reference(model, feed)
    try:
        network = read_parsed(OnnxFile(Path("sweep.onnx"), model), exits=[])
    except NetworkError as error:
        return f"{REFUSED}: {error}"
    if wanted is None:
        return NO_REFERENCE
    outputs: dict[str, Floats] = run_float_outputs(network, images)
    if network.tail is not None:
        outputs = dict(network.tail.joined(network.tail.each(outputs)))
    answer = outputs[output]
    if answer.shape != wanted.shape:
        return f"shape {answer.shape[1:]} for {wanted.shape[1:]}"
    worst = float(np.abs(answer - wanted).max(initial=0.0))
    right = RIGHT if network.tail is None else ON_THE_HOST
    return right if worst <= 2e-5 * max(1.0, float(np.abs(wanted).max(initial=0.0))) else f"differs by {worst:g}"


def sweep(build: Build, indices: Iterable[int], expected: Sequence[str] = ()) -> Counter[str]:
    """Count the verdicts of configurations; assert that none is wrong, and that the words of each refusal
    are among the expected ones.
    """
    counts: Counter[str] = Counter()
    wrong: list[Any] = []
    for index in indices:
        outcome = verdict(*build(index))
        kind = outcome.partition(":")[0]
        counts[kind] += 1
        if kind not in (RIGHT, ON_THE_HOST, NO_REFERENCE, REFUSED) or (
            kind == REFUSED and not any(words in outcome for words in expected)
        ):
            wrong.append((index, outcome))
    assert not wrong, (counts, wrong[:12])
    return counts
