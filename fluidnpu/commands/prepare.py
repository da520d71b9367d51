"""`fluidnpu prepare`: put preprocessing, calibration, thresholds and rates into a model file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import models
from fluidnpu.models import files, numeric
from fluidnpu.models import images as model_images
from fluidnpu.models import onnx as model_onnx

from .. import show
from ..errors import UsageError
from ..options import BITS, JSON, PATH, numbers, reading, reading_options, takes
from .helpers.data import CLASSES, read_data, with_class_names
from .helpers.guarding import MOST_ERROR, guard_report, guard_words, say_guarded
from .helpers.networks import read_network, say_assumed, say_chance, with_given_rates

if TYPE_CHECKING:
    from rich.console import Console

MOST_IMAGES = 2000  # that are run where nothing else is said


@dataclass(frozen=True, kw_only=True)
class ExitSettings:
    """The options that say what stands in a model file about its exits and ranges, as text."""

    thresholds: str | None = None
    tolerance: float | None = None
    rates: str | None = None
    calibrate: Path | None = None
    images: int = MOST_IMAGES
    most_error: float | None = None
    bits: int = 16


@dataclass(frozen=True, kw_only=True)
class PreprocessingSettings:
    """The options that say how an image becomes the input, as text; None where they were not given."""

    scale: str | None
    mean: str | None
    std: str | None
    layout: str | None
    colour: str | None
    resize: str | None
    interpolation: str | None
    float_range: str | None


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(ExitSettings, PreprocessingSettings):
    """The command line of `fluidnpu prepare`."""

    model: Path
    out: Path | None
    as_json: bool


def exit_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `ExitSettings`."""
    options = (
        click.option(
            "--thresholds", metavar="A,B,...", help="confidence above which a sample leaves, at every exit but the last"
        ),
        click.option(
            "--tolerance",
            type=float,
            metavar="POINTS",
            help="choose the threshold instead: the cheapest that loses at most so many points of accuracy",
        ),
        click.option(
            "--rates", metavar="A,B,...", help="share of samples that leaves at each exit  [default: measured]"
        ),
        click.option(
            "--calibrate",
            type=PATH,
            metavar="DATA",
            help="images that the network is for: .npz, idx file, or folder; they give ranges, rates and, with labels, "
            "accuracies",
        ),
        click.option(
            "--images",
            type=click.IntRange(min=1),
            default=MOST_IMAGES,
            show_default=True,
            metavar="N",
            help="use the first N of them, evenly spread",
        ),
        MOST_ERROR,
        BITS,
        CLASSES,
    )
    for option in reversed(options):
        command = option(command)
    return command


def preprocessing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `PreprocessingSettings`."""
    options = (
        click.option("--scale", metavar="S", help="factor of a pixel, such as 1/255  [default: 1/255]"),
        click.option(
            "--mean", metavar="A[,B...]", help="taken off a scaled pixel: one number, or one for each channel"
        ),
        click.option(
            "--std", metavar="A[,B...]", help="what it is then divided by: one number, or one for each channel"
        ),
        click.option("--layout", type=click.Choice(["NHWC", "NCHW"]), help="of arrays whose shape leaves it open"),
        click.option(
            "--colour", type=click.Choice(["RGB", "BGR"]), help="order of the network's channels; images are RGB"
        ),
        click.option("--resize", metavar="none|stretch|crop[:SIDE]", help="what to do with images of another size"),
        click.option("--interpolation", type=click.Choice(["bilinear", "bicubic", "nearest"]), help="of the resize"),
        click.option(
            "--float-range", metavar="LOW,HIGH", help="what images of floats lie in  [default: 0 to 255 * scale]"
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("prepare")
@click.argument("model", type=PATH)
@click.option("--out", type=PATH, metavar="NEW.onnx", help="where to write the model  [default: only show]")
@preprocessing_options
@exit_settings
@reading
@JSON
@takes(PrepareOptions)
def command(options: PrepareOptions) -> None:
    """Put preprocessing, calibration, thresholds and exit rates into a MODEL of your own.

    The graph and the weights stay as they are; NEW.onnx is the same file with other metadata.
    """
    prepare_model(options)


def prepare_model(options: PrepareOptions) -> None:
    """Read, change, write if asked, and show what stands in the file."""
    out = show.console(options.as_json)
    refuse_overwriting(options.model, options.out)
    network = read_network(options.model)
    record = change_record(options, network.preprocessing)
    network, compared = prepare_network(out, network, options, record)
    if options.out is not None:
        files.write_file(options.out, model_onnx.with_metadata(options.model, network, reading_options()["size"]))
    report = report_prepared(network) | {f"int{options.bits}": guard_report(compared)}
    report |= {"model": None if options.out is None else str(options.out)}
    if options.as_json:
        show.emit(report)
        return
    print_prepared(out, network)
    if network.calibration:
        say_guarded(out, network, compared, bits=options.bits)
    say_assumed(out, network)
    if options.calibrate is not None:
        say_chance(out, network)
    if options.out is None:
        out.print("  [dim]nothing was written; --out NEW.onnx writes it[/]")
    else:
        out.print(f"model written to [bold]{options.out}[/]")


def prepare_network(
    out: Console, network: models.Network, settings: ExitSettings, record: model_images.Preprocessing | None = None
) -> tuple[models.Network, numeric.Guarded | None]:
    """Put the settings into a network, measuring what they leave open on the images.

    With images words are compared with float, too; at 8 bits the exits are measured in words. Raises
    UsageError and NetworkError.
    """
    thresholds, rates = numbers("--thresholds", settings.thresholds), numbers("--rates", settings.rates)
    if settings.tolerance is not None and settings.calibrate is None:
        raise UsageError("--tolerance needs labelled images, which --calibrate names")
    if thresholds is not None and len(thresholds) == len(network.exits) > 1:
        out.print("  [dim]the last threshold is not used: the last exit takes every sample that is left[/]")
    images = None
    if settings.calibrate is not None:
        seen = network if record is None else dataclasses.replace(network, preprocessing=record)
        images = spread(read_data(seen, seen.intake, settings.calibrate), settings.images)
    network = with_class_names(network, images)
    with show.progress(out, f"running '{network.name}' in floating point") as step:
        network = numeric.prepare(
            network,
            preprocessing=record,
            images=images,
            thresholds=thresholds,
            tolerance_points=settings.tolerance,
            rates=rates,
            progress=step,
        )
    if images is None:
        return network, None
    compared = guard_words(out, network, images, settings.most_error, settings.bits)
    network = compared.network
    if settings.bits != 16 and len(network.exits) > 1:
        network = numeric.measure_in_words(network, compared.qnet, images, settings.tolerance)
        network = with_given_rates(network, rates)
    return network, compared


def spread(images: models.ImageSet, count: int) -> models.ImageSet:
    """Give `count` images, evenly spread over a set that may be sorted by class; all of a smaller one."""
    if len(images) <= count:
        return images
    import numpy as np

    return images[np.linspace(0, len(images) - 1, count).round().astype(np.int64)]


def refuse_overwriting(model: Path, out: Path | None) -> None:
    """Refuse to write over the model that is read. Raises UsageError."""
    if out is not None and out.exists() and model.exists() and out.samefile(model):
        raise UsageError(f"--out must be another file than MODEL, and both are '{model}'")


def change_record(
    options: PrepareOptions, before: model_images.Preprocessing | None
) -> model_images.Preprocessing | None:
    """Give the model's record with the options in it; None where no option says anything."""
    given: dict[str, Any] = {
        "scale": None if options.scale is None else _ratio("--scale", options.scale),
        "mean": numbers("--mean", options.mean),
        "std": numbers("--std", options.std),
        "layout": options.layout,
        "colour": options.colour,
        "resize": options.resize,
        "interpolation": options.interpolation,
        "float_range": numbers("--float-range", options.float_range),
    }
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return None
    return dataclasses.replace(before or model_images.Preprocessing(), **given)


def _ratio(option: str, text: str) -> float:
    """Read a number or a ratio of two.

    >>> _ratio("--scale", "1/255") == 1 / 255
    True
    """
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{option} must be a number or a ratio such as 1/255, not '{text}'")
    return value


def report_prepared(network: models.Network) -> dict[str, Any]:
    """Give what stands in the file about images, ranges and exits, in plain JSON types."""
    record = network.preprocessing
    return {
        "name": network.name,
        "preprocessing": None if record is None else record.to_dict(),
        "folded": numeric.folded_steps(network),
        "calibrated": bool(network.calibration),
        "class_names": list(network.class_names),
        "exits": [
            {"name": e.name, "rate": e.rate, "accuracy": e.accuracy}
            | ({} if e is network.exits[-1] else {"threshold": e.threshold, "assumed": e.assumed})
            for e in network.exits
        ],
    }


def print_prepared(out: Console, network: models.Network) -> None:
    """Print preprocessing, calibration and exits."""
    print_intake(out, network)
    rows = [
        (exit.name, *(show.number(value, ".4g") for value in (exit.threshold, exit.rate, exit.accuracy)))
        for exit in network.exits
    ]
    out.print(show.table(f"{network.name}: exits", ("exit", "threshold", "rate", "accuracy"), rows))


def print_intake(out: Console, network: models.Network) -> None:
    """Print how images become the input, and whether the ranges are calibrated."""
    height, width, channels = network.tensors[network.input]
    size = f"{height} x {width} x {channels}"
    record = network.preprocessing
    if record is None:
        out.print(f"images: {size}, uint8 over 255 or floats in 0..1 (no preprocessing in the file)")
    else:
        out.print(f"images: {size}; {record.describe()}")
        out.print(f"  [dim]{numeric.folded_steps(network)}[/]")
    if network.class_names:
        from rich.markup import escape

        out.print(f"classes: {len(network.class_names)} ({escape(model_images.few_names(network.class_names))})")
    out.print("ranges: calibrated" if network.calibration else "ranges: not calibrated; --calibrate DATA does it")
