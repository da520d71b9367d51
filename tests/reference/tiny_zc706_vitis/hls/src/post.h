// Post-processing: residual, requantisation to nearest even, clamp, saturation count. OutWords a cycle.
#ifndef FLUIDNPU_POST_H
#define FLUIDNPU_POST_H

#include "output_walk.h"

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

// One call is one cycle: at most one beat of outputs, once its sums and its residual are there.
static void post_process(command_fifo_t& commands, line_fifo_t& lines, credit_fifo_t& credits, output_stream_t& residual,
                         output_stream_t& output, count_stream_t& saturations) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    static command_t c;
    static output_walk_t at;
    static ap_uint<32> saturated;
    static bool busy = false;
#pragma HLS RESET variable=busy
    if (!busy) {
        if (!commands.empty()) {
            c = commands.read();
            start(at, c);
            saturated = 0;
            busy = true;
        }
    } else if (!lines.empty() && (!c.has_residual || !residual.empty())) {
        const line_beat_t line = lines.read();
        credits.write(true);
#pragma HLS ARRAY_PARTITION variable=line.value type=complete dim=0
        output_beat_t added = 0, beat = 0;
        if (c.has_residual) added = residual.read();
        ap_uint<8> saturations_here = 0;
        for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
            const word_t extra = get_word(added, i);
            const value_t rounded = round_half_even(value_t(line.value[i]) + (value_t(extra) << c.residual_shift), c.shift);
            const word_t low = rounded < value_t(c.lo) ? c.lo : word_t(rounded);
            const word_t word = rounded > value_t(c.hi) ? c.hi : low;
            const bool is_column = int(at.beat) * OutWords + i < int(c.cols);
            if (is_column && (rounded < -32768 || rounded > 32767)) ++saturations_here;
            if (is_column) set_word(beat, i, word);
        }
        output.write(beat);
        const ap_uint<32> total = saturated + saturations_here;
        saturated = total;
        if (ends_row(at) && at.last_row) {
            saturations.write(total);
            busy = false;
        }
        step(at, c);
    }
}

#endif
