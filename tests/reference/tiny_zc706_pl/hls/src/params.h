// Constants of one design; generated, the numbers come from design.rtl_parameters().
#ifndef FLUIDNPU_PARAMS_H
#define FLUIDNPU_PARAMS_H

// Bits of the widest beat. ap_int.h must come after this line; its own limit is 1024.
#define AP_INT_MAX_W 1024

static const int TR = 16;  // rows of an accumulator bank
static const int TP = 4;  // words a PE multiplies in one cycle
static const int TC = 6;  // processing elements
static const int AccBits = 48;  // bits of a stored partial sum
static const int WeightSlots = 2;  // slots of TP words in a weight beat
static const int OutWords = 4;  // words of an output beat and of a residual beat
static const int InWords = 32;  // words of an input beat
static const int Stackable = 1;  // k = 2 and lanes exist
static const int Split = 0;  // k = 1/2 exists
static const int MaxCols = 32;  // most columns of a command
static const int Banks = 32;  // banks of finished rows: one a PE, and one a channel of a pool
static const int Halves = 1;  // independent halves of a bank
static const int BankDepth = 16;  // rows of a half
static const int SumBits = 36;  // bits of the sum of 2 TP products
static const int BiasesPerSlot = 1;  // 48-bit biases in a weight slot
static const int LineWords = 36;  // columns of a row of outputs, in whole beats and one more
static const int LinesAhead = 32;  // beats of a row on their way to post-processing
static const int CreditBits = 6;  // bits of a count of them
static const int RowDistance = 14;  // fewest cycles between writing and reading a row

#endif
