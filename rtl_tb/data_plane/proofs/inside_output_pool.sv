// Inside fluidnpu_output_pool, for any walk of pixels: a beat leaves four cycles after it was taken just when
// its pixel ends a window along both axes, and holds the largest word of each channel in it; for an arbitrary
// beat of a pixel, an arbitrary one of the pooled row and an arbitrary word both RAMs hold the largest so far.
// No beat is lost, since what is on its way fits the queue. Beats of a layer without a pool pass unchanged.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  (* anyconst *) logic [WindowWidth-1:0] k;     // a beat of a pixel
  (* anyconst *) logic [RowWidth-1:0]    r;     // a beat of the pooled row, which is of that beat of its pixels
  (* anyconst *) logic                   upper; // a word of the beat
  (* anyconst *) logic [1:0]             kernel;
  function automatic logic signed [15:0] word(beat_t beat);
    word = upper ? beat[31:16] : beat[15:0];
  endfunction
  function automatic logic signed [15:0] most(logic signed [15:0] a, logic signed [15:0] b);
    most = a < b ? b : a;
  endfunction

  logic [WindowWidth-1:0] window;
  logic [RowWidth-1:0]    row;
  logic                   ours, leads;  // the beat taken is of k; it meets r
  assign window = base_q + beat_q;
  assign row    = pixel.offset[RowWidth-1:0] + RowWidth'(beat_q);
  assign ours   = give && window == k;
  assign leads  = give && place.ends_w && row == r;

  // The largest so far, of what was taken.
  logic signed [15:0] window_q, row_q, above_was_q, columns_q, rows_q_q, columns_now, rows_now;
  logic               window_known_q = 1'b0, row_known_q = 1'b0, above_known_q = 1'b0, columns_known_q = 1'b0;
  logic               rows_known_q = 1'b0, columns_known, rows_known;
  fluidnpu_pkg::pooling_t led_q;
  assign columns_known = window_known_q || place.fresh_w;
  assign columns_now   = place.fresh_w ? word(beat_i) : most(window_q, word(beat_i));
  assign rows_known    = columns_known && (row_known_q || place.fresh_h);
  assign rows_now      = place.fresh_h ? columns_now : most(row_q, columns_now);
  always_ff @(posedge clk_i) begin
    if (ours) begin
      window_q       <= place.next_w ? word(beat_i) : columns_now;
      window_known_q <= place.next_w || columns_known;
    end
    if (leads) begin
      above_was_q     <= row_q;
      above_known_q   <= row_known_q;
      columns_q       <= columns_now;
      columns_known_q <= columns_known;
      rows_q_q        <= rows_now;
      rows_known_q    <= rows_known;
      row_q           <= place.next_h ? columns_now : rows_now;
      row_known_q     <= place.next_h ? columns_known : rows_known;
      led_q           <= place;
    end
  end

  // What was taken in the last four cycles, the newest lowest.
  logic [3:0]               gave_q = '0, ends_q = '0, leaves_q = '0, led_here_q = '0;
  logic [2:0][RowWidth-1:0] row_of_q;
  always_ff @(posedge clk_i) begin
    gave_q     <= rst_ni ? {gave_q[2:0], give} : '0;
    ends_q     <= rst_ni ? {ends_q[2:0], give && place.ends_w} : '0;
    leaves_q   <= rst_ni ? {leaves_q[2:0], give && place.ends_w && place.ends_h} : '0;
    led_here_q <= rst_ni ? {led_here_q[2:0], leads} : '0;
    row_of_q   <= {row_of_q[1:0], row};
  end

  // The queue as the proof `fifo` has it: its level is what came less what went.
  logic [LevelWidth-1:0] stored_q = '0;
  always_ff @(posedge clk_i) stored_q <= rst_ni ? stored_q + LevelWidth'(d_valid_q) - LevelWidth'(kept_valid && kept_ready) : '0;

  always_comb begin
    assume (rst_ni == past_q);
    assume (layer_i.pool_kernel == kernel);
    assume (level == stored_q && fits == (stored_q != LevelWidth'(Depth)) && kept_valid == (stored_q != '0));
    if (command_valid_i) assume (command_i.cols != '0);
    // Places of the program: every entry is there, and belongs to one beat of the pixels. A row of the map is
    // so wide that its maxima are used again no sooner.
    if (give) begin
      assume (32'(base_q) + 32'(beat_q) < Windows && pixel.offset + 32'(beat_q) < Rows);
      if (place.ends_w) begin
        if (row == r) assume (window == k);
        for (int i = 0; i < 3; i++) assume (!ends_q[i] || row_of_q[i] != row);
      end
    end
    if (past_q) begin
      if (walks) assert (rest_q != '0 && cols_q != '0 && pixel_ends_q == (32'(rest_q) <= OutWords));
      assert (a_valid_q == gave_q[0] && b_valid_q == ends_q[1] && c_valid_q == ends_q[2] && d_valid_q == leaves_q[3]);
      if (a_valid_q) assert (a_place_q.ends_w == ends_q[0] && (a_place_q.ends_w && a_place_q.ends_h) == leaves_q[0] && a_row_q == row_of_q[0]);
      if (b_valid_q) assert (b_place_q.ends_h == leaves_q[1] && b_row_q == row_of_q[1]);
      if (c_valid_q) assert (c_place_q.ends_h == leaves_q[2] && c_row_q == row_of_q[2]);
      assert (!(leaves_q & ~ends_q) && !(ends_q & ~gave_q) && !(led_here_q & ~ends_q));

      // Columns
      if (window_known_q && !(a_valid_q && a_window_q == k)) assert (word(windows_q[k]) == window_q);
      if (window_known_q && a_valid_q && a_window_q == k) assert (word(a_place_q.next_w ? a_beat_q : columns) == window_q);
      // Rows
      if (led_here_q[0]) assert (a_row_q == r && a_window_q == k && a_place_q == led_q);
      if (led_here_q[1]) assert (b_row_q == r && b_place_q == led_q);
      if (led_here_q[2]) assert (c_row_q == r && c_place_q == led_q);
      assert (led_here_q[0] == (a_valid_q && a_place_q.ends_w && a_row_q == r) && led_here_q[1] == (b_valid_q && b_row_q == r));
      assert (led_here_q[2] == (c_valid_q && c_row_q == r));
      assert (!(led_here_q[0] && led_here_q[1]) && !(led_here_q[0] && led_here_q[2]) && !(led_here_q[1] && led_here_q[2]));
      assert (!(led_here_q[0] && led_here_q[3]) && !(led_here_q[1] && led_here_q[3]) && !(led_here_q[2] && led_here_q[3]));
      if (led_here_q[0] && columns_known_q) assert (word(columns) == columns_q);
      if (led_here_q[1] && columns_known_q) assert (word(b_beat_q) == columns_q);
      if (led_here_q[2] && columns_known_q) assert (word(c_beat_q) == columns_q);
      if (led_here_q[1] && above_known_q) assert (word(above_q) == above_was_q);
      if (led_here_q[2] && above_known_q) assert (word(c_above_q) == above_was_q);
      if (led_here_q[2:0] != '0 && above_known_q) assert (word(rows_q[r]) == above_was_q);
      if (led_here_q[2:0] == '0 && row_known_q) assert (word(rows_q[r]) == row_q);
      if (led_here_q[2:0] != '0) begin
        assert (row_known_q == (led_q.next_h ? columns_known_q : rows_known_q) && rows_known_q == (columns_known_q && (above_known_q || led_q.fresh_h)));
        if (rows_known_q) assert (rows_q_q == (led_q.fresh_h ? columns_q : most(above_was_q, columns_q)));
        if (row_known_q) assert (row_q == (led_q.next_h ? columns_q : rows_q_q));
      end

      // What a user sees
      if (led_here_q[3] && rows_known_q) assert (word(d_beat_q) == rows_q_q);
      if (d_valid_q) assert (fits);
      if (room_q) assert (32'(stored_q) <= Depth - Steps - 2 + 1);  // one may have come since
      assert (32'(stored_q) + 32'(a_valid_q) + 32'(b_valid_q) + 32'(c_valid_q) + 32'(d_valid_q) <= Depth);
      if (kernel == '0) assert (pooled_valid_o == beat_valid_i && pooled_o == beat_i && beat_ready_o == pooled_ready_i && !give);
      else assert (beat_ready_o == give && pooled_valid_o == left_valid && pooled_o == left && (!give || beat_valid_i));
    end
  end
`ifdef COVER
  logic signed [15:0] was_q;
  always_ff @(posedge clk_i) if (leads) was_q <= word(beat_i);
  always_comb begin
    cover (past_q && led_here_q[3] && rows_known_q && leaves_q[3] && !led_q.fresh_h && !led_q.fresh_w && rows_q_q > columns_q && columns_q > was_q);
    cover (past_q && led_here_q[3] && rows_known_q && !led_q.fresh_h && rows_q_q == columns_q && columns_q != above_was_q);
    cover (past_q && stored_q == LevelWidth'(Depth));
    cover (past_q && kernel == '0 && pooled_valid_o && pooled_ready_i);
  end
`endif
`endif
