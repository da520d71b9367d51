"""A whole bitstream project as text: HLS C++, RTL, Tcl, constraints, software, bundle, manifest. Pure; no
I/O.

`write_project` writes it. Only turning it into a bitstream needs Vivado and Vivado HLS, which nothing here
runs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace

from fluidnpu.boards import Board
from fluidnpu.dse import CORES, Design

from ..core.banks import hls_core_lacks, hls_ultra_banks
from ..core.render import render, render_core
from ..core.vectors import vector_files
from ..errors import ProjectError
from ..program.program import Program
from ..views.registers import render_c_header, render_register_table
from .chains import chain_places
from .checks.pragmas import check_pragmas
from .checks.tcl import check_tcl
from .design_views import render_register_json, render_sv_package
from .mig import memory_project
from .platform import PLATFORMS
from .text import REFERENCE_CORE, ProjectText
from .tools import TOOLS, Tools

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = 1
DATA_PLANE = "fluidnpu_data_plane"

Files = dict[str, str | bytes]


def render_project(
    design: Design,
    program: Program | None,
    board: Board,
    core: str = "hls",
    rtl: Mapping[str, str] | None = None,
    *,
    tools: str = "2019.2",
    wheel: tuple[str, bytes] | None = None,
    first_run: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Files:
    """Render the whole project: path -> content, the manifest included; the same arguments give the same
    bytes.

    `rtl`: file name -> text of the SystemVerilog in compile order, as `rtl_tb.sources()` returns it. Without
    the data plane in it, the project's README says that no bitstream can be made. `core`: "hls", or "rtl" for
    the reference core. `tools`: the version of Vivado that the scripts are for, one of TOOLS. `wheel`: file
    name and content of fluidnpu for the board's Python. `first_run`: with the scripts of a first run
    (`first_run.py`). `notes`: further texts of the bundle, by file name. Raises ProjectError when design,
    program, board, core and tools do not match.
    """
    rtl = {} if rtl is None else rtl
    _check(design, program, board, core, rtl)
    if tools not in TOOLS:
        raise ProjectError(f"tools must be one of {', '.join(TOOLS)}, not '{tools}'")
    if board.part.startswith(TOOLS[tools].unknown_parts):
        fit = next(other for other in TOOLS.values() if not board.part.startswith(other.unknown_parts))
        raise ProjectError(
            f"Vivado must know {board.part}, and {tools} is older than it: build with --tools {fit.version}"
        )
    p = ProjectText(design, board, core, program is not None, (), TOOLS[tools], wheel is not None, first_run)
    p = replace(p, missing=_missing(p, rtl))
    files: Files = {}
    if p.hls:
        files |= _hls_files(p)
    left = set() if p.core == "rtl" else {name for name in rtl if _is_reference_core(name)} - _reached(rtl, DATA_PLANE)
    files |= {f"rtl/{name}": text for name, text in rtl.items() if name not in left}
    files["rtl/fluidnpu_design_pkg.sv"] = render_sv_package(design)
    for path in ("rtl/fluid_npu.v", *(("rtl/fluidnpu_hls_core.v",) if p.hls else ())):
        files[path] = _text(path.split("/")[1], p)
    for name in ("package.tcl", "block_design.tcl", "build.tcl", "fluidnpu.xdc"):
        files[f"vivado/{name}"] = _text(name, p)
    if p.first_run:
        files |= {f"vivado/{name}": _text(name, p) for name in ("first_run.tcl", "first_run.xdc")}
    if p.breaks:
        files["vivado/chains.tcl"] = _text("chains.tcl", p)
    if p.pl_memory:
        files["vivado/mig.prj"] = memory_project()
    files |= {"Makefile": _text("Makefile", p), "README.md": _text("README.md", p)}
    files |= {"software/fluidnpu_registers.h": render_c_header(), "docs/registers.md": render_register_table()}
    files |= {"software/fluidnpu.dtsi": _text("fluidnpu.dtsi", p), "software/README.md": _text("software.md", p)}
    if wheel is not None:
        files |= {f"bundle/{wheel[0]}": wheel[1], "bundle/install.sh": _text("install.sh", p)}
    files["bundle/design.json"] = design.dumps()
    files["bundle/registers.json"] = render_register_json(design, p.ps.registers_base)
    if program is not None:
        files |= {f"bundle/{name}": content for name, content in program.files().items()}
    files |= {f"bundle/{name}": text for name, text in (notes or {}).items()}
    _check_texts(files, p.tools)
    files[MANIFEST] = _manifest(p, files)
    return dict(sorted(files.items()))


def _check(design: Design, program: Program | None, board: Board, core: str, rtl: Mapping[str, str]) -> None:
    if core not in CORES:
        raise ProjectError(f"core must be one of {', '.join(CORES)}, not '{core}'")
    if core == "rtl" and f"{REFERENCE_CORE}.sv" not in rtl:
        raise ProjectError(
            f"the reference core must be among the RTL sources to be built, and {REFERENCE_CORE}.sv is not"
        )
    if design.board != board.name:
        raise ProjectError(f"the design must be made for board '{board.name}', and it was made for '{design.board}'")
    if design.facts_digest not in (None, board.digest):
        raise ProjectError(
            f"the design must carry the facts of board '{board.name}' as they came, and it was made for other ones"
        )
    memory = board.memory(design.memory)
    supported = {ps.pl_memory.board_files for ps in PLATFORMS.values() if ps.pl_memory is not None}
    if memory.side == "pl" and (files := board.board_part.rpartition(":")[0]) not in supported:
        raise ProjectError(
            f"memory '{memory.name}' of board '{board.name}' needs a controller in the programmable logic, which projects "
            f"have where board_part begins with {' or '.join(sorted(supported))}, not with {files}"
        )
    if (memory.port_bits, memory.stripes) != (design.port_bits, design.stripes):
        raise ProjectError(
            f"masters of memory '{memory.name}' of board '{board.name}' must be as wide as the design's, "
            f"{design.port_bits} bits on {design.stripes} ports, and they have {memory.port_bits} on {memory.stripes}"
        )
    if core == "rtl" and board.dsp_columns:
        chain_places(design, board)  # raises where they have no room
    for name in (board.part, board.board_part):
        if not re.fullmatch(r"[A-Za-z0-9_.:-]+", name):
            raise ProjectError(
                f"part and board_part must be letters, digits and _.:- to stand in a script, not {name!r}"
            )
    if program is not None and program.design_digest != design.digest:
        raise ProjectError("the program must be compiled for this very design, and it was compiled for another")


def _check_texts(files: Mapping[str, str | bytes], tools: Tools) -> None:
    """Raise ProjectError for a pragma or a Tcl command that this room's own checkers do not know."""
    for path, content in files.items():
        problems: list[str] = []
        if isinstance(content, str) and path.endswith(".tcl"):
            problems = check_tcl(content, tools.hls if path.startswith("hls/") else "vivado")
        elif isinstance(content, str) and path.startswith("hls/"):
            problems = check_pragmas(content, tools.dialect)
        if problems:
            raise ProjectError(f"the generated {path} must pass its own checks: {problems[0]}")


def _is_reference_core(name: str) -> bool:
    return name.startswith("core_") or name == f"{REFERENCE_CORE}.sv"


def _reached(rtl: Mapping[str, str], top: str) -> set[str]:
    """The files that module `top` names, and what these name: a filter takes cells of the reference core."""
    reached: set[str] = set()
    todo = {f"{top}.sv"} & set(rtl)
    while todo:
        reached |= todo
        words = {word for name in todo for word in re.findall(r"\w+", re.sub(r"//.*", "", rtl[name]))}
        todo = {f"{word}.sv" for word in words} & set(rtl) - reached
    return reached


def _missing(p: ProjectText, rtl: Mapping[str, str]) -> tuple[str, ...]:
    """The reasons that no bitstream can be made, as sentences."""
    if p.hls and (lacks := hls_core_lacks(p.design, p.board)):
        return (lacks,)
    source = rtl.get(f"{DATA_PLANE}.sv")
    if source is None:
        return (f"the data plane (`{DATA_PLANE}.sv`) is not among its sources",)
    wrapper = _text("fluid_npu.v", p)
    wanted = set(
        re.findall(r"\.(\w+)\(", wrapper[wrapper.index(DATA_PLANE) : wrapper.index(f"    {p.core_instance} ")])
    )
    lacking = sorted(name for name in wanted if not re.search(rf"\b{name}\b", source))
    return (f"`{DATA_PLANE}.sv` lacks what `fluid_npu.v` joins: {', '.join(lacking)}",) if lacking else ()


def _hls_files(p: ProjectText) -> Files:
    texts = render_core(p.design, hls_ultra_banks(p.design, p.board), p.tools.dialect)
    bench = texts.pop("tb_core.cpp")
    files: Files = {f"hls/src/{name}": text for name, text in texts.items()}
    files["hls/tb/tb_core.cpp"] = bench
    files |= {f"hls/tb/{name}": content for name, content in vector_files(p.design).items()}
    return files | {"hls/synth.tcl": _text("hls_synth.tcl", p), "hls/csim.tcl": _text("hls_csim.tcl", p)}


def _text(template: str, p: ProjectText) -> str:
    return render(f"project/{template}", {"p": p})


def _manifest(p: ProjectText, files: Mapping[str, str | bytes]) -> str:
    digests = {
        name: hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
        for name, content in files.items()
    }
    body = {
        "schema": MANIFEST_SCHEMA,
        "network": p.design.network,
        "board": p.board.name,
        "core": p.core,
        "tools": p.tools.version,
        "design": p.design.digest,
        "build_id": p.build_id,
        "missing": list(p.missing),
        "files": digests,
    }
    return json.dumps(body, sort_keys=True, indent=1, allow_nan=False) + "\n"
