/// Turns requests for whole port words into AXI INCR bursts and delivers the words in order; for writes use
/// `axi_write_master`.
///
/// A burst never crosses 4 KiB and has at most MaxBurst beats; requests that follow one another in memory
/// share bursts. A burst is asked for only when the queue has room for all of it, so RREADY never falls and
/// the bus never waits. `flush_i` (a level) drops requests and data and lets outstanding bursts run out;
/// `idle_o`: nothing is under way.
module axi_read_master #(
  parameter int unsigned AddrWidth = 40,
  parameter int unsigned DataBytes = 16,
  parameter int unsigned MaxBurst = 16,
  parameter int unsigned QueueBeats = 64,
  parameter int unsigned BeatsWidth = 24,
  localparam int unsigned CountWidth = $clog2(QueueBeats + 1)
) (
  input  logic                   clk_i,          // clock
  input  logic                   rst_ni,         // reset, synchronous
  input  logic                   flush_i,        // drops requests and data, while high
  output logic                   idle_o,         // nothing is under way
  output logic                   error_o,        // a word of an error response came
  output logic [CountWidth-1:0]  inflight_o,     // beats asked for and not yet answered
  output logic [BeatsWidth-1:0]  pending_o,      // beats requested and not yet asked for
  // request: `req_beats_i` words from `req_addr_i`, which is a multiple of DataBytes
  input  logic                   req_valid_i,    // a request is there
  output logic                   req_ready_o,    // and is taken
  input  logic [AddrWidth-1:0]   req_addr_i,     // its first byte, a multiple of DataBytes
  input  logic [BeatsWidth-1:0]  req_beats_i,    // its words
  // data, in order of the requests
  output logic                   data_valid_o,   // a word is there, in the order of the requests
  input  logic                   data_ready_i,   // and is taken
  output logic [DataBytes*8-1:0] data_o,         // that word
  // AXI
  output logic [AddrWidth-1:0]   m_axi_araddr,   // first byte of a burst to read
  output logic [7:0]             m_axi_arlen,    // its words, less one
  output logic [2:0]             m_axi_arsize,   // log2 of the bytes of a word
  output logic [1:0]             m_axi_arburst,  // INCR
  output logic                   m_axi_arvalid,  // the burst is asked for
  input  logic                   m_axi_arready,  // and is taken
  input  logic [DataBytes*8-1:0] m_axi_rdata,    // a word read
  input  logic [1:0]             m_axi_rresp,    // how its access went
  input  logic                   m_axi_rlast,    // it is the last of its burst
  input  logic                   m_axi_rvalid,   // the word is there
  output logic                   m_axi_rready    // and is taken
);
  localparam int unsigned Size = $clog2(DataBytes);
  localparam int unsigned PageBeats = 4096 / DataBytes;
  localparam int unsigned PageBits = $clog2(PageBeats);

  if (DataBytes < 2 || DataBytes > 128 || (DataBytes & (DataBytes - 1)) != 0) begin : gen_illegal_bytes
    $fatal(1, "DataBytes must be a power of two in 2..128 in %m");
  end
  if (MaxBurst < 1 || MaxBurst > 256 || QueueBeats < MaxBurst) begin : gen_illegal_burst
    $fatal(1, "MaxBurst must lie in 1..256 and fit the queue in %m");
  end
  if (BeatsWidth <= PageBits + 1 || AddrWidth < 13) begin : gen_illegal_width
    $fatal(1, "BeatsWidth must hold more than a page and AddrWidth 13 bits in %m");
  end

  // The request at hand; a request that continues it only makes it longer.
  logic [AddrWidth-1:0]  addr_q;
  logic [BeatsWidth-1:0] left_q;
  logic [AddrWidth-1:0]  end_q;
  logic                  continues, take;
  logic                  overlong;

  assign overlong    = left_q[BeatsWidth-1] || req_beats_i[BeatsWidth-1];  // their sum may be
  assign continues   = req_addr_i == end_q && !overlong;
  assign req_ready_o = !flush_i && (left_q == '0 || continues);
  assign take        = req_valid_i && req_ready_o;

  // A burst ends with the request, at the end of its page or at MaxBurst. What follows from each is worked out
  // side by side.
  logic [CountWidth-1:0] inflight_q, level, free_q;  // free_q: of the queue, neither filled nor promised
  logic                  arvalid_q;
  logic [AddrWidth-1:0]  araddr_q, addr_after;
  logic [7:0]            arlen_q;
  logic [8:0]            length, step;
  logic [PageBits:0]     to_page_q, to_page_after;  // beats from addr_q to the end of its page
  logic [BeatsWidth-1:0] longer, left_after, longer_after;
  logic                  ends, ends_page, room, issue, beat, pop, queue_ready;

  function automatic logic [PageBits:0] to_page(logic [AddrWidth-1:0] addr);
    to_page = (PageBits + 1)'(PageBeats) - {1'b0, addr[Size+:PageBits]};
  endfunction

  assign ends      = left_q <= BeatsWidth'(MaxBurst) && left_q <= BeatsWidth'(to_page_q);
  assign ends_page = 32'(to_page_q) <= MaxBurst;
  assign step      = ends_page ? 9'(to_page_q) : 9'(MaxBurst);
  assign length    = ends ? left_q[8:0] : step;
  assign longer    = left_q + req_beats_i;
  always_comb begin
    left_after    = left_q - BeatsWidth'(step);
    longer_after  = longer - BeatsWidth'(step);
    addr_after    = addr_q + AddrWidth'(MaxBurst << Size);
    to_page_after = (PageBits + 1)'(to_page_q - (PageBits + 1)'(MaxBurst));
    room          = 32'(free_q) >= MaxBurst;
    if (ends_page) begin
      addr_after    = {addr_q[AddrWidth-1:12] + 1'b1, 12'd0};
      to_page_after = (PageBits + 1)'(PageBeats);
      room          = 32'(free_q) >= 32'(to_page_q);
    end
    if (ends) begin
      left_after    = '0;
      longer_after  = req_beats_i;
      addr_after    = end_q;
      to_page_after = to_page(end_q);
      room          = 32'(free_q) >= 32'(left_q[8:0]);
    end
  end

  // Asked for only when the queue has room for all of it.
  assign issue = !flush_i && left_q != '0 && (!arvalid_q || m_axi_arready) && room;
  assign beat  = m_axi_rvalid && m_axi_rready;
  assign pop   = data_valid_o && data_ready_i;

  always_ff @(posedge clk_i) begin
    if (m_axi_arready) arvalid_q <= 1'b0;
    if (issue) begin
      arvalid_q <= 1'b1;
      araddr_q  <= addr_q;
      arlen_q   <= 8'(length - 9'd1);
      addr_q    <= addr_after;
      to_page_q <= to_page_after;
    end
    if (take) left_q <= issue ? longer_after : longer;
    else if (issue) left_q <= left_after;
    if (take) begin
      end_q <= req_addr_i + (AddrWidth'(req_beats_i) << Size);
      if (left_q == '0) begin
        addr_q    <= req_addr_i;
        to_page_q <= to_page(req_addr_i);
      end
    end
    if (flush_i) left_q <= '0;
    inflight_q <= inflight_q + (issue ? CountWidth'(length) : '0) - CountWidth'(beat);
    free_q     <= free_q - (issue ? CountWidth'(length) : '0) + CountWidth'(pop);
    if (flush_i) free_q <= CountWidth'(QueueBeats) - inflight_q + CountWidth'(beat);  // the queue is emptied
    if (!rst_ni) begin  // of the others each is set before its use
      left_q     <= '0;
      arvalid_q  <= 1'b0;
      inflight_q <= '0;
      free_q     <= CountWidth'(QueueBeats);
    end
  end

  assign m_axi_araddr  = araddr_q;
  assign m_axi_arlen   = arlen_q;
  assign m_axi_arsize  = 3'(Size);
  assign m_axi_arburst = 2'b01;
  assign m_axi_arvalid = arvalid_q;
  assign m_axi_rready  = 1'b1;
  assign error_o       = beat && m_axi_rresp[1] && !flush_i;
  assign inflight_o    = inflight_q;
  assign pending_o     = left_q;
  assign idle_o        = left_q == '0 && inflight_q == '0 && !arvalid_q;

  common_fifo #(.Width(DataBytes * 8), .Depth(QueueBeats)) queue (
    .clk_i, .rst_ni, .clear_i(flush_i),
    .valid_i(beat && !flush_i), .ready_o(queue_ready), .data_i(m_axi_rdata),
    .valid_o(data_valid_o), .ready_i(data_ready_i), .data_o, .level_o(level)
  );

  logic                 held_q;
  logic [AddrWidth+7:0] held_value_q;
  always_ff @(posedge clk_i) begin
    held_q       <= rst_ni && arvalid_q && !m_axi_arready;
    held_value_q <= {araddr_q, arlen_q};
    if (rst_ni) begin
      if (held_q) assert (arvalid_q && {araddr_q, arlen_q} == held_value_q);
      if (arvalid_q) assert (32'(araddr_q[11:0]) + ((32'(arlen_q) + 32'd1) << Size) <= 32'd4096);
      if (arvalid_q) assert (araddr_q[Size-1:0] == '0);
      if (left_q != '0) assert (addr_q[Size-1:0] == '0 && end_q == addr_q + (AddrWidth'(left_q) << Size));
      if (beat && !flush_i) assert (queue_ready);
      if (take) assert (req_addr_i[Size-1:0] == '0);
      if (beat) assert (inflight_q != '0);
      assert (32'(level) + 32'(inflight_q) + 32'(free_q) == QueueBeats);
      if (left_q != '0) assert (to_page_q == to_page(addr_q));
    end
  end
endmodule
