"""`fluidnpu train --from MODEL`: fine-tune the exits of a model of one's own beside its single-exit
reference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu.models import files, training
from fluidnpu.models import onnx as model_onnx

from ... import show
from ...errors import UsageError
from ...options import BITS, FILE_OUT, FOLDER_OUT, PATH
from ..helpers.data import CLASSES, given_classes, read_data, with_class_names
from ..helpers.guarding import compare_trained, guard_report, say_guarded
from ..helpers.networks import read_network, say_chance
from ..prepare import refuse_overwriting

if TYPE_CHECKING:
    from rich.console import Console

DEFAULTS = training.TrainingSchedule()


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """The options of fine-tuning, and those that it shares with training from scratch."""

    out: Path
    data: Path | None
    epochs: int
    seed: int
    start: Path | None
    reference: Path | None
    frozen: bool
    or_frozen: bool
    weights: str | None
    distil: float | None
    rate: float | None
    batch: int | None
    held_out: float | None
    patience: int | None
    augment: str | None
    checkpoint: Path | None
    bits: int
    as_json: bool

    def schedule(self) -> training.TrainingSchedule:
        """Return the schedule that the options ask for. Raises NetworkError."""
        given = {
            "weights": self.weights,
            "distil": self.distil,
            "peak_rate": self.rate,
            "batch_size": self.batch,
            "held_out": self.held_out,
            "patience": self.patience,
            "augment": self.augment,
        }
        options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        return training.TrainingSchedule(
            epochs=self.epochs, seed=self.seed, frozen=self.frozen, bits=self.bits, **options
        )

    def refuse_without_start(self) -> None:
        """Refuse options that need --from. Raises UsageError."""
        names = ("reference", "weights", "distil", "rate", "batch", "held_out", "patience", "augment", "checkpoint")
        given = [name for name in names if getattr(self, name) is not None]
        given += ["frozen"] * self.frozen + ["or_frozen"] * self.or_frozen + ["bits"] * (self.bits != 16)
        given += ["classes"] * (given_classes() is not None)
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} belongs to fine-tuning, so it needs --from MODEL")


def tuning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of fine-tuning."""
    whole = click.IntRange(min=1)
    options = (
        click.option(
            "--from",
            "start",
            type=PATH,
            metavar="MODEL",
            help="fine-tune this model (ONNX with weights) on --data; `fluidnpu exits --candidates` attaches exits to it",
        ),
        click.option(
            "--frozen",
            is_flag=True,
            help="only bridges and heads learn; the last exit stays as it is, and is the reference",
        ),
        click.option(
            "--or-frozen",
            is_flag=True,
            help="train jointly and, where that costs the last exit more than half a point, train exits on the frozen "
            "backbone of the single-exit network trained as long, which is then written",
        ),
        click.option(
            "--weights",
            type=click.Choice(training.WEIGHTS),
            help=f"of the exits' losses, the last exit's the largest or all equal  [default: {DEFAULTS.weights}]",
        ),
        click.option(
            "--distil",
            type=float,
            metavar="SHARE",
            help="share of an early exit's loss that asks for the last exit's probabilities  [default: 0]",
        ),
        click.option(
            "--rate", type=float, metavar="RATE", help=f"highest learning rate  [default: {DEFAULTS.peak_rate:g}]"
        ),
        click.option("--batch", type=whole, metavar="N", help=f"images a step  [default: {DEFAULTS.batch_size}]"),
        click.option(
            "--held-out",
            type=float,
            metavar="SHARE",
            help=f"share of the images that nothing learns from  [default: {DEFAULTS.held_out:g}]",
        ),
        click.option(
            "--patience",
            type=click.IntRange(min=0),
            metavar="N",
            help="stop after so many epochs without a lower loss on the images held out, and keep the best  "
            "[default: never]",
        ),
        click.option(
            "--augment",
            type=click.Choice(training.AUGMENTS),
            help="shift images by up to two pixels, and mirror them  [default: none]",
        ),
        click.option(
            "--checkpoint",
            type=FOLDER_OUT,
            metavar="FOLDER",
            help="keep every epoch there; a run that was stopped continues to the same result",
        ),
        click.option(
            "--reference",
            type=FILE_OUT,
            metavar="REF.onnx",
            help="where to write the single-exit network trained as long, or --frozen as given  [default: MODEL.reference.onnx beside --out]",
        ),
        BITS,
        CLASSES,
    )
    for option in reversed(options):
        command = option(command)
    return command


def fine_tune_model(options: FineTuning) -> None:
    """Read, fine-tune, write both networks, and print every accuracy.

    Raises UsageError for options that do not fit.
    """
    assert options.start is not None
    if options.data is None:
        raise UsageError("--from needs labelled images, which --data names")
    if options.frozen and options.or_frozen:
        raise UsageError("--or-frozen trains jointly first, so --frozen must not be given")
    refuse_overwriting(options.start, options.out)
    refuse_overwriting(options.start, options.reference)
    schedule, network = options.schedule(), read_network(options.start)
    beside = options.reference or options.out.with_suffix(".reference.onnx")
    files.check_place(beside)
    images = read_data(network, network.intake, options.data)
    network = with_class_names(network, images)
    out = show.console(options.as_json)
    with show.progress(out, f"fine-tuning '{network.name}'") as step:
        run = training.fine_tune_or_freeze if options.or_frozen else _fine_tuned
        tuned, joint = run(
            network,
            images,
            schedule,
            checkpoint=options.checkpoint,
            progress=lambda done, total, _: step(done, total),
        )
    finished, guard, lacks = compare_trained(out, tuned.network, images, options.bits)
    tuned = dataclasses.replace(tuned, network=finished)
    written = {options.out: tuned.network, beside: tuned.reference}
    for path, written_network in written.items():
        files.write_file(path, model_onnx.onnx_bytes(written_network))
    width = f"int{options.bits}"
    report = _report(tuned, options.out, beside, options.frozen, width) | {
        width: guard_report(guard),
        f"{width}_lacks": lacks,
        "given_up": None if joint is None else {width: joint.accuracies.stored[-1], "cost_points": joint.cost_points},
    }
    if options.as_json:
        show.emit(report)
        return
    _print(out, tuned, report, joint, width)
    say_guarded(out, tuned.network, guard, lacks, options.bits)
    out.print(f"network written to [bold]{options.out}[/], its single-exit reference to [bold]{beside}[/]")
    say_chance(out, tuned.network)


def _fine_tuned(*given: Any, **options: Any) -> tuple[training.TunedExits, training.TunedExits | None]:
    return training.fine_tune(*given, **options), None


def _report(tuned: training.TunedExits, out: Path, reference: Path, frozen: bool, width: str) -> dict[str, Any]:
    pairs = zip(tuned.network.exits, tuned.accuracies.floating, tuned.accuracies.stored, strict=True)
    return {
        "model": str(out),
        "reference": str(reference),
        "learned_images": tuned.learned,
        "held_out_images": tuned.held_out,
        "epochs": tuned.epochs,
        "exits": [{"name": exit.name, "float": real, width: stored} for exit, real, stored in pairs],
        "given": {"float": tuned.given.floating[-1], width: tuned.given.stored[-1]},
        "trained_as_long": None
        if frozen
        else {"float": tuned.reference_accuracies.floating[-1], width: tuned.reference_accuracies.stored[-1]},
        "cost_points": tuned.cost_points,
        "advice": tuned.advice,
        "held_out_losses": list(tuned.losses),
    }


def _print(
    out: Console, tuned: training.TunedExits, report: dict[str, Any], joint: training.TunedExits | None, width: str
) -> None:
    long = report["trained_as_long"]
    best = (long or report["given"])[width]
    named = [
        *((row["name"], row) for row in report["exits"]),
        ("single exit, as given", report["given"]),
        *([("single exit, trained as long", long)] if long else []),
    ]
    rows = [
        (name, f"{100 * row['float']:.2f} %", f"{100 * row[width]:.2f} %", f"{100 * row[width] / best:.1f} %")
        for name, row in named
    ]
    title = f"Accuracy on {tuned.held_out} images held out, after {tuned.epochs} epochs of {tuned.learned}"
    columns = ("exit", "float", width, "of the reference")
    out.print(show.table(title, columns, rows))
    if joint is not None:
        out.print(
            f"  [yellow]joint training left the last exit {joint.cost_points:.2f} points below the single-exit network "
            "trained as long[/], so it was given up: these exits have that network's backbone, frozen"
        )
    if tuned.advice is not None:
        out.print(f"  [yellow]{tuned.advice}[/]")
