"""What a device made from a design says of itself: BUILD_ID and SHAPE. Pure arithmetic; the simulated device and the driver share it.

>>> from fluidnpu.dse.testing import tiny_design
>>> by_name("SHAPE").field("T_C").get(shape_word(tiny_design()))
8
"""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.hls import build_id as digest_build_id
from fluidnpu.hls import by_name


def build_id(design: Design) -> int:
    """What BUILD_ID reads: the first 32 bits of the design's digest."""
    return digest_build_id(design.digest)


def shape_word(design: Design) -> int:
    """What SHAPE reads."""
    shape = by_name("SHAPE")
    values = {
        "B_MAX": design.b_max,
        "T_P": design.t_p,
        "T_C": design.t_c,
        "STACKABLE": int(design.stackable),
        "SPLIT": int(design.split),
    }
    return sum(shape.field(name).put(value) for name, value in values.items())
