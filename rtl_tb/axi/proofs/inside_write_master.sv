// Inside axi_write_master: the queue of words, by the contract that the proof `fifo` shows, holds just the
// words of the bursts to come.
`ifdef FORMAL
  logic [15:0] queued_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) queued_q <= '0;
    else queued_q <= queued_q + 16'(take) - 16'(data_pop);
  end
  always_comb begin
    if (rst_ni) begin
      assume (data_valid == (queued_q != '0) && data_ready == (32'(queued_q) < QueueBeats));
      assert (queued_q == 16'(open_q) + (burst_valid_q ? 16'(burst_words_q) : 16'd0) + (dummy_q ? 16'd0 : 16'(left_q)));
      if (dummy_q) assert (left_q != '0);
    end
  end
`endif
