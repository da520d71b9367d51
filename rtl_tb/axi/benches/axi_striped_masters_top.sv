/// Top of a bench, not part of the NPU: both AXI masters, each striped over two or four narrow ports, without
/// identifiers.
module axi_striped_masters_top #(
  parameter int unsigned DataBytes = 8,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned QueueBeats = 128,
  parameter int unsigned Ports = 4,
  localparam int unsigned Narrow = DataBytes / Ports
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   flush_i,
  input  logic                   close_i,
  output logic                   read_idle_o,
  output logic                   write_idle_o,
  output logic                   read_error_o,
  output logic                   write_error_o,
  input  logic                   req_valid_i,
  output logic                   req_ready_o,
  input  logic [31:0]            req_addr_i,
  input  logic [23:0]            req_beats_i,
  output logic                   data_valid_o,
  input  logic                   data_ready_i,
  output logic [DataBytes*8-1:0] data_o,
  input  logic                   word_valid_i,
  output logic                   word_ready_o,
  input  logic [31:0]            word_addr_i,
  input  logic [DataBytes*8-1:0] word_data_i,
  input  logic [DataBytes-1:0]   word_strb_i,
  output logic [31:0] m0_axi_araddr, m0_axi_awaddr,
  output logic [31:0] m1_axi_araddr, m1_axi_awaddr,
  output logic [31:0] m2_axi_araddr, m2_axi_awaddr,
  output logic [31:0] m3_axi_araddr, m3_axi_awaddr,
  output logic [7:0] m0_axi_arlen, m0_axi_awlen,
  output logic [7:0] m1_axi_arlen, m1_axi_awlen,
  output logic [7:0] m2_axi_arlen, m2_axi_awlen,
  output logic [7:0] m3_axi_arlen, m3_axi_awlen,
  output logic [2:0] m0_axi_arsize, m0_axi_awsize,
  output logic [2:0] m1_axi_arsize, m1_axi_awsize,
  output logic [2:0] m2_axi_arsize, m2_axi_awsize,
  output logic [2:0] m3_axi_arsize, m3_axi_awsize,
  output logic [1:0] m0_axi_arburst, m0_axi_awburst,
  output logic [1:0] m1_axi_arburst, m1_axi_awburst,
  output logic [1:0] m2_axi_arburst, m2_axi_awburst,
  output logic [1:0] m3_axi_arburst, m3_axi_awburst,
  output logic m0_axi_arvalid, m0_axi_rready, m0_axi_awvalid, m0_axi_wlast, m0_axi_wvalid, m0_axi_bready,
  output logic m1_axi_arvalid, m1_axi_rready, m1_axi_awvalid, m1_axi_wlast, m1_axi_wvalid, m1_axi_bready,
  output logic m2_axi_arvalid, m2_axi_rready, m2_axi_awvalid, m2_axi_wlast, m2_axi_wvalid, m2_axi_bready,
  output logic m3_axi_arvalid, m3_axi_rready, m3_axi_awvalid, m3_axi_wlast, m3_axi_wvalid, m3_axi_bready,
  output logic [Narrow*8-1:0] m0_axi_wdata,
  output logic [Narrow*8-1:0] m1_axi_wdata,
  output logic [Narrow*8-1:0] m2_axi_wdata,
  output logic [Narrow*8-1:0] m3_axi_wdata,
  output logic [Narrow-1:0] m0_axi_wstrb,
  output logic [Narrow-1:0] m1_axi_wstrb,
  output logic [Narrow-1:0] m2_axi_wstrb,
  output logic [Narrow-1:0] m3_axi_wstrb,
  input  logic m0_axi_arready, m0_axi_rlast, m0_axi_rvalid, m0_axi_awready, m0_axi_wready, m0_axi_bvalid,
  input  logic m1_axi_arready, m1_axi_rlast, m1_axi_rvalid, m1_axi_awready, m1_axi_wready, m1_axi_bvalid,
  input  logic m2_axi_arready, m2_axi_rlast, m2_axi_rvalid, m2_axi_awready, m2_axi_wready, m2_axi_bvalid,
  input  logic m3_axi_arready, m3_axi_rlast, m3_axi_rvalid, m3_axi_awready, m3_axi_wready, m3_axi_bvalid,
  input  logic [Narrow*8-1:0] m0_axi_rdata,
  input  logic [Narrow*8-1:0] m1_axi_rdata,
  input  logic [Narrow*8-1:0] m2_axi_rdata,
  input  logic [Narrow*8-1:0] m3_axi_rdata,
  input  logic [1:0] m0_axi_rresp, m0_axi_bresp,
  input  logic [1:0] m1_axi_rresp, m1_axi_bresp,
  input  logic [1:0] m2_axi_rresp, m2_axi_bresp,
  input  logic [1:0] m3_axi_rresp, m3_axi_bresp
);
  logic [31:0]            araddr, awaddr;
  logic [7:0]             arlen, awlen;
  logic                   arvalid, arready, rlast, rvalid, rready, awvalid, awready, wlast, wvalid, wready, bvalid, bready;
  logic [DataBytes*8-1:0] rdata, wdata;
  logic [DataBytes-1:0]   wstrb;
  logic [1:0]             rresp, bresp;

  logic [3:0][31:0]         p_araddr, p_awaddr;
  logic [3:0][7:0]          p_arlen, p_awlen;
  logic [3:0][2:0]          p_arsize, p_awsize;
  logic [3:0][1:0]          p_arburst, p_awburst, p_rresp, p_bresp;
  logic [3:0][Narrow*8-1:0] p_rdata, p_wdata;
  logic [3:0][Narrow-1:0]   p_wstrb;
  logic [3:0]               p_arvalid, p_arready, p_rlast, p_rvalid, p_rready, p_awvalid, p_awready, p_wlast, p_wvalid, p_wready;
  logic [3:0]               p_bvalid, p_bready;

  assign {m0_axi_araddr, m0_axi_arlen, m0_axi_arsize, m0_axi_arburst, m0_axi_arvalid, m0_axi_rready, m0_axi_awaddr, m0_axi_awlen, m0_axi_awsize, m0_axi_awburst, m0_axi_awvalid, m0_axi_wdata, m0_axi_wstrb, m0_axi_wlast, m0_axi_wvalid, m0_axi_bready}
    = {p_araddr[0], p_arlen[0], p_arsize[0], p_arburst[0], p_arvalid[0], p_rready[0], p_awaddr[0], p_awlen[0], p_awsize[0], p_awburst[0], p_awvalid[0], p_wdata[0], p_wstrb[0], p_wlast[0], p_wvalid[0], p_bready[0]};
  assign {p_arready[0], p_rdata[0], p_rresp[0], p_rlast[0], p_rvalid[0], p_awready[0], p_wready[0], p_bresp[0], p_bvalid[0]}
    = {m0_axi_arready, m0_axi_rdata, m0_axi_rresp, m0_axi_rlast, m0_axi_rvalid, m0_axi_awready, m0_axi_wready, m0_axi_bresp, m0_axi_bvalid};
  assign {m1_axi_araddr, m1_axi_arlen, m1_axi_arsize, m1_axi_arburst, m1_axi_arvalid, m1_axi_rready, m1_axi_awaddr, m1_axi_awlen, m1_axi_awsize, m1_axi_awburst, m1_axi_awvalid, m1_axi_wdata, m1_axi_wstrb, m1_axi_wlast, m1_axi_wvalid, m1_axi_bready}
    = {p_araddr[1], p_arlen[1], p_arsize[1], p_arburst[1], p_arvalid[1], p_rready[1], p_awaddr[1], p_awlen[1], p_awsize[1], p_awburst[1], p_awvalid[1], p_wdata[1], p_wstrb[1], p_wlast[1], p_wvalid[1], p_bready[1]};
  assign {p_arready[1], p_rdata[1], p_rresp[1], p_rlast[1], p_rvalid[1], p_awready[1], p_wready[1], p_bresp[1], p_bvalid[1]}
    = {m1_axi_arready, m1_axi_rdata, m1_axi_rresp, m1_axi_rlast, m1_axi_rvalid, m1_axi_awready, m1_axi_wready, m1_axi_bresp, m1_axi_bvalid};
  assign {m2_axi_araddr, m2_axi_arlen, m2_axi_arsize, m2_axi_arburst, m2_axi_arvalid, m2_axi_rready, m2_axi_awaddr, m2_axi_awlen, m2_axi_awsize, m2_axi_awburst, m2_axi_awvalid, m2_axi_wdata, m2_axi_wstrb, m2_axi_wlast, m2_axi_wvalid, m2_axi_bready}
    = {p_araddr[2], p_arlen[2], p_arsize[2], p_arburst[2], p_arvalid[2], p_rready[2], p_awaddr[2], p_awlen[2], p_awsize[2], p_awburst[2], p_awvalid[2], p_wdata[2], p_wstrb[2], p_wlast[2], p_wvalid[2], p_bready[2]};
  assign {p_arready[2], p_rdata[2], p_rresp[2], p_rlast[2], p_rvalid[2], p_awready[2], p_wready[2], p_bresp[2], p_bvalid[2]}
    = {m2_axi_arready, m2_axi_rdata, m2_axi_rresp, m2_axi_rlast, m2_axi_rvalid, m2_axi_awready, m2_axi_wready, m2_axi_bresp, m2_axi_bvalid};
  assign {m3_axi_araddr, m3_axi_arlen, m3_axi_arsize, m3_axi_arburst, m3_axi_arvalid, m3_axi_rready, m3_axi_awaddr, m3_axi_awlen, m3_axi_awsize, m3_axi_awburst, m3_axi_awvalid, m3_axi_wdata, m3_axi_wstrb, m3_axi_wlast, m3_axi_wvalid, m3_axi_bready}
    = {p_araddr[3], p_arlen[3], p_arsize[3], p_arburst[3], p_arvalid[3], p_rready[3], p_awaddr[3], p_awlen[3], p_awsize[3], p_awburst[3], p_awvalid[3], p_wdata[3], p_wstrb[3], p_wlast[3], p_wvalid[3], p_bready[3]};
  assign {p_arready[3], p_rdata[3], p_rresp[3], p_rlast[3], p_rvalid[3], p_awready[3], p_wready[3], p_bresp[3], p_bvalid[3]}
    = {m3_axi_arready, m3_axi_rdata, m3_axi_rresp, m3_axi_rlast, m3_axi_rvalid, m3_axi_awready, m3_axi_wready, m3_axi_bresp, m3_axi_bvalid};

  if (Ports < 4) begin : gen_unused
    assign p_arvalid[3:Ports] = '0;
    assign p_awvalid[3:Ports] = '0;
    assign p_wvalid[3:Ports]  = '0;
  end

  axi_read_master #(.AddrWidth(32), .DataBytes(DataBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) read (
    .clk_i, .rst_ni, .flush_i, .idle_o(read_idle_o), .error_o(read_error_o), .inflight_o(), .pending_o(),
    .req_valid_i, .req_ready_o, .req_addr_i, .req_beats_i, .data_valid_o, .data_ready_i, .data_o,
    .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(), .m_axi_arburst(), .m_axi_arvalid(arvalid),
    .m_axi_arready(arready), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast), .m_axi_rvalid(rvalid),
    .m_axi_rready(rready)
  );

  axi_read_stripe #(
    .AddrWidth(32), .DataBytes(DataBytes), .Ports(Ports), .MaxBurst(MaxBurst), .QueueWords(QueueBeats)
  ) read_stripe (
    .clk_i, .rst_ni, .s_axi_araddr(araddr), .s_axi_arlen(arlen), .s_axi_arvalid(arvalid), .s_axi_arready(arready),
    .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rlast(rlast), .s_axi_rvalid(rvalid), .s_axi_rready(rready),
    .m_axi_araddr(p_araddr[Ports-1:0]), .m_axi_arlen(p_arlen[Ports-1:0]), .m_axi_arsize(p_arsize[Ports-1:0]),
    .m_axi_arburst(p_arburst[Ports-1:0]), .m_axi_arvalid(p_arvalid[Ports-1:0]), .m_axi_arready(p_arready[Ports-1:0]),
    .m_axi_rdata(p_rdata[Ports-1:0]), .m_axi_rresp(p_rresp[Ports-1:0]), .m_axi_rlast(p_rlast[Ports-1:0]),
    .m_axi_rvalid(p_rvalid[Ports-1:0]), .m_axi_rready(p_rready[Ports-1:0])
  );

  axi_write_master #(.AddrWidth(32), .DataBytes(DataBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) write (
    .clk_i, .rst_ni, .flush_i, .close_i, .idle_o(write_idle_o), .error_o(write_error_o), .outstanding_o(), .unsent_o(),
    .word_valid_i, .word_ready_o, .word_addr_i, .word_data_i, .word_strb_i,
    .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(), .m_axi_awburst(), .m_axi_awvalid(awvalid),
    .m_axi_awready(awready), .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid),
    .m_axi_wready(wready), .m_axi_bresp(bresp), .m_axi_bvalid(bvalid), .m_axi_bready(bready)
  );

  axi_write_stripe #(.AddrWidth(32), .DataBytes(DataBytes), .Ports(Ports), .MaxBurst(MaxBurst)) write_stripe (
    .clk_i, .rst_ni, .s_axi_awaddr(awaddr), .s_axi_awlen(awlen), .s_axi_awvalid(awvalid), .s_axi_awready(awready),
    .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wlast(wlast), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready),
    .m_axi_awaddr(p_awaddr[Ports-1:0]), .m_axi_awlen(p_awlen[Ports-1:0]), .m_axi_awsize(p_awsize[Ports-1:0]),
    .m_axi_awburst(p_awburst[Ports-1:0]), .m_axi_awvalid(p_awvalid[Ports-1:0]), .m_axi_awready(p_awready[Ports-1:0]),
    .m_axi_wdata(p_wdata[Ports-1:0]), .m_axi_wstrb(p_wstrb[Ports-1:0]), .m_axi_wlast(p_wlast[Ports-1:0]),
    .m_axi_wvalid(p_wvalid[Ports-1:0]), .m_axi_wready(p_wready[Ports-1:0]), .m_axi_bresp(p_bresp[Ports-1:0]),
    .m_axi_bvalid(p_bvalid[Ports-1:0]), .m_axi_bready(p_bready[Ports-1:0])
  );

  // RLAST, which the read master ignores, is at the last word of each burst.
  logic [7:0] len;
  logic [7:0] beat_q;
  common_fifo #(.Width(8), .Depth(QueueBeats + 1)) lengths (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(arvalid && arready), .ready_o(), .data_i(arlen),
    .valid_o(), .ready_i(rvalid && rlast), .data_o(len), .level_o()
  );
  always_ff @(posedge clk_i) begin
    if (!rst_ni) beat_q <= '0;
    else if (rvalid) beat_q <= rlast ? '0 : beat_q + 8'd1;
    if (rst_ni && rvalid) assert (rlast == (beat_q == len));
  end
endmodule
