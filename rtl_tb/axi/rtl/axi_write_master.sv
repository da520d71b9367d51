/// Gathers port words with strobes into AXI INCR bursts; for reads use `axi_read_master`.
///
/// Words that follow one another in memory share a burst of at most MaxBurst beats that never crosses 4 KiB.
/// A burst is sent only when all its data are queued. `close_i` (a level) sends the open burst although
/// nothing follows. `flush_i` (a level) drops it; a burst already begun is finished with strobes off.
/// `idle_o`: nothing is gathered, queued or unanswered, so every word taken is in memory.
module axi_write_master #(
  parameter int unsigned AddrWidth = 40,
  parameter int unsigned DataBytes = 16,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned QueueBeats = 64,
  parameter int unsigned MaxOutstanding = 63,
  localparam int unsigned OutWidth = $clog2(MaxOutstanding + 1)
) (
  input  logic                   clk_i,          // clock
  input  logic                   rst_ni,         // reset, synchronous
  input  logic                   flush_i,        // drops the open burst, while high
  input  logic                   close_i,        // sends the open burst although nothing follows, while high
  output logic                   idle_o,         // every word taken is in memory
  output logic                   error_o,        // a burst was answered with an error
  output logic [OutWidth-1:0]    outstanding_o,  // bursts begun and not yet answered
  output logic [8:0]             unsent_o,       // words of the burst begun that were not yet taken
  input  logic                   word_valid_i,   // a word is there
  output logic                   word_ready_o,   // and is taken
  input  logic [AddrWidth-1:0]   word_addr_i,    // its first byte, a multiple of DataBytes
  input  logic [DataBytes*8-1:0] word_data_i,    // its bytes
  input  logic [DataBytes-1:0]   word_strb_i,    // which of them are written
  // AXI
  output logic [AddrWidth-1:0]   m_axi_awaddr,   // first byte of a burst to write
  output logic [7:0]             m_axi_awlen,    // its words, less one
  output logic [2:0]             m_axi_awsize,   // log2 of the bytes of a word
  output logic [1:0]             m_axi_awburst,  // INCR
  output logic                   m_axi_awvalid,  // the burst is asked for
  input  logic                   m_axi_awready,  // and is taken
  output logic [DataBytes*8-1:0] m_axi_wdata,    // a word to write
  output logic [DataBytes-1:0]   m_axi_wstrb,    // which of its bytes are written
  output logic                   m_axi_wlast,    // it is the last of its burst
  output logic                   m_axi_wvalid,   // the word is there
  input  logic                   m_axi_wready,   // and is taken
  input  logic [1:0]             m_axi_bresp,    // how a burst of writes went
  input  logic                   m_axi_bvalid,   // that answer is there
  output logic                   m_axi_bready    // and is taken
);
  localparam int unsigned Size = $clog2(DataBytes);

  if (DataBytes < 2 || DataBytes > 128 || (DataBytes & (DataBytes - 1)) != 0) begin : gen_illegal_bytes
    $fatal(1, "DataBytes must be a power of two in 2..128 in %m");
  end
  if (MaxBurst < 1 || MaxBurst > 256 || QueueBeats < MaxBurst) begin : gen_illegal_burst
    $fatal(1, "MaxBurst must lie in 1..256 and fit the queue in %m");
  end

  // Gather: the open burst grows word by word.
  logic [AddrWidth-1:0] start_q, next_q;
  logic [8:0]           open_q;
  logic                 joins, full, ends, take;
  logic                 data_ready, burst_ready, burst_push;

  assign full         = open_q == 9'(MaxBurst) || next_q[11:0] == 12'd0;
  assign joins        = open_q == '0 || (!full && word_addr_i == next_q);
  assign ends         = open_q != '0 && (full || close_i || (word_valid_i && !joins));
  assign burst_push   = ends && burst_ready && !flush_i;
  // While a burst ends, the next word waits one cycle.
  assign word_ready_o = data_ready && !ends && !flush_i;
  assign take         = word_valid_i && word_ready_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) begin
      open_q  <= '0;
    end else begin
      if (burst_push) open_q <= '0;
      if (take) begin
        open_q <= open_q + 9'd1;
        next_q <= word_addr_i + AddrWidth'(DataBytes);
        if (open_q == '0) start_q <= word_addr_i;
      end
    end
  end

  logic                   data_valid, data_pop;
  logic [DataBytes*9-1:0] data;

  common_fifo #(.Width(DataBytes * 9), .Depth(QueueBeats)) words (
    .clk_i, .rst_ni, .clear_i(flush_i),
    .valid_i(take), .ready_o(data_ready), .data_i({word_strb_i, word_data_i}),
    .valid_o(data_valid), .ready_i(data_pop), .data_o(data), .level_o()
  );

  // One gathered burst waits while another is sent.
  logic                 burst_valid_q, burst_pop;
  logic [AddrWidth-1:0] burst_addr_q;
  logic [8:0]           burst_words_q;

  assign burst_ready = !burst_valid_q || burst_pop;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || flush_i) begin
      burst_valid_q <= 1'b0;
    end else if (burst_push) begin
      burst_valid_q <= 1'b1;
      burst_addr_q  <= start_q;
      burst_words_q <= open_q;
    end else if (burst_pop) begin
      burst_valid_q <= 1'b0;
    end
  end

  // Send: one burst at a time; address and data start together.
  logic                 awvalid_q, wvalid_q, wlast_q, dummy_q;
  logic [AddrWidth-1:0] awaddr_q;
  logic [7:0]           awlen_q;
  logic [8:0]           left_q;  // words of this burst not yet in the output register
  logic [DataBytes*8-1:0] wdata_q;
  logic [DataBytes-1:0]   wstrb_q;
  logic [OutWidth-1:0]  outstanding_q;
  logic                 move, answer;

  assign burst_pop = burst_valid_q && !flush_i && left_q == '0 && !awvalid_q && (!wvalid_q || m_axi_wready)
      && outstanding_q != OutWidth'(MaxOutstanding);
  assign move      = left_q != '0 && (dummy_q || flush_i || data_valid) && (!wvalid_q || m_axi_wready);
  assign data_pop  = move && !dummy_q && !flush_i;
  assign answer    = m_axi_bvalid && m_axi_bready;

  always_ff @(posedge clk_i) begin
    if (m_axi_awready) awvalid_q <= 1'b0;
    if (m_axi_wready) wvalid_q <= 1'b0;
    if (burst_pop) begin
      awvalid_q <= 1'b1;
      awaddr_q  <= burst_addr_q;
      awlen_q   <= 8'(burst_words_q - 9'd1);
      left_q    <= burst_words_q;
    end
    if (move) begin
      wvalid_q <= 1'b1;
      wlast_q  <= left_q == 9'd1;
      wdata_q  <= data[DataBytes*8-1:0];
      wstrb_q  <= dummy_q || flush_i ? '0 : data[DataBytes*8+:DataBytes];
      left_q   <= left_q - 9'd1;
    end
    // A flush takes the data of the burst under way: its rest is sent as nothing.
    if (flush_i) dummy_q <= left_q != '0 && !(move && left_q == 9'd1);
    else if (move && left_q == 9'd1) dummy_q <= 1'b0;
    outstanding_q <= outstanding_q + OutWidth'(burst_pop) - OutWidth'(answer);
    if (!rst_ni) begin  // of the others each is set before its use
      awvalid_q     <= 1'b0;
      wvalid_q      <= 1'b0;
      left_q        <= '0;
      dummy_q       <= 1'b0;
      outstanding_q <= '0;
    end
  end

  assign m_axi_awaddr  = awaddr_q;
  assign m_axi_awlen   = awlen_q;
  assign m_axi_awsize  = 3'(Size);
  assign m_axi_awburst = 2'b01;
  assign m_axi_awvalid = awvalid_q;
  assign m_axi_wdata   = wdata_q;
  assign m_axi_wstrb   = wstrb_q;
  assign m_axi_wlast   = wlast_q;
  assign m_axi_wvalid  = wvalid_q;
  assign m_axi_bready  = 1'b1;
  assign outstanding_o = outstanding_q;
  assign unsent_o      = left_q + 9'(wvalid_q);
  assign error_o       = answer && m_axi_bresp[1] && !flush_i;
  assign idle_o        = open_q == '0 && !burst_valid_q && !awvalid_q && left_q == '0 && !wvalid_q && outstanding_q == '0;

  logic                     held_aw_q, held_w_q;
  logic [AddrWidth+7:0]     held_aw_value_q;
  logic [DataBytes*9:0]     held_w_value_q;
  always_ff @(posedge clk_i) begin
    held_aw_q       <= rst_ni && awvalid_q && !m_axi_awready;
    held_aw_value_q <= {awaddr_q, awlen_q};
    held_w_q        <= rst_ni && wvalid_q && !m_axi_wready;
    held_w_value_q  <= {wlast_q, wstrb_q, wdata_q};
    if (rst_ni) begin
      if (held_aw_q) assert (awvalid_q && {awaddr_q, awlen_q} == held_aw_value_q);
      if (held_w_q) assert (wvalid_q && {wlast_q, wstrb_q, wdata_q} == held_w_value_q);
      if (awvalid_q) assert (32'(awaddr_q[11:0]) + ((32'(awlen_q) + 32'd1) << Size) <= 32'd4096);
      if (answer) assert (outstanding_q != '0);
      if (take) assert (word_addr_i[Size-1:0] == '0);
      assert (open_q <= 9'(MaxBurst));
      if (open_q != '0) assert (32'(start_q[11:0]) + (32'(open_q) << Size) <= 32'd4096);
      if (open_q != '0) assert (start_q[Size-1:0] == '0 && next_q == start_q + (AddrWidth'(open_q) << Size));
      if (burst_valid_q) assert (32'(burst_addr_q[11:0]) + (32'(burst_words_q) << Size) <= 32'd4096);
      if (burst_valid_q) assert (burst_words_q != '0 && burst_words_q <= 9'(MaxBurst) && burst_addr_q[Size-1:0] == '0);
      assert (left_q + 9'(wvalid_q) <= 9'(MaxBurst));
      if (wvalid_q) assert (wlast_q == (left_q == '0));
    end
  end
endmodule
