// Inside fluidnpu_output_filter_bytes, for any products and any results of core_scale: an arbitrary multiplier gets its
// tap and its weight; the sum of a step is that of its products; that of a window begins with the bias of its first
// step, and goes to core_scale with the multiplier of that step, three and four cycles before its shift. What comes
// back leaves four cycles later, limited, and is told where int8 cannot hold it.
`ifdef FORMAL
  logic past_q = 1'b0;
  logic [11:0] known_q = '0;  // as many cycles lie behind
  always_ff @(posedge clk_i) begin
    past_q  <= 1'b1;
    known_q <= {known_q[10:0], 1'b1};
  end

  (* anyconst *) logic signed [7:0] low, high;
  always_comb assume (lo_i == low && hi_i == high && low <= high);

  // The sum of the products at hand, four cycles ago
  logic signed [31:0]      total_8;
  logic signed [3:0][31:0] total_q;
  always_comb begin
    total_8 = '0;
    for (int unsigned m = 0; m < Taps; m++) total_8 = total_8 + 32'($signed(products_8[m]));
  end

  // What came with a step, as late as its sum
  logic [6:0][15:0]   bias_low_q;
  logic [15:0]        bias_high_q;
  logic [16:0]        by_q, by_13_q;
  logic [5:0]         places_q;
  logic [4:0][5:0]    places_13_q;
  logic signed [31:0] window_q;
  logic               first;
  assign first = !Several || first_i;
  always_ff @(posedge clk_i) begin
    total_q     <= {total_q[2:0], total_8};
    bias_low_q  <= {bias_low_q[5:0], constants_i[2][31:16]};
    bias_high_q <= constants_i[3][15:0];
    by_q        <= {constants_i[4][0], constants_i[3][31:16]};
    places_q    <= constants_i[4][13:8];
    window_q    <= total_q[3] + (first ? {bias_high_q, bias_low_q[6]} : window_q);
    by_13_q     <= first ? by_q : by_13_q;
    places_13_q <= {places_13_q[3:0], first ? places_q : places_13_q[0]};
  end
  logic begun_q = 1'b0;  // a first step was met when all was known
  always_ff @(posedge clk_i) if (known_q[6] && first) begun_q <= 1'b1;
  logic [4:0] begun_at_q = '0;
  always_ff @(posedge clk_i) begun_at_q <= {begun_at_q[3:0], begun_q || (known_q[6] && first)};

  // A tap and its weight
  logic [Taps-1:0][7:0] taps_were_q, weights_were_q;
  always_ff @(posedge clk_i) begin
    taps_were_q    <= {taps_i[0], taps_i[Taps-1:1]};
    weights_were_q <= {constants_i[2][7:0], constants_i[1], constants_i[0]};
  end

  // What leaves
  logic signed [3:0][31:0] result_q;
  always_ff @(posedge clk_i) result_q <= {result_q[2:0], scaled_19};

  always_comb begin
    if (past_q) begin
      assert (gen_tap[0].tap_6_q == taps_were_q[0] && gen_tap[0].weight_6_q == weights_were_q[0]);
      assert (gen_tap[3].tap_6_q == taps_were_q[3] && gen_tap[3].weight_6_q == weights_were_q[3]);
      assert (gen_tap[4].tap_6_q == taps_were_q[4] && gen_tap[4].weight_6_q == weights_were_q[4]);
      assert (gen_tap[8].tap_6_q == taps_were_q[8] && gen_tap[8].weight_6_q == weights_were_q[8]);
    end
    assert ((known_q & (known_q + 12'd1)) == '0 && (begun_at_q & (begun_at_q + 5'd1)) == '0);
    if (begun_at_q[0]) assert (begun_q && known_q[7]);
    if (begun_q) assert (known_q[7] && begun_at_q[0]);
    // The sum of a step, and its bias, step by step
    if (known_q[0]) assert (32'($signed(twos_9_q[0])) + 32'($signed(twos_9_q[1])) + 32'($signed(twos_9_q[2])) + 32'($signed(twos_9_q[3]))
        + 32'($signed(last_q[0])) == total_q[0]);
    if (known_q[1]) assert (32'($signed(fours_10_q[0])) + 32'($signed(fours_10_q[1])) + 32'($signed(last_q[1])) == total_q[1]);
    if (known_q[2]) assert (32'(eight_11_q) + 32'($signed(last_q[2])) == total_q[2]);
    if (known_q[3]) assert (32'(step_12_q) == total_q[3]);
    for (int unsigned i = 0; i < 6; i++) if (known_q[i]) assert (low_q[6+i] == bias_low_q[i]);
    if (known_q[6]) assert (low_12_q == bias_low_q[6]);
    if (known_q[0]) assert (high_12_q == bias_high_q && multiplier_12_q == by_q && shift_12_q == places_q);
    if (begun_at_q[0]) assert (sum_13_q == window_q && multiplier_13_q == by_13_q);
    for (int unsigned i = 0; i < 5; i++) if (begun_at_q[i]) assert (shift_q[13+i] == places_13_q[i]);
    // The word
    if (known_q[0]) assert (over_20_q == ($signed(result_q[0]) < -128 || $signed(result_q[0]) > 127) && negative_20_q == result_q[0][31] && word_20_q == result_q[0][7:0]);
    for (int unsigned i = 0; i <= Late; i++) begin
      if (known_q[1+i]) begin
        assert (saturated_q[i] == ($signed(result_q[1+i]) < -128 || $signed(result_q[1+i]) > 127));
        assert ($signed(word_q[i]) == ($signed(result_q[1+i]) < 32'(low) ? low : $signed(result_q[1+i]) > 32'(high) ? high : 8'(result_q[1+i])));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (begun_at_q[4] && !first && sum_13_q == 32'd5 && multiplier_13_q == 17'd9);
    cover (known_q[3] && saturated_o && word_o == 8'd77);
  end
`endif
`endif
