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
static void post_process(command_fifo_t& commands, line_fifo_t& lines, credit_fifo_t& credits, output_stream_t& residual,
                         output_stream_t& output, count_stream_t& saturations) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    static command_t c;
    static bool lane, other_lane, last_row, last_beat;
    static count_t row, beats;
    static ap_uint<32> saturated;
    static bool busy = false;
#pragma HLS RESET variable=busy
    if (!busy) {
        if (!commands.empty()) {
            c = commands.read();
            lane = false;
            other_lane = c.has_lane1;
            last_row = c.one_row;
            last_beat = c.one_beat;
            row = 0;
            beats = 0;
            saturated = 0;
            busy = true;
        }
    } else if (!lines.empty() && (!c.has_residual || !residual.empty())) {
        const line_beat_t line = lines.read();
        credits.write(true);
#pragma HLS ARRAY_PARTITION variable=line.value complete dim=0
        output_beat_t added = 0, beat = 0;
        if (c.has_residual) added = residual.read();
        ap_uint<8> saturations_here = 0;
        for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
            const word_t extra = get_word(added, i);
            const value_t rounded = round_half_even(value_t(line.value[i]) + (value_t(extra) << c.residual_shift), c.shift);
            const word_t low = rounded < value_t(c.lo) ? c.lo : word_t(rounded);
            const word_t word = rounded > value_t(c.hi) ? c.hi : low;
            const bool is_column = int(beats) * OutWords + i < int(c.cols);
            if (is_column && (rounded < -32768 || rounded > 32767)) ++saturations_here;
            if (is_column) set_word(beat, i, word);
        }
        output.write(beat);
        const ap_uint<32> total = saturated + saturations_here;
        saturated = total;

        const bool ends_row = last_beat && (lane || !other_lane);
        if (ends_row && last_row) {
            saturations.write(total);
            busy = false;
        }
        lane = last_beat ? !lane && other_lane : lane;
        if (ends_row) {
            other_lane = other_lane && row != c.last_lane1;
            last_row = row == c.row_before_last;
            ++row;
        }
        const bool next_is_last = last_beat ? c.one_beat : beats == c.beat_before_last;
        beats = last_beat ? count_t(0) : count_t(beats + 1);
        last_beat = next_is_last;
    }
}

#endif
