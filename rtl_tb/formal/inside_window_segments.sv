// Inside fluidnpu_window_segments, for any small window and any rows: a segment lies in the window of the row it is for, word by word in order, and in
// its own lane's part of the beat; the P-tiles of a row are its whole window and nothing else. A segment asks for the input rows of its window, and none
// lies before what is told to be the oldest place that is needed, which stays while a row is at hand.
`ifdef FORMAL
  (* anyconst *) logic [1:0]  kernel_h, kernel_w;
  (* anyconst *) logic [2:0]  run;        // words of a run
  (* anyconst *) logic        is_pool, in_one_run;
  (* anyconst *) logic [1:0]  mode_code;
  (* anyconst *) logic [31:0] tap_h, tap_w;
  (* anyconst *) logic [5:0]  tiles;
  (* anyconst *) logic [31:0] sample_pitch;
  logic        past_q = 1'b0, waits_q = 1'b0;
  logic [31:0] oldest_q;
  always_ff @(posedge clk_i) begin
    past_q   <= 1'b1;
    waits_q  <= rst_ni && !layer_start_i && segment_valid_o && !(row_ready && row_ends_pass);
    oldest_q <= oldest_o;
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
        && window.row_offset == steps(tap_h, window.tap_row[1:0]) && window.column_offset == steps(tap_w, window.tap_column[1:0]);
  endfunction
  logic [7:0] before;  // words of the window that the tiles before this one took
  assign before = times(8'(width), tile_q[3:0]);

  always_comb begin
    assume (rst_ni == past_q);
    assume (kernel_h != '0 && kernel_w != '0 && kernel_h != 2'd3 && run != '0 && tiles != '0 && 32'(tiles) < 32'd16);
    assume (layer_i.kernel_h == 8'(kernel_h) && layer_i.kernel_w == 8'(kernel_w) && layer_i.pool == is_pool);
    assume (layer_i.contiguous == in_one_run && layer_i.tap_h == tap_h && layer_i.tap_w == tap_w && !(is_pool && in_one_run));
    assume (layer_i.mode == (is_pool ? fluidnpu_pkg::ModeMaxPool : {2'b00, mode_code}));
    if (is_pool) assume (24'(run) == 24'(command_i.cols) && 32'(run) <= 2 * TP);
    else assume (layer_i.run_words == 24'(run));
    if (is_pool && past_q && busy_q) assert (24'(command_q.cols) == 24'(run));
    assume (layer_i.p_tiles == 16'(tiles));
    if (!is_pool) assume (times(8'(width), tiles[3:0]) >= all && times(8'(width), 4'(tiles - 6'd1)) < all);
    if (row_lane) assume (layer_i.mode == fluidnpu_pkg::ModeLanes);
    // A layer fits half of the number range. The walker gives no row above the start that it told (the proof `rows`), and the buffer lets samples
    // follow one another, each as long as all its rows (the proof `buffer`).
    assume (!tap_h[31:28] && !tap_w[31:28] && !row_offset[31:28] && !sample_pitch[31:28] && !start_offset[31:28]);
    assume (start_offset <= sample_pitch && base_i[0] == '0 && base_i[1] == sample_pitch);
    if (row_valid) assume (row_index > start_index || (row_index == start_index && row_offset >= start_offset));
    if (past_q) begin
      assert (sound(window_q) && sound(tile_window_q) && position_q < width);
      if (busy_q) assert (is_pool ? tile_q == '0 : tile_q < 16'(tiles));
      if (!busy_q) assert (!row_valid && !pass_open_q);
      assert (row_valid == pass_open_q);
      if (busy_q && !is_pool) begin
        assert (position(tile_window_q) == before);
        assert (position(window_q) == before + 8'(position_q));
      end
      if (is_pool && busy_q) assert (tile_window_q == '0 && window_q.word == '0 && position_q == '0);
      if (row_valid) begin
        assert (window_q.tap_row < 8'(kernel_h));
        assert (words != '0 && 32'(window_q.word) + 32'(words) <= 32'(run));
        assert (segment_addr_o == base_i[row_index] + row_offset + steps(tap_h, window_q.tap_row[1:0])
            + steps(tap_w, window_q.tap_column[1:0]) + {7'd0, window_q.word, 1'b0});
        assert (segment_rows_o == row_top + layer_i.span && segment_lane_o == (row_lane && layer_i.sample_lanes));
        assert (segment_addr_o >= oldest_o);
        if (waits_q) assert (oldest_o == oldest_q);
        assert (32'(position_q) + 32'(words) <= 32'(width));
        if (layer_i.mode == fluidnpu_pkg::ModeLanes) begin
          assert (row_lane ? 32'(segment_place_o) >= TP && 32'(segment_place_o) + 32'(words) <= 2 * TP
                           : 32'(segment_place_o) + 32'(words) <= TP);
        end
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && row_valid && row_ready && tile_q == 16'd2 && !is_pool);
    cover (past_q && row_valid && is_pool && window_q.tap_row == 8'd1 && window_q.tap_column == 8'd1);
    cover (past_q && row_valid && row_lane && row_ready);
    cover (past_q && row_valid && in_one_run && window_q.tap_row == 8'd1);
  end
`endif
`endif
