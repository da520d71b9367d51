/// Sizes that the modules of the data plane share; what they pass to one another is in
/// `fluidnpu_formats_pkg`.
package fluidnpu_pkg;
  localparam int unsigned AddrWidth = 40;
  localparam int unsigned MaxSlots = 32;
  localparam int unsigned PieceRows = 256;  // of a bank of the activation unit, in each of its lanes

  // Words of a column's header in the weight image: its bias of 48 bits, or bias, multiplier and shift in 64 (ADR 75).
  function automatic int unsigned header_words(int unsigned word_bits);
    header_words = (word_bits == 8 ? 64 : 48) / word_bits;
  endfunction

  // The max pool that outputs pass on their way to memory; kernel 0: none.
  typedef struct packed {
    logic [1:0] kernel;
    logic       top;   // its first windows reach into a row above the map,
    logic       left;  // into a column left of it
  } pool_t;

  // What a pixel is to the windows of such a pool, along its row (w) and along its column (h).
  typedef struct packed {
    logic fresh_w;  // nothing before it belongs to the window that it ends or goes on with
    logic next_w;   // another window begins with it
    logic ends_w;   // it is the last of a window
    logic fresh_h;
    logic next_h;
    logic ends_h;
  } pooling_t;

  // What a position of a filter's walk is besides (ADR 70).
  typedef struct packed {
    logic first_w;   // in the map's first column
    logic first_h;   // in its first row
    logic beyond_w;  // behind its last column
    logic beyond_h;  // below its last row
    logic last;      // the last window of the layer's samples leaves
  } filtering_t;

  // What the activation unit does with the words of a layer, as its lanes take it.
  typedef struct packed {
    logic        tables;      // looks up; else pieces belong to channels
    logic        multiplies;  // by a residual
    logic        bends;       // passes what is not negative
    logic [2:0]  window;      // a table's p - 8
    logic [6:0]  beyond;      // the bits 14..8 of a word that are its sign's where it lies within the window; none without
    logic [7:0]  bound;       // the upper half of 2**p
    logic [15:0] rest;        // the bits of a word that are a factor: within a segment, or all
    logic [4:0]  shift;
    logic [15:0] lo;
    logic [15:0] hi;
  } unit_t;
endpackage
