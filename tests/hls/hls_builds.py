"""The cores in C++ that several default tests of this room, and of `rtl_tb`, simulate.

`python tests/builds.py` compiles them before the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from hls_cases import SHIPPED, SMALL, design_of, small_network

from fluidnpu.hls.core.csim import compile_core, core_binary

CORES = {"small": SMALL, "small, with split trees": SMALL | {"split": True}, "of the shipped network": SHIPPED}


def shared() -> Iterator[tuple[str, Callable[[], object], Callable[[], bool]]]:
    for name, sizes in CORES.items():
        design = design_of(small_network(), **sizes)
        yield f"C++ core: {name}", partial(compile_core, design), core_binary(design).exists
