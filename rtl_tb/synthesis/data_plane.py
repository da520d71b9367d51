"""Synthesises the Fluid Batching Engine with Yosys and prints its size beside the paper's claims.

    python -m fluidnpu.rtl_tb.synthesis.data_plane

Out of context and flattened, for ResNet-50's 54 layers and batches 1..8. Claims are shares of the device;
ours are too. Devices: Z7045 has 218 600 LUTs and 437 200 flip-flops (DS190), ZU7EV 230 400 and 460 800
(DS891).
"""

from __future__ import annotations

import argparse
import sys

from ..common.command import ended
from .yosys import synthesise

FAMILIES = {"xc7": ("Z7045", 218_600, 437_200), "xcup": ("ZU7EV", 230_400, 460_800)}
ENGINE = "fluidnpu_batching_engine"
CONTROL_UNIT_CLAIM_PCT = 0.5  # of the LUTs, at most
FBCB_CLAIM_PCT = (0.5, 0.95)  # of the registers


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.data_plane", description=__doc__).parse_args()
    print(f"{'module':24} {'device':7} {'LUT':>6} {'LUT %':>7} {'FF':>6} {'FF %':>7} {'LUTRAM':>7} {'RAMB18':>7}")
    for family, (device, luts, registers) in FAMILIES.items():
        cells = synthesise(ENGINE, {"BMax": 8, "Layers": 54}, family)
        shares = 100 * cells.lut / luts, 100 * cells.ff / registers
        print(
            f"{ENGINE:24} {device:7} {cells.lut:6} {shares[0]:7.3f} {cells.ff:6} {shares[1]:7.3f} {cells.lutram:7} {cells.ramb18:7}"
        )
    low, high = FBCB_CLAIM_PCT
    print(
        f"the paper: control unit < {CONTROL_UNIT_CLAIM_PCT} % of the LUTs, FBCB {low}-{high} % of the registers (ours lies in block RAM)"
    )


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.data_plane"))
