"""Models and images that the command line names, and the exit rates that follow from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fluidnpu import dse, models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import images as model_images
from fluidnpu.models import numeric, zoo
from fluidnpu.models.graph import MapCheck

from ...errors import UsageError
from ...options import reading_options
from .data import read_data

if TYPE_CHECKING:
    from rich.console import Console

NOISE_SEED = 0
CHANCE = 1.5  # times one in so many classes: an accuracy below it says that something is wrong


def read_model_or_name(path: Path) -> models.Network | models.Workload:
    """Read a model's file, or make a full-size network by its name, without weights."""
    return zoo.full_size(str(path)) if is_full_size(path) else read_file(path)


def read_file(path: Path) -> models.Network | models.Workload:
    """Read a model's file as `--most-weights`, `--logits` and `--input` say."""
    return models.read_model(path, **reading_options())


def is_full_size(path: Path) -> bool:
    """Return whether this is the name of a full-size network and not a file."""
    return str(path) in zoo.FULL_SIZE and not path.exists()


def read_network(path: Path) -> models.Network:
    """Read a network with weights. Raises UsageError for a layer table."""
    model = read_file(path)
    if not isinstance(model, models.Network):
        raise UsageError(f"this command needs a network with weights (ONNX), and '{path}' is a layer table")
    return model


def read_images(network: models.Network, data: Path | None) -> models.ImageSet | None:
    """Read the images of `--data`; without it those that come with fluidnpu, if the network was trained for
    them, or None.
    """
    if data is not None:
        return read_data(network, network.intake, data)
    return models.shipped_images() if network.metadata.get("data") == model_images.SHIPPED_DATA else None


def read_labelled_images(network: models.Network, data: Path | None) -> models.ImageSet:
    """Read images as `read_images`. Raises UsageError where there are none."""
    images = read_images(network, data)
    if images is None:
        raise UsageError(f"this command needs images for '{network.name}'; give them with --data")
    return images


def noise(intake: model_images.Intake, count: int) -> models.ImageSet:
    """Make seeded random images of the range that a network declares."""
    return models.ImageSet(images=intake.random(count, NOISE_SEED), source=f"{count} random images")


def of_width(network: models.Network, bits: int) -> models.Network:
    """Return the network that an NPU of this width computes; at 8 bits a file's own scales hold."""
    return network if bits == 16 else numeric.with_given_scales(network)


def work_of(model: models.Network | models.Workload, bits: int) -> models.Workload:
    """Return the layers that an NPU of this width computes of a network or of a layer table."""
    return model if isinstance(model, models.Workload) else of_width(model, bits).workload


def quantise_network(
    network: models.Network, images: models.ImageSet | None, bits: int = 16
) -> models.QuantisedNetwork:
    """Quantise with the ranges in the file, else with those that the images give; `bits` of a word."""
    use = None if network.calibration or images is None else images.images
    return models.quantise(network, use, bits=bits)


def with_given_rates(network: models.Network, rates: Sequence[float] | None) -> models.Network:
    """Put the rates of `--exit-rates` into a network; None leaves it as it is."""
    return network if rates is None else model_exits.with_rates(network, rates)


def with_measured_rates(network: models.Network, images: models.ImageSet | None) -> models.Network:
    """Measure exit rates in floating point, where the network has none and there are images."""
    if images is None or network.workload.exit_rates is not None:
        return network
    return model_exits.measure_exits(network, numeric.run_float(network, images.images))


def with_rates_of(design: dse.Design, network: models.Network) -> dse.Design:
    """Give a design the exit rates of its network, where the network knows any."""
    rates = network.workload.exit_rates
    has_rates = rates is not None and len(network.exits) > 1
    return dataclasses.replace(design, exit_rates=rates) if has_rates and rates != design.exit_rates else design


def say_assumed(out: Console, network: models.Network) -> None:
    """Say which threshold is assumed, where the model file has none."""
    assumed = [exit for exit in network.exits if exit.assumed]
    if assumed:
        out.print(
            f"  [dim]no thresholds in the file: {assumed[0].threshold:g} is assumed for "
            f"{', '.join(exit.name for exit in assumed)}; set them with `fluidnpu exits MODEL --thresholds`[/]"
        )


def say_chance(out: Console, network: models.Network) -> None:
    """Say so where the last exit was right about as often as chance: images reach it wrongly, perhaps."""
    last = network.exits[-1]
    if last.accuracy is None or last.logits is None or isinstance(network.check, MapCheck):
        return
    classes = network.tensors[last.logits][2]
    if last.accuracy < CHANCE / classes:
        out.print(
            f"  [yellow]'{last.name}' is right on {100 * last.accuracy:.1f} % of the images, about as often as chance "
            f"among {classes} classes[/]: is the network trained, and are --mean, --std and the order of classes right?"
        )
