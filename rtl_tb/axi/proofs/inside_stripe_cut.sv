// Inside axi_stripe_cut: any bursts that obey AXI. Every byte of a burst, and no other, is asked for on
// exactly one port; chunks are whole wide words, whose number is told, and none is longer than its share.
`ifdef FORMAL
  (* anyconst *) logic [AddrWidth-1:0] place;
  logic                 past_q = 1'b0, wait_q = 1'b0, take_q = 1'b0;
  logic [AddrWidth-1:0] past_addr_q;
  logic [7:0]           past_len_q;
  logic [Ports-1:0][WordsWidth-1:0] past_words_q;
  always_ff @(posedge clk_i) begin
    past_q       <= 1'b1;
    wait_q       <= past_q && s_axi_valid && !s_axi_ready;
    take_q       <= past_q && take_o;
    past_addr_q  <= s_axi_addr;
    past_len_q   <= s_axi_len;
    past_words_q <= words_o;
  end
  logic [2:0]  asked;
  logic [9:0]  sum;
  logic [31:0] span [Ports];
  logic        meant;
  always_comb begin
    assume (rst_ni == past_q);
    if (s_axi_valid) begin
      assume (32'(s_axi_len) < MaxBurst && s_axi_addr[Size-1:0] == '0);
      assume (32'(s_axi_addr[11:0]) + ((32'(s_axi_len) + 32'd1) << Size) <= 32'd4096);
    end
    if (wait_q) assume (s_axi_valid && s_axi_addr == past_addr_q && s_axi_len == past_len_q);
    asked = '0;
    sum   = '0;
    for (int unsigned p = 0; p < Ports; p++) begin
      sum = sum + 10'(words_o[p]);
      if (take_q && past_words_q[p] != '0 && place >= addr_q[p]
          && 32'(place - addr_q[p]) < ((32'(len_q[p]) + 32'd1) << NarrowSize)) asked = asked + 3'd1;
    end
    meant = place >= past_addr_q && 32'(place - past_addr_q) < ((32'(past_len_q) + 32'd1) << Size);
    if (past_q) begin
      if (take_o) assert (sum == 10'(s_axi_len) + 10'd1);
      if (take_q) assert (asked == 3'(meant));
      for (int unsigned p = 0; p < Ports; p++) begin
        if (take_q && past_words_q[p] != '0) assert (valid_q[p] && 32'(len_q[p]) + 32'd1 == 32'(past_words_q[p]) * Ports);
        if (take_o) assert (32'(words_o[p]) * Ports < 32'(s_axi_len) + 32'd1 + Ports);
        if (take_o && words_o[p] != '0) assert (!valid_q[p] && 32'(words_o[p]) <= 32'(room_i[p]));
        if (valid_q[p]) assert ((len_q[p] & 8'(Ports - 1)) == 8'(Ports - 1) && 32'(len_q[p]) < (MaxBurst + Ports - 1) / Ports * Ports);
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && take_o && s_axi_len == 8'd15);
    cover (past_q && take_q && asked == 3'd1 && past_len_q == 8'd2);
    cover (past_q && s_axi_valid && s_axi_ready == 1'b0 && valid_q == 4'd5);
  end
`endif
`endif
