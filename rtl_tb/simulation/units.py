"""Which bench, with which parameters, checks which module of the data plane alone. A table; knows no simulator.

>>> UNITS["common_fifo"].bench
'fifo'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A bench of this folder, the module's parameters, which of its tests are meant, and what the bench must be told."""

    bench: str
    parameters: Mapping[str, int]
    tests: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


UNITS: Mapping[str, Unit] = {
    "common_fifo": Unit(bench="fifo", parameters={"Width": 8, "Depth": 5}),
    "fluidnpu_unpack": Unit(bench="unpack", parameters={"PortWords": 4, "BeatWords": 3}),
    "fluidnpu_row_buffer": Unit(
        bench="row_buffer", parameters={"BMax": 4, "InWords": 8, "PortWords": 8, "LineWords": 16, "Sets": 128}
    ),
    "fluidnpu_descriptor_fetch": Unit(bench="layer_streams", parameters={"PortWords": 8}, tests="descriptors"),
    "fluidnpu_weight_streamer": Unit(
        bench="layer_streams", parameters={"TP": 4, "WeightSlots": 2, "PortWords": 8}, tests="weights"
    ),
    "fluidnpu_residual_reader": Unit(
        bench="layer_streams", parameters={"BMax": 4, "OutWords": 3, "PortWords": 8}, tests="residuals"
    ),
    "fluidnpu_output_writer": Unit(
        bench="layer_streams", parameters={"BMax": 4, "OutWords": 3, "PortWords": 8}, tests="outputs_reach"
    ),
    "fluidnpu_row_walker": Unit(bench="row_walker", parameters={"BMax": 4}),
    "fluidnpu_window_segments": Unit(
        bench="windows", parameters={"TP": 4, "BMax": 4, "LineWords": 16, "PortBytes": 16}
    ),
    "fluidnpu_planner": Unit(
        bench="planner", parameters={"TP": 6, "TC": 8, "WeightSlots": 2, "PortBytes": 16, "Split": 1}
    ),
    "fluidnpu_sequencer": Unit(bench="sequencer", parameters={"TC": 8, "InWords": 8, "BMax": 4}),
}
