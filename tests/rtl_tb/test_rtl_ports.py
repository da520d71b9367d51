"""Each output of a module occurs in an assertion, or says why not."""

from fluidnpu.rtl_tb.common.sources import sources
from fluidnpu.rtl_tb.proving.ports import asserted, outputs, reasons, unasserted


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


def test_a_wire_before_a_port_says_nothing_of_the_port() -> None:
    """As `stuck_o` once was: a register behind a wire that a proof speaks of."""
    module = "module m (input logic clk_i, output logic x_o\n);\n always_ff @(posedge clk_i) x_o <= x;\n"
    assert "x_o" not in asserted(module + "always_comb assert (x == y);\nendmodule")
    assert "x" in asserted(module + "always_comb assert (x_o == y);\nendmodule")
