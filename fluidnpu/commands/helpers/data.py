"""Data that a command line names: images whose labels meet the classes of a network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import images as model_images

from ...errors import UsageError
from ...outputs import PathOrWord

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_CLASSES = "fluidnpu.classes"  # what `CLASSES` keeps of the command line, in the context's meta
NONE = "none"
PART_SEED = 0
_PART = re.compile(r"(?P<name>.+)@(?P<first>\d{1,3})-(?P<last>\d{1,3})")  # such as photos@0-50


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

    `data` may name a part, as in `photos@0-50`. Raises DataError and FileError for data that cannot be read,
    and for labels that are not the network's; UsageError for a part that holds nothing.
    """
    whole, first, last = _divided(data)
    task, images = _task(network), model_images.read_images(whole, intake)
    if str(given_classes()) == NONE:
        images = models.ImageSet(images=images.images, source=images.source, remarks=images.remarks)
    images = model_exits.fit_labels(task, images)
    for remark in images.remarks:
        click.echo(f"note: {remark}", err=True)
    if (first, last) == (0, 100):
        return images
    part = _drawn_part(len(images), first, last)
    if not len(part):
        raise UsageError(f"'{data}' must hold an image, and it is none of {len(images)}")
    return images[part]


def part_of(data: Path, first: int, last: int) -> Path:
    """Name the images from `first` to `last` per cent of a set, or of a part of one.

    >>> str(part_of(Path("photos"), 50, 90)), str(part_of(Path("photos@0-50"), 50, 90))
    ('photos@50-90', 'photos@25-45')
    """
    whole, low, high = _divided(data)
    begin, end = (low + round((high - low) * share / 100) for share in (first, last))
    return whole.with_name(f"{whole.name}@{begin}-{end}")


def whole_data(data: Path) -> Path:
    """Return the path of the set that a part is of; the path itself where it names no part."""
    return _divided(data)[0]


def _divided(data: Path) -> tuple[Path, int, int]:
    """Return the path of a set and the per cent of it that are meant. Raises UsageError for an odd part."""
    match = _PART.fullmatch(data.name)
    if match is None or data.exists():
        return data, 0, 100
    first, last = int(match["first"]), int(match["last"])
    if not 0 <= first < last <= 100:
        raise UsageError(f"a part of a set must go from one per cent to a larger one, such as @0-50, not '{data}'")
    return data.with_name(match["name"]), first, last


def _drawn_part(count: int, first: int, last: int) -> npt.NDArray[np.int64]:
    """Return the numbers (N,) of the images of a part, in their order.

    Parts that do not overlap share no image. The order is drawn, for a set is often sorted by class.
    """
    import numpy as np

    order = np.random.default_rng(PART_SEED).permutation(count)
    return np.sort(order[round(count * first / 100) : round(count * last / 100)])


def with_class_names(network: models.Network, images: models.ImageSet | None = None) -> models.Network:
    """Return the network with the names of `--classes`, else its own, else those that the images brought."""
    names = _task(network).class_names or (() if images is None else images.class_names)
    return replace(network, class_names=names) if names != network.class_names else network


def _task(network: model_exits.Judged) -> model_exits.Task:
    given = given_classes()
    if given is None or str(given) == NONE:
        return model_exits.Task.of(network)
    return model_exits.Task.of(network, model_images.read_class_names(given), f"'{given}'")
