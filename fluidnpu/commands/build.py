"""`fluidnpu build`: the bitstream project and the driver's bundle of a network."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import boards, dse, hls, models
from fluidnpu.hls import core as hls_core
from fluidnpu.hls import program as hls_program
from fluidnpu.hls import project as hls_project
from fluidnpu.models import exits as model_exits
from fluidnpu.models import numeric

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..options import (
    BITS,
    BOARD,
    DATA,
    DESIGN_B_MAX,
    DESIGN_FILE,
    EVALUATIONS,
    EXIT_RATES,
    FOLDER_OUT,
    JSON,
    MEMORY,
    PATH,
    core_option,
    cycle_model,
    is_default,
    numbers,
    reading,
    takes,
)
from .helpers.data import CLASSES, with_class_names
from .helpers.designs import DEFAULT_CORE, DEFAULT_CYCLES, Search, bits_of, choose_design
from .helpers.guarding import MOST_ERROR, guard_report, guard_words, say_guarded
from .helpers.networks import (
    of_width,
    quantise_network,
    read_images,
    read_network,
    say_assumed,
    with_given_rates,
    with_rates_of,
)
from .helpers.projects import project_files

if TYPE_CHECKING:
    from rich.console import Console

SHIPPED = "resnet8_fashion_mnist.onnx"


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Search):
    """The command line of `fluidnpu build`."""

    model: Path | None
    board: str
    design_file: Path | None
    out: Path
    data: Path | None
    exit_rates: str | None
    tolerance: float
    most_error: float | None
    tools: str
    first_run: bool
    as_json: bool


@click.command("build")
@click.argument("model", type=PATH, required=False)
@BOARD
@DESIGN_B_MAX
@MEMORY
@DESIGN_FILE
@cycle_model(DEFAULT_CYCLES)
@EVALUATIONS
@BITS
@core_option(DEFAULT_CORE, "Vivado HLS core or SystemVerilog core")
@click.option(
    "--tools",
    default="2019.2",
    show_default=True,
    type=click.Choice(["2019.2", "2022.1"]),
    help="Vivado that the project is for: 2019.2 with Vivado HLS, or 2022.1 and later with Vitis HLS",
)
@click.option(
    "--first-run",
    is_flag=True,
    help="a small array at 100 MHz, not searched, for whoever runs the vendor's tools first: `make first-run` in the "
    "project packs all reports; MODEL may be left out",
)
@click.option("--out", required=True, type=FOLDER_OUT, help="folder for the bitstream project")
@DATA
@CLASSES
@EXIT_RATES
@click.option(
    "--tolerance", default=0.5, show_default=True, help="points of accuracy that integers may lose against float"
)
@MOST_ERROR
@reading
@JSON
@takes(BuildOptions)
def command(options: BuildOptions) -> None:
    """Write the bitstream project and the driver's bundle for MODEL on a board."""
    _check(options)
    with _model(options.model) as model:
        build_project(options, model)


def _check(options: BuildOptions) -> None:
    """Refuse a command line without a model, and a first run of another array than its own."""
    if options.model is None and not options.first_run:
        raise UsageError("MODEL must be named: only --first-run does without, and builds for the network of the demo")
    asked = {"--design": "design_file", "--evaluations": "evaluations", "--cycles": "cycle_model", "--bits": "bits"}
    typed = [option for option, name in asked.items() if not is_default(name)]
    if options.first_run and typed:
        raise UsageError(f"--first-run must be without {typed[0]}: it builds an array of its own and searches none")


def _model(model: Path | None) -> AbstractContextManager[Path]:
    return models.shipped_file(SHIPPED) if model is None else nullcontext(model)


def _design(out: Console, network: models.Network, board: boards.Board, options: BuildOptions) -> dse.Design:
    if not options.first_run:
        return dse.counted_with(choose_design(out, network, board, options, options.design_file), options.core)
    return hls_project.first_run_design(
        network.workload, board, memory=options.memory, core=options.core, b_max=options.largest_batch
    )


def build_project(options: BuildOptions, model: Path) -> None:
    """Compare integers with float, then write project and bundle.

    Raises NegativeAnswerError, which is exit code 1, where no bitstream can come.
    """
    out, folder = show.console(options.as_json), options.out
    with hls_project.project_folder(folder) as write:
        board, network = boards.load_board(options.board), read_network(model)
        board = hls_project.slow_down(board) if options.first_run else board
        network = with_given_rates(network, numbers("--exit-rates", options.exit_rates))
        images = read_images(network, options.data)
        network = with_class_names(network, images)
        bits = bits_of(options, options.design_file)
        network = of_width(network, bits)
        compared = None if images is None else guard_words(out, network, images, options.most_error, bits)
        network, qnet = (
            (network, quantise_network(network, None, bits)) if compared is None else (compared.network, compared.qnet)
        )
        design = _design(out, network, board, options)
        guard = _guarded(out, network, qnet, images, options.tolerance)
        network = _with_measured_rates(network, qnet, images, guard)
        design = with_rates_of(design, network)
        program = hls.compile_program(qnet, design)
        files = project_files(
            design,
            program,
            board,
            options.core,
            tools=options.tools,
            first_run=options.first_run,
            notes={}
            if compared is None
            else {f"int{bits}.json": json.dumps(guard_report(compared), sort_keys=True) + "\n"},
        )
        write(files)
    lacks = hls_core.hls_core_lacks(design, board) if options.core == "hls" else ""
    report = {
        "folder": str(folder),
        "files": len(files),
        "design": design.digest,
        "build_id": f"{hls_program.digest_build_id(design.hardware_digest):08x}",
        "float_accuracy": None if guard is None else guard.float_accuracy,
        f"int{bits}_accuracy": None if guard is None else guard.stored_accuracy,
        f"int{bits}": guard_report(compared),
        "exit_rates": None if design.exit_rates is None else list(design.exit_rates),
        "missing": [lacks] if lacks else [],
    }
    if options.as_json and not lacks:
        show.emit(report)
        return
    out.print(f"{show.point(design)} for {board.name} by the {design.model} model, build id {report['build_id']}")
    say_assumed(out, network)
    say_guarded(out, network, compared, bits=bits)
    for line in _remarks(design, guard, options.tolerance):
        out.print(line)
    if lacks:
        out.print(f"{len(files)} files in [bold]{folder}[/]")
        raise NegativeAnswerError(f"no bitstream can come of '{folder}': {lacks}", report)
    makes = (
        "`make first-run` there packs the tools' reports"
        if options.first_run
        else "its README says how to make the bitstream"
    )
    out.print(f"{len(files)} files in [bold]{folder}[/]; {makes}")


def _guarded(
    out: Console,
    network: models.Network,
    qnet: models.QuantisedNetwork,
    images: models.ImageSet | None,
    tolerance: float,
) -> numeric.GuardReport | None:
    """Compare integers with float where there are labelled images; None where there are none."""
    if images is None or not images.labelled or network.exits[-1].logits is None:
        return None
    with show.progress(out, f"measuring accuracy in float and int{qnet.bits}") as step:
        return models.accuracy_guard(network, qnet, images.images, images.labels, tolerance, step)


def _with_measured_rates(
    network: models.Network,
    qnet: models.QuantisedNetwork,
    images: models.ImageSet | None,
    guard: numeric.GuardReport | None,
) -> models.Network:
    """Give the network the rates that its integers have on the images, where it has none yet."""
    if images is None or network.workload.exit_rates is not None:
        return network
    if guard is not None:
        return model_exits.with_rates(network, guard.exit_rates)
    taken = models.golden.early_exit(qnet, images.images)[0].tolist()
    return model_exits.with_rates(network, [taken.count(index) / len(taken) for index in range(len(network.exits))])


def _remarks(design: dse.Design, guard: numeric.GuardReport | None, tolerance: float) -> list[str]:
    """Say what the accuracy is, where labels tell, and what `stream` will want."""
    lines = []
    if guard is not None:
        accuracies = (
            f"float {100 * guard.float_accuracy:.2f} %, int{design.word_bits} {100 * guard.stored_accuracy:.2f} %"
        )
        lines.append(f"accuracy on {guard.images} images: {accuracies} (tolerance {tolerance:g} points)")
    if design.exit_rates is None and design.stages > 1:
        lines.append("  [dim]exit rates are not known: `stream` wants --exit-rates, or --data to measure them[/]")
    return lines
