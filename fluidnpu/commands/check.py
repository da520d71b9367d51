"""`fluidnpu check`: read a model and print its content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fluidnpu import models

from .. import show
from ..options import JSON, PATH, reading, takes
from .check_board import check_board
from .networks import read_model_or_name, say_assumed
from .prepare import prepared_report, print_intake


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The command line of `fluidnpu check`."""

    model: Path
    as_json: bool


@click.command("check")
@click.argument("model", type=PATH)
@reading
@JSON
@takes(CheckOptions)
def command(options: CheckOptions) -> None:
    """Can this model be used? Layers, MACs, exits and operators, or what stands in the way and where.

    MODEL may also be the TOML file of a board.
    """
    if options.model.suffix == ".toml":
        check_board(options.model, options.as_json)
    else:
        check_model(options)


def check_model(options: CheckOptions) -> None:
    """Read a model and print layers, operators and exits."""
    model = read_model_or_name(options.model)
    report = model_report(model)
    if options.as_json:
        show.emit(report)
        return
    out = show.console()
    kinds, macs = ", ".join(report["operators"]), report["macs"] / 1e6
    out.print(f"[bold]{report['name']}[/] can be used: {report['layers']} layers ({kinds}), {macs:.2f} MMAC")
    rows = [
        (
            exit["name"],
            f"{exit['macs'] / 1e6:.2f}",
            *(show.number(exit.get(key), ".4g") for key in ("threshold", "rate", "accuracy")),
        )
        for exit in report["exits"]
    ]
    if isinstance(model, models.Network):
        print_intake(out, model)
    out.print(show.table("Exits", ("exit", "MMAC to here", "threshold", "rate", "accuracy"), rows))
    if report.get("outputs"):
        given = [
            (one["name"], " x ".join(map(str, one["shape"])), one["activation"] or "none", str(one["stage"]))
            for one in report["outputs"]
        ]
        out.print(show.table("Outputs that are no exits", ("output", "shape", "activation", "stage"), given))
    if isinstance(model, models.Network):
        say_assumed(out, model)


def model_report(model: models.Network | models.Workload) -> dict[str, Any]:
    """Give name, MACs, layers, operators and exits of a model, in plain JSON types."""
    work = model if isinstance(model, models.Workload) else model.workload
    exits = []
    for stage, name in enumerate(work.exits):
        entry: dict[str, Any] = {
            "name": name,
            "macs": sum(layer.macs for layer in work.layers if layer.stage <= stage),
        }
        if isinstance(model, models.Network):
            exit = model.exits[stage]
            threshold = {} if stage == len(work.exits) - 1 else {"threshold": exit.threshold}
            entry |= threshold | {"rate": exit.rate, "accuracy": exit.accuracy}
        exits.append(entry)
    facts: dict[str, Any] = {}
    if isinstance(model, models.Network):
        facts = prepared_report(model)
        shown = [(one.name, list(one.shape), one.activation, one.stage) for one in model.outputs]
        facts["outputs"] = [dict(zip(("name", "shape", "activation", "stage"), one, strict=True)) for one in shown]
    return {
        **facts,
        "name": work.name,
        "macs": work.macs,
        "layers": len(work.layers),
        "exits": exits,
        "operators": sorted({layer.kind.value for layer in work.layers}),
    }
