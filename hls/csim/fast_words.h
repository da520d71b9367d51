// Words of a beat for C simulation: reads and writes the 64-bit limb of a word; `range` shifts the whole beat.
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

template <int Bits>
static inline part_t get_part(const ap_uint<Bits>& beat, int index) {
    part_t part = 0;
    for (int i = 0; i < TP; ++i) set_word(part, i, get_word(beat, index * TP + i));
    return part;
}

template <int From, int To>
static inline sum_t products(const part_t& x, const part_t& weight) {
    long long sum = 0;
    for (int i = From; i < To; ++i) {
        const unsigned long long a = static_cast<unsigned long long>(x.V.get_pVal(i / 4)) >> 16 * (i % 4);
        const unsigned long long b = static_cast<unsigned long long>(weight.V.get_pVal(i / 4)) >> 16 * (i % 4);
        sum += int(short(a)) * int(short(b));
    }
    return sum_t(sum);
}

#endif
