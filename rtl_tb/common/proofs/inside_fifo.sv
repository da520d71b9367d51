// Inside common_fifo: a shadow queue says what is offered, and whether there is room; a head that is offered
// stays; a clear empties it.
`ifdef FORMAL
  logic [Width-1:0] ghost_q [Depth];  // entry i from the head on
  logic             past_q = 1'b0, past_hold_q = 1'b0, past_clear_q = 1'b0;
  logic [Width-1:0] past_data_q;
  always_ff @(posedge clk_i) begin
    past_q       <= 1'b1;
    past_hold_q  <= past_q && rst_ni && valid_o && !ready_i && !clear_i;
    past_clear_q <= past_q && (!rst_ni || clear_i);
    past_data_q  <= data_o;
    for (int unsigned i = 0; i < Depth; i++) begin
      if (pop && i + 1 < Depth) ghost_q[i] <= ghost_q[i+1];
      if (push && i + 32'(pop) == 32'(level_q)) ghost_q[i] <= data_i;
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assert (32'(head_q) < Depth && 32'(tail_q) < Depth);
      assert ((32'(head_q) + 32'(level_q)) % Depth == 32'(tail_q));
      for (int unsigned i = 0; i < Depth; i++) begin
        if (i < 32'(level_q)) assert (store_q[(32'(head_q) + i) % Depth] == ghost_q[i]);
      end
      if (past_hold_q) assert (valid_o && data_o == past_data_q);
      if (past_clear_q) assert (!valid_o);
      assert (level_o == level_q && valid_o == (level_q != '0) && ready_o == (32'(level_q) < Depth));
      if (valid_o) assert (data_o == ghost_q[0]);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && 32'(level_q) == Depth && 32'(head_q) == 1);
    cover (past_hold_q && 32'(level_q) == 2 && pop && push);
    cover (past_clear_q && push);
  end
`endif
`endif
