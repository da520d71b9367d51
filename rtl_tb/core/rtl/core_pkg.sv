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

  localparam int unsigned FinishBits = 59;
  localparam int unsigned TapBits = 16;  // up to 65535 taps of a pool
  localparam int unsigned MultiplierBits = 17;  // of a channel, with words of 8 bits

  /// A column's header with words of 8 bits.
  typedef struct packed {
    logic [5:0]                shift;
    logic [MultiplierBits-1:0] multiplier;
    logic [31:0]               bias;
  } scaled_bias_t;
  localparam int unsigned ScaledBits = 6 + MultiplierBits + 32;  // of it
  localparam logic [ScaledBits-1:0] PoolBias = ScaledBits'(1) << 32;  // of a pool: multiplied by one

  /// Control of one output beat in post-processing.
  typedef struct packed {
    logic [15:0] hi;
    logic [15:0] lo;
    logic [5:0]  shift;
    logic [4:0]  residual_shift;
    logic [15:0] residual_multiplier;  // with words of 8 bits, instead
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

  /// A beat of weights of a P-tile.
  typedef struct packed {
    logic        valid;
    logic [12:0] beat;  // which of the tile
  } load_t;

  /// A beat of taps on its way to the pool.
  typedef struct packed {
    logic valid;
    logic first;  // of a window
    logic last;   // of a window
  } taps_t;

  /// Rows of the output banks, as they are fetched.
  typedef struct packed {
    logic        valid;    // one is read
    logic [15:0] row;      // which
    logic [15:0] rows;     // so many of its command were fetched before; zero between commands
    logic        command;  // it is the last of its command
  } fetch_t;

  /// An output beat that begins post-processing.
  typedef struct packed {
    logic    valid;
    logic    pool;      // it has no bias
    logic    residual;  // it has a residual
    finish_t finish;
  } issue_t;

  /// Where a sum goes.
  typedef struct packed {
    logic partial;    // to the accumulator bank
    logic final_sum;  // to the output bank
  } store_t;
endpackage
