"""The NPU with either core that the tests of this room drive.

`python -m workshop.builds` makes it before the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from rtl_worlds import model

from fluidnpu.dse import CORES
from workshop.builds import BuildPart


def shared() -> Iterator[BuildPart]:
    for core in CORES:
        npu = model(core=core)
        yield BuildPart(name=f"npu: core {core}, of tests/host", make=npu.build, there=npu.verilated.target.exists)
