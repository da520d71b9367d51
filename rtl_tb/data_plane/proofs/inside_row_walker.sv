// Inside fluidnpu_row_walker: for any small layer, any lanes and any passes that stay within the layer's
// rows, every row is one of an active sample, at shift + y * step_h + x * step_w with y < out_h, x < out_w,
// so none ever leads into another slot; its window begins at input row index * sample_rows + y * rise of its
// lane; and no row of a pass lies above the start that was told. What is told of the other row of a beat is
// just what that row will be when it comes by itself, and the walk goes on behind both when both are taken. A
// row at hand stays until it is taken.
`ifdef FORMAL
  (* anyconst *) logic [1:0]  h, w;
  (* anyconst *) logic [1:0]  samples, stacked;  // B_act and b_r
  (* anyconst *) logic        by_rows, by_samples;
  (* anyconst *) logic [7:0]  step_h_small, step_w_small;
  (* anyconst *) logic [3:0]  rise_small, span_small;
  logic [31:0] step_h, step_w;
  assign step_h = 32'(step_h_small);
  assign step_w = 32'(step_w_small);
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  logic [7:0] image, total0, total1;  // rows of a sample, of lane 0, of lane 1
  function automatic logic [7:0] times(logic [7:0] value, logic [1:0] by);
    times = (by[0] ? value : 8'd0) + (by[1] ? value << 1 : 8'd0);
  endfunction
  function automatic logic [31:0] steps(logic [31:0] step, logic [1:0] by);
    steps = (by[0] ? step : 32'd0) + (by[1] ? step << 1 : 32'd0);
  endfunction
  function automatic logic [7:0] index(place_t place);
    index = times(image, place.sample[1:0]) + times({6'd0, w}, place.row[1:0]) + 8'(place.column[1:0]);
  endfunction
  assign image  = times({6'd0, w}, h);
  assign total0 = by_samples ? times(image, stacked) : times(image, samples);
  assign total1 = by_samples ? times(image, samples) - times(image, stacked) : 8'd0;
  logic [31:0] sample_rows;  // input rows that a sample's windows touch
  assign sample_rows = steps(32'(rise_small), h - 2'd1) + 32'(span_small);

  function automatic logic sound(place_t place);
    sound = place.column < 16'(w) && place.row < 16'(h) && place.sample <= 5'(samples)
        && place.row_offset == steps(step_h, place.row[1:0]) && place.offset == place.row_offset + steps(step_w, place.column[1:0])
        && 32'(place.top) == steps(sample_rows, place.sample[1:0]) + steps(32'(rise_small), place.row[1:0])
        && place.last_column == (place.column + 16'd1 == 16'(w)) && place.last_row == (place.row + 16'd1 == 16'(h))
        && place.first_column == (place.column == '0) && place.first_row == (place.row == '0) && place.full_w && place.full_h;
  endfunction

  // Where the next pass begins, and what a sequencer may ask of it.
  logic [7:0] from, left1;
  assign from  = step && ends_pass && commit_q ? index(next) : index(start_q);
  assign left1 = total1 > from ? total1 - from : 8'd0;
  always_comb begin
    assume (rst_ni == past_q);
    assume (h != '0 && w != '0 && samples != '0 && 32'(samples) <= BMax && stacked != '0 && stacked <= samples);
    assume (!(by_rows && by_samples) && (by_samples || stacked == samples) && {stacked, 1'b0} >= {1'b0, samples});
    assume (layer_i.out_h == 16'(h) && layer_i.out_w == 16'(w) && layer_i.b_r == 5'(stacked) && layer_i.row_lanes == by_rows && layer_i.sample_lanes == by_samples);
    assume (pool_i.kernel == '0);  // the proof `steps` has pools
    assume (steps_i.step_h == step_h && steps_i.step_w == step_w && steps_i.rise == 24'(rise_small) && steps_i.span == 24'(span_small));
    if (row_both_i) assume (row_valid_o && !row_ends_beat_o);
    if (layer_start_i) assume (!active_q && !pass_valid_i);
    if (pass_valid_i) begin
      assume (pass_i.beats != '0 && pass_i.beats < 16'd64);
      if (by_rows) begin
        assume (pass_i.lane1_beats <= pass_i.beats && pass_i.lane1_beats + 16'd1 >= pass_i.beats);
        assume (16'(from) + pass_i.beats + pass_i.lane1_beats <= 16'(total0));
      end else begin
        assume (16'(from) + pass_i.beats <= 16'(total0));
        assume (pass_i.lane1_beats == (16'(left1) < pass_i.beats ? 16'(left1) : pass_i.beats));
      end
    end
  end

  logic [1:0] lane_samples;  // samples of the lane at hand
  assign lane_samples = !by_samples ? samples : row_lane_o ? samples - stacked : stacked;

  // What was told before, for what must not change.
  logic [31:0] shift_is_q;
  logic [7:0]  begun, begun_q;
  logic        kept_q = 1'b0, fresh_q = 1'b0;
  place_t      told_q;
  logic [2*SampleWidth+58:0] at_hand, at_hand_q;
  logic [SampleWidth+56:0]   at_other, at_other_q, at_lane1;
  logic                      waits_q = 1'b0, alone_q = 1'b0;
  assign begun    = index(start_q);
  assign at_hand  = {row_sample_o, row_index_o, row_o.offset, row_o.top, row_lane_o, row_ends_beat_o, row_o.ends_pass};
  assign at_other = {other_index_o, other_o.offset, other_o.top, other_o.ends_pass};
  assign at_lane1 = {row_index_o, row_o.offset, row_o.top, row_o.ends_pass};
  always_ff @(posedge clk_i) begin
    if (pass_valid_i && pass_ready_o) shift_is_q <= pass_i.shift;
    begun_q <= begun;
    told_q  <= start_q;
    fresh_q <= rst_ni && pass_valid_i && pass_ready_o;
    kept_q  <= rst_ni && !layer_start_i;

    at_hand_q  <= at_hand;
    at_other_q <= at_other;
    waits_q    <= rst_ni && row_valid_o && !row_ready_i;
    alone_q    <= rst_ni && row_valid_o && row_ready_i && !row_ends_beat_o && !row_both_i;
  end

  always_comb begin
    if (past_q) begin
      assert (sound(start_q) && begun <= total0);
      if (start_q.sample < 5'(samples)) assert (32'(start_index_o) == 32'(start_q.sample) && start_offset_o == steps(step_h, start_q.row[1:0]));
      // The start goes on only, and only between passes; a pass begins there.
      if (kept_q) assert (begun >= begun_q);
      if (kept_q && active_q && !fresh_q) assert (told_q == start_q);
      if (fresh_q) assert (place_q == start_q);
      if (active_q) begin
        assert (beat_q < beats_q && lane1_beats_q <= beats_q && beats_q < 16'd64);
        assert (place_q.sample < 5'(samples) && sound(place_q));
        if (by_rows) begin
          assert (16'(index(place_q)) == 16'(begun) + (beat_q << 1) + 16'(lane_q));
          assert (16'(begun) + beats_q + lane1_beats_q <= 16'(total0) && lane1_beats_q + 16'd1 >= beats_q);
        end else begin
          assert (16'(index(place_q)) == 16'(begun) + beat_q);
          assert (16'(begun) + beats_q <= 16'(total0));
          if (lane1_beats_q != '0) assert (16'(begun) + lane1_beats_q <= 16'(total1));
        end
        if (lane_q) assert (beat_q < lane1_beats_q);
        assert (two_lanes_q == (beat_q < lane1_beats_q) && last_beat_q == (beat_q + 16'd1 == beats_q));
        assert (shift_q == shift_is_q);

        // What a user sees
        assert (32'(row_sample_o) == 32'(place_q.sample) + (by_samples && row_lane_o ? 32'(stacked) : 32'd0));
        assert (32'(row_sample_o) < 32'(samples) && 32'(row_sample_o) < BMax);
        assert (32'(row_index_o) == 32'(place_q.sample));
        assert (row_o.offset == shift_is_q + steps(step_h, place_q.row[1:0]) + steps(step_w, place_q.column[1:0]));
        assert (32'(row_o.top) == steps(sample_rows, row_index_o) + steps(32'(rise_small), place_q.row[1:0]));
        assert (32'(row_o.top) + 32'(span_small) <= steps(sample_rows, lane_samples));
        assert (row_index_o > start_index_o || (row_index_o == start_index_o && row_o.offset - shift_is_q >= start_offset_o));
        if (row_lane_o || lane1_beats_q == '0) assert (row_ends_beat_o);
      end
      if (waits_q) assert (row_valid_o && at_hand == at_hand_q && (row_ends_beat_o || at_other == at_other_q));
      // The other row of the beat is the row that comes next by itself, whenever it is told: all that is said
      // of a row above holds of it as well.
      if (alone_q) assert (row_valid_o && row_lane_o && at_lane1 == at_other_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && row_valid_o && lane_q && by_rows);
    cover (past_q && row_valid_o && lane_q && by_samples && row_sample_o == 2'd2);
    cover (past_q && active_q && place_q.sample == 5'd1 && by_rows);
    cover (past_q && active_q && start_q.row == 16'd1 && !by_rows && !by_samples);
    cover (past_q && step && row_both_i && by_rows && other.sample > place_q.sample && other_o.ends_pass);
    cover (past_q && step && row_both_i && by_samples && place_q.column == 16'd1);
    cover (past_q && alone_q && by_rows && row_o.ends_pass);
  end
`endif
`endif
