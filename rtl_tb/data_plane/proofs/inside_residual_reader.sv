// Inside fluidnpu_residual_reader: a row is read from exactly the port words that hold its columns, and only
// when there is room in the queue of rows asked for. Of a row that is spread that is its one word, which comes
// once for each beat of its columns, in every lane that has one; no tile of it has a place of its own.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [AddrWidth-1:0] first_q, last;  // byte of the row, byte behind it
  logic [11:0]          words_q;
  assign last = first_q + AddrWidth'({words_q, 1'b0});
  always_ff @(posedge clk_i) begin
    if (row_valid && row_ready) begin
      first_q <= row_addr;
      words_q <= spreads ? 12'd1 : row_cols;
      columns_q <= row_cols;
    end
  end
  logic [11:0] columns_q;  // of the row at hand
  logic [15:0] given_q;    // columns of the row that leaves, which its beats have had
  logic [11:0] all_q;      // and all of them
  logic        open_q;     // a row leaves
  logic        spread_q;   // what the layer does; it stands while its rows are on their way
  always_ff @(posedge clk_i) begin
    spread_q <= spreads;
    if (!rst_ni) open_q <= 1'b0;
    else if (head_valid && head_ready) open_q <= 1'b1;
    else if (beat_valid_o && unpack_take) open_q <= 1'b0;
    if (head_valid && head_ready) begin
      given_q <= '0;
      all_q   <= head[11:0];
    end else if (beat_valid_o && beat_ready_i) given_q <= given_q + 16'(OutWords);
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) assume (spreads == spread_q);
    if (head_valid) assume (head[11:0] != '0);  // as it was asked for, below
    if (spreads) begin  // `unpack`, of jobs of one word
      if (head_valid && head_ready) assume (!open_q || (beat_valid_o && unpack_take));
      if (beat_valid_o) assume (open_q && unpacked[OutWords*16-1:16] == '0);
    end
    if (row_valid) assume (row_cols != '0 && !row_addr[0] && row_addr < (AddrWidth)'(1) << (AddrWidth - 1));  // `ahead`
    if (past_q) begin
      // A row is asked for when the queue has room for what is to be done with its words.
      assert (fetch_valid_o == (asks_q && job_ready));
      assert (asked == (fetch_valid_o && fetch_ready_i) && row_ready == (!asks_q || asked));
      if (asks_q) begin
        assert (!first_q[0] && first_q < (AddrWidth)'(1) << (AddrWidth - 1));
        assert (cols_q != '0 && cols_q == columns_q && (spreads ? words_q == 12'd1 : words_q == columns_q));
        assert (fetch_addr_o <= first_q && first_q - fetch_addr_o < AddrWidth'(2 * PortWords));
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) >= last);
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) < last + AddrWidth'(2 * PortWords));
        assert (32'(skip_q) * 2 == 32'(first_q - fetch_addr_o));
      end
      if (!spreads) assert (beat_o == unpacked && unpack_take == beat_ready_i);
      if (spreads && open_q) begin
        assert (given_q < 16'(all_q) && 16'(gen_spreads.rest_q) == 16'(all_q) - given_q && gen_spreads.last_q == (32'(gen_spreads.rest_q) <= OutWords));
        assert (unpack_take == (beat_ready_i && 32'(given_q) + OutWords >= 32'(all_q)));
        for (int unsigned i = 0; i < OutWords; i++) begin
          if (beat_valid_o) assert (beat_o[16*i+:16] == (32'(given_q) + i < 32'(all_q) ? unpacked[15:0] : 16'd0));
        end
      end
      assert (walked.out_shift == (spreads ? 32'd0 : command_i.out_shift) && walked.cols == command_i.cols);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && fetch_valid_o && fetch_beats_o == 24'd2);
    cover (past_q && fetch_valid_o && skip_q != '0);
  end
`endif
`endif
