"""Parameters at which the bench of each module or harness runs by default. A table; knows no simulator.

The bench of a module has the module's name and stands in its subject's `benches/`.

>>> UNITS["common_fifo"]["Depth"]
5
"""

from __future__ import annotations

from collections.abc import Mapping

UNITS: Mapping[str, Mapping[str, int]] = {
    "common_fifo": {"Width": 8, "Depth": 5},
    "axi_masters_top": {"DataBytes": 8, "MaxBurst": 16, "QueueBeats": 32},
    "axi_striped_masters_top": {"DataBytes": 16, "MaxBurst": 16, "Ports": 4},
    "fluidnpu_batching_engine": {"BMax": 4, "Layers": 3},
    "fluidnpu_regs": {"BMax": 5, "TP": 7, "TC": 300, "Stackable": 0, "Split": 1, "BuildId": 0x89AB_CDEF},
    "fluidnpu_unpack": {"PortWords": 4, "BeatWords": 3},
    "fluidnpu_row_buffer": {"BMax": 4, "InWords": 8, "PortWords": 8, "LineWords": 16, "Sets": 128},
    "fluidnpu_descriptor_fetch": {"PortWords": 8},
    "fluidnpu_weight_streamer": {"TP": 4, "WeightSlots": 2, "PortWords": 8},
    "fluidnpu_residual_reader": {"BMax": 4, "OutWords": 3, "PortWords": 8},
    "fluidnpu_output_writer": {"BMax": 4, "OutWords": 3, "PortWords": 8},
    "fluidnpu_row_walker": {"BMax": 4},
    "fluidnpu_window_segments": {"TP": 4, "BMax": 4, "LineWords": 16, "PortBytes": 16},
    "fluidnpu_planner": {"TP": 6, "TC": 8, "WeightSlots": 2, "PortBytes": 16, "Split": 1},
    "fluidnpu_sequencer": {"TC": 8, "InWords": 8, "BMax": 4},
}
