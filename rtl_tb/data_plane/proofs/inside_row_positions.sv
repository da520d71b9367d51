// Inside fluidnpu_row_walker with a filter, from any position of a map of any size, in full width: the walk goes to
// the next position of the row, of the rows below or of the next sample (ADR 70); a step is taken behind a row or
// column in which a window leaves; those are told, and so is what lies outside the map. Positions that are no pixel
// leave lane and beat where they are: they belong to the pixel before them.
`ifdef FORMAL
  (* anyconst *) logic [15:0] h, w, high, wide;  // of the map, of the positions
  (* anyconst *) logic [2:0]  kernel, top, left;
  (* anyconst *) logic        two;               // the stride
  (* anyconst *) logic        by_rows;
  (* anyconst *) logic [4:0]  samples;
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // Positions from here to the next in which a window leaves.
  function automatic logic [16:0] until_one(logic [15:0] at, logic [2:0] before);
    logic [16:0] first;
    first = 17'(kernel) - 17'd1 - 17'(before);
    until_one = 17'(at) < first ? first - 17'(at) : two && (at[0] ^ first[0]) ? 17'd1 : 17'd0;
  endfunction
  function automatic logic within(place_t place);
    within = place.column < wide && place.row < high
        && place.last_column == (17'(place.column) + 17'd1 == 17'(wide)) && place.last_row == (17'(place.row) + 17'd1 == 17'(high))
        && place.first_column == (place.column == '0) && place.first_row == (place.row == '0)
        && 17'(place.skip_w) == until_one(place.column, left) && 17'(place.skip_h) == until_one(place.row, top)
        && place.full_w == (place.skip_w == '0) && place.full_h == (place.skip_h == '0)
        && place.beyond_w == (place.column >= w) && place.beyond_h == (place.row >= h)
        && place.past_w == (17'(place.column) + 17'd1 >= 17'(w)) && place.past_h == (17'(place.row) + 17'd1 >= 17'(h));
  endfunction
  function automatic logic pixel(place_t place);
    pixel = place.column < w && place.row < h;
  endfunction

  logic        walked_q = 1'b0, more_q, lane_was_q;
  logic [15:0] beat_was_q;
  always_ff @(posedge clk_i) begin
    walked_q   <= rst_ni && step;
    more_q     <= more;
    beat_was_q <= beat_q;
    lane_was_q <= lane_q;
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (layer_i.filter_kernel == 4'(kernel) && layer_i.filter_stride == {two, !two});
    assume (layer_i.filter_top == top && layer_i.filter_left == left && layer_i.walk_h == high && layer_i.walk_w == wide);
    assume (layer_i.out_h == h && layer_i.out_w == w && !layer_i.sample_lanes && layer_i.row_lanes == by_rows && layer_i.b_r == samples);
    assume (kernel >= 3'd2 && top < kernel && left < kernel && h != '0 && w >= 16'd4 && high >= h && wide >= w);
    assume (17'(high) < 17'(h) + 17'(kernel) && 17'(wide) < 17'(w) + 17'(kernel));
    assume (pool_i == '0 && !row_both_i && 32'(sample) < BMax);  // the proof `rows`
    if (pass_valid_i) assume (pass_i.beats != '0 && pass_i.lane1_beats <= (by_rows ? pass_i.beats : 16'd0));
    if (past_q) begin
      assert (within(start_q) && pixel(start_q));
      if (walked_q && more_q) assert (active_q && beat_q == beat_was_q && lane_q == lane_was_q && !pixel(place_q));
      if (active_q) begin
        assert (within(place_q) && beat_q < beats_q && lane1_beats_q <= beats_q && (by_rows || lane1_beats_q == '0));
        assert (last_beat_q == (17'(beat_q) + 17'd1 == 17'(beats_q)) && two_lanes_q == (beat_q < lane1_beats_q));
        assert (behind.sample == place_q.sample ? more == !pixel(behind) : !more && pixel(behind));
        assert (row_o.ends_pass == (row_ends_beat_o && last_beat_q && !more));
        assert (row_pooling_o.ends_w == (until_one(place_q.column, left) == '0) && row_pooling_o.ends_h == (until_one(place_q.row, top) == '0));
        assert (row_filtering_o.first_w == (place_q.column == '0) && row_filtering_o.first_h == (place_q.row == '0));
        assert (row_filtering_o.beyond_w == (place_q.column >= w) && row_filtering_o.beyond_h == (place_q.row >= h));
        assert (row_filtering_o.last == (row_pooling_o.ends_w && row_pooling_o.ends_h && place_q.sample + 5'd1 == samples
            && 17'(place_q.column) + 17'd1 + 17'(two) >= 17'(wide) && 17'(place_q.row) + 17'd1 + 17'(two) >= 17'(high)));
        if (17'(place_q.column) + 17'd1 < 17'(wide)) begin
          assert (behind.column == place_q.column + 16'd1 && behind.row == place_q.row && behind.sample == place_q.sample);
          assert (behind.offset == place_q.offset + (row_pooling_o.ends_w ? steps_i.step_w : 32'd0) && behind.row_offset == place_q.row_offset);
        end else if (17'(place_q.row) + 17'd1 < 17'(high)) begin
          assert (behind.column == '0 && behind.row == place_q.row + 16'd1 && behind.sample == place_q.sample);
          assert (behind.row_offset == place_q.row_offset + (row_pooling_o.ends_h ? steps_i.step_h : 32'd0) && behind.offset == behind.row_offset);
        end else begin
          assert (behind.column == '0 && behind.row == '0 && behind.sample == place_q.sample + 5'd1);
          assert (behind.row_offset == '0 && behind.offset == '0);
        end
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && step && place_q.row >= h && place_q.column == 16'd2 && two);
    cover (past_q && step && row_filtering_o.last && wide > w && lane_q);
    cover (past_q && step && place_q.sample == 5'd1);
  end
`endif
`endif
