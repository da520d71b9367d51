"""What the data plane is built with: a design's numbers and those of the board's memory ports. Pure; no I/O.

>>> from dse.testing import tiny_design
>>> from rtl_tb.data_plane import data_plane_parameters
>>> data_plane_parameters(tiny_design(), port_bytes=8)["InWords"]
8
"""

from __future__ import annotations

from dse import Design, Machine

TOP = "fluidnpu_data_plane"


def data_plane_parameters(
    design: Design,
    *,
    port_bytes: int = Machine.port_bytes,
    max_burst: int = Machine.max_burst,
    buffer_words: int | None = None,
) -> dict[str, int]:
    """Parameters of the top module for a design.

    `port_bytes`: width of each AXI port. `max_burst`: beats of the longest burst (16 on Zynq-7000, whose ports are AXI3).
    `buffer_words`: another size of the input buffer than the design's.
    """
    line_words = max(design.line_words, port_bytes // 2)
    return {
        **design.rtl_parameters(),
        "BuildId": int(design.digest[:8], 16),
        "PortBytes": port_bytes,
        "MaxBurst": max_burst,
        "LineWords": line_words,
        "Sets": (buffer_words or design.buffer_words) // (2 * line_words),
        "QueueBeats": max(Machine.queue_beats, max_burst),
    }
