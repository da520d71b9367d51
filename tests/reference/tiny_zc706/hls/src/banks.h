// The accumulators: 8 banks in block RAM.
#ifndef FLUIDNPU_BANKS_H
#define FLUIDNPU_BANKS_H

#include "fluidnpu_core.h"

static acc_t stored(const acc_t acc[Banks][Halves][BankDepth], int bank, int half, int address) {
#pragma HLS INLINE
    return acc[bank][half][address];
}

static void store(acc_t acc[Banks][Halves][BankDepth], int bank, int half, int address, const acc_t& value) {
#pragma HLS INLINE
    acc[bank][half][address] = value;
}

#endif
