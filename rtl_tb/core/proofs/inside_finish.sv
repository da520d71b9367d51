// Inside core_finish: every word that saturates is counted, and a full counter stays full. Registers may hold
// anything at first, so that the counter is seen near its end, too.
`ifdef FORMAL
  logic                past_q = 1'b0, cleared_q, moved_q;
  logic [31:0]         before_q;
  logic [CountBits-1:0] more_q;
  logic [OutWords-1:0] told_q;
  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    cleared_q <= !rst_ni || clear_i;
    moved_q   <= rst_ni && valid_q[Steps] && enable;
    told_q    <= used_q[Steps] & saturated;
    before_q  <= saturations_q;
    more_q    <= found_q;
  end
  always_comb begin
    if (past_q) begin
      if (cleared_q) assert (saturations_q == '0);
      else if (before_q > 32'hFFFF_FFFF - 32'(more_q)) assert (saturations_q == 32'hFFFF_FFFF);
      else assert (saturations_q == before_q + 32'(more_q));
      assert (32'(found_q) == (moved_q ? $countones(told_q) : 0));
      assert (saturations_o == saturations_q);
    end
`ifdef COVER
    cover (past_q && !cleared_q && before_q != '1 && saturations_q == '1);
`endif
  end
`endif
