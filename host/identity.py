"""The words by which a device names its design: BUILD_ID and SHAPE. Pure arithmetic.

>>> from fluidnpu.dse.testing import tiny_design
>>> register("SHAPE").field("T_C").get(shape_word(tiny_design()))
8
"""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.hls import VERSION, register
from fluidnpu.hls.program import digest_build_id


def build_id_word(design: Design) -> int:
    """Return the word in BUILD_ID: the first 32 bits of the digest of its NPU."""
    return digest_build_id(design.hardware_digest)


def shape_word(design: Design) -> int:
    """Return the word in SHAPE, its fields filled from the design."""
    shape = register("SHAPE")
    values = {
        "B_MAX": design.b_max,
        "VERSION": VERSION,
        "T_P": design.t_p,
        "T_C": design.t_c,
        "STACKABLE": int(design.stackable),
        "SPLIT": int(design.split),
    }
    return sum(shape.field(name).put(value) for name, value in values.items())
