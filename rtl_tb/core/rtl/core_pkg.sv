/// The command of ADR 4 as the core takes it apart, and the bundle that travels down the array beside the data.
package core_pkg;
  localparam logic [3:0] ModeNormal = 4'd0;
  localparam logic [3:0] ModeWide = 4'd1;
  localparam logic [3:0] ModeLanes = 4'd2;
  localparam logic [3:0] ModeSplit = 4'd3;
  localparam logic [3:0] ModeMaxPool = 4'd4;
  localparam logic [3:0] ModeSumPool = 4'd5;

  // Forms of `core_mac`, and where its sum begins.
  localparam int unsigned CellsInferred = 0;
  localparam int unsigned CellsDsp48e1 = 1;
  localparam int unsigned CellsDsp48e2 = 2;
  localparam int unsigned HeadCascade = 0;
  localparam int unsigned HeadRegister = 1;
  localparam int unsigned HeadDirect = 2;

  localparam int unsigned CommandBits = 128;
  localparam int unsigned CommandUsedBits = 109;
  localparam int unsigned FinishBits = 43;
  localparam int unsigned PoolBits = 32;  // up to 65535 taps of int16

  typedef struct packed {
    logic [15:0] hi;
    logic [15:0] lo;
    logic        last;
    logic        has_residual;
    logic [4:0]  residual_shift;
    logic [5:0]  shift;
    logic [11:0] cols;
    logic [15:0] p_tiles;
    logic [15:0] lane1_beats;
    logic [15:0] beats;
    logic [3:0]  mode;
  } command_t;

  /// What post-processing needs to know of one output beat.
  typedef struct packed {
    logic [15:0] hi;
    logic [15:0] lo;
    logic [5:0]  shift;
    logic [4:0]  residual_shift;
  } finish_t;

  /// One beat on its way through the array: which bank it ends in and how. All zero when there is none.
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
