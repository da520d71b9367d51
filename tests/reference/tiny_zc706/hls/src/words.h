// Words of a beat, word 0 in the lowest bits.
#ifndef FLUIDNPU_WORDS_H
#define FLUIDNPU_WORDS_H

#include "fluidnpu_core.h"

#ifdef FLUIDNPU_CSIM
#include "fast_words.h"  // the same two functions, many times faster in simulation; never synthesised
#else

template <int Bits>
static word_t get_word(const ap_uint<Bits>& beat, int index) {
#pragma HLS INLINE
    return beat.range(16 * index + 15, 16 * index);
}

template <int Bits>
static void set_word(ap_uint<Bits>& beat, int index, word_t word) {
#pragma HLS INLINE
    beat.range(16 * index + 15, 16 * index) = word;
}

#endif
#endif
