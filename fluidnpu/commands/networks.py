"""Models and labelled images that the command line names."""

from __future__ import annotations

from pathlib import Path

from fluidnpu import models
from fluidnpu.models import zoo

from ..errors import UsageError


def read_model_or_name(path: Path) -> models.Network | models.Workload:
    """Read a model's file, or make a full-size network by its name, without weights."""
    return zoo.full_size(str(path)) if is_full_size(path) else models.read_model(path)


def is_full_size(path: Path) -> bool:
    """Tell if this is the name of a full-size network and not a file."""
    return str(path) in zoo.FULL_SIZE and not path.exists()


def read_network(path: Path) -> models.Network:
    """Read a network with weights. Raises UsageError for a layer table."""
    model = models.read_model(path)
    if not isinstance(model, models.Network):
        raise UsageError(f"this command needs a network with weights (ONNX), and '{path}' is a layer table")
    return model


def labelled_images(network: models.Network, data: Path | None) -> models.ImageSet:
    """Read the images of a network; those that come with fluidnpu only where they fit. Raises UsageError."""
    images = models.shipped_images() if data is None else models.read_image_file(data)
    check_shape(network, images, "give others with --data" if data is None else "give images of that shape")
    return images


def check_shape(network: models.Network, images: models.ImageSet, hint: str) -> None:
    """Refuse images of another shape than the network's input, with a hint for the user."""
    shape = network.tensors[network.input]
    if images.images.shape[1:] != shape:
        raise UsageError(f"images must be of shape {shape} for '{network.name}', not {images.images.shape[1:]}; {hint}")


def quantised(network: models.Network, images: models.ImageSet) -> models.QuantisedNetwork:
    """Quantise with the ranges in the file, else with those that the images give."""
    return models.quantise(network, None if network.calibration else images.images.astype("float64") / 255)
