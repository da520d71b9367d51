"""`fluidnpu exits` and the `--exits` of `fluidnpu dse`: places of exits in a network, and heads attached
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fluidnpu import models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import onnx as model_onnx
from fluidnpu.models import zoo

from .. import show
from ..errors import UsageError
from ..options import JSON, PATH, takes
from .networks import is_full_size, read_model_or_name

Places = int | tuple[str, ...]  # a number of exits at equal shares of the MACs, or names
CALIBRATION_IMAGES = 2  # of noise, for weights that are random anyway


@dataclass(frozen=True, kw_only=True)
class ExitsOptions:
    """The command line of `fluidnpu exits`."""

    model: Path
    places: str | None
    out: Path | None
    threshold: float
    seed: int
    as_json: bool


@click.command(
    "exits",
    help="Where MODEL can be left early, and heads put there; MODEL is ONNX, or resnet50 or inception_v3 with random "
    "weights.",
)
@click.argument("model", type=PATH)
@click.option(
    "--exits", "places", metavar="N|at=NAME,NAME", help="attach exits at equal MACs, N in all, or at named tensors"
)
@click.option(
    "--out",
    type=PATH,
    metavar="NEW.onnx",
    help="where to write the network, normalisations folded",
)
@click.option(
    "--threshold", default=1.0, show_default=True, help="confidence above which a new exit is taken; 1: never"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="seed of resnet50's and inception_v3's weights",
)
@JSON
@takes(ExitsOptions)
def command(options: ExitsOptions) -> None:
    """List the places of exits in a network, and attach heads there."""
    list_exits(options)


def parse_places(text: str) -> Places:
    """Read the text of `--exits`. Raises UsageError.

    >>> parse_places("4"), parse_places("equidistant=4"), parse_places("at=conv3,conv7")
    (4, 4, ('conv3', 'conv7'))
    """
    key, equals, value = text.strip().partition("=")
    if equals and key == "at":
        names = tuple(filter(None, (name.strip() for name in value.split(","))))
        if names:
            return names
    number = value if equals and key == "equidistant" else "" if equals else key
    if not number.isdecimal() or len(number) > 9:
        raise UsageError(f"--exits must be N or at=NAME,NAME, not '{text}'")
    return int(number)


def with_exits(
    model: models.Network | models.Workload, places: Places, threshold: float = 1.0
) -> models.Network | models.Workload:
    """Add exits to a single-exit model: heads of their own in a network, cuts free of charge in a layer
    table.
    """
    exits = model.exits
    if isinstance(places, int) and len(exits) > 1:
        raise UsageError(f"equal shares are for models with one exit, and '{model.name}' has {len(exits)}; use at=NAME")
    if isinstance(model, models.Network):
        tensors = model_exits.equidistant_tensors(model, places) if isinstance(places, int) else places
        return model_exits.attach_exits(model, tensors, threshold=threshold)
    if len(exits) > 1:
        raise UsageError(f"the layer table '{model.name}' must have one exit to be cut, and it has {len(exits)}")
    return (
        model_exits.equidistant_exits(model, places)
        if isinstance(places, int)
        else model_exits.exits_after(model, places)
    )


def list_exits(options: ExitsOptions) -> None:
    """List places and exits; with `places` attach exits there, with `out` write the network."""
    if not 0 <= options.threshold <= 1:
        raise UsageError(f"--threshold must be a confidence of 0..1, not {options.threshold}")
    source, bare = options.model, is_full_size(options.model)
    network = read_model_or_name(source)
    if isinstance(network, models.Workload):
        names = ", ".join(zoo.FULL_SIZE)
        raise UsageError(f"this command needs a network (ONNX, or {names}), and '{source}' is a layer table")
    places = model_exits.exit_places(network)
    if options.places is not None:
        changed = with_exits(network, parse_places(options.places), options.threshold)
        assert isinstance(changed, models.Network)
        network = changed
    if options.out is not None:
        if bare:
            network = zoo.with_random_weights(network, options.seed, CALIBRATION_IMAGES)
        model_onnx.write_onnx(network, options.out)
    report: dict[str, Any] = {
        "name": network.name,
        "macs": network.workload.macs,
        "exits": _exit_rows(network),
        "places": [
            {"tensor": p.tensor, "shape": list(p.shape), "macs": p.macs, "share": p.share, "cut": p.cut} for p in places
        ],
        "model": None if options.out is None else str(options.out),
    }
    if options.as_json:
        show.emit(report)
    else:
        _print(report, options.places is None)


def _exit_rows(network: models.Network) -> list[dict[str, Any]]:
    """Give each exit, the beginning of its head, and the MACs of a sample that leaves there."""
    work, rows = network.workload, []
    for stage, exit in enumerate(network.exits):
        macs = sum(layer.macs for layer in work.layers if layer.stage <= stage)
        row = {"name": exit.name, "logits": exit.logits, "macs": macs, "share": macs / work.macs}
        rows.append(row | {"threshold": exit.threshold, "rate": exit.rate})
    return rows


def _print(report: dict[str, Any], places: bool) -> None:
    out = show.console()
    if places:
        rows: Sequence[Sequence[str]] = [
            (p["tensor"], " x ".join(map(str, p["shape"])), f"{p['macs'] / 1e6:.2f}", f"{100 * p['share']:.1f} %", "yes" * p["cut"])
            for p in report["places"]
        ]  # fmt: skip
        title = f"{report['name']}: tensors that an exit can stand at (height x width x channels)"
        out.print(show.table(title, ("tensor", "shape", "MMAC before", "share", "cut"), rows, left=2))
        out.print("  [dim]cut: everything later depends on it alone; --exits N chooses among these[/]")
    rows = [
        (e["name"], e["logits"], f"{e['macs'] / 1e6:.2f}", f"{100 * e['share']:.1f} %", f"{e['threshold']:g}")
        for e in report["exits"]
    ]
    title = f"{report['name']}: exits, MACs with all heads up to there"
    out.print(show.table(title, ("exit", "logits", "MMAC", "share", "threshold"), rows, left=2))
    if report["model"]:
        out.print(f"network written to [bold]{report['model']}[/]")
