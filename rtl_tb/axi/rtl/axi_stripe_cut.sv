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
  input  logic                                   clk_i,
  input  logic                                   rst_ni,
  input  logic                                   enable_i,
  input  logic                                   idle_i,
  input  logic [Ports-1:0][RoomWidth-1:0]        room_i,
  output logic [$clog2(Ports)-1:0]               first_o,  // where the next burst begins
  output logic                                   take_o,
  output logic                                   stays_o,
  output logic [Ports-1:0][WordsWidth-1:0]       words_o,
  input  logic [AddrWidth-1:0]                   s_axi_addr,
  input  logic [7:0]                             s_axi_len,
  input  logic                                   s_axi_valid,
  output logic                                   s_axi_ready,
  output logic [Ports-1:0][AddrWidth-1:0]        m_axi_addr,
  output logic [Ports-1:0][7:0]                  m_axi_len,
  output logic [Ports-1:0]                       m_axi_valid,
  input  logic [Ports-1:0]                       m_axi_ready
);
  localparam int unsigned Size = $clog2(DataBytes);
  localparam int unsigned PortBits = $clog2(Ports);
  localparam int unsigned NarrowSize = Size - PortBits;

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

  logic [PortBits-1:0]             first_q, used;  // `used` modulo Ports
  logic [7:0]                      step;           // words of a full chunk, less one
  logic [Ports-1:0][9:0]           start;          // a chunk's place in the burst
  logic [Ports-1:0][PortBits-1:0]  chunk;
  logic [Ports-1:0]                fits;
  logic [Ports-1:0]                valid_q;
  logic [Ports-1:0][AddrWidth-1:0] addr_q;
  logic [Ports-1:0][7:0]           len_q;

  assign step = s_axi_len >> PortBits;

  always_comb begin
    used = '0;
    for (int unsigned p = 0; p < Ports; p++) begin
      chunk[p]   = PortBits'(p) - first_q;
      start[p]   = '0;  // chunk times its words, without a multiplier
      for (int unsigned b = 0; b < PortBits; b++) if (chunk[p][b]) start[p] = start[p] + ((10'(step) + 10'd1) << b);
      words_o[p] = '0;
      if (start[p] <= 10'(s_axi_len)) begin
        words_o[p] = WordsWidth'(10'(s_axi_len) - start[p] < 10'(step) ? 10'(s_axi_len) - start[p] + 10'd1 : 10'(step) + 10'd1);
        used       = used + 1'b1;
      end
      fits[p] = words_o[p] == '0 || (!valid_q[p] && RoomWidth'(words_o[p]) <= room_i[p]);
    end
  end

  assign s_axi_ready = enable_i && (&fits);
  assign take_o      = s_axi_valid && s_axi_ready;
  assign stays_o     = used == '0 && !(&s_axi_len[PortBits-1:0]);
  assign first_o     = first_q;
  assign m_axi_addr  = addr_q;
  assign m_axi_len   = len_q;
  assign m_axi_valid = valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= '0;
      valid_q <= '0;
      addr_q  <= '0;
      len_q   <= '0;
    end else begin
      if (take_o) first_q <= stays_o ? first_q - 1'b1 : first_q + used;
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
