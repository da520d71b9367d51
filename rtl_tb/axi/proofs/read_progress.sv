/// Progress of the read master on a fair bus: a request never stands still for long, and a flush ends within
/// a bound.
///
/// The bus takes an address within 3 cycles and gives owed data within 3; the user takes data within 3.
module read_progress (
  input logic        clk_i,
  input logic        flush_i,
  input logic        req_valid_i,
  input logic [15:0] req_addr_i,
  input logic [11:0] req_beats_i,
  input logic        data_ready_i,
  input logic        arready_i,
  input logic        rvalid_i
);
  localparam int unsigned MaxBurst = 4;
  localparam int unsigned QueueBeats = 8;
  localparam int unsigned StallBound = 5;
  localparam int unsigned FlushBound = 4 * QueueBeats + 4;

  logic        rst_n = 1'b0;
  logic        arvalid, rready, idle, data_valid, req_ready;
  logic [7:0]  arlen;
  logic [3:0]  inflight;
  logic [11:0] pending;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  axi_read_master #(.AddrWidth(16), .DataBytes(4), .MaxBurst(MaxBurst), .QueueBeats(QueueBeats), .BeatsWidth(12)) dut (
    .clk_i, .rst_ni(rst_n), .flush_i, .idle_o(idle), .error_o(), .inflight_o(inflight), .pending_o(pending),
    .req_valid_i, .req_ready_o(req_ready), .req_addr_i({req_addr_i[15:2], 2'b00}), .req_beats_i,
    .data_valid_o(data_valid), .data_ready_i, .data_o(),
    .m_axi_araddr(), .m_axi_arlen(arlen), .m_axi_arsize(), .m_axi_arburst(), .m_axi_arvalid(arvalid),
    .m_axi_arready(arready_i), .m_axi_rdata(32'd0), .m_axi_rresp(2'b00), .m_axi_rlast(1'b0), .m_axi_rvalid(rvalid_i),
    .m_axi_rready(rready)
  );

  logic [4:0] owed = '0;
  logic [1:0] ar_wait = '0, r_wait = '0, d_wait = '0;
  logic [4:0] promised;
  logic       moves;
  assign promised = arvalid ? 5'(arlen) + 5'd1 : 5'd0;
  assign moves    = (arvalid && arready_i) || (rvalid_i && rready) || (data_valid && data_ready_i);
  always_comb assume (!(rvalid_i && owed == '0));
  always_comb assume (!(ar_wait == 2'd2 && arvalid && !arready_i));
  always_comb assume (!(r_wait == 2'd2 && owed != '0 && !rvalid_i));
  always_comb assume (!(d_wait == 2'd2 && data_valid && !data_ready_i));
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      owed    <= owed + (arvalid && arready_i ? promised : 5'd0) - 5'(rvalid_i && rready);
      ar_wait <= arvalid && !arready_i ? ar_wait + 2'd1 : '0;
      r_wait  <= owed != '0 && !rvalid_i ? r_wait + 2'd1 : '0;
      d_wait  <= data_valid && !data_ready_i ? d_wait + 2'd1 : '0;
    end
  end

  logic [3:0] still = '0;
  logic [7:0] flushing = '0;
  logic [7:0] most;  // cycles that a flush may still take
  assign most = {1'b0, owed + promised, 2'b00} + (arvalid ? 8'd3 - 8'(ar_wait) : 8'd0) - (owed != '0 ? 8'(r_wait) : 8'd0);
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      still    <= (pending != '0 || !idle) && !moves && !flush_i ? still + 4'd1 : '0;
      flushing <= flush_i ? flushing + 8'd1 : '0;
    end
  end

  always_comb begin
    if (rst_n) begin
      assert (ar_wait <= 2'd2 && r_wait <= 2'd2 && d_wait <= 2'd2);
      assert (5'(inflight) == owed + promised);
      assert (owed + promised <= 5'(QueueBeats));
      if (pending == '0 && idle) assert (req_ready || flush_i);
      assert (32'(still) <= StallBound);
      if (flushing != '0 && !idle) assert (32'(flushing) + 32'(most) <= FlushBound + 1);
      if (32'(flushing) > FlushBound + 1) assert (idle);
    end
  end
`ifdef COVER
  always_comb begin
    cover (rst_n && flushing == 8'd12 && !idle);
    cover (rst_n && idle && flushing == 8'd14);
    cover (rst_n && still == 4'd3);
  end
`endif
endmodule
