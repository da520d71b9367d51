/// Forms Toeplitz rows on the fly: cuts the beats of the input stream into segments, runs of words in the
/// input buffer.
///
/// A GEMM is walked P-tile by P-tile, all rows of the block each time; a tile goes on in the window where the
/// one before ended, so tiles straddle taps and kernel rows. A pool is walked row by row, one beat a tap, of
/// a max pool one beat for two taps: both segments go to the same place, where the larger word stays. Words
/// that no segment covers are zero: tails need no segment. One segment a cycle, or two of the same beat when
/// `second_ready_i`: the next of the same row, or the whole of the row in lane 1. Distances are those of the
/// input buffer (`fluidnpu_formats_pkg::layer_t`). What is left of a run and of the tile is kept in registers,
/// and so is how the two compare: a cut waits for no comparison.
module fluidnpu_window_segments #(
  parameter int unsigned TP = 4,
  parameter int unsigned InWords = 2 * TP,  // of a beat: two P-tiles at least, and what a pool sends
  parameter int unsigned BMax = 4,
  parameter int unsigned PortBytes = 16,
  localparam int unsigned CountWidth = $clog2(InWords + 1),
  localparam int unsigned SampleWidth = BMax > 1 ? $clog2(BMax) : 1
) (
  input  logic                         clk_i,            // clock
  input  logic                         rst_ni,           // reset, synchronous
  input  logic                         layer_start_i,    // a layer begins
  input  logic [BMax-1:0][31:0]        base_i,           // of each sample of a lane in the input buffer
  input  fluidnpu_formats_pkg::layer_t layer_i,          // that layer
  input  logic                         command_valid_i,  // a command is there
  output logic                         command_ready_o,  // and is taken
  input  fluidnpu_formats_pkg::tile_t  command_i,        // that command
  output logic                         segment_valid_o,  // a segment is there
  input  logic                         segment_ready_i,  // and is taken
  output fluidnpu_formats_pkg::parts_t segment_parts_o,  // the parts of its place
  output logic [CountWidth-1:0]        segment_words_o,  // its words
  output logic [CountWidth-1:0]        segment_place_o,  // first word in the beat
  // taken together with the segment above, or not at all
  output logic                         second_valid_o,   // so is another one of the same beat
  input  logic                         second_ready_i,   // which is taken as well
  output fluidnpu_formats_pkg::parts_t second_parts_o,   // the parts of its place
  output logic [CountWidth-1:0]        second_words_o,   // its words
  output logic [CountWidth-1:0]        second_place_o,   // its first word in the beat
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
    logic        next_last_column;  // the column behind this one is the last
    logic        next_last_row;
  } window_t;

  logic        busy_q, pool_q, max_pool_q, last_tile, pass_valid, pass_ready, row_valid, row_ready, row_lane, row_ends_beat;
  logic        row_both, pass_open_q, tile_ends, pass_is_last;
  logic [15:0] tile_q;
  logic [SampleWidth-1:0] row_index, other_index, start_index;
  logic [31:0] start_offset;
  fluidnpu_formats_pkg::steps_t  strides;
  fluidnpu_formats_pkg::pass_t   walk;
  fluidnpu_formats_pkg::walked_t row, other;
  fluidnpu_formats_pkg::tile_t command_q;

  assign last_tile       = pool_q || tile_q + 16'd1 == layer_i.p_tiles;
  assign command_ready_o = !busy_q;

  fluidnpu_row_walker #(.BMax(BMax)) rows (
    .clk_i, .rst_ni, .layer_start_i,
    .layer_i, .steps_i(strides), .pool_i('0), .pass_valid_i(pass_valid), .pass_ready_o(pass_ready), .pass_i(walk),
    .row_valid_o(row_valid), .row_ready_i(row_ready), .row_sample_o(), .row_index_o(row_index), .row_o(row), .row_lane_o(row_lane),
    .row_pooling_o(), .row_filtering_o(), .row_ends_beat_o(row_ends_beat), .row_both_i(row_both), .other_index_o(other_index), .other_o(other),
    .start_index_o(start_index), .start_offset_o(start_offset)
  );
  always_comb begin
    strides.step_h   = layer_i.step_h;
    strides.step_w   = layer_i.step_w;
    strides.rise     = layer_i.rise;
    strides.span     = layer_i.span;
    walk.beats       = command_q.beats;
    walk.lane1_beats = command_q.lane1_beats;
    walk.shift       = command_q.in_shift + (layer_i.in_offset & 32'(PortBytes - 1));
    walk.commit      = command_q.block_last && pass_is_last;
  end

  // A pass runs for every P-tile; the next may start when the last row of this one leaves.
  assign pass_is_last = pool_q || (pass_open_q ? tile_q + 16'd2 : tile_q + 16'd1) == layer_i.p_tiles;
  assign pass_valid = busy_q && (!pass_open_q || !last_tile);
  assign tile_ends  = row_valid && row_ready && (row_both ? other.ends_pass : row.ends_pass);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q      <= 1'b0;
      pass_open_q <= 1'b0;
      tile_q      <= '0;
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
  // it, which begins a run.
  typedef struct packed {
    logic [CountWidth-1:0] words;
    window_t               next;      // where the window goes on
    logic                  fills;     // the P-tile, or for a pool the tap
    logic                  row_ends;
  } cut_t;

  // What is left of the tile behind a run, less than none where the run goes on in the next tile, and how that
  // compares with a whole run. A pool's runs all fit: these stand still.
  localparam int unsigned LeftWidth = 28;  // four runs and a sign
  typedef logic [LeftWidth-1:0] left_t;
  typedef struct packed {
    left_t words;
    logic  run_ends;       // words >= 0
    logic  fills;          // words <= 0
    logic  behind_ends;    // words >= a run
    logic  behind_fills;   // words <= a run
  } left_behind_t;

  window_t               tile_window_q, window_q, entered;
  logic [CountWidth-1:0] position_q, space_q, width_q;  // words of the tile before window_q and from there on
  left_behind_t          left_q, tile_left_q, left;
  logic [23:0]           run_words;
  cut_t                  first, behind;
  logic                  half_q;  // a max pool's beat has one of its two taps
  logic                  one_column_q, two_columns_q, one_row_q, two_rows_q;  // of taps; one column: or one run
  logic                  ends_beat, second_ends_beat, two_taps, same_row, other_row, step, both, pair, row_ends;

  function automatic window_t origin(logic [23:0] run);
    window_t made;
    made                  = '0;
    made.rest             = run;
    made.last_column      = one_column_q;
    made.last_row         = one_row_q;
    made.next_last_column = two_columns_q;
    made.next_last_row    = two_rows_q;
    origin = made;
  endfunction

  function automatic window_t enter(window_t window);  // the run behind this one
    window_t made;
    made      = window;
    made.word = '0;
    made.rest = run_words;
    if (!window.last_column) begin
      made.tap_column       = window.tap_column + 8'd1;
      made.column_offset    = window.column_offset + layer_i.tap_w;
      made.last_column      = window.next_last_column;
      made.next_last_column = window.tap_column + 8'd3 == layer_i.kernel_w;
    end else begin
      made.tap_column       = '0;
      made.column_offset    = '0;
      made.last_column      = one_column_q;
      made.next_last_column = two_columns_q;
      made.tap_row          = window.tap_row + 8'd1;
      made.row_offset       = window.row_offset + layer_i.tap_h;
      made.last_row         = window.next_last_row;
      made.next_last_row    = window.tap_row + 8'd3 == layer_i.kernel_h;
    end
    enter = made;
  endfunction

  function automatic fluidnpu_formats_pkg::parts_t parts(
    logic [31:0] base, logic [31:0] offset, logic [23:0] top, logic lane, window_t window, logic ends
  );
    fluidnpu_formats_pkg::parts_t made;
    made.base         = base;
    made.offset       = offset;
    made.row_reach    = window.row_offset;
    made.column_reach = window.column_offset;
    made.word         = window.word;
    made.top          = top;
    made.lane         = lane && layer_i.sample_lanes;
    made.ends_beat    = ends;
    parts = made;
  endfunction

  assign run_words = pool_q ? 24'(command_q.cols) : layer_i.run_words;
  always_comb begin  // a continuous assignment is not sensitive to the signals its function reads from module scope
    entered        = enter(window_q);
    first.words    = left_q.run_ends ? window_q.rest[CountWidth-1:0] : space_q;
    first.fills    = left_q.fills;
    first.row_ends = (left_q.run_ends && window_q.last_column && window_q.last_row) || (left_q.fills && !pool_q);
    first.next     = entered;
    if (!left_q.run_ends) begin
      first.next      = window_q;
      first.next.word = window_q.word + 24'(space_q);
      first.next.rest = -left_q.words[23:0];
    end
    behind.words    = left_q.behind_ends ? run_words[CountWidth-1:0] : left_q.words[CountWidth-1:0];
    behind.fills    = left_q.behind_fills;
    behind.row_ends = (left_q.behind_ends && entered.last_column && entered.last_row) || (left_q.behind_fills && !pool_q);
    behind.next     = enter(entered);
    if (!left_q.behind_ends) begin
      behind.next      = entered;
      behind.next.word = left_q.words[23:0];
      behind.next.rest = run_words - left_q.words[23:0];
    end
  end

  function automatic logic at_least(left_t words, left_t least);
    left_t difference;
    difference = words - least;
    at_least   = !difference[LeftWidth-1];
  endfunction

  // `left_words` of the tile, found out by comparing `words` with what stands for none left and for a whole
  // run, so that no comparison waits for the difference.
  function automatic left_behind_t compared(left_t words, left_t none, left_t whole, left_t left_words);
    left_behind_t made;
    made.words        = left_words;
    made.run_ends     = pool_q || at_least(words, none);
    made.fills        = pool_q || at_least(none, words);
    made.behind_ends  = pool_q || at_least(words, whole);
    made.behind_fills = pool_q || at_least(whole, words);
    compared = made;
  endfunction

  function automatic logic [CountWidth-1:0] tile_width(fluidnpu_formats_pkg::mode_e mode);
    case (mode)
      fluidnpu_formats_pkg::ModeMaxPool, fluidnpu_formats_pkg::ModeSumPool: tile_width = CountWidth'(InWords);
      fluidnpu_formats_pkg::ModeWide:  tile_width = CountWidth'(2 * TP);
      fluidnpu_formats_pkg::ModeSplit: tile_width = CountWidth'(TP / 2);
      default:                         tile_width = CountWidth'(TP);
    endcase
  endfunction

  // Constants of the layer, which stands still from two cycles before its first command on.
  always_ff @(posedge clk_i) begin
    pool_q     <= layer_i.pool;
    max_pool_q <= layer_i.mode == fluidnpu_formats_pkg::ModeMaxPool;
    width_q    <= tile_width(layer_i.mode);
    one_column_q  <= layer_i.contiguous || layer_i.kernel_w == 8'd1;
    two_columns_q <= layer_i.kernel_w == 8'd2;
    one_row_q     <= layer_i.kernel_h == 8'd1;
    two_rows_q    <= layer_i.kernel_h == 8'd2;
  end
  left_t        whole_run, two_runs, tile_words, three_runs_q, run_less_tile_q, two_less_tile_q, less_tile_q;
  left_behind_t origin_left_q;  // at the beginning of a run and of a tile
  assign whole_run  = LeftWidth'(layer_i.run_words);
  assign two_runs   = whole_run << 1;
  assign tile_words = LeftWidth'(width_q);
  always_ff @(posedge clk_i) begin
    three_runs_q    <= two_runs + whole_run;
    less_tile_q     <= -tile_words;
    run_less_tile_q <= whole_run - tile_words;
    two_less_tile_q <= two_runs - tile_words;
    origin_left_q   <= compared(tile_words, whole_run, two_runs, tile_words - whole_run);
  end

  // What will be left, for each way in which the window may go on, side by side with the choice among them.
  left_behind_t left_1, left_2, left_tile_1, left_tile_2;
  always_comb begin
    left_1 = compared(left_q.words, whole_run, two_runs, left_q.words - whole_run);
    left_2 = compared(left_q.words, two_runs, three_runs_q, left_q.words - two_runs);
    // In the next tile, where the run went on behind the first segment, or behind the second.
    left_tile_1 = compared(left_q.words, less_tile_q, run_less_tile_q, left_q.words + tile_words);
    left_tile_2 = compared(left_q.words, run_less_tile_q, two_less_tile_q, left_q.words - run_less_tile_q);
    if (!row_ends) left = pair ? left_2 : left_1;
    else if (pool_q || !tile_ends) left = tile_left_q;
    else if (pair) left = left_q.behind_ends ? origin_left_q : left_tile_2;
    else left = left_q.run_ends ? origin_left_q : left_tile_1;
  end

  assign two_taps  = max_pool_q && !half_q;
  assign same_row  = !first.row_ends && (!pool_q || two_taps);
  assign other_row = first.row_ends && !row_ends_beat && position_q == '0;  // the row of lane 1 is cut as this one

  always_comb begin
    segment_parts_o = parts(base_i[row_index], row.offset, row.top, row_lane, window_q, ends_beat);
    if (same_row) second_parts_o = parts(base_i[row_index], row.offset, row.top, row_lane, entered, second_ends_beat);
    else second_parts_o = parts(base_i[other_index], other.offset, other.top, 1'b1, window_q, second_ends_beat);
  end
  assign segment_valid_o     = row_valid;
  assign segment_words_o     = first.words;
  assign segment_place_o     = position_q + (row_lane ? CountWidth'(TP) : '0);
  assign ends_beat       = pool_q ? first.fills && (!max_pool_q || half_q || first.row_ends) : first.row_ends && row_ends_beat;

  assign second_valid_o     = row_valid && (same_row || other_row);
  assign second_words_o     = same_row ? behind.words : first.words;
  assign second_place_o     = !same_row ? CountWidth'(TP) : pool_q ? '0 : segment_place_o + first.words;
  assign second_ends_beat = pool_q || !same_row || (behind.row_ends && row_ends_beat);

  assign step      = segment_valid_o && segment_ready_i;
  assign both      = second_valid_o && second_ready_i;  // taken together with the first, if that is
  assign pair      = both && same_row;
  assign row_ends  = first.row_ends || (second_ready_i && (!pool_q || two_taps) && behind.row_ends);  // of a pair the second
  assign row_both  = row_valid && second_ready_i && other_row;
  assign row_ready = step && row_ends;
  assign oldest_o  = base_i[start_index] + start_offset;

  // Where a row goes on behind the first segment, the rest of its run, and behind the second, a whole one.
  logic [CountWidth-1:0] position_1, position_2;
  assign position_1 = position_q + window_q.rest[CountWidth-1:0];
  assign position_2 = position_1 + whole_run[CountWidth-1:0];

  window_t next;
  assign next = pair ? behind.next : first.next;
  always_ff @(posedge clk_i) begin  // a command sets them before anything reads them, so no reset
    if (command_valid_i && command_ready_o) begin
      window_q      <= origin(pool_q ? 24'(command_i.cols) : layer_i.run_words);
      tile_window_q <= origin(pool_q ? 24'(command_i.cols) : layer_i.run_words);
      position_q    <= '0;
      space_q       <= width_q;
      half_q        <= 1'b0;
      left_q        <= origin_left_q;
      tile_left_q   <= origin_left_q;
    end else if (step) begin
      half_q     <= max_pool_q && !both && !ends_beat && (half_q || first.fills);
      position_q <= row_ends || pool_q ? '0 : pair ? position_2 : position_1;
      space_q    <= row_ends || pool_q ? width_q : pair ? left_1.words[CountWidth-1:0] : left_q.words[CountWidth-1:0];
      window_q   <= next;
      left_q     <= left;
      if (row_ends) begin
        // The next row of this tile starts where this one did; the next tile where this one ends.
        window_q <= !pool_q && tile_ends ? next : tile_window_q;
        if (!pool_q && tile_ends) begin
          tile_window_q <= next;
          tile_left_q   <= left;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && segment_valid_o) begin
      assert (first.words != '0);
      assert (32'(segment_place_o) + 32'(segment_words_o) <= InWords);
      assert (window_q.tap_row < layer_i.kernel_h);
      assert (pool_q == layer_i.pool && max_pool_q == (layer_i.mode == fluidnpu_formats_pkg::ModeMaxPool) && width_q == tile_width(layer_i.mode));
      assert (row_ends == (pair ? behind.row_ends : first.row_ends) && row_both == (both && other_row));
      if (pool_q) assert (left_q.run_ends && left_q.fills && left_q.behind_ends && left_q.behind_fills && position_q == '0);
      else begin
        assert (left_q == compared(LeftWidth'(space_q), LeftWidth'(window_q.rest), LeftWidth'(window_q.rest) + whole_run,
            LeftWidth'(space_q) - LeftWidth'(window_q.rest)));
      end
    end
    if (rst_ni && second_valid_o) assert (second_words_o != '0 && 32'(second_place_o) + 32'(second_words_o) <= InWords);
  end
endmodule
