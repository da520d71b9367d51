"""`fluidnpu exits` and the `--exits` of `fluidnpu dse`: places of exits, heads attached and fitted there,
thresholds and rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import files, numeric, training, zoo
from fluidnpu.models import onnx as model_onnx
from fluidnpu.models.graph import ExitCheck, MapCheck, MapTask

from .. import show
from ..errors import UsageError
from ..options import FILE_OUT, JSON, PATH, numbers, reading, reading_options, takes
from .helpers.data import read_data, with_class_names
from .helpers.guarding import guard_report, guard_words, say_guarded, without_record
from .helpers.networks import is_full_size, read_model_or_name, say_assumed, say_chance
from .modes.select_exits import Selecting, print_selection, refuse_without_select, select_exits, selection_options
from .prepare import ExitSettings, exit_settings, prepare_network, refuse_overwriting, spread

if TYPE_CHECKING:
    from rich.console import Console

Places = int | tuple[str, ...]  # a number of exits at equal shares of the MACs, or names
DEFAULT_COUNT, DEFAULT_TOP = 0.5, 5  # of `MapCheck`
CALIBRATION_IMAGES = 2  # of noise, for weights that are random anyway
TOLERANCE_POINTS = 0.5  # of accuracy that a threshold may cost where --fit chooses it


@dataclass(frozen=True, kw_only=True)
class ExitsOptions(ExitSettings, Selecting):
    """The command line of `fluidnpu exits`."""

    model: Path
    places: str | None
    candidates: str | None
    check: str | None
    head: str | None
    output: str | None
    maps: int | None
    enlarge: int | None
    count: float | None
    every: int | None
    top: int | None
    out: Path | None
    threshold: float
    fit: Path | None
    seed: int
    as_json: bool


@click.command(
    "exits",
    help="Where MODEL can be left early; heads put there and fitted; thresholds, rates and calibration of a model file. "
    "MODEL is ONNX, or a full-size network by its name (resnet50, mobilenet_v2, ...) with random weights.",
)
@click.argument("model", type=PATH)
@click.option(
    "--exits", "places", metavar="N|at=NAME,NAME", help="attach exits at equal MACs, N in all, or at named tensors"
)
@click.option(
    "--candidates",
    metavar="K|at=NAME,NAME",
    help="attach K exits at equal distance in blocks, or after the named ones; each has the first block of every later "
    "region and the network's own head, as copies with their weights; `fluidnpu train --from` trains them",
)
@click.option(
    "--out",
    type=FILE_OUT,
    metavar="NEW.onnx",
    help="where to write the network: MODEL with other metadata or, with new heads, normalisations folded",
)
@click.option(
    "--threshold",
    default=1.0,
    show_default=True,
    help="confidence above which a new exit is taken; 1: never; --thresholds sets every exit's",
)
@click.option(
    "--check",
    type=click.Choice([check.value for check in ExitCheck]),
    help="what thresholds are compared with: the top probability, 1 less the entropy, the margin between two, or the top "
    "probability where the exit before named the same class  [default: the model's, else top]",
)
@click.option(
    "--fit",
    type=PATH,
    metavar="DATA",
    help="labelled images to fit the new heads on, read as by --calibrate; a quarter is held out, for threshold, rates "
    "and accuracies",
)
@click.option(
    "--head",
    type=click.Choice([task.value for task in MapTask]),
    help="a network without classes answers with a map: heat maps of landmarks, or a score of every label for each "
    "pixel; exits are then copies of that head, and precision is a score",
)
@click.option("--output", metavar="NAME", help="the output that --head is about  [default: the only one]")
@click.option(
    "--maps",
    type=click.IntRange(min=1),
    metavar="N",
    help="give a classifier a new head of N labels or landmarks in place of its own, with random weights; "
    "`fluidnpu train --from` trains it; needs --head",
)
@click.option(
    "--enlarge",
    type=click.IntRange(min=0),
    metavar="N",
    help="of a new head: double the sides N times, by transposed convolutions  [default: to a quarter of the image's]",
)
@click.option(
    "--count",
    type=float,
    metavar="SHARE",
    help="a sample leaves if more than this share of the principal values of its maps exceed the threshold  "
    f"[default: {DEFAULT_COUNT}]",
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="N",
    help="of a segmentation, the check looks at every N-th pixel of every N-th row  [default: 1]",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"of landmarks, the check looks at the N highest values of each heat map  [default: {DEFAULT_TOP}]",
)
@exit_settings
@selection_options
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="seed of a named network's and of a new head's weights, and of the images that --fit holds out",
)
@reading
@JSON
@takes(ExitsOptions)
def command(options: ExitsOptions) -> None:
    """List the places of exits in a network; attach and fit heads, and set thresholds, there."""
    list_exits(options)


def parse_places(text: str, option: str = "--exits") -> Places:
    """Read the text of `--exits` or `--candidates`. Raises UsageError.

    >>> parse_places("4"), parse_places("equidistant=4"), parse_places("at=conv3,conv7")
    (4, 4, ('conv3', 'conv7'))
    """
    key, equals, value = text.strip().partition("=")
    if equals and key == "at":
        names = tuple(filter(None, (name.strip() for name in value.split(","))))
        if names:
            return names
    number = value if equals and key == "equidistant" else "" if equals else key
    if not number.isdecimal() or len(number) > 9 or int(number) < 1:
        raise UsageError(f"{option} must be N of at least 1, or at=NAME,NAME, not '{text}'")
    return int(number)


def with_exits(
    model: models.Network | models.Workload, places: Places, threshold: float = 1.0
) -> models.Network | models.Workload:
    """Add exits to a single-exit model: heads of their own in a network, cuts free of charge in a layer
    table.

    Raises UsageError where the model cannot be cut as asked.
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


def with_candidates(network: models.Network, places: Places, threshold: float) -> models.Network:
    """Attach exits with bridges to a network. Raises UsageError and NetworkError."""
    if isinstance(places, int) and len(network.exits) > 1:
        raise UsageError(
            f"equal distances are for networks with one exit, and '{network.name}' has {len(network.exits)}; use at=NAME"
        )
    tensors = model_exits.candidate_tensors(network, places) if isinstance(places, int) else places
    return model_exits.attach_bridges(network, tensors, threshold=threshold)


def list_exits(options: ExitsOptions) -> None:
    """List places and exits; attach, fit and set what is asked for; with `out` write the network.

    Raises UsageError for a network that neither decides between classes nor gives maps.
    """
    _check(options)
    out = show.console(options.as_json)
    before = _read(options)
    network = before = _with_head(before, options)
    if network.exits[-1].logits is None:
        raise UsageError(
            f"exits decide between classes or give maps, and '{network.name}' does neither: --head makes an output of it the "
            "answer, and `fluidnpu prepare` calibrates it as it is"
        )
    if options.places is not None:
        changed = with_exits(network, parse_places(options.places), options.threshold)
        assert isinstance(changed, models.Network)
        network = changed
    if options.candidates is not None:
        network = with_candidates(network, parse_places(options.candidates, "--candidates"), options.threshold)
    if options.check is not None:
        network = model_exits.with_check(network, ExitCheck(options.check))
    bare = is_full_size(options.model)
    if bare and (options.out is not None or options.calibrate is not None):
        network = zoo.with_random_weights(network, options.seed, CALIBRATION_IMAGES)
    fitted = compared = None
    if options.fit is not None:
        old = {exit.name for exit in before.exits}
        fitted, compared = _fitted(out, network, [exit.name for exit in network.exits if exit.name not in old], options)
        network = compared.network
    else:
        network, compared = prepare_network(out, network, options)
    chosen = None
    if options.select is not None:
        network, chosen = select_exits(out, network, options)
    same = [exit.logits for exit in network.exits] == [exit.logits for exit in before.exits]
    if chosen is not None or (compared is None and not same):
        network = without_record(network)
    if options.out is not None:
        attached = (options.places, options.candidates, options.select, options.head)
        rebuilt = bare or any(head is not None for head in attached)
        content = (
            model_onnx.onnx_bytes(network)
            if rebuilt
            else model_onnx.with_metadata(options.model, network, reading_options()["size"])
        )
        files.write_file(options.out, content)
    report = _report(before, network, options.out) | {
        "fit": None if fitted is None else _fit_report(fitted),
        "selection": chosen,
        f"int{options.bits}": guard_report(compared),
    }
    if options.as_json:
        show.emit(report)
        return
    if chosen is not None:
        print_selection(out, chosen)
    asked = (
        options.places,
        options.candidates,
        options.check,
        options.head,
        options.count,
        options.every,
        options.top,
        options.select,
        options.thresholds,
        options.rates,
        options.calibrate,
    )
    _print(out, report, all(option is None for option in asked))
    if compared is not None:
        say_guarded(out, network, compared, bits=options.bits)
    if options.out is not None:
        out.print(f"network written to [bold]{options.out}[/]")
    say_assumed(out, network)
    if options.calibrate is not None or options.fit is not None:
        say_chance(out, network)
    if options.out is None and any(option is not None for option in asked):
        out.print("  [dim]nothing was written; --out NEW.onnx writes it[/]")


def _with_head(network: models.Network, options: ExitsOptions) -> models.Network:
    """Give a network the head of maps, or the check of its maps, that is asked for.

    Raises UsageError and NetworkError.
    """
    asked = {"count": options.count, "every": options.every, "top": options.top}
    given = {key: value for key, value in asked.items() if value is not None}
    if options.enlarge is not None and options.maps is None:
        raise UsageError("--enlarge is about a new head, so it needs --maps")
    if options.maps is not None:
        if options.head is None or options.output is not None:
            raise UsageError("--maps makes a new head of the task that --head names, and needs no --output")
        task = MapTask(options.head)
        return model_exits.with_map_head(
            network,
            task,
            options.maps,
            enlarge=options.enlarge,
            seed=options.seed,
            **given,  # type: ignore[arg-type]
        )
    if options.head is not None:
        return model_exits.with_maps(network, MapTask(options.head), options.output, **given)  # type: ignore[arg-type]
    if options.output is not None:
        raise UsageError("--output names what --head is about, so it needs --head")
    if not given:
        return network
    if not isinstance(network.check, MapCheck):
        raise UsageError(f"--{next(iter(given))} is for exits that give maps, which --head makes of an output")
    return model_exits.with_check(network, replace(network.check, **given))  # type: ignore[arg-type]


def _check(options: ExitsOptions) -> None:
    """Refuse options that do not go together. Raises UsageError."""
    refuse_overwriting(options.model, options.out)
    if not 0 <= options.threshold <= 1:
        raise UsageError(f"--threshold must be a confidence of 0..1, not {options.threshold}")
    if options.places is not None and options.candidates is not None:
        raise UsageError("--exits attaches linear heads and --candidates bridges, so only one of them must be given")
    refuse_without_select(options)
    if options.select is not None and options.thresholds is not None:
        raise UsageError("--select chooses thresholds, so --thresholds must not be given")
    if options.fit is not None and options.places is None:
        raise UsageError("--fit fits the heads that --exits attaches, so it needs --exits")
    if options.fit is not None and (options.calibrate is not None or options.rates is not None):
        raise UsageError(
            "--fit calibrates and measures rates on its own images, so --calibrate and --rates must not be given"
        )


def _read(options: ExitsOptions) -> models.Network:
    network = read_model_or_name(options.model)
    if isinstance(network, models.Workload):
        names = ", ".join(zoo.FULL_SIZE)
        raise UsageError(f"this command needs a network (ONNX, or {names}), and '{options.model}' is a layer table")
    return network


def _fitted(
    out: Console, network: models.Network, heads: Sequence[str], options: ExitsOptions
) -> tuple[training.FittedHeads, numeric.Guarded]:
    """Fit the new heads; threshold, rates, accuracies and calibration come along, and int16 beside float."""
    assert options.fit is not None
    images = spread(read_data(network, network.intake, options.fit), options.images)
    network = with_class_names(network, images)
    with show.progress(out, f"running '{network.name}' in floating point") as step:
        fitted = training.fit_heads(
            network,
            heads,
            images,
            tolerance_points=TOLERANCE_POINTS if options.tolerance is None else options.tolerance,
            thresholds=numbers("--thresholds", options.thresholds),
            seed=options.seed,
            progress=step,
        )
    return fitted, guard_words(out, fitted.network, images, options.most_error, options.bits)


def _blocks(network: models.Network) -> dict[str, str]:
    """Number the blocks as region.block by their tensors; none where the network has no place for an exit."""
    try:
        regions = model_exits.backbone_of(network).regions
    except models.NetworkError:
        return {}
    return {
        block.tensor: f"{number}.{two}"
        for number, region in enumerate(regions, 1)
        for two, block in enumerate(region.blocks, 1)
    }


def _report(before: models.Network, network: models.Network, out: Path | None) -> dict[str, Any]:
    blocks = _blocks(before)
    return {
        "name": network.name,
        "macs": network.workload.macs,
        "check": network.check.text,
        "exits": _exit_rows(network),
        "heads_over_single": network.workload.macs / model_exits.single_exit(network).workload.macs - 1,
        "places": [
            {"tensor": p.tensor, "shape": list(p.shape), "macs": p.macs, "share": p.share, "cut": p.cut}
            | {"block": blocks.get(p.tensor)}
            for p in model_exits.exit_places(before)
        ],
        "model": None if out is None else str(out),
    }


def _fit_report(fitted: training.FittedHeads) -> dict[str, Any]:
    return {
        "fitted_images": fitted.fitted,
        "held_out_images": fitted.held_out,
        "accuracy": fitted.accuracy,
        "exits": [
            {"name": exit.name, "before": before, "after": after}
            for exit, before, after in zip(fitted.network.exits, fitted.before, fitted.after, strict=True)
        ],
    }


def _exit_rows(network: models.Network) -> list[dict[str, Any]]:
    """Give each exit, the beginning of its head, and the MACs of a sample that leaves there."""
    work, rows = network.workload, []
    for stage, exit in enumerate(network.exits):
        macs = sum(layer.macs for layer in work.layers if layer.stage <= stage)
        row = {"name": exit.name, "logits": exit.logits, "macs": macs, "share": macs / work.macs}
        threshold = {} if exit is network.exits[-1] else {"threshold": exit.threshold}
        rows.append(row | threshold | {"rate": exit.rate, "accuracy": exit.accuracy})
    return rows


def _print(out: Console, report: dict[str, Any], places: bool) -> None:
    if places:
        rows: Sequence[Sequence[str]] = [
            (p["tensor"], " x ".join(map(str, p["shape"])), f"{p['macs'] / 1e6:.2f}", f"{100 * p['share']:.1f} %", "yes" * p["cut"],
             p["block"] or "")
            for p in report["places"]
        ]  # fmt: skip
        title = f"{report['name']}: tensors that an exit can stand at (height x width x channels)"
        out.print(show.table(title, ("tensor", "shape", "MMAC before", "share", "cut", "block"), rows, left=2))
        out.print("  [dim]cut: everything later depends on it alone; --exits N chooses among these[/]")
        out.print("  [dim]block: region.block that ends there; --candidates K chooses among these[/]")
    rows = [
        (
            e["name"],
            e["logits"],
            f"{e['macs'] / 1e6:.2f}",
            f"{100 * e['share']:.1f} %",
            *(show.number(e.get(key), ".4g") for key in ("threshold", "rate", "accuracy")),
        )
        for e in report["exits"]
    ]
    title = f"{report['name']}: exits, MACs with all heads up to there"
    if report["check"] != ExitCheck.TOP.text:
        title += f"; thresholds on {report['check']}"
    columns = ("exit", "logits", "MMAC", "share", "threshold", "rate", "accuracy")
    out.print(show.table(title, columns, rows, left=2))
    if len(rows) > 1:
        out.print(
            f"  [dim]a sample that leaves nowhere costs {100 * report['heads_over_single']:.1f} % more MACs than without "
            "early exits[/]"
        )
    if report["fit"]:
        _print_fit(out, report["fit"])


def _print_fit(out: Console, fit: dict[str, Any]) -> None:
    """Print accuracies before and after the fit; the threshold was chosen on the same images."""
    rows = [(e["name"], f"{100 * e['before']:.2f} %", f"{100 * e['after']:.2f} %") for e in fit["exits"]]
    title = f"Heads fitted on {fit['fitted_images']} images; accuracy on {fit['held_out_images']} held out"
    out.print(show.table(title, ("exit", "before", "after"), rows))
    final = 100 * fit["exits"][-1]["after"]
    out.print(
        f"with early exits {100 * fit['accuracy']:.2f} % (threshold chosen in-sample), all to the end {final:.2f} %"
    )
