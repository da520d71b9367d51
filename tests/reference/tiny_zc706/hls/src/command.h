// Decodes a command beat, low bit first.
#ifndef FLUIDNPU_COMMAND_H
#define FLUIDNPU_COMMAND_H

#include "words.h"

static command_t decode(const command_beat_t& beat) {
#pragma HLS INLINE
    command_t c;
    c.mode = beat.range(3, 0);
    c.beats = beat.range(19, 4);
    c.lane1_beats = beat.range(35, 20);
    c.p_tiles = beat.range(51, 36);
    c.cols = beat.range(63, 52);
    c.shift = beat.range(69, 64);
    c.residual_shift = beat.range(74, 70);
    c.has_residual = beat[75];
    c.last = beat[76];
    c.lo = beat.range(92, 77);
    c.hi = beat.range(108, 93);
    return c;
}

static bool is_gemm(const command_t& c) {
#pragma HLS INLINE
    return c.mode < ModeMaxPool;
}

// Weight slots of one P-tile, which is also the number of PEs at work, save that with lanes a slot feeds two.
static count_t tile_slots(const command_t& c) {
#pragma HLS INLINE
    if (c.mode == ModeWide) return count_t(c.cols) << 1;
    return c.cols;
}

static count_t working_pes(const command_t& c) {
#pragma HLS INLINE
    if (c.mode == ModeLanes) return count_t(c.cols) << 1;
    return tile_slots(c);
}

#endif
