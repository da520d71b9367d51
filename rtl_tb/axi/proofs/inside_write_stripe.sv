// Inside axi_write_stripe, with its queues by the contract that the proof `fifo` shows: any bursts and any
// ports that obey AXI. Every narrow burst of a burst under way is still to be asked for, to be sent, to be
// answered, or its answer is kept; so no answer is lost or given too early, what is kept has room, and a
// burst that all ports have answered is answered. What is queued is the word and the port's response that
// came, and what is sent and told is what is queued (`fifo`): data, strobes, and the error of any port of the
// burst.
`ifdef FORMAL
  localparam int unsigned Entries = MaxOutstanding;
  logic [Ports+8:0]                 ghost_q [Entries];  // bursts under way from the oldest on: its ports, stays, length - 1
  logic [7:0]                       count_q, open_q;    // bursts not answered; of them the last ones, whose words are still to come
  logic [PortBits-1:0]              head_q;             // where the oldest began
  logic [Ports-1:0][7:0]            due_aw_q, due_w_q;  // addresses and last words taken from us and not answered
  logic [Ports-1:0][7:0]            kept_q, queued_q;   // answers kept, words queued
  logic [Ports-1:0][Depth-1:0]      last_q;             // which queued words end a chunk
  logic                             past_q = 1'b0, wait_q = 1'b0;
  logic [AddrWidth-1:0]             past_addr_q;
  logic [7:0]                       past_len_q;

  logic [Entries:0][PortBits-1:0]     began;
  logic [Ports-1:0][Entries-1:0][7:0] part;  // words of a burst that a port is still to be given
  logic [Ports-1:0][7:0]              bursts, to_come, lasts;
  logic [7:0]                         oldest_open;
  assign oldest_open = count_q - open_q;
  assign began[0]    = head_q;
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
      assign gone  = e != 32'(oldest_open) || sent_q <= start ? 8'd0 : sent_q - start < whole ? sent_q - start : whole;
      assign part[p][e] = 32'(count_q) <= e || e < 32'(oldest_open) ? 8'd0 : whole - gone;
      always_comb if (past_q && e < 32'(count_q)) assert (ghost_q[e][9+p] == (whole != 0));
    end
    always_comb if (past_q && e < 32'(count_q)) begin
      assert (32'(length) < MaxBurst);
      if (ghost_q[e][8]) assert (length / chunk == 8'(Ports - 1));
    end
  end
  always_comb begin
    for (int unsigned p = 0; p < Ports; p++) begin
      bursts[p]  = '0;
      to_come[p] = '0;
      lasts[p]   = '0;
      for (int unsigned e = 0; e < Entries; e++) begin
        if (e < 32'(count_q)) bursts[p] = bursts[p] + 8'(ghost_q[e][9+p]);
        to_come[p] = to_come[p] + 8'(part[p][e] != '0);
      end
      for (int unsigned i = 0; i < Depth; i++) if (i < 32'(queued_q[p])) lasts[p] = lasts[p] + 8'(last_q[p][i]);
    end
  end

  always_ff @(posedge clk_i) begin
    past_q      <= 1'b1;
    wait_q      <= past_q && s_axi_awvalid && !s_axi_awready;
    past_addr_q <= s_axi_awaddr;
    past_len_q  <= s_axi_awlen;
    if (!rst_ni) begin
      count_q  <= '0;
      open_q   <= '0;
      head_q   <= '0;
      due_aw_q <= '0;
      due_w_q  <= '0;
    end else begin
      count_q <= count_q + 8'(take) - 8'(answer);
      open_q  <= open_q + 8'(take) - 8'(move && last);
      if (answer) head_q <= began[1];
      else if (count_q == 0 && !take) head_q <= '0;
      for (int unsigned i = 0; i < Entries; i++) begin
        if (answer && i + 1 < Entries) ghost_q[i] <= ghost_q[i+1];
        if (take && i + 32'(answer) == 32'(count_q)) ghost_q[i] <= {asked, cut_stays, s_axi_awlen};
      end
      for (int unsigned p = 0; p < Ports; p++) begin
        due_aw_q[p] <= due_aw_q[p] + 8'(m_axi_awvalid[p] && m_axi_awready[p]) - 8'(m_axi_bvalid[p]);
        due_w_q[p]  <= due_w_q[p] + 8'(m_axi_wvalid[p] && m_axi_wready[p] && m_axi_wlast[p]) - 8'(m_axi_bvalid[p]);
      end
    end
  end

  for (genvar p = 0; p < Ports; p++) begin : gen_queue
    logic                 in, out, hold_q;
    logic [DataBytes*9:0] head_word_q;
    assign in  = move && port_q == PortBits'(p);
    assign out = gen_port[p].valid && m_axi_wready[p] && (&gen_port[p].lane_q);
    always_ff @(posedge clk_i) begin
      hold_q      <= past_q && gen_port[p].valid && !out;
      head_word_q <= {gen_port[p].word_last, gen_port[p].strobe, gen_port[p].data};
      if (!rst_ni) begin
        kept_q[p]   <= '0;
        queued_q[p] <= '0;
      end else begin
        kept_q[p]   <= kept_q[p] + 8'(m_axi_bvalid[p]) - 8'(answer && wanted[p]);
        queued_q[p] <= queued_q[p] + 8'(in) - 8'(out);
        for (int unsigned i = 0; i < Depth; i++) begin
          if (out && i + 1 < Depth) last_q[p][i] <= last_q[p][i+1];
          if (in && i + 32'(out) == 32'(queued_q[p])) last_q[p][i] <= chunk_ends;
        end
      end
    end
    always_comb begin
      if (past_q) begin
        assume (answered[p] == (kept_q[p] != 0) && gen_port[p].room == (32'(kept_q[p]) < Entries));
        assume (gen_port[p].valid == (queued_q[p] != 0) && queue_ready[p] == (32'(queued_q[p]) < Depth));
        if (queued_q[p] != 0) assume (gen_port[p].word_last == last_q[p][0]);
        if (hold_q) assume ({gen_port[p].word_last, gen_port[p].strobe, gen_port[p].data} == head_word_q);
        assert (32'(queued_q[p]) <= Depth && (queued_q[p] != 0 || gen_port[p].lane_q == '0));
        assert (bursts[p] == kept_q[p] + due_aw_q[p] + 8'(m_axi_awvalid[p]));
        assert (bursts[p] == kept_q[p] + due_w_q[p] + lasts[p] + to_come[p]);
        assert (kept_q[p] <= 8'(Entries) && due_aw_q[p] <= 8'(Entries) && due_w_q[p] <= 8'(Entries));
        assert (m_axi_bready[p]);
      end
      assume (!(m_axi_bvalid[p] && (due_aw_q[p] == 0 || due_w_q[p] == 0)));
    end
  end

  // What the queues are given; with two ports the last two are nobody's.
  (* hierconn *) wire [DataBytes*9:0] \gen_port[0].queue.data_i ;
  (* hierconn *) wire [DataBytes*9:0] \gen_port[1].queue.data_i ;
  (* hierconn *) wire [DataBytes*9:0] \gen_port[2].queue.data_i ;
  (* hierconn *) wire [DataBytes*9:0] \gen_port[3].queue.data_i ;
  (* hierconn *) wire [1:0] \gen_port[0].responses.data_i ;
  (* hierconn *) wire [1:0] \gen_port[1].responses.data_i ;
  (* hierconn *) wire [1:0] \gen_port[2].responses.data_i ;
  (* hierconn *) wire [1:0] \gen_port[3].responses.data_i ;
  logic [3:0][DataBytes*9:0] queue_in;
  logic [3:0][1:0]           responses_in;
  logic [1:0]                told;
  assign queue_in = {\gen_port[3].queue.data_i , \gen_port[2].queue.data_i , \gen_port[1].queue.data_i , \gen_port[0].queue.data_i };
  assign responses_in = {
    \gen_port[3].responses.data_i , \gen_port[2].responses.data_i , \gen_port[1].responses.data_i , \gen_port[0].responses.data_i
  };
  always_comb begin
    told = '0;
    for (int unsigned p = 0; p < Ports; p++) told = told | (wanted[p] ? response[p] : 2'b00);
    if (past_q && s_axi_bvalid) assert (s_axi_bresp == told);
    for (int unsigned p = 0; p < Ports; p++) begin
      if (past_q && move && port_q == PortBits'(p)) assert (queue_in[p][DataBytes*9-1:0] == {s_axi_wstrb, s_axi_wdata});
      if (past_q && m_axi_bvalid[p]) assert (responses_in[p] == m_axi_bresp[p]);
    end
  end
  for (genvar p = 0; p < Ports; p++) begin : gen_carried
    always_comb begin
      for (int unsigned lane = 0; lane < Ports; lane++) begin
        if (past_q && m_axi_wvalid[p] && gen_port[p].lane_q == PortBits'(lane)) begin
          assert (m_axi_wdata[p] == gen_port[p].data[lane*NarrowBytes*8+:NarrowBytes*8]);
          assert (m_axi_wstrb[p] == gen_port[p].strobe[lane*NarrowBytes+:NarrowBytes]);
        end
      end
    end
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (s_axi_awvalid) begin
      assume (32'(s_axi_awlen) < MaxBurst && s_axi_awaddr[$clog2(DataBytes)-1:0] == '0);
      assume (32'(s_axi_awaddr[11:0]) + (32'(s_axi_awlen) + 32'd1) * DataBytes <= 32'd4096);
    end
    if (wait_q) assume (s_axi_awvalid && s_axi_awaddr == past_addr_q && s_axi_awlen == past_len_q);
    if (past_q) begin
      assume (order_valid == (open_q != 0) && order_ready == (32'(open_q) < Entries));
      assume (answers_valid == (count_q != 0) && answers_ready == (32'(count_q) < Entries));
      for (int unsigned e = 0; e < Entries; e++) begin
        if (open_q != 0 && e == 32'(oldest_open)) assume ({stays, len} == ghost_q[e][8:0]);
      end
      if (count_q != 0) assume (wanted == ghost_q[0][9+:Ports]);
      if (s_axi_wvalid) assume (s_axi_wlast == last);
      assert (32'(count_q) <= Entries && open_q <= count_q);
      assert (began[Entries] == first);
      for (int unsigned e = 0; e < Entries; e++) begin
        if (open_q != 0 && e == 32'(oldest_open)) begin
          assert (sent_q <= len && within_q <= len >> PortBits);
          for (int unsigned c = 0; c < Ports; c++) begin
            if (port_q == PortBits'(began[e] + PortBits'(c))) assert (sent_q == 8'(c) * ((len >> PortBits) + 8'd1) + within_q);
          end
        end
      end
      if (open_q == 0) assert (sent_q == 0 && within_q == 0 && port_q == first);
      if (count_q != 0 && due_aw_q == '0 && m_axi_awvalid == '0) assert (s_axi_bvalid);
      if (s_axi_bvalid) assert (open_q < count_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && answer && count_q == 8'd2);
    cover (past_q && move && last && sent_q == 8'd3);
    cover (past_q && take && cut_stays && open_q != '0);
  end
`endif
`endif
