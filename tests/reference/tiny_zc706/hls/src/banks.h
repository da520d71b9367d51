// The accumulators. `sums` holds what a command's P-tiles have added up so far; the last P-tile writes to `ready`, from where rows leave while the
// next command begins. Each has one reading and one writing port. All banks lie in block RAM.
#ifndef FLUIDNPU_BANKS_H
#define FLUIDNPU_BANKS_H

#include "fluidnpu_core.h"

static acc_t sums_at(const acc_t sums[TC][Halves][BankDepth], int bank, int half, int address) {
#pragma HLS INLINE
    return sums[bank][half][address];
}

static void sums_put(acc_t sums[TC][Halves][BankDepth], int bank, int half, int address, const acc_t& value) {
#pragma HLS INLINE
    sums[bank][half][address] = value;
}

static acc_t ready_at(const acc_t ready[Banks][Halves][BankDepth], int bank, int half, int address) {
#pragma HLS INLINE
    return ready[bank][half][address];
}

static void ready_put(acc_t ready[Banks][Halves][BankDepth], int bank, int half, int address, const acc_t& value) {
#pragma HLS INLINE
    ready[bank][half][address] = value;
}

#endif
