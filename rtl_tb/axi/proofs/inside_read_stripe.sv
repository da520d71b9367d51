// Inside axi_read_stripe, with the queue of bursts by the contract that the proof `fifo` shows: any bursts
// and any ports that obey AXI. Every word that was asked for is queued, owed by a port or still to be asked
// there, in the order in which words go out; so none is lost and none waits for another for ever, a queue
// never overflows, and RLAST is at a burst's end. A wide word is the narrow ones at its port's head, whose
// errors it tells; what memory answered is what was queued (the proof `gather` follows it from there).
`ifdef FORMAL
  localparam int unsigned Entries = Ports == 4 ? 3 : QueueWords;  // with four ports fewer bursts are followed than there is room for
  logic [8:0]              ghost_q [Entries];  // bursts under way from the oldest on: stays, length - 1
  logic [7:0]              count_q, passed_q;
  logic [PortBits-1:0]     head_q;             // where the oldest began
  logic [Ports-1:0][7:0]   owed_q;             // narrow words that memory owes
  logic                    past_q = 1'b0, wait_q = 1'b0;
  logic [AddrWidth-1:0]    past_addr_q;
  logic [7:0]              past_len_q;

  // What each port has yet to give, walking through the bursts; `began[e]` is where burst e begins.
  logic [Entries:0][PortBits-1:0] began;
  logic [Ports-1:0][Entries-1:0][7:0] part;
  logic [Ports-1:0][7:0] due;
  assign began[0] = head_q;
  for (genvar e = 0; e < Entries; e++) begin : gen_walk
    logic [7:0] length, chunk;
    assign length = ghost_q[e][7:0];
    assign chunk  = (length >> PortBits) + 8'd1;
    assign began[e+1] = 32'(count_q) <= e ? began[e] : ghost_q[e][8] ? began[e] - 1'b1 : began[e] + PortBits'(length / chunk + 8'd1);
    for (genvar p = 0; p < Ports; p++) begin : gen_part
      logic [PortBits-1:0] c;
      logic [7:0]          start, whole, gone;
      assign c     = PortBits'(p) - began[e];
      assign start = 8'(c) * chunk;
      assign whole = start > length ? 8'd0 : length + 8'd1 - start < chunk ? length + 8'd1 - start : chunk;
      assign gone  = e != 0 || passed_q <= start ? 8'd0 : passed_q - start < whole ? passed_q - start : whole;
      assign part[p][e] = 32'(count_q) <= e ? 8'd0 : whole - gone;
    end
  end
  always_comb begin
    for (int unsigned p = 0; p < Ports; p++) begin
      due[p] = '0;
      for (int unsigned e = 0; e < Entries; e++) due[p] = due[p] + part[p][e];
    end
  end

  always_ff @(posedge clk_i) begin
    past_q      <= 1'b1;
    wait_q      <= past_q && s_axi_arvalid && !s_axi_arready;
    past_addr_q <= s_axi_araddr;
    past_len_q  <= s_axi_arlen;
    if (!rst_ni) begin
      count_q  <= '0;
      passed_q <= '0;
      head_q   <= '0;
      owed_q   <= '0;
    end else begin
      count_q <= count_q + 8'(take) - 8'(pop && last);
      if (pop) passed_q <= last ? '0 : passed_q + 8'd1;
      if (pop && last) head_q <= began[1];
      else if (count_q == 0 && !take) head_q <= '0;
      for (int unsigned i = 0; i < Entries; i++) begin
        if (pop && last && i + 1 < Entries) ghost_q[i] <= ghost_q[i+1];
        if (take && i + 32'(pop && last) == 32'(count_q)) ghost_q[i] <= {cut_stays, s_axi_arlen};
      end
      for (int unsigned p = 0; p < Ports; p++) begin
        owed_q[p] <= owed_q[p] + (m_axi_arvalid[p] && m_axi_arready[p] ? m_axi_arlen[p] + 8'd1 : 8'd0) - 8'(m_axi_rvalid[p]);
      end
    end
  end

  for (genvar p = 0; p < Ports; p++) begin : gen_carried
    logic                  full_q = 1'b0;  // a narrow word came that made the queue's first wide word whole
    logic [PartWidth-1:0]  came_q;
    logic [1:0]            told;
    always_ff @(posedge clk_i) begin
      full_q <= past_q && m_axi_rvalid[p] && 32'(level[p]) == Ports - 1;
      came_q <= {m_axi_rresp[p], m_axi_rdata[p]};
    end
    always_comb begin
      told = '0;
      for (int unsigned lane = 0; lane < Ports; lane++) told = told | gen_port[p].parts[lane*PartWidth+NarrowBits+:2];
      if (past_q && full_q) assert (gen_port[p].parts[(Ports-1)*PartWidth+:PartWidth] == came_q);
      if (past_q && s_axi_rvalid && port_q == PortBits'(p)) begin
        assert (s_axi_rresp == told);
        for (int unsigned lane = 0; lane < Ports; lane++)
          assert (s_axi_rdata[lane*NarrowBits+:NarrowBits] == gen_port[p].parts[lane*PartWidth+:NarrowBits]);
      end
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (s_axi_arvalid) begin
      assume (32'(s_axi_arlen) < MaxBurst && s_axi_araddr[$clog2(DataBytes)-1:0] == '0);
      assume (32'(s_axi_araddr[11:0]) + (32'(s_axi_arlen) + 32'd1) * DataBytes <= 32'd4096);
    end
    if (wait_q) assume (s_axi_arvalid && s_axi_araddr == past_addr_q && s_axi_arlen == past_len_q);
    for (int unsigned p = 0; p < Ports; p++) assume (!(m_axi_rvalid[p] && owed_q[p] == 0));
    if (past_q) begin
      assume (order_valid == (count_q != 0) && order_ready == (32'(count_q) < Entries));
      if (count_q != 0) assume ({stays, len} == ghost_q[0]);
      for (int unsigned p = 0; p < Ports; p++) begin
        assert (32'(free_q[p]) <= Depth && 32'(free_q[p]) + 32'(due[p]) == Depth);
        assert (32'(owed_q[p]) <= Depth * Ports);
        assert (32'(level[p]) + 32'(owed_q[p]) + (m_axi_arvalid[p] ? 32'(m_axi_arlen[p]) + 32'd1 : 32'd0) == 32'(due[p]) * Ports);
        assert (there[p] == (32'(level[p]) >= Ports));
        if (m_axi_arvalid[p]) assert ((m_axi_arlen[p] & 8'(Ports - 1)) == 8'(Ports - 1));
        assert (m_axi_rready[p]);
      end
      assert (32'(count_q) <= Entries && passed_q == sent_q);
      for (int unsigned e = 0; e < Entries; e++) begin
        if (e < 32'(count_q)) assert (32'(ghost_q[e][7:0]) < MaxBurst);
        if (e < 32'(count_q) && ghost_q[e][8]) assert (ghost_q[e][7:0] / ((ghost_q[e][7:0] >> PortBits) + 8'd1) == 8'(Ports - 1));
      end
      assert (began[Entries] == first);
      if (count_q != 0) begin
        assert (passed_q <= len && within_q <= len >> PortBits);
        for (int unsigned c = 0; c < Ports; c++) begin
          if (port_q == PortBits'(head_q + PortBits'(c))) assert (passed_q == 8'(c) * ((len >> PortBits) + 8'd1) + within_q);
        end
        assert (s_axi_rlast == (passed_q == ghost_q[0][7:0]));
        if (owed_q == '0 && m_axi_arvalid == '0) assert (s_axi_rvalid);
      end else begin
        assert (passed_q == 0 && head_q == port_q);
      end
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && pop && last && count_q == 8'd2);
    cover (past_q && s_axi_rvalid && s_axi_rlast && passed_q == 8'd3);
    cover (past_q && take && cut_stays && head_q != '0);
  end
`endif
`endif
