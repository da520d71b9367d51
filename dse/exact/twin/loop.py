"""The loop over cycles: twin of `fluidnpu_data_plane`, which connects the modules.

Each module moves once a cycle, consumers before producers. `_look` takes the decisions that depend on several
modules, before any of them moves; the queues move at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .activation import ActivationUnit, reset_activation, step_activation, step_table
from .bus.masters import Masters, step_read_master
from .bus.memory import DramTwin, collect_traffic, reset_dram, step_memory
from .bus.stripes import Stripes, collect_striped, reset_stripes, step_striped_memory
from .commands import Commands
from .core import (
    Core,
    Rings,
    cmd_ready,
    count_streams,
    end_core,
    feed_core,
    reset_core,
    step_core,
    take_command,
)
from .filter import OutputFilter, filter_walked, reset_filter, step_filter
from .hls_core import HlsCore, hls_cmd_ready, step_hls_core
from .outputs import OutputWriter, all_written, next_outputs, reset_outputs, step_outputs
from .parameters import MAX_SLOTS, Counts, LayerConstants, Setup
from .pool import OutputPool, reset_pool, step_pool
from .queues import SKID_DEPTH, step_queue
from .records import ints, jit, jit_apart, table, values, zeros
from .residuals import ResidualReader, next_residuals, reset_residuals, step_residuals
from .row_buffer import RowBuffer, load_row, reset_row_buffer, serve_segments, write_word
from .segments import SegmentQueue, reset_segments
from .sequencer import (
    AWAIT,
    BEGIN,
    COMMANDS,
    DONE,
    DRAIN,
    FETCH,
    PLAN,
    PLANNED,
    Sequencer,
    issue_command,
    look_ahead,
    may_issue,
    reset_sequencer,
    step_sequencer,
)
from .weights import WeightStreamer, step_weights, weights_idle
from .windows import Windows, reset_windows, step_windows


@dataclass(slots=True)
class NpuState:
    """Registers of the NPU and of the memory behind it."""

    sequencer: Sequencer
    commands: Commands
    masters: Masters
    weights: WeightStreamer
    rows: RowBuffer
    windows: Windows
    segments: SegmentQueue
    residuals: ResidualReader
    outputs: OutputWriter
    pool: OutputPool
    unit: ActivationUnit
    filter: OutputFilter
    table: ActivationUnit  # behind the filter
    core: Core
    hls: HlsCore
    dram: DramTwin


class LoopJob(NamedTuple):
    """The arguments of `simulate` as arrays, which Numba recognises faster than single records."""

    npu: Sequence[NpuState]  # one
    setup: Sequence[Setup]  # one
    stripes: Sequence[Stripes]  # one, or none where masters have one port each
    layers: Sequence[LayerConstants]
    counts: Sequence[Counts]
    rings: Rings


@jit_apart
def _begin_layer(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    reset_outputs(npu.outputs, layer)
    reset_pool(npu.pool)
    reset_activation(npu.unit)
    reset_filter(npu.filter)
    reset_activation(npu.table)
    reset_residuals(npu.residuals, layer)
    reset_row_buffer(npu.rows, layer)
    reset_windows(npu.windows, layer)
    reset_segments(npu.segments)


@jit
def _look(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    sequencer, rows = npu.sequencer, npu.rows
    rows.arrives = rows.asked != rows.arrived and npu.masters.m1.level != 0
    if setup.row_distance:
        npu.core.cmd_ready = hls_cmd_ready(npu.hls, npu.commands)
    else:
        npu.core.cmd_ready = cmd_ready(npu.commands, layer)
    sequencer.may_issue = sequencer.state == COMMANDS and may_issue(npu.commands, npu.weights, layer)
    sequencer.written = (
        sequencer.state == DRAIN
        and all_written(npu.outputs, npu.masters.m2_write, npu.commands)
        and weights_idle(npu.weights)
        and filter_walked(npu.filter, npu.commands)
    )


@jit
def _step_outputs(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    if layer.filter_kernel:
        _step_filtered(npu, layer, setup)
    elif layer.activation:
        _step_activated(npu, layer, setup)
    elif layer.pool_kernel:
        step_outputs(npu.outputs, npu.masters.m2_write, npu.pool.shown, layer, npu.commands, setup)
        step_pool(npu.pool, npu.core.out_skid, layer, npu.commands, setup)
    else:
        step_outputs(npu.outputs, npu.masters.m2_write, npu.core.out_skid, layer, npu.commands, setup)
    next_outputs(npu.outputs, layer, npu.commands)


@jit_apart
def _step_activated(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    """Step what outputs pass on their way to memory where the unit comes first."""
    shown = npu.pool.shown if layer.pool_kernel else npu.unit.shown
    step_outputs(npu.outputs, npu.masters.m2_write, shown, layer, npu.commands, setup)
    if layer.pool_kernel:
        step_pool(npu.pool, npu.unit.shown, layer, npu.commands, setup)
    step_activation(npu.unit, npu.core.out_skid, layer, npu.commands, setup)


@jit_apart
def _step_filtered(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    """Step what outputs pass on their way to memory through a filter."""
    shown = npu.table.shown if layer.filter_table else npu.filter.shown
    step_outputs(npu.outputs, npu.masters.m2_write, shown, layer, npu.commands, setup)
    if layer.filter_table:
        step_table(npu.table, npu.filter.shown)
    source = npu.unit.shown if layer.activation else npu.core.out_skid
    step_filter(npu.filter, source, layer, npu.commands, setup)
    if layer.activation:
        step_activation(npu.unit, npu.core.out_skid, layer, npu.commands, setup)


@jit
def _step_inputs(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    rows, m1 = npu.rows, npu.masters.m1
    feed_core(npu.core, rows.beats)
    load_row(rows, m1, layer, setup)
    step_windows(npu.windows, npu.segments, layer, setup, npu.commands)
    serve_segments(rows, npu.segments, setup)
    if rows.arrives:
        write_word(rows)
        m1.data_ready = 1
    step_read_master(m1, setup)


@jit
def _step_residuals(npu: NpuState, layer: LayerConstants, setup: Setup) -> None:
    if layer.has_residual:
        queue = npu.unit.factors if layer.multiplies else npu.core.residual_skid
        ready = queue.level < SKID_DEPTH
        step_residuals(npu.residuals, npu.masters.m2_read, queue, ready, npu.sequencer.ahead, layer, setup)
        next_residuals(npu.residuals, layer, npu.commands)
        if layer.multiplies:
            step_queue(npu.unit.factors)


@jit
def _step_weights(npu: NpuState, layer: LayerConstants, ahead: LayerConstants, more: bool, setup: Setup) -> None:
    sequencer, m0 = npu.sequencer, npu.masters.m0
    turn, fetch = sequencer.turn != 0, sequencer.ahead == FETCH
    step_weights(npu.weights, m0, npu.core.weight_skid, layer, setup, turn, fetch)
    if npu.core.cmd_ready:
        take_command(npu.commands, layer)
    if sequencer.state == BEGIN and not layer.merged:
        _begin_layer(npu, layer, setup)
    planned = sequencer.ahead == PLANNED
    look_ahead(sequencer, m0, npu.masters.m2_read, ahead, more, setup)
    step_sequencer(sequencer, planned, layer)
    if sequencer.may_issue:
        issue_command(sequencer, npu.commands, npu.weights, layer, setup)
    step_read_master(m0, setup)
    if layer.has_residual or sequencer.ahead > PLAN:
        step_read_master(npu.masters.m2_read, setup)


@jit
def _end_cycle(npu: NpuState, counts: Counts, layer: LayerConstants, setup: Setup) -> None:
    if setup.row_distance:
        step_hls_core(npu.hls, npu.core, layer, setup, npu.commands)
    count_streams(npu.core, npu.rows.beats, counts)
    step_queue(npu.rows.beats)
    end_core(npu.core)


@jit_apart
def _reset(job: LoopJob, first_cycle: int) -> None:
    npu, setup = job.npu[0], job.setup[0]
    reset_sequencer(npu.sequencer)
    reset_core(npu.core, setup)
    reset_dram(npu.dram, setup, first_cycle)
    if setup.stripes > 1:
        reset_stripes(job.stripes[0], setup)


@jit_apart
def _end_layer(job: LoopJob, index: int, cycles: int) -> None:
    npu, counts = job.npu[0], job.counts[index]
    counts.cycles = cycles
    collect_traffic(npu.dram, counts)
    if job.setup[0].stripes > 1:
        collect_striped(job.stripes[0], counts)
    npu.sequencer.state = AWAIT


@jit.entry
def simulate(job: LoopJob, first_cycle: int, limit: int) -> bool:
    """Run a job and fill the counts of its layers. Returns False if it does not end within `limit` cycles."""
    npu, setup = job.npu[0], job.setup[0]
    _reset(job, first_cycle)
    now = first_cycle
    for index in range(len(job.layers)):
        layer, counts, began = job.layers[index], job.counts[index], now
        more = index + 1 < len(job.layers)
        while npu.sequencer.state != DONE:
            if now - first_cycle >= limit:
                return False
            _look(npu, layer, setup)
            if setup.stripes == 1:
                step_memory(npu.dram, npu.masters, setup)
            else:
                step_striped_memory(job.stripes[0], npu.dram, npu.masters, setup)
            _step_outputs(npu, layer, setup)
            if not setup.row_distance:
                step_core(npu.core, layer, setup, npu.commands, job.rings)
            _step_inputs(npu, layer, setup)
            _step_residuals(npu, layer, setup)
            begun = npu.sequencer.state > AWAIT
            counts.lead += not begun
            _step_weights(npu, layer, job.layers[index + 1] if begun and more else layer, more, setup)
            _end_cycle(npu, counts, layer, setup)
            now += 1
        _end_layer(job, index, now - began)
    return True


def _ring(entries: int) -> int:
    """Round the size of a ring up to a power of two, so that an index needs no division.

    >>> _ring(5)
    8
    """
    return 1 << (entries - 1).bit_length()


def run(
    numbers: Mapping[str, Any],
    slots: Sequence[int],
    layers: Sequence[Mapping[str, int]],
    *,
    first_cycle: int,
    limit: int,
) -> list[dict[str, Any]] | None:
    """Count the cycles of a job: the fields of `Counts` for each layer, or None past `limit` cycles.

    `numbers` has the fields of `Setup` by name, and each of `layers` those of `LayerConstants`; `slots` are
    the addresses of the samples. `first_cycle` is the NPU's cycle after the write of START, since refresh
    counts from reset.
    """
    late, bias = _ring(numbers["late"] + 1), _ring(numbers["bias_depth"])
    setup = {
        **numbers,
        "port_shift": numbers["port_bytes"].bit_length() - 1,
        "stripe_shift": numbers["stripes"].bit_length() - 1,
        "line_shift": numbers["line_words"].bit_length() - 1 + numbers["word_shift"],
        "late_mask": late - 1,
        "bias_mask": bias - 1,
        "slots": [*slots, *[0] * (MAX_SLOTS - len(slots))],
    }
    job = LoopJob(
        npu=zeros(NpuState, 1),
        setup=table(Setup, [setup]),
        stripes=zeros(Stripes, 1 if numbers["stripes"] > 1 else 0),
        layers=table(LayerConstants, layers),
        counts=zeros(Counts, len(layers)),
        rings=Rings(ints(late), ints(bias)),
    )
    return [values(count) for count in job.counts] if simulate(job, first_cycle, limit) else None
