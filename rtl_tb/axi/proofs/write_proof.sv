/// The write master under any words, on any bus that obeys AXI.
///
/// Bursts are incrementing ones of whole words inside 4 KiB and MaxBurst and hold still under back-pressure;
/// every burst has exactly the words it announced, the last one marked (which words: inside_write_words.sv);
/// no answer is lost, and every error of the bus is told unless it is flushed; idle means that nothing is
/// owed to anyone.
module write_proof (
  input logic        clk_i,
  input logic        flush_i,
  input logic        close_i,
  input logic        word_valid_i,
  input logic [13:0] word_addr_i,
  input logic [15:0] word_data_i,
  input logic [1:0]  word_strb_i,
  input logic        awready_i,
  input logic        wready_i,
  input logic        bvalid_i,
  input logic [1:0]  bresp_i
);
  localparam int unsigned MaxBurst = 4;

  logic        rst_n = 1'b0;
  logic        word_ready, awvalid, wvalid, wlast, bready, idle, error;
  logic [8:0]  unsent;
  logic [1:0]  outstanding;
  logic [13:0] awaddr;
  logic [7:0]  awlen;
  logic [2:0]  awsize;
  logic [1:0]  awburst;
  logic [15:0] wdata;
  logic [1:0]  wstrb;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  axi_write_master #(.AddrWidth(14), .DataBytes(2), .MaxBurst(MaxBurst), .QueueBeats(4), .MaxOutstanding(3)) dut (
    .clk_i, .rst_ni(rst_n), .flush_i, .close_i, .idle_o(idle), .error_o(error), .outstanding_o(outstanding), .unsent_o(unsent),
    .word_valid_i, .word_ready_o(word_ready), .word_addr_i({word_addr_i[13:1], 1'b0}), .word_data_i,
    .word_strb_i,
    .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(awsize), .m_axi_awburst(awburst), .m_axi_awvalid(awvalid),
    .m_axi_awready(awready_i), .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid),
    .m_axi_wready(wready_i), .m_axi_bresp(bresp_i), .m_axi_bvalid(bvalid_i), .m_axi_bready(bready)
  );

  // The bus: bursts whose address and data are complete and whose answer is due; it answers no other.
  logic [3:0] due_aw = '0;  // addresses taken, not answered
  logic [3:0] due_w = '0;   // last words taken, not answered
  always_comb assume (!(bvalid_i && (due_aw == '0 || due_w == '0)));
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      due_aw <= due_aw + 4'(awvalid && awready_i) - 4'(bvalid_i && bready);
      due_w  <= due_w + 4'(wvalid && wready_i && wlast) - 4'(bvalid_i && bready);
    end
  end

  // Words of the burst announced last that were not yet taken.
  logic       fresh = 1'b1;
  logic [8:0] left = '0;
  always_ff @(posedge clk_i) begin
    if (rst_n) begin
      fresh <= !awvalid || awready_i;
      left  <= left + (awvalid && fresh ? 9'(awlen) + 9'd1 : 9'd0) - 9'(wvalid && wready_i);
    end
  end
  logic [8:0] now;
  assign now = left + (awvalid && fresh ? 9'(awlen) + 9'd1 : 9'd0);

  always_comb begin
    if (rst_n) begin
      if (awvalid) assert (awlen < 8'(MaxBurst));
      if (awvalid) assert (awaddr[0] == 1'b0);
      if (wvalid) assert (now != '0);
      if (wvalid) assert (wlast == (now == 9'd1));
      assert (now <= 9'(MaxBurst));
      assert (now == unsent);
      if (awvalid) assert (awburst == 2'b01 && awsize == 3'd1);
      assert (bready);
      assert (error == (bvalid_i && bresp_i[1] && !flush_i));
      assert (5'(outstanding) == 5'(due_aw) + 5'(awvalid));
      assert (5'(outstanding) == 5'(due_w) + 5'(now != '0));
      if (idle) assert (due_aw == '0 && due_w == '0 && now == '0 && !awvalid && !wvalid);
    end
  end
endmodule
