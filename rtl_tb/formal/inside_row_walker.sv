// Inside fluidnpu_row_walker: for any small layer, any lanes and any passes that stay within the layer's rows, every address is that of a row of
// an active sample: slot + shift + y * step_h + x * step_w with y < out_h, x < out_w. So no row of one sample ever leads into another's slot.
`ifdef FORMAL
  (* anyconst *) logic [1:0]  h, w;
  (* anyconst *) logic [1:0]  samples, stacked;  // B_act and b_r
  (* anyconst *) logic        by_rows, by_samples;
  (* anyconst *) logic [9:0]  step_h_small, step_w_small;
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

  function automatic logic sound(place_t place);
    sound = place.column < 16'(w) && place.row < 16'(h) && place.sample <= 5'(samples)
        && place.row_offset == steps(step_h, place.row[1:0]) && place.offset == place.row_offset + steps(step_w, place.column[1:0]);
  endfunction

  // Where the next pass begins, and what a sequencer may ask of it.
  logic [7:0] from, left1;
  assign from  = step && ends_pass && commit_q ? index(next) : index(start_q);
  assign left1 = total1 > from ? total1 - from : 8'd0;
  always_comb begin
    assume (rst_ni == past_q);
    assume (h != '0 && w != '0 && samples != '0 && 32'(samples) <= BMax && stacked != '0 && stacked <= samples);
    assume (!(by_rows && by_samples) && (by_samples || stacked == samples) && {stacked, 1'b0} >= {1'b0, samples});
    assume (out_h_i == 16'(h) && out_w_i == 16'(w) && b_r_i == 5'(stacked) && row_lanes_i == by_rows && sample_lanes_i == by_samples);
    assume (step_h_i == step_h && step_w_i == step_w);
    if (layer_start_i) assume (!active_q && !pass_valid_i);
    if (pass_valid_i) begin
      assume (beats_i != '0 && beats_i < 16'd64);
      if (by_rows) begin
        assume (lane1_beats_i <= beats_i && lane1_beats_i + 16'd1 >= beats_i);
        assume (16'(from) + beats_i + lane1_beats_i <= 16'(total0));
      end else begin
        assume (16'(from) + beats_i <= 16'(total0));
        assume (lane1_beats_i == (16'(left1) < beats_i ? 16'(left1) : beats_i));
      end
    end
  end

  logic [7:0] begun;
  assign begun = index(start_q);
  always_comb begin
    if (past_q) begin
      assert (sound(start_q) && begun <= total0);
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
        assert (sample < 5'(samples) && 32'(sample) < BMax);
        assert (row_addr_o == slot_i[sample[SampleWidth-1:0]] + fluidnpu_pkg::AddrWidth'(place_q.offset)
            + fluidnpu_pkg::AddrWidth'(shift_q));
      end
    end
  end
`endif
