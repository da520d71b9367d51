"""`fluidnpu train`: train a network and write it as one ONNX file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import click

from fluidnpu.models import training

from .. import show
from ..options import FILE_OUT, JSON, PATH, takes


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The command line of `fluidnpu train`."""

    architecture: str
    epochs: int
    seed: int
    tolerance: float
    out: Path
    data: Path | None
    as_json: bool


@click.command("train")
@click.option("--architecture", default="resnet8", show_default=True, type=click.Choice(["resnet8", "resnet20"]))
@click.option("--epochs", default=12, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--tolerance",
    default=0.5,
    show_default=True,
    help="points of accuracy that early exits may cost on the held-out split",
)
@click.option("--out", required=True, type=FILE_OUT, metavar="MODEL.onnx", help="where to write the model")
@click.option(
    "--data",
    type=PATH,
    help="folder with Fashion-MNIST's four files; default: where Debian puts them",
)
@JSON
@takes(TrainOptions)
def command(options: TrainOptions) -> None:
    """Train all exits of a network jointly on Fashion-MNIST and write it as one ONNX file."""
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
            folder=training.FASHION_MNIST_FOLDER if options.data is None else options.data,
            progress=lambda done, total, _: step(done, total),
        )
    network = trained.network
    if options.as_json:
        show.emit(
            {
                "model": str(options.out),
                "exits": [dataclasses.asdict(exit) for exit in network.exits],
                "provenance": dict(network.metadata),
            }
        )
        return
    rows = [
        (exit.name, show.number(exit.threshold, "g"), show.number(exit.rate, ".4g"), show.number(exit.accuracy, ".4g"))
        for exit in network.exits
    ]
    title = f"{options.out}: exits on the held-out split"
    out.print(show.table(title, ("exit", "threshold", "rate", "accuracy"), rows))
