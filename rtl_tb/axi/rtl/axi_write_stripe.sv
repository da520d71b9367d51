/// Spreads one wide AXI write master over several narrow ports; `axi_stripe_cut` divides the bursts,
/// `axi_read_stripe` reads.
///
/// A burst's words go to its ports' queues (`QueueWords / Ports` wide words each) and leave there as narrow
/// words, all ports at once. The wide answer comes when every port of the burst has answered, with the worst
/// of their responses; bursts are answered in order. Words are taken only behind their address, so the master
/// must not keep an address back until its words are gone. Between ports there is no order: a byte may be
/// written again only when the burst that wrote it is answered (an NPU writes each byte of a layer once).
module axi_write_stripe #(
  parameter int unsigned AddrWidth = 40,
  parameter int unsigned DataBytes = 64,   // of the wide side
  parameter int unsigned Ports = 4,
  parameter int unsigned MaxBurst = 16,    // wide words
  parameter int unsigned QueueWords = 32,  // wide words of all ports
  parameter int unsigned MaxOutstanding = 64,
  localparam int unsigned NarrowBytes = DataBytes / Ports
) (
  input  logic                                clk_i,          // clock
  input  logic                                rst_ni,         // reset, synchronous
  // the master
  input  logic [AddrWidth-1:0]                s_axi_awaddr,   // first byte of a burst to write
  input  logic [7:0]                          s_axi_awlen,    // its words, less one
  input  logic                                s_axi_awvalid,  // the burst is asked for
  output logic                                s_axi_awready,  // and is taken
  input  logic [DataBytes*8-1:0]              s_axi_wdata,    // a word to write
  input  logic [DataBytes-1:0]                s_axi_wstrb,    // which of its bytes are written
  input  logic                                s_axi_wlast,    // it is the last of its burst
  input  logic                                s_axi_wvalid,   // the word is there
  output logic                                s_axi_wready,   // and is taken
  output logic [1:0]                          s_axi_bresp,    // how a burst of writes went
  output logic                                s_axi_bvalid,   // that answer is there
  input  logic                                s_axi_bready,   // and is taken
  // the ports
  output logic [Ports-1:0][AddrWidth-1:0]     m_axi_awaddr,   // first byte of a burst to write
  output logic [Ports-1:0][7:0]               m_axi_awlen,    // its words, less one
  output logic [Ports-1:0][2:0]               m_axi_awsize,   // log2 of the bytes of a word
  output logic [Ports-1:0][1:0]               m_axi_awburst,  // INCR
  output logic [Ports-1:0]                    m_axi_awvalid,  // the burst is asked for
  input  logic [Ports-1:0]                    m_axi_awready,  // and is taken
  output logic [Ports-1:0][NarrowBytes*8-1:0] m_axi_wdata,    // a word to write
  output logic [Ports-1:0][NarrowBytes-1:0]   m_axi_wstrb,    // which of its bytes are written
  output logic [Ports-1:0]                    m_axi_wlast,    // it is the last of its burst
  output logic [Ports-1:0]                    m_axi_wvalid,   // the word is there
  input  logic [Ports-1:0]                    m_axi_wready,   // and is taken
  input  logic [Ports-1:0][1:0]               m_axi_bresp,    // how a burst of writes went
  input  logic [Ports-1:0]                    m_axi_bvalid,   // that answer is there
  output logic [Ports-1:0]                    m_axi_bready    // and is taken
);
  localparam int unsigned PortBits = $clog2(Ports);
  localparam int unsigned Depth = QueueWords / Ports;
  localparam int unsigned WordsWidth = $clog2((MaxBurst + Ports - 1) / Ports + 1);

  if (Depth < 1 || QueueWords % Ports != 0 || MaxOutstanding < 1) begin : gen_illegal_queue
    $fatal(1, "QueueWords must be a multiple of Ports and MaxOutstanding at least 1 in %m");
  end

  logic                             take, order_ready, order_valid, move, last, chunk_ends, cut_stays, stays;
  logic [Ports-1:0][WordsWidth-1:0] words;
  logic [PortBits-1:0]              first, port_q;  // whose word comes next
  logic [7:0]                       len, sent_q, within_q;
  logic [Ports-1:0]                 queue_ready, asked, answered, wanted;
  logic [Ports-1:0][1:0]            response;
  logic                             answers_ready, answers_valid, answer;

  // A burst holds its place among the answers from its address on, so no queue of what follows from it
  // overflows.
  axi_stripe_cut #(
    .AddrWidth(AddrWidth), .DataBytes(DataBytes), .Ports(Ports), .MaxBurst(MaxBurst), .RoomWidth(WordsWidth)
  ) cut (
    .clk_i, .rst_ni, .enable_i(order_ready && answers_ready), .idle_i(!answers_valid), .room_i('1), .first_o(first),
    .take_o(take), .stays_o(cut_stays), .words_o(words),
    .s_axi_addr(s_axi_awaddr), .s_axi_len(s_axi_awlen), .s_axi_valid(s_axi_awvalid), .s_axi_ready(s_axi_awready),
    .m_axi_addr(m_axi_awaddr), .m_axi_len(m_axi_awlen), .m_axi_valid(m_axi_awvalid), .m_axi_ready(m_axi_awready)
  );

  // Bursts whose words are still to come, by their lengths.
  common_fifo #(.Width(9), .Depth(MaxOutstanding)) order (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(take), .ready_o(order_ready), .data_i({cut_stays, s_axi_awlen}),
    .valid_o(order_valid), .ready_i(move && last), .data_o({stays, len}), .level_o()
  );

  // Bursts whose answer is still to come, by the ports that they use.
  common_fifo #(.Width(Ports), .Depth(MaxOutstanding)) answers (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(take), .ready_o(answers_ready), .data_i(asked),
    .valid_o(answers_valid), .ready_i(answer), .data_o(wanted), .level_o()
  );

  assign s_axi_wready = order_valid && queue_ready[port_q];
  assign move         = s_axi_wvalid && s_axi_wready;
  assign last         = sent_q == len;
  assign chunk_ends   = last || within_q == len >> PortBits;
  assign s_axi_bvalid = answers_valid && (wanted & ~answered) == '0;
  assign answer       = s_axi_bvalid && s_axi_bready;

  always_comb begin
    s_axi_bresp = '0;
    for (int unsigned p = 0; p < Ports; p++) begin
      asked[p] = words[p] != '0;
      if (wanted[p]) s_axi_bresp = s_axi_bresp | response[p];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      port_q   <= '0;
      sent_q   <= '0;
      within_q <= '0;
    end else if (move) begin
      sent_q   <= last ? '0 : sent_q + 8'd1;
      within_q <= chunk_ends ? '0 : within_q + 8'd1;
      if (chunk_ends && !(last && stays)) port_q <= port_q + 1'b1;
    end else if (!answers_valid && !take) begin
      port_q <= '0;
    end
  end

  for (genvar p = 0; p < Ports; p++) begin : gen_port
    logic                   valid, word_last, room;
    logic [DataBytes*8-1:0] data;
    logic [DataBytes-1:0]   strobe;
    logic [PortBits-1:0]    lane_q;

    common_fifo #(.Width(DataBytes * 9 + 1), .Depth(Depth)) queue (
      .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(move && port_q == PortBits'(p)), .ready_o(queue_ready[p]),
      .data_i({chunk_ends, s_axi_wstrb, s_axi_wdata}),
      .valid_o(valid), .ready_i(m_axi_wready[p] && (&lane_q)), .data_o({word_last, strobe, data}), .level_o()
    );
    common_fifo #(.Width(2), .Depth(MaxOutstanding)) responses (
      .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(m_axi_bvalid[p]), .ready_o(room), .data_i(m_axi_bresp[p]),
      .valid_o(answered[p]), .ready_i(answer && wanted[p]), .data_o(response[p]), .level_o()
    );
    always_ff @(posedge clk_i) begin
      if (!rst_ni) lane_q <= '0;
      else if (valid && m_axi_wready[p]) lane_q <= lane_q + 1'b1;
      if (rst_ni && m_axi_bvalid[p]) assert (room);
    end
    assign m_axi_wvalid[p]  = valid;
    assign m_axi_wdata[p]   = data[lane_q*NarrowBytes*8+:NarrowBytes*8];
    assign m_axi_wstrb[p]   = strobe[lane_q*NarrowBytes+:NarrowBytes];
    assign m_axi_wlast[p]   = word_last && (&lane_q);
    assign m_axi_awsize[p]  = 3'($clog2(NarrowBytes));
    assign m_axi_awburst[p] = 2'b01;
    assign m_axi_bready[p]  = 1'b1;
  end

  logic [Ports-1:0]                held_q;
  logic [Ports-1:0][NarrowBytes*9:0] held_value_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < Ports; p++) begin
      held_q[p]       <= rst_ni && m_axi_wvalid[p] && !m_axi_wready[p];
      held_value_q[p] <= {m_axi_wlast[p], m_axi_wstrb[p], m_axi_wdata[p]};
      if (rst_ni && held_q[p]) assert (m_axi_wvalid[p] && {m_axi_wlast[p], m_axi_wstrb[p], m_axi_wdata[p]} == held_value_q[p]);
    end
    if (rst_ni && move) assert (s_axi_wlast == last);
    if (rst_ni && order_valid) assert (within_q <= sent_q && sent_q <= len);
    if (rst_ni && !order_valid) assert (port_q == first && sent_q == '0 && within_q == '0);
  end
endmodule
