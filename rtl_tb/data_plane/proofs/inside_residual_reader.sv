// Inside fluidnpu_residual_reader: a row is read from exactly the port words that hold its columns, and only
// when there is room in the queue of rows asked for.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [AddrWidth-1:0] first_q, last;  // byte of the row, byte behind it
  logic [11:0]          words_q;
  assign last = first_q + AddrWidth'({words_q, 1'b0});
  always_ff @(posedge clk_i) begin
    if (row_valid && row_ready) begin
      first_q <= row_addr;
      words_q <= row_cols;
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (row_valid) assume (row_cols != '0 && !row_addr[0] && row_addr < (AddrWidth)'(1) << (AddrWidth - 1));  // `ahead`
    if (past_q) begin
      // A row is asked for when the queue has room for what is to be done with its words.
      assert (fetch_valid_o == (asks_q && job_ready));
      assert (asked == (fetch_valid_o && fetch_ready_i) && row_ready == (!asks_q || asked));
      if (asks_q) begin
        assert (!first_q[0] && first_q < (AddrWidth)'(1) << (AddrWidth - 1));
        assert (cols_q != '0 && cols_q == words_q);
        assert (fetch_addr_o <= first_q && first_q - fetch_addr_o < AddrWidth'(2 * PortWords));
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) >= last);
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) < last + AddrWidth'(2 * PortWords));
        assert (32'(skip_q) * 2 == 32'(first_q - fetch_addr_o));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && fetch_valid_o && fetch_beats_o == 24'd2);
    cover (past_q && fetch_valid_o && skip_q != '0);
  end
`endif
`endif
