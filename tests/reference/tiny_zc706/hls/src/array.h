// The array of PEs: it takes one input beat a cycle, while the rows of the command before drain.
// One process does both, since no other process may access the accumulators.
#ifndef FLUIDNPU_ARRAY_H
#define FLUIDNPU_ARRAY_H

#include "banks.h"
#include "drain.h"
#include "fill.h"
#include "loader.h"
#include "multiply.h"
#include "pool.h"

#ifdef FLUIDNPU_CSIM
#include "row_watch.h"

// Ends the simulation when a row is read sooner than RowDistance calls after it was written.
static void watch_rows(const fill_t& fill, const drain_t& drain, bool takes, bool gives) {
    static row_watch_t<Halves * BankDepth, RowDistance> sums("sums"), ready("ready");
    const int fill_cells = is_split(fill.command) ? 2 : 1, drain_cells = is_split(drain.command) ? 2 : 1;
    const bool adds = takes && fill.command.gemm;
    if (gives && drain.at.beat == 0) ready.reads(drain.at.row, drain_cells);
    if (adds && !fill.first_tile) sums.reads(fill.row, fill_cells);
    if (adds && !fill.last_tile) sums.writes(fill.row, fill_cells);
    if (takes && fill.last_tile) ready.writes(fill.row, fill_cells);
    sums.call();
    ready.call();
}
#endif

// One call is one cycle. A call decides from flags that the call before left, so that the logic between two
// states is short; only the end of a tile, or of a command, starts the next one in the same call. An empty
// stream is looked at again in the next call.
// Output back-pressure stalls draining, not computing: a credit loop lets LinesAhead beats be in flight.
static void run_array(command_fifo_t& commands, command_fifo_t& to_loader, input_stream_t& input,
                      weight_stream_t& weight, line_fifo_t& lines, credit_fifo_t& credits) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
#pragma HLS LATENCY max=13
    // All banks lie in block RAM.
    static acc_t sums[TC][Halves][BankDepth];
#pragma HLS ARRAY_PARTITION variable=sums complete dim=1
#pragma HLS ARRAY_PARTITION variable=sums complete dim=2
#pragma HLS RESOURCE variable=sums core=RAM_2P_BRAM
#pragma HLS DEPENDENCE variable=sums inter RAW false
    static acc_t ready[Banks][Halves][BankDepth];
#pragma HLS ARRAY_PARTITION variable=ready complete dim=1
#pragma HLS ARRAY_PARTITION variable=ready complete dim=2
#pragma HLS RESOURCE variable=ready core=RAM_2P_BRAM
#pragma HLS DEPENDENCE variable=ready inter RAW false
    static part_t now_weight[TC], next_weight[TC];
#pragma HLS ARRAY_PARTITION variable=now_weight complete dim=1
#pragma HLS ARRAY_PARTITION variable=next_weight complete dim=1
    static acc_t now_bias[MaxCols], next_bias[MaxCols];
#pragma HLS ARRAY_PARTITION variable=now_bias complete dim=1
#pragma HLS ARRAY_PARTITION variable=next_bias complete dim=1
    static acc_t best[InWords];
#pragma HLS ARRAY_PARTITION variable=best complete dim=1
    static acc_t line[LineWords];
#pragma HLS ARRAY_PARTITION variable=line complete dim=1
    static loader_t loader;
    static fill_t fill;
    static drain_t drain;
    static command_t upcoming, following;
    // The state that a reset clears; all other state is set before it is used.
    static bool coming = false;     // `upcoming` is the next command
    static bool busy = false;       // a command is at work
    static bool running = false;    // and a P-tile of weights
    static bool announced = false;  // its rows have their place in the line of commands that drain
    static bool waiting = false;    // `following` drains after `drain.command`
    static bool draining = false;   // rows of `drain.command` are leaving
    static bool room = false;       // the row at hand may be written to `ready`
    static bool loading = false;    // the loader has a command
    static bool loaded = false;     // and the next tile is whole
    static bool has_rows = false;   // `rows` is not 0
    static bool has_room = true;    // `in_flight` is not LinesAhead
    static count_t rows = 0;        // rows of `ready` that can be read and have not left
    static credit_t in_flight = 0;  // beats of them that post-processing has not taken yet
    static ap_uint<RowDistance - 1> written_rows = 0;  // a bit a call: it wrote a row of `ready`
#pragma HLS RESET variable=coming
#pragma HLS RESET variable=busy
#pragma HLS RESET variable=running
#pragma HLS RESET variable=announced
#pragma HLS RESET variable=waiting
#pragma HLS RESET variable=draining
#pragma HLS RESET variable=room
#pragma HLS RESET variable=loading
#pragma HLS RESET variable=loaded
#pragma HLS RESET variable=has_rows
#pragma HLS RESET variable=has_room
#pragma HLS RESET variable=rows
#pragma HLS RESET variable=in_flight
#pragma HLS RESET variable=written_rows

    // The decisions of this call.
    const command_t c = fill.command;
    const bool first_tile = fill.first_tile, last_tile = fill.last_tile;
    const bool wants = (c.gemm ? running && fill.in_rows : busy) && (!last_tile || room);
    const bool takes = wants && !input.empty();
    const bool counts = c.gemm ? takes || (running && !fill.in_rows) : takes && last_tile;
    const bool ends_tile = counts && fill.at_end;
    const bool ends_command = ends_tile && last_tile;
    const bool starts_command = (!busy || ends_command) && coming && (!upcoming.gemm || loaded);
    const bool starts_tile = c.gemm && loaded && busy && (!running || ends_tile) && !ends_command;
    const bool gives = draining && has_rows && has_room;
    const bool given_back = !credits.empty();
    const int address = address_of(c, int(fill.row)), drain_address = address_of(drain.command, int(drain.at.row));
#ifdef FLUIDNPU_CSIM
    watch_rows(fill, drain, takes, gives);
#endif

    // A beat of outputs.
    if (gives) {
        if (drain.at.beat == 0) {
            acc_t row[Banks][Halves];
#pragma HLS ARRAY_PARTITION variable=row complete dim=0
            read_row<0, Banks>(ready, drain_address, row);
            load_line(drain, row, line);
        } else {
            shift_line(drain, line);
        }
        lines.write(first_beat(line));
    }

    // A beat of inputs.
    if (takes) {
        const input_beat_t beat = input.read();
        acc_t before[Banks][Halves], result[Banks][Halves];
        bool written[Banks][Halves];
#pragma HLS ARRAY_PARTITION variable=before complete dim=0
#pragma HLS ARRAY_PARTITION variable=result complete dim=0
#pragma HLS ARRAY_PARTITION variable=written complete dim=0
        for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
            for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
                written[bank][half] = false;
            }
        }
        read_row<0, TC>(sums, address, before);
        if (c.gemm)
            multiply(c, beat, now_weight, now_bias, fill.row, first_tile, before, result, written);
        else
            pool(c, beat, fill.row, first_tile, last_tile, best, result, written);
        if (last_tile) {
            write_row<0, Banks>(ready, address, result, written);
        } else {
            write_row<0, TC>(sums, address, result, written);
        }
    }

    // A beat of weights. The loader halts while a whole tile waits.
    load_weights(loader, loading, loaded, next_weight, next_bias, to_loader, weight);
    if (starts_tile || (starts_command && upcoming.gemm)) {
        take_tile(now_weight, now_bias, next_weight, next_bias);
        loaded = false;
    }

    // The next state of what drains. A command takes its place behind the one whose rows leave.
    const bool announces = !waiting && (starts_command || (busy && !announced));
    // While no row leaves, every place is free, and `drain` is still at an older command.
    const bool passed = address_of(c, int(fill.row) + 1) < drain_address;
    const bool room_for_next = announced && (!waiting || !draining || passed);
    // Each counter is compared before it counts, so that a flag is as old as its counter and no comparison waits
    // for a decision of this call.
    const bool settles = written_rows[RowDistance - 2], leaves = gives && ends_row(drain.at);
    const bool one_row = rows == 1, last_room = in_flight == LinesAhead - 1;
    if (given_back) credits.read();
    if (gives != given_back) {
        has_room = given_back || !last_room;
        in_flight += gives ? 1 : -1;
    }
    if (settles != leaves) {
        has_rows = settles || !one_row;
        rows += settles ? 1 : -1;
    }
    written_rows = (written_rows << 1) | ap_uint<RowDistance - 1>(takes && last_tile);
    if (waiting && !draining) {
        drain.command = following;
        start(drain.at, following);
        draining = true;
        waiting = false;
    }
    if (gives) {
        if (leaves && drain.at.last_row) draining = false;
        step(drain.at, drain.command);
    }
    if (announces) {
        following = starts_command ? upcoming : c;
        waiting = true;
    }

    // The next state of what is at work.
    if (starts_command) {
        start(fill, upcoming);
        busy = true;
        running = upcoming.gemm;
        room = false;
        announced = announces;
        coming = false;
    } else {
        if (ends_command)
            busy = running = false;
        else if (c.gemm)
            running = starts_tile || (running && !ends_tile);
        room = room_for_next;
        announced = announced || announces;
        step(fill, takes, counts, ends_tile);
        if (!coming && !commands.empty()) {
            upcoming = commands.read();
            coming = true;
        }
    }
}

#endif
