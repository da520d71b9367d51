"""The checkers of pragmas and Tcl: everything generated passes, and each kind of slip is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hls_cases import project_of, texts

from fluidnpu.hls import CsimReport
from fluidnpu.hls.errors import TclError
from fluidnpu.hls.project.checks.pragmas import check_pragmas
from fluidnpu.hls.project.checks.tcl import check_tcl, split_commands

# A mock of Vivado HLS: commands are recorded, and a synthesis leaves the report that the test wants.
PLAYED = """
set ::done {}
foreach name {open_project set_top add_files open_solution set_part create_clock config_rtl config_array_partition export_design} {
    proc $name {args} "lappend ::done $name"
}
proc csynth_design {} {
    lappend ::done csynth_design
    if {$::report eq ""} {return}
    file mkdir fluidnpu_core/solution1/syn/report
    set file [open fluidnpu_core/solution1/syn/report/run_array_csynth.xml w]
    puts $file $::report
    close $file
}
set ::said ""
rename puts _puts
proc puts {args} {if {[llength $args] == 1} {append ::said [lindex $args 0]} else {_puts {*}$args}}
proc exit {args} {}
"""


DEPTH, ONE = "<Worst-caseLatency>13</Worst-caseLatency>", "<Interval-max>1</Interval-max>"
PERIOD = "<EstimatedClockPeriod>6.5</EstimatedClockPeriod>"


@pytest.mark.parametrize(
    ("report", "said", "error"),
    [
        (f"<a>{DEPTH}<PipelineInitiationInterval>1</PipelineInitiationInterval>{PERIOD}</a>", "", ""),
        (DEPTH + ONE + PERIOD, "", ""),
        (
            DEPTH + "<Interval-max>2</Interval-max>" + PERIOD,
            "does not tell that run_array takes a beat every cycle",
            "",
        ),
        (DEPTH + ONE, "must tell of a clock period of at most 6.667 ns", ""),
        (DEPTH + ONE + PERIOD.replace("6.5", "7.1"), "must tell of a clock period of at most 6.667 ns", ""),
        (
            "<Worst-caseLatency>14</Worst-caseLatency>" + ONE + PERIOD,
            "",
            "must be less than 14 cycles deep, and it has 14",
        ),
        ("<Worst-caseLatency>undef</Worst-caseLatency>" + ONE + PERIOD, "", "must tell how deep the pipeline"),
        ("", "", "must tell how deep the pipeline"),
    ],
)
def test_synthesis_stops_at_a_pipeline_that_reads_sums_too_soon(
    report: CsimReport, said: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script itself in a Tcl interpreter, before any core is exported."""
    tkinter = pytest.importorskip("tkinter")
    monkeypatch.chdir(tmp_path)
    tcl = tkinter.Tcl()
    tcl.setvar("report", report)
    tcl.eval(PLAYED)
    script = texts(project_of("zc706"))["hls/synth.tcl"]
    if error:
        with pytest.raises(tkinter.TclError, match=error):
            tcl.eval(script)
    else:
        tcl.eval(script)
    assert said in tcl.getvar("said")
    assert bool(tcl.getvar("said")) == bool(said)
    assert ("export_design" in tcl.getvar("done")) == (not error)


def tool_of(path: str) -> str:
    return "vivado_hls" if path.startswith("hls/") else "vivado"


@pytest.mark.parametrize("board", ["zc706", "zcu104"])
@pytest.mark.parametrize("split", [False, True], ids=["", "split"])
def test_every_generated_pragma_and_script_passes(board: str, split: bool) -> None:
    files = texts(project_of(board, split=split))
    scripts = [path for path in files if path.endswith(".tcl")]
    sources = [path for path in files if path.endswith((".cpp", ".h")) and path.startswith("hls/")]
    assert len(scripts) == 5
    assert len(sources) == 16
    for path in scripts:
        assert check_tcl(files[path], tool_of(path)) == [], path
    for path in sources:
        assert check_pragmas(files[path]) == [], path
    assert sum(files[path].count("#pragma HLS") for path in sources) > 40


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
