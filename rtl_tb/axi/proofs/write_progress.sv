/// Progress of the write master on a fair bus: closed, it never stands still for long; a flush ends within a
/// bound.
///
/// The bus takes addresses and words within 3 cycles and answers within 3.
module write_progress (
  input logic        clk_i,
  input logic        flush_i,
  input logic        close_i,
  input logic        word_valid_i,
  input logic [15:0] word_addr_i,
  input logic        awready_i,
  input logic        wready_i,
  input logic        bvalid_i
);
  localparam int unsigned MaxBurst = 4;
  localparam int unsigned MaxOutstanding = 3;
  localparam int unsigned StallBound = 6;
  localparam int unsigned FlushBound = 4 * MaxBurst + 4 * MaxOutstanding + 8;

  logic       rst_n = 1'b0;
  logic       word_ready, awvalid, wvalid, wlast, bready, idle;
  logic [8:0] unsent;
  logic [1:0] outstanding;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  axi_write_master #(.AddrWidth(16), .DataBytes(2), .MaxBurst(MaxBurst), .QueueBeats(4), .MaxOutstanding(MaxOutstanding)) dut (
    .clk_i, .rst_ni(rst_n), .flush_i, .close_i, .idle_o(idle), .error_o(), .outstanding_o(outstanding), .unsent_o(unsent),
    .word_valid_i, .word_ready_o(word_ready), .word_addr_i({word_addr_i[15:1], 1'b0}), .word_data_i(16'd0), .word_strb_i(2'b11),
    .m_axi_awaddr(), .m_axi_awlen(), .m_axi_awsize(), .m_axi_awburst(), .m_axi_awvalid(awvalid), .m_axi_awready(awready_i),
    .m_axi_wdata(), .m_axi_wstrb(), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid), .m_axi_wready(wready_i),
    .m_axi_bresp(2'b00), .m_axi_bvalid(bvalid_i), .m_axi_bready(bready)
  );

  logic [3:0] due_aw = '0, due_w = '0;
  logic [1:0] aw_wait = '0, w_wait = '0, b_wait = '0;
  logic       due, moves;
  assign due   = due_aw != '0 && due_w != '0;
  assign moves = (awvalid && awready_i) || (wvalid && wready_i) || (bvalid_i && bready) || (word_valid_i && word_ready);
  always_comb assume (!(bvalid_i && !due));
  always_comb assume (!(aw_wait == 2'd2 && awvalid && !awready_i));
  always_comb assume (!(w_wait == 2'd2 && wvalid && !wready_i));
  always_comb assume (!(b_wait == 2'd2 && due && !bvalid_i));
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      due_aw  <= due_aw + 4'(awvalid && awready_i) - 4'(bvalid_i && bready);
      due_w   <= due_w + 4'(wvalid && wready_i && wlast) - 4'(bvalid_i && bready);
      aw_wait <= awvalid && !awready_i ? aw_wait + 2'd1 : '0;
      w_wait  <= wvalid && !wready_i ? w_wait + 2'd1 : '0;
      b_wait  <= due && !bvalid_i ? b_wait + 2'd1 : '0;
    end
  end

  logic [3:0] still = '0;
  logic [7:0] flushing = '0, most;
  assign most = 8'(unsent << 2) - 8'(w_wait) + (unsent != '0 && !wvalid ? 8'd2 : 8'd0) + 8'({outstanding, 2'b00}) - 8'(b_wait)
      + (awvalid ? 8'd3 - 8'(aw_wait) : 8'd0);
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      still    <= !idle && close_i && !moves && !flush_i ? still + 4'd1 : '0;
      flushing <= flush_i ? flushing + 8'd1 : '0;
    end
  end

  always_comb begin
    if (rst_n) begin
      assert (aw_wait <= 2'd2 && w_wait <= 2'd2 && b_wait <= 2'd2);
      assert (4'(outstanding) == due_aw + 4'(awvalid));
      assert (4'(outstanding) == due_w + 4'(unsent != '0));
      assert (unsent <= 9'(MaxBurst));
      if (wvalid) assert (unsent != '0 && wlast == (unsent == 9'd1));
      assert (32'(still) <= StallBound);
      if (flushing != '0 && !idle) assert (32'(flushing) + 32'(most) <= FlushBound + 1);
      if (32'(flushing) > FlushBound + 1) assert (idle);
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_n && flushing == 8'd10 && !idle);
    cover (rst_n && idle && flushing == 8'd16);
    cover (rst_n && still == 4'd3);
  end
`endif
endmodule
