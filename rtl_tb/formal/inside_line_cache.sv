// Inside fluidnpu_line_cache, whatever segments come and whatever memory answers: a fill waits only for segments whose own lines came before it, so
// whenever a segment waits for data the cache takes data. Numbers are kept relative here: to the segment served next, to the line that comes next.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // The queues, by the contract that the proof `fifo` shows, oldest first.
  logic signed [7:0] need_q [Ahead];  // of a segment: lines still to come before it can be served
  logic signed [7:0] asker_q [Ahead]; // of a fill: place of the segment that asked for it; 0 is served next
  logic signed [7:0] age_q [Ahead];   // and how many segments before that one the segment stood that it may wait for
  logic              waits_q [Ahead];
  logic signed [7:0] waiting_q, wanted_q, beats_q, more, less, leaves;
  assign more   = {7'd0, fill_push};
  assign less   = {7'd0, fill_pop};
  assign leaves = {7'd0, serve_pop};
  always_ff @(posedge clk_i) begin
    for (int i = 0; i < Ahead; i++) begin
      need_q[i] <= (serve_pop && i + 1 < Ahead ? need_q[(i+1)%Ahead] : need_q[i]) - less;
      if (done && 8'(i) == waiting_q - leaves) need_q[i] <= wanted_q + more - less;
      asker_q[i] <= (fill_pop && i + 1 < Ahead ? asker_q[(i+1)%Ahead] : asker_q[i]) - leaves;
      age_q[i]   <= fill_pop && i + 1 < Ahead ? age_q[(i+1)%Ahead] : age_q[i];
      waits_q[i] <= fill_pop && i + 1 < Ahead ? waits_q[(i+1)%Ahead] : waits_q[i];
      if (fill_push && 8'(i) == wanted_q - less) begin
        asker_q[i] <= waiting_q - leaves;
        age_q[i]   <= 8'(number_q - fill.used);
        waits_q[i] <= fill.wait_use;
      end
    end
    if (!rst_ni || flush_i) begin
      waiting_q <= '0;
      wanted_q  <= '0;
      beats_q   <= '0;
    end else begin
      waiting_q <= waiting_q + {7'd0, done} - leaves;
      wanted_q  <= wanted_q + more - less;
      beats_q   <= beats_q + {7'd0, s1_valid_q && s1_ends_q} - {7'd0, beat_valid_o && beat_ready_i};
    end
  end
  function automatic logic [15:0] wide(logic signed [7:0] value);
    wide = {{8{value[7]}}, value};
  endfunction
  logic signed [7:0] asked;  // lines that the segment at hand has asked for already
  assign asked = valid_q ? {7'd0, asked_q[0]} + {7'd0, asked_q[1]} : 8'sd0;

  always_comb begin
    assume (rst_ni == past_q);
    assume (!(s1_valid_q && 32'(s1_place_q) + 32'(s1_words_q) > InWords));  // shown by the proof `guard`
    assume (segment_words_i != '0 && 32'(segment_words_i) <= LineWords && !segment_addr_i[0]);
    assume (32'(segment_place_i) + 32'(segment_words_i) <= InWords);
    if (past_q) begin
      assume (serve_valid == (waiting_q != '0) && serve_ready == (waiting_q != 8'(Ahead)));
      assume (fill_valid == (wanted_q != '0) && fill_ready == (wanted_q != 8'(Ahead)));
      assume (beat_valid_o == (beats_q != '0) && 8'(beat_level) == beats_q && out_ready == (beats_q != 8'(BeatQueue)));
      if (serve_valid) assume (serve.fills == filled_q + wide(need_q[0]));
      if (fill_valid) assume (fill_head.used == served_q + wide(asker_q[0]) - wide(age_q[0]) && fill_head.wait_use == waits_q[0]);

      // Books
      assert (16'(number_q - served_q) == wide(waiting_q) && waiting_q >= 0 && waiting_q <= 8'(Ahead));
      assert (16'(fills_q - filled_q) == wide(wanted_q) && wanted_q >= 0 && wanted_q <= 8'(Ahead));
      assert (beats_q >= 0 && beats_q + {7'd0, s1_valid_q} <= 8'(BeatQueue));
      for (int i = 0; i < Ahead; i++) begin
        if (8'(i) < waiting_q) begin
          assert (need_q[i] <= wanted_q);
          assert (need_q[i] + ((waiting_q - 8'sd1 - 8'(i)) <<< 1) + asked >= wanted_q);
          if (i != 0) assert (need_q[(i+Ahead-1)%Ahead] <= need_q[i]);
        end
        if (8'(i) < wanted_q) begin
          // Who asked is still here: at hand, or waiting for this very line.
          assert (asker_q[i] >= 0 && asker_q[i] <= waiting_q);
          if (asker_q[i] == waiting_q) assert (valid_q);
          for (int j = 0; j < Ahead; j++) if (8'(j) < waiting_q && asker_q[i] == 8'(j)) assert (need_q[j] > 8'(i));
          // It may wait for an older segment only; if that one still waits, all its lines stand before this one.
          if (waits_q[i]) begin
            assert (age_q[i] >= 8'sd1 && age_q[i] <= 8'(Ahead + 4));
            for (int j = 0; j < Ahead; j++) if (8'(j) < waiting_q && asker_q[i] - age_q[i] == 8'(j)) assert (need_q[j] <= 8'(i));
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
