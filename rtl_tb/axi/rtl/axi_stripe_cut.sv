/// Cuts each burst of a wide AXI address channel into chunks for several narrow ports; the stripes carry the
/// data.
///
/// L wide words make chunks of ceil(L / Ports) words, the last one shorter if need be, in the order of their
/// addresses. Each is one narrow burst on the port after the one before, from burst to burst too: short
/// bursts take the ports in turn. If a burst uses all ports and its last chunk is shorter, the next one
/// begins at that port (`stays_o`). A burst is taken as a whole, when `enable_i` is high and each of its
/// ports is free and has `room_i` for its chunk: `take_o`, with `words_o` wide words for each port. `idle_i`
/// (no burst is under way) lets the next one begin at port 0, so that the time of a job does not depend on
/// earlier jobs.
module axi_stripe_cut #(
  parameter int unsigned AddrWidth = 40,
  parameter int unsigned DataBytes = 64,  // of the wide side
  parameter int unsigned Ports = 4,
  parameter int unsigned MaxBurst = 16,   // wide words
  parameter int unsigned RoomWidth = 6,
  localparam int unsigned WordsWidth = $clog2((MaxBurst + Ports - 1) / Ports + 1)
) (
  input  logic                                   clk_i,        // clock
  input  logic                                   rst_ni,       // reset, synchronous
  input  logic                                   enable_i,     // the stripe can take a burst
  input  logic                                   idle_i,       // no burst is under way
  input  logic [Ports-1:0][RoomWidth-1:0]        room_i,       // wide words that each port has room for
  output logic [$clog2(Ports)-1:0]               first_o,      // where the next burst begins
  output logic                                   take_o,       // a burst is taken
  output logic                                   stays_o,      // the next one begins at the last port of this one
  output logic [Ports-1:0][WordsWidth-1:0]       words_o,      // wide words of the burst for each port
  input  logic [AddrWidth-1:0]                   s_axi_addr,   // first byte of the burst
  input  logic [7:0]                             s_axi_len,    // its wide words, less one
  input  logic                                   s_axi_valid,  // it is asked for
  output logic                                   s_axi_ready,  // and is taken
  output logic [Ports-1:0][AddrWidth-1:0]        m_axi_addr,   // first byte of each port's chunk
  output logic [Ports-1:0][7:0]                  m_axi_len,    // its narrow words, less one
  output logic [Ports-1:0]                       m_axi_valid,  // the chunk is asked for
  input  logic [Ports-1:0]                       m_axi_ready   // and is taken
);
  localparam int unsigned Size = $clog2(DataBytes);
  localparam int unsigned PortBits = $clog2(Ports);
  localparam int unsigned NarrowSize = Size - PortBits;
  localparam int unsigned LenBits = MaxBurst > 1 ? $clog2(MaxBurst) : 1;

  if (Ports != 2 && Ports != 4) begin : gen_illegal_ports
    $fatal(1, "Ports must be 2 or 4 in %m");
  end
  if (DataBytes < 2 * Ports || DataBytes > 128 * Ports || (DataBytes & (DataBytes - 1)) != 0) begin : gen_illegal_bytes
    $fatal(1, "DataBytes must be a power of two that gives each port 2..128 bytes in %m");
  end
  if (MaxBurst < 1 || (MaxBurst + Ports - 1) / Ports * Ports > 256) begin : gen_illegal_burst
    $fatal(1, "MaxBurst must lie in 1..256 in %m");
  end
  if (AddrWidth < 13 || RoomWidth < WordsWidth) begin : gen_illegal_width
    $fatal(1, "AddrWidth must be at least 13 and RoomWidth hold a chunk in %m");
  end

  // What is known of a burst by its length, less one: tables, since sums one behind the other take too long.
  logic [MaxBurst-1:0][Ports-1:0][WordsWidth-1:0] shares;   // words of each chunk
  logic [MaxBurst-1:0][Ports-1:0][LenBits-1:0]    starts;   // a chunk's place in the burst
  logic [MaxBurst-1:0][PortBits-1:0]              moves;    // ports from this burst's first to the next one's
  logic [MaxBurst-1:0]                            staying;

  for (genvar l = 0; l < MaxBurst; l++) begin : gen_length
    localparam int unsigned Step = l / Ports + 1;
    localparam int unsigned Used = l / Step + 1;
    assign staying[l] = Used == Ports && (l + 1) % Ports != 0;
    assign moves[l]   = PortBits'(staying[l] ? Used - 1 : Used);
    for (genvar c = 0; c < Ports; c++) begin : gen_chunk
      localparam int unsigned Left = c * Step > l ? 0 : l + 1 - c * Step;
      assign shares[l][c] = WordsWidth'(Left < Step ? Left : Step);
      assign starts[l][c] = LenBits'(c * Step);
    end
  end

  logic [PortBits-1:0]              first_q;
  logic [LenBits-1:0]               len;
  logic [Ports-1:0][WordsWidth-1:0] share;
  logic [Ports-1:0][LenBits-1:0]    from, start;  // of a chunk, of a port
  logic [Ports-1:0][PortBits-1:0]   chunk;
  logic [Ports-1:0]                 fits;
  logic [Ports-1:0]                 valid_q;
  logic [Ports-1:0][AddrWidth-1:0]  addr_q;
  logic [Ports-1:0][7:0]            len_q;

  assign len   = s_axi_len[LenBits-1:0];  // which is below MaxBurst
  assign share = shares[len];
  assign from  = starts[len];

  always_comb begin
    for (int unsigned p = 0; p < Ports; p++) begin
      chunk[p]   = PortBits'(p) - first_q;
      words_o[p] = share[chunk[p]];
      start[p]   = from[chunk[p]];
      fits[p]    = words_o[p] == '0 || (!valid_q[p] && RoomWidth'(words_o[p]) <= room_i[p]);
    end
  end

  assign s_axi_ready = enable_i && (&fits);
  assign take_o      = s_axi_valid && s_axi_ready;
  assign stays_o     = staying[len];
  assign first_o     = first_q;
  assign m_axi_addr  = addr_q;
  assign m_axi_len   = len_q;
  assign m_axi_valid = valid_q;

  always_ff @(posedge clk_i) begin
    if (take_o) first_q <= first_q + moves[len];
    else if (idle_i) first_q <= '0;
    for (int unsigned p = 0; p < Ports; p++) begin
      if (m_axi_ready[p]) valid_q[p] <= 1'b0;
      if (take_o && words_o[p] != '0) begin
        valid_q[p] <= 1'b1;
        // A burst stays in its page, so its chunks differ in the low bits only.
        addr_q[p]  <= {s_axi_addr[AddrWidth-1:12], s_axi_addr[11:0] + (12'(start[p]) << Size)};
        len_q[p]   <= (8'(words_o[p]) << PortBits) - 8'd1;
      end
    end
    if (!rst_ni) begin  // of the others each is set before its use
      first_q <= '0;
      valid_q <= '0;
    end
  end

  logic [Ports-1:0]                held_q;
  logic [Ports-1:0][AddrWidth+7:0] held_value_q;
  always_ff @(posedge clk_i) begin
    for (int unsigned p = 0; p < Ports; p++) begin
      held_q[p]       <= rst_ni && valid_q[p] && !m_axi_ready[p];
      held_value_q[p] <= {addr_q[p], len_q[p]};
      if (rst_ni) begin
        if (held_q[p]) assert (valid_q[p] && {addr_q[p], len_q[p]} == held_value_q[p]);
        if (valid_q[p]) assert (32'(addr_q[p][11:0]) + ((32'(len_q[p]) + 32'd1) << NarrowSize) <= 32'd4096);
        if (valid_q[p]) assert (addr_q[p][Size-1:0] == '0 && 32'(len_q[p]) < (MaxBurst + Ports - 1) / Ports * Ports);
      end
    end
    if (rst_ni && s_axi_valid) begin
      assert (32'(s_axi_len) < MaxBurst && s_axi_addr[Size-1:0] == '0);
      assert (32'(s_axi_addr[11:0]) + ((32'(s_axi_len) + 32'd1) << Size) <= 32'd4096);
    end
  end
endmodule
