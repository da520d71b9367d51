// Types and top function of the core; the streams are those of docs/adr/0004-core-streams.md.
#ifndef FLUIDNPU_CORE_H
#define FLUIDNPU_CORE_H

#include "params.h"  // first: ap_int.h reads AP_INT_MAX_W

#include <ap_int.h>
#include <hls_stream.h>

#include "formats.h"

typedef ap_int<16> word_t;
typedef ap_int<SumBits> sum_t;  // an adder tree, or those of a pair of PEs
typedef ap_int<AccBits> acc_t;  // a stored partial sum
typedef ap_int<50> value_t;     // an accumulator and a residual shifted by at most 31 bits
typedef ap_uint<16> count_t;
typedef ap_uint<CreditBits> credit_t;

typedef ap_uint<CoreCommandWireBits> command_beat_t;
typedef ap_uint<16 * InWords> input_beat_t;
typedef ap_uint<16 * TP * WeightSlots> weight_beat_t;
typedef ap_uint<16 * TP> part_t;  // words that a PE multiplies at a time
typedef ap_uint<16 * OutWords> output_beat_t;

typedef hls::stream<command_beat_t> command_stream_t;
typedef hls::stream<input_beat_t> input_stream_t;
typedef hls::stream<weight_beat_t> weight_stream_t;
typedef hls::stream<output_beat_t> output_stream_t;
typedef hls::stream<ap_uint<32> > count_stream_t;

// One decoded command. Numbers derived from it travel along, so that no process computes them in the cycle
// that needs them: each counter is compared with a number of its own, one or two before the end, which keeps
// the comparison off the path from one cycle to the next.
struct command_t {
    ap_uint<4> mode;
    count_t beats;
    count_t p_tiles;
    ap_uint<12> cols;
    ap_uint<6> shift;
    ap_uint<5> residual_shift;
    bool has_residual;
    word_t lo;
    word_t hi;

    bool gemm;
    ap_uint<13> pes;                              // at work
    bool one_row, one_tile;                       // one beat, one P-tile
    count_t last_row;                             // beats - 1
    count_t row_before_last;                      // beats - 2
    count_t padded_before_last;                   // of a tile of at least RowDistance rows
    count_t tile_before_last;                     // p_tiles - 2
    bool one_beat;                                // a row is one beat of outputs
    count_t beat_before_last;                     // of a row
    bool has_lane1;
    count_t last_lane1;                           // the last row with a second lane
    bool one_header, one_part;                    // the biases, and a tile of weights, are one beat
    count_t header_before_last, part_before_last;
};

typedef hls::stream<command_t> command_fifo_t;

// Sums of OutWords columns on their way to post-processing.
struct line_beat_t {
    acc_t value[OutWords];
};

typedef hls::stream<line_beat_t> line_fifo_t;
typedef hls::stream<bool> credit_fifo_t;

// One call is one cycle. `saturations` has one beat a command: its outputs outside int16 before the clamp.
void fluidnpu_core(command_stream_t& cmd, input_stream_t& input, weight_stream_t& weight, output_stream_t& residual,
                   output_stream_t& output, count_stream_t& saturations);

#endif
