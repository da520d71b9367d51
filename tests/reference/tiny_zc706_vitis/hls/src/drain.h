// Drains finished rows: a row is loaded from the banks into `line`, which then shifts by a beat a call.
#ifndef FLUIDNPU_DRAIN_H
#define FLUIDNPU_DRAIN_H

#include "output_walk.h"

// The command whose rows leave, and the output it is at.
struct drain_t {
    command_t command;
    output_walk_t at;
};

// Loads one row of outputs. Each column selects among the few banks that may hold it in some mode.
static void load_line(const drain_t& drain, const acc_t row[Banks][Halves], acc_t line[LineWords]) {
#pragma HLS INLINE
    const command_t& c = drain.command;
    const int half = int(drain.at.row) % Halves;
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        if (k < int(c.cols)) {
            acc_t value = k < Banks ? row[k][half] : acc_t(0);
            if ((is_wide(c) || is_lanes(c)) && 2 * k + 1 < Banks)
                value = drain.at.lane ? row[2 * k + 1][half] : row[2 * k][half];
            if (is_split(c) && k / 2 < Banks) value = row[k / 2][k % Halves];
            line[k] = value;
        }
    }
}

// `line` is a beat longer than a row, so that any column may shift.
static void shift_line(const drain_t& drain, acc_t line[LineWords]) {
#pragma HLS INLINE
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        if (k < int(drain.command.cols)) line[k] = line[k + OutWords];
    }
}

static line_beat_t first_beat(const acc_t line[LineWords]) {
#pragma HLS INLINE
    line_beat_t beat;
#pragma HLS ARRAY_PARTITION variable=beat.value type=complete dim=0
    for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
        beat.value[i] = line[i];
    }
    return beat;
}

#endif
