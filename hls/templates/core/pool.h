// Pools: the maximum or the sum of each channel, beside the PEs.
#ifndef FLUIDNPU_POOL_H
#define FLUIDNPU_POOL_H

#include "command.h"

// One tap of InWords channels; the last tap of a row is stored. A max pool keeps the larger word in `best`.
static void pool(const command_t& c, const input_beat_t& beat, count_t row, bool first_tap, bool last_tap,
                 acc_t best[InWords], acc_t result[Banks][Halves], bool written[Banks][Halves]) {
#pragma HLS INLINE
    for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
        const word_t word = get_word(beat, i);
        if (first_tap)
            best[i] = word;
        else if (c.mode == ModeSumPool)
            best[i] += word;
        else if (acc_t(word) > best[i])
            best[i] = word;
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            result[i][half] = best[i];
            written[i][half] = last_tap && int(row) % Halves == half;
        }
    }
}

#endif
