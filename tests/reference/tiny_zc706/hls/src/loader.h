// Takes bias headers and weight tiles off the weight stream, one tile ahead of the PE array. Registers only.
#ifndef FLUIDNPU_LOADER_H
#define FLUIDNPU_LOADER_H

#include "command.h"

// What the array works with, or the next of it: one P-tile of weights and the biases of its column tile.
struct tile_t {
    word_t weight[TC][TP];
    acc_t bias[MaxCols];
};

struct loader_t {
    command_t command;
    bool in_header;  // its weights begin with biases
    count_t slot;    // of the header or tile at hand
    count_t tile;    // tiles loaded
};

static void store_bias(const weight_beat_t& beat, count_t first_slot, tile_t& next) {
#pragma HLS INLINE
    for (int s = 0; s < WeightSlots; ++s) {
#pragma HLS UNROLL
        for (int b = 0; b < BiasesPerSlot; ++b) {
#pragma HLS UNROLL
            const int low = 16 * (s * TP + 3 * b);
            const int column = (int(first_slot) + s) * BiasesPerSlot + b;
            const ap_int<48> bias = beat.range(low + 47, low);
            if (column < MaxCols) next.bias[column] = bias;
        }
    }
}

static void store_weights(const weight_beat_t& beat, count_t first_slot, bool twice, tile_t& next) {
#pragma HLS INLINE
    for (int s = 0; s < WeightSlots; ++s) {
#pragma HLS UNROLL
        const int slot = int(first_slot) + s;
        for (int i = 0; i < TP; ++i) {
#pragma HLS UNROLL
            const word_t word = get_word(beat, s * TP + i);
            if (twice) {
                if (2 * slot + 1 < TC) next.weight[2 * slot][i] = next.weight[2 * slot + 1][i] = word;
            } else if (slot < TC) {
                next.weight[slot][i] = word;
            }
        }
    }
}

// At most one beat a call; waits for nothing. `loading`: a command still has weights to come; `loaded`: a whole tile waits to be taken.
static void advance(loader_t& loader, bool& loading, bool& loaded, tile_t& next, command_fifo_t& commands, weight_stream_t& weight) {
#pragma HLS INLINE
    if (!loading) {
        if (!loaded && !commands.empty()) {
            loader.command = commands.read();
            loading = true;
            loader.in_header = true;
            loader.slot = 0;
            loader.tile = 0;
        }
    } else if (!loaded && !weight.empty()) {
        const weight_beat_t beat = weight.read();
        const count_t first_slot = loader.slot;
        loader.slot += WeightSlots;
        if (loader.in_header) {
            store_bias(beat, first_slot, next);
            if (int(loader.slot) * BiasesPerSlot >= int(loader.command.cols)) {
                loader.in_header = false;
                loader.slot = 0;
            }
        } else {
            store_weights(beat, first_slot, loader.command.mode == ModeLanes, next);
            if (loader.slot >= tile_slots(loader.command)) {
                loaded = true;
                loader.slot = 0;
                ++loader.tile;
                loading = loader.tile != loader.command.p_tiles;
            }
        }
    }
}

#endif
