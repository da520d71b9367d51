// Inside fluidnpu_row_addresses, for any rows of the walk: each row that is stored is the one that was walked
// three cycles before and ended windows of the pool, if there is one, in the slot of its own sample, with the columns of its own command; it is told whether
// it begins in another port word than where the row before it ended. Rows are walked only where they fit.
`ifdef FORMAL
  logic past_q = 1'b0;
  always_ff @(posedge clk_i) past_q <= 1'b1;

  // The slots stand still while a job is under way.
  (* anyconst *) logic [BMax-1:0][AddrWidth-1:0] slots;

  // What was walked in the last cycles, the newest lowest.
  logic [Steps-1:0]                walked_q, lasts_q;
  logic [Steps-1:0][AddrWidth-1:0] addrs_q;
  logic [Steps-1:0][11:0]          cols_of_q;
  logic [11:0]          command_cols_q;
  logic                 command_last_q;
  logic [AddrWidth-1:0] ended_q, oldest_last;  // the last word of the row before, of the oldest one
  assign oldest_last = addrs_q[2] + AddrWidth'({12'(cols_of_q[2] - 12'd1), 1'b0});
  always_ff @(posedge clk_i) begin
    if (!rst_ni) walked_q <= '0;
    else walked_q <= {walked_q[1:0], walks && room_q && pooling.ends_w && pooling.ends_h};
    addrs_q   <= {addrs_q[1:0], slots[row_sample] + AddrWidth'(row.offset)};
    cols_of_q <= {cols_of_q[1:0], command_cols_q};
    lasts_q   <= {lasts_q[1:0], row.ends_pass && command_last_q};
    if (command_valid_i && command_ready_o) begin
      command_cols_q <= command_i.cols;
      command_last_q <= command_i.layer_last;
    end
    if (walked_q[2]) ended_q <= oldest_last;
  end

  // The queue as the proof `fifo` has it: its level is what came less what went.
  logic [$clog2(Depth+1)-1:0] stored_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) stored_q <= '0;
    else stored_q <= stored_q + 4'(valid_q[2]) - 4'(row_valid_o && row_ready_i);
  end
  logic walked_once_q, held_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) walked_once_q <= 1'b0;
    else if (walked_q[2]) walked_once_q <= 1'b1;
    if (!rst_ni) held_q <= 1'b0;
    else if (command_valid_i && command_ready_o) held_q <= 1'b1;
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (slot_i == slots);
    assume (32'(row_sample) < BMax);  // the proof `rows`
    assume (level == stored_q && row_valid_o == (stored_q != '0) && fits == (32'(stored_q) != Depth));
    if (walks) assume (held_q);
    if (past_q) begin
      for (int unsigned i = 0; i < Steps; i++) begin
        assert (valid_q[i] == walked_q[i]);
        if (valid_q[i]) assert (cols_s_q[i] == cols_of_q[i] && last_s_q[i] == lasts_q[i]);
      end
      if (held_q) assert (cols_q == command_cols_q && last_q == command_last_q);
      if (valid_q[0]) assert (slots[sample_1_q] + AddrWidth'(offset_1_q) == addrs_q[0] && 32'(sample_1_q) < BMax);
      if (valid_q[1]) assert (addr_2_q == addrs_q[1] && behind_2_q == cols_of_q[1] - 12'd1);
      if (valid_q[2]) assert (addr_3_q == addrs_q[2] && end_3_q == oldest_last);
      if (walked_once_q) assert (end_q == ended_q[AddrWidth-1:PortBits]);
      assert (32'(stored_q) + 32'(valid_q[0]) + 32'(valid_q[1]) + 32'(valid_q[2]) <= Depth);

      // What is stored
      if (valid_q[2]) begin
        assert (fits);
        assert (pushed.addr == addrs_q[2] && pushed.cols == cols_of_q[2] && pushed.last == lasts_q[2]);
        if (walked_once_q) assert (pushed.fresh == (addrs_q[2][AddrWidth-1:PortBits] != ended_q[AddrWidth-1:PortBits]));
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && valid_q == '1 && walked_once_q && !pushed.fresh);
    cover (past_q && valid_q[2] && pushed.last && 32'(stored_q) + 1 == Depth);
    cover (past_q && walks && !room_q);
  end
`endif
`endif
