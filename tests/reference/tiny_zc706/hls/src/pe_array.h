// The array of 6 PEs, each a multiply-add tree 4 words wide: one input beat a cycle. Pools run beside it, and the
// sums of the command before leave for post-processing. All of it is one process, since no other may touch the accumulators.
#ifndef FLUIDNPU_PE_ARRAY_H
#define FLUIDNPU_PE_ARRAY_H

#include "banks.h"
#include "loader.h"

#ifdef FLUIDNPU_CSIM
#include "row_watch.h"  // ends the simulation when a row is read sooner than RowDistance calls after it was written
#endif

// The command whose sums are being made.
struct fill_t {
    command_t command;
    count_t tile;  // P-tiles done; of a pool the taps of this row
    count_t row;
};

// The command whose rows leave.
struct drain_t {
    command_t command;
    bool lane;
    count_t row, column;
};

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
static void multiply(const command_t& c, const word_t x[InWords], const tile_t& now, count_t row, bool first_tile,
                     const acc_t before[TC][Halves], acc_t result[Banks][Halves], bool written[Banks][Halves]) {
#pragma HLS INLINE
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
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            if (j < pes) {
                sum_t sum = lower[j] + upper[j];
                int column = stacked ? j / 2 : j;
                if (wide && j % 2 == 0) sum += lower[j + 1] + upper[j + 1];
                result[j][half] = (first_tile ? now.bias[column] : before[j][half]) + sum;
                written[j][half] = true;
                if (wide && j % 2 == 1) written[j][half] = false;
            }
        }
    }
}

// One tap of InWords channels, of a max pool the larger of two: channel by channel the maximum or the sum; the last tap of a row is kept.
static void pool(const command_t& c, const word_t x[InWords], count_t tap, count_t row, acc_t best[InWords], acc_t result[Banks][Halves],
                 bool written[Banks][Halves]) {
#pragma HLS INLINE
    for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
        const word_t word = x[i];
        if (tap == 0)
            best[i] = word;
        else if (c.mode == ModeSumPool)
            best[i] += word;
        else if (acc_t(word) > best[i])
            best[i] = word;
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            result[i][half] = best[i];
            written[i][half] = tap == c.p_tiles - 1;
        }
    }
}

// One row of outputs, column by column; a few beyond the last column so that it shifts by whole beats.
// A column takes one of the few banks that may hold it in some mode.
static void load_line(const drain_t& drain, const acc_t at_row[Banks][Halves], acc_t line[LineWords]) {
#pragma HLS INLINE
    const command_t& c = drain.command;
    const int half = 0;
    for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
        if (k < int(c.cols)) {
            acc_t value = k < Banks ? at_row[k][half] : acc_t(0);
            if ((c.mode == ModeWide || c.mode == ModeLanes) && 2 * k + 1 < Banks)
                value = drain.lane ? at_row[2 * k + 1][half] : at_row[2 * k][half];
            line[k] = value;
        }
    }
}

// The address of a row in a bank.
static int address_of(const command_t& c, count_t row) {
#pragma HLS INLINE
    return int(row);
}

// One call a cycle. It waits for nothing but a full `lines`: what is not there yet is looked for again in the next call.
static void run_array(command_fifo_t& commands, command_fifo_t& to_loader, input_stream_t& input, weight_stream_t& weight, line_fifo_t& lines) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
#pragma HLS LATENCY max=13
    static acc_t sums[TC][Halves][BankDepth];
#pragma HLS ARRAY_PARTITION variable=sums complete dim=1
#pragma HLS ARRAY_PARTITION variable=sums complete dim=2
#pragma HLS RESOURCE variable=sums core=RAM_2P_BRAM
#pragma HLS DEPENDENCE variable=sums inter false
    static acc_t ready[Banks][Halves][BankDepth];
#pragma HLS ARRAY_PARTITION variable=ready complete dim=1
#pragma HLS ARRAY_PARTITION variable=ready complete dim=2
#pragma HLS RESOURCE variable=ready core=RAM_2P_BRAM
#pragma HLS DEPENDENCE variable=ready inter false
    static tile_t now, next;
#pragma HLS ARRAY_PARTITION variable=now.weight complete dim=0
#pragma HLS ARRAY_PARTITION variable=now.bias complete dim=0
#pragma HLS ARRAY_PARTITION variable=next.weight complete dim=0
#pragma HLS ARRAY_PARTITION variable=next.bias complete dim=0
    static acc_t best[InWords];
#pragma HLS ARRAY_PARTITION variable=best complete dim=1
    static acc_t line[LineWords];
#pragma HLS ARRAY_PARTITION variable=line complete dim=1
    static loader_t loader;
    static fill_t fill;
    static drain_t drain;
    static command_t following;
    // What a reset has to clear; all else is set before it is used.
    static bool busy = false;       // a command is at work
    static bool running = false;    // and a P-tile of weights
    static bool announced = false;  // it writes to `ready`, and its rows are to leave
    static bool waiting = false;    // `following` is to leave once `drain.command` has
    static bool draining = false;   // rows of `drain.command` are leaving
    static bool loading = false;    // the loader has a command
    static bool loaded = false;     // and `next` is whole
    static count_t settled = 0;     // rows that can be read in `ready`, counted on and on
    static count_t drained = 0;     // rows that have left
    static ap_uint<RowDistance> written_rows = 0;  // a bit a call: whether a row of `ready` was written in it
#pragma HLS RESET variable=busy
#pragma HLS RESET variable=running
#pragma HLS RESET variable=announced
#pragma HLS RESET variable=waiting
#pragma HLS RESET variable=draining
#pragma HLS RESET variable=loading
#pragma HLS RESET variable=loaded
#pragma HLS RESET variable=settled
#pragma HLS RESET variable=drained
#pragma HLS RESET variable=written_rows

    const command_t c = fill.command;
    const bool gemm = is_gemm(c);
    const bool first_tile = fill.tile == 0, last_tile = fill.tile == c.p_tiles - 1;
    // A row of `ready` may be written once what the command before has there has left.
    const int address = address_of(c, fill.row), drain_address = address_of(drain.command, drain.row);
    const bool room = announced && (!waiting || address < drain_address);
    const bool wants = gemm ? running && fill.row < c.beats && (!last_tile || room) : busy && room;
    const bool takes = wants && !input.empty();
    const bool finishes_row = takes && last_tile;
    settled += written_rows[RowDistance - 1];
    written_rows = (written_rows << 1) | ap_uint<RowDistance>(finishes_row);
    const bool gives = draining && settled != drained && !lines.full();
#ifdef FLUIDNPU_CSIM
    static row_watch_t<Halves * BankDepth, RowDistance> of_sums("sums"), of_ready("ready");
    const int fill_cells = c.mode == ModeSplit ? 2 : 1, drain_cells = drain.command.mode == ModeSplit ? 2 : 1;
    if (gives && drain.column == 0) of_ready.reads(drain.row, drain_cells);
    if (takes && gemm && !first_tile) of_sums.reads(fill.row, fill_cells);
    if (takes && gemm && !last_tile) of_sums.writes(fill.row, fill_cells);
    if (finishes_row) of_ready.writes(fill.row, fill_cells);
    of_sums.call();
    of_ready.call();
#endif

    if (gives) {
        if (drain.column == 0) {
            acc_t at_row[Banks][Halves];
#pragma HLS ARRAY_PARTITION variable=at_row complete dim=0
            for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
                for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
                    at_row[bank][half] = ready_at(ready, bank, half, drain_address);
                }
            }
            load_line(drain, at_row, line);
        } else {
            for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
                if (k < int(drain.command.cols)) line[k] = line[k + OutWords];
            }
        }
        line_beat_t beat;
#pragma HLS ARRAY_PARTITION variable=beat.value complete dim=0
        for (int i = 0; i < OutWords; ++i) {
#pragma HLS UNROLL
            beat.value[i] = line[i];
        }
        lines.write(beat);
        drain.column += OutWords;
        if (drain.column >= drain.command.cols) {
            drain.column = 0;
            drain.lane = !drain.lane && drain.row < drain.command.lane1_beats;
            if (!drain.lane) {
                ++drain.row;
                ++drained;
                draining = drain.row != drain.command.beats;
            }
        }
    }

    if (takes) {
        const input_beat_t beat = input.read();
        word_t x[InWords];
#pragma HLS ARRAY_PARTITION variable=x complete dim=1
        for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
            x[i] = get_word(beat, i);
        }
        acc_t before[TC][Halves], result[Banks][Halves];
        bool written[Banks][Halves];
#pragma HLS ARRAY_PARTITION variable=before complete dim=0
#pragma HLS ARRAY_PARTITION variable=result complete dim=0
#pragma HLS ARRAY_PARTITION variable=written complete dim=0
        for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
            for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
                written[bank][half] = false;
                if (bank < TC) before[bank][half] = sums_at(sums, bank, half, address);
            }
        }
        if (gemm)
            multiply(c, x, now, fill.row, first_tile, before, result, written);
        else
            pool(c, x, fill.tile, fill.row, best, result, written);
        for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
            for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
                if (written[bank][half] && last_tile) ready_put(ready, bank, half, address, result[bank][half]);
                if (bank < TC && written[bank][half] && !last_tile) sums_put(sums, bank, half, address, result[bank][half]);
            }
        }
    }

    // A row comes back one tile later, and all but the last tile take at least RowDistance calls, more than this pipeline is deep.
    if (gemm) {
        if (running) {
            if (takes || fill.row >= c.beats) ++fill.row;
            if (fill.row >= c.beats && (last_tile || fill.row >= RowDistance)) {
                running = false;
                busy = !last_tile;
                ++fill.tile;
            }
        }
    } else if (takes) {
        ++fill.tile;
        if (last_tile) {
            fill.tile = 0;
            ++fill.row;
            busy = fill.row != c.beats;
        }
    }
    if (!busy && !commands.empty()) {
        fill.command = commands.read();
        fill.tile = 0;
        fill.row = 0;
        busy = true;
        announced = false;
    }
    if (busy && !running && loaded && is_gemm(fill.command)) {
        now = next;
        loaded = false;
        running = true;
        fill.row = 0;
    }
    // Rows leave command by command. One that begins its last P-tile, or a pool, takes its place behind that whose rows are leaving.
    const bool in_last_tile = !is_gemm(fill.command) || (running && fill.tile == fill.command.p_tiles - 1);
    if (busy && in_last_tile && !announced && !waiting) {
        following = fill.command;
        announced = true;
        waiting = true;
    }
    if (waiting && !draining) {
        drain.command = following;
        drain.lane = false;
        drain.row = 0;
        drain.column = 0;
        draining = true;
        waiting = false;
    }
    advance(loader, loading, loaded, next, to_loader, weight);
}

#endif
