// Inside fluidnpu_output_filter_lane: for an arbitrary entry of each RAM, the column is the new word below what was kept
// there, or below zeros; the window is that column beside what was kept there, or beside zeros; and both keep what
// belongs to the next row and the next column. For an arbitrary tap of an arbitrary kernel and step the cascade gets
// the word of the definition, as late as its multiplier wants it, with the weight and the bias that were written there
// last; sums of several steps are added up.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  (* anyconst *) logic [RowWidth-1:0]    r;     // an entry of the rows
  (* anyconst *) logic [WindowWidth-1:0] k;     // an entry of the columns
  (* anyconst *) logic [WeightWidth:0]   at;    // a row of weights, and its bank
  always_comb assume (32'(r) < Rows && 32'(k) < Windows && 32'(row_i) < Rows && 32'(row_store_i) < Rows && 32'(window_i) < Windows);

  // What was kept at r, and what was there when it was read.
  logic [Column-17:0] rows_q, rows_2_q, rows_3_q, rows_4_q;
  logic               near_known_q = 1'b0, deep_known_q = 1'b0;
  logic [3:0]         met_q = '0, met_deep_q = '0;  // read at r, that long ago
  logic [15:0]        new_1_q, new_2_q, new_3_q;
  logic               no_rows_q;
  always_ff @(posedge clk_i) begin
    if (store_i && row_store_i == r) begin
      rows_q[31:0] <= column_4_q[31:0];
      near_known_q <= 1'b1;
    end
    if (store_deep_i && row_store_i == r) begin
      rows_q[Column-17:32] <= column_4_q[Column-17:32];
      deep_known_q         <= 1'b1;
    end
    met_q      <= {met_q[2:0], near_known_q && row_i == r};
    met_deep_q <= {met_deep_q[2:0], deep_known_q && row_i == r};
    rows_2_q   <= rows_q;
    rows_3_q   <= rows_2_q;
    rows_4_q   <= rows_3_q;
    new_1_q    <= word_i;
    new_2_q    <= new_1_q;
    new_3_q    <= new_2_q;
    no_rows_q  <= no_rows_i;
  end
  logic [2:0] old_q = '0;  // cycles since reset: a state before them is no run
  always_ff @(posedge clk_i) old_q <= {old_q[1:0], 1'b1};

  // What was kept at k, and the window made of it.
  logic [(Kernel-1)*Column-1:0] columns_at_q;
  logic [Kernel*Column-1:0]     window_q;
  logic                         columns_known_q = 1'b0, window_known_q = 1'b0, known_now;
  assign known_now = no_columns_i || (columns_known_q && window_i == k);
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      window_q       <= {no_columns_i ? '0 : columns_at_q, column_4_q};
      window_known_q <= known_now;
      if (window_i == k) begin
        columns_known_q <= known_now;
        columns_at_q    <= {no_columns_i ? '0 : columns_at_q[(Kernel-2)*Column-1:0], column_4_q};
      end
    end
  end

  // Weights at `at`: taps and bias, and those that the cascade gets.
  logic [Pairs-1:0][31:0] held_q;
  logic [Pairs-1:0]       held_known_q = '0, reads_q = '0, reads_2_q = '0;
  logic [Pairs-1:0][31:0] read_q, read_2_q;
  logic                   bias_3_q = 1'b0;
  logic [15:0]            bias_low_3_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < Pairs; p++) begin
      if (write_i && write_pair_i == 3'(p) && write_row_i == at) begin
        held_q[p]       <= write_words_i;
        held_known_q[p] <= 1'b1;
      end
      reads_q[p] <= held_known_q[p] && weight_i[p] == at;
    end
    read_q       <= held_q;
    reads_2_q    <= reads_q;
    read_2_q     <= read_q;
    bias_3_q     <= reads_2_q[4];
    bias_low_3_q <= read_2_q[4][31:16];
  end

  logic [15:0]     tap_0_q;  // the tap of the word behind the head, a cycle ago
  logic [Sums-1:0] total_q;
  always_ff @(posedge clk_i) begin
    tap_0_q <= gen_tap[0].tap;
    total_q <= gen_words.chained + (first_i ? '0 : gen_words.sum);
  end

  always_comb begin
    if (past_q) begin
      // Rows
      if (near_known_q) assert (near_q[r] == rows_q[31:0]);
      if (deep_known_q) assert (gen_deep.deep_q[r] == rows_q[Column-17:32]);
      if (met_q[0]) assert (near_2_q == rows_2_q[31:0]);
      if (met_deep_q[0]) assert (gen_deep.deep_2_q == rows_2_q[Column-17:32]);
      if (met_q[1]) assert (near_3_q == rows_3_q[31:0]);
      if (met_deep_q[1]) assert (gen_deep.deep_3_q == rows_3_q[Column-17:32]);
      if (old_q[0]) assert (word_2_q == new_1_q);
      if (old_q[1]) assert (word_3_q == new_2_q);
      if (old_q[2]) assert (column_4_q[15:0] == new_3_q);
      if (old_q[2] && no_rows_q) assert (column_4_q[Column-1:16] == '0);
      if (!no_rows_q && met_q[2]) assert (column_4_q[47:16] == rows_4_q[31:0]);
      if (!no_rows_q && met_deep_q[2]) assert (column_4_q[Column-1:48] == rows_4_q[Column-17:32]);
      // Columns
      if (columns_known_q) assert (columns_q[k] == columns_at_q);
      if (window_known_q) assert (window_5_q == window_q);
      // Taps of kernels of two, three and four, and the way of one to its multiplier
      if (choice_i == 3'd0) assert (gen_tap[1].tap == window_5_q[16+:16] && gen_tap[3].tap == window_5_q[0+:16]);
      if (choice_i == 3'd1) assert (gen_tap[0].tap == window_5_q[2*Column+32+:16] && gen_tap[5].tap == window_5_q[16+:16]);
      if (choice_i == 3'd2) assert (gen_tap[7].tap == window_5_q[32+:16] && gen_tap[8].tap == window_5_q[3*Column+16+:16]);
      if (choice_i == 3'd3) assert (gen_tap[0].tap == window_5_q[2*Column+16+:16] && gen_tap[6].tap == window_5_q[0+:16]);
      assert (taps[0] == gen_tap[8].tap);
      if (old_q[0]) assert (taps[1] == tap_0_q);
      // Weights
      for (int unsigned p = 0; p < Pairs; p++) if (reads_q[p]) assert (pairs_q[p] == read_q[p]);
      if (held_known_q[0]) assert (gen_pair[0].weights_q[at] == held_q[0]);
      if (held_known_q[1]) assert (gen_pair[1].weights_q[at] == held_q[1]);
      if (held_known_q[2]) assert (gen_pair[2].weights_q[at] == held_q[2]);
      if (held_known_q[3]) assert (gen_pair[3].weights_q[at] == held_q[3]);
      if (held_known_q[4]) assert (gen_pair[4].weights_q[at] == held_q[4]);
      if (held_known_q[5]) assert (gen_pair[5].weights_q[at] == held_q[5]);
      for (int unsigned p = 0; p < 4; p++) begin
        if (reads_q[p]) assert (gen_words.weights[16*(2*p+1)+:16] == read_q[p][15:0]);
        if (reads_2_q[p]) assert (gen_words.weights[16*(2*p+2)+:16] == read_2_q[p][31:16]);
      end
      if (reads_q[4]) assert (gen_words.weights[15:0] == read_q[4][15:0]);
      if (reads_2_q[4]) assert (gen_words.bias_low_q == read_2_q[4][31:16]);
      if (bias_3_q) assert (gen_words.bias_low_2_q == bias_low_3_q);
      // Sums
      if (old_q[0]) assert (gen_words.sum == total_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && met_q[2] && met_deep_q[2] && !no_rows_q && column_4_q[31:16] == 16'd7);
    cover (past_q && window_known_q && window_q[Column+15:Column] == 16'd9 && columns_known_q);
    cover (past_q && reads_2_q[3] && gen_words.weights[143:128] == 16'd5 && bias_3_q);
  end
`endif
`endif
