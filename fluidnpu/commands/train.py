"""`fluidnpu train`: train a network, or fine-tune the exits of a given one, and write it as one ONNX file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import click

from fluidnpu import models
from fluidnpu.models import training

from .. import show
from ..errors import UsageError
from ..options import FILE_OUT, JSON, PATH, reading, takes
from .helpers.guarding import compare_trained, guard_report, say_guarded
from .modes.fine_tune import FineTuning, fine_tune_model, tuning_options


@dataclass(frozen=True, kw_only=True)
class TrainOptions(FineTuning):
    """The command line of `fluidnpu train`."""

    architecture: str
    single: bool
    tolerance: float


@click.command("train")
@click.option(
    "--architecture",
    default="resnet8",
    show_default=True,
    type=click.Choice(["resnet8", "resnet20", "resnet26_small"]),
    help="network to train from scratch, on Fashion-MNIST",
)
@click.option("--single", is_flag=True, help="train it without its early exits")
@click.option("--epochs", type=click.IntRange(min=1), default=12, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--tolerance",
    default=0.5,
    show_default=True,
    help="points of accuracy that early exits may cost on the held-out split; not with --from",
)
@click.option("--out", required=True, type=FILE_OUT, metavar="MODEL.onnx", help="where to write the model")
@click.option(
    "--data",
    type=PATH,
    help="folder with Fashion-MNIST's four files, by default where Debian puts them; with --from labelled images: .npz, "
    "idx file, or a folder a class",
)
@tuning_options
@reading
@JSON
@takes(TrainOptions)
def command(options: TrainOptions) -> None:
    """Train all exits of a network on Fashion-MNIST, or those of a model of your own (--from) on your
    images.
    """
    if options.start is not None:
        if options.single:
            raise UsageError("--single is for networks that are trained from scratch, so it does not go with --from")
        fine_tune_model(options)
    else:
        options.refuse_without_start()
        train_network(options)


def train_network(options: TrainOptions) -> None:
    """Train, write, and print the exits on the held-out split."""
    out = show.console(options.as_json)
    with show.progress(out, f"training {options.architecture}") as step:
        trained = training.train_model(
            options.architecture,
            options.out,
            epochs=options.epochs,
            seed=options.seed,
            tolerance_points=options.tolerance,
            single=options.single,
            folder=training.FASHION_MNIST_FOLDER if options.data is None else options.data,
            progress=lambda done, total, _: step(done, total),
        )
    network = trained.network
    _, guard, lacks = compare_trained(out, network, models.shipped_images())
    if options.as_json:
        show.emit(
            {
                "model": str(options.out),
                "exits": [dataclasses.asdict(exit) for exit in network.exits],
                "provenance": dict(network.metadata),
                "int16": guard_report(guard),
                "int16_lacks": lacks,
            }
        )
        return
    rows = [
        (exit.name, show.number(exit.threshold, "g"), show.number(exit.rate, ".4g"), show.number(exit.accuracy, ".4g"))
        for exit in network.exits
    ]
    title = f"{options.out}: exits on the held-out split"
    out.print(show.table(title, ("exit", "threshold", "rate", "accuracy"), rows))
    say_guarded(out, network, guard, lacks)
