// Inside fluidnpu_output_writer, for any rows: what is packed belongs to the row at hand in the slot of its own sample, from its first word to its
// last, and its strobes say just that; a port word carries what its address says.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;
  logic [AddrWidth-1:0] row_first, row_end;
  assign row_first = slot_i[row_sample] + AddrWidth'(row_offset);
  assign row_end   = row_first + AddrWidth'({cols_q, 1'b0});

  always_comb begin
    assume (rst_ni == past_q);
    assume (row_first[0] == 1'b0 && row_first < (AddrWidth)'(1) << (AddrWidth - 1));
    assume (!(command_valid_i && command_ready_o) || command_i.cols != '0);
    assume (!layer_start_i || (!row_valid && !command_valid_i && !any_q));
    // Rows of a layer do not overlap in memory: so the program lays them out.
    if (move && any_q && !push) assume ((strobe_q & strobe) == '0);
    if (past_q) begin
      if (row_valid) assert (word_q < cols_q && cols_q != '0);
      if (!row_valid) assert (word_q == '0);
      assert (taken_q < PieceWidth'(OutWords));
      assert (16'(word_q) % OutWords == 16'(taken_q));
      if (move) begin
        assert (piece != '0 && addr >= row_first && addr + AddrWidth'({piece, 1'b0}) <= row_end);
        assert (32'(offset) + 32'(piece) <= PortWords && 32'(taken_q) + 32'(piece) <= OutWords);  // no word is lost
        for (int unsigned i = 0; i < 2 * PortWords; i++) begin
          assert (strobe[i] == ({addr[AddrWidth-1:PortBits], PortBits'(i)} >= addr
              && {addr[AddrWidth-1:PortBits], PortBits'(i)} < addr + AddrWidth'({piece, 1'b0})));
        end
      end
      if (any_q) assert (pack_addr_q[PortBits-1:0] == '0);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && push && any_q);
    cover (past_q && move && any_q && !push);
    cover (past_q && move && word_q != '0 && row_sample != '0);
  end
`endif
`endif
