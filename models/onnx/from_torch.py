"""Read a PyTorch module as a network, through torch's own exporter and the ONNX reader."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ModelFileError, NetworkError, TrainingError
from ..graph.network import Network
from ..images.preprocessing import Preprocessing
from .reading.reader import read_onnx
from .reading.walk import MOST_WEIGHTS

_INPUT = "image"


def from_torch(
    module: Any,
    example: Any,
    *,
    name: str | None = None,
    exits: Sequence[str] | None = None,
    preprocessing: Preprocessing | None = None,
    most_weights: int = MOST_WEIGHTS,
) -> Network:
    """Return the network of a `torch.nn.Module` with its weights, in evaluation mode.

    `example` is one batch (1, channels, height, width) that the module takes; a module of several outputs has
    several exits, "exit1", ... and "final", or those that `exits` names in order. `preprocessing` is the way
    from a user's image to the module's input. The module is left as it was. Raises TrainingError without
    PyTorch, NetworkError for what is no module, ModelFileError where the exporter fails, and what `read_onnx`
    raises.
    """
    try:
        import torch
    except ImportError:
        raise TrainingError(
            "reading a module needs PyTorch, which is not installed: pip install 'fluidnpu[train]'"
        ) from None
    if not isinstance(module, torch.nn.Module) or not isinstance(example, torch.Tensor) or example.ndim != 4:
        what = f"{type(module).__name__} and {type(example).__name__}"
        raise NetworkError(
            "a module is read with an example batch, a tensor (1, channels, height, width), and "
            f"{what} {tuple(getattr(example, 'shape', ()))} came"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name or type(module).__name__}.onnx"
        _export(torch, module, example, path, exits)
        network = read_onnx(path, most_weights=most_weights)
    return replace(network, name=name or type(module).__name__.lower(), preprocessing=preprocessing)


def _export(torch: Any, module: Any, example: Any, path: Path, exits: Sequence[str] | None) -> None:
    """Write the module with a free batch size; outputs are named as exits."""
    was = module.training
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of the tracer, and of the exporter's age
            module.eval()
            outputs = module(example)
            count = len(outputs) if isinstance(outputs, tuple | list) else 1
            names = list(exits or [*(f"exit{index}" for index in range(1, count)), "final"])
            if len(names) != count:
                raise NetworkError(
                    f"the module must have as many outputs as exits are named, and it has {count} for {names}"
                )
            free = {name: {0: "batch"} for name in (_INPUT, *names)}
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            torch.onnx.export(
                module, (example,), str(path), input_names=[_INPUT], output_names=names, dynamic_axes=free, dynamo=False
            )
    except NetworkError:
        raise
    except Exception as error:  # of the module's own code or of the exporter
        raise ModelFileError(
            f"torch's exporter must be able to write the module, and it failed: {' '.join(str(error).split())[:300]}"
        ) from error
    finally:
        module.train(was)
