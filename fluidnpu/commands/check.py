"""`fluidnpu check`: read a model and print its content."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import models
from fluidnpu.models import onnx as model_onnx

from .. import show
from ..errors import NegativeAnswerError, add_note
from ..options import JSON, PATH, reading, reading_options, takes
from .helpers.networks import is_full_size, read_model_or_name, say_assumed
from .modes.check_board import check_board
from .prepare import print_intake, report_prepared

if TYPE_CHECKING:
    from rich.console import Console

    from fluidnpu.models.tail import Tail


WORST_TABLES = 5  # that are shown


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The command line of `fluidnpu check`."""

    model: Path
    read_on: bool
    as_json: bool


@click.command("check")
@click.argument("model", type=PATH)
@reading
@click.option("--all", "read_on", is_flag=True, help="read on past a refusal, and list all that stands in the way")
@JSON
@takes(CheckOptions)
def command(options: CheckOptions) -> None:
    """Can this model be used? Layers, MACs, exits and operators, or what stands in the way and where.

    MODEL may also be the TOML file of a board.
    """
    if options.model.suffix == ".toml":
        check_board(options.model, options.as_json)
        return
    if options.read_on and options.model.suffix != ".json" and not is_full_size(options.model):
        survey_model(options)
    check_model(options)


def survey_model(options: CheckOptions) -> None:
    """List every kind of obstacle in a graph. Raises NegativeAnswerError where there is one."""
    given = reading_options()
    most = {} if given["most_weights"] is None else {"most_weights": given["most_weights"]}
    surveyed = model_onnx.survey(options.model, size=given["size"], **most)
    if not surveyed.obstacles:
        return
    shown = ", ".join(f"{obstacle.count} {obstacle.kind}" for obstacle in surveyed.obstacles)
    unseen = f"; {surveyed.unseen} nodes behind them could not be looked at" if surveyed.unseen else ""
    if not options.as_json:
        out, remedies = show.console(), dict[str, list[str]]()
        rows = [(str(obstacle.count), obstacle.kind, ", ".join(obstacle.nodes)) for obstacle in surveyed.obstacles]
        out.print(show.table("What stands in the way", ("times", "obstacle", "first nodes"), rows))
        for obstacle in surveyed.obstacles:
            remedy = (obstacle.remedy or obstacle.first).split("; what can be used is")[0]
            remedies.setdefault(remedy, []).append(obstacle.kind)
        for remedy, kinds in remedies.items():
            out.print(f"{', '.join(dict.fromkeys(kinds))}: {remedy}", highlight=False, markup=False)
    answer = {"usable": False, **dataclasses.asdict(surveyed), "path": str(surveyed.path)}
    raise NegativeAnswerError(
        f"{surveyed.path} cannot be used as it is: of its {surveyed.nodes} nodes stand in the way {shown}{unseen}",
        answer,
    )


def check_model(options: CheckOptions) -> None:
    """Read a model and print layers, operators and exits."""
    try:
        model = read_model_or_name(options.model)
    except models.UnsupportedOperatorError as error:
        if not options.read_on:
            add_note(error, f"`fluidnpu check {options.model} --all` lists all that stands in the way")
        raise
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
        say_rewritten(out, model)
        print_intake(out, model)
    out.print(show.table("Exits", ("exit", "MMAC to here", "threshold", "rate", "accuracy"), rows))
    if report.get("outputs"):
        given = [
            (
                output["name"],
                " x ".join(map(str, output["shape"])),
                output["activation"] or "none",
                str(output["stage"]),
            )
            for output in report["outputs"]
        ]
        out.print(show.table("Outputs that are no exits", ("output", "shape", "activation", "stage"), given))
        vectors = [
            output for output in report["outputs"] if len(output["shape"]) == 1 and output["activation"] != "host"
        ]
        heads = [vector["name"] for vector in vectors if vector["shape"][0] > 1]
        if isinstance(model, models.Network) and len(heads) > 1 and all(exit.logits is None for exit in model.exits):
            out.print(f"  [dim]heads of one trunk, all given out; early exits are named: --logits {','.join(heads)}[/]")
    if report.get("unit"):
        print_unit(out, report["unit"])
    if report.get("filters"):
        count = report["filters"]
        out.print(f"Depthwise layers that the layer before can compute on its way out: {count}", highlight=False)
    if report.get("tail"):
        tail = report["tail"]
        operators = ", ".join(f"{count} {name}" for name, count in tail["operators"].items())
        out.print(
            f"The host ends the network, for each image: {tail['nodes']} nodes ({operators}), which read "
            f"{tail['reads']} values of the NPU, make {tail['values']} and take {tail['macs'] / 1e6:.2f} MMAC"
        )
    if isinstance(model, models.Network):
        say_assumed(out, model)


def unit_report(model: models.Network) -> dict[str, Any]:
    """Count the uses of the activation unit by function; with ranges, give each table's largest error."""
    used = [layer for layer in model.layers if layer.activation is not None]
    counts = Counter(layer.activation.function or str(layer.activation.use) for layer in used if layer.activation)
    tables = []
    if model.calibration and any(layer.activation.function for layer in used if layer.activation):
        for quantised in models.quantise(model).layers:
            if (
                quantised.unit is not None
                and quantised.layer.activation is not None
                and quantised.layer.activation.function
            ):
                facts = {
                    "layer": quantised.layer.name,
                    "function": quantised.layer.activation.function,
                    "error": quantised.unit.error,
                }
                tables.append(facts)
    return {"uses": dict(counts.most_common()), "tables": tables}


def print_unit(out: Console, unit: dict[str, Any]) -> None:
    """Print what the activation unit does, and the tables that are farthest from their functions."""
    uses = ", ".join(f"{count} {name}" for name, count in unit["uses"].items())
    out.print(f"Uses of the activation unit: {uses}", highlight=False)
    worst = sorted(unit["tables"], key=lambda table: -table["error"])[:WORST_TABLES]
    rows = [(table["layer"], table["function"], f"{table['error']:.2f}") for table in worst]
    if rows:
        out.print(show.table("Tables farthest from their functions", ("layer", "function", "output steps"), rows))


def say_rewritten(out: Console, model: models.Network) -> None:
    """Say what the file was before it was read, where that is not what the NPU computes."""
    if "quantised" in model.metadata:
        out.print(
            f"The file is quantised ({model.metadata['quantised']}): answers are within the step of its integers, not "
            "bit-exact to onnxruntime"
        )
    if "inputs" in model.metadata:
        out.print(f"The file joins several inputs, which are one image: {model.metadata['inputs']}, in this order")


def tail_report(model: models.Network, tail: Tail) -> dict[str, Any]:
    """Give what the host has to do for an image: nodes, operators, values and multiply-accumulates."""
    work = tail.work(tail.drawn({output.name: output.shape for output in model.outputs}))
    return {
        "nodes": work.nodes,
        "operators": dict(Counter(node.operator for node in tail.nodes).most_common()),
        "reads": sum(math.prod(output.shape) for output in model.outputs if output.name in tail.inputs),
        "values": work.values,
        "macs": work.macs,
    }


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
        facts = report_prepared(model)
        facts |= {key: model.metadata[key] for key in ("quantised", "inputs") if key in model.metadata}
        if any(layer.activation is not None for layer in model.layers):
            facts["unit"] = unit_report(model)
        if work.filters:
            facts["filters"] = len(work.filters)
        shown = [(output.name, list(output.shape), output.activation, output.stage) for output in model.outputs]
        if model.tail is not None:
            facts["tail"] = tail_report(model, model.tail)
            stages = {output.name: output.stage for output in model.outputs}
            last = {name: max(map(stages.__getitem__, needs), default=0) for name, needs in model.tail.needs.items()}
            shown = [(output.name, list(output.row), "host", last[output.name]) for output in model.tail.outputs]
        facts["outputs"] = [
            dict(zip(("name", "shape", "activation", "stage"), facts_, strict=True)) for facts_ in shown
        ]
    return {
        **facts,
        "name": work.name,
        "macs": work.macs,
        "layers": len(work.layers),
        "exits": exits,
        "operators": sorted({layer.kind.value for layer in work.layers}),
    }
