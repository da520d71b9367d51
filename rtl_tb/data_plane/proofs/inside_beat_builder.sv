// Inside fluidnpu_beat_builder, whatever segments come and whenever a reset drops what is under way: any word
// of a beat is what its segments put there, of a max pool the largest, and zero where none covers it; the
// beat comes four cycles behind its last segment, and no other comes.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // What the segments at the ports give some word of the beat, and the same one step after another.
  (* anyconst *) logic [$clog2(InWords)-1:0] spot;
  logic [1:0]            covers;
  logic [1:0][15:0]      words;
  logic [3:0]            given_q, last_q;  // a segment, and that it ended its beat
  logic [3:0][1:0]       covers_of_q;
  logic [3:0][1:0][15:0] words_of_q;
  always_comb begin
    covers = '0;
    words  = '0;
    for (int unsigned s = 0; s < 2; s++) begin
      covers[s] = (s == 0 || two_i) && 32'(spot) >= 32'(place_i[s]) && 32'(spot) < 32'(place_i[s]) + 32'(words_i[s]);
      if (covers[s]) begin
        words[s] = 16'((odd_i[s] ? {lines_i[s][0], lines_i[s][1]} : {lines_i[s][1], lines_i[s][0]}) >> {32'(offset_i[s]) + 32'(spot) - 32'(place_i[s]), 4'd0});
      end
    end
  end

  // The word as it becomes, segment after segment.
  logic               was_q, is;
  logic signed [15:0] kept_q, becomes;
  always_comb begin
    is      = was_q;
    becomes = kept_q;
    for (int unsigned s = 0; s < 2; s++) begin
      if (covers_of_q[3][s]) begin
        if (!maximum_i) becomes = becomes | $signed(words_of_q[3][s]);
        else if (!is || $signed(words_of_q[3][s]) > becomes) becomes = $signed(words_of_q[3][s]);
        is = 1'b1;
      end
    end
  end
  always_ff @(posedge clk_i) begin
    last_q      <= {last_q[2:0], ends_i};
    covers_of_q <= {covers_of_q[2:0], covers};
    words_of_q  <= {words_of_q[2:0], words};
    if (!rst_ni) begin
      given_q <= '0;
      was_q   <= 1'b0;
      kept_q  <= '0;
    end else begin
      given_q <= {given_q[2:0], valid_i};
      if (given_q[3]) begin
        was_q  <= is && !last_q[3];
        kept_q <= last_q[3] ? '0 : becomes;
      end
    end
  end

  (* anyconst *) logic of_max_pool;
  always_comb begin
    if (!past_q) assume (!rst_ni);
    assume (maximum_i == of_max_pool);
    assume (words_i[0] != '0 && 32'(words_i[0]) <= LineWords && 32'(place_i[0]) + 32'(words_i[0]) <= InWords);
    assume (words_i[1] != '0 && 32'(words_i[1]) <= LineWords && 32'(place_i[1]) + 32'(words_i[1]) <= InWords);
    assume (32'(spot) < InWords);
    if (past_q) begin
      assert (beat_valid_o == (given_q[3] && last_q[3]));
      for (int i = 0; i < 4; i++) assert (valid_q[i] == given_q[i]);
      for (int i = 0; i < 4; i++) if (valid_q[i]) assert (ends_q[i] == last_q[i]);
      assert (covered_q[spot] == was_q && part_q[spot*16+:16] == kept_q && (was_q || kept_q == '0));
      if (valid_q[1]) assert (covers_q[0][spot] == covers_of_q[1][0] && covers_q[1][spot] == covers_of_q[1][1]);
      if (valid_q[2]) begin
        for (int s = 0; s < 2; s++) assert (placed_covers_q[s][spot] == covers_of_q[2][s] && placed_q[s][spot*16+:16] == words_of_q[2][s]);
      end
      if (valid_q[3]) begin
        assert (merged_covers_q[spot] == (covers_of_q[3] != '0));
        assert (beat_d[spot*16+:16] == becomes);
      end
      if (beat_valid_o) assert (beat_o[spot*16+:16] == becomes && (is || becomes == '0));
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && beat_valid_o && is && becomes != '0);
    cover (past_q && beat_valid_o && !is && part_q != '0);
    cover (past_q && valid_q[3] && covers_of_q[3] == 2'b11 && maximum_i && was_q);
    cover (past_q && beat_valid_o && valid_q[2:0] == 3'b111);
  end
`endif
`endif
