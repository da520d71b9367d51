// Post-processing: residual, requantisation to nearest even, clamp, saturation count. OutWords outputs a cycle.
#ifndef FLUIDNPU_POST_H
#define FLUIDNPU_POST_H

#include "command.h"

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

// One call a cycle: at most one beat of outputs, once its sums and its residual are there.
static void post_process(command_fifo_t& commands, line_fifo_t& lines, output_stream_t& residual, output_stream_t& output,
                         count_stream_t& saturations) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    static command_t c;
    static bool lane;
    static count_t row, column;
    static ap_uint<32> saturated;
    static bool busy = false;
#pragma HLS RESET variable=busy
    if (!busy && !commands.empty()) {
        c = commands.read();
        busy = true;
        lane = false;
        row = 0;
        column = 0;
        saturated = 0;
    }
    if (busy && !lines.empty() && (!c.has_residual || !residual.empty())) {
        const line_beat_t line = lines.read();
#pragma HLS ARRAY_PARTITION variable=line.value complete dim=0
        output_beat_t added = 0, beat = 0;
        if (c.has_residual) added = residual.read();
        for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
            if (int(column) + i < int(c.cols)) {
                const word_t extra = get_word(added, i);
                const value_t rounded = round_half_even(value_t(line.value[i]) + (value_t(extra) << c.residual_shift), c.shift);
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
            if (row == c.beats) {
                saturations.write(saturated);
                busy = false;
            }
        }
    }
}

#endif
