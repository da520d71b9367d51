/// The NPU in one module for simulation: data plane and reference core, joined by the five streams of ADR 4.
///
/// With `Stripes` of 2 or 4 each AXI master of PortBytes is spread over that number of ports of PortBytes /
/// Stripes (axi_read_stripe, axi_write_stripe); port p of a master is element p of its signals. A bitstream
/// takes `fluid_npu.v` (hls/templates/project) instead, which Vivado can package and which may hold the HLS
/// core.
module fluidnpu_npu #(
  parameter int unsigned TR = 64,
  parameter int unsigned TP = 4,
  parameter int unsigned TC = 8,
  parameter int unsigned BMax = 4,
  parameter int unsigned AccBits = 48,
  parameter int unsigned WeightSlots = 1,
  parameter int unsigned OutWords = 4,
  parameter int unsigned InWords = 8,
  parameter bit Stackable = 1'b1,
  parameter bit Split = 1'b0,
  parameter int unsigned Layers = 2,
  parameter int unsigned BuildId = 0,
  parameter int unsigned PortBytes = 16,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned LineWords = 16,
  parameter int unsigned Sets = 64,
  parameter int unsigned PoolWindows = 0,
  parameter int unsigned PoolRows = 0,
  parameter bit Activation = 1'b0,
  parameter bit ActivationDsp = 1'b0,
  parameter int unsigned FilterKernel = 0,
  parameter int unsigned FilterWindows = 0,
  parameter int unsigned FilterRows = 0,
  parameter int unsigned FilterDeepRows = 0,
  parameter int unsigned FilterWeights = 0,
  parameter bit FilterActivation = 1'b0,
  parameter int unsigned QueueBeats = 128,
  parameter int unsigned Stripes = 1,
  parameter int unsigned Piece = TP,  // Piece and Broken: of the core's chains
  parameter int unsigned Broken = 0,
  parameter int unsigned WordBits = 16,
  parameter int unsigned FieldBits = 18,  // of the core's slices, with words of 8 bits
  localparam int unsigned AddrWidth = fluidnpu_pkg::AddrWidth,
  localparam int unsigned StripeBytes = PortBytes / Stripes
) (
  input  logic                           clk_i,                  // clock
  input  logic                           rst_ni,                 // reset, synchronous
  output logic                           irq_o,                  // the interrupt
  // AXI4-Lite
  input  logic [11:0]                    s_axil_awaddr,          // register to write
  input  logic                           s_axil_awvalid,         // the write is asked for
  output logic                           s_axil_awready,         // and is taken
  input  logic [31:0]                    s_axil_wdata,           // its new value
  input  logic [3:0]                     s_axil_wstrb,           // all bytes, or the write is refused
  input  logic                           s_axil_wvalid,          // the value is there
  output logic                           s_axil_wready,          // and is taken
  output logic [1:0]                     s_axil_bresp,           // how the write went
  output logic                           s_axil_bvalid,          // that answer is there
  input  logic                           s_axil_bready,          // and is taken
  input  logic [11:0]                    s_axil_araddr,          // register to read
  input  logic                           s_axil_arvalid,         // the read is asked for
  output logic                           s_axil_arready,         // and is taken
  output logic [31:0]                    s_axil_rdata,           // the register's value
  output logic [1:0]                     s_axil_rresp,           // how the read went
  output logic                           s_axil_rvalid,          // the answer is there
  input  logic                           s_axil_rready,          // and is taken
  // m0: program and weights
  output logic [Stripes-1:0][AddrWidth-1:0]     m0_axi_araddr,   // first byte of a burst to read
  output logic [Stripes-1:0][7:0]               m0_axi_arlen,    // its words, less one
  output logic [Stripes-1:0][2:0]               m0_axi_arsize,   // log2 of the bytes of a word
  output logic [Stripes-1:0][1:0]               m0_axi_arburst,  // INCR
  output logic [Stripes-1:0]                    m0_axi_arvalid,  // the burst is asked for
  input  logic [Stripes-1:0]                    m0_axi_arready,  // and is taken
  input  logic [Stripes-1:0][StripeBytes*8-1:0] m0_axi_rdata,    // a word read
  input  logic [Stripes-1:0][1:0]               m0_axi_rresp,    // how its access went
  input  logic [Stripes-1:0]                    m0_axi_rlast,    // it is the last of its burst
  input  logic [Stripes-1:0]                    m0_axi_rvalid,   // the word is there
  output logic [Stripes-1:0]                    m0_axi_rready,   // and is taken
  // m1: inputs
  output logic [Stripes-1:0][AddrWidth-1:0]     m1_axi_araddr,   // first byte of a burst to read
  output logic [Stripes-1:0][7:0]               m1_axi_arlen,    // its words, less one
  output logic [Stripes-1:0][2:0]               m1_axi_arsize,   // log2 of the bytes of a word
  output logic [Stripes-1:0][1:0]               m1_axi_arburst,  // INCR
  output logic [Stripes-1:0]                    m1_axi_arvalid,  // the burst is asked for
  input  logic [Stripes-1:0]                    m1_axi_arready,  // and is taken
  input  logic [Stripes-1:0][StripeBytes*8-1:0] m1_axi_rdata,    // a word read
  input  logic [Stripes-1:0][1:0]               m1_axi_rresp,    // how its access went
  input  logic [Stripes-1:0]                    m1_axi_rlast,    // it is the last of its burst
  input  logic [Stripes-1:0]                    m1_axi_rvalid,   // the word is there
  output logic [Stripes-1:0]                    m1_axi_rready,   // and is taken
  // m2: residuals and outputs
  output logic [Stripes-1:0][AddrWidth-1:0]     m2_axi_araddr,   // first byte of a burst to read
  output logic [Stripes-1:0][7:0]               m2_axi_arlen,    // its words, less one
  output logic [Stripes-1:0][2:0]               m2_axi_arsize,   // log2 of the bytes of a word
  output logic [Stripes-1:0][1:0]               m2_axi_arburst,  // INCR
  output logic [Stripes-1:0]                    m2_axi_arvalid,  // the burst is asked for
  input  logic [Stripes-1:0]                    m2_axi_arready,  // and is taken
  input  logic [Stripes-1:0][StripeBytes*8-1:0] m2_axi_rdata,    // a word read
  input  logic [Stripes-1:0][1:0]               m2_axi_rresp,    // how its access went
  input  logic [Stripes-1:0]                    m2_axi_rlast,    // it is the last of its burst
  input  logic [Stripes-1:0]                    m2_axi_rvalid,   // the word is there
  output logic [Stripes-1:0]                    m2_axi_rready,   // and is taken
  output logic [Stripes-1:0][AddrWidth-1:0]     m2_axi_awaddr,   // first byte of a burst to write
  output logic [Stripes-1:0][7:0]               m2_axi_awlen,    // its words, less one
  output logic [Stripes-1:0][2:0]               m2_axi_awsize,   // log2 of the bytes of a word
  output logic [Stripes-1:0][1:0]               m2_axi_awburst,  // INCR
  output logic [Stripes-1:0]                    m2_axi_awvalid,  // the burst is asked for
  input  logic [Stripes-1:0]                    m2_axi_awready,  // and is taken
  output logic [Stripes-1:0][StripeBytes*8-1:0] m2_axi_wdata,    // a word to write
  output logic [Stripes-1:0][StripeBytes-1:0]   m2_axi_wstrb,    // which of its bytes are written
  output logic [Stripes-1:0]                    m2_axi_wlast,    // it is the last of its burst
  output logic [Stripes-1:0]                    m2_axi_wvalid,   // the word is there
  input  logic [Stripes-1:0]                    m2_axi_wready,   // and is taken
  input  logic [Stripes-1:0][1:0]               m2_axi_bresp,    // how a burst of writes went
  input  logic [Stripes-1:0]                    m2_axi_bvalid,   // that answer is there
  output logic [Stripes-1:0]                    m2_axi_bready    // and is taken
);
  logic        core_rst_n, core_clear, cmd_valid, cmd_ready, input_valid, input_ready, weight_valid, weight_ready;
  logic        residual_valid, residual_ready, output_valid, output_ready;
  logic [31:0] saturations;
  logic [fluidnpu_formats_pkg::CoreCommandWireBits-1:0] cmd_data;
  logic [InWords*WordBits-1:0]         input_data;
  logic [WeightSlots*TP*WordBits-1:0]  weight_data;
  logic [OutWords*WordBits-1:0]        residual_data, output_data;

  // The masters as the data plane has them.
  logic [2:0][AddrWidth-1:0]   araddr;
  logic [2:0][7:0]             arlen;
  logic [2:0][2:0]             arsize;
  logic [2:0][1:0]             arburst, rresp;
  logic [2:0]                  arvalid, arready, rlast, rvalid, rready;
  logic [2:0][PortBytes*8-1:0] rdata;
  logic [AddrWidth-1:0]        awaddr;
  logic [7:0]                  awlen;
  logic [2:0]                  awsize;
  logic [1:0]                  awburst, bresp;
  logic                        awvalid, awready, wlast, wvalid, wready, bvalid, bready;
  logic [PortBytes*8-1:0]      wdata;
  logic [PortBytes-1:0]        wstrb;

  fluidnpu_data_plane #(
    .TR(TR), .TP(TP), .TC(TC), .BMax(BMax), .AccBits(AccBits), .WeightSlots(WeightSlots), .OutWords(OutWords),
    .InWords(InWords), .Stackable(Stackable), .Split(Split), .Layers(Layers), .BuildId(BuildId), .PortBytes(PortBytes),
    .MaxBurst(MaxBurst), .LineWords(LineWords), .Sets(Sets), .PoolWindows(PoolWindows), .PoolRows(PoolRows),
    .Activation(Activation), .ActivationDsp(ActivationDsp), .FilterKernel(FilterKernel), .FilterWindows(FilterWindows),
    .FilterRows(FilterRows), .FilterDeepRows(FilterDeepRows), .FilterWeights(FilterWeights), .FilterActivation(FilterActivation),
    .QueueBeats(QueueBeats), .WordBits(WordBits)
  ) data_plane (
    .clk_i, .rst_ni, .irq_o,
    .s_axil_awaddr, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid, .s_axil_wready,
    .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arvalid, .s_axil_arready, .s_axil_rdata,
    .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
    .m0_axi_araddr(araddr[0]), .m0_axi_arlen(arlen[0]), .m0_axi_arsize(arsize[0]), .m0_axi_arburst(arburst[0]),
    .m0_axi_arvalid(arvalid[0]), .m0_axi_arready(arready[0]), .m0_axi_rdata(rdata[0]), .m0_axi_rresp(rresp[0]),
    .m0_axi_rlast(rlast[0]), .m0_axi_rvalid(rvalid[0]), .m0_axi_rready(rready[0]),
    .m1_axi_araddr(araddr[1]), .m1_axi_arlen(arlen[1]), .m1_axi_arsize(arsize[1]), .m1_axi_arburst(arburst[1]),
    .m1_axi_arvalid(arvalid[1]), .m1_axi_arready(arready[1]), .m1_axi_rdata(rdata[1]), .m1_axi_rresp(rresp[1]),
    .m1_axi_rlast(rlast[1]), .m1_axi_rvalid(rvalid[1]), .m1_axi_rready(rready[1]),
    .m2_axi_araddr(araddr[2]), .m2_axi_arlen(arlen[2]), .m2_axi_arsize(arsize[2]), .m2_axi_arburst(arburst[2]),
    .m2_axi_arvalid(arvalid[2]), .m2_axi_arready(arready[2]), .m2_axi_rdata(rdata[2]), .m2_axi_rresp(rresp[2]),
    .m2_axi_rlast(rlast[2]), .m2_axi_rvalid(rvalid[2]), .m2_axi_rready(rready[2]),
    .m2_axi_awaddr(awaddr), .m2_axi_awlen(awlen), .m2_axi_awsize(awsize), .m2_axi_awburst(awburst),
    .m2_axi_awvalid(awvalid), .m2_axi_awready(awready), .m2_axi_wdata(wdata), .m2_axi_wstrb(wstrb), .m2_axi_wlast(wlast),
    .m2_axi_wvalid(wvalid), .m2_axi_wready(wready), .m2_axi_bresp(bresp), .m2_axi_bvalid(bvalid), .m2_axi_bready(bready),
    .core_rst_no(core_rst_n), .core_clear_o(core_clear), .saturations_i(saturations),
    .m_axis_cmd_tdata(cmd_data), .m_axis_cmd_tvalid(cmd_valid), .m_axis_cmd_tready(cmd_ready),
    .m_axis_input_tdata(input_data), .m_axis_input_tvalid(input_valid), .m_axis_input_tready(input_ready),
    .m_axis_weight_tdata(weight_data), .m_axis_weight_tvalid(weight_valid), .m_axis_weight_tready(weight_ready),
    .m_axis_residual_tdata(residual_data), .m_axis_residual_tvalid(residual_valid),
    .m_axis_residual_tready(residual_ready),
    .s_axis_output_tdata(output_data), .s_axis_output_tvalid(output_valid), .s_axis_output_tready(output_ready)
  );

  fluidnpu_core #(
    .TR(TR), .TP(TP), .TC(TC), .AccBits(AccBits), .WeightSlots(WeightSlots), .OutWords(OutWords), .InWords(InWords),
    .Stackable(Stackable), .Split(Split), .Piece(Piece), .Broken(Broken), .WordBits(WordBits), .FieldBits(FieldBits)
  ) core (
    .clk_i, .rst_ni(core_rst_n), .clear_i(core_clear), .saturations_o(saturations),
    .cmd_i(cmd_data), .cmd_valid_i(cmd_valid), .cmd_ready_o(cmd_ready),
    .input_i(input_data), .input_valid_i(input_valid), .input_ready_o(input_ready),
    .weight_i(weight_data), .weight_valid_i(weight_valid), .weight_ready_o(weight_ready),
    .residual_i(residual_data), .residual_valid_i(residual_valid), .residual_ready_o(residual_ready),
    .output_o(output_data), .output_valid_o(output_valid), .output_ready_i(output_ready)
  );

  if (Stripes == 1) begin : gen_plain
    assign m0_axi_araddr = araddr[0];
    assign m0_axi_arlen = arlen[0];
    assign m0_axi_arsize = arsize[0];
    assign m0_axi_arburst = arburst[0];
    assign m0_axi_arvalid = arvalid[0];
    assign m0_axi_rready = rready[0];
    assign arready[0] = m0_axi_arready;
    assign rdata[0] = m0_axi_rdata;
    assign rresp[0] = m0_axi_rresp;
    assign rlast[0] = m0_axi_rlast;
    assign rvalid[0] = m0_axi_rvalid;
    assign m1_axi_araddr = araddr[1];
    assign m1_axi_arlen = arlen[1];
    assign m1_axi_arsize = arsize[1];
    assign m1_axi_arburst = arburst[1];
    assign m1_axi_arvalid = arvalid[1];
    assign m1_axi_rready = rready[1];
    assign arready[1] = m1_axi_arready;
    assign rdata[1] = m1_axi_rdata;
    assign rresp[1] = m1_axi_rresp;
    assign rlast[1] = m1_axi_rlast;
    assign rvalid[1] = m1_axi_rvalid;
    assign m2_axi_araddr = araddr[2];
    assign m2_axi_arlen = arlen[2];
    assign m2_axi_arsize = arsize[2];
    assign m2_axi_arburst = arburst[2];
    assign m2_axi_arvalid = arvalid[2];
    assign m2_axi_rready = rready[2];
    assign arready[2] = m2_axi_arready;
    assign rdata[2] = m2_axi_rdata;
    assign rresp[2] = m2_axi_rresp;
    assign rlast[2] = m2_axi_rlast;
    assign rvalid[2] = m2_axi_rvalid;
    assign m2_axi_awaddr = awaddr;
    assign m2_axi_awlen = awlen;
    assign m2_axi_awsize = awsize;
    assign m2_axi_awburst = awburst;
    assign m2_axi_awvalid = awvalid;
    assign m2_axi_wdata = wdata;
    assign m2_axi_wstrb = wstrb;
    assign m2_axi_wlast = wlast;
    assign m2_axi_wvalid = wvalid;
    assign m2_axi_bready = bready;
    assign awready = m2_axi_awready;
    assign wready = m2_axi_wready;
    assign bresp = m2_axi_bresp;
    assign bvalid = m2_axi_bvalid;
  end else begin : gen_striped
    logic [3:0] stripe_rst_n;
    common_reset #(.Copies(4)) stripe_reset (.clk_i, .rst_ni, .rst_no(stripe_rst_n));
    axi_read_stripe #(
      .AddrWidth(AddrWidth), .DataBytes(PortBytes), .Ports(Stripes), .MaxBurst(MaxBurst), .QueueWords(QueueBeats)
    ) m0_read (
      .clk_i, .rst_ni(stripe_rst_n[0]),
      .s_axi_araddr(araddr[0]), .s_axi_arlen(arlen[0]), .s_axi_arvalid(arvalid[0]), .s_axi_arready(arready[0]),
      .s_axi_rdata(rdata[0]), .s_axi_rresp(rresp[0]), .s_axi_rlast(rlast[0]), .s_axi_rvalid(rvalid[0]),
      .s_axi_rready(rready[0]),
      .m_axi_araddr(m0_axi_araddr), .m_axi_arlen(m0_axi_arlen), .m_axi_arsize(m0_axi_arsize),
      .m_axi_arburst(m0_axi_arburst), .m_axi_arvalid(m0_axi_arvalid), .m_axi_arready(m0_axi_arready),
      .m_axi_rdata(m0_axi_rdata), .m_axi_rresp(m0_axi_rresp), .m_axi_rlast(m0_axi_rlast), .m_axi_rvalid(m0_axi_rvalid),
      .m_axi_rready(m0_axi_rready)
    );
    axi_read_stripe #(
      .AddrWidth(AddrWidth), .DataBytes(PortBytes), .Ports(Stripes), .MaxBurst(MaxBurst), .QueueWords(QueueBeats)
    ) m1_read (
      .clk_i, .rst_ni(stripe_rst_n[1]),
      .s_axi_araddr(araddr[1]), .s_axi_arlen(arlen[1]), .s_axi_arvalid(arvalid[1]), .s_axi_arready(arready[1]),
      .s_axi_rdata(rdata[1]), .s_axi_rresp(rresp[1]), .s_axi_rlast(rlast[1]), .s_axi_rvalid(rvalid[1]),
      .s_axi_rready(rready[1]),
      .m_axi_araddr(m1_axi_araddr), .m_axi_arlen(m1_axi_arlen), .m_axi_arsize(m1_axi_arsize),
      .m_axi_arburst(m1_axi_arburst), .m_axi_arvalid(m1_axi_arvalid), .m_axi_arready(m1_axi_arready),
      .m_axi_rdata(m1_axi_rdata), .m_axi_rresp(m1_axi_rresp), .m_axi_rlast(m1_axi_rlast), .m_axi_rvalid(m1_axi_rvalid),
      .m_axi_rready(m1_axi_rready)
    );
    axi_read_stripe #(
      .AddrWidth(AddrWidth), .DataBytes(PortBytes), .Ports(Stripes), .MaxBurst(MaxBurst), .QueueWords(QueueBeats)
    ) m2_read (
      .clk_i, .rst_ni(stripe_rst_n[2]),
      .s_axi_araddr(araddr[2]), .s_axi_arlen(arlen[2]), .s_axi_arvalid(arvalid[2]), .s_axi_arready(arready[2]),
      .s_axi_rdata(rdata[2]), .s_axi_rresp(rresp[2]), .s_axi_rlast(rlast[2]), .s_axi_rvalid(rvalid[2]),
      .s_axi_rready(rready[2]),
      .m_axi_araddr(m2_axi_araddr), .m_axi_arlen(m2_axi_arlen), .m_axi_arsize(m2_axi_arsize),
      .m_axi_arburst(m2_axi_arburst), .m_axi_arvalid(m2_axi_arvalid), .m_axi_arready(m2_axi_arready),
      .m_axi_rdata(m2_axi_rdata), .m_axi_rresp(m2_axi_rresp), .m_axi_rlast(m2_axi_rlast), .m_axi_rvalid(m2_axi_rvalid),
      .m_axi_rready(m2_axi_rready)
    );
    axi_write_stripe #(.AddrWidth(AddrWidth), .DataBytes(PortBytes), .Ports(Stripes), .MaxBurst(MaxBurst)) m2_write (
      .clk_i, .rst_ni(stripe_rst_n[3]),
      .s_axi_awaddr(awaddr), .s_axi_awlen(awlen), .s_axi_awvalid(awvalid), .s_axi_awready(awready), .s_axi_wdata(wdata),
      .s_axi_wstrb(wstrb), .s_axi_wlast(wlast), .s_axi_wvalid(wvalid), .s_axi_wready(wready), .s_axi_bresp(bresp),
      .s_axi_bvalid(bvalid), .s_axi_bready(bready),
      .m_axi_awaddr(m2_axi_awaddr), .m_axi_awlen(m2_axi_awlen), .m_axi_awsize(m2_axi_awsize),
      .m_axi_awburst(m2_axi_awburst), .m_axi_awvalid(m2_axi_awvalid), .m_axi_awready(m2_axi_awready),
      .m_axi_wdata(m2_axi_wdata), .m_axi_wstrb(m2_axi_wstrb), .m_axi_wlast(m2_axi_wlast), .m_axi_wvalid(m2_axi_wvalid),
      .m_axi_wready(m2_axi_wready), .m_axi_bresp(m2_axi_bresp), .m_axi_bvalid(m2_axi_bvalid), .m_axi_bready(m2_axi_bready)
    );
  end
endmodule
