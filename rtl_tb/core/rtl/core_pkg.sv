/// Constants of the core, and the bundles that travel beside its data; its command is in
/// `fluidnpu_formats_pkg`.
package core_pkg;
  // Forms of `core_mac`, and where its sum begins.
  localparam int unsigned CellsInferred = 0;
  localparam int unsigned CellsDsp48e1 = 1;
  localparam int unsigned CellsDsp48e2 = 2;
  localparam int unsigned HeadCascade = 0;
  localparam int unsigned HeadRegister = 1;
  localparam int unsigned HeadDirect = 2;

  localparam int unsigned FinishBits = 43;
  localparam int unsigned PoolBits = 32;  // up to 65535 taps of int16

  /// Control of one output beat in post-processing.
  typedef struct packed {
    logic [15:0] hi;
    logic [15:0] lo;
    logic [5:0]  shift;
    logic [4:0]  residual_shift;
  } finish_t;

  /// Control of one beat on its way through the array: the bank it ends in, and how. All zero without a beat.
  typedef struct packed {
    logic        swap;     // first beat of a P-tile: the loaded weights become the active ones
    logic        zero;     // first P-tile: sums start from nothing
    logic        partial;  // goes to the accumulator bank
    logic        final_sum;  // last P-tile: goes to the output bank
    logic        wide;
    logic        split;
    logic        upper;    // Split designs: the row lies in the upper half bank
    logic [15:0] row;
  } beat_t;
endpackage
