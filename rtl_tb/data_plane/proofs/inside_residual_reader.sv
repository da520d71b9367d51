// Inside fluidnpu_residual_reader: a row is read from exactly the port words that hold its columns, in the
// slot of its own sample, and only when there is room in the queue of rows asked for.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [AddrWidth-1:0] first, last;  // byte of the row, byte behind it
  assign first = slot_i[row_sample] + AddrWidth'(row_offset);
  assign last  = first + AddrWidth'({cols_q, 1'b0});
  always_comb begin
    assume (rst_ni == past_q);
    assume (first[0] == 1'b0 && first < (AddrWidth)'(1) << (AddrWidth - 1));
    assume (!(command_valid_i && command_ready_o) || command_i.cols != '0);
    if (past_q) begin
      if (row_valid) assert (cols_q != '0);
      // A row is asked for when the queue has room for what is to be done with its words.
      if (fetch_valid_o) assert (job_ready && row_valid);
      assert (row_ready == (fetch_valid_o && fetch_ready_i));
      if (fetch_valid_o) begin
        assert (fetch_addr_o <= first && first - fetch_addr_o < AddrWidth'(2 * PortWords));
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) >= last);
        assert (fetch_addr_o + AddrWidth'(fetch_beats_o) * (2 * PortWords) < last + AddrWidth'(2 * PortWords));
        assert (32'(skip) * 2 == 32'(first - fetch_addr_o));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && fetch_valid_o && fetch_beats_o == 24'd2);
    cover (past_q && fetch_valid_o && row_sample != '0);
  end
`endif
`endif
