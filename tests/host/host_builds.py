"""The NPU with either core that the tests of this room drive.

`python tests/builds.py` makes it before the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rtl_worlds import model

from fluidnpu.dse import CORES


def shared() -> Iterator[tuple[str, Callable[[], object], Callable[[], bool]]]:
    for core in CORES:
        npu = model(core=core)
        yield f"npu: core {core}, of tests/host", npu.build, npu.verilated.target.exists
