// Inside fluidnpu_row_buffer, whatever segments come, whatever memory answers and whenever a reset drops what
// is under way: a word of a beat that no segment of this very beat covers is zero. In a max pool a word is
// the largest of those that its segments put there.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // Which words of the beat that is being put together were covered.
  logic [1:0][InWords-1:0] by;  // each of the segments at hand
  logic [InWords-1:0]      was_q, now;
  always_comb begin
    by = '0;
    for (int unsigned s = 0; s < 2; s++) begin
      for (int unsigned i = 0; i < InWords; i++) begin
        by[s][i] = (s == 0 || s1_two_q) && i >= 32'(s1_place_q[s]) && i < 32'(s1_place_q[s]) + 32'(s1_words_q[s]);
      end
    end
    now = by[0] | by[1];
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) was_q <= '0;
    else if (s1_valid_q) was_q <= s1_ends_q ? '0 : was_q | now;
  end

  // What some word of the beat is given.
  (* anyconst *) logic [$clog2(InWords)-1:0] spot;
  logic [1:0][15:0]   given;
  logic signed [15:0] kept, becomes;
  for (genvar s = 0; s < 2; s++) begin : gen_given
    assign given[s] = 16'(cut[s] >> {32'(spot) - 32'(s1_place_q[s]), 4'd0});
  end
  assign kept    = part_q[spot*16+:16];
  assign becomes = beat_d[spot*16+:16];

  // The queue of beats tells its level (the proof `fifo`).
  logic [7:0] beats_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) beats_q <= '0;
    else beats_q <= beats_q + 8'(s1_valid_q && s1_ends_q) - 8'(beat_valid_o && beat_ready_i);
  end

  always_comb begin
    if (!past_q) assume (!rst_ni);
    assume (segment_words_i != '0 && 32'(segment_words_i) <= LineWords && !segment_addr_i[0]);
    assume (32'(segment_place_i) + 32'(segment_words_i) <= InWords);
    if (second_valid_i) assume (second_words_i != '0 && 32'(second_words_i) <= LineWords && !second_addr_i[0]);
    if (second_valid_i) assume (32'(second_place_i) + 32'(second_words_i) <= InWords);
    // Shown by the proof `buffer`
    assume (!ask || at[PortBits-1:0] == addr[PortBits-1:0]);
    assume (!segment_valid_i || there || more[segment_lane_i] || asked_q[segment_lane_i] != loaded_q[segment_lane_i]);
    if (past_q) begin
      assume (beat_valid_o == (beats_q != '0) && 8'(beat_level) == beats_q && out_ready == (32'(beats_q) < BeatQueue));
      if (s1_valid_q) assert (32'(s1_place_q[0]) + 32'(s1_words_q[0]) <= InWords);
      if (s1_valid_q && s1_two_q) assert (32'(s1_place_q[1]) + 32'(s1_words_q[1]) <= InWords);
      assert (covered_q == was_q);
      assert (32'(beats_q) + 32'(s1_valid_q) <= BeatQueue);
      for (int unsigned i = 0; i < InWords; i++) begin
        if (!was_q[i]) assert (part_q[i*16+:16] == 16'd0);
        if (s1_valid_q && !was_q[i] && !now[i]) assert (beat_d[i*16+:16] == 16'd0);
      end
      if (s1_valid_q && maximum) begin
        if (was_q[spot]) assert (becomes >= kept);
        if (by[0][spot]) assert (becomes >= $signed(given[0]));
        if (by[1][spot]) assert (becomes >= $signed(given[1]));
        if (was_q[spot] || now[spot]) begin
          assert ((was_q[spot] && becomes == kept) || (by[0][spot] && becomes == $signed(given[0])) || (by[1][spot] && becomes == $signed(given[1])));
        end
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && beat_valid_o && beat_ready_i);
    cover (past_q && s1_valid_q && s1_ends_q && was_q != '0 && !(&(was_q | now)));
    cover (past_q && s1_valid_q && s1_two_q && s1_ends_q && by[0] != by[1] && was_q == '0);
    cover (past_q && s1_valid_q && s1_two_q && maximum && by[0][spot] && by[1][spot] && given[0][15] && !given[1][15]);
  end
`endif
`endif
