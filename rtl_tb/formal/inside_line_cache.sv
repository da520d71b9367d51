// Inside fluidnpu_line_cache, whatever segments come and whatever memory answers: a fill waits only for segments whose own lines came before it, so whenever a segment waits for data the cache takes data.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // The queues, by the contract that the proof `fifo` shows: numbers of their entries, oldest first.
  logic [15:0] after_q [Ahead];  // of a segment: lines that must have arrived
  logic [15:0] used_q [Ahead];   // of a fill: the segment it may wait for
  logic [15:0] asker_q [Ahead];  // and the one that asked for it
  logic        waits_q [Ahead];
  logic [7:0]  waiting_q, wanted_q, beats_q;
  logic        beat_push;
  assign beat_push = s1_valid_q && s1_ends_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Ahead; i++) begin
      if (serve_pop && i + 1 < Ahead) after_q[i] <= after_q[i+1];
      if (done && i + 32'(serve_pop) == 32'(waiting_q)) after_q[i] <= serve_in.fills;
      if (fill_pop && i + 1 < Ahead) begin
        used_q[i]  <= used_q[i+1];
        waits_q[i] <= waits_q[i+1];
        asker_q[i] <= asker_q[i+1];
      end
      if (fill_push && i + 32'(fill_pop) == 32'(wanted_q)) begin
        used_q[i]  <= fill.used;
        waits_q[i] <= fill.wait_use;
        asker_q[i] <= number_q;
      end
    end
    if (!rst_ni || flush_i) begin
      waiting_q <= '0;
      wanted_q  <= '0;
      beats_q   <= '0;
    end else begin
      waiting_q <= waiting_q + 8'(done) - 8'(serve_pop);
      wanted_q  <= wanted_q + 8'(fill_push) - 8'(fill_pop);
      beats_q   <= beats_q + 8'(beat_push) - 8'(beat_valid_o && beat_ready_i);
    end
  end
  function automatic logic older(logic [15:0] a, logic [15:0] b);  // a is not after b
    older = $signed(b - a) >= 0;
  endfunction

  always_comb begin
    assume (rst_ni == past_q);
    assume (!(s1_valid_q && 32'(s1_place_q) + 32'(s1_words_q) > InWords));  // shown by the proof `guard`
    assume (segment_words_i != '0 && 32'(segment_words_i) <= LineWords && !segment_addr_i[0]);
    assume (32'(segment_place_i) + 32'(segment_words_i) <= InWords);
    if (past_q) begin
      assume (serve_valid == (waiting_q != '0) && serve_ready == (32'(waiting_q) < Ahead));
      assume (fill_valid == (wanted_q != '0) && fill_ready == (32'(wanted_q) < Ahead));
      assume (beat_valid_o == (beats_q != '0) && 8'(beat_level) == beats_q && out_ready == (32'(beats_q) < BeatQueue));
      if (serve_valid) assume (serve.fills == after_q[0]);
      if (fill_valid) assume (fill_head.used == used_q[0] && fill_head.wait_use == waits_q[0]);

      // Books
      assert (32'(waiting_q) == 32'(16'(number_q - served_q)) && 32'(waiting_q) <= Ahead);
      assert (32'(wanted_q) == 32'(16'(fills_q - filled_q)) && 32'(wanted_q) <= Ahead);
      assert (32'(beats_q) + 32'(s1_valid_q) <= BeatQueue);
      for (int unsigned i = 0; i < Ahead; i++) begin
        if (i < 32'(waiting_q)) begin
          assert (older(after_q[i], fills_q));
          assert (16'(fills_q - after_q[i]) <= 16'((waiting_q - 8'd1 - 8'(i)) << 1) + (valid_q ? 16'(asked_q[0]) + 16'(asked_q[1]) : 16'd0));
          if (i != 0) assert (older(after_q[i-1], after_q[i]));
        end
        // A fill waits for an older segment only; if that one still waits, all its lines stand before this one.
        if (i < 32'(wanted_q)) begin
          assert (16'(number_q - asker_q[i]) <= 16'(waiting_q));
          if (number_q == asker_q[i]) assert (valid_q);
          for (int unsigned j = 0; j < Ahead; j++) begin
            if (j < 32'(waiting_q) && asker_q[i] == served_q + 16'(j)) assert (older(filled_q + 16'(i) + 16'd1, after_q[j]));
          end
        end
        if (i < 32'(wanted_q) && waits_q[i]) begin
          assert (16'(asker_q[i] - used_q[i] - 16'd1) < 16'(Ahead + 4));
          for (int unsigned j = 0; j < Ahead; j++) begin
            if (j < 32'(waiting_q) && used_q[i] == served_q + 16'(j)) assert (older(after_q[j], filled_q + 16'(i)));
          end
        end
      end

      // Progress: data that are waited for are taken, and whatever stands still waits for a queue that moves.
      if (serve_valid && beat_room && !read_go) assert (data_ready_o);
      if (fill_valid && !serve_valid) assert (data_ready_o);
      if (valid_q && !done && !fetch_valid_o) assert (serve_valid || fill_valid);
    end
  end
`endif
