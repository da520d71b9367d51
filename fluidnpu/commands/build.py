"""`fluidnpu build`: the bitstream project and the driver's bundle of a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from fluidnpu import boards, hls, models, rtl_tb
from fluidnpu.hls import core as hls_core
from fluidnpu.hls import project as hls_project

from .. import show
from ..errors import NegativeAnswerError
from ..options import BOARD, DATA, DESIGN_B_MAX, DESIGN_FILE, JSON, MEMORY, PATH, core_option, cycle_model, takes
from ..wheel import board_wheel
from .designs import Search, chosen_design
from .networks import labelled_images, quantised, read_network


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Search):
    """The command line of `fluidnpu build`."""

    model: Path
    board: str
    design_file: Path | None
    out: Path
    data: Path | None
    tolerance: float
    tools: str
    as_json: bool


@click.command("build")
@click.argument("model", type=PATH)
@BOARD
@DESIGN_B_MAX
@MEMORY
@DESIGN_FILE
@cycle_model("exact")
@core_option("hls", "Vivado HLS core or SystemVerilog core")
@click.option(
    "--tools",
    default="2019.2",
    show_default=True,
    type=click.Choice(["2019.2", "2022.1"]),
    help="Vivado that the project is for: 2019.2 with Vivado HLS, or 2022.1 and later with Vitis HLS",
)
@click.option("--out", required=True, type=PATH, help="folder for the bitstream project")
@DATA
@click.option(
    "--tolerance", default=0.5, show_default=True, help="points of accuracy that int16 may lose against float"
)
@JSON
@takes(BuildOptions)
def command(options: BuildOptions) -> None:
    """Write the bitstream project and the driver's bundle for MODEL on a board."""
    build_project(options)


def build_project(options: BuildOptions) -> None:
    """Guard the accuracy, then write project and bundle; exit code 1 where no bitstream can come of them."""
    out, folder = show.console(options.as_json), options.out
    hls_project.check_folder(folder)
    board, network = boards.load_board(options.board), read_network(options.model)
    design = chosen_design(out, network, board, options, options.design_file)
    images = labelled_images(network, options.data)
    qnet = quantised(network, images)
    guard = models.accuracy_guard(network, qnet, images.images, images.labels, options.tolerance)
    program = hls.compile_program(qnet, design)
    files = hls.render_project(
        design, program, board, options.core, rtl=rtl_tb.sources(), tools=options.tools, wheel=board_wheel()
    )
    hls.write_project(files, folder)
    lacks = hls_core.hls_core_lacks(design, board) if options.core == "hls" else ""
    report = {
        "folder": str(folder),
        "files": len(files),
        "design": design.digest,
        "build_id": f"{program.build_id:08x}",
        "float_accuracy": guard.float_accuracy,
        "int16_accuracy": guard.int16_accuracy,
        "missing": [lacks] if lacks else [],
    }
    if options.as_json and not lacks:
        show.emit(report)
        return
    point = f"<{design.t_r}, {design.t_p}, {design.t_c}>"
    out.print(f"{point} for {board.name} by the {design.model} model, build id {report['build_id']}")
    accuracies = f"float {100 * guard.float_accuracy:.2f} %, int16 {100 * guard.int16_accuracy:.2f} %"
    out.print(f"accuracy on {guard.images} images: {accuracies} (tolerance {options.tolerance:g} points)")
    if lacks:
        out.print(f"{len(files)} files in [bold]{folder}[/]")
        raise NegativeAnswerError(f"no bitstream can come of '{folder}': {lacks}", report)
    out.print(f"{len(files)} files in [bold]{folder}[/]; its README says how to make the bitstream")
