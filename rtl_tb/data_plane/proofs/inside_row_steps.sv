// Inside fluidnpu_row_walker: from any row of a layer of any size, in full width, the walk goes to the next
// pixel, to the next row or to the next sample, as its place in the image says. `rows` proves where a walk of
// steps leads, with images of a few pixels; this says that large ones take the same steps. With a pool a step
// is taken behind a row or column that is the last of a window, and what is told of windows is true of them.
`ifdef FORMAL
  (* anyconst *) logic [15:0] h, w;
  (* anyconst *) fluidnpu_pkg::pool_t pool;
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  function automatic logic within(place_t place);
    within = (place.full_w || place.last_column) == lasts(place.column, pool.left, w)
        && (place.full_h || place.last_row) == lasts(place.row, pool.top, h)
        && place.column < w && place.row < h
        && place.last_column == (17'(place.column) + 17'd1 == 17'(w)) && place.last_row == (17'(place.row) + 17'd1 == 17'(h))
        && place.first_column == (place.column == '0) && place.first_row == (place.row == '0);
  endfunction

  // Window j of a pool covers at + before in 2j .. 2j + kernel - 1, as far as the map goes.
  function automatic logic lasts(logic [15:0] at, logic before, logic [15:0] size);
    logic [17:0] from;  // 2j of a window whose last is this
    from = 18'(at) + 18'(before) + 18'd1 - 18'(pool.kernel);
    lasts = pool.kernel == '0 || 17'(at) + 17'd1 == 17'(size) || (!from[17] && !from[0]);
  endfunction
  // The oldest window with a row or column in it, 2j, counted from the first: none of it was there before.
  function automatic logic first_in(logic [15:0] at, logic before);
    logic [17:0] from;
    from  = 18'(at) + 18'(before);
    from  = from[0] ? from - 18'd1 : pool.kernel == 2'd3 && from != '0 ? from - 18'd2 : from;
    first_in = from >= 18'(at) + 18'(before) || at == '0;
  endfunction

  always_comb begin
    assume (rst_ni == past_q);
    assume (h != '0 && w != '0 && layer_i.out_h == h && layer_i.out_w == w);
    assume (pool.kernel != 2'd1 && pool_i == pool);
    assume (32'(sample) < BMax);  // the proof `rows`
    if (pass_valid_i) assume (pass_i.beats != '0 && pass_i.lane1_beats <= pass_i.beats);
    if (row_both_i) assume (row_valid_o && !row_ends_beat_o);
    if (past_q) begin
      assert (within(start_q));
      if (active_q) begin
        assert (row_pooling_o.ends_w == lasts(place_q.column, pool.left, w));
        assert (row_pooling_o.ends_h == lasts(place_q.row, pool.top, h));
        if (pool.kernel != '0) begin
          assert (row_pooling_o.fresh_w == first_in(place_q.column, pool.left) && row_pooling_o.fresh_h == first_in(place_q.row, pool.top));
          assert (row_pooling_o.next_w == !(place_q.column[0] ^ pool.left) && row_pooling_o.next_h == !(place_q.row[0] ^ pool.top));
        end
        assert (within(place_q) && beat_q < beats_q && lane1_beats_q <= beats_q);
        if (17'(place_q.column) + 17'd1 < 17'(w)) begin
          assert (behind.column == place_q.column + 16'd1 && behind.row == place_q.row && behind.sample == place_q.sample);
          assert (behind.offset == place_q.offset + (lasts(place_q.column, pool.left, w) ? steps_i.step_w : 32'd0) && behind.row_offset == place_q.row_offset && behind.top == place_q.top);
        end else if (17'(place_q.row) + 17'd1 < 17'(h)) begin
          assert (behind.column == '0 && behind.row == place_q.row + 16'd1 && behind.sample == place_q.sample);
          assert (behind.row_offset == place_q.row_offset + (lasts(place_q.row, pool.top, h) ? steps_i.step_h : 32'd0) && behind.offset == behind.row_offset);
          assert (behind.top == place_q.top + steps_i.rise);
        end else begin
          assert (behind.column == '0 && behind.row == '0 && behind.sample == place_q.sample + 5'd1);
          assert (behind.row_offset == '0 && behind.offset == '0 && behind.top == place_q.top + steps_i.span);
        end
        // A beat is counted in full width, too.
        assert (last_beat_q == (17'(beat_q) + 17'd1 == 17'(beats_q)) && two_lanes_q == (beat_q < lane1_beats_q));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && step && w == 16'd301 && place_q.column == 16'd2);
    cover (past_q && step && w == 16'd1 && h == 16'd300 && place_q.row == 16'd1);
    cover (past_q && step && w == 16'd1 && h == 16'd1 && place_q.sample == 5'd1);
  end
`endif
`endif
