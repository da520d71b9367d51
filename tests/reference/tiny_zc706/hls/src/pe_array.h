// The array of 6 PEs, each a multiply-add tree 4 words wide: one input beat a cycle. Pools run beside it, and the
// sums of the command before leave for post-processing. All of it is one process, since no other may touch the accumulators.
#ifndef FLUIDNPU_PE_ARRAY_H
#define FLUIDNPU_PE_ARRAY_H

#include "banks.h"
#include "loader.h"

#ifdef FLUIDNPU_CSIM
#include "row_watch.h"  // ends the simulation when a row is read sooner than RowDistance calls after it was written
#endif

// The command whose sums are being made, and where it stands.
struct fill_t {
    command_t command;
    bool first_tile, last_tile;  // of P-tiles; of a pool the taps of a row
    bool in_rows;                // there are rows left of this tile; short tiles go on until their rows may come back
    bool at_end;                 // this row, or call, is the last of the tile; of a pool, the last row
    count_t tile, row;
};

// The command whose rows leave, and where it stands.
struct drain_t {
    command_t command;
    bool lane, other_lane;  // lane 1; and whether this row has one
    bool last_row, last_beat;
    count_t row, beat;
};

// The tree of one PE: `lower` is the sum of the first half of its words, `upper` that of the rest.
static void tree(const part_t& x, const part_t& weight, sum_t& lower, sum_t& upper) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
    lower = products<0, TP / 2>(x, weight);
    upper = products<TP / 2, TP>(x, weight);
}

// One beat: every working PE adds its products to row `row` of its own accumulator bank, or begins it with the bias.
static void multiply(const command_t& c, const input_beat_t& beat, const part_t now_weight[TC], const acc_t now_bias[MaxCols], count_t row,
                     bool first_tile, const acc_t before[TC][Halves], acc_t result[Banks][Halves], bool written[Banks][Halves]) {
#pragma HLS INLINE
    const part_t low = get_part(beat, 0);
    const bool wide = c.mode == ModeWide;
    const bool stacked = wide || c.mode == ModeLanes;
    const part_t high = get_part(beat, 1);
    sum_t lower[TC + 1], upper[TC + 1];
#pragma HLS ARRAY_PARTITION variable=lower complete dim=1
#pragma HLS ARRAY_PARTITION variable=upper complete dim=1
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        if (j < int(c.pes)) {
            const part_t& x = stacked && j % 2 == 1 ? high : low;
            tree(x, now_weight[j], lower[j], upper[j]);
        }
    }
    for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            if (j < int(c.pes)) {
                sum_t sum = lower[j] + upper[j];
                acc_t bias = stacked ? now_bias[j / 2] : now_bias[j];
                if (wide && j % 2 == 0) sum += lower[j + 1] + upper[j + 1];
                result[j][half] = (first_tile ? bias : before[j][half]) + sum;
                written[j][half] = true;
                if (wide && j % 2 == 1) written[j][half] = false;
            }
        }
    }
}

// One tap of InWords channels, of a max pool the larger of two: channel by channel the maximum or the sum; the last tap of a row is kept.
static void pool(const command_t& c, const input_beat_t& beat, count_t row, bool first_tap, bool last_tap, acc_t best[InWords],
                 acc_t result[Banks][Halves], bool written[Banks][Halves]) {
#pragma HLS INLINE
    for (int i = 0; i < InWords; ++i) {
#pragma HLS UNROLL
        const word_t word = get_word(beat, i);
        if (first_tap)
            best[i] = word;
        else if (c.mode == ModeSumPool)
            best[i] += word;
        else if (acc_t(word) > best[i])
            best[i] = word;
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            result[i][half] = best[i];
            written[i][half] = last_tap;
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
static int address_of(const command_t& c, int row) {
#pragma HLS INLINE
    return row;
}

// One call a cycle; what is not there yet is looked for again in the next call. Decisions are made from what the call before left, so that there is
// little between one state and the next; only the end of a tile, or of a command, hands over to the next in the same call.
// Outputs that wait for memory halt what leaves, and not what is at work: so many beats may be on their way to post-processing, which gives each back.
static void run_array(command_fifo_t& commands, command_fifo_t& to_loader, input_stream_t& input, weight_stream_t& weight, line_fifo_t& lines,
                      credit_fifo_t& credits) {
#pragma HLS INLINE off
#pragma HLS PIPELINE II=1
#pragma HLS LATENCY max=13
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
    // What a reset has to clear; all else is set before it is used.
    static bool coming = false;     // `upcoming` is the next command
    static bool busy = false;       // a command is at work
    static bool running = false;    // and a P-tile of weights
    static bool announced = false;  // its rows are to leave
    static bool waiting = false;    // `following` is to leave once `drain.command` has
    static bool draining = false;   // rows of `drain.command` are leaving
    static bool room = false;       // the row at hand may be written to `ready`
    static bool loading = false;    // the loader has a command
    static bool loaded = false;     // and the next tile is whole
    static count_t settled = 0;     // rows that can be read in `ready`, counted on and on
    static count_t drained = 0;     // rows that have left
    static count_t on_the_way = 0;  // beats of them that post-processing has not taken yet
    static ap_uint<RowDistance - 1> written_rows = 0;  // a bit a call: whether a row of `ready` was written in it
#pragma HLS RESET variable=coming
#pragma HLS RESET variable=busy
#pragma HLS RESET variable=running
#pragma HLS RESET variable=announced
#pragma HLS RESET variable=waiting
#pragma HLS RESET variable=draining
#pragma HLS RESET variable=room
#pragma HLS RESET variable=loading
#pragma HLS RESET variable=loaded
#pragma HLS RESET variable=settled
#pragma HLS RESET variable=drained
#pragma HLS RESET variable=on_the_way
#pragma HLS RESET variable=written_rows

    // What this call does.
    const command_t c = fill.command;
    const bool first_tile = fill.first_tile, last_tile = fill.last_tile;
    const bool wants = c.gemm ? running && fill.in_rows && (!last_tile || room) : busy && room;
    const bool takes = wants && !input.empty();
    const bool counts = c.gemm ? takes || (running && !fill.in_rows) : takes && last_tile;  // a row, or a call of a short tile's rest
    const bool ends_tile = counts && fill.at_end;
    const bool ends_command = ends_tile && last_tile;
    const bool starts_command = (!busy || ends_command) && coming && (!upcoming.gemm || loaded);
    const bool starts_tile = c.gemm && loaded && busy && (!running || ends_tile) && !ends_command;
    const bool gives = draining && settled != drained && on_the_way != LinesAhead;
    const bool given_back = !credits.empty();

    const int address = address_of(c, int(fill.row)), drain_address = address_of(drain.command, int(drain.row));
    const bool writes_row = takes && last_tile;
#ifdef FLUIDNPU_CSIM
    static row_watch_t<Halves * BankDepth, RowDistance> of_sums("sums"), of_ready("ready");
    const int fill_cells = c.mode == ModeSplit ? 2 : 1, drain_cells = drain.command.mode == ModeSplit ? 2 : 1;
    if (gives && drain.beat == 0) of_ready.reads(drain.row, drain_cells);
    if (takes && c.gemm && !first_tile) of_sums.reads(fill.row, fill_cells);
    if (takes && c.gemm && !last_tile) of_sums.writes(fill.row, fill_cells);
    if (writes_row) of_ready.writes(fill.row, fill_cells);
    of_sums.call();
    of_ready.call();
#endif

    // Rows that leave.
    if (gives) {
        if (drain.beat == 0) {
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
    }

    // A beat of inputs.
    if (takes) {
        const input_beat_t beat = input.read();
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
        if (c.gemm)
            multiply(c, beat, now_weight, now_bias, fill.row, first_tile, before, result, written);
        else
            pool(c, beat, fill.row, first_tile, last_tile, best, result, written);
        for (int bank = 0; bank < Banks; ++bank) {
#pragma HLS UNROLL
            for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
                if (written[bank][half] && last_tile) ready_put(ready, bank, half, address, result[bank][half]);
                if (bank < TC && written[bank][half] && !last_tile) sums_put(sums, bank, half, address, result[bank][half]);
            }
        }
    }

    // Weights: the loader halts while a tile waits to be taken.
    advance(loader, loading, loaded, next_weight, next_bias, to_loader, weight);
    if (starts_tile || (starts_command && upcoming.gemm)) {
        for (int j = 0; j < TC; ++j) {
#pragma HLS UNROLL
            now_weight[j] = next_weight[j];
        }
        for (int k = 0; k < MaxCols; ++k) {
#pragma HLS UNROLL
            now_bias[k] = next_bias[k];
        }
        loaded = false;
    }

    // From here on the next call's state. First what leaves.
    const bool announces = !waiting && (starts_command || (busy && !announced));  // takes its place behind the command whose rows leave
    const bool room_for_next = announced && (!waiting || address_of(c, int(fill.row) + 1) < drain_address);
    if (given_back) credits.read();
    if (gives != given_back) on_the_way += gives ? 1 : -1;
    settled += written_rows[RowDistance - 2];
    written_rows = (written_rows << 1) | ap_uint<RowDistance - 1>(writes_row);
    if (waiting && !draining) {
        drain.command = following;
        drain.lane = false;
        drain.other_lane = following.has_lane1;
        drain.last_row = following.one_row;
        drain.last_beat = following.one_beat;
        drain.row = 0;
        drain.beat = 0;
        draining = true;
        waiting = false;
    }
    if (gives) {
        const bool last_beat = drain.last_beat;
        drain.last_beat = last_beat ? drain.command.one_beat : drain.beat == drain.command.beat_before_last;
        drain.beat = last_beat ? count_t(0) : count_t(drain.beat + 1);
        if (last_beat && !drain.lane && drain.other_lane) {
            drain.lane = true;
        } else if (last_beat) {
            if (drain.last_row) draining = false;
            drain.lane = false;
            drain.other_lane = drain.other_lane && drain.row != drain.command.last_lane1;
            drain.last_row = drain.row == drain.command.row_before_last;
            ++drain.row;
            ++drained;
        }
    }

    if (announces) {
        following = starts_command ? upcoming : c;
        waiting = true;
    }

    // Then what is at work.
    if (starts_command) {
        fill.command = upcoming;
        fill.first_tile = true;
        fill.last_tile = upcoming.one_tile;
        fill.in_rows = true;
        fill.at_end = upcoming.one_row && (upcoming.one_tile || !upcoming.gemm);
        fill.tile = 0;
        fill.row = 0;
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
        if (c.gemm ? ends_tile : takes) {  // the next tile, or tap
            fill.first_tile = !c.gemm && last_tile;
            fill.last_tile = (!c.gemm && last_tile) ? c.one_tile : fill.tile == c.tile_before_last;
            fill.tile = (!c.gemm && last_tile) ? count_t(0) : count_t(fill.tile + 1);
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
        if (!coming && !commands.empty()) {
            upcoming = commands.read();
            coming = true;
        }
    }
}

#endif
