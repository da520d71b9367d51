// Inside axi_read_master: what is asked of the bus is what was requested, word after word in order; an
// arbitrary beat that came is handed on unchanged, behind just those that came before it; nothing else is
// handed on.
`ifdef FORMAL
  // The next word that was requested and not yet offered on AR: from the requests and AR alone.
  logic [AddrWidth-1:0] due_q, span;
  logic                 fresh_q = 1'b0;
  assign span = arvalid_q && fresh_q ? (AddrWidth'(m_axi_arlen) + AddrWidth'(1)) << Size : '0;
  always_ff @(posedge clk_i) begin
    fresh_q <= rst_ni && (!m_axi_arvalid || m_axi_arready);
    due_q   <= take && pending_o == '0 ? req_addr_i : due_q + span;
  end

  // Some beat, from the bus until it is handed on or flushed: how many are before it.
  (* anyseq *) logic      mark;
  logic                   marked_q = 1'b0, comes, goes;
  logic [CountWidth-1:0]  queued_q, before_q;
  logic [DataBytes*8-1:0] value_q;
  assign comes = m_axi_rvalid && m_axi_rready;
  assign goes  = data_valid_o && data_ready_i;
  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) begin
      queued_q <= '0;
      marked_q <= 1'b0;
    end else begin
      queued_q <= queued_q + CountWidth'(comes) - CountWidth'(goes);
      if (marked_q) begin
        before_q <= before_q - CountWidth'(goes);
        if (goes && before_q == '0) marked_q <= 1'b0;
      end else if (comes && mark) begin
        marked_q <= 1'b1;
        before_q <= queued_q - CountWidth'(goes);
        value_q  <= m_axi_rdata;
      end
    end
  end
  (* hierconn *) wire [CountWidth-1:0]  \queue.formal_at ;
  (* hierconn *) wire [DataBytes*8-1:0] \queue.formal_word ;
  assign \queue.formal_at  = before_q;

  always_comb begin
    if (rst_ni) begin
      if (m_axi_arvalid && fresh_q) assert (m_axi_araddr == due_q);
      if (take && pending_o != '0) assert (req_addr_i == due_q + span + (AddrWidth'(pending_o) << Size));
      if (left_q != '0) assert (addr_q == due_q + span);
      assert (data_valid_o == (queued_q != '0) && queued_q == level);
      if (marked_q) assert (before_q < queued_q && \queue.formal_word == value_q);
      if (marked_q && before_q == '0) assert (data_valid_o && data_o == value_q);
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_ni && marked_q && before_q == '0 && goes && queued_q == CountWidth'(5));
    cover (rst_ni && take && pending_o != '0 && m_axi_arvalid && fresh_q);  // a request joins
    cover (rst_ni && take && pending_o == '0 && req_addr_i < due_q && queued_q != '0);
  end
`endif
`endif
