// Modes and fields of a command beat; generated from hls/formats/table.py by hls/views/formats.py.
#ifndef FLUIDNPU_FORMATS_H
#define FLUIDNPU_FORMATS_H

enum mode_e { ModeNormal = 0, ModeWide = 1, ModeLanes = 2, ModeSplit = 3, ModeMaxPool = 4, ModeSumPool = 5 };

const int CoreCommandWireBits = 128;

// What the PE array does.
inline ap_uint<4> core_command_mode(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(3, 0);
}

// Beats of a P-tile, or output rows of a pool.
inline ap_uint<16> core_command_beats(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(19, 4);
}

// Beats whose second lane is valid.
inline ap_uint<16> core_command_lane1_beats(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(35, 20);
}

// P-tiles, or beats of a row of a pool.
inline ap_uint<16> core_command_p_tiles(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(51, 36);
}

// Columns.
inline ap_uint<12> core_command_cols(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(63, 52);
}

// Bits that an accumulator is shifted right.
inline ap_uint<6> core_command_shift(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(69, 64);
}

// Bits that a residual is shifted left.
inline ap_uint<5> core_command_residual_shift(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(74, 70);
}

// Residual beats come with it.
inline bool core_command_has_residual(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat[75];
}

// Last command of a layer.
inline bool core_command_last(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat[76];
}

// Lower clip bound.
inline ap_int<16> core_command_lo(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(92, 77);
}

// Upper clip bound.
inline ap_int<16> core_command_hi(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(108, 93);
}

// Factor of a residual where words are int8; else 0.
inline ap_uint<16> core_command_residual_multiplier(const ap_uint<CoreCommandWireBits>& beat) {
#pragma HLS INLINE
    return beat.range(124, 109);
}

#endif
