/// Pools the core's output stream on its way to memory: a max pool of stride 2 over windows of 2 or 3 (ADR 51).
///
/// Pixels come in the order of the image, each `ceil(cols / OutWords)` beats; column tiles go over the pixels
/// of a row block again, as in `fluidnpu_row_walker`. First the columns: the window at hand of every beat of a
/// pixel lies in a small RAM. What ends a window there meets the row of maxima in a larger RAM, and leaves when
/// it ends the window's rows, too. Only those beats leave, in the order of the pooled map. Beats of a layer
/// without a pool pass at once.
module fluidnpu_output_pool #(
  parameter int unsigned BMax = 4,
  parameter int unsigned OutWords = 4,
  parameter int unsigned WordBits = 16,
  parameter int unsigned Windows = 8,  // beats of a pixel, those of all its column tiles
  parameter int unsigned Rows = 64     // beats of a row of the pooled map
) (
  input  logic                         clk_i,            // clock
  input  logic                         rst_ni,           // reset, synchronous
  input  logic                         layer_start_i,    // a layer begins
  input  fluidnpu_formats_pkg::layer_t layer_i,          // that layer
  input  logic                         command_valid_i,  // a command is there
  output logic                         command_ready_o,  // and is taken
  input  fluidnpu_formats_pkg::tile_t  command_i,        // that command
  input  logic                         beat_valid_i,     // a beat of outputs is there
  output logic                         beat_ready_o,     // and is taken
  input  logic [OutWords*WordBits-1:0] beat_i,           // that beat
  output logic                         pooled_valid_o,   // a beat of the pooled map is there
  input  logic                         pooled_ready_i,   // and is taken
  output logic [OutWords*WordBits-1:0] pooled_o          // that beat
);
  localparam int unsigned WindowWidth = Windows > 1 ? $clog2(Windows) : 1;
  localparam int unsigned RowWidth = Rows > 1 ? $clog2(Rows) : 1;
  localparam int unsigned Steps = 4;   // from a beat to the queue of those that leave
  localparam int unsigned Depth = 8;   // of the queue
  localparam int unsigned LevelWidth = $clog2(Depth + 1);

  typedef logic [OutWords*WordBits-1:0] beat_t;

  function automatic beat_t larger(beat_t a, beat_t b);
    for (int unsigned i = 0; i < OutWords; i++)
      larger[i*WordBits+:WordBits] = $signed(a[i*WordBits+:WordBits]) > $signed(b[i*WordBits+:WordBits]) ? a[i*WordBits+:WordBits] : b[i*WordBits+:WordBits];
  endfunction

  // -- the place of the beat at hand
  logic                    pools_q, walks, give, room_q, pixel_ends_q, block_last_q;
  logic [11:0]             cols_q, rest_q;
  logic [WindowWidth-1:0]  beat_q, base_q;  // within the pixel's tile; of the tile's first
  fluidnpu_formats_pkg::steps_t  steps;
  fluidnpu_formats_pkg::pass_t   walk;
  fluidnpu_formats_pkg::walked_t pixel;
  fluidnpu_pkg::pooling_t  place;
  logic [LevelWidth-1:0]   level;

  assign command_ready_o = !walks;
  assign give            = pools_q && walks && beat_valid_i && room_q;

  fluidnpu_row_walker #(.BMax(BMax), .Pools(1'b1), .Pairs(1'b0)) pixels (
    .clk_i, .rst_ni, .layer_start_i,
    .layer_i, .steps_i(steps), .pool_i({layer_i.pool_kernel, layer_i.pool_top, layer_i.pool_left}),
    .pass_valid_i(command_valid_i && !walks), .pass_ready_o(), .pass_i(walk), .row_valid_o(walks),
    .row_ready_i(give && pixel_ends_q), .row_sample_o(), .row_index_o(), .row_o(pixel), .row_lane_o(), .row_pooling_o(place), .row_filtering_o(),
    .row_ends_beat_o(), .row_both_i(1'b0), .other_index_o(), .other_o(), .start_index_o(), .start_offset_o()
  );
  always_comb begin
    steps            = '0;
    steps.step_w     = 32'(layer_i.pool_pitch);
    walk.beats       = command_i.beats;
    walk.lane1_beats = command_i.lane1_beats;
    walk.shift       = 32'(base_q);
    walk.commit      = command_i.block_last;
  end

  // What is on its way must fit as well, and what went in the cycle before. A layer's first beats come later.
  always_ff @(posedge clk_i) begin
    pools_q <= layer_i.pool_kernel != '0;
    room_q  <= rst_ni && 32'(level) + Steps + 2 <= Depth;
  end

  always_ff @(posedge clk_i) begin  // set by a layer and a command before a beat is given, so no reset
    if (give) begin
      beat_q       <= pixel_ends_q ? '0 : beat_q + 1'b1;
      rest_q       <= pixel_ends_q ? cols_q : rest_q - 12'(OutWords);
      pixel_ends_q <= pixel_ends_q ? 32'(cols_q) <= OutWords : 32'(rest_q) <= 2 * OutWords;
      if (pixel_ends_q && pixel.ends_pass) base_q <= block_last_q ? '0 : base_q + beat_q + 1'b1;
    end
    if (command_valid_i && command_ready_o) begin
      beat_q       <= '0;
      rest_q       <= command_i.cols;
      pixel_ends_q <= 32'(command_i.cols) <= OutWords;
    end
    if (layer_start_i) base_q <= '0;
  end
  always_ff @(posedge clk_i) begin  // of a command only, so no reset
    if (command_valid_i && command_ready_o) begin
      cols_q       <= command_i.cols;
      block_last_q <= command_i.block_last;
    end
  end

  // -- a: the beat; b: the columns of its window so far; c: the rows above; d: what leaves
  logic                   a_valid_q, b_valid_q, c_valid_q, d_valid_q;
  beat_t                  a_beat_q, b_beat_q, c_beat_q, d_beat_q, held, columns, above_q, c_above_q, rows;
  logic [WindowWidth-1:0] a_window_q;
  logic [RowWidth-1:0]    a_row_q, b_row_q, c_row_q;
  fluidnpu_pkg::pooling_t a_place_q, b_place_q, c_place_q;
  (* ram_style = "distributed" *) beat_t windows_q [Windows];
  beat_t rows_q [Rows];

  assign held    = windows_q[a_window_q];
  assign columns = a_place_q.fresh_w ? a_beat_q : larger(held, a_beat_q);
  assign rows    = c_place_q.fresh_h ? c_beat_q : larger(c_above_q, c_beat_q);

  always_ff @(posedge clk_i) begin
    a_valid_q <= rst_ni && give;
    b_valid_q <= rst_ni && a_valid_q && a_place_q.ends_w;
    c_valid_q <= rst_ni && b_valid_q;
    d_valid_q <= rst_ni && c_valid_q && c_place_q.ends_h;
  end
  always_ff @(posedge clk_i) begin
    a_beat_q   <= beat_i;
    a_window_q <= base_q + beat_q;
    a_row_q    <= pixel.offset[RowWidth-1:0] + RowWidth'(beat_q);
    a_place_q  <= place;
    if (a_valid_q) windows_q[a_window_q] <= a_place_q.next_w ? a_beat_q : columns;
    b_beat_q   <= columns;
    b_row_q    <= a_row_q;
    b_place_q  <= a_place_q;
    above_q    <= rows_q[a_row_q];
    c_beat_q   <= b_beat_q;
    c_row_q    <= b_row_q;
    c_place_q  <= b_place_q;
    c_above_q  <= above_q;
    if (c_valid_q) rows_q[c_row_q] <= c_place_q.next_h ? c_beat_q : rows;
    d_beat_q   <= rows;
  end

  logic  fits, kept_valid, kept_ready, left_valid;
  beat_t kept, left;
  common_fifo #(.Width(OutWords * WordBits), .Depth(Depth)) queue (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(d_valid_q), .ready_o(fits), .data_i(d_beat_q),
    .valid_o(kept_valid), .ready_i(kept_ready), .data_o(kept), .level_o(level)
  );
  common_skid #(.Width(OutWords * WordBits)) shown (  // who takes them needs them early, and tells late
    .clk_i, .rst_ni, .valid_i(kept_valid), .ready_o(kept_ready), .data_i(kept),
    .valid_o(left_valid), .ready_i(pools_q && pooled_ready_i), .data_o(left)
  );

  assign beat_ready_o   = pools_q ? give : pooled_ready_i;
  assign pooled_valid_o = pools_q ? left_valid : beat_valid_i;
  assign pooled_o       = pools_q ? left : beat_i;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      if (d_valid_q) assert (fits);
      if (give) assert (pixel_ends_q == (32'(rest_q) <= OutWords));
      if (beat_valid_i) assert (pools_q == (layer_i.pool_kernel != '0));
      if (give) assert (rest_q != '0 && 32'(base_q) + 32'(beat_q) < Windows && pixel.offset + 32'(beat_q) < Rows);
      if (a_valid_q && b_valid_q) assert (a_row_q != b_row_q || !a_place_q.ends_w);  // a row of the map lies between
      if (a_valid_q && c_valid_q) assert (a_row_q != c_row_q || !a_place_q.ends_w);
    end
  end
endmodule
