// Walks through the outputs of a command in the order in which they leave: rows, their lanes, their beats.
#ifndef FLUIDNPU_OUTPUT_WALK_H
#define FLUIDNPU_OUTPUT_WALK_H

#include "command.h"

struct output_walk_t {
    bool lane;        // at lane 1
    bool other_lane;  // this row has a lane 1
    bool last_row, last_beat;
    count_t row, beat;
};

static void start(output_walk_t& at, const command_t& c) {
#pragma HLS INLINE
    at.lane = false;
    at.other_lane = c.has_lane1;
    at.last_row = c.one_row;
    at.last_beat = c.one_beat;
    at.row = 0;
    at.beat = 0;
}

// True at the last beat of a row, of both lanes where it has two.
static bool ends_row(const output_walk_t& at) {
#pragma HLS INLINE
    return at.last_beat && (at.lane || !at.other_lane);
}

static void step(output_walk_t& at, const command_t& c) {
#pragma HLS INLINE
    const bool last_beat = at.last_beat, last_lane = ends_row(at);
    at.lane = last_beat ? !at.lane && at.other_lane : at.lane;
    if (last_lane) {
        at.other_lane = at.other_lane && at.row != c.last_lane1;
        at.last_row = at.row == c.row_before_last;
        ++at.row;
    }
    at.last_beat = last_beat ? c.one_beat : at.beat == c.beat_before_last;
    at.beat = last_beat ? count_t(0) : count_t(at.beat + 1);
}

#endif
