"""Multi-exit networks: training, ONNX in and out, quantisation to int16 and the bit-exact golden model; knows nothing of hardware."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import golden
from .architectures import ARCHITECTURES, Architecture, skeleton
from .data import (
    CLASSES,
    FASHION_MNIST_FOLDER,
    DataError,
    ImageSet,
    load_fashion_mnist,
    read_image_file,
    shipped_file,
    shipped_images,
)
from .exit_heads import ExitPlace, attach_exits, equidistant_tensors, exit_places, single_exit, unknown_name
from .exits import ExitChoice, choose_threshold, confidence, decide_exits, early_exit_predictions
from .files import FileError, read_text, regular_file
from .float_reference import early_exit_float, run_float, tensor_ranges
from .full_size import FULL_SIZE, full_size, random_full_size
from .guard import AccuracyError, GuardReport, accuracy_guard
from .layer_table import LayerTableError, read_layer_table
from .network import (
    Exit,
    Kind,
    Layer,
    LayerShape,
    Network,
    NetworkError,
    Parameters,
    Window,
    Workload,
)
from .quantise import Format, QuantisationError, QuantisedLayer, QuantisedNetwork, quantise
from .recording import record_exits
from .synthetic import random_network, with_random_weights

if TYPE_CHECKING:
    from .export import build_onnx, write_onnx
    from .onnx_file import ModelFileError, UnsupportedOperatorError
    from .onnx_reader import OPERATORS, read_model, read_onnx
    from .training import TrainedModel, TrainingError, train, train_model

# What reads or writes ONNX loads `onnx` only when it is first asked for: a board that serves a bundle has NumPy alone.
_LAZY = {
    "ModelFileError": "onnx_file",
    "OPERATORS": "onnx_reader",
    "TrainedModel": "training",
    "TrainingError": "training",
    "UnsupportedOperatorError": "onnx_file",
    "build_onnx": "export",
    "read_model": "onnx_reader",
    "read_onnx": "onnx_reader",
    "train": "training",
    "train_model": "training",
    "write_onnx": "export",
}

__all__ = [
    "ARCHITECTURES",
    "CLASSES",
    "FASHION_MNIST_FOLDER",
    "FULL_SIZE",
    "OPERATORS",
    "AccuracyError",
    "Architecture",
    "DataError",
    "Exit",
    "ExitChoice",
    "ExitPlace",
    "FileError",
    "Format",
    "GuardReport",
    "ImageSet",
    "Kind",
    "Layer",
    "LayerShape",
    "LayerTableError",
    "ModelFileError",
    "Network",
    "NetworkError",
    "Parameters",
    "QuantisationError",
    "QuantisedLayer",
    "QuantisedNetwork",
    "TrainedModel",
    "TrainingError",
    "UnsupportedOperatorError",
    "Window",
    "Workload",
    "accuracy_guard",
    "attach_exits",
    "build_onnx",
    "choose_threshold",
    "confidence",
    "decide_exits",
    "early_exit_float",
    "early_exit_predictions",
    "equidistant_tensors",
    "exit_places",
    "full_size",
    "golden",
    "load_fashion_mnist",
    "quantise",
    "random_full_size",
    "random_network",
    "read_image_file",
    "read_layer_table",
    "read_model",
    "read_onnx",
    "read_text",
    "record_exits",
    "regular_file",
    "run_float",
    "shipped_file",
    "shipped_images",
    "single_exit",
    "skeleton",
    "tensor_ranges",
    "train",
    "train_model",
    "unknown_name",
    "with_random_weights",
    "write_onnx",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fluidnpu.models' has no attribute {name!r}")
    return getattr(import_module("." + _LAZY[name], __name__), name)
