// The array of 6 PEs, each a multiply-add tree 4 words wide: one input beat a cycle. Pools run beside it.
#ifndef FLUIDNPU_PE_ARRAY_H
#define FLUIDNPU_PE_ARRAY_H

#include "banks.h"
#include "loader.h"

// The tree of one PE. `lower` adds the products of the first half of its words, `upper` those of the rest.
static void tree(const word_t x[InWords], int side, const word_t weight[TP], sum_t& lower, sum_t& upper) {
#pragma HLS INLINE
    lower = 0;
    upper = 0;
    for (int i = 0; i < TP; ++i) {
#pragma HLS UNROLL
        const word_t word = x[side + i];
        const int product = word.to_int() * weight[i].to_int();  // 16 by 16 bits: one DSP; an int holds it
        if (i < TP / 2)
            lower += product;
        else
            upper += product;
    }
}

// One beat: every working PE adds its products to row `row` of its own accumulator bank, or begins it with the bias.
static void multiply(const command_t& c, const input_beat_t& beat, const tile_t& now, count_t row, bool first_tile,
                     acc_t acc[Banks][Halves][BankDepth]) {
#pragma HLS INLINE
    word_t x[InWords];
#pragma HLS ARRAY_PARTITION variable=x complete dim=1
    for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
        x[i] = get_word(beat, i);
    }
    const int pes = int(working_pes(c));
    const bool wide = c.mode == ModeWide;
    const bool stacked = wide || c.mode == ModeLanes;
    sum_t lower[TC + 1], upper[TC + 1];
#pragma HLS ARRAY_PARTITION variable=lower complete dim=1
#pragma HLS ARRAY_PARTITION variable=upper complete dim=1
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        const int side = (stacked && j % 2 == 1) ? TP : 0;
        if (j < pes) tree(x, side, now.weight[j], lower[j], upper[j]);
    }
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        if (j < pes) {
            const int address = int(row);
            const int half = 0;
            int column = stacked ? j / 2 : j;
            sum_t sum = lower[j] + upper[j];
            const acc_t before = first_tile ? now.bias[column] : stored(acc, j, half, address);
            if (wide && j % 2 == 0) sum += lower[j + 1] + upper[j + 1];
            if (!(wide && j % 2 == 1)) store(acc, j, half, address, before + sum);
        }
    }
}

static void gemm(const command_t& c, command_fifo_t& to_loader, input_stream_t& input, weight_stream_t& weight,
                 acc_t acc[Banks][Halves][BankDepth]) {
    static loader_t loader;
    static tile_t now, next;
#pragma HLS ARRAY_PARTITION variable=now.weight complete dim=0
#pragma HLS ARRAY_PARTITION variable=now.bias complete dim=0
#pragma HLS ARRAY_PARTITION variable=next.weight complete dim=0
#pragma HLS ARRAY_PARTITION variable=next.bias complete dim=0
    count_t tile = 0, row = 0;
    bool running = false;
    while (tile != c.p_tiles) {
#pragma HLS PIPELINE II=1
// A row comes back one tile later, and a tile takes at least RowDistance cycles, more than this pipeline is deep.
#pragma HLS DEPENDENCE variable=acc inter false
        if (running) {
            if (row < c.beats) multiply(c, input.read(), now, row, tile == 0, acc);
            ++row;
            if (row >= c.beats && row >= RowDistance) {
                running = false;
                ++tile;
            }
        }
        if (!running && tile != c.p_tiles && loader.full) {
            now = next;
            loader.full = false;
            running = true;
            row = 0;
        }
        advance(loader, next, to_loader, weight);
    }
}

// Channel by channel the maximum or the sum of `p_tiles` beats; a beat holds one tap of InWords channels, of a max pool the larger of two.
static void pool(const command_t& c, input_stream_t& input, acc_t acc[Banks][Halves][BankDepth]) {
    acc_t best[InWords];
#pragma HLS ARRAY_PARTITION variable=best complete dim=1
    count_t row = 0, tap = 0;
    while (row != c.beats) {
#pragma HLS PIPELINE II=1
#pragma HLS DEPENDENCE variable=acc inter false
        const input_beat_t beat = input.read();
        const bool last_tap = tap == c.p_tiles - 1;
        for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
            const word_t word = get_word(beat, i);
            if (tap == 0)
                best[i] = word;
            else if (c.mode == ModeSumPool)
                best[i] += word;
            else if (acc_t(word) > best[i])
                best[i] = word;
            if (last_tap) store(acc, i, 0, int(row), best[i]);
        }
        if (last_tap) {
            tap = 0;
            ++row;
        } else {
            ++tap;
        }
    }
}

static void run_array(command_fifo_t& commands, command_fifo_t& to_loader, input_stream_t& input, weight_stream_t& weight,
                      acc_t acc[Banks][Halves][BankDepth]) {
    const command_t c = commands.read();
    if (is_gemm(c))
        gemm(c, to_loader, input, weight, acc);
    else
        pool(c, input, acc);
}

#endif
