"""Compile the loops that the demo runs: the twin of the RTL, and the simulator with the demo's policies.

Numba keeps them beside their sources. Without this the first command that needs one compiles it.
"""

import sys
import time

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.commands.modes.demo_steps import POLICIES
from fluidnpu.dse import LatencyTable, explore
from fluidnpu.models import LayerShape, Window, Workload
from fluidnpu.scheduler import Serving, make_policy
from fluidnpu.scheduler.comparison import OfferedLoad, carried_load


def compile_loops() -> None:
    """Design for a layer, and serve a request under every policy: as little work as meets each loop."""
    window = Window(kernel=(1, 1), out=(4, 4), channels=8)
    layer = LayerShape(name="conv", r=16, p=8, c=8, window=window)
    work = Workload(name="one layer", layers=(layer,))
    explore(work, load_board("zc706"), b_max=1, evaluations=1, core="rtl")
    serving = Serving(latency=LatencyTable(ns=((1_000, 1_500), (1_000, 1_500))), exit_rates=(0.5, 0.5))
    load = OfferedLoad.drawn(np.array([0, 1]), slo_ns=10_000, seed=0, shape=(1, 10))
    for name in POLICIES:
        carried_load(serving, make_policy(name, serving.setting(1e5, load.slo_ns)), load, steps=1)


if __name__ == "__main__":
    began = time.monotonic()
    print(sys.argv[1], flush=True)
    compile_loops()
    print(f"  done in {time.monotonic() - began:.0f} s", flush=True)
