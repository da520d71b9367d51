// Inside fluidnpu_row_buffer, whatever segments come, whatever memory answers and whenever a reset drops what is under way: a word of a beat that no
// segment of this very beat covers is zero.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // Which words of the beat that is being put together were covered.
  logic [InWords-1:0] covered_q, now;
  always_comb begin
    now = '0;
    for (int unsigned i = 0; i < InWords; i++) now[i] = i >= 32'(s1_place_q) && i < 32'(s1_place_q) + 32'(s1_words_q);
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) covered_q <= '0;
    else if (s1_valid_q) covered_q <= s1_ends_q ? '0 : covered_q | now;
  end

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
    // Shown by the proof `buffer`
    assume (!ask || at[PortBits-1:0] == addr[PortBits-1:0]);
    assume (!segment_valid_i || there || more[segment_lane_i] || asked_q[segment_lane_i] != loaded_q[segment_lane_i]);
    if (past_q) begin
      assume (beat_valid_o == (beats_q != '0) && 8'(beat_level) == beats_q && out_ready == (32'(beats_q) < BeatQueue));
      if (s1_valid_q) assert (32'(s1_place_q) + 32'(s1_words_q) <= InWords);
      assert (32'(beats_q) + 32'(s1_valid_q) <= BeatQueue);
      for (int unsigned i = 0; i < InWords; i++) begin
        if (!covered_q[i]) assert (part_q[i*16+:16] == 16'd0);
        if (s1_valid_q && !covered_q[i] && !now[i]) assert (beat_d[i*16+:16] == 16'd0);
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && beat_valid_o && beat_ready_i);
    cover (past_q && s1_valid_q && s1_ends_q && covered_q != '0 && !(&(covered_q | now)));
  end
`endif
`endif
