"""The gate of nets: which loads count, whose driver a tool may replicate, and what `make timing` says."""

from __future__ import annotations

from typing import Any

import pytest

from fluidnpu.boards import load_board
from fluidnpu.rtl_tb.synthesis import netlists, timing
from fluidnpu.rtl_tb.synthesis.arrivals import Net, Netlist
from fluidnpu.rtl_tb.synthesis.clock import model

# An enable that a look-up table makes of two registers, or one register that may be replicated.
WIDE = """module wide #(parameter bit Replicated = 1'b0) (
  input logic clk_i, input logic a_i, input logic b_i, input logic [1999:0] data_i, output logic [1999:0] data_o
);
  logic a_q, b_q, enable;
  (* max_fanout = 64 *) logic both_q;
  always_ff @(posedge clk_i) begin
    {a_q, b_q} <= {a_i, b_i};
    both_q     <= a_i && b_i;
    if (enable) data_o <= data_i;
  end
  if (Replicated) begin : gen_replicated
    assign enable = both_q;
  end else begin : gen_plain
    assign enable = a_q && b_q;
  end
endmodule
"""


def netlist(cells: dict[str, Any], names: dict[str, int], *replicated: str) -> Netlist:
    """A netlist of (type, inputs, outputs); names that end in one of `replicated` have the attribute."""
    plain = {
        name: {
            "type": kind,
            "parameters": {},
            "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
            "connections": {port: [bit] for port, bit in {**inputs, **outputs}.items()},
        }
        for name, (kind, inputs, outputs) in cells.items()
    }
    most = {"max_fanout": f"{3:032b}"}
    nets = {
        name: {"hide_name": 0, "bits": [bit], "attributes": most if name in replicated else {}}
        for name, bit in names.items()
    }
    return Netlist({"cells": plain, "netnames": nets, "ports": {}}, ports=False)


def flip_flop(data: int, output: int, **inputs: int) -> tuple[str, dict[str, int], dict[str, int]]:
    return "FDRE", {"C": 1, "D": data, **inputs}, {"Q": output}


def widest(made: Netlist) -> Net:
    (net,) = made.widest_by_scope().values()
    return net


def test_loads_are_inputs_but_clocks() -> None:
    """A register with two data inputs and four enables behind it; the clock has more loads, and is none."""
    cells = {"a": flip_flop(9, 2)} | {f"d{n}": flip_flop(2, 10 + n) for n in range(2)}
    cells |= {f"e{n}": flip_flop(9, 20 + n, CE=2) for n in range(4)}
    assert widest(netlist(cells, {"a_q": 2, "in_q": 9})) == Net("a_q", "FDRE", 6)


def test_a_register_with_the_attribute_counts_its_copies_loads() -> None:
    cells = {"a": flip_flop(9, 2)} | {f"e{n}": flip_flop(8, 20 + n, CE=2) for n in range(8)}
    names = {"a_q": 2, "in_q": 8}
    assert widest(netlist(cells, names)).loads == 8
    assert netlist(cells, names, "a_q").widest_by_scope()[""] == Net("in_q", "port", 8)
    tables = {"l": ("LUT1", {"I0": 9}, {"O": 2})} | {name: each for name, each in cells.items() if name != "a"}
    assert netlist(tables, {"a": 2}, "a").widest_by_scope()[""].loads == 8, "a table is not replicated"


@pytest.mark.parametrize(("inverters", "driver"), [(1, "INV"), (2, "FDRE")])
def test_an_inverter_drives_what_no_second_one_turns_back(inverters: int, driver: str) -> None:
    """Resets: FDRE has no inverter, so a register of the inverse is replicated in vain."""
    cells = {"a": flip_flop(9, 2)}
    cells |= {f"n{n}": ("INV", {"I": 2 + n}, {"O": 3 + n}) for n in range(inverters)}
    cells |= {f"r{n}": flip_flop(50 + n, 20 + n, R=2 + inverters) for n in range(9)}
    assert widest(netlist(cells, {"a_q": 2}, "a_q")) == Net("a_q", driver, 9 if driver == "INV" else 3)


def test_tables_take_an_inverter_in() -> None:
    cells = {"a": flip_flop(9, 2), "n": ("INV", {"I": 2}, {"O": 3})}
    cells |= {f"l{n}": ("LUT2", {"I0": 3, "I1": 3}, {"O": 30 + n}) for n in range(4)}
    assert widest(netlist(cells, {"a_q": 2})) == Net("a_q", "FDRE", 8)


def test_a_net_without_a_name_is_told_by_what_its_driver_looks_at() -> None:
    cells = {"a": flip_flop(9, 2), "b": flip_flop(9, 3), "l": ("LUT2", {"I0": 2, "I1": 3}, {"O": 4})}
    cells |= {f"e{n}": flip_flop(50 + n, 20 + n, CE=4) for n in range(5)}
    assert widest(netlist(cells, {"a_q": 2, "b_q": 3})) == Net("a LUT2 of a_q, b_q", "LUT2", 5)


@pytest.mark.cpu(20, "Yosys maps 2,000 flip-flops, twice")
def test_an_enable_of_two_thousand_loads_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netlists, "sources", lambda: {"wide.sv": WIDE})
    monkeypatch.setattr(timing, "SMALL_BOARDS", ("zc706",))
    monkeypatch.setattr(timing, "SMALL", {"wide": {}})
    assert timing.main(["--small"]) == 1
    told = capsys.readouterr().out
    assert told.endswith(
        "a net must have at most 1600 loads without a register before them, and a LUT2 of a_q, b_q of wide in small has "
        "2000 (LUT2)\n"
    )
    monkeypatch.setattr(timing, "SMALL", {"wide": {"Replicated": 1}})
    assert timing.main(["--small"]) == 0
    assert "widest net: 64 loads, both_q of wide (FDRE)\n" in capsys.readouterr().out


@pytest.mark.cpu(25, "Yosys maps two modules of the data plane")
@pytest.mark.parametrize("module", ["fluidnpu_sequencer", "fluidnpu_descriptor_fetch"])
def test_modules_that_had_nets_of_a_thousand_loads_have_none(module: str) -> None:
    """Constants of a layer and a descriptor: what enables and resets them is a register, or is divided."""
    lines = timing.lines_of("small", load_board("zc706"), {module: {}}, model())
    net = lines[0].path.net
    assert net
    assert net.loads < 300
    assert timing.too_wide(lines) == []
