/// Types that the modules of the data plane pass to one another. Offsets, steps and shifts are bytes.
package fluidnpu_pkg;
  localparam int unsigned AddrWidth = 40;
  localparam int unsigned MaxSlots = 32;

  localparam logic [3:0] ModeNormal = 4'd0;
  localparam logic [3:0] ModeWide = 4'd1;
  localparam logic [3:0] ModeLanes = 4'd2;
  localparam logic [3:0] ModeSplit = 4'd3;
  localparam logic [3:0] ModeMaxPool = 4'd4;
  localparam logic [3:0] ModeSumPool = 4'd5;

  /// A layer as it runs: fields of its descriptor, the plan of the FBCB, and what follows from both.
  typedef struct packed {
    logic        pool;
    logic [3:0]  mode;
    logic        row_lanes;     // neighbouring rows share a beat
    logic        sample_lanes;  // samples i and i + b_r share a beat
    logic [4:0]  b_r;
    logic [15:0] block;         // largest number of beats of a row block
    logic        has_residual;
    logic [5:0]  shift;
    logic [4:0]  residual_shift;
    logic [15:0] lo;
    logic [15:0] hi;
    logic [7:0]  kernel_h;
    logic [7:0]  kernel_w;
    logic [15:0] out_h;
    logic [15:0] out_w;
    logic [15:0] group_words;
    logic [15:0] groups;
    logic [15:0] columns;
    logic [31:0] in_offset;
    logic [31:0] out_offset;
    logic [31:0] out_row;
    logic [31:0] out_pixel;
    logic [31:0] residual_offset;
    logic [31:0] residual_row;
    logic [31:0] residual_pixel;
    logic [31:0] step_w;        // bytes between windows side by side
    logic [31:0] tap_w;         // bytes between taps side by side
    // Input rows: those that windows touch, and their places in the input buffer. There all distances are bytes of the buffer.
    logic [31:0] row_bytes;     // of a row, from its first window's first word to its last window's last
    logic [31:0] row_step;      // in memory
    logic [23:0] sample_rows;   // rows of a sample
    logic [23:0] rise;          // rows from a window to the one below
    logic [23:0] span;          // rows of a window
    logic [31:0] pitch;         // from row to row
    logic [31:0] sample_pitch;  // from sample to sample
    logic [31:0] step_h;        // from a window to the one below
    logic [31:0] tap_h;         // from a tap to the one below
    logic        contiguous;    // a kernel row is one run of words
    logic [23:0] run_words;     // words of a run: a kernel row or a tap
    logic [15:0] p_tiles;
    logic [31:0] beats0;        // rows of lane 0 in the whole layer
    logic [31:0] beats1;        // rows of lane 1
    logic [31:0] weights;       // offset in the weight image
    logic [31:0] block_words;   // words of weight stream of one row block
  } layer_t;

  /// One command: a row block and a column tile of a group.
  typedef struct packed {
    logic [15:0] beats;
    logic [15:0] lane1_beats;
    logic [11:0] cols;
    logic [31:0] in_shift;
    logic [31:0] out_shift;
    logic        block_first;
    logic        block_last;
    logic        layer_last;
  } command_t;
endpackage
