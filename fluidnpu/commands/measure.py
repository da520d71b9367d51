"""`fluidnpu measure`: times of a network or a bundle on this machine's processor, for fleet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import models
from fluidnpu.host import fleet
from fluidnpu.models import files, onnx
from fluidnpu.scheduler import placement

from .. import show
from ..errors import UsageError
from ..options import FILE_OUT, FOLDER_OUT, JSON, PATH, is_default, reading, takes
from ..outputs import is_same
from ..quantities import plain
from .helpers.addresses import ADDRESSES, physical
from .helpers.networks import read_model_or_name
from .modes.measure_layers import COUNTED, measure_layers, print_layers

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """The command line of `fluidnpu measure`."""

    model: Path
    batch: int
    threads: int
    seconds: float
    out: Path | None
    worker: Path | None
    as_json: bool
    layers: bool = False
    device: str = "simulated"
    registers: str | None = None
    reserved: str | None = None


@click.command("measure")
@click.argument("model", type=PATH, metavar="MODEL|BUNDLE")
@reading
@click.option(
    "--batch",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="MODEL: the largest batch; --layers: the samples of the job  [default there: the largest batch of the bundle]",
)
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="MODEL: of onnxruntime")
@click.option(
    "--seconds", type=float, default=0.5, show_default=True, help="at least, a stage and batch size; five runs at least"
)
@click.option("--out", type=FILE_OUT, metavar="HOST.json", help="where to write the profile")
@click.option(
    "--worker", type=FOLDER_OUT, metavar="FOLDER", help="BUNDLE: where to write the bundle that a processor serves"
)
@click.option("--layers", is_flag=True, help="BUNDLE of an NPU: what it counts in each layer, beside the exact model")
@click.option(
    "--device",
    default="simulated",
    show_default=True,
    type=click.Choice(COUNTED),
    help="--layers: the NPU, simulated, in Verilator (rtl, cosim) or of this board, as `stream --device` takes it",
)
@ADDRESSES
@JSON
@takes(MeasureOptions)
def command(options: MeasureOptions) -> None:
    """Time a network on this machine's processor, stage by stage and batch by batch.

    The program of a BUNDLE is timed as it is served: its integers, bit for bit a board's answers, by one
    thread. --worker writes the bundle that `serve --device cpu` serves, and that a type of kind "cpu" of a
    fleet file names.

    With --layers an NPU runs the network of a BUNDLE once, and what it has counted is printed layer by layer:
    cycles, cycles without input, words and bursts of memory. Where a number is not that of the exact model,
    the difference stands behind it. Simulated and RTL devices differ in none; a board has its own memory.

    A MODEL is timed with onnxruntime in float32, for plans alone: its profile may stand in a fleet file, too.

    Exit code: 0 measured; 1 the measuring process failed; 2 bad input.
    """
    if not 0 < options.seconds < 3600:
        raise UsageError(f"--seconds must be above 0 and below an hour, not {options.seconds:g}")
    if options.layers:
        _measure_layers(options)
        return
    for name, given in (("--device", "device"), ("--registers", "registers"), ("--reserved", "reserved")):
        if not is_default(given):
            raise UsageError(f"{name} is for --layers: all else is measured on this processor")
    if options.model.is_dir():
        _measure_bundle(options)
        return
    if options.worker is not None:
        raise UsageError(f"--worker is for a BUNDLE, whose program it serves, and '{options.model}' is none")
    network = read_model_or_name(options.model)
    if not isinstance(network, models.Network) or not network.parameters:
        raise UsageError(f"MODEL must have weights to be timed, and '{options.model}' has none")
    out = show.console(options.as_json)
    with show.progress(out, "timing") as step:
        stages = onnx.measure_stages(
            network, options.batch, threads=options.threads, seconds=options.seconds, progress=step
        )
    cuts = [stage.input_bytes for stage in stages[1:]] + [0]
    profile = placement.Profile(
        network=network.name,
        blocks=tuple(
            placement.Block(
                name=f"stage{k}", ns=stage.ns, exit=stage.exit, cut_bytes=cut, weights_bytes=stage.weights_bytes
            )
            for k, (stage, cut) in enumerate(zip(stages, cuts, strict=True))
        ),
        slot_bytes=onnx.peak_bytes(network),
        source=f"measured with {onnx.measured_on(options.threads)}",
    )
    if options.out is not None:
        files.write_file(options.out, profile.dumps())
    if options.as_json:
        show.emit(profile.to_dict())
        return
    rows = [
        (stage.exit, *(f"{stage.ns[batch - 1] / 1e6:.3f}" for batch in list_shown_batches(options.batch)))
        for stage in stages
    ]
    columns = ["to exit", *(f"ms, B = {batch}" for batch in list_shown_batches(options.batch))]
    out.print(show.table(f"{network.name}, {profile.source}", columns, rows))
    whole = sum(stage.ns[-1] for stage in stages)
    print_frames(out, 1e9 * options.batch / whole, options.batch)
    if options.out is not None:
        out.print(f"profile written to [bold]{options.out}[/]")


def _measure_layers(options: MeasureOptions) -> None:
    for name, given in (("--threads", "threads"), ("--seconds", "seconds"), ("--out", "out"), ("--worker", "worker")):
        if not is_default(given):
            raise UsageError(f"{name} is for times on a processor, and --layers counts on an NPU")
    if not options.model.is_dir():
        raise UsageError(f"--layers is for a BUNDLE, and '{options.model}' is none")
    inside = options.model / "bundle"  # of a project
    folder = inside if inside.is_dir() else options.model
    batch = None if is_default("batch") else options.batch
    print_layers(
        measure_layers(folder, options.device, batch, physical(options.registers, options.reserved)),
        as_json=options.as_json,
    )


def _measure_bundle(options: MeasureOptions) -> None:
    for name, given in (("--batch", "batch"), ("--threads", "threads")):
        if not is_default(given):
            raise UsageError(f"{name} is for a MODEL: a worker runs the batches of its bundle, on one thread")
    inside = options.model / "bundle"  # of a project
    folder = inside if inside.is_dir() else options.model
    if options.worker is not None and is_same(options.worker, folder):
        raise UsageError(f"--worker must be another folder than that of the bundle that is measured, '{folder}'")
    out = show.console(options.as_json)
    with show.progress(out, "timing") as step:
        measured = fleet.measure_worker(folder, options.seconds, step)
    profile, design = measured.profile, measured.design
    if options.worker is not None:
        measured.write(options.worker)
    if options.out is not None:
        files.write_file(options.out, profile.dumps())
    if options.as_json:
        show.emit(profile.to_dict())
        return
    batches = list_shown_batches(design.b_max)
    rows = [
        (exit, *(f"{row[batch - 1] / 1e6:.3f}" for batch in batches))
        for exit, row in zip(design.exits, design.latency.ns, strict=True)
    ]
    columns = ["to exit", *(f"ms, B = {batch}" for batch in batches)]
    out.print(show.table(f"{design.network}, measured on {design.board}", columns, rows))
    whole = design.latency.between(0, design.stages - 1, design.b_max)
    print_frames(out, 1e9 * design.b_max / whole, design.b_max)
    if options.out is not None:
        out.print(f"profile written to [bold]{options.out}[/]")
    if options.worker is not None:
        out.print(f"bundle written to [bold]{options.worker}[/]")


def print_frames(out: Console, frames_per_second: float, batch: int) -> None:
    """Print the samples a second that go through the whole network."""
    out.print(f"{plain(frames_per_second, 4)} frames/s in batches of {batch}: the whole network, nobody leaves early")


def list_shown_batches(most: int) -> list[int]:
    """Batch sizes with a column: powers of two, and the largest.

    >>> list_shown_batches(8), list_shown_batches(6)
    ([1, 2, 4, 8], [1, 2, 4, 6])
    """
    return [*(1 << k for k in range(most.bit_length()) if 1 << k < most), most]
