// Inside fluidnpu_line_cache, whatever segments come and whatever memory answers: a word of a beat that no segment of this very beat covers is zero.
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
    if (!rst_ni || flush_i) covered_q <= '0;
    else if (s1_valid_q) covered_q <= s1_ends_q ? '0 : covered_q | now;
  end

  // Segments leave the queue as they went in (the proof `fifo`), and the queue of beats tells its level.
  logic [7:0] beats_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) beats_q <= '0;
    else beats_q <= beats_q + 8'(s1_valid_q && s1_ends_q) - 8'(beat_valid_o && beat_ready_i);
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (segment_words_i != '0 && 32'(segment_words_i) <= LineWords && !segment_addr_i[0]);
    assume (32'(segment_place_i) + 32'(segment_words_i) <= InWords);
    if (past_q) begin
      if (serve_valid) assume (32'(serve.place) + 32'(serve.words) <= InWords);
      assume (beat_valid_o == (beats_q != '0) && 8'(beat_level) == beats_q && out_ready == (32'(beats_q) < BeatQueue));
      if (done) assert (32'(serve_in.place) + 32'(serve_in.words) <= InWords);
      if (valid_q) assert (32'(segment_q.place) + 32'(segment_q.words) <= InWords);
      if (s1_valid_q) assert (32'(s1_place_q) + 32'(s1_words_q) <= InWords);
      assert (32'(beats_q) + 32'(s1_valid_q) <= BeatQueue);
      for (int unsigned i = 0; i < InWords; i++) begin
        if (!covered_q[i]) assert (beat_q[i*16+:16] == 16'd0);
        if (s1_valid_q && !covered_q[i] && !now[i]) assert (beat_d[i*16+:16] == 16'd0);
      end
    end
  end
`endif
