/// Forms Toeplitz rows on the fly: cuts the beats of the input stream into segments, runs of words in the
/// input buffer.
///
/// A GEMM is walked P-tile by P-tile, all rows of the block each time; a tile goes on in the window where the
/// one before ended, so tiles straddle taps and kernel rows. A pool is walked row by row, one beat a tap, of
/// a max pool one beat for two taps: both segments go to the same place, where the larger word stays. Words
/// that no segment covers are zero: tails need no segment. One segment a cycle, or two of the same beat when
/// `second_ready_i`: the next of the same row, or the whole of the row in lane 1. Distances are those of the
/// input buffer (`fluidnpu_formats_pkg::layer_t`). What is left of a run and of the tile is kept in registers.
module fluidnpu_window_segments #(
  parameter int unsigned TP = 4,
  parameter int unsigned InWords = 2 * TP,  // of a beat: two P-tiles at least, and what a pool sends
  parameter int unsigned BMax = 4,
  parameter int unsigned LineWords = 16,
  parameter int unsigned PortBytes = 16,
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  logic                         layer_start_i,
  input  logic [BMax-1:0][31:0]        base_i,  // of each sample of a lane in the input buffer
  input  fluidnpu_formats_pkg::layer_t layer_i,
  input  logic                         command_valid_i,
  output logic                         command_ready_o,
  input  fluidnpu_formats_pkg::tile_t  command_i,
  output logic                         segment_valid_o,
  input  logic                         segment_ready_i,
  output fluidnpu_pkg::parts_t         segment_parts_o,
  output logic [CountWidth-1:0]        segment_words_o,
  output logic [CountWidth-1:0]        segment_place_o,  // first word in the beat
  output logic                         segment_ends_beat_o,
  // taken together with the segment above, or not at all
  output logic                         second_valid_o,
  input  logic                         second_ready_i,
  output fluidnpu_pkg::parts_t         second_parts_o,
  output logic [CountWidth-1:0]        second_words_o,
  output logic [CountWidth-1:0]        second_place_o,
  output logic                         second_ends_beat_o,
  output logic [31:0]                  oldest_o          // no window needs a place before it any more
);
  typedef struct packed {
    logic [7:0]  tap_row;
    logic [7:0]  tap_column;
    logic [31:0] row_offset;
    logic [31:0] column_offset;
    logic [23:0] word;
    logic [23:0] rest;         // of the run
    logic        last_column;  // of the taps, and none of them goes on in this one's run
    logic        last_row;
  } window_t;
  localparam bit Pieces = LineWords < InWords;  // of a run, where a line is shorter than a beat

  logic        busy_q, pool, max_pool, last_tile, pass_valid, pass_ready, row_valid, row_ready, row_lane, row_ends_beat, row_ends_pass;
  logic        row_both, other_ends_pass, pass_open_q, tile_ends, pass_is_last;
  logic [15:0] tile_q;
  logic [SampleWidth-1:0] row_index, other_index, start_index;
  logic [31:0] row_offset, other_offset, start_offset;
  logic [23:0] row_top, other_top;
  fluidnpu_formats_pkg::tile_t command_q;

  assign pool            = layer_i.pool;
  assign max_pool        = layer_i.mode == fluidnpu_formats_pkg::ModeMaxPool;
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
    .row_ends_beat_o(row_ends_beat), .row_ends_pass_o(row_ends_pass), .row_both_i(row_both), .other_index_o(other_index),
    .other_offset_o(other_offset), .other_top_o(other_top), .other_ends_pass_o(other_ends_pass), .start_index_o(start_index),
    .start_offset_o(start_offset)
  );

  // A pass runs for every P-tile; the next may start when the last row of this one leaves.
  assign pass_is_last = pool || (pass_open_q ? tile_q + 16'd2 : tile_q + 16'd1) == layer_i.p_tiles;
  assign pass_valid = busy_q && (!pass_open_q || (tile_ends && !last_tile));
  assign tile_ends  = row_valid && row_ready && (row_both ? other_ends_pass : row_ends_pass);

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

  // Within a row: from the tile's first word on, run by run. What is cut next, and what would be cut behind
  // it.
  typedef struct packed {
    logic [CountWidth-1:0] words;
    window_t               next;      // where the window goes on
    window_t               entered;   // the run behind this one
    logic                  fills;     // the P-tile, or for a pool the tap
    logic                  row_ends;
  } cut_t;

  window_t               tile_window_q, window_q;
  logic [CountWidth-1:0] position_q, space_q, width;  // words of the tile before window_q and from there on
  logic [23:0]           run_words;
  cut_t                  first, behind;
  logic                  half_q;  // a max pool's beat has one of its two taps
  logic                  two_taps, same_row, other_row, step, both, row_ends;

  function automatic window_t origin(logic [23:0] run);
    window_t made;
    made             = '0;
    made.rest        = run;
    made.last_column = layer_i.contiguous || layer_i.kernel_w == 8'd1;
    made.last_row    = layer_i.kernel_h == 8'd1;
    origin = made;
  endfunction

  function automatic cut_t cut(window_t window, logic [CountWidth-1:0] space);
    cut_t                  piece;
    logic [CountWidth-1:0] reach;
    logic                  run_ends;
    reach = space;
    if (Pieces && 32'(space) > LineWords) reach = CountWidth'(LineWords);
    run_ends    = window.rest <= 24'(reach);
    piece.words = run_ends ? window.rest[CountWidth-1:0] : reach;

    piece.entered      = window;
    piece.entered.word = '0;
    piece.entered.rest = run_words;
    if (!window.last_column) begin
      piece.entered.tap_column    = window.tap_column + 8'd1;
      piece.entered.column_offset = window.column_offset + layer_i.tap_w;
      piece.entered.last_column   = window.tap_column + 8'd2 == layer_i.kernel_w;
    end else begin
      piece.entered.tap_column    = '0;
      piece.entered.column_offset = '0;
      piece.entered.last_column   = layer_i.contiguous || layer_i.kernel_w == 8'd1;
      piece.entered.tap_row       = window.tap_row + 8'd1;
      piece.entered.row_offset    = window.row_offset + layer_i.tap_h;
      piece.entered.last_row      = window.tap_row + 8'd2 == layer_i.kernel_h;
    end
    piece.next = piece.entered;
    if (!run_ends) begin
      piece.next      = window;
      piece.next.word = window.word + 24'(reach);
      piece.next.rest = window.rest - 24'(reach);
    end
    piece.fills    = pool ? run_ends : window.rest >= 24'(space) && reach == space;
    piece.row_ends = (run_ends && window.last_column && window.last_row) || (piece.fills && !pool);
    cut = piece;
  endfunction

  function automatic fluidnpu_pkg::parts_t parts(
    logic [31:0] base, logic [31:0] offset, logic [23:0] top, logic lane, window_t window
  );
    fluidnpu_pkg::parts_t made;
    made.base         = base;
    made.offset       = offset;
    made.row_reach    = window.row_offset;
    made.column_reach = window.column_offset;
    made.word         = window.word;
    made.top          = top;
    made.lane         = lane && layer_i.sample_lanes;
    parts = made;
  endfunction

  always_comb begin
    unique case (layer_i.mode)
      fluidnpu_formats_pkg::ModeMaxPool, fluidnpu_formats_pkg::ModeSumPool: width = CountWidth'(InWords);
      fluidnpu_formats_pkg::ModeWide:  width = CountWidth'(2 * TP);
      fluidnpu_formats_pkg::ModeSplit: width = CountWidth'(TP / 2);
      default:                 width = CountWidth'(TP);
    endcase
  end
  assign run_words = pool ? 24'(command_q.cols) : layer_i.run_words;
  always_comb begin  // a continuous assignment is not sensitive to the signals its function reads from module scope
    first  = cut(window_q, space_q);
    // A second segment begins a run, unless lines are so short that they cut runs.
    behind = cut(Pieces ? first.next : first.entered, pool ? width : space_q - (Pieces ? first.words : window_q.rest[CountWidth-1:0]));
  end
  assign two_taps  = max_pool && !half_q && position_q == '0 && first.fills && behind.fills;
  assign same_row  = !first.row_ends && (!pool || two_taps);
  assign other_row = first.row_ends && !row_ends_beat && position_q == '0;  // the row of lane 1 is cut as this one

  always_comb begin
    segment_parts_o = parts(base_i[row_index], row_offset, row_top, row_lane, window_q);
    if (same_row) second_parts_o = parts(base_i[row_index], row_offset, row_top, row_lane, first.next);
    else second_parts_o = parts(base_i[other_index], other_offset, other_top, 1'b1, window_q);
  end
  assign segment_valid_o     = row_valid;
  assign segment_words_o     = first.words;
  assign segment_place_o     = position_q + (row_lane ? CountWidth'(TP) : '0);
  assign segment_ends_beat_o = pool ? first.fills && (!max_pool || half_q || first.row_ends) : first.row_ends && row_ends_beat;

  assign second_valid_o     = row_valid && (same_row || other_row);
  assign second_words_o     = same_row ? behind.words : first.words;
  assign second_place_o     = !same_row ? CountWidth'(TP) : pool ? '0 : segment_place_o + first.words;
  assign second_ends_beat_o = pool || !same_row || (behind.row_ends && row_ends_beat);

  assign step      = segment_valid_o && segment_ready_i;
  assign both      = step && second_valid_o && second_ready_i;
  assign row_ends  = both && same_row ? behind.row_ends : first.row_ends;
  assign row_both  = both && other_row;
  assign row_ready = step && row_ends;
  assign oldest_o  = base_i[start_index] + start_offset;

  window_t next;
  assign next = both && same_row ? behind.next : first.next;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      window_q      <= '0;
      tile_window_q <= '0;
      position_q    <= '0;
      space_q       <= '0;
      half_q        <= 1'b0;
    end else begin
      if (command_valid_i && command_ready_o) begin
        window_q      <= origin(pool ? 24'(command_i.cols) : layer_i.run_words);
        tile_window_q <= origin(pool ? 24'(command_i.cols) : layer_i.run_words);
        position_q    <= '0;
        space_q       <= width;
        half_q        <= 1'b0;
      end else if (step) begin
        half_q     <= max_pool && !both && !segment_ends_beat_o && (half_q || first.fills);
        position_q <= row_ends || (pool && first.fills) ? '0 : position_q + first.words + (both ? behind.words : '0);
        space_q    <= row_ends || (pool && first.fills) ? width : space_q - first.words - (both ? behind.words : '0);
        window_q   <= next;
        if (row_ends) begin
          // The next row of this tile starts where this one did; the next tile where this one ends.
          window_q <= !pool && tile_ends ? next : tile_window_q;
          if (!pool && tile_ends) tile_window_q <= next;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && segment_valid_o) begin
      assert (first.words != '0);
      assert (32'(segment_place_o) + 32'(segment_words_o) <= InWords);
      assert (window_q.tap_row < layer_i.kernel_h);
    end
    if (rst_ni && second_valid_o) assert (second_words_o != '0 && 32'(second_place_o) + 32'(second_words_o) <= InWords);
  end
endmodule
