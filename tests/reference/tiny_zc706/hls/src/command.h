// Decodes a command beat and prepares the numbers that counters are compared with.
#ifndef FLUIDNPU_COMMAND_H
#define FLUIDNPU_COMMAND_H

#include "words.h"

// Modes that a design may lack: there each is constant false, and the compiler removes what depends on it.
static bool is_wide(const command_t& c) {
#pragma HLS INLINE
    return Stackable && c.mode == ModeWide;
}

static bool is_lanes(const command_t& c) {
#pragma HLS INLINE
    return Stackable && c.mode == ModeLanes;
}

static bool is_split(const command_t& c) {
#pragma HLS INLINE
    return Split && c.mode == ModeSplit;
}

// ceil(value / Step).
template <int Step>
static count_t steps_of(int value) {
#pragma HLS INLINE
    return count_t((value + Step - 1) / Step);
}

static command_t decode(const command_beat_t& beat) {
#pragma HLS INLINE
    command_t c;
    c.mode = core_command_mode(beat);
    c.beats = core_command_beats(beat);
    c.p_tiles = core_command_p_tiles(beat);
    c.cols = core_command_cols(beat);
    c.shift = core_command_shift(beat);
    c.residual_shift = core_command_residual_shift(beat);
    c.has_residual = core_command_has_residual(beat);
    c.lo = core_command_lo(beat);
    c.hi = core_command_hi(beat);
    const count_t lane1_beats = core_command_lane1_beats(beat);
    c.gemm = c.mode < ModeMaxPool;
    // Slots of a P-tile and PEs at work: with lanes a slot feeds two PEs, split trees make two columns.
    const int cols = int(c.cols), pairs = (cols + 1) / 2;
    const int slots = is_wide(c) ? 2 * cols : is_split(c) ? pairs : cols;
    c.pes = is_wide(c) || is_lanes(c) ? 2 * cols : is_split(c) ? pairs : cols;
    const int padded = c.beats < RowDistance ? RowDistance : int(c.beats);
    const count_t row_beats = steps_of<OutWords>(cols);
    const count_t header_beats = steps_of<WeightSlots>(int(steps_of<BiasesPerSlot>(cols)));
    const count_t part_beats = steps_of<WeightSlots>(slots);
    c.one_row = c.beats == 1;
    c.one_tile = c.p_tiles == 1;
    c.last_row = c.beats - 1;
    c.row_before_last = c.beats - 2;
    c.padded_before_last = padded - 2;
    c.tile_before_last = c.p_tiles - 2;
    c.one_beat = row_beats == 1;
    c.beat_before_last = row_beats - 2;
    c.has_lane1 = lane1_beats != 0;
    c.last_lane1 = lane1_beats - 1;
    c.one_header = header_beats == 1;
    c.header_before_last = header_beats - 2;
    c.one_part = part_beats == 1;
    c.part_before_last = part_beats - 2;
    return c;
}

#endif
