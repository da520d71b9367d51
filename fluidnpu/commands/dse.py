"""`fluidnpu dse`: search the designs of a board, print the design to build and what it reaches, write it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import boards, dse, models
from fluidnpu.dse.hardware import told_clock
from fluidnpu.models import files
from fluidnpu.scheduler import comparison

from .. import quantities, show
from ..errors import NegativeAnswerError, UsageError
from ..options import (
    BITS,
    BOARD,
    DATA,
    EVALUATIONS,
    EXIT_RATES,
    EXPLAIN,
    FILE_OUT,
    FOLDER_OUT,
    JSON,
    MEMORY,
    PATH,
    core_option,
    cycle_model,
    numbers,
    reading,
    takes,
)
from .exits import parse_places, with_exits
from .helpers.data import CLASSES, read_data, refuse_classes_without
from .helpers.designs import DEFAULT_B_MAX, DEFAULT_CORE, DEFAULT_CYCLES, LONG, Search, explore_designs, is_published
from .helpers.networks import read_model_or_name, with_measured_rates, work_of
from .helpers.spreading import Spread, engine_of, spread_over
from .import_reports import print_scaled, read_record, scale_design
from .modes.dse_each import search_each
from .prepare import MOST_IMAGES, spread

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@dataclass(frozen=True, kw_only=True)
class DseOptions(Search, Spread):
    """The command line of `fluidnpu dse`."""

    models: tuple[str, ...]
    board: str
    exits: str | None
    exit_rates: str | None
    data: Path | None
    out: Path | None
    report: Path | None
    calibration: Path | None
    each: Path | None
    explain: bool
    as_json: bool

    @property
    def model(self) -> Path:
        """The only model."""
        return Path(self.models[0])


@click.command("dse")
@click.argument("models", nargs=-1, required=True, metavar="MODEL | MODEL=SHARE MODEL=SHARE...")
@BOARD
@click.option("--b-max", default=DEFAULT_B_MAX, show_default=True, metavar="N", help="largest batch, 1 to 16")
@MEMORY
@cycle_model(DEFAULT_CYCLES)
@core_option(DEFAULT_CORE, "whose accumulators must fit: those of the HLS core or of the SystemVerilog")
@click.option(
    "--objective",
    default="throughput",
    show_default=True,
    type=click.Choice(["throughput", "latency"]),
    help="throughput over batch sizes, or the latency of a single sample",
)
@BITS
@EVALUATIONS
@click.option(
    "--lanes",
    type=click.IntRange(min=0),
    metavar="N",
    help="lanes of the filter that computes depthwise layers on the way out of others; 0: no filter  [default: the "
    "search chooses]",
)
@click.option(
    "--weights",
    metavar="W1,W2,...",
    help="how much throughput at each batch size counts, such as the histogram that `simulate` shows  "
    "[default: all the same]",
)
@click.option(
    "--exits",
    metavar="N|at=NAME,NAME",
    help="more exits, at equal MACs or at named tensors: heads in a network, cuts free of charge in a layer table",
)
@EXIT_RATES
@DATA
@CLASSES
@click.option("--out", type=FILE_OUT, metavar="design.json", help="where to write the fitted design")
@click.option("--report", type=FILE_OUT, metavar="FILE.html", help="where to write the design report")
@click.option(
    "--calibration",
    type=PATH,
    metavar="calibration.json",
    help="search and scale by what `import-reports` read of a built project",
)
@click.option(
    "--each",
    type=FOLDER_OUT,
    metavar="FOLDER",
    help="a design for each of several models on each of several boards (--board A,B), written here",
)
@spread_over("searches of --each")
@EXPLAIN
@reading
@JSON
@takes(DseOptions)
def command(options: DseOptions) -> None:
    """The fastest array that fits a board for MODEL: ONNX, a layer table, or a network by name.

    Names: resnet18, resnet34, resnet50, resnet101, inception_v3, mobilenet_v2, efficientnet_lite0. Shows
    frames a second of the whole network, milliseconds and what limits them, and requests a second at the
    exit rates; the same question as `build` asks.

    Several models, each with its share of the requests, get one array for all of them: the best for a
    request on average. Build each with the same design, and serve them on one NPU with --tenants.

    With --each there is a search for every model and every board of --board A,B, and a table of them.
    """
    if options.each is not None:
        refuse_single(options, {"--out": options.out})
        on = [boards.load_board(name.strip()) for name in options.board.split(",")]
        search_each(options.models, on, options, engine_of(options), options.each, as_json=options.as_json)
        return
    if engine_of(options) != comparison.HERE:
        raise UsageError("--processes and --engine spread several searches, so they need --each FOLDER")
    search_design(options)


def search_design(options: DseOptions) -> None:
    """Search the whole space; print the design that fits; write it.

    Raises NegativeAnswerError where none fits.
    """
    mix = mix_of(options)
    work = workload_of(options) if not mix else mix[0][0]
    out = show.console(options.as_json)
    board = boards.load_board(options.board)
    record = None if options.calibration is None else read_record(options.calibration)
    smaller, reasons = (board, ()) if record is None else dse.calibrated_board(record, board)
    try:
        exploration = explore_designs(out, work, smaller, options, mix)
    except dse.FitError as error:
        raise NegativeAnswerError("; ".join((str(error), *reasons))) from None
    exploration = dataclasses.replace(
        exploration, notes=(*reasons, *exploration.notes), design=exploration.design.on(board)
    )
    calibrated = None if record is None else scale_design(record, exploration, board)
    if options.out is not None:
        files.write_file(options.out, exploration.design.dumps())
    explained = _explain_search(exploration) if options.explain else []
    if options.report is not None:
        from ..reports.design import render_design_report

        page = render_design_report(exploration, explained=explained, published=is_published(exploration))
        files.write_file(options.report, page)
    if options.as_json:
        # The front is timed exactly for every design, which takes half a minute.
        with_front = options.report is not None or exploration.design.model == "paper"
        show.emit(
            show.design_report(exploration, front=with_front)
            | ({} if calibrated is None else {"calibrated": calibrated.to_json()})
        )
        return
    print_design(out, exploration)
    if mix:
        _print_mix(out, exploration)
    for reason in reasons:
        out.print(reason)
    if exploration.design.model == "paper":
        _print_gops(out, exploration)
    if options.explain:
        _print_explained(out, exploration, explained)
    if options.report is not None:
        front = exploration.front
        out.print(f"[dim]{front.candidates} designs can be built, {len(front)} on the Pareto front[/]")
    if calibrated is not None:
        print_scaled(out, calibrated)
    for path, what in ((options.out, "design"), (options.report, "report")):
        if path is not None:
            out.print(f"{what} written to [bold]{path}[/]", soft_wrap=True)


def refuse_single(options: DseOptions, more: Mapping[str, object] | None = None) -> None:
    """Refuse what is for the search of one model alone. Raises UsageError."""
    single = {
        "--exits": options.exits,
        "--exit-rates": options.exit_rates,
        "--data": options.data,
        "--calibration": options.calibration,
        "--report": options.report,
        **(more or {}),
    }
    if wrong := [name for name, value in single.items() if value is not None]:
        many = "--each asks for several searches" if options.each is not None else f"{len(options.models)} are given"
        raise UsageError(f"{wrong[0]} is for one model, and {many}")


def mix_of(options: DseOptions) -> tuple[tuple[models.Workload, float], ...]:
    """Give several models with their shares of the requests; nothing for a single one. Raises UsageError."""
    if len(options.models) == 1:
        return ()
    refuse_single(options)
    mix = []
    for word in options.models:
        path, equals, text = word.rpartition("=")
        values = numbers("MODEL=SHARE", text) if equals else None
        if values is None or len(values) != 1:
            raise UsageError(f"each of several models must have its share of the requests, MODEL=0.5, not '{word}'")
        mix.append((work_of(read_model_or_name(Path(path)), options.bits), values[0]))
    return tuple(mix)


def _print_mix(out: Console, exploration: dse.Exploration) -> None:
    """Print the throughput of each network on the shared array."""
    rows = []
    for part, (work, share) in zip(exploration.parts, exploration.question.mix, strict=True):
        for batch in sorted({1, exploration.b_max}):
            walls = part.walls(batch)
            row = (work.name, f"{100 * share:.0f}", str(batch), f"{part.frames_per_second[batch - 1]:.1f}")
            rows.append((*row, f"{part.batch_ms[batch - 1]:.3f}", "-" if walls is None else walls.first))
    columns = ("network", "share %", "batch", "frames/s", "ms a batch", "limited by")
    out.print(show.table("Each network as if it were alone on this array", columns, rows))
    for part in exploration.parts:
        if part.design.stages > 1:
            out.print(f"{part.workload.name} alone: {served_at_rates(part)}")


def workload_of(options: DseOptions) -> models.Workload:
    """Give the layers of a model, with further exits and exit rates where asked. Raises UsageError."""
    refuse_classes_without(options.data)
    model = read_model_or_name(options.model)
    if options.exits is not None:
        model = with_exits(model, parse_places(options.exits))
    rates = numbers("--exit-rates", options.exit_rates)
    if options.data is not None and rates is None:
        if isinstance(model, models.Workload) or not model.parameters:
            raise UsageError(f"--data measures a network with weights (ONNX), and '{options.model}' has none")
        images = spread(read_data(model, model.intake, options.data), MOST_IMAGES)
        model = with_measured_rates(model, images)
    work = work_of(model, options.bits)
    if rates is None:
        return work
    if len(rates) != len(work.exits) or min(rates) < 0 or abs(sum(rates) - 1) > 1e-6:
        raise UsageError(f"--exit-rates must be {len(work.exits)} shares that sum to 1, not '{options.exit_rates}'")
    return dataclasses.replace(work, exit_rates=rates)


def print_design(out: Console, exploration: dse.Exploration) -> None:
    """Print the design, what it reaches, what limits it, what it takes, and how far the search went."""
    design, board = exploration.design, exploration.board
    out.print(f"[bold]{exploration.workload.name} on {board.title}: array {show.point(design)}[/]")
    memory = board.memory(design.memory)
    facts = (
        told_clock(board, design.facts),
        f"memory '{design.memory}', {memory.sustained_pct} % of {memory.bytes_per_s / 1e9:.1f} GB/s",
        f"{exploration.core} core",
        *([] if design.word_bits == 16 else [f"words of {design.word_bits} bits"]),
    )
    out.print("; ".join(facts))
    out.print(speed_table(exploration))
    if not exploration.parts and exploration.design.stages > 1:
        out.print(served_at_rates(exploration))
    resources = exploration.fitted_resources
    parts = {"DSP": resources["dsp"], **show.memories(resources), "LUT": resources["lut"], "FF": resources["ff"]}
    shares = ", ".join(f"{r['percent']:.0f} % {kind}" for kind, r in parts.items())
    out.print(f"takes {shares} of the device (LUT and FF estimated)")
    for note in (*exploration.fit.unit_note, *exploration.fit.filter_note):
        out.print(note)
    walls, faster = [network.walls(1) for network in exploration.parts or (exploration,)], exploration.faster_memories
    if faster and any(wall is not None and wall.first == "memory" for wall in walls):
        out.print(f"the board has a faster memory: --memory {' or '.join(faster)}")
    for network in exploration.parts or (exploration,):
        for remark in network.waste(network.b_max):
            out.print(f"[yellow]{remark}[/]" + (f" (in {network.workload.name})" if exploration.parts else ""))
    out.print(f"[dim]{how_far(exploration)}[/]")


def speed_table(exploration: dse.Exploration) -> RenderableType:
    """Show frames a second, milliseconds and walls at the smallest and the largest batch."""
    rows = []
    for batch in sorted({1, exploration.b_max}):
        walls = exploration.walls(batch)
        row = (str(batch), f"{exploration.frames_per_second[batch - 1]:.1f}", f"{exploration.batch_ms[batch - 1]:.3f}")
        shares = () if walls is None else (walls.compute, walls.tiles, walls.memory)
        rows.append((*row, *(() if walls is None else (walls.first,)), *(f"{100 * share:.0f} %" for share in shares)))
    columns = ("batch", "frames/s", "ms a batch", "limited by", "compute", "tiles", "memory")
    return show.table("", columns[: len(rows[0])], rows)


def served_at_rates(exploration: dse.Exploration) -> str:
    """Say what a server answers a second, where frames/s send every image through the whole network."""
    rates, capacity = exploration.design.exit_rates, comparison.design_capacity(exploration.design)
    if capacity is None or rates is None:
        return "requests/s: not known, since exit rates are not (--data measures them, --exit-rates names them)"
    left = ", ".join(f"{100 * rate:.1f} %" for rate in rates)
    return f"requests/s: {quantities.plain(capacity, 4)}, predicted at the exit rates {left} (frames/s: nobody leaves early)"


def how_far(exploration: dse.Exploration) -> str:
    """Say how the figures were made, and what a longer search could add."""
    if exploration.design.model == "paper":
        return (
            "cycles by the paper model, which knows no waiting for memory: leave out --cycles paper for those that our "
            "RTL takes"
        )
    counted = f"{exploration.evaluated} of {exploration.arrays} arrays counted in simulated cycles of our RTL"
    if not exploration.gap_pct:
        return f"whole search: {counted}, and none of the others can be better"
    more = f"--evaluations {max(LONG, 4 * exploration.evaluated)} looks further"
    return f"quick search: {counted}; no other can be more than {exploration.gap_pct:.1f} % better ({more})"


def _print_gops(out: Console, exploration: dse.Exploration) -> None:
    """Print GOP/s by the paper's model; beside those of the published design, where there is one."""
    columns, title = ["batch", "GOP/s", "busy MAC eff."], "GOP/s of the design to build, by the paper model"
    rows = [
        [str(b), f"{gops:.1f}", f"{100 * gops / exploration.design.peak_gops:.1f} %"]
        for b, gops in enumerate(exploration.fitted_gops, 1)
    ]
    if is_published(exploration):
        columns += ["published", "difference"]
        title += f", and of the published {exploration.published}"
        for row, published, difference in zip(
            rows, exploration.published_gops, exploration.difference_pct, strict=True
        ):
            row += [f"{published:.1f}", f"{difference:+.2f} %"]
    out.print()
    out.print(show.table(title, columns, rows))


def _explain_search(exploration: dse.Exploration) -> list[str]:
    """Return how the design was found, in sentences; takes as long as counting two arrays."""
    others = (note for note in exploration.notes if note not in exploration.cautions)
    ranked = f"{len(exploration.ranking)} points of the paper model ranked"
    return [*others, exploration.price_of_columns(), ranked]


def _print_explained(out: Console, exploration: dse.Exploration, explained: Sequence[str]) -> None:
    """Print how the design was found, and the words of the screen."""
    out.print()
    for note in explained:
        out.print(f"[dim]{note}[/]")
    words = [
        "array",
        "batch",
        "frames/s",
        "ms a batch",
        "requests/s",
        "limited by",
        "compute",
        "tiles",
        "memory",
        "DSP",
        "RAM",
    ]
    if exploration.design.model == "paper":
        words += ["GOP/s", "busy MAC eff.", *(["published", "difference"] if is_published(exploration) else [])]
    show.explain(out, [*words, "FBCB", "row block B_R", "lanes"])
