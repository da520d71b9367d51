"""Data that a command line names: images whose labels meet the classes of a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fluidnpu import models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import images as model_images

from ...errors import UsageError
from ...outputs import PathOrWord

_CLASSES = "fluidnpu.classes"  # what `CLASSES` keeps of the command line, in the context's meta
NONE = "none"


def _kept(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[_CLASSES] = value


CLASSES = click.option(
    "--classes",
    "classes_file",
    type=PathOrWord(NONE),
    metavar=f"FILE|{NONE}",
    expose_value=False,
    callback=_kept,
    help="names of the network's classes, one a line in its order; none: the labels of the data are no classes of this "
    "network, and are left out  [default: the model's names, else those of the data]",
)


def given_classes() -> Path | None:
    """Return the file that `--classes` names, `none` among them; None where nobody gave it."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_CLASSES)


def refuse_classes_without(data: Path | None) -> None:
    """Refuse `--classes` where no data is read and no names are written. Raises UsageError."""
    if data is None and given_classes() is not None:
        raise UsageError("--classes names the classes of the images that are read here, so it needs --data")


def read_data(network: model_exits.Judged, intake: model_images.Intake, data: Path) -> models.ImageSet:
    """Read images with labels and names of classes as the network has them; say what was left out.

    Raises DataError and FileError for data that cannot be read, and for labels that are not the network's.
    """
    task, images = _task(network), model_images.read_images(data, intake)
    if str(given_classes()) == NONE:
        images = models.ImageSet(images=images.images, source=images.source, remarks=images.remarks)
    images = model_exits.fitted_labels(task, images)
    for remark in images.remarks:
        click.echo(f"note: {remark}", err=True)
    return images


def with_class_names(network: models.Network, images: models.ImageSet | None = None) -> models.Network:
    """Return the network with the names of `--classes`, else its own, else those that the images brought."""
    names = _task(network).class_names or (() if images is None else images.class_names)
    return replace(network, class_names=names) if names != network.class_names else network


def _task(network: model_exits.Judged) -> model_exits.Task:
    given = given_classes()
    if given is None or str(given) == NONE:
        return model_exits.Task.of(network)
    return model_exits.Task.of(network, model_images.read_class_names(given), f"'{given}'")
