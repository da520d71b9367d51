"""`fluidnpu measure`: a network's times on this machine's processor, as a profile for a fleet file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from fluidnpu import models
from fluidnpu.models import files, onnx
from fluidnpu.scheduler import placement

from .. import show
from ..errors import UsageError
from ..options import FILE_OUT, JSON, PATH, reading, takes
from .networks import read_model_or_name


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """The command line of `fluidnpu measure`."""

    model: Path
    batch: int
    threads: int
    seconds: float
    out: Path | None
    as_json: bool


@click.command("measure")
@click.argument("model", type=PATH)
@reading
@click.option("--batch", type=click.IntRange(1, 256), default=8, show_default=True, help="the largest batch")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="of one worker")
@click.option(
    "--seconds", type=float, default=0.5, show_default=True, help="at least, a stage and batch size; five runs at least"
)
@click.option("--out", type=FILE_OUT, metavar="HOST.json", help="where to write the profile")
@JSON
@takes(MeasureOptions)
def command(options: MeasureOptions) -> None:
    """Time MODEL on this machine's processor, stage by stage and batch by batch, with onnxruntime in float32.

    The profile is what a fleet file names for a type of kind "cpu", so that `place` can put networks there.

    Exit code: 0 measured; 2 bad input.
    """
    if not 0 < options.seconds < 3600:
        raise UsageError(f"--seconds must be above 0 and below an hour, not {options.seconds:g}")
    network = read_model_or_name(options.model)
    if not isinstance(network, models.Network) or not network.parameters:
        raise UsageError(f"MODEL must have weights to be timed, and '{options.model}' has none")
    out = show.console(options.as_json)
    with show.progress(out, "timing") as step:
        stages = onnx.measure_stages(
            network, options.batch, threads=options.threads, seconds=options.seconds, progress=step
        )
    cuts = [one.input_bytes for one in stages[1:]] + [0]
    profile = placement.Profile(
        network=network.name,
        blocks=tuple(
            placement.Block(name=f"stage{k}", ns=one.ns, exit=one.exit, cut_bytes=cut, weights_bytes=one.weights_bytes)
            for k, (one, cut) in enumerate(zip(stages, cuts, strict=True))
        ),
        slot_bytes=onnx.peak_bytes(network),
        source=f"measured with {onnx.measured_on(options.threads)}",
    )
    if options.out is not None:
        files.write_file(options.out, profile.dumps())
    if options.as_json:
        show.emit(profile.to_dict())
        return
    rows = [(one.exit, *(f"{one.ns[batch - 1] / 1e6:.3f}" for batch in shown(options.batch))) for one in stages]
    columns = ["to exit", *(f"ms, B = {batch}" for batch in shown(options.batch))]
    out.print(show.table(f"{network.name}, {profile.source}", columns, rows))
    whole = sum(one.ns[-1] for one in stages)
    out.print(f"{1e9 * options.batch / whole:.4g} samples a second in batches of {options.batch} without early exits")
    if options.out is not None:
        out.print(f"profile written to [bold]{options.out}[/]")


def shown(most: int) -> list[int]:
    """Batch sizes with a column: powers of two, and the largest.

    >>> shown(8), shown(6)
    ([1, 2, 4, 8], [1, 2, 4, 6])
    """
    return [*(1 << k for k in range(most.bit_length()) if 1 << k < most), most]
