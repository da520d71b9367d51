"""The counters of a layer: what the NPU counts, as the exact model counts it, and as it is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.dse import Design
from fluidnpu.dse.exact import LayerTraffic, Machine, job_traffic
from fluidnpu.hls import COUNTERS
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor, layer_job


@dataclass(frozen=True, kw_only=True)
class LayerCounts:
    """The counters of one layer in one job, in the order of `hls.COUNTERS`; words and bursts are a master's.

    >>> LayerCounts(cycles=9, inputs=4, starved=2, blocked=0, read_beats=8, read_bursts=1, write_beats=2,
    ...     write_bursts=1).numbers[:3]
    (9, 4, 2)
    """

    cycles: int
    inputs: int
    starved: int
    blocked: int
    read_beats: int
    read_bursts: int
    write_beats: int
    write_bursts: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """The counters in the order in which the NPU has them."""
        return tuple(getattr(self, counter.name.lower()) for counter in COUNTERS)

    @classmethod
    def of_model(cls, traffic: LayerTraffic, stripes: int) -> LayerCounts:
        """Convert a layer of the model to what an NPU counts of it.

        The NPU counts at its masters, before a word of theirs is spread over `stripes` narrow ports. Words
        written are counted at the ports, where all of them are when a layer ends.
        """
        layer = traffic.layer
        return cls(
            cycles=layer.cycles,
            inputs=layer.input_beats,
            starved=layer.starved_cycles,
            blocked=layer.blocked_cycles,
            read_beats=traffic.read_beats,
            read_bursts=traffic.read_bursts,
            write_beats=layer.write_beats // stripes,
            write_bursts=traffic.write_bursts,
        )


@dataclass(frozen=True, kw_only=True)
class CountedJob:
    """A job as its registers and its descriptors describe it; addresses are physical."""

    program: int  # of the first layer's descriptor
    weights: int
    words: Sequence[int]  # of the FBCB, one a layer
    descriptors: Sequence[Descriptor]
    slots: Sequence[int]
    first_cycle: int = 0  # of the modelled memory's refresh

    def counts(self, design: Design, core: str | None = None) -> list[LayerCounts]:
        """The counters of each layer with a core, by default the design's, in the exact model.

        Raises DesignError for a design without facts.
        """
        jobs = [
            layer_job(
                design,
                layer,
                word,
                len(self.slots),
                weights=self.weights,
                descriptor=self.program + DESCRIPTOR_BYTES * i,
            )
            for i, (layer, word) in enumerate(zip(self.descriptors, self.words, strict=True))
        ]
        machine = Machine.of(design, core)
        layers = job_traffic(jobs, list(self.slots), machine, design.dram, first_cycle=self.first_cycle)
        return [LayerCounts.of_model(layer, machine.stripes) for layer in layers]
