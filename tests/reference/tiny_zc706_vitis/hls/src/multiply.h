// The PEs: each is a multiply-add tree TP words wide with an accumulator bank of its own.
#ifndef FLUIDNPU_MULTIPLY_H
#define FLUIDNPU_MULTIPLY_H

#include "command.h"

// The tree of one PE: `lower` is the sum of the first half of its products, `upper` that of the rest.
static void tree(const part_t& x, const part_t& weight, sum_t& lower, sum_t& upper) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    lower = products<0, TP / 2>(x, weight);
    upper = products<TP / 2, TP>(x, weight);
}

// The words of a split tree: both halves multiply the first TP / 2 words of the beat.
static part_t repeat_half(const part_t& low) {
#pragma HLS INLINE
    part_t twice = low;
    for (int i = 0; i < TP / 2; ++i) {
#pragma HLS UNROLL
        set_word(twice, TP / 2 + i, get_word(low, i));
    }
    return twice;
}

// One beat: each working PE adds its products to row `row` of its bank, or starts the row with the bias.
//
//   NORMAL  PE j makes column j from the beat's first TP words
//   WIDE    PEs 2 k and 2 k + 1 add up to column k, from 2 TP words; the even one of the pair stores it
//   LANES   PE 2 k makes column k of lane 0 from the first TP words, PE 2 k + 1 that of lane 1 from the next
//   SPLIT   the halves of PE j's tree make columns 2 j and 2 j + 1, from the first TP / 2 words
static void multiply(const command_t& c, const input_beat_t& beat, const part_t now_weight[TC],
                     const acc_t now_bias[MaxCols], count_t row, bool first_tile, const acc_t before[Banks][Halves],
                     acc_t result[Banks][Halves], bool written[Banks][Halves]) {
#pragma HLS INLINE
    const bool wide = is_wide(c), split = is_split(c), stacked = wide || is_lanes(c);
    const part_t low = get_part(beat, 0);
    const part_t high = Stackable ? get_part(beat, Stackable) : low;  // other beats may have no part 1
    const part_t twice = Split ? repeat_half(low) : low;
    sum_t lower[TC + 1], upper[TC + 1];
#pragma HLS ARRAY_PARTITION variable=lower type=complete dim=1
#pragma HLS ARRAY_PARTITION variable=upper type=complete dim=1
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        if (j < int(c.pes)) {
            const part_t& x = split ? twice : stacked && j % 2 == 1 ? high : low;
            tree(x, now_weight[j], lower[j], upper[j]);
        }
    }
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            if (j < int(c.pes)) {
                sum_t sum = lower[j] + upper[j];
                acc_t bias = stacked ? now_bias[j / 2] : now_bias[j];
                if (wide && j % 2 == 0) sum += lower[j + 1] + upper[j + 1];
                if (split) {
                    bias = now_bias[Split ? 2 * j + half : j];  // another design may have TC columns only
                    sum = half == 0 ? lower[j] : upper[j];
                }
                result[j][half] = (first_tile ? bias : before[j][half]) + sum;
                written[j][half] = !(wide && j % 2 == 1) && (split || int(row) % Halves == half);
            }
        }
    }
}

#endif
