// Inside axi_gather_fifo, for a proof of its user: head and tail lie as far apart as the level says.
`ifdef FORMAL
  always_comb begin
    if (rst_ni) begin
      assert (32'(head_q) < Depth && 32'(tail_q) < Depth && 32'(level_q) <= Depth);
      assert ((32'(head_q) + 32'(level_q)) % Depth == 32'(tail_q));
    end
  end
`endif
