"""The NPU with the HLS core that the tests of this room drive; that with the RTL core is `rtl_tb`'s, too.

`python -m workshop.builds` makes it before the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from rtl_worlds import model

from workshop.builds import Part


def shared() -> Iterator[Part]:
    npu = model(core="hls")
    yield Part(name="npu: with the HLS core, of tests/host", make=npu.build, there=npu.verilated.target.exists)
