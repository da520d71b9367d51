// Loads bias headers and weight tiles from the weight stream, one tile ahead of the PE array. Registers only.
#ifndef FLUIDNPU_LOADER_H
#define FLUIDNPU_LOADER_H

#include "command.h"

struct loader_t {
    command_t command;
    bool in_header;  // its weights begin with biases
    bool last_beat;  // of the header or tile at hand
    bool last_tile;
    count_t beat;
    count_t tile;
};

// Each register selects its own word; indexing registers by a variable would infer a wide write multiplexer.
static void store_bias(const weight_beat_t& beat, count_t number, acc_t next_bias[MaxCols]) {
#pragma HLS INLINE
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        const int slot = k / BiasesPerSlot;
        if (number == slot / WeightSlots) {
            const int low = 16 * (slot % WeightSlots * TP + 3 * (k % BiasesPerSlot));
            const ap_int<48> bias = beat.range(low + 47, low);
            next_bias[k] = bias;
        }
    }
}

// With lanes a slot feeds two PEs, one a lane.
static void store_weights(const weight_beat_t& beat, count_t number, bool lanes, part_t next_weight[TC]) {
#pragma HLS INLINE
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        if (number == (lanes ? j / 2 / WeightSlots : j / WeightSlots))
            next_weight[j] = lanes ? get_part(beat, j / 2 % WeightSlots) : get_part(beat, j % WeightSlots);
    }
}

// Loads at most one beat a call and waits for nothing. `loading`: a command has weights to come; `loaded`: a
// whole tile waits to be taken.
static void load_weights(loader_t& loader, bool& loading, bool& loaded, part_t next_weight[TC],
                         acc_t next_bias[MaxCols], command_fifo_t& commands, weight_stream_t& weight) {
#pragma HLS INLINE
    const command_t& c = loader.command;
    if (!loading) {
        if (!commands.empty()) {
            loader.command = commands.read();
            loader.in_header = true;
            loader.last_beat = loader.command.one_header;
            loader.last_tile = loader.command.one_tile;
            loader.beat = 0;
            loader.tile = 0;
            loading = true;
        }
    } else if (!loaded && !weight.empty()) {
        const weight_beat_t beat = weight.read();
        if (loader.in_header)
            store_bias(beat, loader.beat, next_bias);
        else
            store_weights(beat, loader.beat, is_lanes(c), next_weight);
        if (loader.last_beat) {
            if (!loader.in_header) {
                loaded = true;
                loading = !loader.last_tile;
                loader.last_tile = loader.tile == c.tile_before_last;
                ++loader.tile;
            }
            loader.in_header = false;
            loader.last_beat = c.one_part;
            loader.beat = 0;
        } else {
            loader.last_beat = loader.beat == (loader.in_header ? c.header_before_last : c.part_before_last);
            ++loader.beat;
        }
    }
}

// Hands a whole tile, and the biases of its command, to the array.
static void take_tile(part_t now_weight[TC], acc_t now_bias[MaxCols], const part_t next_weight[TC],
                      const acc_t next_bias[MaxCols]) {
#pragma HLS INLINE
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        now_weight[j] = next_weight[j];
    }
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        now_bias[k] = next_bias[k];
    }
}

#endif
