"""Multi-exit networks: training, ONNX in and out, quantisation to int16 and the bit-exact golden model; knows nothing of hardware."""

from . import golden
from .architectures import ARCHITECTURES, Architecture, skeleton
from .data import CLASSES, FASHION_MNIST_FOLDER, DataError, ImageSet, load_fashion_mnist, shipped_file, shipped_images
from .exits import ExitChoice, choose_threshold, confidence, decide_exits, early_exit_predictions
from .float_reference import early_exit_float, run_float, tensor_ranges
from .guard import AccuracyError, GuardReport, accuracy_guard
from .network import (
    Exit,
    Kind,
    Layer,
    LayerShape,
    Network,
    NetworkError,
    Parameters,
    Workload,
)
from .quantise import Format, QuantisationError, QuantisedLayer, QuantisedNetwork, quantise

__all__ = [
    "ARCHITECTURES",
    "CLASSES",
    "FASHION_MNIST_FOLDER",
    "AccuracyError",
    "Architecture",
    "DataError",
    "Exit",
    "ExitChoice",
    "Format",
    "GuardReport",
    "ImageSet",
    "Kind",
    "Layer",
    "LayerShape",
    "Network",
    "NetworkError",
    "Parameters",
    "QuantisationError",
    "QuantisedLayer",
    "QuantisedNetwork",
    "Workload",
    "accuracy_guard",
    "choose_threshold",
    "confidence",
    "decide_exits",
    "early_exit_float",
    "early_exit_predictions",
    "golden",
    "load_fashion_mnist",
    "quantise",
    "run_float",
    "shipped_file",
    "shipped_images",
    "skeleton",
    "tensor_ranges",
]
