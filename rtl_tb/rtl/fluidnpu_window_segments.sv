/// Forms Toeplitz rows on the fly: cuts the beats of the core's input stream into segments, each one run of words in the input buffer.
///
/// A GEMM is walked P-tile by P-tile, all rows of the block each time; a tile goes on in the window where the one before
/// ended, so tiles straddle taps and kernel rows. A pool is walked row by row, one beat a tap. Words that no segment covers
/// are zero: tails need no segment. One segment a cycle. Distances are those of the input buffer (`fluidnpu_pkg::layer_t`).
module fluidnpu_window_segments #(
  parameter int unsigned TP = 4,
  parameter int unsigned BMax = 4,
  parameter int unsigned LineWords = 16,
  parameter int unsigned PortBytes = 16,
  localparam int unsigned CountWidth = $clog2(2 * TP + 1),
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                                         clk_i,
  input  logic                                         rst_ni,
  input  logic                                         layer_start_i,
  input  logic [BMax-1:0][31:0]                        base_i,  // of each sample of a lane in the input buffer
  input  fluidnpu_pkg::layer_t                         layer_i,
  input  logic                                         command_valid_i,
  output logic                                         command_ready_o,
  input  fluidnpu_pkg::command_t                       command_i,
  output logic                                         segment_valid_o,
  input  logic                                         segment_ready_i,
  output logic [31:0]                                  segment_addr_o,   // in the lane's part of the buffer, which repeats itself
  output logic                                         segment_lane_o,
  output logic [23:0]                                  segment_rows_o,   // input rows of the lane that must be there
  output logic [CountWidth-1:0]                        segment_words_o,
  output logic [CountWidth-1:0]                        segment_place_o,  // first word in the beat
  output logic                                         segment_ends_beat_o,
  output logic [31:0]                                  oldest_o          // what lies before is not needed any more
);
  typedef struct packed {
    logic [7:0]  tap_row;
    logic [7:0]  tap_column;
    logic [31:0] row_offset;
    logic [31:0] column_offset;
    logic [23:0] word;
  } window_t;

  logic        busy_q, pool, last_tile, pass_valid, pass_ready, row_valid, row_ready, row_lane, row_ends_beat, row_ends_pass;
  logic [15:0] tile_q;
  logic [SampleWidth-1:0] row_index, start_index;
  logic [31:0] row_offset, start_offset;
  logic [23:0] row_top;
  fluidnpu_pkg::command_t command_q;

  assign pool            = layer_i.pool;
  assign last_tile       = pool || tile_q + 16'd1 == layer_i.p_tiles;
  assign command_ready_o = !busy_q;

  fluidnpu_row_walker #(.BMax(BMax)) rows (
    .clk_i, .rst_ni, .layer_start_i,
    .out_h_i(layer_i.out_h), .out_w_i(layer_i.out_w),
    .row_lanes_i(layer_i.row_lanes), .sample_lanes_i(layer_i.sample_lanes), .b_r_i(layer_i.b_r),
    .step_h_i(layer_i.step_h), .step_w_i(layer_i.step_w), .rise_i(layer_i.rise), .span_i(layer_i.span),
    .pass_valid_i(pass_valid), .pass_ready_o(pass_ready), .beats_i(command_q.beats), .lane1_beats_i(command_q.lane1_beats),
    .shift_i(command_q.in_shift + (layer_i.in_offset & 32'(PortBytes - 1))), .commit_i(command_q.block_last && pass_is_last),
    .row_valid_o(row_valid), .row_ready_i(row_ready), 
    .row_sample_o(), .row_index_o(row_index), .row_offset_o(row_offset), .row_top_o(row_top), .row_lane_o(row_lane),
    .row_ends_beat_o(row_ends_beat), .row_ends_pass_o(row_ends_pass), .start_index_o(start_index), .start_offset_o(start_offset)
  );

  // A pass runs for every P-tile; the next may start when the last row of this one leaves.
  logic pass_open_q, tile_ends, pass_is_last;
  assign pass_is_last = pool || (pass_open_q ? tile_q + 16'd2 : tile_q + 16'd1) == layer_i.p_tiles;
  assign pass_valid = busy_q && (!pass_open_q || (tile_ends && !last_tile));
  assign tile_ends  = row_valid && row_ready && row_ends_pass;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q      <= 1'b0;
      pass_open_q <= 1'b0;
      tile_q      <= '0;
      command_q   <= '0;
    end else begin
      if (command_valid_i && command_ready_o) begin
        busy_q    <= 1'b1;
        tile_q    <= '0;
        command_q <= command_i;
      end
      if (tile_ends) begin
        pass_open_q <= 1'b0;
        tile_q      <= tile_q + 16'd1;
        if (last_tile) busy_q <= 1'b0;
      end
      if (pass_valid && pass_ready) pass_open_q <= 1'b1;
    end
  end

  // Within a row: from the tile's first word on, run by run.
  window_t               tile_window_q, window_q, next;
  logic [CountWidth-1:0] position_q, width, space, words;
  logic [23:0]           run_words, rest;
  logic                  run_ends, window_ends, beat_full, row_ends, step;

  always_comb begin
    unique case (layer_i.mode)
      fluidnpu_pkg::ModeWide, fluidnpu_pkg::ModeMaxPool, fluidnpu_pkg::ModeSumPool: width = CountWidth'(2 * TP);
      fluidnpu_pkg::ModeSplit: width = CountWidth'(TP / 2);
      default:                 width = CountWidth'(TP);
    endcase
    run_words = pool ? 24'(command_q.cols) : layer_i.run_words;
    space     = width - position_q;
    if (LineWords < 2 * TP && 32'(space) > LineWords) space = CountWidth'(LineWords);
    rest      = run_words - window_q.word;
    words     = rest < 24'(space) ? rest[CountWidth-1:0] : space;
    run_ends  = 24'(words) == rest;

    next      = window_q;
    next.word = window_q.word + 24'(words);
    if (run_ends) begin
      next.word = '0;
      if (!layer_i.contiguous && window_q.tap_column + 8'd1 != layer_i.kernel_w) begin
        next.tap_column    = window_q.tap_column + 8'd1;
        next.column_offset = window_q.column_offset + layer_i.tap_w;
      end else begin
        next.tap_column    = '0;
        next.column_offset = '0;
        next.tap_row       = window_q.tap_row + 8'd1;
        next.row_offset    = window_q.row_offset + layer_i.tap_h;
      end
    end
    window_ends = run_ends && next.tap_row == layer_i.kernel_h;
    beat_full   = pool ? run_ends : position_q + words == width;
    row_ends    = window_ends || (beat_full && !pool);
  end

  assign segment_valid_o     = row_valid;
  assign step                = segment_valid_o && segment_ready_i;
  assign row_ready           = step && row_ends;
  assign segment_addr_o      = base_i[row_index] + row_offset + window_q.row_offset + window_q.column_offset + {7'd0, window_q.word, 1'b0};
  assign segment_lane_o      = row_lane && layer_i.sample_lanes;
  assign segment_rows_o      = row_top + layer_i.span;
  assign oldest_o            = base_i[start_index] + start_offset;
  assign segment_words_o     = words;
  assign segment_place_o     = position_q + (row_lane ? CountWidth'(TP) : '0);
  assign segment_ends_beat_o = pool ? beat_full : row_ends && row_ends_beat;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      window_q      <= '0;
      tile_window_q <= '0;
      position_q    <= '0;
    end else begin
      if (command_valid_i && command_ready_o) begin
        window_q      <= '0;
        tile_window_q <= '0;
        position_q    <= '0;
      end else if (step) begin
        position_q <= row_ends || beat_full ? '0 : position_q + words;
        window_q   <= next;
        if (row_ends) begin
          // The next row of this tile starts where this one did; the next tile where this one ends.
          window_q <= pool ? '0 : tile_ends ? next : tile_window_q;
          if (tile_ends) tile_window_q <= pool ? '0 : next;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && segment_valid_o) begin
      assert (words != '0);
      assert (32'(segment_place_o) + 32'(words) <= 2 * TP);
      assert (window_q.tap_row < layer_i.kernel_h);
    end
  end
endmodule
