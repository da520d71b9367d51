// The accumulators. `sums` holds partial sums; the last P-tile of a command writes finished rows to `ready`,
// from where they drain while the next command starts. Each has one read port and one write port.
#ifndef FLUIDNPU_BANKS_H
#define FLUIDNPU_BANKS_H

#include "command.h"

// The address of a row in its bank: split trees use both halves of a bank for a row, else rows alternate.
static int address_of(const command_t& c, int row) {
#pragma HLS INLINE
    return is_split(c) ? row : row / Halves;
}

// Reads one row from a memory that holds banks First to First + Count - 1.
template <int First, int Count>
static void read_row(const acc_t memory[Count][Halves][BankDepth], int address, acc_t row[Banks][Halves]) {
#pragma HLS INLINE
    for (int bank = 0; bank < Count; ++bank) {
#pragma HLS UNROLL
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            row[First + bank][half] = memory[bank][half][address];
        }
    }
}

// Writes one row to a memory that holds banks First to First + Count - 1, where `written` says so.
template <int First, int Count>
static void write_row(acc_t memory[Count][Halves][BankDepth], int address, const acc_t row[Banks][Halves],
                      const bool written[Banks][Halves]) {
#pragma HLS INLINE
    for (int bank = 0; bank < Count; ++bank) {
#pragma HLS UNROLL
        for (int half = 0; half < Halves; ++half) {
#pragma HLS UNROLL
            if (written[First + bank][half]) memory[bank][half][address] = row[First + bank][half];
        }
    }
}

#endif
