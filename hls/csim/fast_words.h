// Words of a beat for C simulation: reads and writes the 64-bit limb that holds a word, where `range` would shift the whole beat.
#ifndef FLUIDNPU_CSIM_FAST_WORDS_H
#define FLUIDNPU_CSIM_FAST_WORDS_H

template <int Bits>
static inline word_t get_word(const ap_uint<Bits>& beat, int index) {
    return word_t(short(static_cast<unsigned long long>(beat.V.get_pVal(index / 4)) >> 16 * (index % 4)));
}

template <int Bits>
static inline void set_word(ap_uint<Bits>& beat, int index, word_t word) {
    const int low = 16 * (index % 4);
    const unsigned long long rest = static_cast<unsigned long long>(beat.V.get_pVal(index / 4)) & ~(0xFFFFULL << low);
    beat.V.set_pVal(index / 4, rest | static_cast<unsigned long long>(word.to_int() & 0xFFFF) << low);
}

#endif
