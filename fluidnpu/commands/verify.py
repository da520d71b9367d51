"""`fluidnpu verify`: C simulation of the generated HLS C++ against the golden model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from fluidnpu import boards, hls
from fluidnpu.hls import core as hls_core

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..options import BITS, BOARD, DATA, DESIGN_B_MAX, DESIGN_FILE, JSON, PATH, reading, takes
from .helpers.data import CLASSES, refuse_classes_without
from .helpers.designs import Search, bits_of, choose_design, default_cycles
from .helpers.networks import NOISE_SEED, noise, of_width, quantise_network, read_images, read_network


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """The command line of `fluidnpu verify`."""

    model: Path
    board: str
    b_max: int | None
    design_file: Path | None
    batches: str | None
    bits: int
    data: Path | None
    as_json: bool


@click.command("verify")
@click.argument("model", type=PATH)
@BOARD
@DESIGN_B_MAX
@DESIGN_FILE
@BITS
@click.option(
    "--batches", metavar="B[,B...]", help="batch sizes to compare  [default: every one up to the design's largest]"
)
@DATA
@CLASSES
@reading
@JSON
@takes(VerifyOptions)
def command(options: VerifyOptions) -> None:
    """Compile the generated HLS C++ and compare every layer with the golden model, bit for bit."""
    verify_core(options)


def verify_core(options: VerifyOptions) -> None:
    """Compare C simulation with golden. Raises NegativeAnswerError for a mismatch, which is exit code 1, and
    UsageError for too few images.
    """
    refuse_classes_without(options.data)
    out = show.console(options.as_json)
    board, network = boards.load_board(options.board), read_network(options.model)
    images = read_images(network, options.data)
    search = Search(b_max=options.b_max, cycle_model=default_cycles(), bits=options.bits)
    bits = bits_of(search, options.design_file)
    network = of_width(network, bits)
    if options.design_file is None and search.largest_batch > 0:
        parse_batches(options.batches, search.largest_batch)  # what is wrong is said before a search, which takes long
    design = choose_design(out, network, board, search, options.design_file)
    sizes = parse_batches(options.batches, design.b_max)
    if images is None:
        images = noise(network.intake, max(sizes))
        ranges = "" if network.calibration else ", which give the ranges, too: the file has none"
        out.print(f"  [dim]no --data: {max(sizes)} random images with seed {NOISE_SEED}{ranges}[/]")
    if len(images) < max(sizes):
        raise UsageError(f"--data must hold {max(sizes)} images for batches of {max(sizes)}, not {len(images)}")
    qnet = quantise_network(network, images, bits)
    with show.progress(out, "C simulation") as step:
        report = hls.csim_network(
            qnet,
            design,
            images.images[: max(sizes)],
            batches=sizes,
            progress=step,
            ultra_banks=hls_core.hls_ultra_banks(design, board),
        )
    answer = {
        "layers": report.layers,
        "batches": list(report.batches),
        "mismatches": report.mismatches,
        "outputs": report.outputs,
        "ok": report.ok,
    }
    if not report.ok:
        raise NegativeAnswerError(f"C simulation must equal golden: {report.summary()}", answer)
    if options.as_json:
        show.emit(answer)
    else:
        out.print(f"C simulation against golden: {report.summary()}")


def parse_batches(text: str | None, b_max: int) -> tuple[int, ...]:
    """Read batch sizes; every one up to `b_max` where the option is absent. Raises UsageError.

    >>> parse_batches("1,4", 8), parse_batches(None, 3)
    ((1, 4), (1, 2, 3))
    """
    if text is None:
        return tuple(range(1, b_max + 1))
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(1 <= size <= b_max for size in sizes):
        raise UsageError(f"--batches must be whole numbers of 1..{b_max} with commas between them, not '{text}'")
    return sizes
