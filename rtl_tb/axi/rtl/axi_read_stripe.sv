/// Spreads one wide AXI read master over several narrow ports; `axi_stripe_cut` divides the bursts,
/// `axi_write_stripe` writes.
///
/// Each port has a queue of `QueueWords / Ports` wide words. A burst is taken only when its data have room,
/// so the narrow RREADY never falls; wide words go out in order, one a cycle, as soon as they are whole.
/// RRESP is the worst of its parts (EXOKAY cannot come, since nobody asks for it). No identifiers: each port
/// answers in order. There is no flush: the master lets its bursts run out, and so does this.
module axi_read_stripe #(
  parameter int unsigned AddrWidth = 40,
  parameter int unsigned DataBytes = 64,    // of the wide side
  parameter int unsigned Ports = 4,
  parameter int unsigned MaxBurst = 16,     // wide words
  parameter int unsigned QueueWords = 128,  // wide words of all ports
  localparam int unsigned NarrowBits = DataBytes * 8 / Ports
) (
  input  logic                               clk_i,          // clock
  input  logic                               rst_ni,         // reset, synchronous
  // the master
  input  logic [AddrWidth-1:0]               s_axi_araddr,   // first byte of a burst to read
  input  logic [7:0]                         s_axi_arlen,    // its words, less one
  input  logic                               s_axi_arvalid,  // the burst is asked for
  output logic                               s_axi_arready,  // and is taken
  output logic [DataBytes*8-1:0]             s_axi_rdata,    // a word read
  output logic [1:0]                         s_axi_rresp,    // how its access went
  output logic                               s_axi_rlast,    // it is the last of its burst
  output logic                               s_axi_rvalid,   // the word is there
  input  logic                               s_axi_rready,   // and is taken
  // the ports
  output logic [Ports-1:0][AddrWidth-1:0]    m_axi_araddr,   // first byte of a burst to read
  output logic [Ports-1:0][7:0]              m_axi_arlen,    // its words, less one
  output logic [Ports-1:0][2:0]              m_axi_arsize,   // log2 of the bytes of a word
  output logic [Ports-1:0][1:0]              m_axi_arburst,  // INCR
  output logic [Ports-1:0]                   m_axi_arvalid,  // the burst is asked for
  input  logic [Ports-1:0]                   m_axi_arready,  // and is taken
  input  logic [Ports-1:0][NarrowBits-1:0]   m_axi_rdata,    // a word read
  input  logic [Ports-1:0][1:0]              m_axi_rresp,    // how its access went
  input  logic [Ports-1:0]                   m_axi_rlast,    // it is the last of its burst
  input  logic [Ports-1:0]                   m_axi_rvalid,   // the word is there
  output logic [Ports-1:0]                   m_axi_rready    // and is taken
);
  localparam int unsigned PortBits = $clog2(Ports);
  localparam int unsigned Depth = QueueWords / Ports;
  localparam int unsigned RoomWidth = $clog2(Depth + 1);
  localparam int unsigned WordsWidth = $clog2((MaxBurst + Ports - 1) / Ports + 1);
  localparam int unsigned PartWidth = NarrowBits + 2;

  if (Depth * Ports < MaxBurst || QueueWords % Ports != 0) begin : gen_illegal_queue
    $fatal(1, "QueueWords must hold MaxBurst and be a multiple of Ports in %m");
  end

  logic                              take, order_ready, order_valid, pop, last, chunk_ends, cut_stays, stays;
  logic [Ports-1:0][WordsWidth-1:0]  words;
  logic [Ports-1:0][RoomWidth-1:0]   free_q;  // words of a queue that are neither there nor promised
  logic [Ports-1:0]                  there;
  logic [Ports-1:0][DataBytes*8-1:0] data;
  logic [Ports-1:0][1:0]             response;
  logic [PortBits-1:0]               first, port_q;  // whose word comes next
  logic [Ports-1:0][RoomWidth+PortBits-1:0] level;  // narrow words in a queue
  logic [7:0]                        len, sent_q, within_q;

  axi_stripe_cut #(
    .AddrWidth(AddrWidth), .DataBytes(DataBytes), .Ports(Ports), .MaxBurst(MaxBurst), .RoomWidth(RoomWidth)
  ) cut (
    .clk_i, .rst_ni, .enable_i(order_ready), .idle_i(!order_valid), .room_i(free_q), .first_o(first),
    .take_o(take), .stays_o(cut_stays), .words_o(words),
    .s_axi_addr(s_axi_araddr), .s_axi_len(s_axi_arlen), .s_axi_valid(s_axi_arvalid), .s_axi_ready(s_axi_arready),
    .m_axi_addr(m_axi_araddr), .m_axi_len(m_axi_arlen), .m_axi_valid(m_axi_arvalid), .m_axi_ready(m_axi_arready)
  );

  // Bursts whose words are to go out, by their lengths.
  common_fifo #(.Width(9), .Depth(QueueWords)) order (
    .clk_i, .rst_ni, .clear_i(1'b0), .valid_i(take), .ready_o(order_ready), .data_i({cut_stays, s_axi_arlen}),
    .valid_o(order_valid), .ready_i(pop && last), .data_o({stays, len}), .level_o()
  );

  for (genvar p = 0; p < Ports; p++) begin : gen_port
    logic [Ports*PartWidth-1:0] parts;
    axi_gather_fifo #(.Width(PartWidth), .Lanes(Ports), .Depth(Depth)) queue (
      .clk_i, .rst_ni, .valid_i(m_axi_rvalid[p]), .data_i({m_axi_rresp[p], m_axi_rdata[p]}),
      .valid_o(there[p]), .ready_i(pop && port_q == PortBits'(p)), .data_o(parts), .level_o(level[p])
    );
    always_comb begin
      response[p] = '0;
      data[p]     = '0;
      for (int unsigned lane = 0; lane < Ports; lane++) begin
        data[p][lane*NarrowBits+:NarrowBits] = parts[lane*PartWidth+:NarrowBits];
        response[p] = response[p] | parts[lane*PartWidth+NarrowBits+:2];
      end
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni) free_q[p] <= RoomWidth'(Depth);
      else free_q[p] <= free_q[p] - (take ? RoomWidth'(words[p]) : '0) + RoomWidth'(pop && port_q == PortBits'(p));
    end
    assign m_axi_arsize[p]  = 3'($clog2(DataBytes / Ports));
    assign m_axi_arburst[p] = 2'b01;
    assign m_axi_rready[p]  = 1'b1;
  end

  assign s_axi_rvalid = order_valid && there[port_q];
  assign s_axi_rdata  = data[port_q];
  assign s_axi_rresp  = response[port_q];
  assign s_axi_rlast  = last;
  assign pop          = s_axi_rvalid && s_axi_rready;
  assign last         = sent_q == len;
  assign chunk_ends   = last || within_q == len >> PortBits;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      port_q   <= '0;
      sent_q   <= '0;
      within_q <= '0;
    end else if (pop) begin
      sent_q   <= last ? '0 : sent_q + 8'd1;
      within_q <= chunk_ends ? '0 : within_q + 8'd1;
      if (chunk_ends && !(last && stays)) port_q <= port_q + 1'b1;
    end else if (!order_valid && !take) begin
      port_q <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      for (int unsigned p = 0; p < Ports; p++) assert (free_q[p] <= RoomWidth'(Depth));
      if (order_valid) assert (within_q <= sent_q && sent_q <= len);
      if (!order_valid) assert (port_q == first && sent_q == '0 && within_q == '0);
    end
  end
endmodule
