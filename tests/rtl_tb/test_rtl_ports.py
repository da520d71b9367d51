"""Each port of a module has a comment, and each output occurs in an assertion or says why not."""

import re
from importlib.resources import files

from fluidnpu.rtl_tb.common.sources import sources
from fluidnpu.rtl_tb.proving.ports import asserted, outputs, reasons, unasserted, uncommented


def test_an_output_that_no_assertion_speaks_of_has_its_reason() -> None:
    left = {
        module: [name for name in names if "*" not in reasons().get(module, {})]
        for module, names in unasserted().items()
    }
    missing = {module: sorted(set(names) - set(reasons().get(module, {}))) for module, names in left.items()}
    assert not {module: names for module, names in missing.items() if names}


def test_a_reason_is_of_an_output_that_needs_one() -> None:
    left = unasserted()
    for module, given in reasons().items():
        assert module in left, f"every output of {module} is in an assertion: its reasons must go"
        stale = set(given) - {"*"} - set(left[module])
        assert not stale, f"{module}: {stale} occur in assertions"


def test_every_module_with_outputs_is_looked_at() -> None:
    named = {file: outputs(text) for file, text in sources().items() if not file.endswith("_pkg.sv")}
    assert all(named.values())
    assert "stuck_o" in named["fluidnpu_row_buffer.sv"]
    assert len(named["fluidnpu_data_plane.sv"]) > 40


def test_every_port_has_a_comment() -> None:
    npu = files("fluidnpu.rtl_tb").joinpath("npu")
    texts = {**sources(), **{name: npu.joinpath(name).read_text() for name in ("fluidnpu_npu.sv", "hls_core.sv")}}
    assert {file: left for file, text in texts.items() if (left := uncommented(text))} == {}


def test_a_port_without_a_comment_is_told() -> None:
    """As all of them, in any module, where the comments are taken away."""
    for file, text in sources().items():
        bare = re.sub(r" *//[^\n]*", "", text)
        assert set(outputs(text)) <= set(uncommented(bare)), file


def test_a_wire_before_a_port_says_nothing_of_the_port() -> None:
    """As `stuck_o` once was: a register behind a wire that a proof speaks of."""
    module = "module m (input logic clk_i, output logic x_o\n);\n always_ff @(posedge clk_i) x_o <= x;\n"
    assert "x_o" not in asserted(module + "always_comb assert (x == y);\nendmodule")
    assert "x" in asserted(module + "always_comb assert (x_o == y);\nendmodule")
