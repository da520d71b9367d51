"""`fluidnpu run`: from a model's file to a verified project, and to served requests, in one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fluidnpu import boards
from fluidnpu.models import files
from fluidnpu.models.graph import MapCheck

from .. import show
from ..errors import UsageError
from ..options import (
    BITS,
    BOARD,
    DESIGN_B_MAX,
    EVALUATIONS,
    FOLDER_OUT,
    JSON,
    MEMORY,
    PATH,
    core_option,
    cycle_model,
    reading,
    takes,
)
from ..outputs import check_output, is_same
from .helpers.data import CLASSES, whole_data
from .helpers.designs import DEFAULT_CORE, DEFAULT_CYCLES, question_of
from .helpers.networks import read_images, read_network, work_of
from .helpers.steps import FailedStep, StepLog, show_command
from .helpers.surfaces import PORT
from .modes.run_plan import RunOptions, RunPlan
from .modes.run_summary import measure_accuracy, print_summary, summary_of
from .prepare import preprocessing_options

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


@click.command("run")
@click.argument("model", type=PATH)
@click.option(
    "--data",
    type=PATH,
    metavar="DATA",
    help="images: .npz with arrays `images` and `labels`, idx file, or a folder a class  [default: those that come with "
    "fluidnpu, for a network trained on them]",
)
@BOARD
@click.option(
    "--eta",
    type=float,
    metavar="SHARE",
    help="attach early exits, train them, and choose those that keep this share of the network's precision on unseen "
    "images  [default: exits stay as they are]",
)
@click.option(
    "--http",
    type=PORT,
    metavar="PORT",
    help="serve at the end, over REST here, on the simulated board  [default: do not serve]",
)
@click.option(
    "--out", type=FOLDER_OUT, metavar="FOLDER", help="folder for all files  [default: the name of MODEL, without .onnx]"
)
@click.option(
    "--unseen",
    type=PATH,
    metavar="DATA",
    help="images that nothing learned from, to choose exits and to measure accuracy  [default: with --eta half of --data, "
    "else all of it]",
)
@click.option(
    "--epochs", type=click.IntRange(min=1), default=4, show_default=True, help="how long the exits of --eta are trained"
)
@click.option("--no-verify", is_flag=True, help="leave out the C simulation, which needs a C++ compiler")
@preprocessing_options
@CLASSES
@BITS
@click.option(
    "--tolerance", default=0.5, show_default=True, help="points of accuracy that integers may lose against float"
)
@DESIGN_B_MAX
@MEMORY
@cycle_model(DEFAULT_CYCLES)
@EVALUATIONS
@core_option(DEFAULT_CORE, "Vivado HLS core or SystemVerilog core")
@reading
@JSON
@takes(RunOptions)
def command(options: RunOptions) -> None:
    """From MODEL to a verified project for a board, and to served requests (--http).

    Runs check, prepare, exits and train (--eta), dse, build, verify and serve, and shows each command as you
    could type it. What is fresh in the folder is kept, so a run that was stopped resumes where it was.
    """
    folder, out = options.folder, show.console(options.as_json)
    check_output("--out", folder, folder=True)
    plan = plan_of(options)
    with files.one_writer(folder):
        log = StepLog(folder)
        for remark in plan.remarks:
            out.print(remark, markup=False)
        try:
            for step in plan.steps:
                log.run(out, step)
        except FailedStep as end:
            if options.as_json:
                answer = {key: value for key, value in end.report.items() if key != "error"}
                show.emit({"step": end.step, "error": end.report.get("error"), "answer": answer})
            raise
        accuracy = measure_accuracy(out, log, plan)
    summary = summary_of(log, plan, accuracy)
    if options.as_json:
        show.emit(summary)
    else:
        print_summary(out, summary)
    if options.http is not None:
        serve(out, plan, options)


def plan_of(options: RunOptions) -> RunPlan:
    """Read the model, and plan the steps that it needs. Raises UsageError, DesignError and NetworkError."""
    if options.eta is not None and not 0 < options.eta < 1:
        raise UsageError(
            f"--eta must be a share of the network's precision, above 0 and below 1, not {options.eta:g}: no number of "
            "images makes sure of all of it"
        )
    if options.unseen is not None and options.data is None:
        raise UsageError("--unseen is beside the images to learn from, so it needs --data")
    board, network = boards.load_board(options.board), read_network(options.model)
    for data in (options.data, options.unseen):
        if data is not None and not whole_data(data).exists():
            raise UsageError(f"the images must be a file or a folder, and '{data}' is neither")
    if not options.tolerance >= 0:
        raise UsageError(f"--tolerance must be a number of points of at least 0, not {options.tolerance:g}")
    if options.data is None and read_images(network, None) is None:
        raise UsageError(f"a run needs images for '{network.name}'; give them with --data")
    if options.data is None and options.eta is not None:
        raise UsageError("--eta trains exits on labelled images, which --data names")
    question_of(work_of(network, options.bits), board, options.search)  # refused now, not behind a training
    names_classes = network.exits[-1].logits is not None and not isinstance(network.check, MapCheck)
    plan = RunPlan.of(options, board, network, names_classes=names_classes)
    for name, given in (("MODEL", options.model), ("--data", options.data), ("--unseen", options.unseen)):
        if given is not None:
            check_apart(plan, name, whole_data(given))
    return plan


def check_apart(plan: RunPlan, name: str, given: Path) -> None:
    """Refuse an input that the run would write over or write into. Raises UsageError."""
    if given.is_dir() and plan.folder.resolve().is_relative_to(given.resolve()):
        raise UsageError(f"--out must lie outside the images of {name}, and '{plan.folder}' is in '{given}'")
    for place in plan.written:
        if is_same(given, place):
            raise UsageError(f"{name} must not be what the run writes, and both are '{place}': name another --out")


def serve(out: Console, plan: RunPlan, options: RunOptions) -> None:
    """Serve the project until a signal comes."""
    step = plan.serving
    out.print(f"$ {step.line}", markup=False, soft_wrap=True)
    show_command(step.command, [*step.words, *(["--json"] if options.as_json else [])])
