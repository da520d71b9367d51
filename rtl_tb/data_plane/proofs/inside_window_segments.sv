// Inside fluidnpu_window_segments, for any small window and any rows: a segment lies in the window of the row
// it is for, word by word in order, and in its own lane's part of the beat; the P-tiles of a row are its
// whole window and nothing else. A segment asks for the input rows of its window, and none lies before what
// is told to be the oldest place that is needed, which stays while a row is at hand. The second segment is
// just the one that would come next, were it not taken with the first: of the same row behind it, or the
// whole of the row of lane 1. Of a max pool a beat has two neighbouring taps.
`ifdef FORMAL
  // What `fluidnpu_segment_queue` makes of the parts
  logic [31:0] segment_addr_o, second_addr_o;
  logic [23:0] segment_rows_o, second_rows_o;
  logic        segment_lane_o, second_lane_o;
  assign segment_addr_o = segment_parts_o.base + segment_parts_o.offset + segment_parts_o.row_reach + segment_parts_o.column_reach
      + {7'd0, segment_parts_o.word, 1'b0};
  assign second_addr_o  = second_parts_o.base + second_parts_o.offset + second_parts_o.row_reach + second_parts_o.column_reach
      + {7'd0, second_parts_o.word, 1'b0};
  assign segment_rows_o = segment_parts_o.top + layer_i.span;
  assign second_rows_o  = second_parts_o.top + layer_i.span;
  assign segment_lane_o = segment_parts_o.lane;
  assign second_lane_o  = second_parts_o.lane;

  (* anyconst *) logic [1:0]  kernel_h, kernel_w;
  (* anyconst *) logic [2:0]  run;        // words of a run
  (* anyconst *) logic        is_pool, in_one_run, by_samples;
  (* anyconst *) logic [23:0] span;
  (* anyconst *) logic [1:0]  mode_code;
  (* anyconst *) logic [31:0] tap_h, tap_w;
  (* anyconst *) logic [5:0]  tiles;
  (* anyconst *) logic [31:0] sample_pitch;
  logic        past_q = 1'b0, settled_q = 1'b0, waits_q = 1'b0, alone_q = 1'b0;
  logic [31:0] oldest_q;
  logic [2*CountWidth+25:0] at_hand, at_second, at_second_q;
  window_t                  window_of_second_q;
  logic [31:0]              offset_of_second_q;
  logic [SampleWidth-1:0]   index_of_second_q;
  assign at_hand   = {segment_lane_o, segment_rows_o, segment_words_o, segment_place_o, segment_parts_o.ends_beat};
  assign at_second = {second_lane_o, second_rows_o, second_words_o, second_place_o, second_parts_o.ends_beat};
  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    settled_q <= past_q;
    waits_q  <= rst_ni && !layer_start_i && segment_valid_o && !(row_ready && (row_both ? other.ends_pass : row.ends_pass));
    oldest_q <= oldest_o;

    alone_q     <= rst_ni && segment_valid_o && segment_ready_i && second_valid_o && !second_ready_i;
    at_second_q <= at_second;

    window_of_second_q <= same_row ? first.next : window_q;
    index_of_second_q  <= same_row ? row_index : other_index;
    offset_of_second_q <= same_row ? row.offset : other.offset;
  end

  function automatic logic [31:0] steps(logic [31:0] step, logic [1:0] by);
    steps = (by[0] ? step : 32'd0) + (by[1] ? step << 1 : 32'd0);
  endfunction
  function automatic logic [7:0] times(logic [7:0] value, logic [3:0] by);
    times = (by[0] ? value : 8'd0) + (by[1] ? value << 1 : 8'd0) + (by[2] ? value << 2 : 8'd0) + (by[3] ? value << 3 : 8'd0);
  endfunction
  logic [7:0] runs, all;  // runs and words of a window
  assign runs = in_one_run ? 8'(kernel_h) : times(8'(kernel_w), {2'b0, kernel_h});
  assign all  = times(8'(run), runs[3:0]);
  function automatic logic [7:0] done_runs(window_t window);
    done_runs = in_one_run ? window.tap_row : times(8'(kernel_w), window.tap_row[3:0]) + window.tap_column;
  endfunction
  function automatic logic [7:0] position(window_t window);
    position = times(8'(run), 4'(done_runs(window))) + 8'(window.word);
  endfunction
  function automatic logic sound(window_t window);
    sound = (window.tap_row < 8'(kernel_h) || (window.tap_row == 8'(kernel_h) && window.tap_column == '0 && window.word == '0))
        && window.tap_column < 8'(kernel_w) && window.word < 24'(run) && (!in_one_run || window.tap_column == '0)
        && window.row_offset == steps(tap_h, window.tap_row[1:0]) && window.column_offset == steps(tap_w, window.tap_column[1:0])
        && window.rest == 24'(run) - window.word && window.last_row == (window.tap_row + 8'd1 == 8'(kernel_h))
        && window.last_column == (in_one_run || window.tap_column + 8'd1 == 8'(kernel_w))
        && window.next_last_column == (window.tap_column + 8'd2 == 8'(kernel_w))
        && window.next_last_row == (window.tap_row + 8'd2 == 8'(kernel_h));
  endfunction
  function automatic logic odd(window_t window);  // taps before this one
    logic [7:0] taps;
    taps = done_runs(window);
    odd  = taps[0];
  endfunction
  function automatic logic in_part(logic lane, logic [CountWidth-1:0] place, logic [CountWidth-1:0] words);  // of the beat that is this lane's
    in_part = lane ? 32'(place) >= TP && 32'(place) + 32'(words) <= 2 * TP : 32'(place) + 32'(words) <= TP;
  endfunction
  function automatic left_behind_t left_behind(logic [CountWidth-1:0] space, logic [23:0] rest);
    left_behind_t made;
    made.words        = LeftWidth'(space) - LeftWidth'(rest);
    made.run_ends     = is_pool || rest <= 24'(space);
    made.fills        = is_pool || rest >= 24'(space);
    made.behind_ends  = is_pool || 25'(rest) + 25'(layer_i.run_words) <= 25'(space);
    made.behind_fills = is_pool || 25'(rest) + 25'(layer_i.run_words) >= 25'(space);
    left_behind = made;
  endfunction
  function automatic logic alike(left_behind_t one, left_behind_t two);  // a pool's words are not looked at
    alike = (is_pool || one.words == two.words) && one.run_ends == two.run_ends && one.fills == two.fills
        && one.behind_ends == two.behind_ends && one.behind_fills == two.behind_fills;
  endfunction
  logic [7:0] before;  // words of the window that the tiles before this one took
  assign before = times(8'(width_q), tile_q[3:0]);

  always_comb begin
    assume (rst_ni == past_q && (settled_q || !command_valid_i));
    assume (kernel_h != '0 && kernel_w != '0 && kernel_h != 2'd3 && run != '0 && tiles != '0 && 32'(tiles) < 32'd16);
    assume (layer_i.kernel_h == 8'(kernel_h) && layer_i.kernel_w == 8'(kernel_w) && layer_i.pool == is_pool);
    assume (layer_i.contiguous == in_one_run && layer_i.tap_h == tap_h && layer_i.tap_w == tap_w && !(is_pool && in_one_run));
    assume (layer_i.mode == (!is_pool ? {2'b00, mode_code} : mode_code[0] ? fluidnpu_formats_pkg::ModeMaxPool : fluidnpu_formats_pkg::ModeSumPool));
    if (is_pool) assume (24'(run) == 24'(command_i.cols) && 32'(run) <= InWords);
    else assume (layer_i.run_words == 24'(run));
    if (is_pool && past_q && busy_q) assert (24'(command_q.cols) == 24'(run));
    assume (layer_i.p_tiles == 16'(tiles) && layer_i.span == span && layer_i.sample_lanes == by_samples);
    if (!is_pool) assume (times(8'(tile_width(layer_i.mode)), tiles[3:0]) >= all && times(8'(tile_width(layer_i.mode)), 4'(tiles - 6'd1)) < all);
    if (row_lane || (row_valid && !row_ends_beat)) assume (layer_i.mode == fluidnpu_formats_pkg::ModeLanes);
    // A layer fits half of the number range. The walker gives no row above the start that it told (the proof
    // `rows`), and the buffer lets samples follow one another, each as long as all its rows (the proof
    // `buffer`).
    assume (!tap_h[31:28] && !tap_w[31:28] && !row.offset[31:28] && !other.offset[31:28]);
    assume (!sample_pitch[31:28] && !start_offset[31:28]);
    assume (start_offset <= sample_pitch && base_i[0] == '0 && base_i[1] == sample_pitch);
    if (row_valid) assume (row_index > start_index || (row_index == start_index && row.offset >= start_offset));
    if (row_valid && !row_ends_beat) assume (other_index > start_index || (other_index == start_index && other.offset >= start_offset));
    if (past_q) begin
      if (busy_q) assert (sound(window_q) && sound(tile_window_q) && position_q < width_q && space_q == width_q - position_q);
      // What is left behind a run, and how it compares, is what it is, two cycles after the layer came.
      assert (pool_q == is_pool && max_pool_q == (layer_i.mode == fluidnpu_formats_pkg::ModeMaxPool) && width_q == tile_width(layer_i.mode));
      assert (one_column_q == (in_one_run || kernel_w == 2'd1) && two_columns_q == (kernel_w == 2'd2));
      assert (one_row_q == (kernel_h == 2'd1) && two_rows_q == (kernel_h == 2'd2));
      assert (settled_q || !busy_q);
      if (!is_pool && settled_q) begin
        assert (less_tile_q == -tile_words && run_less_tile_q == whole_run - tile_words && three_runs_q == whole_run + two_runs);
        assert (two_less_tile_q == two_runs - tile_words);
      end
      if (settled_q) assert (alike(origin_left_q, left_behind(width_q, 24'(run))));
      if (busy_q) assert (alike(left_q, left_behind(space_q, window_q.rest)) && alike(tile_left_q, left_behind(width_q, tile_window_q.rest)));
      if (busy_q) assert (is_pool ? tile_q == '0 : tile_q < 16'(tiles));
      if (!busy_q) assert (!row_valid && !pass_open_q);
      assert (row_valid == pass_open_q);
      if (busy_q && !is_pool) begin
        assert (position(tile_window_q) == before);
        assert (position(window_q) == before + 8'(position_q));
        if (position_q == '0) assert (window_q == tile_window_q);
      end
      if (is_pool && busy_q) assert (tile_window_q == origin(24'(run)) && window_q.word == '0 && position_q == '0 && half_q == (max_pool_q && odd(window_q)));
      if (!is_pool && busy_q) assert (!half_q);
      if (row_valid) begin
        assert (window_q.tap_row < 8'(kernel_h));
        assert (first.words != '0 && 32'(window_q.word) + 32'(first.words) <= 32'(run));
        assert (segment_addr_o == base_i[row_index] + row.offset + steps(tap_h, window_q.tap_row[1:0])
            + steps(tap_w, window_q.tap_column[1:0]) + {7'd0, window_q.word, 1'b0});
        assert (segment_rows_o == row.top + layer_i.span && segment_lane_o == (row_lane && layer_i.sample_lanes));
        assert (segment_addr_o >= oldest_o);
        if (waits_q) assert (oldest_o == oldest_q);
        assert (32'(position_q) + 32'(first.words) <= 32'(width_q));
        if (layer_i.mode == fluidnpu_formats_pkg::ModeLanes) assert (in_part(row_lane, segment_place_o, segment_words_o));
        // A tap of a pool fills its beat, alone or together with the tap next to it.
        if (is_pool) assert (segment_parts_o.ends_beat == (first.fills && (!max_pool_q || half_q || 8'(done_runs(window_q) + 8'd1) == runs)));
      end

      if (second_valid_o) begin
        assert (segment_valid_o && same_row != other_row && second_words_o != '0);
        assert (second_lane_o == ((same_row ? row_lane : 1'b1) && layer_i.sample_lanes));
        if (layer_i.mode == fluidnpu_formats_pkg::ModeLanes) assert (in_part(same_row ? row_lane : 1'b1, second_place_o, second_words_o));
        if (same_row) begin
          assert (32'(first.next.word) + 32'(second_words_o) <= 32'(run));
          assert (second_addr_o == base_i[row_index] + row.offset + first.next.row_offset + first.next.column_offset + {7'd0, first.next.word, 1'b0});
          assert (second_rows_o == segment_rows_o);
          if (!is_pool) assert (second_place_o == segment_place_o + segment_words_o && 32'(position_q) + 32'(second_words_o) < 32'(width_q));
          // Two whole taps of a max pool go to the same place, and the beat has no other.
          if (is_pool) begin
            assert (max_pool_q && !odd(window_q) && done_runs(first.next) == done_runs(window_q) + 8'd1 && second_parts_o.ends_beat);
            assert (32'(segment_words_o) == 32'(run) && 32'(second_words_o) == 32'(run) && segment_place_o == '0 && second_place_o == '0);
          end
        end else begin
          // All that lane 1 has of this beat, cut as the row of lane 0
          assert (!row_lane && !row_ends_beat && segment_place_o == '0 && 32'(second_place_o) == TP && second_words_o == segment_words_o);
          assert (second_addr_o == base_i[other_index] + other.offset + window_q.row_offset + window_q.column_offset + {7'd0, window_q.word, 1'b0});
          assert (second_rows_o == other.top + layer_i.span && second_parts_o.ends_beat && window_q == tile_window_q);
        end
      end
      // It is no other than the one that comes next by itself, whenever it is offered: all that is said of a
      // segment above holds of it as well.
      if (alone_q) begin
        assert (segment_valid_o && at_hand == at_second_q);
        assert (window_q == window_of_second_q && row_index == index_of_second_q && row.offset == offset_of_second_q);
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && row_valid && row_ready && tile_q == 16'd2 && !is_pool);
    cover (past_q && row_valid && is_pool && window_q.tap_row == 8'd1 && window_q.tap_column == 8'd1);
    cover (past_q && row_valid && row_lane && row_ready);
    cover (past_q && row_valid && in_one_run && window_q.tap_row == 8'd1);
    cover (past_q && step && both && same_row && !is_pool && row_lane);
    cover (past_q && step && both && other_row && tile_q == 16'd1 && layer_i.sample_lanes);
    cover (past_q && step && both && other_row && other.ends_pass);
    cover (past_q && step && both && same_row && max_pool_q && behind.row_ends);
    cover (past_q && segment_ready_i && half_q && row_valid && first.row_ends);
    cover (past_q && alone_q && max_pool_q);
  end
`endif
`endif
