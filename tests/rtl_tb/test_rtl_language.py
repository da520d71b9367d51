"""All SystemVerilog by a second compiler: Verilator takes what the language forbids, such as a name used before its declaration."""

from importlib.resources import files

import pytest

from fluidnpu.rtl_tb import sources

pyslang = pytest.importorskip("pyslang", reason="pyslang comes with the extra `rtl`: pip install 'fluidnpu[rtl]'")


def errors(texts: dict[str, str]) -> list[str]:
    """What slang calls an error, a line each."""
    from pyslang import ast, syntax

    manager = syntax.SyntaxTree.getDefaultSourceManager()
    compilation = ast.Compilation()
    for name, text in texts.items():
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, name))
    client, engine = pyslang.TextDiagnosticClient(), pyslang.DiagnosticEngine(manager)
    engine.addClient(client)
    for diagnostic in compilation.getAllDiagnostics():
        if diagnostic.isError():
            engine.issue(diagnostic)
    return [line for line in client.getString().splitlines() if "error:" in line]


def test_all_rtl_is_legal() -> None:
    npu = files("fluidnpu.rtl_tb").joinpath("npu", "fluidnpu_npu.sv").read_text()
    assert errors({**sources(), "fluidnpu_npu.sv": npu}) == []


def test_a_name_before_its_declaration_is_told() -> None:
    early = "module early (output logic o);\n  assign o = late;\n  logic late;\nendmodule\n"
    assert len(errors({"early.sv": early})) == 1
