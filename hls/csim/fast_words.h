// Words of a beat for C simulation: reads and writes the 64-bit limb of a word; `range` shifts the whole beat.
#ifndef FLUIDNPU_CSIM_FAST_WORDS_H
#define FLUIDNPU_CSIM_FAST_WORDS_H

static const int LimbWords = 64 / word_t::width;

template <int Bits>
static inline int word_at(const ap_uint<Bits>& beat, int index) {
    const unsigned long long limb = static_cast<unsigned long long>(beat.V.get_pVal(index / LimbWords));
    return int(static_cast<long long>(limb << (64 - word_t::width * (index % LimbWords + 1))) >> (64 - word_t::width));
}

template <int Bits>
static inline word_t get_word(const ap_uint<Bits>& beat, int index) {
    return word_t(word_at(beat, index));
}

template <int Bits>
static inline void set_word(ap_uint<Bits>& beat, int index, word_t word) {
    const int low = word_t::width * (index % LimbWords);
    const unsigned long long mask = (1ULL << word_t::width) - 1, limb = beat.V.get_pVal(index / LimbWords);
    beat.V.set_pVal(index / LimbWords, (limb & ~(mask << low)) | (word.to_int() & mask) << low);
}

template <int Bits>
static inline part_t get_part(const ap_uint<Bits>& beat, int index) {
    part_t part = 0;
    for (int i = 0; i < TP; ++i) set_word(part, i, get_word(beat, index * TP + i));
    return part;
}

// Of words From to To - 1.
template <int From, int To>
static inline sum_t products(const part_t& x, const part_t& weight) {
    long long sum = 0;
    for (int i = From; i < To; ++i) sum += word_at(x, i) * word_at(weight, i);
    return sum_t(sum);
}

#ifdef FLUIDNPU_PAIRS
// Of Piece words from `first` on with two weights each.
static inline packed_t products(const part_t& x, const part_t& upper, const part_t& lower, int first) {
    long long sum = 0;
    for (int i = first; i < TP && i < first + Piece; ++i)
        sum += (static_cast<long long>(word_at(upper, i)) * (1LL << FieldBits) + word_at(lower, i)) * word_at(x, i);
    return packed_t(sum);
}
#endif

#endif
