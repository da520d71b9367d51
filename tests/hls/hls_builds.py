"""The cores in C++ that several default tests of this room, and of `rtl_tb`, simulate.

`python -m workshop.builds` compiles them before the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hls_cases import SHIPPED, SMALL, design_of, small_network

from fluidnpu.hls.core.csim import compile_core, core_binary
from workshop.builds import BuildPart

CORES = {"small": SMALL, "small, with split trees": SMALL | {"split": True}, "of the shipped network": SHIPPED}


def shared() -> Iterator[BuildPart]:
    for name, sizes in CORES.items():
        design = design_of(small_network(), **sizes)
        yield BuildPart(name=f"C++ core: {name}", make=partial(compile_core, design), there=core_binary(design).exists)
