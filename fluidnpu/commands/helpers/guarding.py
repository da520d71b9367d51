"""The guard that needs no labels, as commands run it: integers beside float on the images at hand."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import models
from fluidnpu.models import numeric

from ... import show
from ...errors import add_note

if TYPE_CHECKING:
    from rich.console import Console

MOST_ERROR = click.option(
    "--most-error",
    type=float,
    default=None,
    metavar="SHARE",
    help="error that words may make at an exit or output, root mean square over the spread of float's values; above it "
    "channels are equalised, and if that does not help the network is refused; of classes with --bits 8 it is 0.15 unless given  [default: 0.02]",
)


def guard_words(
    out: Console, network: models.Network, images: models.ImageSet, most_error: float | None, bits: int = 16
) -> numeric.Guarded:
    """Compare int16 or int8 with float on a sample of the images. Raises DeviationError and NetworkError."""
    options: dict[str, Any] = {} if most_error is None else {"most_error": most_error}
    options |= {} if bits == 16 else {"bits": bits}
    try:
        with show.progress(out, f"comparing int{bits} of '{network.name}' with float") as step:
            return numeric.guard_network(network, images.images, progress=step, **options)
    except numeric.DeviationError as error:
        add_note(error, "--most-error accepts more")
        raise


def compare_trained(
    out: Console, network: models.Network, images: models.ImageSet, bits: int = 16
) -> tuple[models.Network, numeric.Guarded | None, str]:
    """Compare a network that was trained just now: return it, the comparison, and what keeps it from int16.

    It is not refused, since its weights cost hours: where int16 is too far from float, the sentence says so.
    """
    try:
        guard = guard_words(out, network, images, None, bits)
    except models.NetworkError as error:
        return network, None, str(error)
    return guard.network, guard, ""


def without_record(network: models.Network) -> models.Network:
    """Return the network without what its file says of words beside float, which is about other exits."""
    kept = {key: text for key, text in network.metadata.items() if key not in numeric.RECORDS.values()}
    return dataclasses.replace(network, metadata=kept)


def guard_report(guard: numeric.Guarded | None) -> dict[str, Any] | None:
    """Give the comparison in plain JSON types; null where there was none.

    The error without equalisation is null where int16 did not take the network, or nothing was equalised now.
    """
    if guard is None:
        return None
    before = guard.before if guard.before is not None and math.isfinite(guard.before) else None
    return guard.comparison.to_dict() | {"equalised": sorted(guard.network.equalisation), "error_before": before}


def say_guarded(
    out: Console, network: models.Network, guard: numeric.Guarded | None, lacks: str = "", bits: int = 16
) -> None:
    """Print how near the words come to float, and what was equalised for it.

    Else print what keeps them from that, or what the model's file says.
    """
    from rich.markup import escape

    if lacks:
        out.print(f"  [yellow]{escape(lacks)}[/]")
    elif guard is None:
        record = network.metadata.get(numeric.RECORDS[bits])
        words = (
            "was not compared with float: that needs images"
            if record is None
            else f"beside float, as prepared: {record}"
        )
        out.print(f"  [dim]int{bits} {escape(words)}[/]")
    else:
        _say(out, guard)


def _say(out: Console, guard: numeric.Guarded) -> None:
    from rich.markup import escape

    width = f"int{guard.qnet.bits}"
    out.print(f"{width} beside float on {guard.comparison.images} images: {escape(guard.comparison.text)}")
    if guard.before is not None:
        tensors = sorted(guard.network.equalisation)
        more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
        without = (
            f"{guard.before:.2g} without" if math.isfinite(guard.before) else f"{width} does not take it otherwise"
        )
        out.print(f"  channels equalised in {escape(', '.join(tensors[:3]))}{more} ({without})")
