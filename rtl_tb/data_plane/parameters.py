"""Parameters of the data plane: a design's numbers, and those that only a test would change. Pure; no I/O.

>>> from fluidnpu.dse.testing import tiny_design
>>> from fluidnpu.rtl_tb.data_plane.parameters import data_plane_parameters
>>> data_plane_parameters(tiny_design(), port_bytes=8)["PortBytes"]
8
"""

from __future__ import annotations

from fluidnpu.dse import Design
from fluidnpu.dse.exact import Machine

DATA_PLANE_TOP = "fluidnpu_data_plane"


def data_plane_parameters(
    design: Design,
    *,
    port_bytes: int | None = None,
    buffer_words: int | None = None,
    max_burst: int = Machine.max_burst,
    stripes: int | None = None,
) -> dict[str, int]:
    """Parameters of the top module for a design.

    `port_bytes`, `buffer_words`, `stripes` replace the design's width of the AXI masters, size of the input
    buffer and number of narrow ports that each master is spread over; stripes are for the whole NPU
    (`fluidnpu_npu`) alone. `max_burst`: beats of the longest burst (16 on Zynq-7000, whose ports are AXI3).
    """
    built = design.changed(
        port_bits=8 * port_bytes if port_bytes else design.port_bits,
        buffer_words=buffer_words or design.buffer_words,
        stripes=stripes or design.stripes,
    )
    return {
        **built.rtl_parameters(),
        "BuildId": int(design.hardware_digest[:8], 16),
        "MaxBurst": max_burst,
        "QueueBeats": max(Machine.queue_beats, max_burst),
        **({"Stripes": built.stripes} if built.stripes > 1 else {}),
    }
