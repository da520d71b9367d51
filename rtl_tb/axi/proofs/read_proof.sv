/// The read master under any requests, on any bus that obeys AXI.
///
/// Bursts are incrementing ones of whole words inside 4 KiB and MaxBurst, ask for as much as was requested
/// (which words: inside_read_master.sv) and hold still under back-pressure; promised beats always find room;
/// every error of the bus is told unless it is flushed; a flush waits for the bus's own answers only.
module read_proof (
  input logic        clk_i,
  input logic        flush_i,
  input logic        req_valid_i,
  input logic [13:0] req_addr_i,
  input logic [11:0] req_beats_i,
  input logic        data_ready_i,
  input logic        arready_i,
  input logic        rvalid_i,
  input logic [31:0] rdata_i,
  input logic [1:0]  rresp_i,
  input logic        rlast_i
);
  localparam int unsigned MaxBurst = 4;
  localparam int unsigned QueueBeats = 8;

  logic        rst_n = 1'b0;
  logic        req_ready, arvalid, rready, idle, error, data_valid;
  logic [13:0] araddr;
  logic [7:0]  arlen;
  logic [2:0]  arsize;
  logic [1:0]  arburst;
  logic [3:0]  inflight;
  logic [11:0] pending;
  logic [31:0] data;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  axi_read_master #(.AddrWidth(14), .DataBytes(4), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats), .BeatsWidth(12)) dut (
    .clk_i, .rst_ni(rst_n), .flush_i, .idle_o(idle), .error_o(error), .inflight_o(inflight), .pending_o(pending),
    .req_valid_i(req_valid_i), .req_ready_o(req_ready), .req_addr_i({req_addr_i[13:2], 2'b00}), .req_beats_i,
    .data_valid_o(data_valid), .data_ready_i, .data_o(data),
    .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(arsize), .m_axi_arburst(arburst), .m_axi_arvalid(arvalid),
    .m_axi_arready(arready_i), .m_axi_rdata(rdata_i), .m_axi_rresp(rresp_i), .m_axi_rlast(rlast_i), .m_axi_rvalid(rvalid_i),
    .m_axi_rready(rready)
  );

  // The bus: beats it owes. It answers nothing that was not asked for.
  logic [4:0] owed = '0;
  always_comb assume (!(rvalid_i && owed == '0));
  always_ff @(posedge clk_i) begin
    if (rst_n) owed <= owed + (arvalid && arready_i ? 5'(arlen) + 5'd1 : 5'd0) - 5'(rvalid_i && rready);
  end

  // The books: beats requested and not yet offered on AR, since the last flush, modulo 2**16.
  logic [15:0] open = '0;
  logic        new_ar = 1'b0;
  logic        past_flush = 1'b0;
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      new_ar <= !arvalid || arready_i;
      if (past_flush) assert (pending == '0 && !data_valid);
      past_flush <= flush_i;
      if (flush_i) open <= '0;
      else open <= open + (req_valid_i && req_ready ? 16'(req_beats_i) : 16'd0) - (arvalid && new_ar ? 16'(arlen) + 16'd1 : 16'd0);
    end
  end

  always_comb begin
    if (rst_n) begin
      assert (5'(inflight) == owed + (arvalid ? 5'(arlen) + 5'd1 : 5'd0));
      assert (owed <= 5'(QueueBeats));
      if (arvalid) assert (arlen < 8'(MaxBurst));
      if (arvalid) assert (araddr[1:0] == 2'b00);
      if (arvalid) assert (arburst == 2'b01 && arsize == 3'd2);
      assert (rready);
      assert (error == (rvalid_i && rresp_i[1] && !flush_i));
      assert (open == 16'(pending) + (arvalid && new_ar ? 16'(arlen) + 16'd1 : 16'd0));
      assert (idle == (pending == '0 && owed == '0 && !arvalid));
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_n && error && inflight == 4'd1);
    cover (rst_n && flush_i && owed == 5'd6);
    cover (rst_n && arvalid && arlen == 8'd1 && araddr == 14'h0ff8 && pending != '0);  // cut at 4 KiB
  end
`endif
endmodule
