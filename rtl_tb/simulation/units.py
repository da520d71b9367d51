"""Parameters at which the bench of each module or harness runs by default. A table; knows no simulator.

The bench of a module has the module's name and stands in its subject's `benches/`.

>>> UNITS["common_fifo"]["Depth"]
5
>>> met_in("axi_stripe_cut"), met_in("core_pool")
('axi_striped_masters_top', 'fluidnpu_core')
"""

from __future__ import annotations

from collections.abc import Mapping

UNITS: Mapping[str, Mapping[str, int]] = {
    "common_fifo": {"Width": 8, "Depth": 5},
    "common_reset": {"Copies": 3},
    "axi_masters_top": {"DataBytes": 8, "MaxBurst": 16, "QueueBeats": 32},
    "axi_striped_masters_top": {"DataBytes": 16, "MaxBurst": 16, "Ports": 4},
    "fluidnpu_batching_engine": {"BMax": 4, "Layers": 3},
    "fluidnpu_regs": {"BMax": 5, "TP": 7, "TC": 300, "Stackable": 0, "Split": 1, "BuildId": 0x89AB_CDEF},
    "fluidnpu_counters": {"Layers": 5},
    "fluidnpu_unpack": {"PortWords": 4, "BeatWords": 3},
    "fluidnpu_row_buffer": {"BMax": 13, "InWords": 8, "PortWords": 8, "LineWords": 16, "Sets": 128},
    "fluidnpu_descriptor_fetch": {"PortWords": 8},
    "fluidnpu_weight_streamer": {"TP": 4, "WeightSlots": 2, "PortWords": 8},
    "fluidnpu_residual_reader": {"BMax": 4, "OutWords": 3, "PortWords": 8, "Spreads": 1},
    "fluidnpu_piece_loader": {"OutWords": 5, "PortWords": 8, "FilterWeights": 19},
    "fluidnpu_output_writer": {"BMax": 4, "OutWords": 3, "PortWords": 8, "Filters": 1},
    "fluidnpu_output_pool": {"BMax": 4, "OutWords": 3, "Windows": 50, "Rows": 300},
    "fluidnpu_output_filter": {
        "BMax": 4,
        "OutWords": 3,
        "Kernel": 5,
        "Windows": 12,
        "Rows": 100,
        "DeepRows": 80,
        "Weights": 30,
    },
    "fluidnpu_activation": {"OutWords": 3, "Dsp": 0},
    "fluidnpu_row_walker": {"BMax": 4, "Pools": 1, "Filters": 1},
    "fluidnpu_window_segments": {"TP": 4, "BMax": 4, "PortBytes": 16},
    "fluidnpu_segment_queue": {"CountWidth": 4, "Depth": 16},
    "fluidnpu_planner": {
        "TP": 6,
        "TC": 8,
        "WeightSlots": 2,
        "PortBytes": 16,
        "Split": 1,
        "Activation": 1,
        "FilterKernel": 5,
        "FilterWeights": 21,
        "FilterActivation": 1,
    },
    "fluidnpu_sequencer": {"TC": 8, "InWords": 8, "BMax": 4},
}

# Tops whose parameters are those of a whole array: its sizes by default.
WHOLE: Mapping[str, Mapping[str, int]] = {
    "fluidnpu_data_plane": {
        "t_r": 16, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4, "port_bytes": 16,
        "activation": 1, "filter": 5, "filter_table": 1,
    },
    "fluidnpu_core": {
        "t_r": 13, "t_p": 4, "t_c": 5, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 3, "out_words": 4, "port_bytes": 16,
    },
}  # fmt: skip

# Modules whose benches play no layers, so that any of their parameters go together.
FREE = (
    "common_fifo",
    "common_reset",
    "axi_masters_top",
    "axi_striped_masters_top",
    "fluidnpu_batching_engine",
    "fluidnpu_regs",
    "fluidnpu_counters",
    "fluidnpu_unpack",
    "fluidnpu_activation",
    "fluidnpu_output_filter",
    "fluidnpu_segment_queue",
)

_ELSEWHERE: Mapping[str, str] = {
    "axi_read_master": "axi_masters_top",
    "axi_write_master": "axi_masters_top",
    "axi_read_stripe": "axi_striped_masters_top",
    "axi_write_stripe": "axi_striped_masters_top",
    "axi_stripe_cut": "axi_striped_masters_top",
    "axi_gather_fifo": "axi_striped_masters_top",
    "common_skid": "fluidnpu_core",
    "fluidnpu_activation_lane": "fluidnpu_activation",
    "fluidnpu_multiplier": "fluidnpu_activation",
    "fluidnpu_output_filter_lane": "fluidnpu_output_filter",
    "fluidnpu_output_filter_bytes": "fluidnpu_output_filter",
    "fluidnpu_beat_builder": "fluidnpu_row_buffer",
    "fluidnpu_row_addresses": "fluidnpu_output_writer",
}


def met_in(module: str) -> str | None:
    """The top whose bench drives a module: itself or the one that contains it; None for a stranger."""
    if module in UNITS or module in WHOLE:
        return module
    return "fluidnpu_core" if module.startswith("core_") else _ELSEWHERE.get(module)
