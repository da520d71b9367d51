// The command at work: which P-tile and row, or tap of a pool, the next input beat belongs to.
#ifndef FLUIDNPU_FILL_H
#define FLUIDNPU_FILL_H

#include "command.h"

struct fill_t {
    command_t command;
    bool first_tile, last_tile;  // of P-tiles; of a pool, the taps of a row
    bool in_rows;                // rows of this tile remain; a short tile waits until it may read them again
    bool at_end;                 // this row, or call, is the last of the tile; of a pool, the last row
    count_t tile, row;
};

static void start(fill_t& fill, const command_t& c) {
#pragma HLS INLINE
    fill.command = c;
    fill.first_tile = true;
    fill.last_tile = c.one_tile;
    fill.in_rows = true;
    fill.at_end = c.one_row && (c.one_tile || !c.gemm);
    fill.tile = 0;
    fill.row = 0;
}

// Goes on within a command. `takes`: a beat came; `counts`: a row is done, or a call of a short tile's rest.
static void step(fill_t& fill, bool takes, bool counts, bool ends_tile) {
#pragma HLS INLINE
    const command_t& c = fill.command;
    const bool last_tap = !c.gemm && fill.last_tile, last_tile = fill.last_tile;
    if (c.gemm ? ends_tile : takes) {  // the next tile, or tap
        fill.first_tile = last_tap;
        fill.last_tile = last_tap ? c.one_tile : fill.tile == c.tile_before_last;
        fill.tile = last_tap ? count_t(0) : count_t(fill.tile + 1);
    }
    if (c.gemm && ends_tile) {
        fill.in_rows = true;
        fill.at_end = c.one_row && fill.last_tile;
        fill.row = 0;
    } else if (counts) {
        fill.in_rows = fill.in_rows && fill.row != c.last_row;
        fill.at_end = fill.row == (c.gemm && !last_tile ? c.padded_before_last : c.row_before_last);
        ++fill.row;
    }
}

#endif
