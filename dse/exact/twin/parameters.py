"""Parameters and results of a job: hardware and memory, layers, and the counts of each layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

MAX_SLOTS = 32
MASTERS = 3  # that read: m0, m1, m2
MAX_STRIPES = 4
BURSTS = 64  # the most that memory may owe a port; a power of two
FRACTION = 1024  # rates of memory are in bytes of 1 / FRACTION, as `npu_model.cpp` counts them


@dataclass(slots=True)
class Setup:
    """Constants of a job: parameters of the RTL and of the memory, and the addresses of the samples."""

    t_p: int
    in_words: int
    weight_slots: int
    out_words: int
    word_shift: int  # log2 of the bytes of a word
    chain_columns: int  # columns that share a chain of slices
    port_words: int
    port_bytes: int
    max_burst: int
    line_words: int
    buffer_bytes: int
    queue_beats: int
    biases_per_beat: int
    bias_depth: int
    late: int  # cycles from a beat to the sum it finishes
    turnaround: int  # cycles from a row's beat until that of its next P-tile
    finish_steps: int  # of post-processing, in core_finish
    row_distance: int  # of the HLS core; 0: the core in SystemVerilog
    half_shift: int  # log2 of the halves of a bank of the HLS core
    stripes: int
    port_shift: int  # log2 of port_bytes
    stripe_shift: int  # log2 of stripes
    line_shift: int  # log2 of the bytes of a line of the input buffer
    late_mask: int
    bias_mask: int
    latency: int
    write_latency: int
    link_rate: int  # 0: no limit
    total_rate: int
    refresh_interval: int
    refresh_cycles: int
    outstanding: int
    links: Annotated[list[int], MASTERS]
    slots: Annotated[list[int], MAX_SLOTS]


@dataclass(slots=True)
class LayerConstants:
    """Constants of a layer, as the planner computes them from its descriptor and its plan."""

    pool: int
    max_pool: int
    wide: int  # k = 2
    split: int  # k = 1/2
    tile_words: int  # of an input beat
    tile_columns: int
    row_lanes: int
    sample_lanes: int
    b_r: int
    block: int
    has_residual: int
    adds: int  # the residual, in the core
    multiplies: int  # by the residual, in the activation unit
    residual_spread: int  # one word of a row is for all of its columns
    activation: int  # words pass the activation unit
    pieces: int
    piece_address: int
    constant_words: int  # port words of pieces, filter weights and the table behind the filter
    kernel_h: int
    kernel_w: int
    out_h: int
    out_w: int
    group_words: int
    groups: int
    columns: int
    in_offset: int
    out_offset: int
    out_row: int
    out_pixel: int
    pool_kernel: int  # of the max pool that outputs pass, or 0
    pool_top: int
    pool_left: int
    filter_kernel: int  # of the depthwise filter that outputs pass, or 0
    filter_stride: int
    filter_first_h: int  # row and column of the first position at which a word leaves the filter
    filter_first_w: int
    filter_steps: int  # cycles of a window
    filter_table: int  # words pass a second activation unit behind it
    filter_words: int  # port words of its weights
    walk_h: int  # rows and columns of its positions
    walk_w: int
    merged: int  # a layer that the one before it has computed
    residual_offset: int
    residual_row: int
    residual_pixel: int
    contiguous: int
    run_words: int
    p_tiles: int
    beats0: int
    beats1: int
    weights: int
    block_words: int
    plan_cycles: int
    descriptor: int
    batch: int
    row_bytes: int
    row_step: int
    sample_rows: int
    rise: int
    span: int
    pitch: int
    sample_pitch: int
    step_h: int
    step_w: int
    tap_h: int
    tap_w: int


@dataclass(slots=True)
class Counts:
    """Counts of a layer: cycles, beats of the core's streams, beats and bursts of the memory ports."""

    cycles: int
    lead: int  # of these, before the layer begins
    input_beats: int
    blocked_cycles: int
    starved_cycles: int
    weight_beats: int
    residual_beats: int
    output_beats: int
    read_beats: Annotated[list[int], MASTERS]
    read_bursts: Annotated[list[int], MASTERS]
    write_beats: int
    write_bursts: int
    striped_reads: int  # bursts of the masters, which stripes cut
    striped_writes: int
    striped_read_beats: int  # words that the masters took
