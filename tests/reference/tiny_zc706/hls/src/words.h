// Words of a beat; word 0 lies in the lowest bits.
#ifndef FLUIDNPU_WORDS_H
#define FLUIDNPU_WORDS_H

#include "fluidnpu_core.h"

#ifdef FLUIDNPU_CSIM
#include "fast_words.h"  // the same functions, many times faster in simulation; never synthesised
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

// TP words of a beat.
template <int Bits>
static part_t get_part(const ap_uint<Bits>& beat, int index) {
#pragma HLS INLINE
    return beat.range(16 * TP * index + 16 * TP - 1, 16 * TP * index);
}

// The sum of the products of words From to To - 1; 16 by 16 bits take one DSP.
template <int From, int To>
static sum_t products(const part_t& x, const part_t& weight) {
#pragma HLS INLINE
    sum_t sum = 0;
    for (int i = From; i < To; ++i) {
#pragma HLS UNROLL
        const int product = get_word(x, i).to_int() * get_word(weight, i).to_int();
        sum += product;
    }
    return sum;
}

#endif
#endif
