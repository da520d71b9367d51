/// Top of a bench, not part of the NPU: both AXI masters behind one port, with the identifiers that protocol
/// checkers want.
module axi_masters_top #(
  parameter int unsigned DataBytes = 8,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned QueueBeats = 32
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
  output logic [0:0]             m_axi_arid, m_axi_awid,
  output logic [31:0]            m_axi_araddr, m_axi_awaddr,
  output logic [7:0]             m_axi_arlen, m_axi_awlen,
  output logic [2:0]             m_axi_arsize, m_axi_awsize,
  output logic [1:0]             m_axi_arburst, m_axi_awburst,
  output logic                   m_axi_arvalid, m_axi_awvalid,
  input  logic                   m_axi_arready, m_axi_awready,
  input  logic [0:0]             m_axi_rid, m_axi_bid,
  input  logic [DataBytes*8-1:0] m_axi_rdata,
  input  logic [1:0]             m_axi_rresp, m_axi_bresp,
  input  logic                   m_axi_rlast, m_axi_rvalid, m_axi_bvalid,
  output logic                   m_axi_rready, m_axi_bready,
  output logic [DataBytes*8-1:0] m_axi_wdata,
  output logic [DataBytes-1:0]   m_axi_wstrb,
  output logic                   m_axi_wlast, m_axi_wvalid,
  input  logic                   m_axi_wready
);
  assign m_axi_arid = '0;
  assign m_axi_awid = '0;

  axi_read_master #(.AddrWidth(32), .DataBytes(DataBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) read (
    .clk_i, .rst_ni, .flush_i, .idle_o(read_idle_o), .error_o(read_error_o), .inflight_o(), .pending_o(),
    .req_valid_i, .req_ready_o, .req_addr_i, .req_beats_i, .data_valid_o, .data_ready_i, .data_o,
    .m_axi_araddr, .m_axi_arlen, .m_axi_arsize, .m_axi_arburst, .m_axi_arvalid, .m_axi_arready,
    .m_axi_rdata, .m_axi_rresp, .m_axi_rlast, .m_axi_rvalid, .m_axi_rready
  );

  axi_write_master #(.AddrWidth(32), .DataBytes(DataBytes), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats)) write (
    .clk_i, .rst_ni, .flush_i, .close_i, .idle_o(write_idle_o), .error_o(write_error_o), .outstanding_o(), .unsent_o(),
    .word_valid_i, .word_ready_o, .word_addr_i, .word_data_i, .word_strb_i,
    .m_axi_awaddr, .m_axi_awlen, .m_axi_awsize, .m_axi_awburst, .m_axi_awvalid, .m_axi_awready,
    .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_wvalid, .m_axi_wready, .m_axi_bresp, .m_axi_bvalid, .m_axi_bready
  );
endmodule
