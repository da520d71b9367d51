// Inside axi_gather_fifo: a shadow queue holds the narrow words, and every wide word is what it says, while
// no push lacks room.
`ifdef FORMAL
  localparam int unsigned Narrow = Lanes * Depth;
  logic [Width-1:0] ghost_q [Narrow];  // entry i from the head on
  logic             past_q = 1'b0;
  logic [31:0]      count;
  assign count = 32'(level_q) * Lanes + 32'(lane_q);
  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    for (int unsigned i = 0; i < Narrow; i++) begin
      if (pop && i + Lanes < Narrow) ghost_q[i] <= ghost_q[i+Lanes];
      if (valid_i && i + (pop ? Lanes : 0) == count) ghost_q[i] <= data_i;
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    assume (!(valid_i && level_q == LevelWidth'(Depth)));
  end
  for (genvar lane = 0; lane < Lanes; lane++) begin : gen_ghost
    always_comb begin
      if (past_q && valid_o) assert (data_o[lane*Width+:Width] == ghost_q[lane]);
      if (past_q) begin
        for (int unsigned i = 0; i < Depth; i++) begin
          if (i * Lanes + lane < count) assert (gen_lane[lane].store_q[(32'(head_q) + i) % Depth] == ghost_q[i*Lanes+lane]);
        end
      end
    end
  end
  always_comb begin
    if (past_q) begin
      assert (32'(head_q) < Depth && 32'(tail_q) < Depth && 32'(level_q) <= Depth);
      assert ((32'(head_q) + 32'(level_q)) % Depth == 32'(tail_q));
      if (32'(level_q) == Depth) assert (lane_q == '0);
      assert (valid_o == (count >= Lanes));
      assert (32'(level_o) == count);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && valid_o && 32'(level_q) == Depth);
    cover (past_q && valid_o && 32'(head_q) == 1 && lane_q == '1 && valid_i);
  end
`endif
`endif
