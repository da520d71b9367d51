"""The checkers of pragmas and Tcl: everything generated passes, and each kind of slip is found."""

from __future__ import annotations

from typing import Any

import pytest
from hls_cases import project_of, texts

from fluidnpu.hls.core.dialect import Dialect, in_dialect
from fluidnpu.hls.errors import TclError
from fluidnpu.hls.project.checks.pragmas import check_pragmas
from fluidnpu.hls.project.checks.tcl import check_tcl, split_commands
from fluidnpu.hls.project.tools import TOOLS
from fluidnpu.models.numeric.words import INT8


@pytest.mark.parametrize("tools", list(TOOLS))
@pytest.mark.parametrize("board", ["zc706", "zcu104"])
@pytest.mark.parametrize("options", [{}, {"split": True}, {"word": INT8}], ids=["", "split", "bytes"])
def test_every_generated_pragma_and_script_passes(board: str, options: dict[str, Any], tools: str) -> None:
    files = texts(project_of(board, tools=tools, **options))
    scripts = [path for path in files if path.endswith(".tcl")]
    sources = [path for path in files if path.endswith((".cpp", ".h")) and path.startswith("hls/")]
    assert len(scripts) == 5
    assert len(sources) == 16
    for path in scripts:
        assert check_tcl(files[path], TOOLS[tools].hls if path.startswith("hls/") else "vivado") == [], path
    for path in sources:
        assert check_pragmas(files[path], TOOLS[tools].dialect) == [], path
    assert sum(files[path].count("#pragma HLS") for path in sources) > 40


def test_pragmas_of_one_dialect_are_none_of_the_other() -> None:
    """All but the common ones: each of the templates' own kinds is written anew for Vitis HLS."""
    core = texts(project_of("zcu104"))["hls/src/array.h"] + texts(project_of("zcu104"))["hls/src/fluidnpu_core.cpp"]
    old, new = check_pragmas(core, Dialect.VITIS_HLS), in_dialect(core, Dialect.VITIS_HLS)
    for word in ("RESOURCE", "DATA_PACK", "ARRAY_PARTITION", "DEPENDENCE", "INTERFACE"):
        assert any(word in problem for problem in old), word
    assert check_pragmas(new, Dialect.VITIS_HLS) == []
    assert check_pragmas(new, Dialect.VIVADO_HLS) != []
    assert [line for line in new.splitlines() if "#pragma" not in line] == [
        line for line in core.splitlines() if "#pragma" not in line
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("#pragma HLS BIND_STORAGE variable=x type=ram_3p impl=bram", "cannot have type=ram_3p"),
        ("#pragma HLS BIND_STORAGE variable=x impl=bram", "needs type="),
        ("#pragma HLS AGGREGATE variable=x compact=bits", "cannot have compact=bits"),
        ("#pragma HLS ARRAY_PARTITION variable=x complete dim=1", "has no option 'complete'"),
        ("#pragma HLS INTERFACE mode=axi port=x", "cannot have mode=axi"),
        ("#pragma HLS RESOURCE variable=x core=FIFO_SRL", "there is no pragma HLS RESOURCE"),
    ],
)
def test_mistyped_pragmas_of_vitis_hls_are_found(line: str, problem: str) -> None:
    problems = check_pragmas(f"int x;\n{line}\n", Dialect.VITIS_HLS)
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("#pragma HLS PIPELIN II=1", "there is no pragma HLS PIPELIN"),
        ("#pragma HLS PIPELINE IL=1", "pragma HLS PIPELINE has no option 'IL'"),
        ("#pragma HLS PIPELINE II=one", "pragma HLS PIPELINE cannot have II=one"),
        ("#pragma HLS pipeline", "there is no pragma HLS pipeline"),
        ("#pragma hls PIPELINE", "must read '#pragma HLS DIRECTIVE'"),
        ("#pragma HSL UNROLL", "must read '#pragma HLS DIRECTIVE'"),
        ("#pragma HLS ARRAY_PARTITION variable=y complete", "names 'y', which the text does not"),
        ("#pragma HLS ARRAY_PARTITION variable=x.z complete", "names 'x.z', which the text does not"),
        ("#pragma HLS ARRAY_PARTITION complete dim=1", "pragma HLS ARRAY_PARTITION needs variable="),
        ("#pragma HLS ARRAY_PARTITION variable=x compleat", "has no option 'compleat'"),
        ("#pragma HLS INTERFACE axi port=x", "has no option 'axi'"),
        ("#pragma HLS DEPENDENCE variable=x inter fals", "has no option 'fals'"),
        ("#pragma HLS RESOURCE variable=x core=RAM_2P_BRAN", "cannot have core=RAM_2P_BRAN"),
        ("#pragma HLS STREAM variable=x deep=4", "has no option 'deep'"),
    ],
)
def test_mistyped_pragmas_are_found(line: str, problem: str) -> None:
    problems = check_pragmas(f"int x;\n{line}\n")
    assert len(problems) == 1
    assert problem in problems[0]
    assert problems[0].startswith("line 2: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("open_projct x", "there is no command 'open_projct'"),
        ("open_project -rest x", "open_project has no option '-rest'"),
        ("open_project", "open_project takes 1 to 1 operands, not 0"),
        ("create_clock -period", "create_clock -period needs a value"),
        ("create_clock -period -name", "create_clock -period needs a value"),
        ("puts $x", "variable 'x' is read before it is set"),
        ('set a 1\nputs "${a}${b}"', "line 2: variable 'b' is read before it is set"),
        ("set a [set_tops x]", "there is no command 'set_tops'"),
        ("set a {", "'{' is never closed"),
        ("set a [set b", "'[' is never closed"),
        ('set a "b', "'\"' is never closed"),
        ("set a }", "'}' closes nothing"),
        ("set a {b}c", "there must be a space after a closing '}'"),
        ("if {1} {\n open_projct x\n}", "there is no command 'open_projct'"),
        ("if {$x} {exit}", "variable 'x' is read before it is set"),
        ("foreach {a b} {1 2} {puts $c}", "variable 'c' is read before it is set"),
        ("create_bd_cell -type ip x", "there is no command 'create_bd_cell'"),
        ("if {[regexp {(a)} b all one]} {puts $two}", "variable 'two' is read before it is set"),
    ],
)
def test_slips_in_tcl_are_found(text: str, problem: str) -> None:
    problems = check_tcl(text, "vivado_hls")
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    "text",
    [
        "# set a {\nset a 1; puts $a",
        "set a [list 1 \\\n  2]\nforeach b $a { puts $b }",
        "foreach {a b} {1 2} { puts $a$b } ",
        'if {[catch {exit} message]} { puts "no: $message" } else { exit 0 }',
        "set a {$not [a command]}",
        "puts $env(HOME)",
        "set a b\\$c",
        "create_clock -period 6.667 -name default",
        "set_clock_uncertainty -1",
    ],
)
def test_right_tcl_passes(text: str) -> None:
    assert check_tcl(text, "vivado_hls") == []


def test_lines_are_counted_through_continuations() -> None:
    assert [line for line, _ in split_commands("set a \\\n 1\n\nset b {\n}\nset c 1")] == [1, 4, 6]
    with pytest.raises(TclError, match="line 3"):
        list(split_commands("set a 1\n\nset b {"))
