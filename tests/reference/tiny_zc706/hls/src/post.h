// Post-processing: residual, requantisation to nearest even, clamp, saturation count. OutWords outputs a cycle.
#ifndef FLUIDNPU_POST_H
#define FLUIDNPU_POST_H

#include "banks.h"
#include "command.h"

// One row of outputs as wide numbers, column by column; a few beyond the last column so that it shifts by whole beats.
// Every bank is read at the row's address, and a column takes one of the few banks that may hold it in some mode.
static void load_line(const command_t& c, const acc_t acc[Banks][Halves][BankDepth], count_t row, int lane,
                      value_t line[LineWords]) {
#pragma HLS INLINE
    const int half = 0;
    const int address = int(row);
    const bool stacked = c.mode == ModeWide || c.mode == ModeLanes;
    acc_t at_row[Banks][Halves];
#pragma HLS ARRAY_PARTITION variable=at_row complete dim=0
    for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
        for (int h = 0; h < Halves; ++h) {
#pragma HLS UNROLL
            at_row[bank][h] = stored(acc, bank, h, address);
        }
    }
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        if (k < int(c.cols)) {
            acc_t value = k < Banks ? at_row[k][half] : acc_t(0);
            if (stacked && 2 * k + 1 < Banks) value = lane ? at_row[2 * k + 1][half] : at_row[2 * k][half];
            line[k] = value;
        }
    }
}

// v / 2^shift to the nearest integer, halves to even.
static value_t round_half_even(const value_t& v, ap_uint<6> shift) {
#pragma HLS INLINE
    const ap_uint<50> one = 1;
    const ap_uint<50> rest = ap_uint<50>(v) & ((one << shift) - 1);
    const ap_uint<50> half = (one << shift) >> 1;
    const value_t floor = v >> shift;
    const bool up = shift != 0 && (rest > half || (rest == half && floor[0]));
    return up ? value_t(floor + 1) : floor;
}

static void post_process(command_fifo_t& commands, const acc_t acc[Banks][Halves][BankDepth],
                         output_stream_t& residual, output_stream_t& output, ap_uint<32>* saturations) {
    const command_t c = commands.read();
    value_t line[LineWords];
#pragma HLS ARRAY_PARTITION variable=line complete dim=1
    ap_uint<32> saturated = 0;
    count_t row = 0, column = 0;
    bool lane = false;
    while (row != c.beats) {
#pragma HLS PIPELINE II=1
        if (column == 0) {
            load_line(c, acc, row, lane ? 1 : 0, line);
        } else {
            for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
                if (k < int(c.cols)) line[k] = line[k + OutWords];
            }
        }
        output_beat_t added = 0, beat = 0;
        if (c.has_residual) added = residual.read();
        for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
            if (int(column) + i < int(c.cols)) {
                const word_t extra = get_word(added, i);
                const value_t rounded = round_half_even(line[i] + (value_t(extra) << c.residual_shift), c.shift);
                if (rounded < -32768 || rounded > 32767) ++saturated;
                const word_t low = rounded < value_t(c.lo) ? c.lo : word_t(rounded);
                const word_t word = rounded > value_t(c.hi) ? c.hi : low;
                set_word(beat, i, word);
            }
        }
        output.write(beat);
        column += OutWords;
        if (column >= c.cols) {
            column = 0;
            lane = !lane && row < c.lane1_beats;
            if (!lane) ++row;
        }
    }
    *saturations = saturated;
}

#endif
