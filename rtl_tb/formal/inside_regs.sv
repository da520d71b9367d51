// Inside fluidnpu_regs: AXI4-Lite from a slave's side. Every access is taken at once unless an answer waits, answered in the next cycle, once, and
// the answer stays; what is illegal answers SLVERR and changes nothing; B_act, ERROR and the events follow their rules.
`ifdef FORMAL
  logic past_q = 1'b0, running_q = 1'b0, past_write_q = 1'b0, past_read_q = 1'b0, past_ok_q = 1'b0, past_known_q = 1'b0, past_b_q, past_r_q;
  logic [511:0] past_settings_q;
  logic [511:0] settings;
  assign settings = 512'({irq_enable_q, slot_mask_q, program_lo_q, program_hi_q, weights_lo_q, weights_hi_q, base_lo_q, base_hi_q, bytes_q,
      watchdog_q, fbcb_index_q, first_q, last_q, layers_q});
  always_ff @(posedge clk_i) begin
    past_q          <= 1'b1;
    running_q       <= past_q;
    past_write_q    <= past_q && rst_ni && write;
    past_ok_q       <= write_ok;
    past_read_q     <= past_q && rst_ni && read;
    past_known_q    <= legal(s_axil_araddr, fluidnpu_registers_pkg::Exists);
    past_b_q        <= past_q && bvalid_q && !s_axil_bready;
    past_r_q        <= past_q && rvalid_q && !s_axil_rready;
    past_settings_q <= settings;
  end
  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      // Nothing hangs: both halves of a write, or a read, are taken in the cycle in which they are there.
      if (s_axil_awvalid && s_axil_wvalid && (!s_axil_bvalid || s_axil_bready)) assert (s_axil_awready && s_axil_wready);
      if (s_axil_arvalid && (!s_axil_rvalid || s_axil_rready)) assert (s_axil_arready);
      assert (!s_axil_awready || (s_axil_awvalid && s_axil_wvalid));
      assert (s_axil_awready == s_axil_wready);
      // One answer for each access and none for anything else.
      assert (s_axil_bvalid == (past_write_q || past_b_q));
      assert (s_axil_rvalid == (past_read_q || past_r_q));
      if (past_write_q) assert (s_axil_bresp == (past_ok_q ? Okay : SlvErr));
      if (past_read_q) assert (s_axil_rresp == (past_known_q ? Okay : SlvErr) && (past_known_q || s_axil_rdata == '0));
      // What is illegal does nothing.
      if (running_q && !past_ok_q) assert (settings == past_settings_q);
      if (!write_ok) assert (!start_o && !exit_o && !merge_o && !soft_reset_o && !fbcb_load_o);
      if (write && (s_axil_awaddr[1:0] != '0 || 32'(s_axil_awaddr) >= fluidnpu_registers_pkg::WindowBytes || s_axil_wstrb != 4'hF))
        assert (!write_ok);
      assert (32'(start_o) + 32'(exit_o) + 32'(merge_o) + 32'(soft_reset_o) <= 32'd1);
      assert (irq_o == |(irq_status_q & irq_enable_q));
    end
  end
`ifdef COVER
  always_comb begin
    cover (past_q && start_o);
    cover (past_q && irq_o);
    cover (past_q && fbcb_load_o);
    cover (past_read_q && !past_known_q && s_axil_rready);
    cover (past_q && past_b_q && s_axil_bresp == SlvErr);
  end
`endif
`endif
