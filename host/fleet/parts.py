"""The bundle of a part of a network: cut from the whole's bundle, with the times of its stages."""

from __future__ import annotations

from fluidnpu.dse import DesignError, LatencyTable
from fluidnpu.hls import ProgramError
from fluidnpu.hls.program import Stages, cut

from ..bundle import Bundle
from ..devices.timing import JobTimes
from ..errors import BundleError


def part_of(whole: Bundle, stages: Stages) -> Bundle:
    """Return the bundle of some stages of a network, on the same NPU: its bits are the whole's.

    A stage without its head takes what its other layers take of the stage's time. Raises BundleError for a
    network that cannot be cut there.
    """
    design, program = whole.design, whole.program
    try:
        if stages.last >= design.stages:
            raise ProgramError(f"stages of '{program.network}' must lie in 0..{design.stages - 1}, not {stages.last}")
        latency, rates = _latency(whole, stages), stages.rates(design.exit_rates)
        small = design.of_stages(stages.exits, stages.layers(program), latency, rates)
        return Bundle(design=small, program=cut(program, stages, small.digest))
    except (DesignError, ProgramError) as error:
        raise BundleError(str(error)) from None


def _latency(whole: Bundle, stages: Stages) -> LatencyTable:
    """Add up the times of the whole's stages, with and without their heads."""
    times, design, program = JobTimes(whole.design), whole.design, whole.program
    rows, row = [], [0] * design.b_max
    for stage in range(stages.first, stages.last + 1):
        first, last = program.stages[stage][0], program.segments[stage]
        for k in range(design.b_max):
            if stage in stages.exits:
                row[k] += design.latency.ns[stage][k]
            elif last >= first:
                row[k] += times.layer_ends(first, last, k + 1)[-1]
        if stage in stages.exits:
            rows.append(tuple(row))
            row = [0] * design.b_max
    return LatencyTable(ns=tuple(rows))
